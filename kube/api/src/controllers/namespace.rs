//! Empties a namespace that is being deleted, then lets it go.
//!
//! root: Namespace; reads: every object in it; writes: deletes them, the namespace's status and `spec.finalizers`;
//! never: a namespace that is not being deleted.

use super::{
    controller::{ServerController, all, seconds, tolerate},
    queue::{Key, Queue},
};
use crate::local::Local;
use jiff::Timestamp;
use kube_store::{
    Object,
    status::{Status, qualified},
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

const ID: &str = "namespaces";
const FINALIZER: &str = "kubernetes";
/// How long a namespace stays as it is after its deletion. `kubectl delete -f` of a manifest that names the namespace
/// first goes on to delete what is in it, and calls it an error when that is gone already. Kubernetes waits five
/// seconds, so that all its API servers know; here there is one.
const CALM: Duration = Duration::from_millis(500);

/// See the header of this file.
pub(super) struct Namespaces {
    local: Local,
    /// Namespaces being deleted, and since when: what happens in them is noticed.
    terminating: Mutex<BTreeMap<Box<str>, Instant>>,
}

/// What is left of one resource in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Remaining {
    /// Objects by `resource.group`, with a trailing dot for the core group.
    resources: BTreeMap<String, usize>,
    /// Objects by finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn count(&mut self, resource: &str, object: &Value) {
        let resource = if resource.contains('.') {
            resource.to_owned()
        } else {
            format!("{resource}.")
        };
        *self.resources.entry(resource).or_default() += 1;
        for finalizer in object["metadata"]["finalizers"].as_array().into_iter().flatten() {
            *self
                .finalizers
                .entry(finalizer.as_str().unwrap_or_default().to_owned())
                .or_default() += 1;
        }
    }
}

impl Namespaces {
    pub fn new(local: Local) -> Self {
        Self {
            local,
            terminating: Mutex::default(),
        }
    }

    /// All objects in the namespace, pods first as in Kubernetes: they may use what goes after them.
    fn content(&self, namespace: &str) -> Vec<Arc<Object>> {
        let mut resources = self.local.store().resources();
        resources.sort_by_key(|it| it.as_ref() != "pods");
        let lists = resources.iter().map(|it| self.local.store().list(it, namespace).0);
        // A cluster-scoped resource has nothing under a namespace.
        lists
            .flatten()
            .filter(|it| it.namespace.as_ref() == namespace)
            .collect()
    }

    async fn empty(&self, namespace: &str) -> Result<(), Status> {
        let live = self.content(namespace).into_iter().filter(|it| !it.terminating);
        let writes = live.map(|it| async move {
            tolerate(
                self.local
                    .delete(&it.resource, namespace, &it.name, Some(&it.uid), Some("Background"))
                    .await,
            )
        });
        all(writes.collect()).await
    }
}

#[async_trait::async_trait]
impl ServerController for Namespaces {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn parallel(&self) -> usize {
        4
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        if object.resource.as_ref() == ID {
            if event.change == Change::Deleted {
                self.terminating.lock().remove(&object.name);
            } else if object.terminating {
                self.terminating
                    .lock()
                    .entry(object.name.clone())
                    .or_insert_with(Instant::now);
                queue.add(Key::of(object));
            }
        } else if !object.namespace.is_empty() && self.terminating.lock().contains_key(&object.namespace) {
            queue.add(Key::cluster(ID, &object.namespace));
        }
    }

    fn survey(&self, queue: &Queue) {
        for object in self.local.store().list(ID, "").0.iter().filter(|it| it.terminating) {
            self.terminating
                .lock()
                .entry(object.name.clone())
                .or_insert_with(Instant::now);
            queue.add(Key::of(object));
        }
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self.local.store().get(ID, "", &key.name).filter(|it| it.terminating) else {
            return Ok(None);
        };
        let name = key.name.as_ref();
        let since = self.terminating.lock().get(name).copied();
        if let Some(calm) = since
            .and_then(|it| CALM.checked_sub(it.elapsed()))
            .filter(|it| !it.is_zero())
        {
            return Ok(Some(calm));
        }
        let mut namespace = object.value();
        if holds(&namespace) {
            let emptied = self.empty(name).await;
            let mut remaining = Remaining::default();
            for object in self.content(name) {
                let (plural, group) = object.resource.split_once('.').unwrap_or((&object.resource, ""));
                remaining.count(&qualified(plural, group), &object.value());
            }
            let failure = emptied.as_ref().err().map(|it| it.message.as_str());
            let conditions = conditions(
                &namespace["status"]["conditions"],
                &remaining,
                failure,
                Timestamp::now(),
            );
            if namespace["status"]["conditions"] != conditions {
                let patch = json!({"status": {"conditions": conditions}});
                match self.local.merge_patch(ID, "", name, "status", patch).await {
                    Ok(patched) => namespace = patched,
                    Err(error) if error.is_not_found() => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            emptied?;
            if !remaining.is_empty() {
                return Ok(None); // the events of what remains bring us back
            }
            namespace["spec"]["finalizers"] = finalizers_without_ours(&namespace);
            tolerate(self.local.update(ID, "", name, "finalize", namespace).await)?;
        }
        // Without finalizers the next delete removes it. It was asked for long ago: say it once more.
        let Some(object) = self.local.store().get(ID, "", name) else {
            return Ok(None);
        };
        let namespace = object.value();
        let has = |it: &Value| it.as_array().is_some_and(|it| !it.is_empty());
        if !has(&namespace["spec"]["finalizers"]) && !has(&namespace["metadata"]["finalizers"]) {
            tolerate(self.local.delete(ID, "", name, Some(&object.uid), None).await)?;
        }
        Ok(None)
    }
}

/// Whether the namespace still waits for this controller.
fn holds(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"]
        .as_array()
        .is_some_and(|it| it.iter().any(|it| it == FINALIZER))
}

fn finalizers_without_ours(namespace: &Value) -> Value {
    let all = namespace["spec"]["finalizers"].as_array().into_iter().flatten();
    all.filter(|it| *it != FINALIZER).cloned().collect()
}

/// The conditions of a namespace that is being deleted, given what is left in it. Conditions of others stay; a time
/// changes only with its status.
fn conditions(before: &Value, remaining: &Remaining, failure: Option<&str>, now: Timestamp) -> Value {
    let list = |counts: &BTreeMap<String, usize>, text: fn(&str, usize) -> String| {
        let texts: Vec<_> = counts.iter().map(|(name, count)| text(name, *count)).collect();
        texts.join(", ")
    };
    let content = match remaining.is_empty() {
        true => ("False", "ContentRemoved", "All content successfully removed".to_owned()),
        false => {
            let list = list(&remaining.resources, |name, count| {
                format!("{name} has {count} resource instances")
            });
            (
                "True",
                "SomeResourcesRemain",
                format!("Some resources are remaining: {list}"),
            )
        }
    };
    let finalizers = match remaining.finalizers.is_empty() {
        true => (
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        ),
        false => {
            let list = list(&remaining.finalizers, |name, count| {
                format!("{name} in {count} resource instances")
            });
            (
                "True",
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {list}"),
            )
        }
    };
    let deletion = match failure {
        None => (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        Some(text) => (
            "True",
            "ContentDeletionFailed",
            format!("Failed to delete all resource types, 1 remaining: {text}"),
        ),
    };
    let wanted = [
        (
            "NamespaceDeletionDiscoveryFailure",
            (
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered".to_owned(),
            ),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            (
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".to_owned(),
            ),
        ),
        ("NamespaceDeletionContentFailure", deletion),
        ("NamespaceContentRemaining", content),
        ("NamespaceFinalizersRemaining", finalizers),
    ];
    let mut conditions = before.as_array().cloned().unwrap_or_default();
    for (kind, (status, reason, message)) in wanted {
        let at = conditions.iter().position(|it| it["type"] == kind);
        let since = at
            .filter(|at| conditions[*at]["status"] == status)
            .map(|at| conditions[at]["lastTransitionTime"].clone());
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since.unwrap_or_else(|| seconds(now).into()),
        });
        match at {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
    Value::Array(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_conditions_count_what_remains_and_who_holds_it() {
        let mut remaining = Remaining::default();
        let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
        remaining.count("configmaps", &json!({}));
        remaining.count("widgets.ex.io", &held);
        remaining.count("widgets.ex.io", &held);
        let conditions = conditions(&Value::Null, &remaining, None, at(0));
        let texts: Vec<_> = conditions
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["message"].as_str().unwrap())
            .collect();
        assert_eq!(
            texts[3],
            "Some resources are remaining: configmaps. has 1 resource instances, widgets.ex.io has 2 resource instances"
        );
        assert_eq!(
            texts[4],
            "Some content in the namespace has finalizers remaining: a.b/c in 2 resource instances"
        );
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut remaining = Remaining::default();
        remaining.count("configmaps", &json!({}));
        let first = conditions(&Value::Null, &remaining, None, at(0));
        let again = conditions(&first, &remaining, None, at(100));
        assert_eq!(first, again);
        let done = conditions(&first, &Remaining::default(), None, at(100));
        assert_eq!(done[3]["reason"], "ContentRemoved");
        assert_eq!(done[3]["lastTransitionTime"], "1970-01-01T00:01:40Z");
        assert_eq!(done[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn only_our_finalizer_is_taken() {
        let namespace = json!({"spec": {"finalizers": ["kubernetes", "other"]}});
        assert!(holds(&namespace));
        assert_eq!(finalizers_without_ours(&namespace), json!(["other"]));
    }
}
