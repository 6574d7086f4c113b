//! Keeps a ServiceAccount `default` in every namespace.
//!
//! root: Namespace; writes: creates ServiceAccount `default`; never: a namespace that is being deleted.

use super::{
    controller::ServerController,
    queue::{Key, Queue},
};
use crate::local::Local;
use kube_store::{
    status::Status,
    store::{Change, Event},
};
use serde_json::json;
use std::time::Duration;

const NAME: &str = "default";

/// See the header of this file.
pub(super) struct DefaultServiceAccounts {
    pub local: Local,
}

#[async_trait::async_trait]
impl ServerController for DefaultServiceAccounts {
    fn name(&self) -> &'static str {
        "default-service-account"
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        match object.resource.as_ref() {
            "namespaces" if event.change == Change::Added => queue.add(Key::of(object)),
            "serviceaccounts" if event.change == Change::Deleted && object.name.as_ref() == NAME => {
                queue.add(Key::cluster("namespaces", &object.namespace));
            }
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
        if !is_active(&self.local, &key.name) || self.local.store().get("serviceaccounts", &key.name, NAME).is_some() {
            return Ok(None);
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": key.name.as_ref()},
        });
        created(
            &self.local,
            &key.name,
            self.local.create("serviceaccounts", &key.name, account).await,
        )
    }
}

/// Whether the namespace exists and is not being deleted.
pub(super) fn is_active(local: &Local, namespace: &str) -> bool {
    local
        .store()
        .get("namespaces", "", namespace)
        .is_some_and(|it| !it.terminating)
}

/// The result of a create that may meet its namesake or a namespace that has begun to go.
pub(super) fn created(
    local: &Local,
    namespace: &str,
    result: Result<serde_json::Value, Status>,
) -> Result<Option<Duration>, Status> {
    match result {
        Err(error) if error.reason != "AlreadyExists" && is_active(local, namespace) => Err(error),
        _ => Ok(None),
    }
}
