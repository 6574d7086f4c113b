//! RegistrationAdmission's rules for those who write ManagedClusters, ManagedClusterSetBindings,
//! and where an add-on runs.

use std::sync::{Arc, OnceLock};

use kube_api::admission::{Admission, AdmissionOperation as Verb, Review};
use kube_store::{Store, status::Status};
use ocm_api::cluster::{ManagedCluster, ManagedClusterSetBinding};
use ocm_reconcile::access;
use registration::admission::{
    self, AdmissionContext, Denial, WriteOperation,
    fields::{self, Writer},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{asked_of, refusal};

const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";
const ADD_ONS: &str = "managedclusteraddons.addon.open-cluster-management.io";
const BINDINGS: &str = "managedclustersetbindings.cluster.open-cluster-management.io";

/// The names that upstream's webhooks have, which users know from their refusals.
const CLUSTER_MUTATORS: &str = "managedclustermutators.admission.cluster.open-cluster-management.io";
const CLUSTER_VALIDATORS: &str = "managedclustervalidators.admission.cluster.open-cluster-management.io";
const SET_BINDING_VALIDATORS: &str = "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io";
/// Upstream has none of these; the name follows the others'.
const ADD_ON_VALIDATORS: &str = "managedclusteraddonvalidators.admission.addon.open-cluster-management.io";

/// How long the Lease of a cluster lasts that does not say, as the kind's own default is.
const LEASE_SECONDS: i32 = 60;

/// The rules of registration.
pub struct RegistrationAdmission {
    /// Whether a cluster that names no set is put into the set `default`.
    default_sets: bool,
    /// The hub's objects; the server that holds them does not exist yet when the rules are handed to it.
    store: OnceLock<Arc<Store>>,
}

impl RegistrationAdmission {
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
}

/// Fills in what the hub decides.
///
/// # Errors
/// 400 for what is no cluster, or what the rules refuse.
pub fn fill_cluster(object: &mut Value, old: Option<&Value>, default_sets: bool) -> Result<(), Denial> {
    let new: ManagedCluster = read(object)?;
    let old = old.map(read::<ManagedCluster>).transpose()?;
    let now = jiff::Timestamp::now();
    let changed = admission::mutate_managed_cluster(&new, operation(old.as_ref()), default_sets, now)?;
    // Only what the rules may change goes back, so that fields this binary does not know stay as they were written.
    if let Some(labels) = &changed.metadata.labels {
        object["metadata"]["labels"] = serde_json::json!(labels);
    }
    if !changed.spec.taints.is_empty() {
        object["spec"]["taints"] = serde_json::json!(changed.spec.taints);
    }
    // Upstream's webhook leaves out what is zero, and then the default of the kind takes its place.
    if object["spec"]["leaseDurationSeconds"] == 0 {
        object["spec"]["leaseDurationSeconds"] = LEASE_SECONDS.into();
    }
    Ok(())
}

/// Whether this writer may write this cluster.
///
/// # Errors
/// 400 for what is no cluster, 403 for what the writer has no right to.
pub fn validate_cluster(
    by: Writer<'_>,
    object: &Value,
    old: Option<&Value>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    let new: ManagedCluster = read(object)?;
    let before = old.map(read::<ManagedCluster>).transpose()?;
    admission::validate_managed_cluster(by.user, &new, operation(before.as_ref()), context)?;
    fields::check_cluster(by, object, old, context)
}

/// Whether this writer may write this status of a cluster.
///
/// # Errors
/// 403 for what the writer has no right to.
pub fn validate_cluster_status(by: Writer<'_>, object: &Value, old: Option<&Value>) -> Result<(), Denial> {
    old.map_or(Ok(()), |old| fields::check_status(by, object, old))
}

/// Whether this writer may have an add-on run where this object says.
///
/// # Errors
/// 403 where it takes a right that the writer does not have.
pub fn validate_add_on(
    by: Writer<'_>,
    object: &Value,
    old: Option<&Value>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    fields::check_add_on(by, object, old, context)
}

/// Whether this user may write this binding of a set.
pub fn validate_set_binding(
    user: &str,
    object: &Value,
    old: Option<&Value>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    let new: ManagedClusterSetBinding = read(object)?;
    let old = old.map(read::<ManagedClusterSetBinding>).transpose()?;
    admission::validate_set_binding(user, &new, operation(old.as_ref()), context)
}

fn operation<K>(old: Option<&K>) -> WriteOperation<'_, K> {
    old.map_or(WriteOperation::Create, WriteOperation::Update)
}

impl Admission for RegistrationAdmission {
    fn wants(&self, resource: &str) -> bool {
        [CLUSTERS, BINDINGS, ADD_ONS].contains(&resource)
    }

    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<Vec<String>, Status> {
        if review.operation == Verb::Delete || !review.subresource.is_empty() || review.resource != CLUSTERS {
            return Ok(vec![]);
        }
        fill_cluster(object, review.old, self.default_sets)
            .map(|()| vec![])
            .map_err(|it| refusal(CLUSTER_MUTATORS, it.code, &it.message))
    }

    fn validate(&self, review: &Review<'_>, object: &Value) -> Result<Vec<String>, Status> {
        let context = Seen {
            review,
            store: self.store.get(),
        };
        let by = Writer {
            user: &review.user.username,
            groups: &review.user.groups,
        };
        let old = review.old;
        let (webhook, said) = match (review.resource, review.subresource) {
            (CLUSTERS, "") => (CLUSTER_VALIDATORS, validate_cluster(by, object, old, &context)),
            (CLUSTERS, "status") => (CLUSTER_VALIDATORS, validate_cluster_status(by, object, old)),
            (BINDINGS, "") => (
                SET_BINDING_VALIDATORS,
                validate_set_binding(by.user, object, old, &context),
            ),
            (ADD_ONS, "") => (ADD_ON_VALIDATORS, validate_add_on(by, object, old, &context)),
            _ => return Ok(vec![]),
        };
        said.map(|()| vec![])
            .map_err(|it| refusal(webhook, it.code, &it.message))
    }
}

fn read<K: DeserializeOwned>(object: &Value) -> Result<K, Denial> {
    // A list would be read as a struct's fields in their order.
    let parts = ["metadata", "spec"].into_iter().map(|part| (part, &object[part]));
    for (part, value) in parts.chain([("the object", object)]) {
        if !value.is_object() && !(value.is_null() && part != "the object") {
            return Err(Denial {
                code: 400,
                message: format!("{part} must be an object"),
            });
        }
    }
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

impl AdmissionContext for Seen<'_> {
    fn may(&self, asked: &access::Attributes) -> Result<bool, String> {
        Ok((self.review.may)(&asked_of(asked)))
    }

    fn is_terminating(&self, namespace: &str) -> Result<bool, String> {
        let store = self.store.ok_or("the server is starting")?;
        let found = store.newest("namespaces", "", namespace);
        Ok(found.is_some_and(|it| it.value()["status"]["phase"] == "Terminating"))
    }
}
