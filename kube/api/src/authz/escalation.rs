//! Nobody may hand out rights that they do not hold, unless they hold the verbs `escalate` or `bind`.

use super::{
    Rbac,
    rule::{Rule, compact_text, missing, quoted, rules_of},
};
use crate::identity::{Attributes, MASTERS, User};
use kube_store::status::Status;
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";
/// So many missing rules are told at most.
const TOLD_MAX: usize = 1_000;

/// Checks the write of a Role (with a namespace) or ClusterRole (without). `old` is the state before an update.
///
/// # Errors
/// 403 naming the rules that the user lacks.
pub fn check_role(
    rbac: &Rbac,
    user: &User,
    namespace: &str,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let resource = if namespace.is_empty() { "clusterroles" } else { "roles" };
    if user.is_in(MASTERS) || old.is_some_and(|it| only_collection_fields_changed(it, new)) {
        return Ok(());
    }
    if rbac.allows(user, &asked("escalate", resource, namespace, name)) {
        return Ok(());
    }
    check_held(rbac, user, namespace, &rules_of(new)).map_err(|it| Status::forbidden(resource, GROUP, name, it))?;
    let aggregates = |it: &Value| it.get("aggregationRule").is_some_and(|rule| !rule.is_null());
    if namespace.is_empty() && (aggregates(new) || old.is_some_and(aggregates)) {
        // Aggregation can gather any rule later, so it takes all of them now.
        let all = || vec!["*".to_owned()];
        let everything = [
            Rule {
                verbs: all(),
                api_groups: all(),
                resources: all(),
                ..Rule::default()
            },
            Rule {
                verbs: all(),
                non_resource_urls: all(),
                ..Rule::default()
            },
        ];
        if !missing(&rbac.rules_for(user, ""), &everything).is_empty() {
            let text = "must have cluster-admin privileges to use the aggregationRule";
            return Err(Status::forbidden(resource, GROUP, name, text));
        }
    }
    Ok(())
}

/// Checks the write of a RoleBinding (with a namespace) or ClusterRoleBinding (without).
///
/// # Errors
/// 403 naming the rules that the user lacks, 404 when the role does not exist.
pub fn check_binding(
    rbac: &Rbac,
    user: &User,
    namespace: &str,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let resource = if namespace.is_empty() {
        "clusterrolebindings"
    } else {
        "rolebindings"
    };
    if user.is_in(MASTERS) || old.is_some_and(|it| only_collection_fields_changed(it, new)) {
        return Ok(());
    }
    let role = &new["roleRef"];
    let role_name = role["name"].as_str().unwrap_or_default();
    let role_is_cluster = namespace.is_empty() || role["kind"] == "ClusterRole";
    let (roles, role_namespace) = if role_is_cluster {
        ("clusterroles", "")
    } else {
        ("roles", namespace)
    };
    if rbac.allows(user, &asked("bind", roles, namespace, role_name)) {
        return Ok(());
    }
    let Some(rules) = rbac.role_rules(role_namespace, role_name) else {
        return Err(Status::not_found(resource, GROUP, role_name));
    };
    check_held(rbac, user, namespace, &rules).map_err(|it| Status::forbidden(resource, GROUP, name, it))
}

fn asked(verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        verb: verb.into(),
        is_resource: true,
        group: GROUP.into(),
        version: "v1".into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    }
}

fn check_held(rbac: &Rbac, user: &User, namespace: &str, rules: &[Rule]) -> Result<(), String> {
    let mut missing = missing(&rbac.rules_for(user, namespace), rules);
    if missing.is_empty() {
        return Ok(());
    }
    missing.truncate(TOLD_MAX);
    Err(format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.username,
        quoted(&user.groups),
        compact_text(&missing).join("\n")
    ))
}

/// Whether an update touches nothing but what the garbage collector writes: owners, finalizers and bookkeeping.
fn only_collection_fields_changed(old: &Value, new: &Value) -> bool {
    let without = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        value
    };
    without(old) == without(new)
}
