//! Which kinds an API server serves in one version of a group.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{Client, core::ApiResource};
use parking_lot::Mutex;

use crate::segment::encoded;

/// How soon a version that lacks a kind may be asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveredKind {
    /// Its group, version, kind and plural.
    pub api_resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// The kinds of one API server, asked one apiVersion at a time and remembered. Cloning shares what is known.
#[derive(Clone)]
pub struct DiscoveredKinds {
    client: Client,
    versions: Arc<Mutex<HashMap<String, (Instant, Arc<HashMap<String, DiscoveredKind>>)>>>,
}

impl DiscoveredKinds {
    /// Of the API server behind this client; nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            versions: Arc::default(),
        }
    }

    /// How a kind is served; `None` where it is not. What was not there is asked for again.
    ///
    /// # Errors
    /// When the API server does not say.
    pub async fn find(&self, api_version: &str, kind: &str) -> Result<Option<DiscoveredKind>, kube::Error> {
        let known = self.versions.lock().get(api_version).cloned();
        if let Some((at, kinds)) = known
            && (kinds.contains_key(kind) || at.elapsed() < ASK_AGAIN_AFTER)
        {
            return Ok(kinds.get(kind).cloned());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let listed = resources(&self.client, api_version).await?;
        let kinds: HashMap<_, _> = listed
            .into_iter()
            .map(|it| {
                let api_resource = ApiResource {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    api_version: api_version.to_owned(),
                    kind: it.kind.clone(),
                    plural: it.name,
                };
                let namespaced = it.namespaced;
                (
                    it.kind,
                    DiscoveredKind {
                        api_resource,
                        namespaced,
                    },
                )
            })
            .collect();
        let found = kinds.get(kind).cloned();
        let entry = (Instant::now(), Arc::new(kinds));
        self.versions.lock().insert(api_version.to_owned(), entry);
        Ok(found)
    }

    /// Forgets a version, because the API server no longer knows one of its kinds.
    pub fn forget(&self, api_version: &str) {
        self.versions.lock().remove(api_version);
    }
}

/// The resources of an apiVersion, without their sub-resources. None where the version is not served.
///
/// # Errors
/// When the API server does not say.
pub async fn resources(client: &Client, api_version: &str) -> Result<Vec<APIResource>, kube::Error> {
    let listed = match api_version.split_once('/') {
        None => client.list_core_api_resources(&encoded(api_version)).await,
        Some((group, version)) => {
            let version = format!("{}/{}", encoded(group), encoded(version));
            client.list_api_group_resources(&version).await
        }
    };
    match listed {
        Ok(listed) => Ok(listed
            .resources
            .into_iter()
            .filter(|it| !it.name.contains('/'))
            .collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
