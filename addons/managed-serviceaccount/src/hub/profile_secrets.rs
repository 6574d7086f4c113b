//! Copies tokens beside ClusterProfiles, for programs that find their clusters there (feature gate ClusterProfile).
//!
//! Root: ClusterProfile. Reads: the ManagedServiceAccounts of its cluster and their Secrets. Writes: Secrets in its
//! namespace with our label and the ClusterProfile as controller. Never: any other Secret.
//! Upstream: managed-serviceaccount `pkg/addon/manager/controller/clusterprofile_cred_syncer.go`.

use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::{
    k8s_openapi::{
        api::core::v1::Secret,
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    },
    kube::{Resource, ResourceExt, runtime::watcher},
    ocm_api::{
        authentication::{ManagedServiceAccount, labels},
        multicluster::ClusterProfile,
    },
    reconcile::{
        Cache, Caches, ObserveError, Plan, Reconciler, Site, Step, Target, Watches, async_trait,
        cache::{Watching, key_of, split_key},
        plan::typed,
        rbac::Right,
    },
};

/// On the ClusterProfiles of OCM.
const MANAGER: (&str, &str) = ("x-k8s.io/cluster-manager", "open-cluster-management");
/// On a ClusterProfile: whose it is.
const CLUSTER: &str = "open-cluster-management.io/cluster-name";

/// The reconciler.
pub struct ProfileSecrets {
    profiles: Cache<ClusterProfile>,
    accounts: Cache<ManagedServiceAccount>,
    tokens: Cache<Secret>,
    copies: Cache<Secret>,
}

/// What a plan is made from.
#[derive(Default)]
pub struct Seen {
    /// The ClusterProfile, if it is one of ours.
    pub profile: Option<Arc<ClusterProfile>>,
    /// The tokens that are wanted beside it.
    pub wanted: Vec<WantedCopy>,
    /// The labelled Secrets in its namespace.
    pub copies: Vec<Arc<Secret>>,
}

/// One token.
pub struct WantedCopy {
    /// The ManagedServiceAccount.
    pub account: Arc<ManagedServiceAccount>,
    /// Its Secret.
    pub token: Arc<Secret>,
}

impl ProfileSecrets {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        let labelled = |selector: &str| Watching {
            selection: watcher::Config::default().labels(selector),
            ..Watching::default()
        };
        Self {
            profiles: caches.of(),
            accounts: caches.of(),
            tokens: caches.watching(labelled(&format!("{}=true", labels::IS_MANAGED))),
            copies: caches.watching(labelled(labels::SYNCED_FROM)),
        }
    }
}

#[async_trait]
impl Reconciler for ProfileSecrets {
    const NAME: &'static str = "cluster-profile-credentials";
    const WORKERS: usize = 4;
    const RIGHTS: &'static [Right] = &[Right::new(
        "",
        "secrets",
        "create update delete",
        "Tokens are copied beside ClusterProfiles.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (of_account, of_token) = (self.profiles.clone(), self.profiles.clone());
        watches
            .root(&self.profiles)
            .wakes(&self.accounts, move |old, new| profiles_of(&of_account, old.or(new)))
            .wakes(&self.tokens, move |old, new| profiles_of(&of_token, old.or(new)))
            .wakes(&self.copies, |old, new| old.or(new).and_then(key_of_controller));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let Some(profile) = self.profiles.get(namespace, name).filter(|it| is_ours(it)) else {
            return Ok(Seen::default());
        };
        let mut wanted = Vec::new();
        for account in self.accounts.list_in(name) {
            let asks = account.labels().get(labels::SYNC_TO_CLUSTER_PROFILE);
            let reference = account.status.as_ref().and_then(|it| it.token_secret_ref.as_ref());
            let token = reference.and_then(|it| self.tokens.get(name, &it.name));
            if let (Some("true"), Some(token)) = (asks.map(String::as_str), token) {
                wanted.push(WantedCopy { account, token });
            }
        }
        Ok(Seen {
            copies: self.copies.list_in(namespace),
            profile: Some(profile),
            wanted,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(profile) = seen.profile.as_deref() else {
            return plan;
        };
        if profile.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let mut kept = Vec::new();
        for one in &seen.wanted {
            let copy = copy(profile, one);
            let name = copy.name_any();
            let present = seen.copies.iter().find(|it| it.name_any() == name);
            kept.push(name);
            put(&mut plan, profile, present.map(|it| &**it), copy);
        }
        for copy in &seen.copies {
            if is_of(copy, profile) && !kept.contains(&copy.name_any()) {
                plan.delete(Site::Hub, &**copy);
            }
        }
        plan
    }
}

/// Creates a copy, or puts it in the place of the one that is there, if that is ours.
fn put(plan: &mut Plan, profile: &ClusterProfile, present: Option<&Secret>, copy: Secret) {
    let Some(present) = present else {
        plan.create(Site::Hub, &copy);
        return;
    };
    if !is_of(present, profile) {
        plan.refuse(format!(
            "Secret {} belongs to somebody else; delete it, or rename the ManagedServiceAccount",
            key_of(present)
        ));
        return;
    }
    let label = |it: &Secret| it.labels().get(labels::SYNCED_FROM).cloned();
    if present.data == copy.data && label(present) == label(&copy) && present.type_ == copy.type_ {
        return;
    }
    let mut new = copy;
    new.metadata.resource_version = present.metadata.resource_version.clone();
    new.metadata.uid = present.metadata.uid.clone();
    let target = Target::of(Site::Hub, &new);
    let object = typed(&new, &target.api_resource);
    plan.push(Step::Replace {
        target,
        subresource: None,
        object,
    });
}

/// All data of the token's Secret, under the names of both.
fn copy(profile: &ClusterProfile, one: &WantedCopy) -> Secret {
    let account = &one.account;
    let namespace = account.namespace().unwrap_or_default();
    let from = format!("{namespace}-{}", account.name_any());
    let owner = profile.controller_owner_ref(&()).unwrap_or_default();
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", profile.name_any(), account.name_any())),
            namespace: profile.namespace(),
            labels: Some(BTreeMap::from([(labels::SYNCED_FROM.to_owned(), from)])),
            owner_references: Some(vec![OwnerReference {
                block_owner_deletion: Some(true),
                ..owner
            }]),
            ..ObjectMeta::default()
        },
        data: one.token.data.clone(),
        type_: one.token.type_.clone(),
        ..Secret::default()
    }
}

fn is_ours(profile: &ClusterProfile) -> bool {
    let labels = profile.labels();
    labels.get(MANAGER.0).map(String::as_str) == Some(MANAGER.1) && labels.contains_key(CLUSTER)
}

/// Whether a labelled Secret was made for this very ClusterProfile.
fn is_of(secret: &Secret, profile: &ClusterProfile) -> bool {
    let uid = profile.uid();
    let mut owners = secret.owner_references().iter();
    owners.any(|it| it.controller == Some(true) && Some(&it.uid) == uid.as_ref())
}

/// The ClusterProfiles that have the name of an object's namespace.
fn profiles_of<K: ResourceExt>(profiles: &Cache<ClusterProfile>, object: Option<&K>) -> Vec<String> {
    let Some(cluster) = object.and_then(ResourceExt::namespace) else {
        return Vec::new();
    };
    let all = profiles.list();
    let named = all.iter().filter(|it| it.name_any() == cluster);
    named.map(|it| key_of(&**it)).collect()
}

fn key_of_controller(secret: &Secret) -> Option<String> {
    let is_it = |it: &&OwnerReference| it.controller == Some(true) && it.kind == ClusterProfile::KIND;
    let owner = secret.owner_references().iter().find(is_it)?;
    Some(format!("{}/{}", secret.namespace()?, owner.name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn profile() -> Arc<ClusterProfile> {
        let labels = json!({"x-k8s.io/cluster-manager": "open-cluster-management", CLUSTER: "c1"});
        let text = json!({"metadata": {"name": "c1", "namespace": "fleet", "uid": "p", "labels": labels}});
        Arc::new(serde_json::from_value(text).unwrap())
    }

    fn wanted(token: &str) -> WantedCopy {
        let account = json!({"metadata": {"name": "ci", "namespace": "c1"}, "spec": {"rotation": {}}});
        let token = json!({"metadata": {"name": "ci", "namespace": "c1"}, "type": "Opaque", "data": {"token": token}});
        WantedCopy {
            account: Arc::new(serde_json::from_value(account).unwrap()),
            token: Arc::new(serde_json::from_value(token).unwrap()),
        }
    }

    fn secret(name: &str, token: &str, uid: &str) -> Arc<Secret> {
        let owner = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "name": "c1", "uid": uid, "controller": true});
        let text: Value = json!({
            "metadata": {"name": name, "namespace": "fleet", "labels": {labels::SYNCED_FROM: "c1-ci"}, "ownerReferences": [owner]},
            "type": "Opaque", "data": {"token": token},
        });
        Arc::new(serde_json::from_value(text).unwrap())
    }

    fn printed(wanted: Vec<WantedCopy>, copies: Vec<Arc<Secret>>) -> String {
        let profile = Some(profile());
        format!(
            "{}",
            ProfileSecrets::plan(&Seen {
                profile,
                wanted,
                copies
            })
        )
        .trim()
        .to_owned()
    }

    #[test]
    fn a_token_is_copied_and_follows_its_rotation() {
        assert_eq!(printed(vec![wanted("YQ==")], vec![]), "hub: create Secret fleet/c1-ci");
        let same = vec![secret("c1-ci", "YQ==", "p")];
        assert_eq!(printed(vec![wanted("YQ==")], same), "nothing to do");
        let old = vec![secret("c1-ci", "Yg==", "p")];
        assert_eq!(printed(vec![wanted("YQ==")], old), "hub: replace Secret fleet/c1-ci");
    }

    #[test]
    fn only_our_own_copies_are_deleted() {
        let copies = vec![secret("c1-ci", "YQ==", "p"), secret("other", "YQ==", "q")];
        assert_eq!(printed(vec![], copies), "hub: delete Secret fleet/c1-ci");
        let foreign = printed(vec![wanted("YQ==")], vec![secret("c1-ci", "Yg==", "q")]);
        assert!(foreign.contains("belongs to somebody else"), "{foreign}");
    }
}
