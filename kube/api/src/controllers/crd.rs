//! Deletes the instances of a CustomResourceDefinition that is being deleted, then lets it go. One that waits for a
//! name is looked at again when another has gone.
//!
//! root: CustomResourceDefinition; reads and writes: deletes its instances, conditions `Terminating`, `NamesAccepted`
//! and `Established`, its accepted names, finalizer `customresourcecleanup.apiextensions.k8s.io`; never: other
//! finalizers of the definition or of its instances.

use super::{
    controller::{ServerController, all, seconds, tolerate},
    queue::{Key, Queue},
};
use crate::{local::Local, registry};
use jiff::Timestamp;
use kube_store::{
    Object,
    status::Status,
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const ID: &str = "customresourcedefinitions.apiextensions.k8s.io";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// See the header of this file.
pub(super) struct Definitions {
    local: Local,
    /// Definitions being deleted. The name of a definition is the id of its resource.
    terminating: Mutex<BTreeSet<Box<str>>>,
}

impl Definitions {
    pub fn new(local: Local) -> Self {
        Self {
            local,
            terminating: Mutex::default(),
        }
    }

    /// Definitions that ask for names of others: what the registry has of them says so, without reading each.
    fn waiting(&self) -> impl Iterator<Item = Arc<Object>> {
        let registry = self.local.registry();
        let waits = move |it: &Arc<Object>| {
            let served = registry.by_id(&it.name).and_then(|it| it.crd.as_ref());
            !it.terminating && served.is_none_or(|it| !it.has_its_names)
        };
        self.local.store().list(ID, "").0.into_iter().filter(waits)
    }

    async fn report(&self, name: &str, crd: &Value, condition: (&str, &str, &str)) -> Result<(), Status> {
        let conditions = with_condition(&crd["status"]["conditions"], condition, Timestamp::now());
        if conditions == crd["status"]["conditions"] {
            return Ok(());
        }
        let patch = json!({"status": {"conditions": conditions}});
        tolerate(self.local.merge_patch(ID, "", name, "status", patch).await)
    }
}

#[async_trait::async_trait]
impl ServerController for Definitions {
    fn name(&self) -> &'static str {
        "custom-resource-cleanup"
    }

    fn parallel(&self) -> usize {
        4
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        if object.resource.as_ref() == ID {
            if event.change == Change::Deleted {
                self.terminating.lock().remove(&object.name);
                // Its names are free.
                self.waiting().for_each(|it| queue.add(Key::of(&it)));
            } else if object.terminating {
                self.terminating.lock().insert(object.name.clone());
                queue.add(Key::of(object));
            }
        } else if event.change == Change::Deleted && self.terminating.lock().contains(object.resource.as_ref()) {
            queue.add(Key::cluster(ID, &object.resource));
        }
    }

    fn survey(&self, queue: &Queue) {
        for object in self.local.store().list(ID, "").0.iter().filter(|it| it.terminating) {
            self.terminating.lock().insert(object.name.clone());
            queue.add(Key::of(object));
        }
        self.waiting().for_each(|it| queue.add(Key::of(&it)));
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let name = key.name.as_ref();
        let Some(object) = self.local.store().get(ID, "", name) else {
            return Ok(None);
        };
        let definition = object.value();
        if !object.terminating {
            if !registry::has_its_names(&definition) {
                // Any write to its status has its names looked at again.
                tolerate(self.local.merge_patch(ID, "", name, "status", json!({})).await)?;
            }
            return Ok(None);
        }
        let finalizers = definition["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if !finalizers.iter().any(|it| it == FINALIZER) {
            return Ok(None);
        }
        let live: Vec<_> = self.local.store().list(name, "").0;
        if !live.is_empty() {
            let progress = (
                "True",
                "InstanceDeletionInProgress",
                "CustomResource deletion is in progress",
            );
            self.report(name, &definition, progress).await?;
            let live = live.into_iter().filter(|it| !it.terminating);
            let writes = live.map(|it| async move {
                let uid = Some(it.uid.as_ref());
                tolerate(
                    self.local
                        .delete(name, &it.namespace, &it.name, uid, Some("Background"))
                        .await,
                )
            });
            all(writes.collect()).await?;
            if !self.local.store().list(name, "").0.is_empty() {
                return Ok(None); // the last instance to go brings us back
            }
        }
        self.report(
            name,
            &definition,
            ("False", "InstanceDeletionCompleted", "removed all instances"),
        )
        .await?;
        let stays: Vec<_> = finalizers.into_iter().filter(|it| it != FINALIZER).collect();
        tolerate(
            self.local
                .merge_patch(ID, "", name, "", json!({"metadata": {"finalizers": stays}}))
                .await,
        )?;
        Ok(None)
    }
}

/// The conditions with `Terminating` set; its time changes only with its status.
fn with_condition(before: &Value, (status, reason, message): (&str, &str, &str), now: Timestamp) -> Value {
    let mut conditions = before.as_array().cloned().unwrap_or_default();
    let at = conditions.iter().position(|it| it["type"] == "Terminating");
    let since = at
        .filter(|at| conditions[*at]["status"] == status)
        .map(|at| conditions[at]["lastTransitionTime"].clone());
    let condition = json!({
        "type": "Terminating", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or_else(|| seconds(now).into()),
    });
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    Value::Array(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updating_one_condition_leaves_the_other_conditions_unchanged() {
        let now = Timestamp::from_second(0).unwrap();
        let before = json!([{"type": "Established", "status": "True"}]);
        let progress = with_condition(&before, ("True", "InstanceDeletionInProgress", "m"), now);
        let done = with_condition(&progress, ("False", "InstanceDeletionCompleted", "n"), now);
        assert_eq!(done[0], before[0]);
        assert_eq!(
            (&done[1]["status"], &done[1]["reason"]),
            (&json!("False"), &json!("InstanceDeletionCompleted"))
        );
        assert_eq!(done.as_array().unwrap().len(), 2);
    }
}
