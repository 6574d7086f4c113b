//! Brings the key that a cluster decrypts its templates with from the hub to the cluster.
//!
//! Root: Secret `policy-encryption-key` in the cluster's namespace on the hub. Reads: the copy on the cluster. Writes:
//! that copy. Never: labels and annotations of the Secret on the hub, which are about its rotation and its backup; any
//! other Secret. Upstream: `controllers/secretsync/secret_sync.go`.

use std::sync::Arc;

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::api::ObjectMeta,
    ocm_api::policy::ENCRYPTION_KEY_SECRET,
    reconcile::{
        Cache, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, Watches, async_trait, caches::put_written,
        plan::typed,
    },
};

use super::{
    Caching, SyncSite,
    uninstall::{LOOK_AGAIN, Uninstallation},
};

/// The reconciler.
pub struct EncryptionKeySync {
    on_hub: Cache<Secret>,
    on_cluster: Cache<Secret>,
    uninstallation: Uninstallation,
    site: Arc<SyncSite>,
}

/// What a plan is made from.
pub struct Seen {
    namespace: String,
    on_hub: Option<Arc<Secret>>,
    on_cluster: Option<Arc<Secret>>,
    uninstalling: bool,
}

impl EncryptionKeySync {
    /// Over the caches of the hub and of the cluster.
    pub fn new(caching: &Caching) -> Self {
        Self {
            on_hub: caching
                .hub
                .in_namespace(&caching.site.namespace_on_hub, super::named(ENCRYPTION_KEY_SECRET)),
            on_cluster: caching
                .cluster
                .in_namespace(&caching.site.namespace, super::named(ENCRYPTION_KEY_SECRET)),
            uninstallation: caching.uninstallation.clone(),
            site: caching.site.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for EncryptionKeySync {
    const NAME: &'static str = "secret-sync";
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches
            .wakes(&self.on_hub, |_, _| [ENCRYPTION_KEY_SECRET.to_owned()])
            .wakes(&self.on_cluster, |_, _| [ENCRYPTION_KEY_SECRET.to_owned()]);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            on_hub: self.on_hub.get(&self.site.namespace_on_hub, key),
            on_cluster: self.on_cluster.get(&self.site.namespace, key),
            uninstalling: self.uninstallation.is_on(),
            namespace: self.site.namespace.clone(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if seen.uninstalling {
            plan.wait("the add-on is being uninstalled").look_again(LOOK_AGAIN);
            return plan;
        }
        match (seen.on_hub.as_deref(), seen.on_cluster.as_deref()) {
            (None, None) => {}
            (None, Some(copy)) => {
                plan.delete(Site::Cluster, copy);
            }
            (Some(key), None) => {
                let copy = Secret {
                    metadata: ObjectMeta {
                        name: Some(ENCRYPTION_KEY_SECRET.to_owned()),
                        namespace: Some(seen.namespace.clone()),
                        ..ObjectMeta::default()
                    },
                    data: key.data.clone(),
                    ..Secret::default()
                };
                plan.create(Site::Cluster, &copy);
            }
            (Some(key), Some(copy)) if key.data == copy.data => {}
            (Some(key), Some(copy)) => {
                let mut new = copy.clone();
                new.data = key.data.clone();
                let target = Target::of(Site::Cluster, &new);
                // Whole, because the agent may update this Secret and not patch it.
                let object = typed(&new, &target.api_resource);
                plan.push(Step::Replace {
                    target,
                    subresource: None,
                    object,
                });
            }
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.on_cluster, outcome);
    }
}
