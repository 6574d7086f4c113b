//! Makes the tables of built-in kinds: types and required fields from the k8s-openapi crate, list types and merge keys
//! from `builtin_facts.txt`, fields whose zero counts as absent from `builtin_plain_fields.txt`.
//! The crate itself is not linked at run time.
//!
//! Output: `schemas.txt`, one line per definition (`name TAB JSON`) and per kind (`#group/version/kind TAB name`), and
//! `descriptions.json.gz`, the prose that only OpenAPI documents need.

use flate2::{Compression, write::GzEncoder};
use k8s_openapi::{
    api::{
        admissionregistration::v1 as admission, apps::v1 as apps, authentication::v1 as authentication,
        authorization::v1 as authorization, autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling_v2,
        batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, networking::v1 as networking, node::v1 as node,
        policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    apimachinery::pkg::apis::meta::v1 as meta,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, env, fs, io::Write, path::Path};

#[path = "build/protobuf.rs"]
mod protobuf;

const FACTS: &str = "builtin_facts.txt";
const PLAIN_FIELDS: &str = "builtin_plain_fields.txt";

fn main() {
    println!("cargo:rerun-if-changed={FACTS}");
    println!("cargo:rerun-if-changed={PLAIN_FIELDS}");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/protobuf.rs");
    protobuf::write(Path::new(&env::var("OUT_DIR").expect("cargo sets OUT_DIR")));
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    macro_rules! kinds {
        ($($group_version:literal: $module:ident { $($kind:ident)* })*) => {$($(
            generator.subschema_for::<$module::$kind>();
            let name = <$module::$kind as schemars::JsonSchema>::schema_name().into_owned();
            kinds.insert(format!("{}/{}", $group_version, stringify!($kind)), name);
        )*)*};
    }
    kinds! {
        "v1": core {
            Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolumeClaim PersistentVolume Pod
            PodTemplate ReplicationController ResourceQuota Secret ServiceAccount Service
        }
        "v1": meta { DeleteOptions }
        "apps/v1": apps { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
        "batch/v1": batch { CronJob Job }
        "autoscaling/v1": autoscaling_v1 { HorizontalPodAutoscaler Scale }
        "autoscaling/v2": autoscaling_v2 { HorizontalPodAutoscaler }
        "rbac.authorization.k8s.io/v1": rbac { ClusterRoleBinding ClusterRole RoleBinding Role }
        "coordination.k8s.io/v1": coordination { Lease }
        "events.k8s.io/v1": events { Event }
        "certificates.k8s.io/v1": certificates { CertificateSigningRequest }
        "authentication.k8s.io/v1": authentication { SelfSubjectReview TokenReview TokenRequest }
        "authorization.k8s.io/v1": authorization {
            LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
        }
        "admissionregistration.k8s.io/v1": admission {
            MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy
            ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
        }
        "apiextensions.k8s.io/v1": apiextensions { CustomResourceDefinition }
        "apiregistration.k8s.io/v1": apiregistration { APIService }
        "discovery.k8s.io/v1": discovery { EndpointSlice }
        "networking.k8s.io/v1": networking { IngressClass Ingress IPAddress NetworkPolicy ServiceCIDR }
        "policy/v1": policy { PodDisruptionBudget Eviction }
        "scheduling.k8s.io/v1": scheduling { PriorityClass }
        "storage.k8s.io/v1": storage { StorageClass VolumeAttachment VolumeAttributesClass CSIDriver CSINode CSIStorageCapacity }
        "node.k8s.io/v1": node { RuntimeClass }
    }
    let mut definitions = generator.take_definitions(true);
    // The schema of a CRD is a schema of any depth; decoding does not look into it.
    definitions.retain(|name, _| leaf(name).is_none());
    let mut descriptions = Map::new();
    for (name, node) in definitions.iter_mut() {
        let mut prose = Map::new();
        if let Some(text) = node.as_object_mut().and_then(|it| it.remove("description")) {
            prose.insert(String::new(), text);
        }
        if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
            for (field, child) in properties {
                if let Some(text) = child.as_object_mut().and_then(|it| it.remove("description")) {
                    prose.insert(field.clone(), text);
                }
            }
        }
        tidy(node);
        descriptions.insert(name.clone(), Value::Object(prose));
    }
    for node in definitions.values_mut() {
        // The crate's own idea: Kubernetes asks for a name when it validates.
        require(node, "metadata", false);
    }
    state_facts(&mut definitions);
    mark_plain_fields(&mut definitions);

    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let mut text = String::new();
    for (kind, name) in &kinds {
        text.push_str(&format!("#{kind}\t{name}\n"));
    }
    for (name, node) in &definitions {
        text.push_str(&format!("{name}\t{node}\n"));
    }
    fs::write(Path::new(&out).join("schemas.txt"), text).expect("OUT_DIR is writable");
    let file = fs::File::create(Path::new(&out).join("descriptions.json.gz")).expect("OUT_DIR is writable");
    let mut gz = GzEncoder::new(file, Compression::best());
    gz.write_all(Value::Object(descriptions).to_string().as_bytes())
        .expect("OUT_DIR is writable");
    gz.finish().expect("OUT_DIR is writable");
}

/// What stands in for a definition that is a value rather than a struct.
fn leaf(name: &str) -> Option<Value> {
    let opaque = json!({"x-opaque": true, "x-kubernetes-preserve-unknown-fields": true});
    let atomic = json!({"type": "object", "x-opaque": true, "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic"});
    let any =
        json!({"x-opaque": true, "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic"});
    Some(match name.rsplit('.').next().unwrap_or(name) {
        "IntOrString" => json!({"x-kubernetes-int-or-string": true}),
        "Quantity" => json!({"type": "string", "format": "quantity"}),
        "Time" => json!({"type": "string", "format": "date-time"}),
        "MicroTime" => json!({"type": "string", "format": "micro-time"}),
        "RawExtension" | "FieldsV1" => atomic,
        "JSON" => any,
        "JSONSchemaProps" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            opaque
        }
        _ => return None,
    })
}

/// Resolves references to leaves, shortens the others to bare names, and drops what is not needed.
fn tidy(node: &mut Value) {
    match node {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                let name = reference.rsplit('/').next().unwrap_or("").to_owned();
                match leaf(&name) {
                    Some(mut leaf) => {
                        // Published by its name, where it has one.
                        leaf["x-leaf"] = name.into();
                        *node = leaf;
                    }
                    None => *node = json!({"$ref": name}),
                }
                return;
            }
            if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
                properties.values_mut().for_each(tidy);
            }
            for key in ["items", "additionalProperties"] {
                if let Some(child) = map.get_mut(key) {
                    tidy(child);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Adds the facts of `builtin_facts.txt`. A fact about a field that does not exist stops the build.
fn state_facts(definitions: &mut Map<String, Value>) {
    let text = fs::read_to_string(FACTS).expect("the table of facts is next to build.rs");
    for line in text
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
    {
        let mut words = line.split_whitespace();
        let (Some(definition), Some(field)) = (words.next(), words.next()) else {
            panic!("{FACTS}: incomplete line: {line}")
        };
        let name = full_name(definition);
        let node = definitions
            .get_mut(&name)
            .unwrap_or_else(|| panic!("{FACTS}: no definition {name}"));
        let words: Vec<_> = words.collect();
        for word in &words {
            if let "optional" | "required" = *word {
                require(node, field, *word == "required");
            }
        }
        let node = match field {
            "." => node,
            field => node
                .pointer_mut(&format!("/properties/{field}"))
                .unwrap_or_else(|| panic!("{FACTS}: no field {definition} {field}")),
        };
        let node = node.as_object_mut().expect("a schema is an object");
        let mut strategies = Vec::new();
        for fact in words {
            let (fact, value) = fact.split_once('=').unwrap_or((fact, ""));
            match fact {
                "map" => {
                    node.insert("x-kubernetes-list-type".into(), "map".into());
                    node.insert("x-kubernetes-list-map-keys".into(), value.split(',').collect());
                }
                "set" => {
                    node.insert("x-kubernetes-list-type".into(), "set".into());
                }
                "merge" => {
                    strategies.push("merge");
                    if !value.is_empty() {
                        node.insert("x-kubernetes-patch-merge-key".into(), value.into());
                    }
                }
                "retainKeys" | "replace" => strategies.push(if fact == "replace" { "replace" } else { "retainKeys" }),
                "atomic" | "granular" => {
                    node.insert("x-kubernetes-map-type".into(), fact.into());
                }
                "default" => {
                    node.insert("default".into(), value.into());
                }
                "enum" => {
                    let values: Value = value.split(',').collect();
                    match node.get_mut("items") {
                        Some(items) => items["enum"] = values,
                        None => {
                            node.insert("enum".into(), values);
                        }
                    }
                }
                "optional" | "required" => {}
                other => panic!("{FACTS}: unknown fact {other}"),
            }
        }
        if !strategies.is_empty() {
            node.insert("x-kubernetes-patch-strategy".into(), strategies.join(",").into());
        }
    }
}

/// Marks the fields of `builtin_plain_fields.txt`. One that does not exist stops the build.
fn mark_plain_fields(definitions: &mut Map<String, Value>) {
    let text = fs::read_to_string(PLAIN_FIELDS).expect("the table of plain fields is next to build.rs");
    for line in text.lines().filter(|it| !it.is_empty() && !it.starts_with('#')) {
        let mut words = line.split_whitespace();
        let definition = words.next().unwrap_or_default();
        let node = definitions
            .get_mut(&full_name(definition))
            .unwrap_or_else(|| panic!("{PLAIN_FIELDS}: no definition {definition}"));
        for field in words {
            let field = node
                .pointer_mut(&format!("/properties/{field}"))
                .unwrap_or_else(|| panic!("{PLAIN_FIELDS}: no field {definition} {field}"));
            field["x-omit-zero"] = true.into();
        }
    }
}

/// Says whether a definition asks for a field.
fn require(definition: &mut Value, field: &str, is_required: bool) {
    let mut required: Vec<Value> = definition["required"].as_array().cloned().unwrap_or_default();
    required.retain(|it| it != field);
    if is_required {
        required.push(field.into());
    }
    if required.is_empty() {
        definition.as_object_mut().map(|it| it.remove("required"));
    } else {
        definition["required"] = required.into();
    }
}

fn full_name(short: &str) -> String {
    let prefix = match short.split('.').next().unwrap_or("") {
        "meta" => "io.k8s.apimachinery.pkg.apis",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{prefix}.{short}")
}
