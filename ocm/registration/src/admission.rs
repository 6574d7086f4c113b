//! The rules that a write of a ManagedCluster or ManagedClusterSetBinding has to obey, whoever writes it.
//!
//! Plain functions: an embedded API server calls them in process, a webhook server wraps them in AdmissionReviews. What
//! the requester may do is asked through a closure, so that nothing here needs a client.
//! Upstream: ocm `pkg/registration/webhook/v1/{managedcluster_mutating,managedcluster_validating}.go`. We differ in two
//! things: the name of a new cluster, and of one that is to be accepted, is checked whether or not client configs are
//! given; and [`fields`] says which fields are whose, of which upstream leaves all
//! to whoever may write the object at all.

pub mod fields;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSetBinding, Taint},
    identity, labels, namespaces,
};
use ocm_reconcile::access::Attributes;

/// What is being done to the object.
#[derive(Clone, Copy, Debug)]
pub enum WriteOperation<'a, K> {
    /// It is new.
    Create,
    /// It was this before.
    Update(&'a K),
}

/// Why a write is refused, and with which HTTP status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// 400 for a wrong object, 403 for a missing right, or when the right could not be checked.
    pub code: u16,
    /// What the user reads.
    pub message: String,
}

/// What a rule may ask beside what it is told.
pub trait AdmissionContext {
    /// Whether the requester may do this.
    fn may(&self, attributes: &Attributes) -> Result<bool, String>;
    /// Whether this namespace exists and is on its way out.
    fn is_terminating(&self, namespace: &str) -> Result<bool, String>;
}

/// Fills in what the hub decides: when taints were added, and the default set.
pub fn mutate_managed_cluster(
    cluster: &ManagedCluster,
    operation: WriteOperation<'_, ManagedCluster>,
    default_sets: bool,
    now: Timestamp,
) -> Result<ManagedCluster, Denial> {
    let mut cluster = cluster.clone();
    // The API keeps whole seconds.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    match operation {
        WriteOperation::Create => cluster
            .spec
            .taints
            .iter_mut()
            .for_each(|it| it.time_added = Some(now.clone())),
        WriteOperation::Update(old) => {
            let mut meddled = Vec::new();
            for taint in &mut cluster.spec.taints {
                match old.spec.taints.iter().find(|it| it.key == taint.key) {
                    Some(before) if same(before, taint) => {
                        if taint.time_added != before.time_added {
                            meddled.push(taint.key.clone());
                        }
                    }
                    _ if taint.time_added.is_some() => meddled.push(taint.key.clone()),
                    _ => taint.time_added = Some(now.clone()),
                }
            }
            if !meddled.is_empty() {
                return Err(bad(format!(
                    "It is not allowed to set TimeAdded of Taint \"{}\".",
                    meddled.join(",")
                )));
            }
        }
    }
    if default_sets {
        let set = cluster.labels_mut().entry(labels::CLUSTER_SET.to_owned()).or_default();
        if set.is_empty() {
            *set = namespaces::DEFAULT_CLUSTER_SET.to_owned();
        }
    }
    Ok(cluster)
}

/// Whether this ManagedCluster may be written by this user.
pub fn validate_managed_cluster(
    user: &str,
    cluster: &ManagedCluster,
    operation: WriteOperation<'_, ManagedCluster>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    for config in &cluster.spec.managed_cluster_client_configs {
        if !config.url.starts_with("https://") || config.url.len() == "https://".len() {
            return Err(bad(format!("url \"{}\" is invalid in client configs", config.url)));
        }
    }
    let name = cluster.name_any();
    let accepted_before = match operation {
        WriteOperation::Create => false,
        WriteOperation::Update(old) => old.spec.hub_accepts_client,
    };
    let is_accepted_now = cluster.spec.hub_accepts_client && !accepted_before;
    let has_configs = !cluster.spec.managed_cluster_client_configs.is_empty();
    let is_new = matches!(operation, WriteOperation::Create);
    // One that is there with such a name all the same, from before these rules held, can be written otherwise, and go.
    if (is_new || is_accepted_now || has_configs) && cluster.metadata.deletion_timestamp.is_none() {
        check_name(&name)?;
    }
    if is_accepted_now {
        accept(user, &name, context)?;
    }
    let set_of = |it: &ManagedCluster| it.labels().get(labels::CLUSTER_SET).cloned().unwrap_or_default();
    let old = match operation {
        WriteOperation::Create => String::new(),
        WriteOperation::Update(old) => set_of(old),
    };
    let new = set_of(cluster);
    if old != new {
        for set in [old, new].iter().filter(|it| !it.is_empty()) {
            join(user, set, context)?;
        }
    }
    Ok(())
}

/// Whether this ManagedClusterSetBinding may be written by this user.
pub fn validate_set_binding(
    user: &str,
    binding: &ManagedClusterSetBinding,
    operation: WriteOperation<'_, ManagedClusterSetBinding>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    let set = &binding.spec.cluster_set;
    if binding.name_any() != *set {
        return Err(bad(
            "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet".to_owned(),
        ));
    }
    if let WriteOperation::Create = operation
        && !may_on_set("bind", BIND, set, context)?
    {
        return Err(forbidden(
            BIND,
            set,
            &format!("user \"{user}\" is not allowed to bind cluster set \"{set}\""),
        ));
    }
    Ok(())
}

/// Whether a cluster can have this name: it becomes a namespace, hence a DNS label.
pub fn check_name(name: &str) -> Result<(), Denial> {
    let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let bytes = name.as_bytes();
    let fits = (1..=63).contains(&bytes.len())
        && bytes.iter().all(|it| plain(*it) || *it == b'-')
        && bytes.first().is_some_and(|it| plain(*it))
        && bytes.last().is_some_and(|it| plain(*it));
    // The group of the agents of a cluster of this name would be that of all agents.
    if identity::cluster_group(name) == identity::MANAGED_CLUSTERS_GROUP {
        return Err(bad(format!(
            "metadata.name format is not correct: \"{name}\" stands for all clusters, use another name"
        )));
    }
    if fits {
        return Ok(());
    }
    Err(bad(format!(
        "metadata.name format is not correct: \"{name}\" is not a valid namespace name, use at most 63 lower case letters, \
         digits and '-', and begin and end with a letter or digit"
    )))
}

fn accept(user: &str, name: &str, context: &impl AdmissionContext) -> Result<(), Denial> {
    let refused = |why: String| forbidden(ACCEPT, name, &why);
    if context.is_terminating(name).map_err(refused)? {
        return Err(refused(format!("cluster namespace \"{name}\" is terminating")));
    }
    let attributes = Attributes {
        verb: "update".to_owned(),
        group: identity::REGISTER_GROUP.to_owned(),
        resource: "managedclusters".to_owned(),
        subresource: Some("accept".to_owned()),
        namespace: None,
        name: Some(name.to_owned()),
    };
    if context.may(&attributes).map_err(refused)? {
        return Ok(());
    }
    Err(refused(format!(
        "user \"{user}\" cannot update the HubAcceptsClient field"
    )))
}

fn join(user: &str, set: &str, context: &impl AdmissionContext) -> Result<(), Denial> {
    if may_on_set("join", JOIN, set, context)? {
        return Ok(());
    }
    Err(forbidden(
        JOIN,
        set,
        &format!("user \"{user}\" cannot add/remove a ManagedCluster to/from ManagedClusterSet \"{set}\""),
    ))
}

fn may_on_set(subresource: &str, resource: &str, set: &str, context: &impl AdmissionContext) -> Result<bool, Denial> {
    let attributes = Attributes {
        verb: "create".to_owned(),
        group: ManagedCluster::GROUP.to_owned(),
        resource: "managedclustersets".to_owned(),
        subresource: Some(subresource.to_owned()),
        namespace: None,
        name: Some(set.to_owned()),
    };
    context.may(&attributes).map_err(|why| forbidden(resource, set, &why))
}

fn same(before: &Taint, now: &Taint) -> bool {
    before.value == now.value && before.effect == now.effect
}

fn bad(message: String) -> Denial {
    Denial { code: 400, message }
}

/// What a refusal is about, as upstream's sentences begin. That of bindings names the group `apps`, which has nothing
/// to do with it: upstream takes it from the wrong package, and there are programs that compare whole sentences.
const ACCEPT: &str = "managedclusters/accept.cluster.open-cluster-management.io";
const JOIN: &str = "managedclustersets/join.cluster.open-cluster-management.io";
const BIND: &str = "managedclustersets/bind.apps";

/// Also where the question could not be asked: upstream says so with the same code.
fn forbidden(resource: &str, name: &str, why: &str) -> Denial {
    Denial {
        code: 403,
        message: format!("{resource} \"{name}\" is forbidden: {why}"),
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
