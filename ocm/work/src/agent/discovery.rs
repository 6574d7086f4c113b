//! Which resource serves a kind, asked of the cluster one group version at a time and remembered. Upstream keeps a
//! whole RESTMapper; a work names its versions exactly, so one small list per version in use is enough.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use ocm_reconcile::segment;
use parking_lot::Mutex;

use super::manifest::{Gvk, Resource};

/// How soon a group version that lacks a kind may be asked for again. A custom kind is served moments after its
/// definition was applied, and the question is cheap.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Why a kind has no resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The cluster does not serve it.
    #[error("the server doesn't have a resource type {0:?}")]
    Unknown(String),
    /// The cluster could not be asked.
    #[error("could not ask the cluster for its resource types: {0}")]
    Failed(String),
}

/// What the cluster serves, as far as somebody asked.
pub struct Discovery {
    client: Client,
    versions: Mutex<HashMap<(String, String), Arc<Version>>>,
}

#[derive(Default)]
struct Version {
    // Held while asking, so that a hundred works ask once.
    asked: tokio::sync::Mutex<Option<Instant>>,
    resources: Mutex<HashMap<String, Resource>>,
}

impl Discovery {
    /// Nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            versions: Mutex::default(),
        }
    }

    /// The resource that serves the kind.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Resource, Unresolved> {
        let version = self
            .versions
            .lock()
            .entry((gvk.group.clone(), gvk.version.clone()))
            .or_default()
            .clone();
        let known = |it: &Version| it.resources.lock().get(&gvk.kind).cloned();
        if let Some(resource) = known(&version) {
            return Ok(resource);
        }
        let mut asked = version.asked.lock().await;
        if let Some(resource) = known(&version) {
            return Ok(resource);
        }
        if asked.is_none_or(|it| it.elapsed() >= ASK_AGAIN_AFTER) {
            let resources = self.ask(&gvk.group, &gvk.version).await?;
            *version.resources.lock() = resources;
            *asked = Some(Instant::now());
        }
        known(&version).ok_or_else(|| Unresolved::Unknown(gvk.kind.clone()))
    }

    /// Forgets a group version, because the cluster no longer knows one of its resources.
    pub fn forget(&self, group: &str, version: &str) {
        self.versions.lock().remove(&(group.to_owned(), version.to_owned()));
    }

    async fn ask(&self, group: &str, version: &str) -> Result<HashMap<String, Resource>, Unresolved> {
        let answer = if group.is_empty() {
            self.client.list_core_api_resources(&segment::encoded(version)).await
        } else {
            self.client
                .list_api_group_resources(&format!("{}/{}", segment::encoded(group), segment::encoded(version)))
                .await
        };
        let list = match answer {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(HashMap::new()),
            Err(error) => return Err(Unresolved::Failed(error.to_string())),
        };
        let of_its_own = list.resources.into_iter().filter(|it| !it.name.contains('/'));
        let entry = |it: k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource| {
            let gvk = Gvk {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: it.kind.clone(),
            };
            (
                it.kind,
                Resource {
                    gvk,
                    plural: it.name,
                    namespaced: it.namespaced,
                },
            )
        };
        Ok(of_its_own.map(entry).collect())
    }
}
