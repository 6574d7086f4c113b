//! Deletes what nobody owns any more.
//!
//! root: any object with owners, or being deleted with `foregroundDeletion` or `orphan`; reads: its owners and
//! dependents; writes: deletes the object, its `ownerReferences`, the two finalizers; never: an object without owners.
//!
//! Upstream keeps a graph of every object of the cluster; here the store is in the same process, so that the graph
//! holds only the edges and every question about an object is answered live.

mod graph;
mod verdict;

use crate::{
    controllers::{
        controller::{ServerController, tolerate},
        queue::{Key, Queue},
    },
    local::Local,
};
use graph::Graph;
use kube_store::{
    Object,
    status::Status,
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;
use verdict::{FOREGROUND, GarbageVerdict, ORPHAN, Owner, Reference};

/// See the header of this file.
pub(super) struct GarbageCollector {
    local: Local,
    graph: Mutex<Graph>,
}

impl GarbageCollector {
    pub fn new(local: Local) -> Self {
        Self {
            local,
            graph: Mutex::default(),
        }
    }

    /// How the owner of an object in `namespace` is found.
    fn find_owner(&self, namespace: &str, reference: &Reference) -> Owner {
        let absent = if self.graph.lock().is_gone(&reference.uid) {
            Owner::Absent
        } else {
            Owner::Unknown
        };
        let registry = self.local.registry();
        let Some(resource) = registry.by_kind(&reference.api_version, &reference.kind) else {
            return absent;
        };
        if resource.namespaced && namespace.is_empty() {
            return Owner::Unknown;
        }
        let namespace = if resource.namespaced { namespace } else { "" };
        let id = resource.id.as_ref();
        let found = self.local.store().get(id, namespace, &reference.name);
        let Some(owner) = found.filter(|it| it.uid.as_ref() == reference.uid) else {
            return Owner::Absent;
        };
        let waits = owner.terminating && verdict::has_finalizer(&owner.value(), FOREGROUND);
        if waits { Owner::Waiting } else { Owner::Alive }
    }

    /// Whether a namespaced owner with this uid lives in a namespace other than that of its dependent.
    fn is_elsewhere(&self, namespace: &str, reference: &Reference) -> bool {
        if self.graph.lock().is_gone(&reference.uid) {
            return false;
        }
        let registry = self.local.registry();
        let Some(resource) = registry.by_kind(&reference.api_version, &reference.kind) else {
            return false;
        };
        if !resource.namespaced {
            return false;
        }
        let (all, _) = self.local.store().list(resource.id.as_ref(), "");
        all.iter()
            .any(|it| it.uid.as_ref() == reference.uid && it.namespace.as_ref() != namespace)
    }

    async fn report_wrong_namespace(&self, object: &Value, reference: &Reference) {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let event = wrong_namespace_event(object, namespace, reference, jiff::Timestamp::now());
        let home = if namespace.is_empty() { "default" } else { namespace };
        // The event is only a message; its name is made of the two uids, so that it is written once.
        if let Err(error) = self.local.create("events", home, event).await {
            tracing::debug!(%error, "could not record an event about an owner in another namespace");
        }
    }

    async fn finish_orphan(&self, key: &Key, object: &Object, value: &Value) -> Result<(), Status> {
        let uid = object.uid.to_string();
        let dependents = self.graph.lock().dependents(&uid);
        let uid = &uid;
        let writes = dependents.into_iter().map(|dependent| async move {
            let Some(it) = self
                .local
                .store()
                .get(&dependent.resource, &dependent.namespace, &dependent.name)
            else {
                return Ok(());
            };
            let stays = verdict::references_without(&it.value(), std::slice::from_ref(uid));
            self.patch_metadata(&dependent, &it, json!({"ownerReferences": stays}))
                .await
        });
        super::controller::all(writes.collect()).await?;
        let finalizers = verdict::finalizers_without(value, ORPHAN);
        self.patch_metadata(key, object, json!({"finalizers": finalizers}))
            .await
    }

    async fn finish_foreground(&self, key: &Key, object: &Object, value: &Value, queue: &Queue) -> Result<(), Status> {
        let uid = object.uid.as_ref();
        self.graph.lock().wait(uid, key);
        let mut blocked = false;
        let dependents = self.graph.lock().dependents(uid);
        for dependent in dependents {
            let Some(it) = self
                .local
                .store()
                .get(&dependent.resource, &dependent.namespace, &dependent.name)
            else {
                continue;
            };
            blocked |= verdict::references(&it.value())
                .iter()
                .any(|it| it.uid == uid && it.blocks);
            if !it.terminating {
                queue.add(dependent);
            }
        }
        if blocked {
            return Ok(());
        }
        let finalizers = verdict::finalizers_without(value, FOREGROUND);
        self.patch_metadata(key, object, json!({"finalizers": finalizers}))
            .await
    }

    /// Merges `metadata`, provided that the object is still at the revision that was read.
    async fn patch_metadata(&self, key: &Key, object: &Object, mut metadata: Value) -> Result<(), Status> {
        metadata["resourceVersion"] = object.revision.to_string().into();
        metadata["uid"] = object.uid.as_ref().into();
        let patch = json!({"metadata": metadata});
        tolerate(
            self.local
                .merge_patch(&key.resource, &key.namespace, &key.name, "", patch)
                .await,
        )
    }

    fn dependents_wait(&self, uid: &str) -> Vec<bool> {
        let dependents = self.graph.lock().dependents(uid);
        let found = dependents
            .iter()
            .filter_map(|it| self.local.store().get(&it.resource, &it.namespace, &it.name));
        found
            .map(|it| it.terminating && verdict::has_finalizer(&it.value(), FOREGROUND))
            .collect()
    }
}

#[async_trait::async_trait]
impl ServerController for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    fn parallel(&self) -> usize {
        16
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        let none: &[Box<str>] = &[];
        let before = event.previous.as_ref().map_or(none, |it| &it.owners);
        let deleted = event.change == Change::Deleted;
        // Most objects have neither owners nor dependents and pass without taking a name.
        let owned = !before.is_empty() || !object.owners.is_empty();
        let mut graph = self.graph.lock();
        if owned {
            let key = Key::of(object);
            graph.unlink(&key, before);
            if deleted {
                graph.unlink(&key, &object.owners);
            } else {
                graph.link(&key, &object.owners);
                if event.change == Change::Added || before != object.owners.as_ref() {
                    queue.add(key);
                }
            }
            graph
                .waiting(before.iter().chain(object.owners.iter()))
                .for_each(|it| queue.add(it.clone()));
        }
        if deleted {
            graph.deleted(&object.uid).into_iter().for_each(|it| queue.add(it));
        } else if object.terminating {
            queue.add(Key::of(object));
        }
    }

    fn survey(&self, queue: &Queue) {
        for resource in self.local.store().resources() {
            for object in self.local.store().list(&resource, "").0 {
                if !object.owners.is_empty() {
                    self.graph.lock().link(&Key::of(&object), &object.owners);
                }
                if !object.owners.is_empty() || object.terminating {
                    queue.add(Key::of(&object));
                }
            }
        }
    }

    async fn reconcile(&self, key: &Key, queue: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self.local.store().get(&key.resource, &key.namespace, &key.name) else {
            return Ok(None);
        };
        let value = object.value();
        if object.terminating {
            if verdict::has_finalizer(&value, ORPHAN) {
                self.finish_orphan(key, &object, &value).await?;
            } else if verdict::has_finalizer(&value, FOREGROUND) {
                self.finish_foreground(key, &object, &value, queue).await?;
            }
            return Ok(None);
        }
        let references = verdict::references(&value);
        let owners: Vec<_> = references
            .into_iter()
            .map(|it| (self.find_owner(&key.namespace, &it), it))
            .collect();
        for (state, reference) in &owners {
            let misplaced = match state {
                Owner::Absent => self.is_elsewhere(&key.namespace, reference),
                Owner::Unknown => key.namespace.is_empty() && self.is_elsewhere("", reference),
                Owner::Alive | Owner::Waiting => false,
            };
            if misplaced {
                self.report_wrong_namespace(&value, reference).await;
            }
        }
        let owners: Vec<_> = owners
            .into_iter()
            .map(|(state, reference)| (reference, state))
            .collect();
        match verdict::judge(&value, &owners, &self.dependents_wait(&object.uid)) {
            GarbageVerdict::Keep => {}
            GarbageVerdict::Drop(uids) => {
                let stays = verdict::references_without(&value, &uids);
                self.patch_metadata(key, &object, json!({"ownerReferences": stays}))
                    .await?;
            }
            GarbageVerdict::Delete { propagation, unblock } => {
                if unblock {
                    let mut references = verdict::references_without(&value, &[]);
                    references
                        .iter_mut()
                        .for_each(|it| it["blockOwnerDeletion"] = false.into());
                    self.patch_metadata(key, &object, json!({"ownerReferences": references}))
                        .await?;
                }
                let uid = Some(object.uid.as_ref());
                tracing::debug!(resource = %key.resource, namespace = %key.namespace, name = %key.name, "no owner is left");
                tolerate(
                    self.local
                        .delete(&key.resource, &key.namespace, &key.name, uid, Some(propagation))
                        .await,
                )?;
            }
        }
        Ok(None)
    }
}

fn wrong_namespace_event(object: &Value, namespace: &str, reference: &Reference, now: jiff::Timestamp) -> Value {
    let metadata = &object["metadata"];
    let Reference {
        api_version,
        kind,
        name,
        uid,
        ..
    } = reference;
    let message = format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace \
         \"{namespace}\""
    );
    let seconds = super::controller::seconds(now);
    let home = if namespace.is_empty() { "default" } else { namespace };
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let mut involved = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"], "uid": metadata["uid"],
    });
    if !namespace.is_empty() {
        involved["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{}.{}", text(&metadata["name"]), short(&text(&metadata["uid"]), uid)), "namespace": home},
        "involvedObject": involved,
        "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message, "count": 1,
        "firstTimestamp": seconds, "lastTimestamp": seconds,
        "source": {"component": "garbage-collector-controller"}, "reportingComponent": "garbage-collector-controller",
    })
}

/// Sixteen hexadecimal digits that stand for two uids.
fn short(a: &str, b: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{a}\0{b}"));
    digest[..8].iter().map(|it| format!("{it:02x}")).collect()
}
