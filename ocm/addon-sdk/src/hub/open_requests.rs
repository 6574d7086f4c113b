//! Which certificate requests wait for which add-on: found by key when an add-on changes,
//! without looking at all requests.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, ResourceExt, runtime::watcher};
use ocm_api::labels;
use ocm_reconcile::{
    Cache, Caches, Queue, Watches,
    cache::{Watching, key_of},
};
use parking_lot::RwLock;

use super::{Context, configs::CONFIGURATIONS, request};

/// The certificate requests of add-ons, and the names of those that wait for something by `cluster/add-on`.
/// Cloning shares it.
#[derive(Clone)]
pub struct OpenRequests {
    /// All of them. Those that wait for nobody are there without their certificates.
    pub requests: Cache<CertificateSigningRequest>,
    by_key: Arc<RwLock<HashMap<String, BTreeSet<String>>>>,
}

impl OpenRequests {
    /// Those beside these caches: watched by the add-on label, so that a hub does not hold what other people ask for.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|caches| {
            let Some(client) = caches.client() else {
                return Self::over(Cache::empty());
            };
            let watching = Watching {
                selection: watcher::Config::default().labels(labels::ADDON_NAME),
                ..Watching::default()
            };
            let (api, cancel) = (Api::all(client.clone()), caches.cancel_token().clone());
            Self::over(Cache::start_shaped(api, watching, cancel, |_, it| lighten(it)))
        })
    }

    fn over(requests: Cache<CertificateSigningRequest>) -> Self {
        let open = Self {
            requests,
            by_key: Arc::default(),
        };
        let by_key = open.by_key.clone();
        open.requests.listen(move |old, new| {
            let Some(of) = new.or(old) else { return };
            let Some(key) = request::key(of) else { return };
            let mut all = by_key.write();
            if new.is_some_and(|it| is_open(it)) {
                all.entry(key).or_default().insert(of.name_any());
            } else if let Some(names) = all.get_mut(&key) {
                names.remove(&of.name_any());
                if names.is_empty() {
                    all.remove(&key);
                }
            }
        });
        open
    }

    /// The requests that wait for this add-on.
    pub fn get(&self, key: &str) -> BTreeSet<String> {
        self.by_key.read().get(key).cloned().unwrap_or_default()
    }

    /// Wakes the names of requests: when they change, and when the add-on, its configuration or the cluster that they
    /// wait for does. Until a kind of configuration has been listed for the first time,
    /// nothing can be said of those who use it.
    pub fn watches(&self, context: &Context, watches: &mut Watches) {
        watches.wakes(&self.requests, |_, new| {
            let new = new.filter(|it| is_open(it))?;
            Some(new.name_any())
        });
        let open = self.clone();
        watches.wakes(&context.addons, move |_, new| {
            new.map(|it| open.get(&key_of(it))).unwrap_or_default()
        });
        let (open, addons) = (self.clone(), context.addons.clone());
        watches.wakes(&context.clusters, move |_, new| {
            let Some(cluster) = new else { return BTreeSet::new() };
            let all = addons.list_in(&cluster.name_any());
            all.iter().flat_map(|it| open.get(&key_of(&**it))).collect()
        });
        watches.signal(CONFIGURATIONS, self.wakes_by_configs(context));
    }

    fn wakes_by_configs(&self, context: &Context) -> impl FnOnce(&Queue) + Send + use<> {
        let (open, configs) = (self.clone(), context.configs.clone());
        move |queue| {
            let queue = queue.clone();
            configs.listen_for_addons(move |key| open.get(&key).into_iter().for_each(|it| queue.add(it)));
        }
    }
}

/// Leaves out of a request that waits for nothing what only those need who decide or sign: there may be thousands for
/// as long as Kubernetes keeps them. That it is signed can still be seen.
pub fn lighten(request: &mut CertificateSigningRequest) {
    if is_open(request) {
        return;
    }
    request.spec.request.0 = Vec::new();
    if let Some(certificate) = request.status.as_mut().and_then(|it| it.certificate.as_mut()) {
        certificate.0.truncate(1);
        certificate.0.shrink_to_fit();
    }
}

/// Whether a request waits for something that an add-on can give: approval, or a signature of an authority of its own.
fn is_open(request: &CertificateSigningRequest) -> bool {
    !request::is_decided(request) || request::awaits_custom_signer(request)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::DynamicObject;
    use ocm_api::identity;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::{AddOn, AddOnContext, ConfigKind, UserError, hub::Look};

    struct Greeter;

    impl AddOn for Greeter {
        fn name(&self) -> &str {
            "greeter"
        }

        fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
            Ok(Vec::new())
        }

        fn supported_configs(&self) -> Vec<ConfigKind> {
            vec![ConfigKind::of::<ConfigMap>()]
        }
    }

    fn read<K: DeserializeOwned>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_open_request_is_reconciled_when_its_configurations_arrive() {
        let desired = json!({"namespace": "default", "name": "settings", "specHash": "1"});
        let addon = read(json!({
            "metadata": {"name": "greeter", "namespace": "c1"}, "spec": {},
            "status": {"configReferences": [{"group": "", "resource": "configmaps", "desiredConfig": desired}]},
        }));
        let cluster = read(json!({"metadata": {"name": "c1"}, "spec": {}}));
        let context = Context::holding([cluster], [addon]);
        context.registry.add(Arc::new(Greeter), false).unwrap();
        let (open, queue) = (OpenRequests::of(&context.caches), Queue::new());
        open.wakes_by_configs(&context)(&queue);
        let request = json!({
            "metadata": {"name": "addon-1", "labels": {
                "open-cluster-management.io/cluster-name": "c1",
                "open-cluster-management.io/addon-name": "greeter",
            }},
            "spec": {"request": "", "signerName": identity::CLIENT_SIGNER, "usages": []},
        });
        open.requests.put(read(request));
        assert!(matches!(context.look("c1/greeter"), Look::Waits(_)));
        assert!(queue.is_empty());

        let map: DynamicObject = read(json!({"metadata": {"namespace": "default", "name": "settings"}}));
        context.configs.hold(&ConfigKind::of::<ConfigMap>(), [map]);
        assert!(matches!(context.look("c1/greeter"), Look::Here(_)));
        assert_eq!(queue.len(), 1);
    }

    fn lightened(signer: &str, conditions: Value, certificate: Option<&str>) -> (bool, bool, bool) {
        let mut request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "r"},
            "spec": {"request": "cmVxdWVzdA==", "signerName": signer, "usages": []},
            "status": {"conditions": conditions, "certificate": certificate},
        }))
        .unwrap();
        lighten(&mut request);
        let signed = request::is_signed(&request);
        let certificate = request.status.and_then(|it| it.certificate).map_or(0, |it| it.0.len());
        (!request.spec.request.0.is_empty(), certificate > 1, signed)
    }

    #[test]
    fn a_request_keeps_its_certificates_while_it_waits_for_somebody() {
        let certificate = Some("Y2VydGlmaWNhdGU=");
        let said = |it: &str| json!([{"type": it, "status": "True"}]);
        assert_eq!(
            lightened(identity::CLIENT_SIGNER, json!([]), None),
            (true, false, false)
        );
        assert_eq!(lightened("example.com/s", said("Approved"), None), (true, false, false));
        assert_eq!(
            lightened("example.com/s", said("Approved"), certificate),
            (false, false, true)
        );
        assert_eq!(
            lightened(identity::CLIENT_SIGNER, said("Approved"), certificate),
            (false, false, true)
        );
        assert_eq!(
            lightened(identity::CLIENT_SIGNER, said("Denied"), None),
            (false, false, false)
        );
    }
}
