//! The ConfigMap that makes mode addon stand still: an administrator writes it, or the clean-up does.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::ConfigMap,
    kube::{Api, Client, runtime::watcher},
    reconcile::{Cache, Caches, ObserveError, Plan, Watches, cache::Watching, segment::encoded},
};

use super::KEY;

/// Its name, in the namespace of the operator.
pub const MARKER: &str = "argocd-agent-addon-pause";

/// Whether a marker says that nothing is to be done.
pub fn is_pausing(marker: &ConfigMap) -> bool {
    let data = marker.data.as_ref();
    data.and_then(|it| it.get("paused")).is_some_and(|it| it == "true")
}

/// The marker of one cluster.
pub struct PauseMarker {
    marker: Cache<ConfigMap>,
    client: Client,
    namespace: String,
}

impl PauseMarker {
    /// In this namespace.
    pub fn new(client: &Client, caches: &Caches, namespace: &str) -> Self {
        let watching = Watching {
            selection: watcher::Config::default().fields(&format!("metadata.name={MARKER}")),
            ..Watching::default()
        };
        Self {
            marker: caches.in_namespace(namespace, watching),
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// Has a reconciler woken when it changes.
    pub fn wake(&self, watches: &mut Watches) {
        watches.wakes(&self.marker, |_, _| [KEY.to_owned()]);
    }

    /// Whether it says that nothing is to be done.
    ///
    /// It is asked of the API server, and after everything else was seen: the clean-up writes it before it deletes
    /// anything, so that whoever sees something missing that the clean-up has deleted sees this, too. Watches of two
    /// kinds have no such order.
    ///
    /// # Errors
    /// When the API server does not say.
    pub async fn is_on(&self) -> Result<bool, ObserveError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &encoded(&self.namespace));
        Ok(api.get_opt(MARKER).await?.as_ref().is_some_and(is_pausing))
    }
}

/// Says in a plan that nothing is done.
pub fn remark(plan: &mut Plan) {
    plan.wait(format!("ConfigMap {MARKER} says that the add-on is paused"));
}
