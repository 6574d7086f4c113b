//! Applications that clusters pull.
//!
//! ```text
//! hub                                                        cluster
//!   Application --- propagation ---> ManifestWork ---------> Application
//!        ^                                |                      |
//!        +------------- status <----------+<---- feedback -------+
//!   ManagedCluster -- cluster_secrets --> Secret of Argo CD
//! ```

pub mod cluster_secrets;
pub mod orphans;
pub mod payload;
pub mod propagation;
pub mod status;

use std::time::Duration;

use ocm_addon_sdk::{
    kube::{Client, ResourceExt, runtime::watcher},
    ocm_api::work::ManifestWork,
    reconcile::{Cache, Caches, Controller, cache::Watching},
};

use crate::{application::PulledApplication, words};

/// The kind may come at any time, and people wait for it when they install Argo CD.
const KIND_ARRIVES: Duration = Duration::from_secs(5);

/// What an administrator chooses.
#[derive(Clone, Debug)]
pub struct BasicPullSettings {
    /// The namespace of Argo CD on the hub.
    pub argo_cd_namespace: String,
    /// How often ManifestWorks without Application are looked for even if nothing happens.
    pub cleanup_interval: Duration,
}

impl Default for BasicPullSettings {
    fn default() -> Self {
        Self {
            argo_cd_namespace: "argocd".to_owned(),
            cleanup_interval: Duration::from_secs(300),
        }
    }
}

/// What a hub process runs in itself.
pub fn controllers(caches: &Caches, settings: &BasicPullSettings) -> Vec<Controller> {
    vec![
        Controller::new(propagation::ApplicationPropagation::new(caches)),
        Controller::new(orphans::OrphanedApplicationWorks::new(
            caches,
            settings.cleanup_interval,
        )),
        Controller::new(status::ApplicationStatusReturn::new(caches)),
        Controller::new(cluster_secrets::ArgoClusterSecrets::new(
            caches,
            &settings.argo_cd_namespace,
        )),
    ]
}

/// Applications and their works.
struct Pulled {
    applications: Cache<PulledApplication>,
    /// Those with the label, whatever it says.
    works: Cache<ManifestWork>,
    client: Option<Client>,
}

impl Pulled {
    fn of(caches: &Caches) -> Self {
        Self {
            applications: caches.watching(Watching {
                retry_max: KIND_ARRIVES,
                ..Watching::default()
            }),
            works: caches.watching(Watching {
                selection: watcher::Config::default().labels(words::PULL),
                ..Watching::default()
            }),
            client: caches.client().cloned(),
        }
    }
}

/// The key of the Application that a work says it is of.
fn hub_application(work: &ManifestWork) -> Option<String> {
    let annotation = |key: &str| work.annotations().get(key);
    let (namespace, name) = (annotation(words::HUB_NAMESPACE)?, annotation(words::HUB_NAME)?);
    Some(format!("{namespace}/{name}"))
}
