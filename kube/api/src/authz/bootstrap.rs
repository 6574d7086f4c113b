//! The roles and bindings that every Kubernetes API server has from its first start: `bootstrap.json` as objects.

use serde_json::{Value, json};
use std::collections::BTreeMap;

const GROUP: &str = "rbac.authorization.k8s.io";
const API: &str = "rbac.authorization.k8s.io/v1";

/// One ClusterRole.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BootstrapRole {
    name: String,
    /// The role that gathers its rules with those of others.
    aggregate_to: Option<String>,
    /// The roles whose rules it gathers. It starts with what they hold, so that it is right before the aggregation
    /// controller first runs.
    #[serde(default)]
    aggregates: Vec<String>,
    /// Members of rules with their words; `core` stands for the group whose name is empty.
    #[serde(default)]
    rules: Vec<BTreeMap<String, String>>,
}

/// One ClusterRoleBinding; subjects are a kind and a name.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BootstrapBinding {
    name: String,
    role: String,
    subjects: Vec<String>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BootstrapPolicy {
    cluster_roles: Vec<BootstrapRole>,
    cluster_role_bindings: Vec<BootstrapBinding>,
}

impl BootstrapRole {
    fn rules(&self) -> impl Iterator<Item = Value> {
        let words = |text: &str| -> Value {
            let words = text.split_whitespace();
            words.map(|it| if it == "core" { "" } else { it }).collect()
        };
        let rule = move |it: &BTreeMap<String, String>| {
            let members = it.iter().map(|(key, text)| (key.clone(), words(text)));
            Value::Object(members.collect())
        };
        self.rules.iter().map(rule)
    }

    fn object(&self, all: &[Self]) -> Value {
        let gathered = self
            .aggregates
            .iter()
            .filter_map(|name| all.iter().find(|it| it.name == *name));
        let rules: Vec<Value> = gathered.chain([self]).flat_map(Self::rules).collect();
        let mut role =
            json!({"apiVersion": API, "kind": "ClusterRole", "metadata": metadata(&self.name, ""), "rules": rules});
        let label = |name: &str| format!("{GROUP}/aggregate-to-{name}");
        if let Some(into) = &self.aggregate_to {
            role["metadata"]["labels"][label(into)] = "true".into();
        }
        if !self.aggregates.is_empty() {
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label(&self.name): "true"}}]});
        }
        role
    }
}

fn metadata(name: &str, namespace: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    metadata
}

/// A binding of users and groups.
fn binding((kind, name, namespace): (&str, &str, &str), (role_kind, role): (&str, &str), subjects: &[&str]) -> Value {
    let subject = |it: &&str| {
        let (kind, name) = it.split_once(' ').unwrap_or(("User", it));
        json!({"apiGroup": GROUP, "kind": kind, "name": name})
    };
    json!({
        "apiVersion": API, "kind": kind, "metadata": metadata(name, namespace),
        "subjects": subjects.iter().map(subject).collect::<Vec<_>>(),
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
    })
}

/// Every bootstrap ClusterRole, ClusterRoleBinding, Role and RoleBinding, in the order to create them. At start, those
/// that exist get the rules and subjects that they lack, unless their `autoupdate` annotation says `false`.
pub fn policy() -> Vec<Value> {
    let policy: BootstrapPolicy = serde_json::from_str(include_str!("bootstrap.json")).expect("a test reads it");
    let roles = &policy.cluster_roles;
    let mut all: Vec<Value> = roles.iter().map(|it| it.object(roles)).collect();
    all.extend(policy.cluster_role_bindings.iter().map(|it| {
        let subjects: Vec<&str> = it.subjects.iter().map(String::as_str).collect();
        binding(
            ("ClusterRoleBinding", &it.name, ""),
            ("ClusterRole", &it.role),
            &subjects,
        )
    }));
    let reader = "extension-apiserver-authentication-reader";
    all.push(json!({
        "apiVersion": API, "kind": "Role", "metadata": metadata(reader, "kube-system"),
        "rules": [{
            "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"],
        }],
    }));
    let name = "system::extension-apiserver-authentication-reader";
    let users = ["User system:kube-controller-manager", "User system:kube-scheduler"];
    all.push(binding(("RoleBinding", name, "kube-system"), ("Role", reader), &users));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::rule::{missing, rules_of};

    fn find(name: &str) -> Value {
        let is_found = |it: &Value| it["kind"] == "ClusterRole" && it["metadata"]["name"] == name;
        policy().into_iter().find(is_found).expect(name)
    }

    #[test]
    fn view_reads_no_secrets_and_no_roles() {
        for rule in rules_of(&find("view")) {
            assert!(
                !rule.resources.iter().any(|it| it == "secrets" || it == "*"),
                "{rule:?}"
            );
            assert!(
                !rule
                    .api_groups
                    .iter()
                    .any(|it| it == "rbac.authorization.k8s.io" || it == "*"),
                "{rule:?}"
            );
        }
    }

    #[test]
    fn admin_holds_edit_and_edit_holds_view() {
        let [admin, edit, view] = ["admin", "edit", "view"].map(|it| rules_of(&find(it)));
        assert_eq!(missing(&admin, &edit), []);
        assert_eq!(missing(&edit, &view), []);
    }

    #[test]
    fn every_binding_names_a_role_that_exists() {
        let all = policy();
        let named = |kind: &str, name: &str| {
            all.iter()
                .any(|it| it["kind"] == kind && it["metadata"]["name"] == name)
        };
        for it in all.iter().filter(|it| it.get("roleRef").is_some()) {
            let role = &it["roleRef"];
            assert!(
                named(role["kind"].as_str().unwrap(), role["name"].as_str().unwrap()),
                "{it}"
            );
        }
    }
}
