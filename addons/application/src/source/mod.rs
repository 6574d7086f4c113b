//! What a Subscription's source holds.

mod access;
mod buckets;
mod charts;
mod reader;
mod releases;

use std::{fmt::Debug, sync::Arc};

use ocm_addon_sdk::{
    k8s_openapi::{
        NamespaceResourceScope,
        api::core::v1::{ConfigMap, Secret},
    },
    kube::{Api, Client, Resource, ResourceExt},
    ocm_api::{
        apps::{Channel, Subscription},
        object::ObjectReference,
    },
    reconcile::{async_trait, segment::encoded},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::message;

pub use reader::SourceFetcher;

/// A Channel with what is needed to read it.
#[derive(Clone, Debug)]
pub struct ChannelInputs {
    /// The Channel.
    pub channel: Arc<Channel>,
    /// The Secret that it names.
    pub secret: Option<Arc<Secret>>,
    /// The ConfigMap that it names.
    pub config_map: Option<Arc<ConfigMap>>,
}

impl ChannelInputs {
    /// A Channel with its Secret and ConfigMap, which are in its namespace whatever the reference says: whoever may
    /// write Channels could otherwise send the Secrets of others to a server of theirs.
    ///
    /// # Errors
    /// In words for the Subscription's status, when one is not there or cannot be read.
    pub async fn read(client: &Client, channel: Arc<Channel>) -> Result<Self, String> {
        let namespace = channel.namespace().unwrap_or_default();
        let secret = referred(client, &namespace, channel.spec.secret_ref.as_ref()).await;
        let config_map = referred(client, &namespace, channel.spec.config_map_ref.as_ref()).await;
        Ok(Self {
            secret: secret.map_err(|why| format!("failed to get reference secret from channel: {why}"))?,
            config_map: config_map.map_err(|why| format!("failed to get reference configmap from channel: {why}"))?,
            channel,
        })
    }
}

async fn referred<K: Namespaced>(
    client: &Client,
    namespace: &str,
    reference: Option<&ObjectReference>,
) -> Result<Option<Arc<K>>, String> {
    match reference.filter(|it| !it.name.is_empty()) {
        None => Ok(None),
        Some(reference) => get(client, namespace, &reference.name).await.map(Some),
    }
}

/// A kind of objects in namespaces.
pub(crate) trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned
{
}

/// An object that has to be there; or what the API server says.
pub(crate) async fn get<K: Namespaced>(client: &Client, namespace: &str, name: &str) -> Result<Arc<K>, String> {
    let api: Api<K> = Api::namespaced(client.clone(), &encoded(namespace));
    let found = api.get(&encoded(name)).await;
    found.map(Arc::new).map_err(|error| message(&error))
}

/// What a source is read with.
#[derive(Clone, Debug)]
pub struct SourceInputs {
    /// The Channel.
    pub primary: ChannelInputs,
    /// The Channel that is read when the first cannot be.
    pub secondary: Option<ChannelInputs>,
    /// The ConfigMap that `packageFilter.filterRef` names.
    pub filter: Option<Arc<ConfigMap>>,
}

impl SourceInputs {
    /// The Channel that this content comes from.
    pub fn channel_of(&self, content: &SourceContent) -> &ChannelInputs {
        let secondary = self.secondary.as_ref().filter(|_| content.is_secondary);
        secondary.unwrap_or(&self.primary)
    }
}

/// What a source holds.
#[derive(Clone, Debug, Default)]
pub struct SourceContent {
    /// The commit, the digest of the index, or that of what is in the bucket.
    pub revision: String,
    /// The objects that are deployed, in the order in which they are; charts are HelmReleases.
    pub objects: Vec<Value>,
    /// AnsibleJobs that run before it.
    pub pre_hooks: Vec<Value>,
    /// AnsibleJobs that run after it.
    pub post_hooks: Vec<Value>,
    /// What of it cannot be used, and why.
    pub problems: Vec<String>,
    /// Whether the secondary Channel is where it comes from.
    pub is_secondary: bool,
}

/// Who reads sources.
#[async_trait]
pub trait SourceReader: Send + Sync {
    /// What the source holds now; `None` when that is what it held at the revision `known`, which is found out without
    /// reading the rest where that is possible.
    ///
    /// # Errors
    /// In words for the Subscription's status, without credentials.
    async fn read(
        &self,
        subscription: &Subscription,
        inputs: &SourceInputs,
        known: Option<&str>,
    ) -> Result<Option<SourceContent>, String>;
}

/// The objects of a manifest of several YAML documents, as far as they can be read.
pub fn objects_of_manifest(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    documents.into_iter().filter(|it| it["kind"].is_string()).collect()
}
