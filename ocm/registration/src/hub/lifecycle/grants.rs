//! What a cluster is given on the hub, and what is taken from it, as it is accepted or not.

use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{ResourceExt, api::ObjectMeta};
use ocm_api::{annotations, finalizers, labels};
use ocm_reconcile::{Plan, Site};

use super::Seen;
use crate::hub::{first, rbac};

/// Accepts it, in the name of nobody, and writes down when.
pub fn auto_accept(seen: &Seen) -> Plan {
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

/// Everything that it needs.
pub fn accept(seen: &Seen) -> Plan {
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
    let objects = &seen.objects;
    plan.keep(Site::Hub, objects.namespace.as_deref(), &namespace);
    plan.stage();
    roles(&mut plan, seen, true);
    let extra = &seen.options.labels;
    let registration = rbac::registration_binding(&seen.name, extra);
    rbac::keep_binding(&mut plan, objects.registration_binding.as_deref(), &registration);
    let work = rbac::work_binding(&seen.name, extra);
    rbac::keep_binding(&mut plan, objects.work_binding.as_deref(), &work);
    plan
}

/// Nothing but a look at itself.
pub fn deny(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    roles(&mut plan, seen, false);
    unbind(seen, &mut plan);
    plan
}

/// Nothing. Somebody may have denied it before it was said that it is accepted.
pub fn wait(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    if seen.objects.cluster_role.is_some() {
        roles(&mut plan, seen, false);
    }
    unbind(seen, &mut plan);
    plan.wait("hubAcceptsClient is not set");
    plan
}

fn roles(plan: &mut Plan, seen: &Seen, is_accepted: bool) {
    let (objects, extra) = (&seen.objects, &seen.options.labels);
    let role = rbac::cluster_role(&seen.name, is_accepted, extra);
    rbac::keep_role(plan, objects.cluster_role.as_deref(), &role);
    let binding = rbac::cluster_role_binding(&seen.name, extra);
    rbac::keep_cluster_binding(plan, objects.cluster_role_binding.as_deref(), &binding);
}

/// Takes the bindings away. The ones that earlier hubs and upstream's have made hold a finalizer, with which they would
/// go on granting what they grant.
pub fn unbind(seen: &Seen, plan: &mut Plan) {
    let bindings = [&seen.objects.registration_binding, &seen.objects.work_binding];
    for binding in bindings.iter().filter_map(|it| it.as_deref()) {
        plan.delete(Site::Hub, binding);
    }
    plan.stage();
    for binding in bindings.iter().filter_map(|it| it.as_deref()) {
        // The deletion before moves the version on, so this patch carries none: nobody else adds finalizers here, and
        // what a race could lose is a finalizer on an object that nothing holds any more.
        drop_finalizer(plan, binding);
    }
}

fn drop_finalizer(plan: &mut Plan, binding: &RoleBinding) {
    let mut unguarded = binding.clone();
    unguarded.metadata.resource_version = None;
    plan.remove_finalizer(Site::Hub, &unguarded, finalizers::MANIFEST_WORK);
}
