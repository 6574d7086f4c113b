//! What a policy asks of a cluster, and what it does there. The controller answers from watches and the API server,
//! `dryrun` from files.

use std::{fmt, sync::Arc};

use ocm_addon_sdk::{ocm_api::selector::Selector, reconcile::async_trait};
use serde_json::Value;

/// A kind as a cluster serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServedKind {
    /// Its group; empty for the core group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name.
    pub kind: String,
    /// Its name in paths.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether it can be watched.
    pub watchable: bool,
}

impl ServedKind {
    /// Its apiVersion.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// Why a cluster does not answer, or refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterError {
    /// The HTTP status, where a server has answered; 0 otherwise.
    pub code: u16,
    /// The reason in the Status, such as `NotFound`; empty where there is none.
    pub reason: String,
    /// What it says.
    pub message: String,
    /// The kind in the details of the Status, such as `namespaces`; mostly empty.
    pub about: String,
    /// The reasons of the causes in the details of the Status, such as `NamespaceTerminating`.
    pub causes: Vec<String>,
}

impl ClusterError {
    /// Whether the kind cannot be watched, and the policy waits for watches alone.
    pub fn is_unwatchable(&self) -> bool {
        self.code == 405
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClusterError {}

/// The objects that a selector selects, in the order of namespace and name, as [`Cluster::list`] has them.
pub fn selected_in_order(mut objects: Vec<Arc<Value>>, selector: Option<&Selector>) -> Vec<Arc<Value>> {
    if let Some(selector) = selector {
        objects.retain(|it| selector.matches(|key| it["metadata"]["labels"][key].as_str()));
    }
    objects.sort_by_cached_key(|it| {
        let text = |field: &str| it["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"))
    });
    objects
}

/// What was found of an object when it was compared the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Whether it was as it should be.
    pub compliant: bool,
    /// What was said of it besides.
    pub message: String,
}

/// A cluster, as one evaluation of one policy sees it. What is read through it wakes the policy when it changes, if the
/// policy waits for changes: until the evaluation after this one.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// How the cluster serves a kind; `None` when it does not.
    async fn served(&self, api_version: &str, kind: &str) -> Result<Option<Arc<ServedKind>>, ClusterError>;

    /// An object. `namespace` is empty for kinds without namespaces.
    async fn get(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError>;

    /// An object as the API server has it now, and not as a watch has told of it.
    async fn get_now(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, ClusterError>;

    /// The objects of a kind in a namespace, or in all where it is empty, in the order of namespace and name. Without a
    /// selector all of them.
    async fn list(
        &self,
        of: &ServedKind,
        namespace: &str,
        selector: Option<&Selector>,
    ) -> Result<Vec<Arc<Value>>, ClusterError>;

    /// Creates an object, fields validated strictly; what the server made of it.
    async fn create(&self, of: &ServedKind, object: &Value) -> Result<Value, ClusterError>;

    /// Puts an object, guarded by its resourceVersion, fields validated strictly; what the server made of it. With
    /// `try_only` nothing is kept (`dryRun=All`).
    async fn update(&self, of: &ServedKind, object: &Value, try_only: bool) -> Result<Value, ClusterError>;

    /// Puts the status of an object, guarded by its resourceVersion; what the server made of it.
    /// Files have no status of their own, so a cluster may refuse it.
    async fn update_status(&self, of: &ServedKind, object: &Value) -> Result<Value, ClusterError> {
        let _ = object;
        Err(ClusterError {
            code: 405,
            reason: "MethodNotAllowed".to_owned(),
            message: format!("the status of a {} cannot be written here", of.kind),
            ..ClusterError::default()
        })
    }

    /// Deletes an object, dependents in the background.
    async fn delete(&self, of: &ServedKind, namespace: &str, name: &str) -> Result<(), ClusterError>;

    /// What was found of an object in this resourceVersion, for this generation of the policy; `None` where it has to
    /// be compared. `object` is the UID and what is wanted of it.
    fn judged(&self, object: &str, resource_version: &str) -> Option<Judged> {
        let _ = (object, resource_version);
        None
    }

    /// Keeps what was found.
    fn keep_judged(&self, object: &str, resource_version: &str, judged: Judged) {
        let _ = (object, resource_version, judged);
    }
}
