//! The options of a write: `CreateOptions`, `UpdateOptions`, `PatchOptions` and `DeleteOptions` of Kubernetes.

use serde_json::{Value, json};

/// How unknown and duplicate fields are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: bool,
    /// What the text of a patch says twice, in words: what comes of it no longer shows that.
    pub twice: Vec<String>,
}

/// What becomes of the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `DeleteOptions`, from the body or the query.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    /// Seconds that a running pod gets to end; `None` for what the pod itself asks for.
    pub grace_seconds: Option<i64>,
    pub dry_run: bool,
    /// Whether this is one object of a collection.
    pub of_collection: bool,
}

impl DeleteOptions {
    /// As webhooks see them.
    pub fn body(&self) -> Value {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let policy = self.propagation.map(|it| match it {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        });
        if let Some(policy) = policy {
            body["propagationPolicy"] = policy.into();
        }
        if let Some(seconds) = self.grace_seconds {
            body["gracePeriodSeconds"] = seconds.into();
        }
        if self.dry_run {
            body["dryRun"] = json!(["All"]);
        }
        for (key, text) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(text) = text {
                body["preconditions"][key] = text.as_str().into();
            }
        }
        body
    }
}
