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

/// The rules of registration.
#[derive(Default)]
pub struct Registration {
    /// The hub's objects; the server that holds them does not exist yet when the rules are handed to it.
    store: OnceLock<Arc<Store>>,
}

impl Registration {
    /// Lets the rules see the hub's objects.
    pub fn connect(&self, store: &Arc<Store>) {
        let _ = self.store.set(store.clone());
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
        let outcome = match review.resource {
            CLUSTERS => managed_cluster(review, object, &world),
            _ => set_binding(review, object, &world),
        };
        outcome
            .map(|()| vec![])
            .map_err(|denial| refusal(webhook(review.resource), denial.code, &denial.message))
    }
}

fn managed_cluster(review: &Review<'_>, object: &mut Value, world: &Seen<'_>) -> Result<(), Denial> {
    let new: ManagedCluster = read(object)?;
    let old = review.old.map(read::<ManagedCluster>).transpose()?;
    let operation = || old.as_ref().map_or(Operation::Create, Operation::Update);
    let changed = admission::mutate_managed_cluster(&new, operation(), true, jiff::Timestamp::now())?;
    admission::validate_managed_cluster(&review.user.username, &changed, operation(), world)?;
    // Only what the rules may change goes back, so that fields this binary does not know stay as they were written.
    if let Some(labels) = changed.metadata.labels {
        object["metadata"]["labels"] = serde_json::json!(labels);
    }
    if !changed.spec.taints.is_empty() {
        object["spec"]["taints"] = serde_json::json!(changed.spec.taints);
    }
    Ok(())
}

fn set_binding(review: &Review<'_>, object: &Value, world: &Seen<'_>) -> Result<(), Denial> {
    let new: ManagedClusterSetBinding = read(object)?;
    let old = review.old.map(read::<ManagedClusterSetBinding>).transpose()?;
    let operation = old.as_ref().map_or(Operation::Create, Operation::Update);
    admission::validate_set_binding(&review.user.username, &new, operation, world)
}

/// The name that upstream's webhook has, which users know from its refusals.
fn webhook(resource: &str) -> &'static str {
    match resource {
        CLUSTERS => "managedclustervalidators.admission.cluster.open-cluster-management.io",
        _ => "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
    }
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
