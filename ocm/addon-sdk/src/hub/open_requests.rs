//! Which certificate requests wait for which add-on: found by key when an add-on changes, without looking at all requests.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use ocm_api::identity;
use ocm_reconcile::{Cache, Queue, cache::key_of};
use parking_lot::RwLock;

use super::{Context, request};

/// The names of the requests that wait for something, by `cluster/add-on`.
#[derive(Default)]
pub struct OpenRequests {
    by_key: RwLock<HashMap<String, BTreeSet<String>>>,
}

impl OpenRequests {
    /// Those of a cache, from now on.
    pub fn of(cache: &Cache<CertificateSigningRequest>) -> Arc<Self> {
        let open = Arc::new(Self::default());
        let kept = open.clone();
        cache.listen(move |old, new| {
            let Some(of) = new.or(old) else { return };
            let Some(key) = request::key(of) else { return };
            let mut all = kept.by_key.write();
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

    /// Adds to `queue` the names of requests: when they change, and when the add-on, its configuration or the cluster that they
    /// wait for does. Until a kind of configuration has been listed for the first time, nothing can be said of those who use it.
    pub fn subscribe(self: &Arc<Self>, context: &Context, queue: &Queue) {
        context.caches.requests.subscribe(queue, |_, new| {
            let new = new.filter(|it| is_open(it))?;
            Some(new.name_any())
        });
        let open = self.clone();
        context.caches.addons.subscribe(queue, move |_, new| {
            new.map(|it| open.get(&key_of(it))).unwrap_or_default()
        });
        let (open, addons) = (self.clone(), context.caches.addons.clone());
        context.caches.clusters.subscribe(queue, move |_, new| {
            let Some(cluster) = new else { return BTreeSet::new() };
            let all = addons.list_in(&cluster.name_any());
            all.iter().flat_map(|it| open.get(&key_of(&**it))).collect()
        });
        let (open, queue) = (self.clone(), queue.clone());
        let configs = &context.caches.configs;
        configs.listen_for_addons(move |key| open.get(&key).into_iter().for_each(|it| queue.add(it)));
    }
}

/// Leaves out of a request that waits for nothing what only those need who decide or sign: there may be thousands for as long
/// as Kubernetes keeps them. That it is signed can still be seen.
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
    !request::is_decided(request)
        || request::is_approved(request)
            && !request::is_signed(request)
            && request.spec.signer_name != identity::CLIENT_SIGNER
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::DynamicObject;
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

    fn holding<K>(object: Value) -> Cache<K>
    where
        K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        Cache::holding([serde_json::from_value(object).unwrap()])
    }

    #[tokio::test]
    async fn a_request_that_is_open_before_the_configurations_arrive_is_looked_at_when_they_do() {
        let desired = json!({"namespace": "default", "name": "settings", "specHash": "1"});
        let addons = holding(json!({
            "metadata": {"name": "greeter", "namespace": "c1"}, "spec": {},
            "status": {"configReferences": [{"group": "", "resource": "configmaps", "desiredConfig": desired}]},
        }));
        let clusters = holding(json!({"metadata": {"name": "c1"}, "spec": {}}));
        let context = Context::holding(clusters, addons);
        context.registry.add(Arc::new(Greeter), false).unwrap();
        // Not the context's, so that nothing but the configuration can tell the queue.
        let (requests, queue) = (Cache::empty(), Queue::new());
        let open = OpenRequests::of(&requests);
        open.subscribe(&context, &queue);
        let request = json!({
            "metadata": {"name": "addon-1", "labels": {
                "open-cluster-management.io/cluster-name": "c1",
                "open-cluster-management.io/addon-name": "greeter",
            }},
            "spec": {"request": "", "signerName": identity::CLIENT_SIGNER, "usages": []},
        });
        requests.put(serde_json::from_value(request).unwrap());
        assert!(matches!(context.look("c1/greeter"), Look::Waits(_)));
        assert!(queue.is_empty());

        let map: DynamicObject =
            serde_json::from_value(json!({"metadata": {"namespace": "default", "name": "settings"}})).unwrap();
        context.caches.configs.hold(&ConfigKind::of::<ConfigMap>(), [map]);
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
