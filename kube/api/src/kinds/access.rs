//! Roles and their bindings.

use super::{
    defaults::{entry, items, set, text_of},
    strategy::{Columns, Strategy},
    validation::{list, scheduling::label_selector, subdomain, text},
};
use crate::{authz::escalation, call::Call, table::cells};
use jiff::Timestamp;
use kube_store::{
    schema::metadata::path_segment_errors,
    status::{FieldError, Status},
};
use serde_json::{Map, Value, json};

/// Role and ClusterRole.
pub struct Roles {
    pub kind: &'static str,
}

impl Strategy for Roles {
    fn default(&self, object: &mut Map<String, Value>) {
        // A list that Go does not leave out.
        set(object, "rules", Value::Null);
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        role(self.kind, new, errors);
    }

    fn check_allowed(&self, call: &Call<'_>, old: Option<&Value>, new: &Value) -> Result<(), Status> {
        let (rbac, namespace) = (&*call.server.rbac, call.namespace.as_str());
        escalation::check_role(rbac, &call.user, namespace, &call.name, new, old)
    }
}

/// RoleBinding and ClusterRoleBinding.
pub struct RoleBindings {
    pub kind: &'static str,
}

impl Strategy for RoleBindings {
    fn columns(&self) -> Columns {
        Columns::new("Name|Role|Age|Users*|Groups*|ServiceAccounts*", role_binding)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        defaults_of_binding(object);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let kind = self.kind;
        const GROUP: &str = "rbac.authorization.k8s.io";
        let role = |key: &str| text(new, &format!("/roleRef/{key}"));
        if role("apiGroup") != GROUP {
            errors.push(FieldError::not_supported(
                "roleRef.apiGroup",
                &json!(role("apiGroup")),
                &[GROUP],
            ));
        }
        let kinds: &[&str] = if kind == "RoleBinding" {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        };
        if !kinds.contains(&role("kind")) {
            errors.push(FieldError::not_supported("roleRef.kind", &json!(role("kind")), kinds));
        }
        if role("name").is_empty() {
            errors.push(FieldError::required("roleRef.name", ""));
        } else {
            let found = path_segment_errors(role("name"));
            errors.extend(
                found
                    .iter()
                    .map(|it| FieldError::invalid("roleRef.name", &json!(role("name")), it)),
            );
        }
        if let Some(old) = old
            && old.get("roleRef") != new.get("roleRef")
        {
            // Go prints its struct with the names of the fields.
            let shown = json!({"APIGroup": role("apiGroup"), "Kind": role("kind"), "Name": role("name")});
            errors.push(FieldError::invalid("roleRef", &shown, "cannot change roleRef"));
        }
        for (at, subject) in list(new, "/subjects").iter().enumerate() {
            let field = format!("subjects[{at}]");
            let get = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or("");
            if get("name").is_empty() {
                errors.push(FieldError::required(format!("{field}.name"), ""));
            }
            let group = format!("{field}.apiGroup");
            match get("kind") {
                "ServiceAccount" => {
                    if !get("name").is_empty() {
                        subdomain(get("name"), &format!("{field}.name"), errors);
                    }
                    if !get("apiGroup").is_empty() {
                        errors.push(FieldError::not_supported(group, &json!(get("apiGroup")), &[""]));
                    }
                    if kind == "ClusterRoleBinding" && get("namespace").is_empty() {
                        errors.push(FieldError::required(format!("{field}.namespace"), ""));
                    }
                }
                "User" | "Group" => {
                    if get("apiGroup") != GROUP {
                        errors.push(FieldError::not_supported(group, &json!(get("apiGroup")), &[GROUP]));
                    }
                }
                other => {
                    let kinds = ["ServiceAccount", "User", "Group"];
                    errors.push(FieldError::not_supported(
                        format!("{field}.kind"),
                        &json!(other),
                        &kinds,
                    ));
                }
            }
        }
    }

    fn check_allowed(&self, call: &Call<'_>, old: Option<&Value>, new: &Value) -> Result<(), Status> {
        let (rbac, namespace) = (&*call.server.rbac, call.namespace.as_str());
        escalation::check_binding(rbac, &call.user, namespace, &call.name, new, old)
    }
}

fn empty(rule: &Value, key: &str) -> bool {
    rule.get(key).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn role(kind: &str, new: &Value, errors: &mut Vec<FieldError>) {
    for (at, rule) in list(new, "/rules").iter().enumerate() {
        let field = format!("rules[{at}]");
        if empty(rule, "verbs") {
            errors.push(FieldError::required(
                format!("{field}.verbs"),
                "verbs must contain at least one value",
            ));
        }
        if !empty(rule, "nonResourceURLs") {
            let shown = &rule["nonResourceURLs"];
            let place = format!("{field}.nonResourceURLs");
            if kind == "Role" {
                errors.push(FieldError::invalid(
                    &place,
                    shown,
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            if !empty(rule, "apiGroups") || !empty(rule, "resources") || !empty(rule, "resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(place, shown, detail));
            }
            continue;
        }
        if empty(rule, "apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(format!("{field}.apiGroups"), detail));
        }
        if empty(rule, "resources") {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(format!("{field}.resources"), detail));
        }
    }
    if new
        .pointer("/aggregationRule")
        .is_some_and(|it| empty(it, "clusterRoleSelectors"))
    {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required("aggregationRule.clusterRoleSelectors", detail));
    }
    for (at, selector) in list(new, "/aggregationRule/clusterRoleSelectors").iter().enumerate() {
        let field = format!("aggregationRule.clusterRoleSelectors[{at}]");
        let before = errors.len();
        label_selector(selector, &field, errors);
        if errors.len() > before {
            errors.push(FieldError::invalid(field, &Value::Null, "invalid label selector."));
        }
    }
}

fn defaults_of_binding(object: &mut Map<String, Value>) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    for subject in items(object, "subjects") {
        if matches!(text_of(subject, "kind"), "User" | "Group") && text_of(subject, "apiGroup").is_empty() {
            subject.insert("apiGroup".to_owned(), GROUP.into());
        } else if text_of(subject, "kind") == "ServiceAccount" && text_of(subject, "apiGroup").is_empty() {
            subject.remove("apiGroup");
        }
    }
    let role = entry(object, "roleRef");
    if text_of(role, "apiGroup").is_empty() {
        role.insert("apiGroup".to_owned(), GROUP.into());
    }
}

fn role_binding(it: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let found = cells::list(it, &["subjects"])
            .iter()
            .filter(|it| cells::text(it, &["kind"]) == kind);
        let title = |it: &Value| match kind {
            "ServiceAccount" => format!("{}/{}", cells::text(it, &["namespace"]), cells::text(it, &["name"])),
            _ => cells::text(it, &["name"]).to_owned(),
        };
        Value::from(found.map(title).collect::<Vec<_>>().join(", "))
    };
    let role = format!(
        "{}/{}",
        cells::text(it, &["roleRef", "kind"]),
        cells::text(it, &["roleRef", "name"])
    );
    vec![
        cells::name(it),
        role.into(),
        cells::age(it, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
