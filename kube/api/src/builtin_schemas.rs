//! Schemas of the kinds that Kubernetes itself brings, from tables made at build time.
//! A kind is expanded when it is first asked for; definitions such as `PodSpec` are shared by all that use them.

use flate2::read::GzDecoder;
use kube_store::schema::Schema;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    io::Read,
    sync::{Arc, LazyLock},
};

const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/schemas.txt"));
const DESCRIPTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.json.gz"));

struct Index {
    /// `apps/v1/Deployment` to the name of its definition.
    kinds: BTreeMap<&'static str, &'static str>,
    definitions: HashMap<&'static str, &'static str>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index {
        kinds: BTreeMap::new(),
        definitions: HashMap::new(),
    };
    for (name, rest) in TABLE.lines().filter_map(|line| line.split_once('\t')) {
        match name.strip_prefix('#') {
            Some(kind) => {
                index.kinds.insert(kind, rest);
            }
            None => {
                index.definitions.insert(name, rest);
            }
        }
    }
    index
});

fn key(group: &str, version: &str, kind: &str) -> String {
    if group.is_empty() {
        format!("{version}/{kind}")
    } else {
        format!("{group}/{version}/{kind}")
    }
}

/// The schema of a built-in kind.
pub fn schema(group: &str, version: &str, kind: &str) -> Option<Arc<Schema>> {
    definition(INDEX.kinds.get(key(group, version, kind).as_str())?)
}

/// The schema of a definition such as `io.k8s.api.core.v1.PodSpec`.
pub fn definition(name: &str) -> Option<Arc<Schema>> {
    static MADE: LazyLock<Mutex<HashMap<&'static str, Arc<Schema>>>> = LazyLock::new(Mutex::default);
    if let Some(made) = MADE.lock().get(name) {
        return Some(made.clone());
    }
    let (name, text) = INDEX.definitions.get_key_value(name)?;
    let node: Value = serde_json::from_str(text).expect("the build wrote JSON");
    let mut schema = Schema::from_openapi_with(&node, &definition).expect("the build wrote well-formed schemas");
    schema.name = Some(Arc::from(*name));
    Some(MADE.lock().entry(name).or_insert_with(|| Arc::new(schema)).clone())
}

/// Every built-in kind that has a schema, as group, version and kind.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    INDEX.kinds.keys().map(|it| {
        let (group_version, kind) = it.rsplit_once('/').expect("keys have a kind");
        let (group, version) = group_version.rsplit_once('/').unwrap_or(("", group_version));
        (group, version, kind)
    })
}

/// `components.schemas` of the OpenAPI v3 document of a group and version; `None` when it has no built-in kind.
pub fn openapi_v3(group: &str, version: &str) -> Option<Value> {
    let here: Vec<_> = kinds().filter(|it| (it.0, it.1) == (group, version)).collect();
    if here.is_empty() {
        return None;
    }
    let mut prose = String::new();
    GzDecoder::new(DESCRIPTIONS)
        .read_to_string(&mut prose)
        .expect("the build compressed it");
    let prose: Value = serde_json::from_str(&prose).expect("the build wrote JSON");
    let mut schemas = Map::new();
    for (group, version, kind) in here {
        let name = INDEX.kinds[key(group, version, kind).as_str()];
        collect(name, &prose, &mut schemas);
        schemas[name]["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
    }
    Some(Value::Object(schemas))
}

fn collect(name: &str, prose: &Value, schemas: &mut Map<String, Value>) {
    if schemas.contains_key(name) {
        return;
    }
    let Some(text) = INDEX.definitions.get(name) else {
        return;
    };
    let mut node: Value = serde_json::from_str(text).expect("the build wrote JSON");
    // Entered before its members are followed, so that a cycle ends.
    schemas.insert(name.to_owned(), Value::Null);
    let words = prose.get(name);
    publish(&mut node, prose, schemas);
    if let Some(text) = words.and_then(|it| it.get("")) {
        node["description"] = text.clone();
    }
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        for (field, child) in properties {
            if let Some(text) = words.and_then(|it| it.get(field)) {
                child["description"] = text.clone();
            }
        }
    }
    schemas.insert(name.to_owned(), node);
}

/// The definitions that are values rather than structs, as Kubernetes publishes them.
fn leaf(name: &str) -> Option<Value> {
    let either = |one: &str, other: &str| json!([{"type": one}, {"type": other}]);
    Some(match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            json!({"description": "A number with a unit, such as 1500m or 128Mi.", "oneOf": either("string", "number")})
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => json!({
            "description": "A number, or a text: a name, or a percentage.", "format": "int-or-string",
            "oneOf": either("integer", "string"),
        }),
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => {
            json!({"description": "A time by RFC 3339, to the second.", "type": "string", "format": "date-time"})
        }
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => {
            json!({"description": "A time by RFC 3339, to the microsecond.", "type": "string", "format": "date-time"})
        }
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1" => {
            json!({"description": "A set of fields: f: is a field, k: an item by its keys, v: an item by its value.", "type": "object"})
        }
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => json!({"description": "Any object.", "type": "object"}),
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON" => json!({"description": "Any JSON value."}),
        _ => return None,
    })
}

/// Turns a node of the table into what Kubernetes publishes.
fn publish(node: &mut Value, prose: &Value, schemas: &mut Map<String, Value>) {
    let Some(map) = node.as_object_mut() else { return };
    if let Some(Value::String(name)) = map.remove("x-leaf")
        && let Some(leaf) = leaf(&name)
    {
        let reference = json!([{"$ref": format!("#/components/schemas/{name}")}]);
        schemas.entry(name).or_insert(leaf);
        let description = map.remove("description");
        map.clear();
        map.extend(description.map(|it| ("description".to_owned(), it)));
        map.insert("allOf".to_owned(), reference);
        return;
    }
    map.remove("x-opaque");
    map.remove("x-omit-zero");
    if map.get("x-kubernetes-map-type").is_some_and(|it| it == "granular") {
        map.remove("x-kubernetes-map-type");
    }
    if let Some(Value::String(name)) = map.remove("$ref") {
        collect(&name, prose, schemas);
        map.insert(
            "allOf".to_owned(),
            json!([{"$ref": format!("#/components/schemas/{name}")}]),
        );
    }
    if map.remove("x-kubernetes-int-or-string").is_some() {
        map.insert("format".to_owned(), "int-or-string".into());
        map.insert("oneOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    match map.get("format").and_then(Value::as_str) {
        Some("quantity") => {
            map.remove("format");
            map.remove("type");
            map.insert("oneOf".to_owned(), json!([{"type": "string"}, {"type": "number"}]));
        }
        Some("micro-time") => {
            map.insert("format".to_owned(), "date-time".into());
        }
        _ => {}
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|it| publish(it, prose, schemas));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = map.get_mut(key) {
            publish(child, prose, schemas);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_store::schema::{ListType, Type, decode::decode};

    #[test]
    fn every_kind_has_metadata_in_its_schema_except_delete_options() {
        let mut count = 0;
        for (group, version, kind) in kinds() {
            let schema = schema(group, version, kind).expect("listed kinds have schemas");
            assert_eq!(schema.ty, Type::Object, "{kind}");
            assert!(
                schema.properties.contains_key("metadata") || kind == "DeleteOptions",
                "{kind}"
            );
            count += 1;
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn definitions_are_shared() {
        let deployment = schema("apps", "v1", "Deployment").expect("built in");
        let pod = schema("", "v1", "Pod").expect("built in");
        assert!(Arc::ptr_eq(
            &deployment.properties["metadata"],
            &pod.properties["metadata"]
        ));
    }

    #[test]
    fn lists_know_how_they_merge() {
        let spec = definition("io.k8s.api.core.v1.PodSpec").expect("built in");
        let containers = &spec.properties["containers"];
        assert_eq!(containers.list_type, ListType::Map);
        assert_eq!(
            (
                containers.list_map_keys.as_slice(),
                containers.patch_merge_key.as_deref()
            ),
            (&["name".to_owned()][..], Some("name"))
        );
        assert!(containers.patch_merge);
        let volumes = &spec.properties["volumes"];
        assert!(volumes.patch_merge && volumes.patch_retain_keys);
        let container = containers.items.as_ref().expect("items");
        assert_eq!(
            container.properties["ports"].list_map_keys,
            ["containerPort", "protocol"]
        );
        assert_eq!(
            container.properties["ports"].patch_merge_key.as_deref(),
            Some("containerPort")
        );
        let selector = &schema("apps", "v1", "Deployment").expect("built in").properties["spec"].properties["selector"];
        assert!(selector.atomic_map);
        let claim_ref = &definition("io.k8s.api.core.v1.PersistentVolumeSpec")
            .expect("built in")
            .properties["claimRef"];
        assert!(!claim_ref.atomic_map);
    }

    #[test]
    fn a_deployment_is_decoded_as_go_would() {
        let schema = schema("apps", "v1", "Deployment").expect("built in");
        let mut value = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "creationTimestamp": null},
            "spec": {"template": {"metadata": {"creationTimestamp": null}, "spec": {"containers": [
                {"name": "c", "image": "i", "imagee": "x", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}},
            ]}}},
            "status": {},
        });
        let unknown = decode(&mut value, &schema, "Deployment").expect("decodes");
        assert_eq!(unknown, ["spec.template.spec.containers[0].imagee"]);
        let container = &value["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"], json!({"cpu": "1", "memory": "1Gi"}));
        let mut wrong = json!({"spec": {"template": {"spec": {"containers": [{"name": 5}]}}}});
        assert_eq!(
            decode(&mut wrong, &schema, "Deployment"),
            Err("json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string".to_owned())
        );
        let mut wrong = json!({"spec": "x"});
        assert_eq!(
            decode(&mut wrong, &schema, "Deployment"),
            Err(
                "json: cannot unmarshal string into Go struct field Deployment.spec of type v1.DeploymentSpec"
                    .to_owned()
            )
        );
    }

    #[test]
    fn the_schema_of_a_crd_is_kept_whole() {
        let schema = schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition").expect("built in");
        let open = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let mut value = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": open}}]}});
        assert_eq!(decode(&mut value, &schema, "CustomResourceDefinition"), Ok(vec![]));
        assert_eq!(value["spec"]["versions"][0]["schema"]["openAPIV3Schema"], open);
    }

    #[test]
    fn openapi_documents_have_what_explain_reads() {
        let document = openapi_v3("apps", "v1").expect("built in");
        let deployment = &document["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(deployment["x-kubernetes-group-version-kind"][0]["kind"], "Deployment");
        assert!(
            deployment["description"]
                .as_str()
                .expect("prose")
                .starts_with("Deployment enables")
        );
        assert_eq!(
            deployment["properties"]["spec"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"
        );
        assert_eq!(
            document["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]["x-kubernetes-list-type"],
            "map"
        );
        assert!(openapi_v3("example.com", "v1").is_none());
    }
}
