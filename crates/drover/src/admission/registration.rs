//! Registration's rules for those who write ManagedClusters and ManagedClusterSetBindings.

use std::sync::{Arc, OnceLock};

use kube_api::admission::{Admission, Operation as Verb, Review};
use kube_store::{Store, status::Status};
use ocm_api::cluster::{ManagedCluster, ManagedClusterSetBinding};
use ocm_reconcile::access;
use registration::admission::{self, Denial, Operation, World};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{asked_of, refusal};

const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";
const BINDINGS: &str = "managedclustersetbindings.cluster.open-cluster-management.io";

/// The names that upstream's webhooks have, which users know from their refusals.
const CLUSTER_MUTATORS: &str = "managedclustermutators.admission.cluster.open-cluster-management.io";
const CLUSTER_VALIDATORS: &str = "managedclustervalidators.admission.cluster.open-cluster-management.io";
const SET_BINDING_VALIDATORS: &str = "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io";

/// The rules of registration.
pub struct Registration {
    /// Whether a cluster that names no set is put into the set `default`.
    default_sets: bool,
    /// The hub's objects; the server that holds them does not exist yet when the rules are handed to it.
    store: OnceLock<Arc<Store>>,
}

impl Registration {
    /// The rules, which do not see the hub's objects yet.
    pub fn new(default_sets: bool) -> Self {
        Self {
            default_sets,
            store: OnceLock::new(),
        }
    }

    /// Lets the rules see the hub's objects.
    pub fn connect(&self, store: &Arc<Store>) {
        let _ = self.store.set(store.clone());
    }

    /// Fills in what the hub decides, and hands back the whole of it.
    fn fill(&self, object: &mut Value, operation: Operation<'_, ManagedCluster>) -> Result<ManagedCluster, Denial> {
        let new: ManagedCluster = read(object)?;
        let now = jiff::Timestamp::now();
        let changed = admission::mutate_managed_cluster(&new, operation, self.default_sets, now)?;
        // Only what the rules may change goes back, so that fields this binary does not know stay as they were written.
        if let Some(labels) = &changed.metadata.labels {
            object["metadata"]["labels"] = serde_json::json!(labels);
        }
        if !changed.spec.taints.is_empty() {
            object["spec"]["taints"] = serde_json::json!(changed.spec.taints);
        }
        Ok(changed)
    }
}

impl Admission for Registration {
    fn wants(&self, resource: &str) -> bool {
        resource == CLUSTERS || resource == BINDINGS
    }

    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<Vec<String>, Status> {
        if review.operation == Verb::Delete || !review.subresource.is_empty() {
            return Ok(vec![]);
        }
        let world = Seen {
            review,
            store: self.store.get(),
        };
        let refused = |webhook: &'static str| move |it: Denial| refusal(webhook, it.code, &it.message);
        if review.resource == BINDINGS {
            set_binding(review, object, &world).map_err(refused(SET_BINDING_VALIDATORS))?;
            return Ok(vec![]);
        }
        let old = review.old.map(read::<ManagedCluster>).transpose();
        let old = old.map_err(refused(CLUSTER_MUTATORS))?;
        let operation = || old.as_ref().map_or(Operation::Create, Operation::Update);
        let changed = self.fill(object, operation()).map_err(refused(CLUSTER_MUTATORS))?;
        admission::validate_managed_cluster(&review.user.username, &changed, operation(), &world)
            .map_err(refused(CLUSTER_VALIDATORS))?;
        Ok(vec![])
    }
}

fn set_binding(review: &Review<'_>, object: &Value, world: &Seen<'_>) -> Result<(), Denial> {
    let new: ManagedClusterSetBinding = read(object)?;
    let old = review.old.map(read::<ManagedClusterSetBinding>).transpose()?;
    let operation = old.as_ref().map_or(Operation::Create, Operation::Update);
    admission::validate_set_binding(&review.user.username, &new, operation, world)
}

fn read<K: DeserializeOwned>(object: &Value) -> Result<K, Denial> {
    serde_json::from_value(object.clone()).map_err(|error| Denial {
        code: 400,
        message: error.to_string(),
    })
}

/// The hub as one write sees it.
struct Seen<'a> {
    review: &'a Review<'a>,
    store: Option<&'a Arc<Store>>,
}

impl World for Seen<'_> {
    fn may(&self, asked: &access::Attributes) -> Result<bool, String> {
        Ok((self.review.may)(&asked_of(asked)))
    }

    fn is_terminating(&self, namespace: &str) -> Result<bool, String> {
        let store = self.store.ok_or("the server is starting")?;
        let found = store.newest("namespaces", "", namespace);
        Ok(found.is_some_and(|it| it.value()["status"]["phase"] == "Terminating"))
    }
}
