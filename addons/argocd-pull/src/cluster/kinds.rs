//! The kinds of Argo CD and of its operator: their names, versions and columns, without their schemas.
//!
//! An API server without schemas keeps what it is given and refuses nothing. Whoever wants more installs the
//! definitions of Argo CD's operator first: what is there is left as it is.

use serde_json::{Value, json};

use super::MANAGED_BY;
use crate::addon;

/// A kind, in namespaces.
struct ArgoKind {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    /// The last one is that of stored objects; those before it are deprecated.
    versions: &'static [&'static str],
    has_status: bool,
}

impl ArgoKind {
    /// Of Argo CD's own group, in one version, with a status.
    const fn new(kind: &'static str, plural: &'static str, versions: &'static [&'static str]) -> Self {
        Self {
            group: "argoproj.io",
            kind,
            plural,
            short: &[],
            versions,
            has_status: true,
        }
    }

    fn definition(&self) -> Value {
        let Self {
            group, kind, plural, ..
        } = self;
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = |position: usize, name: &str| {
            let is_stored = position + 1 == self.versions.len();
            let mut version = json!({
                "name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": schema},
            });
            if !is_stored {
                version["deprecated"] = true.into();
            }
            if self.has_status {
                version["subresources"] = json!({"status": {}});
            }
            version
        };
        let versions = self.versions.iter().enumerate();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {
                    "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                    "singular": kind.to_lowercase(), "shortNames": self.short,
                },
                "versions": versions.map(|(position, name)| version(position, name)).collect::<Vec<_>>(),
            },
        })
    }
}

/// All but Application, which basic mode brings, too.
const KINDS: [ArgoKind; 7] = [
    ArgoKind {
        short: &["appset", "appsets"],
        ..ArgoKind::new("ApplicationSet", "applicationsets", &["v1alpha1"])
    },
    ArgoKind {
        short: &["appproj", "appprojs"],
        has_status: false,
        ..ArgoKind::new("AppProject", "appprojects", &["v1alpha1"])
    },
    ArgoKind::new("ArgoCDExport", "argocdexports", &["v1alpha1"]),
    ArgoKind::new("ArgoCD", "argocds", &["v1alpha1", "v1beta1"]),
    ArgoKind {
        group: "argocd-image-updater.argoproj.io",
        ..ArgoKind::new("ImageUpdater", "imageupdaters", &["v1alpha1"])
    },
    ArgoKind::new("NamespaceManagement", "namespacemanagements", &["v1beta1"]),
    ArgoKind::new(
        "NotificationsConfiguration",
        "notificationsconfigurations",
        &["v1alpha1"],
    ),
];

/// The name of a definition.
pub fn name_of(definition: &Value) -> Option<String> {
    definition["metadata"]["name"].as_str().map(str::to_owned)
}

/// Their definitions.
pub fn definitions() -> Vec<Value> {
    let mut all = vec![addon::definition()];
    all.extend(KINDS.iter().map(ArgoKind::definition));
    for definition in &mut all {
        definition["metadata"]["labels"] = json!({MANAGED_BY.0: MANAGED_BY.1});
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_and_versions_of_the_operator() {
        let all = definitions();
        let names: Vec<_> = all.iter().filter_map(name_of).collect();
        let expected = [
            "applications.argoproj.io",
            "applicationsets.argoproj.io",
            "appprojects.argoproj.io",
            "argocdexports.argoproj.io",
            "argocds.argoproj.io",
            "imageupdaters.argocd-image-updater.argoproj.io",
            "namespacemanagements.argoproj.io",
            "notificationsconfigurations.argoproj.io",
        ];
        assert_eq!(names, expected);
        let argo_cd = &all[4]["spec"];
        assert_eq!(argo_cd["names"]["listKind"], "ArgoCDList");
        let versions: Vec<_> = argo_cd["versions"].as_array().unwrap().iter().collect();
        assert_eq!(
            (&versions[0]["name"], &versions[0]["storage"]),
            (&json!("v1alpha1"), &json!(false))
        );
        assert_eq!(
            (&versions[1]["name"], &versions[1]["storage"]),
            (&json!("v1beta1"), &json!(true))
        );
        assert_eq!(
            (&versions[0]["deprecated"], versions[1].get("deprecated")),
            (&json!(true), None)
        );
    }
}
