//! Clusters of Cluster API, in whichever version the API server serves them, and whether or not it knows the kind.
//!
//! Of a Cluster two things are looked at, which all versions have in common: that it is there, and its phase.

use std::{borrow::Cow, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, PartialObjectMeta},
    core::DynamicResourceScope,
    runtime::watcher,
};
use ocm_reconcile::{Cache, Caches, cache::Watching};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

/// The group of Cluster API.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The phase of a Cluster whose kubeconfig can be used.
pub const PROVISIONED: &str = "Provisioned";

const PLURAL: &str = "clusters";
const DEFINITION: &str = "clusters.cluster.x-k8s.io";
/// How long after its definition has come a kind may take to be served.
const SERVED_SOON: Duration = Duration::from_secs(1);
/// How often is asked where nobody may look at definitions.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// A Cluster of Cluster API.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClusterApiCluster {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// How it is.
    #[serde(default)]
    pub status: Option<ClusterApiStatus>,
}

/// How a Cluster is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClusterApiStatus {
    /// One word for how far it is.
    #[serde(default)]
    pub phase: Option<String>,
}

/// A version of the kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServedVersion(pub String);

impl Default for ServedVersion {
    fn default() -> Self {
        Self("v1beta1".to_owned())
    }
}

impl Resource for ClusterApiCluster {
    type DynamicType = ServedVersion;
    type Scope = DynamicResourceScope;

    fn kind(_: &ServedVersion) -> Cow<'_, str> {
        "Cluster".into()
    }
    fn group(_: &ServedVersion) -> Cow<'_, str> {
        GROUP.into()
    }
    fn version(version: &ServedVersion) -> Cow<'_, str> {
        version.0.as_str().into()
    }
    fn plural(_: &ServedVersion) -> Cow<'_, str> {
        PLURAL.into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl ClusterApiCluster {
    /// Its phase; empty when nothing is said yet.
    pub fn phase(&self) -> &str {
        self.status
            .as_ref()
            .and_then(|it| it.phase.as_deref())
            .unwrap_or_default()
    }
}

/// The definition of the kind, as far as that it is there.
pub type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// The Clusters of an API server, from when it serves the kind.
#[derive(Clone)]
pub struct Clusters {
    /// The Clusters; none where the kind is not there.
    pub all: Cache<ClusterApiCluster>,
    /// The definition of the kind, if we may look at it.
    pub definition: Cache<Definition>,
}

impl Clusters {
    /// Of the API server behind these caches.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|caches| {
            let clusters = Self {
                all: Cache::empty(),
                definition: caches.watching(Watching {
                    selection: watcher::Config::default().fields(&format!("metadata.name={DEFINITION}")),
                    forbidden_at_first: true,
                    ..Watching::default()
                }),
            };
            if let Some(client) = caches.client() {
                tokio::spawn(follow(client.clone(), clusters.clone(), caches.cancel_token().clone()));
            }
            clusters
        })
    }
}

/// Watches the Clusters in the version that the API server prefers, from when it serves one.
async fn follow(client: Client, clusters: Clusters, cancel: CancellationToken) {
    let mut watched: Option<(ServedVersion, CancellationToken)> = None;
    let mut changes = clusters.definition.changes();
    while !cancel.is_cancelled() {
        changes.borrow_and_update();
        let served = served(&client).await;
        match &served {
            Ok(Some(version)) if watched.as_ref().is_none_or(|(it, _)| it != version) => {
                info!(version = %version.0, "watches the Clusters of Cluster API");
                let stop = cancel.child_token();
                let api = Api::all_with(client.clone(), version);
                tokio::spawn(clusters.all.clone().feed(api, Watching::default(), stop.clone()));
                if let Some((_, before)) = watched.replace((version.clone(), stop)) {
                    before.cancel();
                }
            }
            Ok(_) => {}
            Err(error) => debug!(%error, "could not ask for the versions of Cluster API, will retry"),
        }
        // What was served once and is not any more: its watch goes on trying, and finds it when it comes back.
        let is_expected = !matches!(served, Ok(Some(_))) && !clusters.definition.is_empty();
        tokio::select! {
            () = cancel.cancelled() => {}
            _ = changes.changed() => {}
            () = sleep(if is_expected { SERVED_SOON } else { ASK_AGAIN }) => {}
        }
    }
}

/// The version of the kind that an API server prefers; `None` when it does not serve the kind.
///
/// # Errors
/// When it cannot be asked.
pub async fn served(client: &Client) -> Result<Option<ServedVersion>, kube::Error> {
    let groups = client.list_api_groups().await?;
    let Some(group) = groups.groups.into_iter().find(|it| it.name == GROUP) else {
        return Ok(None);
    };
    let preferred = group.preferred_version.map(|it| it.version);
    let others = group.versions.into_iter().map(|it| it.version);
    let others: Vec<String> = others.filter(|it| Some(it) != preferred.as_ref()).collect();
    for version in preferred.into_iter().chain(others) {
        let resources = match client.list_api_group_resources(&format!("{GROUP}/{version}")).await {
            Ok(it) => it.resources,
            // It went between the two questions.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(error),
        };
        if resources.iter().any(|it| it.name == PLURAL) {
            return Ok(Some(ServedVersion(version)));
        }
    }
    Ok(None)
}
