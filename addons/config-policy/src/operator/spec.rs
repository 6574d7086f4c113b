//! The OperatorGroup and the Subscription that an OperatorPolicy describes, and what can be wrong with them. The texts
//! are those of Go's JSON decoder where upstream shows them.
//! Upstream: config-policy-controller `buildSubscription`, `buildOperatorGroup`.

use ocm_addon_sdk::k8s_openapi::{
    api::core::v1::{Affinity, EnvFromSource, EnvVar, Toleration, Volume, VolumeMount},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{OPERATOR_GROUP, SUBSCRIPTION};
use crate::evaluate::go_types::json_name;

/// The Subscription that a policy wants, or does not want.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedSubscription {
    /// Its namespace; empty as long as nobody has named one.
    pub namespace: String,
    /// Its spec.
    pub spec: Map<String, Value>,
}

impl WantedSubscription {
    /// A text in its spec; empty where there is none.
    pub fn field(&self, name: &str) -> &str {
        self.spec.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its name, which is that of the package.
    pub fn name(&self) -> &str {
        self.field("name")
    }

    /// Fills in a field that the policy leaves open.
    pub fn fill(&mut self, field: &str, value: &str) {
        if self.field(field).is_empty() && !value.is_empty() {
            self.spec.insert(field.to_owned(), value.into());
        }
    }

    /// The object.
    pub fn object(&self) -> Value {
        json!({
            "apiVersion": SUBSCRIPTION.api_version,
            "kind": SUBSCRIPTION.kind,
            "metadata": {"name": self.name(), "namespace": self.namespace},
            "spec": self.spec,
        })
    }
}

/// The OperatorGroup that a policy wants, or does not want.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedGroup {
    /// Its namespace.
    pub namespace: String,
    /// Its name; `None` where the API server makes one up.
    pub name: Option<String>,
    /// Its spec.
    pub spec: Map<String, Value>,
}

impl WantedGroup {
    /// The one of a policy that describes none: for all namespaces.
    fn for_all_namespaces(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: None,
            spec: Map::new(),
        }
    }

    /// Whether the policy describes it.
    pub fn is_described(&self) -> bool {
        self.name.is_some()
    }

    /// What names are made from.
    pub fn generate_name(&self) -> String {
        format!("{}-", self.namespace)
    }

    /// The namespaces that it names.
    pub fn target_namespaces(&self) -> &[Value] {
        let targets = self.spec.get("targetNamespaces").and_then(Value::as_array);
        targets.map(Vec::as_slice).unwrap_or_default()
    }

    /// The object.
    pub fn object(&self) -> Value {
        let mut metadata = json!({"namespace": self.namespace});
        match &self.name {
            Some(name) => metadata["name"] = name.as_str().into(),
            None => metadata["generateName"] = self.generate_name().into(),
        }
        json!({
            "apiVersion": OPERATOR_GROUP.api_version,
            "kind": OPERATOR_GROUP.kind,
            "metadata": metadata,
            "spec": self.spec,
        })
    }
}

/// How upgrades are approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanApproval {
    /// By the policy, one InstallPlan at a time.
    Manual,
    /// By OLM.
    Automatic,
}

/// Reads `spec.subscription`, whose templates have been rendered.
///
/// # Errors
/// What is wrong with it.
pub fn subscription(described: &Value, approval: PlanApproval) -> Result<WantedSubscription, String> {
    let Value::Object(described) = described else {
        let what = json_name(described);
        return Err(invalid(
            "subscription",
            &format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"),
        ));
    };
    let name = described.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err("name is required in spec.subscription".to_owned());
    }
    let wrong = wrong_with_label(name);
    if !wrong.is_empty() {
        let wrong = wrong.join(", ");
        return Err(format!(
            "the name '{name}' used for the subscription is invalid: {wrong}"
        ));
    }
    let namespace = described.get("namespace").and_then(Value::as_str);
    if let Some(namespace) = namespace.filter(|it| !wrong_with_label(it).is_empty()) {
        return Err(format!(
            "the namespace '{namespace}' used for the subscription is not a valid namespace identifier"
        ));
    }
    let mut spec = described.clone();
    spec.remove("namespace");
    check(&spec, &SUBSCRIPTION_FIELDS).map_err(|why| invalid("subscription", &why))?;
    let approval_given = spec.get("installPlanApproval").and_then(Value::as_str);
    if approval_given.is_some_and(|it| !it.is_empty()) {
        return Err("installPlanApproval is prohibited in spec.subscription".to_owned());
    }
    spec.retain(|_, it| !it.is_null() && it.as_str() != Some(""));
    let approval = match approval {
        PlanApproval::Manual => "Manual",
        PlanApproval::Automatic => "Automatic",
    };
    spec.insert("installPlanApproval".to_owned(), approval.into());
    Ok(WantedSubscription {
        namespace: namespace.unwrap_or_default().to_owned(),
        spec,
    })
}

/// Reads `spec.operatorGroup`, whose templates have been rendered, for a Subscription in a namespace.
///
/// # Errors
/// What is wrong with it.
pub fn group(described: Option<&Value>, namespace: &str) -> Result<WantedGroup, String> {
    let Some(described) = described else {
        return Ok(WantedGroup::for_all_namespaces(namespace));
    };
    let Value::Object(described) = described else {
        let what = json_name(described);
        return Err(invalid(
            "operatorGroup",
            &format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"),
        ));
    };
    let given = described.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && !namespace.is_empty() && given != namespace {
        return Err(format!(
            "the namespace specified in spec.operatorGroup ('{given}') must match the namespace used for the subscription \
             ('{namespace}')"
        ));
    }
    let name = described.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err("name is required in spec.operatorGroup".to_owned());
    }
    let mut spec = described.clone();
    spec.remove("name");
    spec.remove("namespace");
    check(&spec, &GROUP_FIELDS).map_err(|why| invalid("operatorGroup", &why))?;
    let is_empty = |it: &Value| match it {
        Value::Null | Value::Bool(false) => true,
        Value::String(it) => it.is_empty(),
        Value::Array(it) => it.is_empty(),
        _ => false,
    };
    spec.retain(|_, it| !is_empty(it));
    Ok(WantedGroup {
        namespace: namespace.to_owned(),
        name: Some(name.to_owned()),
        spec,
    })
}

fn invalid(field: &str, why: &str) -> String {
    format!("the policy spec.{field} is invalid: {why}")
}

/// The fields of a struct of upstream, as Go's decoder sees them.
struct GoStruct {
    name: &'static str,
    fields: &'static [(&'static str, GoField)],
}

/// What a field takes: the name of its Go type, and whether a value fits.
struct GoField {
    r#type: &'static str,
    shape: Shape,
    /// The first field of the value that nobody knows.
    unknown: fn(&Value) -> Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Bool,
    List,
    Map,
}

const fn field(r#type: &'static str, shape: Shape) -> GoField {
    GoField {
        r#type,
        shape,
        unknown: |_| None,
    }
}

const fn checked(r#type: &'static str, shape: Shape, unknown: fn(&Value) -> Option<String>) -> GoField {
    GoField { r#type, shape, unknown }
}

const SUBSCRIPTION_FIELDS: GoStruct = GoStruct {
    name: "SubscriptionSpec",
    fields: &[
        ("source", field("string", Shape::Text)),
        ("sourceNamespace", field("string", Shape::Text)),
        ("name", field("string", Shape::Text)),
        ("channel", field("string", Shape::Text)),
        ("startingCSV", field("string", Shape::Text)),
        ("installPlanApproval", field("v1alpha1.Approval", Shape::Text)),
        (
            "config",
            checked("v1alpha1.SubscriptionConfig", Shape::Map, |it| {
                check(it.as_object()?, &CONFIG_FIELDS).err()
            }),
        ),
    ],
};

const CONFIG_FIELDS: GoStruct = GoStruct {
    name: "SubscriptionConfig",
    fields: &[
        (
            "selector",
            checked("v1.LabelSelector", Shape::Map, unknown_in::<LabelSelector>),
        ),
        ("nodeSelector", field("map[string]string", Shape::Map)),
        (
            "tolerations",
            checked("[]v1.Toleration", Shape::List, unknown_in::<Vec<Toleration>>),
        ),
        ("resources", field("v1.ResourceRequirements", Shape::Map)),
        (
            "envFrom",
            checked("[]v1.EnvFromSource", Shape::List, unknown_in::<Vec<EnvFromSource>>),
        ),
        ("env", checked("[]v1.EnvVar", Shape::List, unknown_in::<Vec<EnvVar>>)),
        (
            "volumes",
            checked("[]v1.Volume", Shape::List, unknown_in::<Vec<Volume>>),
        ),
        (
            "volumeMounts",
            checked("[]v1.VolumeMount", Shape::List, unknown_in::<Vec<VolumeMount>>),
        ),
        ("affinity", checked("v1.Affinity", Shape::Map, unknown_in::<Affinity>)),
        ("annotations", field("map[string]string", Shape::Map)),
    ],
};

const GROUP_FIELDS: GoStruct = GoStruct {
    name: "OperatorGroupSpec",
    fields: &[
        (
            "selector",
            checked("v1.LabelSelector", Shape::Map, unknown_in::<LabelSelector>),
        ),
        ("targetNamespaces", field("[]string", Shape::List)),
        ("serviceAccountName", field("string", Shape::Text)),
        ("staticProvidedAPIs", field("bool", Shape::Bool)),
        ("upgradeStrategy", field("v1.UpgradeStrategy", Shape::Text)),
    ],
};

/// The first thing that is wrong, in the order of the keys.
fn check(object: &Map<String, Value>, of: &GoStruct) -> Result<(), String> {
    let mut keys: Vec<&String> = object.keys().collect();
    keys.sort();
    for key in keys {
        let Some((_, field)) = of.fields.iter().find(|(name, _)| name == key) else {
            return Err(unknown(key));
        };
        let value = &object[key];
        let fits = match value {
            Value::Null => continue,
            Value::String(_) => field.shape == Shape::Text,
            Value::Bool(_) => field.shape == Shape::Bool,
            Value::Array(_) => field.shape == Shape::List,
            Value::Object(_) => field.shape == Shape::Map,
            Value::Number(_) => false,
        };
        if !fits {
            let what = json_name(value);
            return Err(format!(
                "json: cannot unmarshal {what} into Go struct field {}.{key} of type {}",
                of.name, field.r#type
            ));
        }
        if let Some(why) = (field.unknown)(value) {
            return Err(why);
        }
    }
    Ok(())
}

fn unknown(field: &str) -> String {
    format!("json: unknown field {field:?}")
}

/// What a Kubernetes type does not know. A value of another type is left to the API server, which knows all that it
/// takes, such as numbers for quantities.
fn unknown_in<T: DeserializeOwned + Serialize>(value: &Value) -> Option<String> {
    let typed: T = serde_json::from_value(value.clone()).ok()?;
    let known = serde_json::to_value(typed).ok()?;
    lost(value, &known).map(unknown)
}

/// The first field that is in one value, and not in what is known of it.
fn lost<'v>(value: &'v Value, known: &Value) -> Option<&'v str> {
    match (value, known) {
        (Value::Object(value), Value::Object(known)) => value.iter().find_map(|(key, it)| match known.get(key) {
            Some(known) => lost(it, known),
            None => (!it.is_null()).then_some(key.as_str()),
        }),
        (Value::Array(value), Value::Array(known)) => value.iter().zip(known).find_map(|(it, known)| lost(it, known)),
        _ => None,
    }
}

/// What is wrong with a name that has to be a DNS label. Upstream: apimachinery `IsDNS1123Label`.
fn wrong_with_label(name: &str) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    if name.len() > 63 {
        wrong.push("must be no more than 63 characters");
    }
    let is_label = |it: &str| {
        let letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        let bytes = it.as_bytes();
        bytes.first().is_some_and(|it| letter(*it))
            && bytes.last().is_some_and(|it| letter(*it))
            && bytes.iter().all(|it| letter(*it) || *it == b'-')
    };
    if is_label(name) {
        return wrong;
    }
    if name.split('.').all(is_label) {
        wrong.push("must not contain dots");
    } else {
        wrong.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(described: Value) -> String {
        subscription(&described, PlanApproval::Manual).unwrap_err()
    }

    #[test]
    fn what_is_wrong_with_a_subscription_is_told() {
        assert_eq!(
            wrong(json!({"channel": "stable"})),
            "name is required in spec.subscription"
        );
        assert_eq!(
            wrong(json!({"name": "a.b"})),
            "the name 'a.b' used for the subscription is invalid: must not contain dots"
        );
        assert_eq!(
            wrong(json!({"name": "A"})),
            "the name 'A' used for the subscription is invalid: a lowercase RFC 1123 label must consist of lower case \
             alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
             '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        );
        assert_eq!(
            wrong(json!({"name": "a", "namespace": "b.c"})),
            "the namespace 'b.c' used for the subscription is not a valid namespace identifier"
        );
        assert_eq!(
            wrong(json!({"name": "a", "installPlanApproval": "Automatic"})),
            "installPlanApproval is prohibited in spec.subscription"
        );
        assert_eq!(
            wrong(json!({"name": "a", "chanel": "stable"})),
            "the policy spec.subscription is invalid: json: unknown field \"chanel\""
        );
        assert_eq!(
            wrong(json!({"name": "a", "channel": 1})),
            "the policy spec.subscription is invalid: json: cannot unmarshal number into Go struct field \
             SubscriptionSpec.channel of type string"
        );
    }

    #[test]
    fn fields_in_the_depths_are_known_too() {
        let config = |config: Value| json!({"name": "a", "config": config});
        assert_eq!(
            wrong(config(json!({"env": [{"name": "A", "valu": "b"}]}))),
            "the policy spec.subscription is invalid: json: unknown field \"valu\""
        );
        assert_eq!(
            wrong(config(json!({"tolerance": []}))),
            "the policy spec.subscription is invalid: json: unknown field \"tolerance\""
        );
        let good = config(json!({
            "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": 1}},
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1000}}],
        }));
        assert!(subscription(&good, PlanApproval::Manual).is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_group_is_told() {
        let wrong = |described: Value| group(Some(&described), "ns").unwrap_err();
        assert_eq!(
            wrong(json!({"namespace": "ns"})),
            "name is required in spec.operatorGroup"
        );
        assert_eq!(
            wrong(json!({"name": "g", "namespace": "other"})),
            "the namespace specified in spec.operatorGroup ('other') must match the namespace used for the subscription \
             ('ns')"
        );
        assert_eq!(
            wrong(json!({"name": "g", "targetNamespace": "ns"})),
            "the policy spec.operatorGroup is invalid: json: unknown field \"targetNamespace\""
        );
        assert_eq!(
            wrong(json!({"name": "g", "selector": {"labels": {"a": "b"}}})),
            "the policy spec.operatorGroup is invalid: json: unknown field \"labels\""
        );
    }

    #[test]
    fn a_group_that_nobody_describes_is_for_all_namespaces() {
        let group = group(None, "ns").unwrap();
        assert!(!group.is_described());
        assert_eq!(
            group.object()["metadata"],
            json!({"namespace": "ns", "generateName": "ns-"})
        );
        assert_eq!(group.object()["spec"], json!({}));
    }
}
