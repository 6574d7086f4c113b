//! What the reconciler of works looks at, and what it keeps in memory.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
};

use kube::Client;
use ocm_api::work::{AppliedManifestWork, ManifestWork};
use ocm_reconcile::Cache;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{discovery::Discovery, executor::Executors, objects::WatchedObjects, seen::AgentIdentity};

/// The reconciler.
pub(crate) struct ManifestWorks {
    pub identity: Arc<AgentIdentity>,
    /// Cancelled when the hub has said that it deletes the cluster.
    pub leaving: CancellationToken,
    pub stop: CancellationToken,
    /// The cluster's namespace on the hub.
    pub namespace: String,
    pub cluster: Client,
    pub works: Cache<ManifestWork>,
    pub traces: Cache<AppliedManifestWork>,
    pub objects: WatchedObjects,
    pub discovery: Discovery,
    pub executors: Arc<Executors>,
    /// How many runs have left something that is worth another try, by key.
    pub retries: Mutex<HashMap<String, u32>>,
    /// What the last write of a trace told about the cluster's CRD.
    pub keeps_agent_id: AtomicBool,
}
