//! Lets a PersistentVolumeClaim go once no pod uses it any more.
//!
//! root: PersistentVolumeClaim that is being deleted; reads: pods of its namespace; writes: takes its finalizer
//! `kubernetes.io/pvc-protection` away; never: claims that stay.
//! Upstream: pkg/controller/volume/pvcprotection.

use super::{
    Controller,
    queue::{Key, Queue},
    tolerate,
};
use crate::local::Local;
use kube_store::{
    status::Status,
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

const ID: &str = "persistentvolumeclaims";
const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// See the header of this file.
pub(super) struct ClaimProtection {
    local: Local,
    /// Claims that are being deleted: a change of a pod beside them may let them go.
    leaving: Mutex<BTreeSet<Key>>,
}

impl ClaimProtection {
    pub fn new(local: Local) -> Self {
        Self {
            local,
            leaving: Mutex::default(),
        }
    }
}

/// Whether a pod holds a claim. One that is on no node yet will not start with a claim that is being deleted, and one that
/// has ended needs it no more.
fn uses(pod: &Value, claim: &str) -> bool {
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let placed = pod["spec"]["nodeName"].as_str().is_some_and(|it| !it.is_empty());
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    placed && !ended && volumes.any(|it| it["persistentVolumeClaim"]["claimName"] == claim)
}

#[async_trait::async_trait]
impl Controller for ClaimProtection {
    fn name(&self) -> &'static str {
        "pvc-protection"
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        match object.resource.as_ref() {
            ID if event.change == Change::Deleted => {
                self.leaving.lock().remove(&Key::of(object));
            }
            ID if object.terminating => {
                self.leaving.lock().insert(Key::of(object));
                queue.add(Key::of(object));
            }
            "pods" if event.change != Change::Added => {
                let leaving = self.leaving.lock();
                let here = leaving.iter().filter(|it| it.namespace == object.namespace);
                here.for_each(|it| queue.add(it.clone()));
            }
            _ => {}
        }
    }

    fn survey(&self, queue: &Queue) {
        for object in self.local.store().list(ID, "").0.iter().filter(|it| it.terminating) {
            self.leaving.lock().insert(Key::of(object));
            queue.add(Key::of(object));
        }
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let claim = self.local.store().get(ID, &key.namespace, &key.name);
        let Some(object) = claim.filter(|it| it.terminating) else {
            return Ok(None);
        };
        let claim = object.value();
        let finalizers: Vec<&str> = claim["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let pods = self.local.store().list("pods", &key.namespace).0;
        if !finalizers.contains(&FINALIZER) || pods.iter().any(|it| uses(&it.value(), &key.name)) {
            return Ok(None);
        }
        let left: Vec<&str> = finalizers.into_iter().filter(|it| *it != FINALIZER).collect();
        let patch = json!({"metadata": {"resourceVersion": object.revision.to_string(), "finalizers": left}});
        tolerate(self.local.merge_patch(ID, &key.namespace, &key.name, "", patch).await)?;
        Ok(None)
    }
}
