//! The few fields of a Node that we sum up. A whole Node lists every image it holds, and an agent should be small.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Resource, api::ObjectMeta, core::ClusterResourceScope};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct NodeResources {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: NodeSpec,
    #[serde(default)]
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct NodeSpec {
    #[serde(default)]
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct NodeStatus {
    #[serde(default)]
    pub capacity: BTreeMap<String, Quantity>,
    #[serde(default)]
    pub allocatable: BTreeMap<String, Quantity>,
}

impl NodeResources {
    /// What we sum up.
    pub fn summed(&self) -> impl PartialEq + use<> {
        (
            self.spec.unschedulable,
            self.status.capacity.clone(),
            self.status.allocatable.clone(),
        )
    }
}

impl Resource for NodeResources {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Node".into()
    }
    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }
    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural(_: &()) -> Cow<'_, str> {
        "nodes".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
