//! What of a Cluster of Cluster API is looked at: that it is there.

use std::borrow::Cow;

use kube::{Resource, api::ObjectMeta, core::NamespaceResourceScope};
use serde::{Deserialize, Serialize};

/// A Cluster of Cluster API.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClusterApiCluster {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Resource for ClusterApiCluster {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Cluster".into()
    }
    fn group(_: &()) -> Cow<'_, str> {
        "cluster.x-k8s.io".into()
    }
    fn version(_: &()) -> Cow<'_, str> {
        "v1beta1".into()
    }
    fn plural(_: &()) -> Cow<'_, str> {
        "clusters".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
