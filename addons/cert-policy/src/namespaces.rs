//! Which namespaces a policy selects.
//! Upstream: cert-policy-controller `pkg/common/namespace_selection.go`.

use ocm_addon_sdk::{
    k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::LabelSelector},
    ocm_api::{policy::certificate_policy::CertificateTarget, selector::Selector},
};
use policy_template::NamePatterns;

/// A selection of namespaces that can be read.
pub struct NamespaceSelection<'a> {
    labels: Selector,
    names: NamePatterns<'a>,
    is_empty: bool,
}

impl<'a> NamespaceSelection<'a> {
    /// What a policy says.
    ///
    /// # Errors
    /// When it cannot be read. Upstream says so in its log alone, and goes on as if nothing were selected.
    pub fn of(target: &'a CertificateTarget) -> Result<Self, String> {
        let labels = LabelSelector {
            match_labels: target.match_labels.clone(),
            match_expressions: target.match_expressions.clone(),
        };
        let labels = Selector::of(&labels).map_err(|why| format!("error parsing namespace LabelSelector: {why}"))?;
        Ok(Self {
            labels,
            names: NamePatterns::of(&target.include, &target.exclude)?,
            is_empty: target.is_empty(),
        })
    }

    /// Whether a namespace is selected.
    pub fn has(&self, namespace: &Namespace) -> bool {
        let metadata = &namespace.metadata;
        let label = |key: &str| metadata.labels.as_ref()?.get(key).map(String::as_str);
        let name = metadata.name.as_deref().unwrap_or_default();
        !self.is_empty && self.labels.matches(label) && self.names.select(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selected(target: Value) -> Result<Vec<&'static str>, String> {
        let target: CertificateTarget = serde_json::from_value(target).unwrap();
        let selection = NamespaceSelection::of(&target)?;
        let all = [("kube-system", "system"), ("kube-public", ""), ("app", "app")];
        let named = |(name, tier): &(&str, &str)| -> Namespace {
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"tier": tier}}})).unwrap()
        };
        let all = all.into_iter().filter(|it| selection.has(&named(it)));
        Ok(all.map(|(name, _)| name).collect())
    }

    #[test]
    fn namespaces_are_selected_by_names_and_labels() {
        assert_eq!(
            selected(json!({"include": ["kube-*"], "exclude": ["*-public"]})).unwrap(),
            ["kube-system"]
        );
        assert_eq!(selected(json!({"matchLabels": {"tier": "app"}})).unwrap(), ["app"]);
        assert_eq!(
            selected(json!({"matchLabels": {}, "exclude": ["kube-*"]})).unwrap(),
            ["app"]
        );
        let expression = json!({"key": "tier", "operator": "In", "values": ["app", "system"]});
        assert_eq!(
            selected(json!({"matchExpressions": [expression], "include": ["kube-*"]})).unwrap(),
            ["kube-system"]
        );
    }

    #[test]
    fn without_labels_and_names_none_is_selected() {
        assert!(selected(json!({})).unwrap().is_empty());
        assert!(selected(json!({"exclude": ["a"]})).unwrap().is_empty());
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        assert_eq!(
            selected(json!({"include": ["a", "[b"]})).unwrap_err(),
            "error parsing 'include' pattern '[b': syntax error in pattern"
        );
    }
}
