//! Which kinds an API server serves, asked once and again when definitions change.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use ocm_addon_sdk::{
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube::Client,
    reconcile::{Cache, Queue, discovery},
};
use parking_lot::Mutex;

use super::api::cluster_error;
use crate::cluster::{ClusterError, ServedKind};

/// A kind that was not there is asked for again after this time, if nothing says that it has come.
const MISSING_KEPT: Duration = Duration::from_secs(5);

type KindsOfVersion = HashMap<String, Arc<ServedKind>>;

/// The kinds of one API server. Cloning shares what is known.
#[derive(Clone)]
pub struct Kinds {
    client: Client,
    versions: Arc<Mutex<HashMap<String, (Instant, Arc<KindsOfVersion>)>>>,
    /// Keys that wait for a kind.
    waiting: Arc<Mutex<BTreeSet<String>>>,
}

impl Kinds {
    /// Of the API server behind this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            versions: Arc::default(),
            waiting: Arc::default(),
        }
    }

    /// Forgets a group when one of its definitions changes, and wakes who waits for a kind.
    pub fn follow(&self, definitions: &Cache<CustomResourceDefinition>, queue: &Queue) {
        let (versions, waiting, queue) = (self.versions.clone(), self.waiting.clone(), queue.clone());
        definitions.listen(move |old, new| {
            let Some(definition) = new.or(old) else { return };
            let prefix = format!("{}/", definition.spec.group);
            versions.lock().retain(|it, _| !it.starts_with(&prefix));
            for key in waiting.lock().iter() {
                queue.add(key.as_str());
            }
        });
    }

    /// Whether a key waits for a kind that is not there.
    pub fn wait(&self, key: &str, waits: bool) {
        let mut waiting = self.waiting.lock();
        match waits {
            true => drop(waiting.insert(key.to_owned())),
            false => drop(waiting.remove(key)),
        }
    }

    /// How a kind is served; `None` when it is not.
    ///
    /// # Errors
    /// When the API server does not say.
    pub async fn served(&self, api_version: &str, kind: &str) -> Result<Option<Arc<ServedKind>>, ClusterError> {
        let known = self.versions.lock().get(api_version).cloned();
        if let Some((at, kinds)) = known
            && (kinds.contains_key(kind) || at.elapsed() < MISSING_KEPT)
        {
            return Ok(kinds.get(kind).cloned());
        }
        let kinds = Arc::new(self.ask(api_version).await?);
        let found = kinds.get(kind).cloned();
        self.versions
            .lock()
            .insert(api_version.to_owned(), (Instant::now(), kinds));
        Ok(found)
    }

    async fn ask(&self, api_version: &str) -> Result<KindsOfVersion, ClusterError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let listed = discovery::resources(&self.client, api_version)
            .await
            .map_err(cluster_error)?;
        let kinds = listed.into_iter().map(|it| {
            let kind = ServedKind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: it.kind.clone(),
                plural: it.name,
                namespaced: it.namespaced,
                watchable: it.verbs.iter().any(|it| it == "watch"),
            };
            (it.kind, Arc::new(kind))
        });
        Ok(kinds.collect())
    }
}
