//! Cuts rendered files into documents, tells hooks from the rest and orders both as Helm installs them.

use std::cmp::Ordering;

use serde_json::Value as Json;

/// One object that a chart makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The file it is from, `CHART/templates/x.yaml`.
    pub path: String,
    pub json: Json,
    /// As it was rendered.
    pub text: String,
}

/// An object that Helm runs at a moment of a release's life rather than installing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub document: Document,
    /// `pre-install`, `post-delete` and so on.
    pub events: Vec<String>,
    pub weight: i64,
    /// `before-hook-creation`, `hook-succeeded`, `hook-failed`.
    pub delete_policies: Vec<String>,
}

impl Document {
    pub fn kind(&self) -> &str {
        self.json["kind"].as_str().unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.json["metadata"]["annotations"][name].as_str()
    }
}

const ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Which of two kinds Helm installs first. Kinds it does not know come last, by name.
pub fn install_order(a: &str, b: &str) -> Ordering {
    let place = |kind: &str| ORDER.iter().position(|it| *it == kind);
    match (place(a), place(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// The documents of a text, in their order.
pub(crate) fn split(text: &str) -> Vec<&str> {
    // Helm's separator is three dashes at the start of a line, or after white space that ends with a line break.
    let mut parts = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest[from..].find("---").map(|at| at + from) {
        let before = &rest[..at];
        if before.is_empty() || before.ends_with('\n') {
            parts.push(before);
            rest = &rest[at + 3..];
            from = 0;
            // A separator takes the white space behind it.
            rest = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{c}']);
            if rest.starts_with("---") {
                continue;
            }
            from = 0;
            if rest.is_empty() {
                break;
            }
        } else {
            from = at + 3;
        }
    }
    parts.push(rest);
    parts.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
}

/// Reads the documents of one rendered file. Those without a kind are left out.
pub(crate) fn read(path: &str, text: &str) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    for part in split(text) {
        let json = crate::yaml::read(part)?;
        let has_kind = json.get("kind").and_then(Json::as_str).is_some_and(|it| !it.is_empty());
        if has_kind {
            documents.push(Document {
                path: path.to_owned(),
                json,
                text: part.to_owned(),
            });
        }
    }
    Ok(documents)
}

/// The documents to install and the hooks, each in Helm's order.
pub(crate) fn sort(documents: Vec<Document>) -> (Vec<Document>, Vec<Hook>) {
    let mut manifests = Vec::new();
    let mut hooks = Vec::new();
    let words = |text: &str| -> Vec<String> {
        let words = text.split(',').map(|it| it.trim().to_lowercase());
        words.filter(|it| !it.is_empty()).collect()
    };
    for document in documents {
        let Some(events) = document.annotation("helm.sh/hook").map(words) else {
            manifests.push(document);
            continue;
        };
        // A hook without an event that Helm knows is dropped.
        if !events.iter().any(|it| is_event(it)) {
            continue;
        }
        hooks.push(Hook {
            events: events.into_iter().filter(|it| is_event(it)).collect(),
            weight: document
                .annotation("helm.sh/hook-weight")
                .and_then(|it| it.parse().ok())
                .unwrap_or(0),
            delete_policies: document
                .annotation("helm.sh/hook-delete-policy")
                .map(words)
                .unwrap_or_default(),
            document,
        });
    }
    manifests.sort_by(|a, b| install_order(a.kind(), b.kind()));
    hooks.sort_by(|a, b| install_order(a.document.kind(), b.document.kind()));
    (manifests, hooks)
}

fn is_event(name: &str) -> bool {
    const EVENTS: &[&str] = &[
        "pre-install",
        "post-install",
        "pre-delete",
        "post-delete",
        "pre-upgrade",
        "post-upgrade",
        "pre-rollback",
        "post-rollback",
        "test",
        "test-success",
    ];
    EVENTS.contains(&name)
}
