//! What Kubernetes does to objects of certain kinds when they are written, beyond defaults and validation.

use crate::{
    authz::escalation,
    call::Call,
    context::ServerContext,
    crd,
    csr::{Face, self},
    identity::Attributes,
    object_meta,
    ownership,
    pod_admission::{SYSTEM_PRIORITIES, self},
    resource_ids::{CLAIMS, CRDS, CSRS, LEASES, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, SERVICES, VOLUMES},
    service,
};
use kube_store::status::Status;
use serde_json::{Value, json};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";

/// Server-owned content of a new object.
///
/// # Errors
/// What the kind refuses.
pub fn prepare_create(call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
    match call.id().as_ref() {
        NAMESPACES => {
            label_namespace(call, value);
            value["spec"] = json!({"finalizers": with_own_finalizer(&value["spec"]["finalizers"])});
            value["status"] = json!({"phase": "Active"});
        }
        CSRS => {
            csr::check_size(value, call.server.limits.request_bytes)?;
            csr::prepare_create(value, &call.user)?;
        }
        PODS => pod_admission::prepare(call, value)?,
        LEASES => drop_members(value, None, "spec", &OF_COORDINATED_LEASES),
        NODES => {
            drop_members(value, None, "spec", &["configSource"]);
            drop_members(value, None, "status", &["config"]);
        }
        PRIORITY_CLASSES => pod_admission::check_priority(call, value)?,
        CRDS => {
            crd::prepare_create(call, value)?;
        }
        // Its expressions are checked before it is stored: what a controller would say later is known now.
        POLICIES => value["status"] = json!({"observedGeneration": 1, "typeChecking": {}}),
        _ => {}
    }
    protect(call, value);
    Ok(())
}

/// The finalizers of a new namespace: what its maker asks for, and ours.
fn with_own_finalizer(asked: &Value) -> Vec<Value> {
    const OWN: &str = "kubernetes";
    let mut all = asked.as_array().cloned().unwrap_or_default();
    if !all.iter().any(|it| it == OWN) {
        all.push(OWN.into());
    }
    all
}

/// Members of a Lease that candidates elect a leader by, which nobody does here.
const OF_COORDINATED_LEASES: [&str; 2] = ["preferredHolder", "strategy"];

fn json_bytes(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |it| it.len())
}

/// Drops members of features that are off; what was stored once may stay.
fn drop_members(value: &mut Value, old: Option<&Value>, parent: &str, members: &[&str]) {
    let Some(parent_of) = value.get_mut(parent).and_then(Value::as_object_mut) else {
        return;
    };
    for member in members {
        if old.is_none_or(|it| it[parent][*member].is_null()) {
            parent_of.remove(*member);
        }
    }
}

/// The finalizer that keeps an object of this kind while somebody uses it.
pub fn protection(id: &str) -> Option<&'static str> {
    match id {
        CLAIMS => Some("kubernetes.io/pvc-protection"),
        VOLUMES => Some("kubernetes.io/pv-protection"),
        _ => None,
    }
}

fn protect(call: &Call<'_>, value: &mut Value) {
    let Some(finalizer) = protection(call.id()) else { return };
    let finalizers = object_meta::metadata(value).entry("finalizers").or_insert(Value::Null);
    match finalizers.as_array_mut() {
        Some(all) if all.iter().any(|it| it == finalizer) => {}
        Some(all) => all.push(finalizer.into()),
        None => *finalizers = json!([finalizer]),
    }
}

/// What a client may not do to an object that is right in itself.
///
/// # Errors
/// 403 that says why.
pub fn check_allowed(call: &Call<'_>, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    check_grants(call, old, new)
}

/// Nobody grants what they do not hold.
///
/// # Errors
/// 403 naming the rules that the user lacks.
fn check_grants(call: &Call<'_>, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    if call.resource.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let (rbac, user, namespace) = (&*call.server.rbac, &call.user, call.namespace.as_str());
    match call.resource.kind.as_str() {
        "Role" | "ClusterRole" => escalation::check_role(rbac, user, namespace, &call.name, new, old),
        _ => escalation::check_binding(rbac, user, namespace, &call.name, new, old),
    }
}

const JOB_LABELS: [&str; 4] = [
    "batch.kubernetes.io~1controller-uid",
    "batch.kubernetes.io~1job-name",
    "controller-uid",
    "job-name",
];

/// Members that a real API server adds to a new object after it has noted who owns what, so that they are nobody's:
/// pointers to those that the client did not send.
pub fn added_late(call: &Call<'_>, sent: &Value) -> Vec<String> {
    let pointers: &[&str] = match call.id().as_ref() {
        PODS => &[
            "/spec/nodeSelector",
            "/spec/overhead",
            "/spec/priority",
            "/spec/priorityClassName",
            "/spec/preemptionPolicy",
            "/spec/serviceAccount",
            "/spec/serviceAccountName",
            "/spec/tolerations",
        ],
        SERVICES => &["/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy"],
        CLAIMS | VOLUMES => &["/metadata/finalizers"],
        "jobs.batch" => &["/spec/selector", "/metadata/labels", "/spec/template/metadata/labels"],
        _ => &[],
    };
    let mut late: Vec<String> = pointers.iter().map(|it| (*it).to_owned()).collect();
    if call.id().as_ref() == "jobs.batch" {
        for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
            late.extend(JOB_LABELS.iter().map(|it| format!("{labels}/{it}")));
        }
    }
    late.retain(|it| sent.pointer(it).is_none_or(Value::is_null));
    late
}

/// Keeps others from taking what this write may take, and only one may have: addresses of Services and names of definitions.
///
/// It is held until the write is decided; see also `taken_when_published`.
pub async fn allocating<'s>(server: &'s ServerContext, call: &Call<'_>) -> Option<tokio::sync::MutexGuard<'s, ()>> {
    match call.id().as_ref() {
        SERVICES | CRDS => Some(server.allocating.lock().await),
        _ => None,
    }
}

/// Whether what a write takes shows to others only when it is published: names are looked for in the registry, which is
/// brought up to date then.
pub fn taken_when_published(call: &Call<'_>) -> bool {
    call.id().as_ref() == CRDS
}

/// What must be allocated after everything else was checked, by who holds what `allocating` gave.
///
/// # Errors
/// 422 when an address is taken or none is left.
pub fn finish_create(call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
    match call.id().as_ref() {
        SERVICES => service::allocate(call, value, None),
        CRDS => {
            let before = value.clone();
            crd::accept(call, value);
            // As if a controller had written it, which upstream does.
            let main = std::mem::replace(&mut call.subresource, "status".to_owned());
            let reset = reset_fields(call);
            ownership::with_context(call, reset, "kube-apiserver", |it| {
                kube_store::managed::update(Some(&before), value, it);
            });
            call.subresource = main;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Allocates for a changed object after everything else was checked, by who holds what `allocating` gave.
///
/// # Errors
/// 422 when something that it was given before that has been given to another one meanwhile.
pub fn settle_update(call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
    match call.id().as_ref() {
        SERVICES => service::allocate(call, new, Some(old))?,
        CRDS => crd::settle_update(call, old, new),
        _ => {}
    }
    Ok(())
}

/// Server-owned content of a changed object.
///
/// # Errors
/// What the kind refuses.
pub fn prepare_update(call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
    match call.id().as_ref() {
        NAMESPACES => {
            label_namespace(call, new);
            let finalizers = if call.subresource == "finalize" {
                &new["spec"]["finalizers"]
            } else {
                &old["spec"]["finalizers"]
            };
            let spec = match finalizers.as_array() {
                Some(list) if !list.is_empty() => json!({"finalizers": list}),
                _ => json!({}),
            };
            if call.subresource == "finalize" {
                new["status"] = old["status"].clone();
            }
            new["spec"] = spec;
        }
        CSRS => {
            let face = match call.subresource.as_str() {
                "approval" => Face::Approval,
                "status" => Face::Status,
                _ => Face::Main,
            };
            *new = csr::prepare_update(old, std::mem::take(new), face, call.now)?;
            let may = |it: &Attributes| call.server.may(&call.user, it);
            match face {
                Face::Approval => csr::check_signer_permission(old, "approve", may)?,
                Face::Status if csr::needs_sign_permission(old, new) => csr::check_signer_permission(old, "sign", may)?,
                Face::Main if json_bytes(new) > json_bytes(old) => {
                    csr::check_size(new, call.server.limits.request_bytes)?
                }
                Face::Status | Face::Main => {}
            }
        }
        PODS => pod_admission::check_node(call, old, new)?,
        PRIORITY_CLASSES => pod_admission::check_priority(call, new)?,
        LEASES => drop_members(new, Some(old), "spec", &OF_COORDINATED_LEASES),
        NODES => {
            drop_members(new, Some(old), "spec", &["configSource"]);
            drop_members(new, Some(old), "status", &["config"]);
        }
        SERVICES => service::allocate(call, new, Some(old))?,
        CRDS => crd::prepare_update(call, old, new)?,
        _ => {}
    }
    Ok(())
}

/// Server-owned content that goes by the generation of a changed object.
pub fn finish_update(call: &Call<'_>, new: &mut Value) {
    if call.id().as_ref() == POLICIES && call.subresource.is_empty() {
        new["status"]["observedGeneration"] = new["metadata"]["generation"].clone();
    }
}

/// Fields that a write to this path neither changes nor owns.
pub fn reset_fields(call: &Call<'_>) -> &'static [&'static [&'static str]] {
    match (call.id().as_ref(), call.subresource.as_str()) {
        (CSRS, "") => &[&["spec"], &["status"]],
        (_, "") if call.served().status => &[&["status"]],
        (_, "status") if call.resource.is_builtin() => &[&["spec"]],
        (_, "status") => &[&["spec"], &["metadata"]],
        _ => &[],
    }
}

/// Whether an object without finalizers may be removed now. A namespace waits for its content, a pod for its node.
pub fn may_vanish(call: &Call<'_>, value: &Value) -> bool {
    match call.id().as_ref() {
        NAMESPACES => value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty),
        PODS => grace_left(value) == 0 || !is_on_a_node(call, value),
        _ => true,
    }
}

/// The seconds of grace that a deletion under way still gives.
pub fn grace_left(value: &Value) -> i64 {
    value["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default()
}

/// The seconds that deleting this object gives it to end by itself: none, but for a pod that a node may be running.
/// The node then deletes it with a grace of zero.
pub fn grace_seconds(call: &Call<'_>, value: &Value, asked: Option<i64>) -> i64 {
    let over = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if call.id().as_ref() != PODS || over || !is_on_a_node(call, value) {
        return 0;
    }
    let own = || value["spec"]["terminationGracePeriodSeconds"].as_i64();
    asked.or_else(own).unwrap_or(30).max(0)
}

/// A pod whose node does not exist is run by nobody, so that nobody would ever end its deletion.
fn is_on_a_node(call: &Call<'_>, pod: &Value) -> bool {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    !node.is_empty() && call.server.store.get("nodes", "", node).is_some()
}

/// Shows in the object that it is going away.
pub fn mark_terminating(call: &Call<'_>, value: &mut Value) {
    if call.id().as_ref() == NAMESPACES {
        value["status"]["phase"] = "Terminating".into();
    }
    if call.id().as_ref() == CRDS {
        crd::mark_terminating(value, call.now);
    }
}

/// Some objects are never deleted.
///
/// # Errors
/// 403 for the system's namespaces and priorities.
pub fn check_delete(call: &Call<'_>) -> Result<(), Status> {
    if call.id().as_ref() == PRIORITY_CLASSES && SYSTEM_PRIORITIES.iter().any(|it| it.0 == call.name) {
        return Err(Status::forbidden(
            &call.resource.plural,
            &call.resource.group,
            &call.name,
            "this is a system priority class and cannot be deleted",
        ));
    }
    if call.id().as_ref() == NAMESPACES && matches!(call.name.as_str(), "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden(
            NAMESPACES,
            "",
            &call.name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// Every namespace carries its name as a label; removing it is undone in the same request.
fn label_namespace(call: &Call<'_>, value: &mut Value) {
    let name = if call.name.is_empty() {
        object_meta::metadata_text(value, "name").to_owned()
    } else {
        call.name.clone()
    };
    let metadata = object_meta::metadata(value);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    } else {
        *labels = json!({"kubernetes.io/metadata.name": name});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_keeps_the_finalizers_it_was_made_with() {
        assert_eq!(with_own_finalizer(&Value::Null), ["kubernetes"]);
        assert_eq!(with_own_finalizer(&json!(["a.b/c"])), ["a.b/c", "kubernetes"]);
        assert_eq!(with_own_finalizer(&json!(["kubernetes"])), ["kubernetes"]);
    }

    #[test]
    fn what_belongs_to_a_feature_that_is_off_stays_only_where_it_was() {
        let dropped = |old: Option<&Value>| {
            let mut lease = json!({"spec": {"strategy": "X", "preferredHolder": "y", "holderIdentity": "z"}});
            drop_members(&mut lease, old, "spec", &OF_COORDINATED_LEASES);
            lease["spec"].take()
        };
        assert_eq!(dropped(None), json!({"holderIdentity": "z"}));
        let old = json!({"spec": {"strategy": "Y"}});
        assert_eq!(dropped(Some(&old)), json!({"strategy": "X", "holderIdentity": "z"}));
    }
}
