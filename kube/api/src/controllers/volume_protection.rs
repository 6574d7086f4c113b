//! Keeps PersistentVolumeClaims that pods use, and PersistentVolumes that are bound, until nobody uses them any more.
//!
//! root: PersistentVolumeClaim, PersistentVolume; reads: pods of a claim's namespace; writes: the finalizers
//! `kubernetes.io/pvc-protection` and `kubernetes.io/pv-protection`, which it gives to what lacks them and takes from
//! what is being deleted; never: anything else of them.
//! Upstream: pkg/controller/volume/pvcprotection, pkg/controller/volume/pvprotection.

use super::{
    controller::{ServerController, tolerate},
    queue::{Key, Queue},
};
use crate::{
    kinds::{CLAIM_PROTECTION, VOLUME_PROTECTION},
    local::Local,
};
use kube_store::{
    status::Status,
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// Id of the resource of claims.
pub(super) const CLAIMS: &str = "persistentvolumeclaims";
/// Id of the resource of volumes.
pub(super) const VOLUMES: &str = "persistentvolumes";

/// See the header of this file.
pub(super) struct VolumeProtection {
    local: Local,
    /// Which of the two kinds it keeps.
    id: &'static str,
    /// Claims that are being deleted: a change of a pod beside them may let them go.
    leaving: Mutex<BTreeSet<Key>>,
}

impl VolumeProtection {
    pub fn new(local: Local, id: &'static str) -> Self {
        Self {
            local,
            id,
            leaving: Mutex::default(),
        }
    }

    fn is_used(&self, object: &Value, key: &Key) -> bool {
        if self.id == VOLUMES {
            return object["status"]["phase"] == "Bound";
        }
        let pods = self.local.store().list("pods", &key.namespace).0;
        pods.iter().any(|it| uses(&it.value(), &key.name))
    }
}

/// Whether a pod holds a claim. One that is on no node yet will not start with a claim that is being deleted, and one
/// that has ended needs it no more.
fn uses(pod: &Value, claim: &str) -> bool {
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let placed = pod["spec"]["nodeName"].as_str().is_some_and(|it| !it.is_empty());
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    placed && !ended && volumes.any(|it| it["persistentVolumeClaim"]["claimName"] == claim)
}

#[async_trait::async_trait]
impl ServerController for VolumeProtection {
    fn name(&self) -> &'static str {
        match self.id {
            VOLUMES => "pv-protection",
            _ => "pvc-protection",
        }
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        match object.resource.as_ref() {
            id if id == self.id && event.change == Change::Deleted => {
                self.leaving.lock().remove(&Key::of(object));
            }
            id if id == self.id => {
                if object.terminating {
                    self.leaving.lock().insert(Key::of(object));
                }
                queue.add(Key::of(object));
            }
            "pods" if self.id == CLAIMS && event.change != Change::Added => {
                let leaving = self.leaving.lock();
                let here = leaving.iter().filter(|it| it.namespace == object.namespace);
                here.for_each(|it| queue.add(it.clone()));
            }
            _ => {}
        }
    }

    fn survey(&self, queue: &Queue) {
        for object in self.local.store().list(self.id, "").0 {
            if object.terminating {
                self.leaving.lock().insert(Key::of(&object));
            }
            queue.add(Key::of(&object));
        }
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let own = match self.id {
            VOLUMES => VOLUME_PROTECTION,
            _ => CLAIM_PROTECTION,
        };
        let found = self.local.store().get(self.id, &key.namespace, &key.name);
        let Some(object) = found else {
            return Ok(None);
        };
        let value = object.value();
        let mut finalizers: Vec<&str> = value["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        match (object.terminating, finalizers.contains(&own)) {
            (true, true) if !self.is_used(&value, key) => finalizers.retain(|it| *it != own),
            (false, false) => finalizers.push(own),
            _ => return Ok(None),
        }
        let patch = json!({"metadata": {"resourceVersion": object.revision.to_string(), "finalizers": finalizers}});
        tolerate(
            self.local
                .merge_patch(self.id, &key.namespace, &key.name, "", patch)
                .await,
        )?;
        Ok(None)
    }
}
