//! The RBAC objects that an add-on's permissions on the hub come to.
//!
//! Upstream: addon-framework `pkg/utils/permission.go` and ocm `pkg/addon/templateagent/registration.go`; names, owners
//! and labels are theirs. We differ where theirs gives away too much or flaps:
//! - The group of the add-on on all clusters is never bound. In a cluster's namespace the agent on one cluster could
//!   read with it what is meant for another; and elsewhere the rights of one cluster's agent could not be taken back
//!   without the others'.
//! - So each agent has a binding of its own, outside of its cluster's namespace under a name that ends with the
//!   cluster's. The roles are shared.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject as RbacSubject},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, api::ObjectMeta};
use ocm_api::{identity, labels};
use ocm_reconcile::{
    Plan, Site,
    install::{DROVER, MANAGED_BY},
};
use serde::Serialize;

use crate::{AddOnContext, AgentSubject, Grant, Holder, Permission, Scope};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const AUTHENTICATED: &str = "system:authenticated";

/// RBAC objects.
#[derive(Clone, Debug, Default)]
pub struct RbacObjects {
    /// In namespaces.
    pub roles: Vec<Role>,
    /// In namespaces.
    pub role_bindings: Vec<RoleBinding>,
    /// Of the whole hub.
    pub cluster_roles: Vec<ClusterRole>,
    /// Of the whole hub.
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
}

/// Who owns them.
#[derive(Clone, Debug)]
pub struct Owners {
    /// The ManagedClusterAddOn owns what is in the cluster's namespace.
    pub addon: OwnerReference,
    /// The ClusterManagementAddOn owns the rest.
    pub management: OwnerReference,
}

/// The objects that `permissions` come to, those for the agent bound to `subject`; or what is wrong with them.
pub fn wanted(
    place: &AddOnContext,
    permissions: &[Permission],
    subject: &AgentSubject,
    owners: &Owners,
) -> Result<RbacObjects, String> {
    let mut objects = RbacObjects::default();
    for permission in permissions {
        add(&mut objects, place, permission, subject, owners)?;
    }
    Ok(objects)
}

fn add(
    objects: &mut RbacObjects,
    place: &AddOnContext,
    permission: &Permission,
    subject: &AgentSubject,
    owners: &Owners,
) -> Result<(), String> {
    let (namespace, owner) = match &permission.scope {
        Scope::Cluster => (Some(place.cluster_name()), &owners.addon),
        Scope::Namespace(namespace) => (Some(namespace.as_str()), &owners.management),
        Scope::Hub => (None, &owners.management),
    };
    let mut metadata = ObjectMeta {
        namespace: namespace.map(str::to_owned),
        labels: Some(labels_of(place.addon_name(), permission)),
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    };
    let role_kind = match (&permission.grant, namespace) {
        (Grant::Role(name), None) => {
            return Err(format!("Role {name} cannot hold on the whole hub"));
        }
        (Grant::Rules { .. } | Grant::Role(_), Some(_)) => "Role",
        (Grant::Rules { .. }, None) | (Grant::ClusterRole(_), _) => "ClusterRole",
    };
    if let Grant::Rules { name, rules } = &permission.grant {
        metadata.name = Some(name.clone());
        let (metadata, rules) = (metadata.clone(), Some(rules.clone()));
        if namespace.is_some() {
            push(&mut objects.roles, Role { metadata, rules })?;
        } else {
            let role = ClusterRole {
                metadata,
                rules,
                aggregation_rule: None,
            };
            push(&mut objects.cluster_roles, role)?;
        }
    }
    let (name, subjects) = match &permission.scope {
        _ if !permission.is_for_agent() => {
            let holders = permission.holders.iter().map(holder);
            (permission.binding_name().to_owned(), holders.collect())
        }
        Scope::Cluster => (permission.binding_name().to_owned(), subjects(place, subject)),
        Scope::Namespace(_) | Scope::Hub => {
            let cluster = place.cluster_name();
            let of_cluster = metadata.labels.get_or_insert_default();
            of_cluster.insert(labels::CLUSTER_NAME.to_owned(), cluster.to_owned());
            (
                format!("{}:{cluster}", permission.binding_name()),
                subjects(place, subject),
            )
        }
    };
    metadata.name = Some(name);
    let role_ref = RoleRef {
        api_group: Some(RBAC_GROUP.to_owned()),
        kind: role_kind.to_owned(),
        name: permission.role_name().to_owned(),
    };
    let subjects = Some(subjects);
    if namespace.is_some() {
        let binding = RoleBinding {
            metadata,
            role_ref,
            subjects,
        };
        push(&mut objects.role_bindings, binding)
    } else {
        let binding = ClusterRoleBinding {
            metadata,
            role_ref,
            subjects,
        };
        push(&mut objects.cluster_role_bindings, binding)
    }
}

// Upstream lets the later of two permissions overwrite the earlier one, which then grants nothing.
fn push<K: Resource<DynamicType = ()> + PartialEq>(list: &mut Vec<K>, object: K) -> Result<(), String> {
    let same = |it: &&K| it.meta().name == object.meta().name && it.meta().namespace == object.meta().namespace;
    match list.iter().find(same) {
        None => list.push(object),
        Some(other) if *other == object => {}
        Some(_) => {
            let name = object.meta().name.as_deref().unwrap_or_default();
            return Err(format!("two permissions want {} {name}", K::kind(&())));
        }
    }
    Ok(())
}

fn labels_of(addon: &str, permission: &Permission) -> BTreeMap<String, String> {
    let mut all = permission.labels.clone();
    all.insert(labels::ADDON_NAME.to_owned(), addon.to_owned());
    all.insert(MANAGED_BY.to_owned(), DROVER.to_owned());
    all
}

fn subjects(place: &AddOnContext, subject: &AgentSubject) -> Vec<RbacSubject> {
    let everywhere = identity::addon_group(place.addon_name());
    let groups = subject
        .groups
        .iter()
        .filter(|it| *it != AUTHENTICATED && **it != everywhere);
    let mut all: Vec<RbacSubject> = groups.map(|it| group(it)).collect();
    // Who is in no group of its own, and has not said who it is, is whom the cluster's agent calls so.
    let user = match subject.user.as_str() {
        "" if !all.is_empty() => return all,
        "" => identity::addon_user(place.cluster_name(), place.addon_name(), place.addon_name()),
        user => user.to_owned(),
    };
    let user = RbacSubject {
        kind: "User".to_owned(),
        ..group(&user)
    };
    all.insert(0, user);
    all
}

fn holder(it: &Holder) -> RbacSubject {
    match it {
        Holder::User(name) => RbacSubject {
            kind: "User".to_owned(),
            ..group(name)
        },
        Holder::Group(name) => group(name),
        Holder::ServiceAccount { namespace, name } => RbacSubject {
            kind: "ServiceAccount".to_owned(),
            // Of the core group, which is empty.
            api_group: None,
            name: name.clone(),
            namespace: Some(namespace.clone()),
        },
    }
}

fn group(name: &str) -> RbacSubject {
    RbacSubject {
        kind: "Group".to_owned(),
        api_group: Some(RBAC_GROUP.to_owned()),
        name: name.to_owned(),
        namespace: None,
    }
}

/// Keeps a Role. Rules are compared whole: a rule that grants one thing more is a repair,
/// not an addition to be left alone.
pub fn keep_role(plan: &mut Plan, current: Option<&Role>, desired: &Role) {
    keep(plan, current, desired, |current| current.rules = desired.rules.clone());
}

/// Keeps a ClusterRole.
pub fn keep_cluster_role(plan: &mut Plan, current: Option<&ClusterRole>, desired: &ClusterRole) {
    keep(plan, current, desired, |current| {
        current.rules = desired.rules.clone();
        // The hub would fill an aggregated role with rules of its own.
        current.aggregation_rule = None;
    });
}

/// Keeps a RoleBinding, one with another role excepted.
pub fn keep_role_binding(plan: &mut Plan, current: Option<&RoleBinding>, desired: &RoleBinding) {
    keep(plan, current, desired, |current| {
        current.subjects = desired.subjects.clone()
    });
}

/// Keeps a ClusterRoleBinding, one with another role excepted.
pub fn keep_cluster_role_binding(plan: &mut Plan, current: Option<&ClusterRoleBinding>, desired: &ClusterRoleBinding) {
    keep(plan, current, desired, |current| {
        current.subjects = desired.subjects.clone()
    });
}

fn keep<K>(plan: &mut Plan, current: Option<&K>, desired: &K, set: impl Fn(&mut K))
where
    K: Resource<DynamicType = ()> + Clone + Serialize,
{
    let Some(current) = current else {
        plan.create(Site::Hub, desired);
        return;
    };
    let mut new = current.clone();
    set(&mut new);
    let is_ours = is_ours(current, desired);
    let meta = new.meta_mut();
    let mut wanted = desired.meta().labels.clone().unwrap_or_default();
    if !is_ours {
        wanted.remove(MANAGED_BY);
    }
    meta.labels.get_or_insert_default().extend(wanted);
    if is_ours {
        let owners = meta.owner_references.get_or_insert_default();
        for owner in desired.meta().owner_references.iter().flatten() {
            // Another version of the same owner is the same owner.
            if !owners.iter().any(|it| it.uid == owner.uid) {
                owners.retain(|it| (&it.kind, &it.name) != (&owner.kind, &owner.name));
                owners.push(owner.clone());
            }
        }
    }
    plan.change(Site::Hub, current, &new);
}

// What somebody else has made under a name that an add-on asks for says what the add-on needs from now on, as upstream
// has it; but it stays theirs: it neither goes with the add-on nor is taken back.
fn is_ours<K: Resource>(current: &K, desired: &K) -> bool {
    let managed = current.meta().labels.as_ref().and_then(|it| it.get(MANAGED_BY));
    let owners = |of: &K| of.meta().owner_references.clone().unwrap_or_default();
    managed.is_some_and(|it| it == DROVER)
        || owners(desired)
            .iter()
            .any(|owner| owners(current).iter().any(|it| it.uid == owner.uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: &str) -> OwnerReference {
        OwnerReference {
            kind: kind.to_owned(),
            uid: kind.to_owned(),
            ..OwnerReference::default()
        }
    }

    fn objects(permissions: &[Permission], subject: Option<AgentSubject>) -> Result<RbacObjects, String> {
        let place = AddOnContext::new("cluster1", "greeter");
        let subject = subject.unwrap_or_else(|| AgentSubject::agent("cluster1", "greeter", "abcde"));
        let owners = Owners {
            addon: owner("ManagedClusterAddOn"),
            management: owner("ClusterManagementAddOn"),
        };
        wanted(&place, permissions, &subject, &owners)
    }

    fn bound(subjects: &Option<Vec<RbacSubject>>) -> Vec<&str> {
        subjects.iter().flatten().map(|it| it.name.as_str()).collect()
    }

    const ROLE: &str = "open-cluster-management:greeter:agent";

    #[test]
    fn an_agent_has_no_permissions_in_another_clusters_namespace() {
        let all = objects(&[Permission::role(ROLE, vec![])], None).unwrap();
        let binding = &all.role_bindings[0];
        assert_eq!(binding.metadata.namespace.as_deref(), Some("cluster1"));
        assert_eq!(
            bound(&binding.subjects),
            [
                "system:open-cluster-management:cluster:cluster1:addon:greeter:agent:abcde",
                "system:open-cluster-management:cluster:cluster1:addon:greeter",
            ]
        );
        assert_eq!(
            binding.metadata.owner_references.as_ref().unwrap()[0].kind,
            "ManagedClusterAddOn"
        );
        assert_eq!(all.roles[0].metadata.name.as_deref(), Some(ROLE));
    }

    #[test]
    fn every_agent_permission_can_be_revoked_individually() {
        let permission = Permission::existing_cluster_role("view").in_namespace("settings");
        let all = objects(
            &[
                permission.clone(),
                Permission::existing_cluster_role("x").on_the_whole_hub(),
            ],
            None,
        )
        .unwrap();
        let own = [
            "system:open-cluster-management:cluster:cluster1:addon:greeter:agent:abcde",
            "system:open-cluster-management:cluster:cluster1:addon:greeter",
        ];
        let binding = &all.role_bindings[0];
        assert_eq!(binding.metadata.name.as_deref(), Some("view:cluster1"));
        assert_eq!(bound(&binding.subjects), own);
        assert_eq!(
            binding.metadata.owner_references.as_ref().unwrap()[0].kind,
            "ClusterManagementAddOn"
        );
        let binding = &all.cluster_role_bindings[0];
        assert_eq!(binding.metadata.name.as_deref(), Some("x:cluster1"));
        assert_eq!(bound(&binding.subjects), own);
        // Not even where it is in no other group than that of all clusters.
        let everywhere = AgentSubject {
            groups: vec!["system:open-cluster-management:addon:greeter".to_owned()],
            ..AgentSubject::default()
        };
        let all = objects(&[permission], Some(everywhere)).unwrap();
        assert_eq!(
            bound(&all.role_bindings[0].subjects),
            ["system:open-cluster-management:cluster:cluster1:addon:greeter:agent:greeter"]
        );
    }

    #[test]
    fn a_token_agent_has_its_own_binding_too() {
        let subject = AgentSubject {
            user: "system:serviceaccount:cluster1:greeter-agent".to_owned(),
            ..AgentSubject::default()
        };
        let permission = Permission::existing_cluster_role("view").in_namespace("settings");
        let all = objects(&[permission], Some(subject)).unwrap();
        let binding = &all.role_bindings[0];
        assert_eq!(binding.metadata.name.as_deref(), Some("view:cluster1"));
        assert_eq!(
            binding.metadata.labels.as_ref().unwrap()[labels::CLUSTER_NAME],
            "cluster1"
        );
        assert_eq!(
            bound(&binding.subjects),
            ["system:serviceaccount:cluster1:greeter-agent"]
        );
    }

    #[test]
    fn permissions_for_others_are_not_bound_to_the_agent() {
        let view = Permission::existing_cluster_role("view");
        let some = view.clone().for_user("alice").for_group("operators");
        let account = view.on_the_whole_hub().for_service_account("console", "reader");
        let all = objects(&[some, account], None).unwrap();
        let printed = |it: &RbacSubject| format!("{} {}", it.kind, it.name);
        let of_cluster = &all.role_bindings[0];
        let subjects: Vec<_> = of_cluster.subjects.iter().flatten().map(printed).collect();
        assert_eq!(subjects, ["User alice", "Group operators"]);
        assert_eq!(of_cluster.metadata.namespace.as_deref(), Some("cluster1"));
        let of_hub = &all.cluster_role_bindings[0];
        assert_eq!(of_hub.metadata.name.as_deref(), Some("view"));
        let account = &of_hub.subjects.as_ref().unwrap()[0];
        assert_eq!(
            (printed(account).as_str(), account.namespace.as_deref()),
            ("ServiceAccount reader", Some("console"))
        );
        assert_eq!(account.api_group, None);
    }

    #[test]
    fn everybody_is_never_bound() {
        let mut subject = AgentSubject::agent("cluster1", "greeter", "abcde");
        subject.groups.push(AUTHENTICATED.to_owned());
        let all = objects(&[Permission::existing_role("a")], Some(subject)).unwrap();
        assert!(!bound(&all.role_bindings[0].subjects).contains(&AUTHENTICATED));
    }

    #[test]
    fn foreign_bindings_are_corrected_but_not_taken_over() {
        let of_operators = Permission::existing_cluster_role("x")
            .on_the_whole_hub()
            .for_group("operators");
        let wanted = objects(&[of_operators], None).unwrap();
        let wanted = &wanted.cluster_role_bindings[0];
        let mut strangers = wanted.clone();
        strangers.metadata.labels = None;
        strangers.metadata.owner_references = None;
        strangers.subjects = None;
        let kept = |current: &ClusterRoleBinding| {
            let mut plan = Plan::new();
            keep_cluster_role_binding(&mut plan, Some(current), wanted);
            format!("{plan:#}")
        };
        let printed = kept(&strangers);
        assert!(
            printed.contains("addon-name") && printed.contains("subjects"),
            "{printed}"
        );
        assert!(
            !printed.contains("ownerReferences") && !printed.contains(MANAGED_BY),
            "{printed}"
        );
        assert_eq!(crate::hub::claims::shared_by(&strangers), None);
        // One of ours whose label somebody has taken away is ours by its owner.
        let mut ours = wanted.clone();
        ours.metadata.labels = None;
        assert!(kept(&ours).contains(MANAGED_BY));
        assert_eq!(kept(wanted), "nothing to do\n");
    }

    #[test]
    fn permissions_that_overwrite_each_other_are_refused() {
        let twice = [
            Permission::existing_cluster_role("a").bound_as("one"),
            Permission::existing_cluster_role("b").bound_as("one"),
        ];
        assert_eq!(
            objects(&twice, None).unwrap_err(),
            "two permissions want RoleBinding one"
        );
        let everywhere = [Permission::existing_role("a").on_the_whole_hub()];
        assert_eq!(
            objects(&everywhere, None).unwrap_err(),
            "Role a cannot hold on the whole hub"
        );
    }
}
