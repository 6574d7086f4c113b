//! Makes clusters known to Argo CD on the hub, so that Applications may name them as destinations.
//!
//! Root: ManagedCluster. Writes: Secret `<cluster>-secret` where there is none; deletes it with its cluster. Never: one
//! that is there.
//! Upstream: argocd-pull-integration `internal/controller/cluster_controller.go`.

use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::{
    k8s_openapi::{ByteString, api::core::v1::Secret},
    kube::{ResourceExt, core::ObjectMeta, runtime::watcher},
    ocm_api::cluster::ManagedCluster,
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait, cache::Watching,
        caches::put_written, rbac::Right,
    },
};

use crate::words;

const SUFFIX: &str = "-secret";

/// The reconciler.
pub struct ArgoClusterSecrets {
    clusters: Cache<ManagedCluster>,
    secrets: Cache<Secret>,
    namespace: String,
}

/// What a plan is made from.
pub struct Seen {
    /// The name of the cluster.
    pub name: String,
    /// The namespace of Argo CD.
    pub namespace: String,
    /// The object; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Its Secret.
    pub secret: Option<Arc<Secret>>,
}

impl ArgoClusterSecrets {
    /// Over these caches, for an Argo CD in this namespace.
    pub fn new(caches: &Caches, namespace: &str) -> Self {
        let of_clusters = format!("{}={}", words::SECRET_TYPE, words::SECRET_OF_CLUSTER);
        let watching = Watching {
            selection: watcher::Config::default().labels(&of_clusters),
            ..Watching::default()
        };
        Self {
            clusters: caches.of(),
            secrets: caches.in_namespace(namespace, watching),
            namespace: namespace.to_owned(),
        }
    }
}

#[async_trait]
impl Reconciler for ArgoClusterSecrets {
    const NAME: &'static str = "argocd-cluster-secret";
    const RIGHTS: &'static [Right] = &[Right::new(
        "",
        "secrets",
        "create delete",
        "Argo CD knows its clusters by Secrets.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches
            .wakes(&self.clusters, |old, new| {
                // What a cluster says makes no difference, only whether it is there.
                let is_leaving = |it: &ManagedCluster| it.metadata.deletion_timestamp.is_some();
                let changes = old.map(is_leaving) != new.map(is_leaving);
                old.or(new).filter(|_| changes).map(|it| it.name_any())
            })
            .wakes(&self.secrets, |old, new| match (old, new) {
                // One that was deleted comes back. Others may be an administrator's.
                (Some(gone), None) => gone.name_any().strip_suffix(SUFFIX).map(str::to_owned),
                _ => None,
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            name: key.to_owned(),
            namespace: self.namespace.clone(),
            cluster: self.clusters.named(key),
            secret: self.secrets.get(&self.namespace, &format!("{key}{SUFFIX}")),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let is_there = seen
            .cluster
            .as_ref()
            .is_some_and(|it| it.metadata.deletion_timestamp.is_none());
        match (&seen.secret, is_there) {
            (None, true) => drop(plan.create(Site::Hub, &secret(&seen.name, &seen.namespace))),
            (Some(secret), false) => drop(plan.delete(Site::Hub, &**secret)),
            (Some(_), true) | (None, false) => {}
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.secrets, outcome);
    }
}

fn secret(cluster: &str, namespace: &str) -> Secret {
    let text = |it: String| ByteString(it.into_bytes());
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("{cluster}{SUFFIX}")),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(
                words::SECRET_TYPE.to_owned(),
                words::SECRET_OF_CLUSTER.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([
            ("name".to_owned(), text(cluster.to_owned())),
            // Nobody connects there: Applications are pulled.
            (
                "server".to_owned(),
                text(format!("https://{cluster}-control-plane:6443")),
            ),
        ])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}
