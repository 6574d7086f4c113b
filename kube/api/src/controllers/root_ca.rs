//! Publishes the server's CA in every namespace, as ConfigMap `kube-root-ca.crt`.
//!
//! root: Namespace; writes: ConfigMap `kube-root-ca.crt`, also after edits; never: a namespace that is being deleted.

use super::{
    controller::{ServerAccess, ServerController, tolerate},
    queue::{Key, Queue},
    service_account::{created, is_active},
};
use crate::local::Local;
use kube_store::{
    status::Status,
    store::{Change, Event},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ID: &str = "configmaps";
const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
    such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
    Kubernetes clusters.";

/// See the header of this file.
pub(super) struct RootCa {
    pub local: Local,
    pub ground: Arc<dyn ServerAccess>,
}

#[async_trait::async_trait]
impl ServerController for RootCa {
    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher"
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        match object.resource.as_ref() {
            "namespaces" if event.change == Change::Added => queue.add(Key::of(object)),
            ID if object.name.as_ref() == NAME => queue.add(Key::cluster("namespaces", &object.namespace)),
            _ => {}
        }
    }

    fn survey(&self, queue: &Queue) {
        self.local
            .store()
            .list("namespaces", "")
            .0
            .iter()
            .for_each(|it| queue.add(Key::of(it)));
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let namespace = key.name.as_ref();
        if !is_active(&self.local, namespace) {
            return Ok(None);
        }
        let Some(object) = self.local.store().get(ID, namespace, NAME) else {
            let wanted = config_map(namespace, &self.ground.root_ca());
            return created(&self.local, namespace, self.local.create(ID, namespace, wanted).await);
        };
        let live = object.value();
        let wanted = config_map(namespace, &self.ground.root_ca());
        let description = |it: &Value| it["metadata"]["annotations"]["kubernetes.io/description"].clone();
        if live["data"] != wanted["data"] || description(&live) != description(&wanted) {
            let mut patch = wanted;
            patch["data"] = changes(&live["data"], &patch["data"]);
            tolerate(self.local.merge_patch(ID, namespace, NAME, "", patch).await)?;
        }
        Ok(None)
    }
}

fn config_map(namespace: &str, root_ca: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": NAME, "namespace": namespace, "annotations": {"kubernetes.io/description": DESCRIPTION},
        },
        "data": {"ca.crt": root_ca},
    })
}

/// The merge patch that turns the map `before` into `after`: strange keys become null.
fn changes(before: &Value, after: &Value) -> Value {
    let mut patch = after.clone();
    for key in before.as_object().into_iter().flat_map(|it| it.keys()) {
        if after.get(key).is_none() {
            patch[key] = Value::Null;
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_ca_bundle_is_restored_and_extra_keys_removed() {
        let patch = changes(&json!({"ca.crt": "edited", "more": "x"}), &json!({"ca.crt": "real"}));
        assert_eq!(patch, json!({"ca.crt": "real", "more": null}));
    }
}
