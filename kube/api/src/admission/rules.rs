//! Which writes a webhook or a policy wants to see: rules, selectors, and the version of the object that it gets.

use super::{attributes::AdmissionAttributes, plugin::AdmissionOperation};
use kube_store::{Store, selector::LabelSelector};
use serde_json::Value;

/// One entry of `rules`, `resourceRules` or `excludeResourceRules`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    /// `None` for both.
    namespaced: Option<bool>,
    /// Names of objects; empty for all. Only rules of policies have them.
    names: Vec<String>,
}

/// The texts of a list.
pub fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|it| it == "*" || it == wanted)
}

impl Rule {
    fn read(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            namespaced: match rule["scope"].as_str() {
                Some("Namespaced") => Some(true),
                Some("Cluster") => Some(false),
                _ => None,
            },
            names: texts(&rule["resourceNames"]),
        }
    }

    fn matches(&self, write: &AdmissionAttributes<'_>, version: &str) -> bool {
        let operation = write.operation.text();
        // A namespace belongs to the cluster, though requests on it have a namespace.
        let in_namespace = !write.namespace.is_empty() && &*write.resource.id != "namespaces";
        has(&self.operations, operation)
            && has(&self.groups, &write.resource.group)
            && has(&self.versions, version)
            && self.namespaced.is_none_or(|it| it == in_namespace)
            && self.resources.iter().any(|it| names_resource(it, write))
            && (self.names.is_empty() || self.names.iter().any(|it| it == write.name))
    }
}

/// `pods`, `*`, `pods/status`, `*/status`, `pods/*`, `*/*`.
fn names_resource(pattern: &str, write: &AdmissionAttributes<'_>) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    let is = |pattern: &str, wanted: &str| pattern == "*" || pattern == wanted;
    is(resource, &write.resource.plural) && is(subresource, write.subresource)
}

/// What a webhook, a policy or a binding says about the writes that it wants to see.
#[derive(Clone, Debug)]
pub struct Constraints {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Only the versions that the rules name.
    exact: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

impl Constraints {
    /// Of a webhook.
    pub fn of_webhook(webhook: &Value) -> Self {
        Self::read(webhook, "rules")
    }

    /// Of a policy (`matchConstraints`) or binding (`matchResources`).
    pub fn of_policy(resources: &Value) -> Self {
        Self::read(resources, "resourceRules")
    }

    fn read(value: &Value, rules: &str) -> Self {
        let read = |key: &str| value[key].as_array().into_iter().flatten().map(Rule::read).collect();
        let selector = |key: &str| match &value[key] {
            Value::Null => LabelSelector::everything(),
            // What was accepted can be read; what cannot chooses nothing.
            selector => LabelSelector::from_json(selector).unwrap_or_else(|_| LabelSelector::nothing()),
        };
        Self {
            rules: read(rules),
            excluded: read("excludeResourceRules"),
            exact: value["matchPolicy"] == "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Whether it has no rules: a binding then takes what its policy does.
    pub fn has_no_rules(&self) -> bool {
        self.rules.is_empty()
    }

    /// The version of the object in which it wants to see this write; `None` when it does not.
    pub fn version<'w>(&self, write: &AdmissionAttributes<'w>) -> Option<&'w str> {
        if self.matched(&self.excluded, write).is_some() {
            return None;
        }
        self.matched(&self.rules, write)
    }

    fn matched<'w>(&self, rules: &[Rule], write: &AdmissionAttributes<'w>) -> Option<&'w str> {
        let any = |version: &str| rules.iter().any(|it| it.matches(write, version));
        if any(write.version) {
            return Some(write.version);
        }
        if self.exact {
            return None;
        }
        let served = write.resource.versions.iter().filter(|it| it.served);
        served.map(|it| it.name.as_str()).find(|it| any(it))
    }

    /// Whether the selectors choose this write.
    pub fn selects(
        &self,
        write: &AdmissionAttributes<'_>,
        store: &Store,
        old: Option<&Value>,
        object: Option<&Value>,
    ) -> bool {
        self.selects_namespace(write, store, object) && self.selects_object(old, object)
    }

    fn selects_object(&self, old: Option<&Value>, object: Option<&Value>) -> bool {
        if self.objects.is_everything() {
            return true;
        }
        let chosen = |it: Option<&Value>| it.is_some_and(|it| self.objects.matches(&it["metadata"]["labels"]));
        chosen(object) || chosen(old)
    }

    fn selects_namespace(&self, write: &AdmissionAttributes<'_>, store: &Store, object: Option<&Value>) -> bool {
        if self.namespaces.is_everything() {
            return true;
        }
        if write.is_namespace() && write.operation != AdmissionOperation::Delete {
            return object.is_some_and(|it| self.namespaces.matches(&it["metadata"]["labels"]));
        }
        if write.namespace.is_empty() {
            // What is in no namespace is never left out by its namespace.
            return true;
        }
        match store.newest("namespaces", "", write.namespace) {
            Some(namespace) => self.namespaces.matches(&*namespace),
            None => self.namespaces.matches(&Value::Null),
        }
    }
}
