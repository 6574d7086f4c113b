//! Application of Argo CD, read as far as we have to: its definition is Argo CD's, which may bring it after we start.

use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    kube::{
        Resource, ResourceExt,
        core::{NamespaceResourceScope, ObjectMeta},
    },
    values::settings::parse_bool,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::words;

/// An Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PulledApplication {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// All else: `spec`, `operation`, `status`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl PulledApplication {
    /// The API group.
    pub const GROUP: &'static str = "argoproj.io";
    /// Group and version.
    pub const API_VERSION: &'static str = "argoproj.io/v1alpha1";
    /// The kind.
    pub const KIND: &'static str = "Application";
    /// Lower-case plural, as in URLs.
    pub const PLURAL: &'static str = "applications";

    /// The cluster that it is for, if it is to be pulled by one: its label says so, and its annotation names one.
    pub fn cluster(&self) -> Option<&str> {
        let is_pulled = self
            .labels()
            .get(words::PULL)
            .is_some_and(|it| parse_bool(it) == Some(true));
        let cluster = self.annotations().get(words::CLUSTER).map(String::as_str);
        cluster.filter(|it| is_pulled && !it.is_empty())
    }

    /// The ManifestWork that brings it to its cluster. The beginning of the UID gives a successor of the same name a
    /// work of its own.
    pub fn work_name(&self) -> String {
        let uid: String = self.uid().unwrap_or_default().chars().take(5).collect();
        format!("{}-{uid}", self.name_any())
    }

    /// The ApplicationSet that has made it, as `<namespace>/<name>`.
    pub fn application_set(&self) -> Option<String> {
        let is_it = |it: &&OwnerReference| {
            it.api_version.eq_ignore_ascii_case(Self::API_VERSION) && it.kind.eq_ignore_ascii_case("ApplicationSet")
        };
        let owner = self.owner_references().iter().find(is_it)?;
        Some(format!("{}/{}", self.namespace().unwrap_or_default(), owner.name))
    }
}

impl Resource for PulledApplication {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> std::borrow::Cow<'_, str> {
        Self::KIND.into()
    }

    fn group(_: &()) -> std::borrow::Cow<'_, str> {
        Self::GROUP.into()
    }

    fn version(_: &()) -> std::borrow::Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural(_: &()) -> std::borrow::Cow<'_, str> {
        Self::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn application(label: &str, cluster: &str) -> PulledApplication {
        let metadata = json!({
            "name": "guestbook", "namespace": "argocd", "uid": "0123456789",
            "labels": {words::PULL: label}, "annotations": {words::CLUSTER: cluster},
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_label_is_read_as_go_reads_truth() {
        for label in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(application(label, "c1").cluster(), Some("c1"), "{label}");
        }
        for label in ["0", "false", "yes", "tRUE", ""] {
            assert_eq!(application(label, "c1").cluster(), None, "{label}");
        }
        assert_eq!(application("true", "").cluster(), None);
        assert_eq!(application("true", "c1").work_name(), "guestbook-01234");
    }
}
