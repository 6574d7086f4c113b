//! What the controllers of ClusterManagers watch: objects by their names or labels alone, so that a cluster with many
//! Secrets costs the operator nothing.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Secret},
};
use kube::runtime::watcher;
use ocm_api::operator::ClusterManager;
use ocm_reconcile::{Cache, Caches, cache::Watching};

use super::{
    Options,
    certificates::{BUNDLE, SIGNER},
    deployments::{ADD_ON_CERTIFICATE, REGISTRATION_CERTIFICATE, WORK_CERTIFICATE},
    wanted::{CREATED_BY, EXTERNAL_KUBECONFIG, TLS_PROFILE, WORK_DRIVER_CONFIG},
};

/// All of them.
#[derive(Clone)]
pub struct HubCaches {
    /// ClusterManagers.
    pub managers: Cache<ClusterManager>,
    /// The Deployments of hubs.
    pub deployments: Cache<Deployment>,
    /// Their pods.
    pub pods: Cache<Pod>,
    /// The certificates of webhooks.
    pub certificates: Vec<Cache<Secret>>,
    /// The authorities that are trusted.
    pub bundles: Cache<ConfigMap>,
    /// Kubeconfigs of hubs on other clusters.
    pub external: Cache<Secret>,
    /// The Secret that images are pulled with, in the operator's namespace.
    pub pull_secret: Cache<Secret>,
    /// The Secret that says how to reach a broker, in the operator's namespace.
    pub work_driver: Cache<Secret>,
    /// The TLS profile, in the operator's namespace.
    pub tls_profile: Cache<ConfigMap>,
}

/// The caches of the operator, in which pods are what is said of them.
pub fn shaped(caches: Caches) -> Caches {
    caches.shaped(|_, pod: &mut Pod| {
        pod.spec = None;
        pod.metadata.managed_fields = None;
        pod.metadata.annotations = None;
    })
}

impl HubCaches {
    /// Asks for all of them.
    pub fn new(caches: &Caches, options: &Options) -> Self {
        let secrets = |name: &str| caches.watching::<Secret>(named(name));
        let home = options.namespace.as_str();
        Self {
            managers: caches.of(),
            deployments: caches.labelled(CREATED_BY),
            pods: caches.watching(Watching {
                selection: watcher::Config::default().labels(CREATED_BY),
                // Upstream's role does not let anybody look; what is said of pods is then missing.
                forbidden_at_first: true,
                ..Watching::default()
            }),
            certificates: [SIGNER, REGISTRATION_CERTIFICATE, WORK_CERTIFICATE, ADD_ON_CERTIFICATE]
                .map(secrets)
                .to_vec(),
            bundles: caches.watching(named(BUNDLE)),
            external: secrets(EXTERNAL_KUBECONFIG),
            pull_secret: caches.in_namespace(home, named(&options.image_pull_secret_name)),
            work_driver: caches.in_namespace(home, named(WORK_DRIVER_CONFIG)),
            tls_profile: caches.in_namespace(home, named(TLS_PROFILE)),
        }
    }
}

fn named(name: &str) -> Watching {
    Watching {
        selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
        ..Watching::default()
    }
}
