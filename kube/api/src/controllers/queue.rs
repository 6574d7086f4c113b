//! What a controller still has to look at.

use std::sync::Arc;

/// Objects waiting for one controller.
pub(crate) type Queue = kube_primitives::queue::Queue<Key>;

/// The object that a controller looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Resource id such as `deployments.apps`.
    pub resource: Arc<str>,
    /// Empty for a cluster-scoped object.
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl Key {
    /// Key of a cluster-scoped object.
    pub fn cluster(resource: &str, name: &str) -> Self {
        Self {
            resource: resource.into(),
            namespace: Box::default(),
            name: name.into(),
        }
    }

    /// Key of a stored object.
    pub fn of(object: &kube_store::Object) -> Self {
        Self {
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }
}
