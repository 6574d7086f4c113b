//! Carries out ClusterPermissions.
//!
//! Root: ClusterPermission. Reads: its ManagedCluster, the ManagedServiceAccounts of the cluster and their add-on, the
//! labels of all Namespaces. Writes: its ManifestWork, its status. Never: a ManifestWork of others.
//! Upstream: cluster-permission `controllers/`.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::{
        api::core::v1::Namespace,
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    },
    kube::{Resource, ResourceExt},
    ocm_api::{
        addon::v1alpha1::ManagedClusterAddOn,
        authentication::ManagedServiceAccount,
        cluster::ManagedCluster,
        condition::{self, wanted},
        rbac::{
            ClusterPermission, ClusterPermissionStatus,
            conditions::{self, reason},
        },
        work::ManifestWork,
    },
    reconcile::{
        Cache, Caches, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, cache::split_key,
        rbac::Right,
    },
};

use crate::{
    payload::{self, Surroundings},
    status,
};

const SERVICE_ACCOUNTS: &str = "managed-serviceaccount";

/// The reconciler.
pub struct Permissions {
    permissions: Cache<ClusterPermission>,
    works: Cache<ManifestWork>,
    clusters: Cache<ManagedCluster>,
    accounts: Cache<ManagedServiceAccount>,
    add_ons: Cache<ManagedClusterAddOn>,
    namespaces: Cache<Namespace>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The object; `None` when it is gone.
    pub permission: Option<Arc<ClusterPermission>>,
    /// The work of its name.
    pub work: Option<Arc<ManifestWork>>,
    /// Whether its namespace is a cluster's.
    pub has_cluster: bool,
    /// What the payload depends on.
    pub around: Surroundings,
    /// Why ManagedServiceAccounts are not known, where they are needed.
    pub unknown: Option<String>,
}

impl Permissions {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            permissions: caches.of(),
            works: caches.of(),
            clusters: caches.of(),
            accounts: caches.of(),
            add_ons: caches.of(),
            namespaces: caches.of(),
        }
    }

    /// Why the ManagedServiceAccounts are not there: their definition is missing where their add-on is.
    fn unknown(&self) -> Option<String> {
        (!self.accounts.is_synced()).then(|| match self.accounts.failure() {
            Some(failure) => format!("could not list ManagedServiceAccounts: {}", failure.text),
            None => "ManagedServiceAccounts have not been listed yet".to_owned(),
        })
    }
}

#[async_trait]
impl Reconciler for Permissions {
    const NAME: &'static str = "cluster-permission";
    const WORKERS: usize = 4;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ClusterPermission::KIND, conditions::VALIDATION),
        StatusField::condition(ClusterPermission::KIND, conditions::APPLIED_WORK),
        StatusField::condition(ClusterPermission::KIND, conditions::ROLES_EXIST),
        StatusField::condition(ClusterPermission::KIND, conditions::CLUSTER_ROLES_EXIST),
        StatusField::new(ClusterPermission::KIND, "resourceStatus"),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(
            ManifestWork::GROUP,
            "manifestworks",
            "create patch",
            "Roles and bindings go to clusters as ManifestWorks.",
        ),
        Right::new(
            ClusterPermission::GROUP,
            "clusterpermissions/status",
            "patch",
            "What has become of roles and bindings.",
        ),
        Right::new(
            ClusterPermission::GROUP,
            "clusterpermissions/finalizers",
            "update",
            "The ManifestWork goes with its ClusterPermission.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (of_cluster, of_account) = (self.permissions.clone(), self.permissions.clone());
        let (of_add_on, selecting) = (self.permissions.clone(), self.permissions.clone());
        watches
            .root(&self.permissions)
            .wakes(&self.works, |old, new| {
                old.into_iter().chain(new).filter_map(key_of_owner).collect::<Vec<_>>()
            })
            .wakes(&self.clusters, move |old, new| match (old, new) {
                // What a cluster says makes no difference, only whether it is there.
                (Some(_), Some(_)) => Vec::new(),
                (None, None) => Vec::new(),
                (Some(it), None) | (None, Some(it)) => keys(&of_cluster.list_in(&it.name_any()), |_| true),
            })
            .wakes(&self.accounts, move |old, new| match (old, new) {
                (Some(_), Some(_)) => Vec::new(),
                _ => of_namespace(&of_account, old.or(new), payload::names_service_accounts),
            })
            .not_awaited()
            .wakes(&self.add_ons, move |old, new| {
                let is_it = |it: &&ManagedClusterAddOn| it.metadata.name.as_deref() == Some(SERVICE_ACCOUNTS);
                let (old, new) = (old.filter(is_it), new.filter(is_it));
                if old.map(payload::install_namespace) == new.map(payload::install_namespace) {
                    return Vec::new();
                }
                of_namespace(&of_add_on, old.or(new), payload::names_service_accounts)
            })
            .wakes(&self.namespaces, move |old, new| {
                if old.map(|it| it.labels()) == new.map(|it| it.labels()) {
                    return Vec::new();
                }
                keys(&selecting.list(), |it| payload::selects_namespaces(&it.spec))
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let permission = self.permissions.get(namespace, name);
        let mut around = Surroundings::default();
        let mut unknown = None;
        if let Some(permission) = &permission {
            if payload::selects_namespaces(&permission.spec) {
                let all = self.namespaces.list();
                all.iter().for_each(|it| around.add_namespace(it));
            }
            if payload::names_service_accounts(&permission.spec) {
                unknown = self.unknown();
                let all = self.accounts.list_in(namespace);
                around.service_accounts = all.iter().map(|it| it.name_any()).collect();
                let add_on = self.add_ons.get(namespace, SERVICE_ACCOUNTS);
                around.service_account_namespace = add_on.as_deref().map(payload::install_namespace);
            }
        }
        let work = permission.as_deref().map(work_name);
        Ok(Seen {
            now: Timestamp::now(),
            work: work.and_then(|it| self.works.get(namespace, &it)),
            has_cluster: self.clusters.named(namespace).is_some(),
            permission,
            around,
            unknown,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(permission) = seen.permission.as_deref() else {
            return plan;
        };
        if permission.metadata.deletion_timestamp.is_some() {
            plan.remark("the ManifestWork goes with its owner");
            return plan;
        }
        let mut said = permission.status.clone().unwrap_or_default();
        match wanted_work(seen, permission) {
            Err(Problem::Invalid(reason, message)) => {
                plan.refuse(message);
                let update = wanted(conditions::VALIDATION, false, reason, message);
                condition::set(&mut said.conditions, update, seen.now);
            }
            Err(Problem::CannotBuild(why)) => {
                plan.refuse(why.clone());
                put_right(&mut said, seen.now);
                let update = wanted(conditions::APPLIED_WORK, false, reason::BUILD_FAILED, why);
                condition::set(&mut said.conditions, update, seen.now);
            }
            Ok(work) => {
                match seen.work.as_deref() {
                    Some(current) => plan.change(Site::Hub, current, &work),
                    None => Some(plan.create(Site::Hub, &work)),
                };
                put_right(&mut said, seen.now);
                if let Some(current) = seen.work.as_deref() {
                    status::report(&mut said, permission, current, seen.now);
                } else {
                    plan.wait("its ManifestWork is being created");
                }
                plan.stage();
            }
        }
        let mut new = permission.clone();
        new.status = Some(said);
        plan.status(Site::Hub, permission, &new);
        plan
    }
}

/// Why there is no work to be made.
enum Problem {
    /// A reason and its message: nobody can carry it out.
    Invalid(&'static str, &'static str),
    /// What it needs is not there, or contradicts itself.
    CannotBuild(String),
}

/// The work as it should be.
fn wanted_work(seen: &Seen, permission: &ClusterPermission) -> Result<ManifestWork, Problem> {
    let spec = &permission.spec;
    let binds =
        spec.cluster_role_binding.is_some() || !spec.cluster_role_bindings.is_empty() || !spec.role_bindings.is_empty();
    if !binds {
        return Err(Problem::Invalid(reason::NO_BINDINGS, "no bindings defined"));
    }
    if !seen.has_cluster {
        let message = "namespace value is not a managed cluster";
        return Err(Problem::Invalid(reason::NO_CLUSTER, message));
    }
    if let Some(why) = &seen.unknown {
        return Err(Problem::CannotBuild(why.clone()));
    }
    let payload = payload::build(permission, &seen.around).map_err(Problem::CannotBuild)?;
    let owner = OwnerReference {
        block_owner_deletion: Some(true),
        controller: Some(true),
        ..permission.controller_owner_ref(&()).unwrap_or_default()
    };
    let mut work = match seen.work.as_deref() {
        Some(current) if !current.owner_references().iter().any(|it| it.uid == owner.uid) => {
            let name = current.name_any();
            let why = format!("ManifestWork {name} belongs to somebody else; delete or rename this ClusterPermission");
            return Err(Problem::CannotBuild(why));
        }
        Some(current) => current.clone(),
        None => ManifestWork {
            metadata: ObjectMeta {
                name: Some(work_name(permission)),
                namespace: permission.namespace(),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            ..ManifestWork::default()
        },
    };
    work.spec = payload;
    Ok(work)
}

/// What was refused is not refused any more.
fn put_right(said: &mut ClusterPermissionStatus, now: Timestamp) {
    if condition::is_false(&said.conditions, conditions::VALIDATION) {
        let update = wanted(
            conditions::VALIDATION,
            true,
            reason::VALID,
            "the ClusterPermission can be carried out",
        );
        condition::set(&mut said.conditions, update, now);
    }
}

/// The name of the object and the beginning of its UID, so that a successor of the same name has a work of its own.
fn work_name(permission: &ClusterPermission) -> String {
    let uid: String = permission.uid().unwrap_or_default().chars().take(5).collect();
    format!("{}-{uid}", permission.name_any())
}

/// The ClusterPermission that owns a work.
fn key_of_owner(work: &ManifestWork) -> Option<String> {
    let is_it = |it: &&OwnerReference| {
        it.controller == Some(true)
            && it.kind == ClusterPermission::KIND
            && it.api_version.starts_with(&format!("{}/", ClusterPermission::GROUP))
    };
    let owner = work.owner_references().iter().find(is_it)?;
    Some(format!("{}/{}", work.namespace()?, owner.name))
}

fn keys(all: &[Arc<ClusterPermission>], concerned: impl Fn(&ClusterPermission) -> bool) -> Vec<String> {
    let concerned = all.iter().filter(|it| concerned(it));
    concerned
        .map(|it| ocm_addon_sdk::reconcile::cache::key_of(&**it))
        .collect()
}

fn of_namespace<K: Resource>(
    all: &Cache<ClusterPermission>,
    object: Option<&K>,
    concerned: impl Fn(&ocm_addon_sdk::ocm_api::rbac::ClusterPermissionSpec) -> bool,
) -> Vec<String> {
    let namespace = object.and_then(|it| it.meta().namespace.clone());
    let of = namespace.map(|it| all.list_in(&it)).unwrap_or_default();
    keys(&of, |it| concerned(&it.spec))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(spec: Value) -> Seen {
        let text = json!({"metadata": {"name": "p", "namespace": "c1", "uid": "abcdefgh"}, "spec": spec});
        Seen {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            permission: Some(Arc::new(serde_json::from_value(text).unwrap())),
            work: None,
            has_cluster: true,
            around: Surroundings::default(),
            unknown: None,
        }
    }

    fn bound() -> Value {
        json!({"clusterRoleBinding": {"subject": {"kind": "User", "name": "jo"}}})
    }

    fn printed(seen: &Seen) -> String {
        format!("{:#}", Permissions::plan(seen))
    }

    #[test]
    fn a_work_is_created_and_named_after_the_uid() {
        let text = printed(&seen(bound()));
        assert!(text.contains("hub: create ManifestWork c1/p-abcde"), "{text}");
        assert!(
            text.contains(r#""blockOwnerDeletion":true,"controller":true,"kind":"ClusterPermission""#),
            "{text}"
        );
        assert!(!text.contains("status"), "{text}");
    }

    #[test]
    fn what_nobody_can_carry_out_is_refused() {
        let text = printed(&seen(json!({"clusterRole": {"rules": []}})));
        assert!(
            text.contains(r#""message":"no bindings defined","reason":"FailedValidationNoBindingsDefined","status":"False","type":"Validation""#),
            "{text}"
        );
        let mut no_cluster = seen(bound());
        no_cluster.has_cluster = false;
        let text = printed(&no_cluster);
        assert!(
            text.contains(r#""message":"namespace value is not a managed cluster","reason":"FailedValidationNotInManagedClusterNamespace""#),
            "{text}"
        );
        assert!(!text.contains("create"), "{text}");
    }

    #[test]
    fn what_was_refused_is_put_right() {
        let mut again = seen(bound());
        let mut permission = again.permission.as_deref().unwrap().clone();
        let update = wanted(conditions::VALIDATION, false, reason::NO_CLUSTER, "x");
        condition::set(
            &mut permission.status.get_or_insert_default().conditions,
            update,
            again.now,
        );
        again.permission = Some(Arc::new(permission));
        assert!(printed(&again).contains(r#""reason":"Validated","status":"True","type":"Validation""#));
    }

    #[test]
    fn a_work_of_somebody_else_is_left_alone() {
        let mut other = seen(bound());
        let work = json!({"metadata": {"name": "p-abcde", "namespace": "c1"}, "spec": {}});
        other.work = Some(Arc::new(serde_json::from_value(work).unwrap()));
        let text = printed(&other);
        assert!(text.contains("ManifestWork p-abcde belongs to somebody else"), "{text}");
        assert!(!text.contains("patch ManifestWork"), "{text}");
    }
}
