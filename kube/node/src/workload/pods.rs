//! What owners of pods have in common: claiming, counting, making and removing them.

use super::{Again, Error, Workloads};
use crate::{events::EventType, schedule::holds, times};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use kube::{
    Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub type Labels = BTreeMap<String, String>;

/// The most pods that one pass makes, and that are made or removed side by side: upstream's `BurstReplicas` and
/// `MaxPodCreateDeletePerSync`. All pods of `replicas: 2147483647` at once would not fit into the memory, and nobody
/// else would have a turn before the last of them.
pub const AT_ONCE_MAX: usize = 500;

/// How many of the missing pods a pass makes. When some are left, the next look is wanted at once,
/// but comes after those that wait already.
pub fn portion(missing: i32) -> (usize, Again) {
    let missing = usize::try_from(missing).unwrap_or_default();
    let left = missing > AT_ONCE_MAX;
    (missing.min(AT_ONCE_MAX), left.then_some(Duration::ZERO))
}

/// The earlier of two looks.
pub fn sooner(one: Again, other: Again) -> Again {
    one.into_iter().chain(other).min()
}

/// The owner that manages an object.
pub fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|it| it.controller == Some(true))
}

/// The reference that a managed object has to its owner.
pub fn owned_by<K>(owner: &K) -> OwnerReference
where
    K: Resource,
    K::DynamicType: Default,
{
    let kind = K::DynamicType::default();
    OwnerReference {
        api_version: K::api_version(&kind).into_owned(),
        kind: K::kind(&kind).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether labels are selected for an owner. A selector that says nothing selects nothing here:
/// an owner of everything is a mistake.
pub fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    let says_nothing = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty) && expressions.is_empty();
    !says_nothing && selects(selector, labels)
}

/// Whether labels are selected. A selector that says nothing selects everything.
pub fn selects(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let empty = Labels::new();
    let labels = labels.unwrap_or(&empty);
    let equal = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    equal.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.iter().all(|it| {
            let values = it.values.as_deref().unwrap_or_default();
            holds(&it.operator, values, labels.get(&it.key).map(String::as_str))
        })
}

/// A pod as its template wants it.
pub fn from_template(template: &PodTemplateSpec, owner: OwnerReference, namespace: Option<&str>) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            // The server cuts it where a random end must fit.
            generate_name: Some(format!("{}-", owner.name)),
            namespace: namespace.map(str::to_owned),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Where a pod is in its life.
pub fn phase(pod: &Pod) -> &str {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    phase.unwrap_or("Pending")
}

/// Whether a pod counts: it has not ended and is not on its way out.
pub fn is_active(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && pod.metadata.deletion_timestamp.is_none()
}

/// Since when a pod is ready, if it is.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|it| it.type_ == "Ready" && it.status == "True")?;
    ready.last_transition_time.as_ref().map(|it| it.0)
}

/// How pods stand, and when that changes by the mere passing of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: i32,
    pub ready: i32,
    pub available: i32,
    pub next: Option<Duration>,
}

/// Counts pods; one is available when it has been ready for so long.
pub fn count<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>, min_ready_seconds: i32, now: Timestamp) -> Counts {
    let mut counts = Counts::default();
    for pod in pods {
        counts.all += 1;
        let Some(since) = ready_since(pod) else { continue };
        counts.ready += 1;
        let left = times::until(now, times::after(since, times::of_seconds(min_ready_seconds.into())));
        if min_ready_seconds == 0 || left.is_zero() {
            counts.available += 1;
        } else {
            counts.next = Some(counts.next.map_or(left, |it| it.min(left)));
        }
    }
    counts
}

/// Those that are missed least come first: without a node, not running, not ready, young.
pub fn by_worth(pods: &mut [Arc<Pod>]) {
    pods.sort_by_key(|pod| {
        let assigned = pod.spec.as_ref().is_some_and(|it| it.node_name.is_some());
        let phase = match phase(pod) {
            "Pending" => 0,
            "Running" => 2,
            _ => 1,
        };
        let ready = ready_since(pod);
        let age = pod
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|it| std::cmp::Reverse(it.0));
        (assigned, phase, ready.is_some(), ready.map(std::cmp::Reverse), age)
    });
}

impl Workloads {
    /// The pods of an owner. Orphans that it selects are adopted, its own that it does not select any more are let go.
    pub(super) async fn claim<K>(&self, owner: &K, selector: &LabelSelector) -> Result<Vec<Arc<Pod>>, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let meta = owner.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let leaving = meta.deletion_timestamp.is_some();
        let mut claimed = Vec::new();
        for pod in self.pods.list_in(namespace) {
            let selected = matches(selector, pod.metadata.labels.as_ref());
            let ours = match controller(&pod.metadata) {
                Some(it) if Some(&it.uid) == meta.uid.as_ref() => true,
                Some(_) => continue,
                None => false,
            };
            let mut owners = pod.metadata.owner_references.clone().unwrap_or_default();
            match (ours, selected) {
                (true, true) => {
                    claimed.push(pod);
                    continue;
                }
                (false, true) if !leaving && is_active(&pod) => owners.push(owned_by(owner)),
                (true, false) if !leaving => owners.retain(|it| Some(&it.uid) != meta.uid.as_ref()),
                _ => continue,
            }
            let name = pod.metadata.name.clone().unwrap_or_default();
            let patch = json!({"metadata": {"uid": pod.metadata.uid, "ownerReferences": owners}});
            let api = self.api::<Pod>(Some(namespace));
            match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(changed) => {
                    self.pods.put(changed.clone());
                    if selected {
                        claimed.push(Arc::new(changed));
                    }
                }
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(claimed)
    }

    /// Makes pods side by side, so that they share a commit. All are tried; the first refusal is the answer.
    pub(super) async fn create_pods<K>(
        &self,
        owner: &K,
        component: &'static str,
        pods: Vec<Pod>,
    ) -> Result<Vec<Pod>, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let api = self.api::<Pod>(owner.meta().namespace.as_deref());
        let params = PostParams::default();
        let writes = pods.iter().map(|it| api.create(&params, it));
        let mut made = Vec::new();
        let mut refused = None;
        for result in join_all(writes).await {
            match result {
                Ok(pod) => {
                    let name = pod.metadata.name.as_deref().unwrap_or_default();
                    self.tell(
                        owner,
                        component,
                        EventType::Normal,
                        "SuccessfulCreate",
                        format!("Created pod: {name}"),
                    );
                    self.pods.put(pod.clone());
                    made.push(pod);
                }
                Err(error) => {
                    let text = format!("Error creating: {}", said(&error));
                    self.tell(owner, component, EventType::Warning, "FailedCreate", text);
                    refused = refused.or(Some(error));
                }
            }
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(made),
        }
    }

    /// Removes pods, so many side by side. All are tried; the first refusal is the answer.
    pub(super) async fn delete_pods<K>(
        &self,
        owner: &K,
        component: &'static str,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let api = self.api::<Pod>(owner.meta().namespace.as_deref());
        let delete = |pod: &Arc<Pod>| {
            let pod = pod.clone();
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: pod.metadata.uid.clone(),
                    ..Preconditions::default()
                }),
                ..DeleteParams::background()
            };
            let api = &api;
            async move {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                match api.delete(name, &params).await {
                    Ok(answer) => {
                        self.tell(
                            owner,
                            component,
                            EventType::Normal,
                            "SuccessfulDelete",
                            format!("Deleted pod: {name}"),
                        );
                        // One that lingers shows its deletion at once; one that is gone is told by the watch.
                        answer
                            .left()
                            .filter(|it| it.metadata.deletion_timestamp.is_some())
                            .into_iter()
                            .for_each(|it| self.pods.put(it));
                        Ok(())
                    }
                    Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        };
        let mut outcome = Ok(());
        for some in pods.chunks(AT_ONCE_MAX) {
            let ends: Result<(), Error> = join_all(some.iter().map(delete)).await.into_iter().collect();
            outcome = outcome.and(ends);
        }
        outcome
    }
}

/// What the API server said.
pub fn said(error: &Error) -> String {
    match error {
        Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn pod(value: Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn an_empty_selector_selects_nothing() {
        let selector = |value: Value| serde_json::from_value::<LabelSelector>(value).unwrap();
        let labels = Labels::from([("app".to_owned(), "x".to_owned())]);
        let table = [
            (json!({}), false),
            (json!({"matchLabels": {"app": "x"}}), true),
            (json!({"matchLabels": {"app": "y"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                true,
            ),
            (
                json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}),
                false,
            ),
        ];
        for (value, want) in table {
            assert_eq!(matches(&selector(value.clone()), Some(&labels)), want, "{value}");
        }
    }

    #[test]
    fn a_pod_is_available_after_min_ready_seconds() {
        let ready = |at: &str| {
            pod(json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}]}}))
        };
        let pods = [
            ready("1970-01-01T00:00:00Z"),
            ready("1970-01-01T00:00:07Z"),
            pod(json!({})),
        ];
        let now = Timestamp::from_second(10).unwrap();
        let counts = count(&pods, 5, now);
        assert_eq!((counts.all, counts.ready, counts.available), (3, 2, 1));
        assert_eq!(counts.next, Some(Duration::from_secs(2)));
        assert_eq!(count(&pods, 0, now).available, 2);
        // A clock that is wrong may write the last day there is.
        let counts = count(&[ready("9999-12-30T21:59:59Z")], i32::MAX, now);
        assert_eq!((counts.ready, counts.available), (1, 0));
    }

    #[test]
    fn a_pass_creates_at_most_500_pods_and_requeues() {
        let table = [
            (i32::MIN, (0, None)),
            (0, (0, None)),
            (500, (500, None)),
            (501, (500, Some(Duration::ZERO))),
            (i32::MAX, (500, Some(Duration::ZERO))),
        ];
        for (missing, want) in table {
            assert_eq!(portion(missing), want, "{missing}");
        }
    }

    #[test]
    fn pods_that_are_missed_least_go_first() {
        let named = |name: &str, node: Option<&str>, phase: &str, created: &str| {
            pod(
                json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"containers": [], "nodeName": node},
                       "status": {"phase": phase}}),
            )
        };
        let mut pods = vec![
            named("old", Some("n"), "Running", "1970-01-01T00:00:00Z"),
            named("young", Some("n"), "Running", "1970-01-02T00:00:00Z"),
            named("pending", Some("n"), "Pending", "1970-01-01T00:00:00Z"),
            named("unassigned", None, "Pending", "1970-01-01T00:00:00Z"),
        ];
        by_worth(&mut pods);
        let names: Vec<_> = pods.iter().map(|it| it.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["unassigned", "pending", "young", "old"]);
    }
}
