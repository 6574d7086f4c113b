//! What an agent may do on the hub: the RBAC objects of a cluster, and the shared roles they refer to.
//! Upstream: ocm `pkg/registration/hub/managedcluster/manifests`; names, rules and subjects are facts of the wire.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject};
use kube::{Resource, api::ObjectMeta};
use ocm_api::{finalizers, identity, labels};
use ocm_reconcile::{Plan, Site};
use serde::Serialize;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The ClusterRole of a cluster: with `accepted` what its agent needs, otherwise only a look at its own ManagedCluster.
pub fn cluster_role(cluster: &str, accepted: bool, extra: &BTreeMap<String, String>) -> ClusterRole {
    let own = |resource: &str, verbs: &[&str]| PolicyRule {
        resource_names: Some(vec![cluster.to_owned()]),
        ..rule("cluster.open-cluster-management.io", &[resource], verbs)
    };
    let rules = if accepted {
        vec![
            rule(
                "certificates.k8s.io",
                &["certificatesigningrequests"],
                &["create", "get", "list", "watch"],
            ),
            rule(
                identity::REGISTER_GROUP,
                &["managedclusters/clientcertificates"],
                &["renew"],
            ),
            own("managedclusters", &["get", "list", "update", "watch"]),
            own("managedclusters/status", &["patch", "update"]),
        ]
    } else {
        vec![own("managedclusters", &["get", "list", "watch"])]
    };
    ClusterRole {
        metadata: metadata(&identity::cluster_role(cluster), None, cluster, extra),
        rules: Some(rules),
        aggregation_rule: None,
    }
}

/// The binding of that ClusterRole to the cluster's agents.
pub fn cluster_role_binding(cluster: &str, extra: &BTreeMap<String, String>) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: metadata(&identity::cluster_role(cluster), None, cluster, extra),
        role_ref: role_ref(&identity::cluster_role(cluster)),
        subjects: Some(agents(cluster)),
    }
}

/// What the registration agent may do in the cluster's namespace.
pub fn registration_binding(cluster: &str, extra: &BTreeMap<String, String>) -> RoleBinding {
    RoleBinding {
        metadata: metadata(
            &identity::registration_role_binding(cluster),
            Some(cluster),
            cluster,
            extra,
        ),
        role_ref: role_ref(identity::REGISTRATION_CLUSTER_ROLE),
        subjects: Some(agents(cluster)),
    }
}

/// What the work agent may do in the cluster's namespace. Upstream puts a finalizer on it, with which a right that was
/// taken back goes on until the agent has cleaned up after the last work, and so for as long as the agent likes.
/// Ours has none.
pub fn work_binding(cluster: &str, extra: &BTreeMap<String, String>) -> RoleBinding {
    RoleBinding {
        metadata: metadata(&identity::work_role_binding(cluster), Some(cluster), cluster, extra),
        role_ref: role_ref(identity::WORK_CLUSTER_ROLE),
        subjects: Some(agents(cluster)),
    }
}

/// The two shared roles, which exist as long as there is a cluster.
pub fn shared_cluster_roles(extra: &BTreeMap<String, String>) -> [ClusterRole; 2] {
    let shared = |name: &str, rules| ClusterRole {
        metadata: metadata(name, None, "", extra),
        rules: Some(rules),
        aggregation_rule: None,
    };
    [
        shared(
            identity::REGISTRATION_CLUSTER_ROLE,
            vec![
                rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "update"]),
                rule(
                    "addon.open-cluster-management.io",
                    &["managedclusteraddons"],
                    &["get", "list", "watch"],
                ),
                rule(
                    "addon.open-cluster-management.io",
                    &["managedclusteraddons/status"],
                    &["patch", "update"],
                ),
                rule("events.k8s.io", &["events"], &["create"]),
            ],
        ),
        shared(
            identity::WORK_CLUSTER_ROLE,
            vec![
                PolicyRule {
                    api_groups: Some(vec![String::new(), "events.k8s.io".to_owned()]),
                    ..rule("", &["events"], &["create", "patch", "update"])
                },
                rule(
                    "work.open-cluster-management.io",
                    &["manifestworks"],
                    &["get", "list", "watch", "update", "patch"],
                ),
                rule(
                    "work.open-cluster-management.io",
                    &["manifestworks/status"],
                    &["patch", "update"],
                ),
            ],
        ),
    ]
}

/// Keeps a role as it should be. Rules are compared whole: a rule that grants one thing more is a repair,
/// not an addition to be left alone.
pub fn keep_role(plan: &mut Plan, current: Option<&ClusterRole>, desired: &ClusterRole) {
    keep(plan, current, desired, |current, desired| {
        current.rules = desired.rules.clone()
    });
}

/// Keeps a binding of the whole cluster. A binding cannot change its role, so one with another role is replaced.
pub fn keep_cluster_binding(plan: &mut Plan, current: Option<&ClusterRoleBinding>, desired: &ClusterRoleBinding) {
    match current {
        Some(current) if current.role_ref != desired.role_ref => {
            plan.delete(Site::Hub, current);
        }
        current => keep(plan, current, desired, |current, desired| {
            current.subjects = desired.subjects.clone()
        }),
    }
}

/// Keeps a binding in a namespace, without the finalizer that upstream's hub and our earlier ones have put on it.
pub fn keep_binding(plan: &mut Plan, current: Option<&RoleBinding>, desired: &RoleBinding) {
    match current {
        Some(current) if current.role_ref != desired.role_ref => {
            plan.delete(Site::Hub, current);
        }
        current => keep(plan, current, desired, |current, desired| {
            current.subjects = desired.subjects.clone();
            let held = current.metadata.finalizers.take().unwrap_or_default();
            let held: Vec<_> = held.into_iter().filter(|it| it != finalizers::MANIFEST_WORK).collect();
            current.metadata.finalizers = (!held.is_empty()).then_some(held);
        }),
    }
}

fn keep<K>(plan: &mut Plan, current: Option<&K>, desired: &K, set: impl Fn(&mut K, &K))
where
    K: Resource<DynamicType = ()> + Clone + Serialize,
{
    let Some(current) = current else {
        plan.create(Site::Hub, desired);
        return;
    };
    let mut new = current.clone();
    set(&mut new, desired);
    let labels = new.meta_mut().labels.get_or_insert_default();
    labels.extend(desired.meta().labels.clone().unwrap_or_default());
    plan.change(Site::Hub, current, &new);
}

fn metadata(name: &str, namespace: Option<&str>, cluster: &str, extra: &BTreeMap<String, String>) -> ObjectMeta {
    let mut all = extra.clone();
    all.insert(labels::CLUSTER_NAME.to_owned(), cluster.to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(all),
        ..ObjectMeta::default()
    }
}

fn agents(cluster: &str) -> Vec<Subject> {
    [
        identity::cluster_group(cluster),
        identity::cluster_external_group(cluster),
    ]
    .map(|name| Subject {
        kind: "Group".to_owned(),
        api_group: Some(RBAC_GROUP.to_owned()),
        name,
        namespace: None,
    })
    .to_vec()
}

fn role_ref(name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(RBAC_GROUP.to_owned()),
        kind: "ClusterRole".to_owned(),
        name: name.to_owned(),
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
