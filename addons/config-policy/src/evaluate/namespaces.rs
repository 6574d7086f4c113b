//! Which namespaces a `namespaceSelector` selects.
//! Upstream: config-policy-controller `pkg/common/namespace_selection.go`.

use std::sync::Arc;

use ocm_addon_sdk::{
    k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::LabelSelector},
    ocm_api::{policy::configuration_policy::NamespaceTarget, selector::Selector},
};
use policy_template::NamePatterns;
use serde_json::Value;

use super::TerminatingNamespaces;

/// What of a Namespace decides: it comes from a watch, or as a document.
pub trait NamespaceFacts {
    /// Its name.
    fn name(&self) -> &str;
    /// One of its labels.
    fn label(&self, key: &str) -> Option<&str>;
    /// Whether it is being deleted.
    fn is_terminating(&self) -> bool;
}

impl NamespaceFacts for Value {
    fn name(&self) -> &str {
        self["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self["metadata"]["labels"][key].as_str()
    }

    fn is_terminating(&self) -> bool {
        !self["metadata"]["deletionTimestamp"].is_null()
    }
}

impl NamespaceFacts for Namespace {
    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// The names of the selected namespaces, in order.
///
/// # Errors
/// When the selector cannot be read.
pub fn selected<N: NamespaceFacts>(
    target: &NamespaceTarget,
    namespaces: &[Arc<N>],
    terminating: TerminatingNamespaces,
) -> Result<Vec<String>, String> {
    if target.is_empty() {
        return Ok(Vec::new());
    }
    let labels = LabelSelector {
        match_labels: target.match_labels.clone(),
        match_expressions: target.match_expressions.clone(),
    };
    let labels = Selector::of(&labels).map_err(|why| format!("error parsing namespace LabelSelector: {why}"))?;
    let patterns = NamePatterns::of(&target.include, &target.exclude)?;
    let with_terminating = match target.terminating_inclusion.as_str() {
        "IfMatch" => true,
        "Never" => false,
        _ => terminating == TerminatingNamespaces::IfMatch,
    };
    let mut names: Vec<String> = namespaces
        .iter()
        .filter(|it| with_terminating || !it.is_terminating())
        .filter(|it| labels.matches(|key| it.label(key)))
        .map(|it| it.name())
        .filter(|it| patterns.select(it))
        .map(str::to_owned)
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster() -> Vec<Arc<Value>> {
        let namespaces = [
            json!({"metadata": {"name": "kube-system", "labels": {"tier": "system"}}}),
            json!({"metadata": {"name": "kube-public"}}),
            json!({"metadata": {"name": "app", "labels": {"tier": "app"}}}),
            json!({"metadata": {"name": "old", "labels": {"tier": "app"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ];
        namespaces.into_iter().map(Arc::new).collect()
    }

    fn of(target: Value, terminating: TerminatingNamespaces) -> Result<Vec<String>, String> {
        selected(&serde_json::from_value(target).unwrap(), &cluster(), terminating)
    }

    #[test]
    fn namespaces_are_selected_by_names_and_labels() {
        let select = |target| of(target, TerminatingNamespaces::IfMatch).unwrap();
        assert_eq!(
            select(json!({"include": ["kube-*"], "exclude": ["*-public"]})),
            ["kube-system"]
        );
        assert_eq!(select(json!({"matchLabels": {"tier": "app"}})), ["app", "old"]);
        assert_eq!(
            select(json!({"matchLabels": {}, "exclude": ["kube-*"]})),
            ["app", "old"]
        );
        assert!(select(json!({"exclude": ["kube-*"]})).is_empty());
    }

    #[test]
    fn namespaces_that_are_deleted_count_on_demand() {
        let target = json!({"matchLabels": {"tier": "app"}});
        assert_eq!(of(target.clone(), TerminatingNamespaces::Never).unwrap(), ["app"]);
        let mut never = target.clone();
        never["terminatingInclusion"] = "Never".into();
        assert_eq!(of(never, TerminatingNamespaces::IfMatch).unwrap(), ["app"]);
        let mut always = target;
        always["terminatingInclusion"] = "IfMatch".into();
        assert_eq!(of(always, TerminatingNamespaces::Never).unwrap(), ["app", "old"]);
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        let error = of(json!({"include": ["a", "[b"]}), TerminatingNamespaces::IfMatch).unwrap_err();
        assert_eq!(error, "error parsing 'include' pattern '[b': syntax error in pattern");
    }
}
