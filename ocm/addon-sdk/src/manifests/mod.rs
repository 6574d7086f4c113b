//! Manifests from Rust values, from YAML, from Go templates and from Helm charts.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use ocm_addon_sdk::{AddOnContext, manifests, values};
//! use serde_json::json;
//!
//! let place = AddOnContext::new("cluster1", "greeter");
//!
//! // A Rust value.
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("greeting".to_owned());
//! assert_eq!(manifests::object(&map).unwrap()["kind"], "ConfigMap");
//!
//! // Go templates, whose values are the add-on's and the facts of the place. Files come from `include_files!`.
//! let file = manifests::IncludedFile {
//!     path: "greeting.yaml",
//!     text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting, namespace: {{ .AddonInstallNamespace }}}\n\
//!            data: {text: {{ .Greeting }} {{ .ClusterName }}}\n",
//! };
//! let values = values::of(&json!({"Greeting": "Hello"})).unwrap();
//! let made = manifests::templates(&[file], &place, values).unwrap();
//! assert_eq!(made[0]["data"]["text"], "Hello cluster1");
//! ```

mod chart;
mod release_namespace;
mod templates;

use kube::{Resource, core::TypeMeta};
use serde::Serialize;
use serde_json::Value;

pub use chart::{chart, read_chart, read_packed_chart};
pub use gotemplate::helm::Chart;
pub use templates::templates;

use crate::UserError;

/// The definitions of these kinds of a known add-on, by their plurals, for where the agent is: beside it, in Hosted
/// mode.
pub fn definitions(group: &str, plurals: &[&str]) -> Vec<Value> {
    let mut all = ocm_api::crds::add_on(group);
    all.retain(|it| plurals.iter().any(|plural| it["spec"]["names"]["plural"] == *plural));
    for definition in &mut all {
        definition["metadata"]["labels"]["addon.open-cluster-management.io/hosted-manifest-location"] =
            "hosting".into();
    }
    all
}

/// A file that is part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncludedFile {
    /// Its path, with slashes.
    pub path: &'static str,
    /// Its content.
    pub text: &'static str,
}

/// Makes files part of the program. Paths are relative to the source file.
///
/// `include_files!["manifests/agent.yaml", "manifests/role.yaml"]`
#[macro_export]
macro_rules! include_files {
    ($($path:literal),* $(,)?) => {
        &[$($crate::manifests::IncludedFile { path: $path, text: include_str!($path) }),*]
    };
}

/// The manifest of a Rust value.
///
/// ```
/// use ocm_addon_sdk::{k8s_openapi::api::core::v1::ServiceAccount, manifests};
///
/// let manifest = manifests::object(&ServiceAccount::default()).unwrap();
/// assert_eq!(manifest["kind"], "ServiceAccount");
/// ```
///
/// # Errors
/// When it does not serialize.
pub fn object<K>(it: &K) -> Result<Value, UserError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut manifest = serde_json::to_value(it)?;
    let types = TypeMeta::resource::<K>();
    manifest["apiVersion"] = types.api_version.into();
    manifest["kind"] = types.kind.into();
    Ok(manifest)
}

/// The manifests of a YAML text: documents with `---` between them, of which empty ones do not count.
///
/// ```
/// let manifests = ocm_addon_sdk::manifests::yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").unwrap();
/// assert_eq!(manifests[0]["metadata"]["name"], "a");
/// ```
///
/// # Errors
/// When the text is no YAML, or a document is no object with `apiVersion` and `kind`.
pub fn yaml(text: &str) -> Result<Vec<Value>, UserError> {
    documents(text, "the text")
}

/// As [`yaml`]; `source` says where the text is from.
fn documents(text: &str, source: &str) -> Result<Vec<Value>, UserError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| UserError::new(format!("{source} is no YAML: {error}")))?;
    let mut manifests: Vec<Value> = documents.into_iter().filter(|it| !it.is_null()).collect();
    for (number, manifest) in manifests.iter_mut().enumerate() {
        let has = |key: &str| manifest[key].as_str().is_some_and(|it| !it.is_empty());
        if !(has("apiVersion") && has("kind")) {
            let number = number + 1;
            return Err(UserError::new(format!(
                "document {number} of {source} has no apiVersion or no kind"
            )));
        }
    }
    Ok(manifests)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::Role;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rust_value_becomes_an_object_of_its_kind() {
        let mut role = Role::default();
        role.metadata.name = Some("a".to_owned());
        let wanted = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}});
        assert_eq!(object(&role).unwrap(), wanted);
    }

    #[test]
    fn empty_documents_do_not_count_and_others_are_objects() {
        let text = "---\n# nothing\n---\napiVersion: v1\nkind: A\n---\n---\napiVersion: v1\nkind: B\n";
        let kinds: Vec<_> = yaml(text).unwrap().iter().map(|it| it["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B"]);
        assert_eq!(yaml("").unwrap(), Vec::<Value>::new());
        let refused = yaml("apiVersion: v1\nkind: A\n---\nkind: B\n").unwrap_err();
        assert_eq!(refused.message(), "document 2 of the text has no apiVersion or no kind");
        assert!(yaml("a: [").unwrap_err().message().starts_with("the text is no YAML: "));
    }
}
