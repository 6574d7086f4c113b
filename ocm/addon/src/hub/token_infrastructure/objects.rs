//! The three objects that an agent with a token needs on the hub: its ServiceAccount, and the cluster's right to ask
//! for tokens of it. They belong to the add-on, by owner reference and label.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use ocm_api::{
    addon::{v1alpha1::ManagedClusterAddOn, v1beta1},
    conditions::managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY,
    identity, labels,
};
use ocm_reconcile::{Cache, Caches, Plan, Site, Watches};
use serde::Serialize;

use super::Seen;
use crate::hub::facts;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The name of an add-on's ServiceAccount, in the cluster's namespace.
pub fn service_account_name(addon: &str) -> String {
    format!("{addon}-agent")
}

/// The name of its Role and RoleBinding.
fn role_name(addon: &str) -> String {
    format!("{addon}-token-role")
}

/// The key of the add-on that an object was made for.
fn addon_of<K: Resource>(object: &K) -> Option<String> {
    let name = object.meta().labels.as_ref()?.get(labels::ADDON_TOKEN_NAME)?;
    Some(format!("{}/{name}", object.meta().namespace.as_deref()?))
}

/// The three objects as they are.
#[derive(Clone, Default)]
pub struct TokenObjects {
    /// The add-on's ServiceAccount.
    pub service_account: Option<Arc<ServiceAccount>>,
    /// The right to ask for its tokens.
    pub role: Option<Arc<Role>>,
    /// Whose right that is.
    pub role_binding: Option<Arc<RoleBinding>>,
}

impl TokenObjects {
    /// The UID of the ServiceAccount.
    pub fn uid(&self) -> Option<&str> {
        self.service_account.as_ref()?.metadata.uid.as_deref()
    }
}

/// Where they are looked up.
pub struct ObjectCaches {
    service_accounts: Cache<ServiceAccount>,
    roles: Cache<Role>,
    role_bindings: Cache<RoleBinding>,
}

impl ObjectCaches {
    /// Those that have the label of token infrastructure.
    pub fn new(caches: &Caches) -> Self {
        let ours = format!("{}=true", labels::ADDON_TOKEN_INFRASTRUCTURE);
        Self {
            service_accounts: caches.labelled(&ours),
            roles: caches.labelled(&ours),
            role_bindings: caches.labelled(&ours),
        }
    }

    /// The objects wake the add-on that they were made for.
    pub fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.service_accounts, |old, new| new.or(old).and_then(addon_of));
        watches.wakes(&self.roles, |old, new| new.or(old).and_then(addon_of));
        watches.wakes(&self.role_bindings, |old, new| new.or(old).and_then(addon_of));
    }

    /// What there is for an add-on.
    pub fn of(&self, cluster: &str, addon: &str) -> TokenObjects {
        TokenObjects {
            service_account: self.service_accounts.get(cluster, &service_account_name(addon)),
            role: self.roles.get(cluster, &role_name(addon)),
            role_binding: self.role_bindings.get(cluster, &role_name(addon)),
        }
    }
}

/// Plans that all three are there, and say what they have to.
pub fn keep_all(plan: &mut Plan, seen: &TokenObjects, addon: &ManagedClusterAddOn) {
    let account = ServiceAccount {
        metadata: metadata(addon, service_account_name(&addon.name_any())),
        ..ServiceAccount::default()
    };
    plan.keep(Site::Hub, seen.service_account.as_deref(), &account);
    let role = role(addon);
    keep(plan, seen.role.as_deref(), &role, |current| {
        current.rules = role.rules.clone();
    });
    let binding = binding(addon);
    match seen.role_binding.as_deref() {
        // A binding cannot change its role.
        Some(current) if current.role_ref != binding.role_ref => {
            plan.delete(Site::Hub, current);
        }
        current => keep(plan, current, &binding, |current| {
            current.subjects = binding.subjects.clone();
        }),
    }
}

/// Plans that none of them is there, and then that nothing is said of them.
pub fn remove_all(plan: &mut Plan, seen: &Seen) {
    let objects = &seen.objects;
    if let Some(it) = objects.role_binding.as_deref() {
        plan.delete(Site::Hub, it);
    }
    if let Some(it) = objects.role.as_deref() {
        plan.delete(Site::Hub, it);
    }
    if let Some(it) = objects.service_account.as_deref() {
        plan.delete(Site::Hub, it);
    }
    if let Some(addon) = seen.addon.as_deref() {
        plan.stage();
        facts::tell(
            plan,
            addon,
            &facts::saying_nothing_of(addon, TOKEN_INFRASTRUCTURE_READY),
        );
    }
}

/// Keeps an object's labels and owner, and what `set` makes of it, exactly: a right too many is repaired like one too
/// few.
fn keep<K>(plan: &mut Plan, current: Option<&K>, desired: &K, set: impl FnOnce(&mut K))
where
    K: Resource<DynamicType = ()> + Clone + Serialize,
{
    let Some(current) = current else {
        plan.create(Site::Hub, desired);
        return;
    };
    let mut new = current.clone();
    set(&mut new);
    new.labels_mut().extend(desired.labels().clone());
    for owner in desired.owner_references() {
        if !current.owner_references().iter().any(|it| it.uid == owner.uid) {
            new.owner_references_mut().push(owner.clone());
        }
    }
    plan.change(Site::Hub, current, &new);
}

pub(super) fn metadata(addon: &ManagedClusterAddOn, name: String) -> ObjectMeta {
    let labels = [
        (labels::ADDON_TOKEN_NAME, addon.name_any()),
        (labels::ADDON_TOKEN_INFRASTRUCTURE, "true".to_owned()),
    ];
    ObjectMeta {
        name: Some(name),
        namespace: addon.metadata.namespace.clone(),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        owner_references: Some(vec![OwnerReference {
            api_version: v1beta1::ManagedClusterAddOn::API_VERSION.to_owned(),
            kind: ManagedClusterAddOn::KIND.to_owned(),
            name: addon.name_any(),
            uid: addon.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

pub(super) fn role(addon: &ManagedClusterAddOn) -> Role {
    let rule = |verb: &str| PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["serviceaccounts/token".to_owned()]),
        verbs: vec![verb.to_owned()],
        ..PolicyRule::default()
    };
    let create = PolicyRule {
        resource_names: Some(vec![service_account_name(&addon.name_any())]),
        ..rule("create")
    };
    Role {
        metadata: metadata(addon, role_name(&addon.name_any())),
        // The second is asked for by the hub's gRPC server.
        rules: Some(vec![create, rule("subscribe")]),
    }
}

pub(super) fn binding(addon: &ManagedClusterAddOn) -> RoleBinding {
    let cluster = facts::cluster(addon);
    let groups = [
        identity::cluster_group(cluster),
        identity::cluster_external_group(cluster),
    ];
    let subjects = groups.map(|name| Subject {
        api_group: Some(RBAC_GROUP.to_owned()),
        kind: "Group".to_owned(),
        name,
        namespace: None,
    });
    RoleBinding {
        metadata: metadata(addon, role_name(&addon.name_any())),
        role_ref: RoleRef {
            api_group: Some(RBAC_GROUP.to_owned()),
            kind: "Role".to_owned(),
            name: role_name(&addon.name_any()),
        },
        subjects: Some(subjects.to_vec()),
    }
}
