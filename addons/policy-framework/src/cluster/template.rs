//! Templates of a Policy, and the objects that they become. Plain functions on plain data.
//! Upstream: `controllers/templatesync/template_sync.go`.

use std::collections::{BTreeMap, BTreeSet};

use ocm_addon_sdk::{
    k8s_openapi::{
        apiextensions_apiserver::pkg::apis::apiextensions::v1::{
            CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
        },
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    },
    kube::{ResourceExt, core::DynamicObject},
    ocm_api::policy::{self, ComplianceState, Policy, PolicyDependency},
};
use serde_json::{Map, Value, json};

use super::{
    discovery::{KindName, of_gatekeeper},
    gatekeeper::{self, GatekeeperKind},
};

/// An object that something waits for, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DependencyName {
    /// Its kind.
    pub kind: KindName,
    /// Its namespace; empty for none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl DependencyName {
    /// Policies and what they carry are always in the namespace of the cluster: the framework may look into no other.
    fn of(dependency: &PolicyDependency, cluster_namespace: &str) -> Self {
        let kind = KindName::new(&dependency.api_version, &dependency.kind);
        let is_policy = kind.group == policy::GROUP && kind.kind.ends_with("Policy");
        Self {
            namespace: match is_policy {
                true => cluster_namespace.to_owned(),
                false => dependency.namespace.clone(),
            },
            name: dependency.name.clone(),
            kind,
        }
    }
}

/// What has to be in which state.
pub type Dependencies = BTreeMap<DependencyName, String>;

/// One template of a Policy, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// An object with a name.
    Object {
        /// Its kind.
        kind: KindName,
        /// Its name.
        name: String,
        /// What has to be in which state before it is made.
        dependencies: Dependencies,
    },
    /// It cannot be carried out; why, and whether that is about its dependencies.
    Broken {
        /// The sentence.
        why: String,
        /// Which of the counters it is for.
        counts_as: &'static str,
        /// Whether its kind has no namespaces, as far as can be told.
        cluster_scoped: bool,
    },
}

/// Reads the templates of a Policy, and what it depends on as a whole.
pub fn read(it: &Policy, cluster_namespace: &str) -> Vec<Written> {
    let mut of_all = Dependencies::new();
    for dependency in &it.spec.dependencies {
        // Of two that contradict each other the first counts.
        of_all
            .entry(DependencyName::of(dependency, cluster_namespace))
            .or_insert_with(|| dependency.compliance.clone());
    }
    let templates = it.spec.policy_templates.iter().enumerate();
    templates
        .map(|(index, template)| {
            let object = &template.object_definition;
            let kind = KindName::new(text(object, "apiVersion"), text(object, "kind"));
            if kind.kind.is_empty() {
                let why = format!("Object 'Kind' is missing in '{}'", as_go_writes(object));
                return Written::broken(
                    format!("Failed to decode policy template with err: {why}"),
                    "format-error",
                    false,
                );
            }
            let is_gatekeepers = of_gatekeeper(&kind).is_some();
            let mut dependencies = of_all.clone();
            for extra in &template.extra_dependencies {
                let name = DependencyName::of(extra, cluster_namespace);
                if dependencies.get(&name).is_some_and(|it| *it != extra.compliance) {
                    let why = format!("dependency on {} has conflicting compliance states", extra.name);
                    let why = format!("Failed to decode policy template with err: {why}");
                    return Written::broken(why, "dependency-error", is_gatekeepers);
                }
                dependencies.insert(name, extra.compliance.clone());
            }
            let name = text(&object["metadata"], "name").to_owned();
            if name.is_empty() {
                let why = format!("Failed to parse or get name from policy template at index {index}");
                return Written::broken(why, "format-error", is_gatekeepers);
            }
            Written::Object {
                kind,
                name,
                dependencies,
            }
        })
        .collect()
}

impl Written {
    fn broken(why: String, counts_as: &'static str, cluster_scoped: bool) -> Self {
        Self::Broken {
            why,
            counts_as,
            cluster_scoped,
        }
    }
}

/// The first name that two templates have.
pub fn duplicate(it: &Policy) -> Option<String> {
    let mut names = BTreeSet::new();
    let mut templates = it.spec.policy_templates.iter();
    let name = templates.find_map(|it| {
        let name = text(&it.object_definition["metadata"], "name");
        (!names.insert(name)).then_some(name)
    })?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// What waits for dependencies says; the objects that are not as they have to be.
pub fn pending_text(unmet: &[DependencyName]) -> String {
    let mut names: Vec<String> = unmet.iter().map(|it| format!("{} {}", it.kind.kind, it.name)).collect();
    names.sort();
    let be = if names.len() == 1 { "is" } else { "are" };
    format!(
        "Dependencies were not satisfied: {} {be} still pending ({})",
        names.len(),
        names.join(", ")
    )
}

/// Whether an object is in the state that something waits for.
pub fn is_met(dependency: &DependencyName, wanted: &str, found: Option<&DynamicObject>) -> bool {
    let wants_compliant = wanted == ComplianceState::Compliant.as_str();
    let Some(object) = found else {
        return dependency.kind.group == gatekeeper::TEMPLATES && !wants_compliant;
    };
    match dependency.kind.group.as_str() {
        gatekeeper::TEMPLATES => wants_compliant,
        gatekeeper::CONSTRAINTS => {
            let violations = object.data["status"]["totalViolations"].as_i64();
            violations.is_some_and(|it| (it == 0) == wants_compliant)
        }
        _ => object.data["status"]["compliant"].as_str() == Some(wanted),
    }
}

/// The object of a template as it has to be on the cluster, apart from its owners.
pub fn wanted(it: &Policy, template: &Value, namespace: Option<&str>, cluster_namespace: &str) -> Value {
    let mut object = template.clone();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    match namespace {
        Some(namespace) => object["metadata"]["namespace"] = namespace.into(),
        None => {
            object["metadata"].as_object_mut().map(|it| it.remove("namespace"));
        }
    }
    if !object["metadata"]["labels"].is_object() {
        object["metadata"]["labels"] = json!({});
    }
    let cluster_name = it
        .labels()
        .get(policy::labels::CLUSTER_NAME)
        .cloned()
        .unwrap_or_default();
    let labels = &mut object["metadata"]["labels"];
    labels[policy::labels::POLICY] = it.name_any().into();
    for (key, value) in [
        ("cluster-name", cluster_name.as_str()),
        (policy::labels::CLUSTER_NAME, cluster_name.as_str()),
        ("cluster-namespace", cluster_namespace),
        (policy::labels::CLUSTER_NAMESPACE, cluster_namespace),
    ] {
        labels[key] = value.into();
    }
    override_remediation(&it.spec.remediation_action, &mut object);
    object
}

fn override_remediation(of_policy: &str, object: &mut Value) {
    let kind = KindName::new(text(object, "apiVersion"), text(object, "kind"));
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match kind.group.as_str() {
        gatekeeper::TEMPLATES => {}
        gatekeeper::CONSTRAINTS => {
            let action = match of_policy.to_lowercase().as_str() {
                "inform" => "warn",
                "enforce" => "deny",
                _ => return,
            };
            spec.insert("enforcementAction".to_owned(), action.into());
        }
        _ => {
            let own = spec
                .get("remediationAction")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let action = match own.eq_ignore_ascii_case("informonly") {
                true => "inform",
                false if of_policy.is_empty() => return,
                false => of_policy,
            };
            spec.insert("remediationAction".to_owned(), action.into());
        }
    }
}

/// Who owns the objects of a Policy.
pub fn owner(it: &Policy) -> OwnerReference {
    OwnerReference {
        api_version: Policy::API_VERSION.to_owned(),
        kind: Policy::KIND.to_owned(),
        name: it.name_any(),
        uid: it.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The Policy that an object on the cluster belongs to: its first owner, else that of its label.
pub fn belongs_to(object: &DynamicObject) -> Option<&str> {
    let owner = object.owner_references().first().map(|it| it.name.as_str());
    let label = object.labels().get(policy::labels::POLICY).map(String::as_str);
    owner.or(label).filter(|it| !it.is_empty())
}

/// Whether an object on the cluster is what it has to be; owners are compared by who compares owners.
pub fn is_as_wanted(object: &DynamicObject, wanted: &Value) -> bool {
    let contains = |field: &str, has: &BTreeMap<String, String>| {
        let wanted = wanted["metadata"][field].as_object();
        let mut wanted = wanted.into_iter().flatten();
        wanted.all(|(key, value)| has.get(key).map(String::as_str) == value.as_str())
    };
    object.data.get("spec").unwrap_or(&Value::Null) == &wanted["spec"]
        && contains("annotations", object.annotations())
        && contains("labels", object.labels())
}

/// Fills in what the API server would fill in, so that a template that leaves it out is as the object is.
pub fn fill_defaults(object: &mut Value, version: &str, definition: Option<&CustomResourceDefinition>) {
    let kind = KindName::new(text(object, "apiVersion"), text(object, "kind"));
    let Some(spec) = object.get_mut("spec").filter(|it| it.is_object()) else {
        return;
    };
    if let Some(GatekeeperKind::Template) = of_gatekeeper(&kind) {
        let validation = spec.pointer_mut("/crd/spec/validation").and_then(Value::as_object_mut);
        if let Some(validation) = validation {
            validation
                .entry("legacySchema")
                .or_insert_with(|| (version != "v1").into());
        }
    }
    let versions = definition.into_iter().flat_map(|it| &it.spec.versions);
    let schema = versions.filter(|it| it.name == version).find_map(|it| {
        it.schema
            .as_ref()?
            .open_api_v3_schema
            .as_ref()?
            .properties
            .as_ref()?
            .get("spec")
    });
    if let Some(schema) = schema {
        fill(spec, schema, 0);
    }
}

/// Deeper than any object that an API server takes.
const DEPTH_MAX: usize = 64;

fn fill(value: &mut Value, schema: &JSONSchemaProps, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(fields) => fill_fields(fields, schema, depth),
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(of_item)) = &schema.items {
                items.iter_mut().for_each(|it| fill(it, of_item, depth + 1));
            }
        }
        _ => {}
    }
}

fn fill_fields(fields: &mut Map<String, Value>, schema: &JSONSchemaProps, depth: usize) {
    for (name, of_field) in schema.properties.iter().flatten() {
        if let Some(default) = &of_field.default
            && !fields.contains_key(name)
        {
            fields.insert(name.clone(), default.0.clone());
        }
        if let Some(field) = fields.get_mut(name) {
            fill(field, of_field, depth + 1);
        }
    }
    if let Some(JSONSchemaPropsOrBool::Schema(of_others)) = &schema.additional_properties {
        fields.values_mut().for_each(|it| fill(it, of_others, depth + 1));
    }
}

/// JSON as Go's encoder writes it: what could be HTML is escaped.
fn as_go_writes(value: &Value) -> String {
    let mut text = String::new();
    for letter in value.to_string().chars() {
        match letter {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(spec: Value) -> Policy {
        let labels = json!({"policy.open-cluster-management.io/cluster-name": "c1"});
        serde_json::from_value(json!({"metadata": {"name": "ns.p", "namespace": "c1", "labels": labels}, "spec": spec}))
            .unwrap()
    }

    fn whys(spec: Value) -> Vec<String> {
        let broken = |it: Written| match it {
            Written::Broken { why, .. } => Some(why),
            Written::Object { .. } => None,
        };
        read(&policy(spec), "c1").into_iter().filter_map(broken).collect()
    }

    #[test]
    fn what_is_no_object_with_a_name_says_why() {
        let on = |compliance: &str| {
            json!({"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy", "name": "x",
                "compliance": compliance})
        };
        let object = |name: &str| json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": name}});
        let texts = whys(json!({
            "dependencies": [on("Compliant"), on("NonCompliant")],
            "policy-templates": [
                {"objectDefinition": {"metadata": {"name": "<a>"}}},
                {"objectDefinition": object("")},
                {"objectDefinition": object("b"), "extraDependencies": [on("NonCompliant")]},
                {"objectDefinition": object("c"), "extraDependencies": [on("Compliant")]},
            ],
        }));
        assert_eq!(
            texts,
            [
                r#"Failed to decode policy template with err: Object 'Kind' is missing in '{"metadata":{"name":"\u003ca\u003e"}}'"#,
                "Failed to parse or get name from policy template at index 1",
                "Failed to decode policy template with err: dependency on x has conflicting compliance states",
            ]
        );
    }

    #[test]
    fn dependencies_that_wait_are_told_in_order() {
        let name = |kind: &str, name: &str| DependencyName {
            kind: KindName::new("v1", kind),
            namespace: String::new(),
            name: name.to_owned(),
        };
        assert_eq!(
            pending_text(&[name("FooPolicy", "foo")]),
            "Dependencies were not satisfied: 1 is still pending (FooPolicy foo)"
        );
        assert_eq!(
            pending_text(&[name("B", "x"), name("A", "y")]),
            "Dependencies were not satisfied: 2 are still pending (A y, B x)"
        );
    }

    #[test]
    fn states_of_gatekeepers_kinds_are_read_from_what_they_have() {
        let dependency = |group: &str| DependencyName {
            kind: KindName::new(&format!("{group}/v1"), "K"),
            namespace: String::new(),
            name: "x".to_owned(),
        };
        let object = |status: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "x"}, "status": status})).unwrap()
        };
        let (template, constraint) = (dependency(gatekeeper::TEMPLATES), dependency(gatekeeper::CONSTRAINTS));
        let there = object(json!({}));
        assert!(is_met(&template, "Compliant", Some(&there)) && !is_met(&template, "NonCompliant", Some(&there)));
        assert!(!is_met(&template, "Compliant", None) && is_met(&template, "NonCompliant", None));
        assert!(!is_met(&constraint, "Compliant", Some(&there)) && !is_met(&constraint, "NonCompliant", None));
        let violated = object(json!({"totalViolations": 2}));
        assert!(
            !is_met(&constraint, "Compliant", Some(&violated)) && is_met(&constraint, "NonCompliant", Some(&violated))
        );
        let other = dependency(policy::GROUP);
        let pending = object(json!({"compliant": "Pending"}));
        assert!(is_met(&other, "Pending", Some(&pending)) && !is_met(&other, "Compliant", Some(&pending)));
    }

    #[test]
    fn the_action_of_the_policy_overrides_that_of_the_template() {
        let of = |of_policy: &str, api_version: &str, own: Value| {
            let it = policy(json!({"remediationAction": of_policy}));
            let template = json!({"apiVersion": api_version, "kind": "K", "metadata": {"name": "x"}, "spec": own});
            wanted(&it, &template, Some("c1"), "c1")["spec"].clone()
        };
        let group = "policy.open-cluster-management.io/v1";
        let action = |it: &str| json!({"remediationAction": it});
        assert_eq!(of("Enforce", group, action("inform")), action("Enforce"));
        assert_eq!(of("enforce", group, action("InformOnly")), action("inform"));
        assert_eq!(of("", group, action("enforce")), action("enforce"));
        let constraint = "constraints.gatekeeper.sh/v1beta1";
        assert_eq!(
            of("Inform", constraint, json!({})),
            json!({"enforcementAction": "warn"})
        );
        assert_eq!(
            of("enforce", constraint, json!({})),
            json!({"enforcementAction": "deny"})
        );
        assert_eq!(of("enforce", "templates.gatekeeper.sh/v1", json!({})), json!({}));
    }

    #[test]
    fn an_object_has_the_labels_of_its_policy() {
        let template = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "x", "labels": {"a": "b"}}});
        let object = wanted(&policy(json!({})), &template, Some("managed"), "managed");
        assert_eq!(
            object["metadata"],
            json!({"name": "x", "namespace": "managed", "labels": {
                "a": "b", "cluster-name": "c1", "cluster-namespace": "managed",
                "policy.open-cluster-management.io/policy": "ns.p",
                "policy.open-cluster-management.io/cluster-name": "c1",
                "policy.open-cluster-management.io/cluster-namespace": "managed",
            }})
        );
    }

    #[test]
    fn defaults_of_the_definition_are_filled_in() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "prune": {"type": "string", "default": "None"},
            "config": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "b"}}},
            "items": {"type": "array", "items": {"type": "object", "properties": {"r": {"default": "None"}}}},
        }}}});
        let definition: CustomResourceDefinition = serde_json::from_value(json!({"metadata": {}, "spec": {
            "group": "g", "scope": "Namespaced", "names": {"kind": "K", "plural": "ks"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        }}))
        .unwrap();
        let mut object = json!({"apiVersion": "g/v1", "kind": "K", "spec": {"items": [{}, {"r": "x"}]}});
        fill_defaults(&mut object, "v1", Some(&definition));
        assert_eq!(
            object["spec"],
            json!({"prune": "None", "config": {"a": "b"}, "items": [{"r": "None"}, {"r": "x"}]})
        );
    }

    #[test]
    fn two_templates_of_one_name_are_found() {
        let template = |kind: &str, name: &str| json!({"objectDefinition": {"kind": kind, "metadata": {"name": name}}});
        let of = |all: [Value; 2]| duplicate(&policy(json!({"policy-templates": all})));
        assert_eq!(of([template("A", "x"), template("B", "x")]).as_deref(), Some("x"));
        assert_eq!(of([template("A", "x"), template("A", "y")]), None);
        assert_eq!(of([template("A", ""), template("A", "")]), None);
    }
}
