//! OCM's rules for writers, inside the embedded hub's API server. On a real Kubernetes the same rules are webhooks.
//! The rules themselves are in `registration::admission` and `work::hub::admission`; here they only meet the server.

use std::sync::{Arc, OnceLock};

use kube_api::{
    admission::{Admission, Operation as Verb, Review},
    identity::Attributes,
};
use kube_store::{Store, status::Status};
use ocm_api::cluster::{ManagedCluster, ManagedClusterSetBinding};
use ocm_reconcile::access;
use registration::admission::{self, Denial, Operation, World};
use serde::de::DeserializeOwned;
use serde_json::Value;

const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";
const WORKS: &str = "manifestworks.work.open-cluster-management.io";
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
        outcome.map(|()| vec![]).map_err(|denial| refusal(review, &denial))
    }
}

/// The rules of works.
#[derive(Default)]
pub struct Works {
    rules: work::hub::admission::Rules,
}

impl Admission for Works {
    fn wants(&self, resource: &str) -> bool {
        resource == WORKS
    }

    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<Vec<String>, Status> {
        use work::hub::admission::Operation;
        let operation = match review.operation {
            Verb::Create => Operation::Create,
            Verb::Update => Operation::Update,
            Verb::Delete => return Ok(vec![]),
        };
        if !review.subresource.is_empty() {
            return Ok(vec![]);
        }
        let may = |asked: &access::Attributes| (review.may)(&attributes(asked));
        work::hub::admission::review(&self.rules, &review.user.username, operation, object, review.old, may)
            .map(|()| vec![])
            .map_err(|it| {
                refusal(
                    review,
                    &Denial {
                        code: it.code,
                        message: it.message,
                    },
                )
            })
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

fn read<K: DeserializeOwned>(object: &Value) -> Result<K, Denial> {
    serde_json::from_value(object.clone()).map_err(|error| Denial {
        code: 400,
        message: error.to_string(),
    })
}

fn refusal(review: &Review<'_>, denial: &Denial) -> Status {
    // The API server says the same of a webhook's refusal.
    let message = format!(
        "admission webhook \"{}\" denied the request: {}",
        webhook(review.resource),
        denial.message
    );
    match denial.code {
        400 => Status::new(400, "BadRequest", message),
        403 => Status::new(403, "Forbidden", message),
        _ => Status::internal(message),
    }
}

/// The name that upstream's webhook has, which users know from its refusals.
fn webhook(resource: &str) -> &'static str {
    match resource {
        CLUSTERS => "managedclustervalidators.admission.cluster.open-cluster-management.io",
        WORKS => "manifestworkvalidators.admission.work.open-cluster-management.io",
        _ => "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
    }
}

/// The hub as one write sees it.
struct Seen<'a> {
    review: &'a Review<'a>,
    store: Option<&'a Arc<Store>>,
}

impl World for Seen<'_> {
    fn may(&self, asked: &access::Attributes) -> Result<bool, String> {
        Ok((self.review.may)(&attributes(asked)))
    }

    fn is_terminating(&self, namespace: &str) -> Result<bool, String> {
        let store = self.store.ok_or("the server is starting")?;
        let found = store.newest("namespaces", "", namespace);
        Ok(found.is_some_and(|it| it.value()["status"]["phase"] == "Terminating"))
    }
}

fn attributes(asked: &access::Attributes) -> Attributes {
    Attributes {
        verb: asked.verb.clone(),
        is_resource: true,
        group: asked.group.clone(),
        version: "*".into(),
        resource: asked.resource.clone(),
        subresource: asked.subresource.clone().unwrap_or_default(),
        namespace: asked.namespace.clone().unwrap_or_default(),
        name: asked.name.clone().unwrap_or_default(),
        path: String::new(),
    }
}
