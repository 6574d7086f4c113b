//! A cluster's way through the hub: accepted, denied, deleted.
//!
//! Root: ManagedCluster. Reads: its namespace, its RBAC objects; its works, when it has to go.
//! Writes: the namespace, the RBAC objects, the finalizer `api-resource-cleanup`, condition `HubAcceptedManagedCluster`; with the
//! finalizer, for the controllers that own them, what else a cluster is given when it comes ([`super::first`]); where nobody else
//! deletes them, the finalizers of works that are being deleted and whose cluster is gone.
//! Never: anything else inside the namespace but two RoleBindings; the namespace itself is not deleted.
//! Upstream: ocm `pkg/registration/hub/managedcluster/controller.go`, where a cluster that is denied or deleted keeps the right to
//! its works until it has cleaned up after the last. Here all its rights end at once, and it says so at once.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, ListParams, ObjectMeta, PartialObjectMeta},
};
use ocm_api::{
    annotations,
    cluster::ManagedCluster,
    condition::{self, wanted},
    conditions::managed_cluster::{self, reason},
    finalizers, identity, labels,
    work::ManifestWork,
};
use ocm_reconcile::{Clients, Done, ObserveError, Outcome, Plan, Queue, Reconciler, Site, async_trait, run::RunError};

use super::{
    Caches, HubOptions,
    caches::{find, find_in},
    doubts::{self, Doubts},
    first, leftovers, rbac,
};
use crate::status;

/// How long to wait before looking whether a cluster's works are gone. Upstream waits 5 s.
const WORKS_AGAIN: Duration = Duration::from_secs(1);

/// How long to wait where somebody makes the objects of a cluster while they are made here.
const MET_AGAIN: Duration = Duration::from_secs(1);

/// The reconciler.
pub struct Lifecycle {
    client: Client,
    caches: Caches,
    options: Arc<HubOptions>,
    doubts: Doubts,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub name: String,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Its namespace.
    pub namespace: Option<Arc<Namespace>>,
    /// Its ClusterRole.
    pub cluster_role: Option<Arc<ClusterRole>>,
    /// Its ClusterRoleBinding.
    pub cluster_role_binding: Option<Arc<ClusterRoleBinding>>,
    /// The registration agent's RoleBinding.
    pub registration_binding: Option<Arc<RoleBinding>>,
    /// The work agent's RoleBinding.
    pub work_binding: Option<Arc<RoleBinding>>,
    /// The works in the namespace; looked at only when the cluster has to go.
    pub works: Vec<PartialObjectMeta<ManifestWork>>,
    /// The hub's options.
    pub options: Arc<HubOptions>,
}

/// Where a cluster stands.
#[derive(Debug, PartialEq, Eq)]
pub enum Stand {
    /// The object is gone, or on its way out.
    Leaving,
    /// Nobody has decided yet, and nobody has to.
    ToAutoAccept,
    /// Not accepted, and never was.
    Waiting,
    /// Was accepted and is no longer.
    Denied,
    /// Accepted.
    Accepted,
}

impl Lifecycle {
    /// Over these caches.
    pub fn new(client: Client, caches: &Caches, options: Arc<HubOptions>) -> Self {
        Self {
            client,
            caches: caches.clone(),
            options,
            doubts: Doubts::default(),
        }
    }

    /// Puts what was written into the caches: the watch will bring it, too, and the next run may come first.
    fn put(&self, outcome: &Outcome) {
        let caches = &self.caches;
        for done in outcome.stages.iter().flatten() {
            let Ok(Done::Object(object)) = done else { continue };
            let object = (**object).clone();
            let kind = object.types.as_ref().map(|it| it.kind.clone()).unwrap_or_default();
            // What cannot be read comes by the watch.
            let _ = match kind.as_str() {
                "Namespace" => object.try_parse().map(|it| caches.namespaces.put(it)),
                "ClusterRole" => object.try_parse().map(|it| caches.cluster_roles.put(it)),
                "ClusterRoleBinding" => object.try_parse().map(|it| caches.cluster_role_bindings.put(it)),
                "RoleBinding" => object.try_parse().map(|it| caches.role_bindings.put(it)),
                "ManagedCluster" => object.try_parse().map(|it| caches.clusters.put(it)),
                _ => Ok(()),
            };
        }
    }
}

/// Clusters, and everything that carries a cluster's label, so that tampering is repaired.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.clusters.subscribe_by_name(queue);
    caches.namespaces.subscribe(queue, changed);
    caches.cluster_roles.subscribe(queue, changed);
    caches.cluster_role_bindings.subscribe(queue, changed);
    caches.role_bindings.subscribe(queue, changed);
}

// What appears is mostly our own doing; what changes or goes may be tampering.
fn changed<K: ResourceExt>(old: Option<&K>, new: Option<&K>) -> Option<String> {
    let cluster = new.or(old)?.labels().get(labels::CLUSTER_NAME)?;
    (!cluster.is_empty() && old.is_some()).then(|| cluster.clone())
}

/// Where a cluster stands.
pub fn stand(cluster: Option<&ManagedCluster>, auto_accept: bool) -> Stand {
    let Some(cluster) = cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Stand::Leaving;
    };
    // The annotation stays when an administrator denies the cluster later, so that it is not accepted once more.
    if auto_accept
        && !cluster
            .annotations()
            .contains_key(annotations::AUTOMATICALLY_ACCEPTED_ON)
    {
        return Stand::ToAutoAccept;
    }
    match (
        cluster.spec.hub_accepts_client,
        condition::is_true(status::conditions(cluster), managed_cluster::HUB_ACCEPTED),
    ) {
        (true, _) => Stand::Accepted,
        (false, true) => Stand::Denied,
        (false, false) => Stand::Waiting,
    }
}

#[async_trait]
impl Reconciler for Lifecycle {
    const NAME: &'static str = "managed-cluster";
    const AT_ONCE: usize = 4;
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.caches.clusters.named(name);
        let mut seen = Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            namespace: None,
            cluster_role: None,
            cluster_role_binding: None,
            registration_binding: None,
            work_binding: None,
            works: Vec::new(),
            options: self.options.clone(),
            cluster,
        };
        let stand = stand(seen.cluster.as_deref(), self.options.auto_accept);
        // Without the finalizer nothing was ever made for it.
        let has_rights = seen.cluster.as_deref().is_none_or(|it| {
            let mut held = it.finalizers().iter();
            held.any(|it| it == finalizers::CLUSTER_API_RESOURCE_CLEANUP)
        });
        if stand == Stand::ToAutoAccept || stand == Stand::Waiting && !has_rights {
            return Ok(seen);
        }
        let role = identity::cluster_role(name);
        let registration = identity::registration_role_binding(name);
        let work = identity::work_role_binding(name);
        let (caches, client) = (&self.caches, &self.client);
        if stand == Stand::Accepted && !self.doubts.has(name) {
            seen.namespace = caches.namespaces.named(name);
            seen.cluster_role = caches.cluster_roles.named(&role);
            seen.cluster_role_binding = caches.cluster_role_bindings.named(&role);
            seen.registration_binding = caches.role_bindings.get(name, &registration);
            seen.work_binding = caches.role_bindings.get(name, &work);
            return Ok(seen);
        }
        if seen.cluster.is_none() {
            self.doubts.drop(name);
        }
        if stand == Stand::Accepted {
            seen.namespace = find(&caches.namespaces, client, name).await?;
        }
        seen.cluster_role = find(&caches.cluster_roles, client, &role).await?;
        seen.cluster_role_binding = find(&caches.cluster_role_bindings, client, &role).await?;
        seen.registration_binding = find_in(&caches.role_bindings, client, name, &registration).await?;
        seen.work_binding = find_in(&caches.role_bindings, client, name, &work).await?;
        if stand == Stand::Leaving {
            seen.works = works(&self.client, name).await?;
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        match stand(seen.cluster.as_deref(), seen.options.auto_accept) {
            Stand::Leaving => leave(seen),
            Stand::ToAutoAccept => auto_accept(seen),
            Stand::Waiting => {
                // Somebody may have denied it before it was said that it is accepted.
                let mut plan = if seen.cluster_role.is_some() {
                    deny(seen)
                } else {
                    Plan::new()
                };
                unbind(seen, &mut plan);
                plan.wait("hubAcceptsClient is not set");
                plan
            }
            Stand::Denied => {
                let mut plan = deny(seen);
                unbind(seen, &mut plan);
                plan
            }
            Stand::Accepted => accept(seen),
        }
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        self.doubts.note(&seen.name, outcome);
        self.put(outcome);
    }

    fn concluded(&self, outcome: &Outcome) {
        self.put(outcome);
    }

    async fn reconcile(&self, clients: &Clients, name: &str) -> Result<Option<Duration>, RunError> {
        self.doubts.reconcile(self, clients, name).await
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = &seen.cluster else { return plan };
        // What was there already may say something else: the run that follows looks at it, and where that one has met
        // something, too, no event need come.
        if doubts::met(outcome) {
            plan.look_again(MET_AGAIN);
            return plan;
        }
        let verdict = match stand(Some(cluster), seen.options.auto_accept) {
            Stand::Accepted if outcome.succeeded() => wanted(
                managed_cluster::HUB_ACCEPTED,
                true,
                reason::HUB_CLUSTER_ADMIN_ACCEPTED,
                "Accepted by hub cluster admin",
            ),
            Stand::Accepted => wanted(
                managed_cluster::HUB_ACCEPTED,
                false,
                reason::ERROR,
                outcome.error_text(),
            ),
            Stand::Denied if outcome.succeeded() => wanted(
                managed_cluster::HUB_ACCEPTED,
                false,
                reason::HUB_CLUSTER_ADMIN_DENIED,
                "Denied by hub cluster admin",
            ),
            _ => return plan,
        };
        // The finalizer patch of the plan has moved the resourceVersion on.
        let latest = outcome.latest::<ManagedCluster>(Site::Hub, None, &seen.name);
        let cluster = latest.as_ref().unwrap_or(cluster);
        plan.status(Site::Hub, cluster, &status::saying(cluster, verdict, seen.now));
        plan
    }
}

fn auto_accept(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    if let Some(cluster) = seen.cluster.as_deref() {
        let mut accepted = first::given(cluster, &seen.options);
        accepted.spec.hub_accepts_client = true;
        let now = Timestamp::from_second(seen.now.as_second()).unwrap_or(seen.now);
        accepted
            .annotations_mut()
            .insert(annotations::AUTOMATICALLY_ACCEPTED_ON.to_owned(), now.to_string());
        plan.change(Site::Hub, cluster, &accepted);
    }
    plan
}

fn accept(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    let Some(cluster) = seen.cluster.as_deref() else {
        return plan;
    };
    let mut all = seen.options.labels.clone();
    all.insert(labels::CLUSTER_NAME.to_owned(), seen.name.clone());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(seen.name.clone()),
            labels: Some(all),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    // The finalizer comes first: from here on there is something to clean up.
    if first::is_to_come(cluster, &seen.options) {
        plan.change(Site::Hub, cluster, &first::given(cluster, &seen.options));
    }
    plan.keep(Site::Hub, seen.namespace.as_deref(), &namespace);
    plan.stage();
    let extra = &seen.options.labels;
    rbac::keep_role(
        &mut plan,
        seen.cluster_role.as_deref(),
        &rbac::cluster_role(&seen.name, true, extra),
    );
    let binding = rbac::cluster_role_binding(&seen.name, extra);
    rbac::keep_cluster_binding(&mut plan, seen.cluster_role_binding.as_deref(), &binding);
    let binding = rbac::registration_binding(&seen.name, extra);
    rbac::keep_binding(&mut plan, seen.registration_binding.as_deref(), &binding);
    rbac::keep_binding(
        &mut plan,
        seen.work_binding.as_deref(),
        &rbac::work_binding(&seen.name, extra),
    );
    plan
}

fn deny(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    let extra = &seen.options.labels;
    rbac::keep_role(
        &mut plan,
        seen.cluster_role.as_deref(),
        &rbac::cluster_role(&seen.name, false, extra),
    );
    let binding = rbac::cluster_role_binding(&seen.name, extra);
    rbac::keep_cluster_binding(&mut plan, seen.cluster_role_binding.as_deref(), &binding);
    plan
}

fn leave(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    if let Some(role) = seen.cluster_role.as_deref() {
        plan.delete(Site::Hub, role);
    }
    if let Some(binding) = seen.cluster_role_binding.as_deref() {
        plan.delete(Site::Hub, binding);
    }
    unbind(seen, &mut plan);
    if seen.works.is_empty() {
        if let Some(cluster) = seen.cluster.as_deref() {
            plan.stage();
            plan.remove_finalizer(Site::Hub, cluster, finalizers::CLUSTER_API_RESOURCE_CLEANUP);
        }
        return plan;
    }
    if !leftovers::are_works_collected(&seen.options) {
        let going = seen.works.iter().filter(|it| it.metadata.deletion_timestamp.is_some());
        plan.stage();
        let kind = ApiResource::erase::<ManifestWork>(&());
        leftovers::release(&mut plan, &seen.name, &kind, going.map(|it| &it.metadata), seen.now);
    }
    // No watch tells when the last work is gone.
    if seen.cluster.is_some() {
        let count = seen.works.len();
        plan.wait(format!("{count} manifestworks are left in its namespace"))
            .look_again(WORKS_AGAIN);
    }
    plan
}

/// Takes the bindings away. The ones that earlier hubs and upstream's have made hold a finalizer, with which they would go on
/// granting what they grant.
fn unbind(seen: &Seen, plan: &mut Plan) {
    let bindings = [&seen.registration_binding, &seen.work_binding];
    for binding in bindings.iter().filter_map(|it| it.as_deref()) {
        plan.delete(Site::Hub, binding);
    }
    plan.stage();
    for binding in bindings.iter().filter_map(|it| it.as_deref()) {
        // The deletion before moves the version on, so this patch carries none: nobody else adds finalizers here, and what
        // a race could lose is a finalizer on an object that nothing holds any more.
        drop_finalizer(plan, binding);
    }
}

fn drop_finalizer(plan: &mut Plan, binding: &RoleBinding) {
    let mut unguarded = binding.clone();
    unguarded.metadata.resource_version = None;
    plan.remove_finalizer(Site::Hub, &unguarded, finalizers::MANIFEST_WORK);
}

async fn works(client: &Client, cluster: &str) -> Result<Vec<PartialObjectMeta<ManifestWork>>, kube::Error> {
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), cluster);
    match works.list_metadata(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        // A hub without the kind has no works.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
