//! Gives pods that fit to this node.

use crate::{
    events::{self, EventType, Recorder},
    times,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Binding, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodCondition, Taint, Toleration,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kube_primitives::{cache::Cache, queue};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Namespace and name of a pod; empty for all that wait.
pub type PodKey = (String, String);
pub type SchedulingQueue = queue::Queue<PodKey>;

/// How long a pod that could not be bound waits at most until it is tried again: all that its user does waits with it.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// An empty queue.
pub fn queue() -> SchedulingQueue {
    queue::Queue::retrying_within(RETRY_MAX)
}

/// What kube-scheduler says of a node that has as many pods as it takes.
const FULL: &str = "Too many pods";

/// The key that stands for every pod that waits.
pub fn everything() -> PodKey {
    PodKey::default()
}

/// What scheduling needs.
pub struct Scheduler {
    pub client: Client,
    pub name: String,
    pub pods: Cache<Pod>,
    pub nodes: Cache<Node>,
    pub queue: SchedulingQueue,
    pub recorder: Recorder,
    pub cancel: CancellationToken,
}

/// Takes pods until the end.
pub async fn run(it: Scheduler) {
    let work = async {
        it.pods.synced().await;
        it.nodes.synced().await;
        // Pods that were given to this node, as long as the cache does not show it.
        let mut given = HashSet::new();
        loop {
            let key = it.queue.next().await;
            if key == everything() {
                it.look_again(&mut given);
                it.queue.done(&key, None);
                continue;
            }
            let considered = match it.pods.get(&key.0, &key.1).filter(|it| waits(it)) {
                Some(pod) => it.consider(&pod, &mut given).await,
                None => Ok(()),
            };
            match considered {
                Ok(()) => it.queue.done(&key, None),
                // Gone, or bound by another.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => it.queue.done(&key, None),
                Err(error) => {
                    let delay = it.queue.failed(&key);
                    tracing::debug!(pod = %key.1, %error, ?delay, "could not schedule a pod, will retry");
                }
            }
        }
    };
    tokio::select! {
        () = it.cancel.cancelled() => {}
        () = work => {}
    }
}

fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let scheduler = spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
    spec.node_name.as_ref().is_none_or(String::is_empty)
        && scheduler == "default-scheduler"
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
        && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a pod takes one of a node's places.
pub fn takes_room(pod: &Pod, node: &str) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let place = pod.spec.as_ref().and_then(|it| it.node_name.as_deref());
    place == Some(node) && !matches!(phase, Some("Succeeded" | "Failed"))
}

impl Scheduler {
    /// Queues all that wait; of those that found no place, the oldest and only as many as there are places, because
    /// there may be thousands of them each time that one becomes free.
    fn look_again(&self, given: &mut HashSet<PodKey>) {
        let mut room = self.nodes.get("", &self.name).map_or(0, |it| self.room(&it, given));
        let mut waiting = self.pods.list();
        waiting.retain(|it| waits(it));
        waiting.sort_by_key(|it| it.metadata.creation_timestamp.as_ref().map(|it| it.0));
        for pod in waiting {
            let said = condition(&pod).and_then(|it| it.message.as_deref());
            if said.is_some_and(|it| it.contains(FULL)) {
                match room.checked_sub(1) {
                    Some(left) => room = left,
                    None => continue,
                }
            }
            self.queue.add(key(&pod));
        }
    }

    /// How many more pods the node takes. One that does not say so takes any number.
    fn room(&self, node: &Node, given: &mut HashSet<PodKey>) -> usize {
        given.retain(|(namespace, name)| self.pods.get(namespace, name).is_some_and(|it| waits(&it)));
        let allocatable = node.status.as_ref().and_then(|it| it.allocatable.as_ref());
        let places = allocatable.and_then(|it| it.get("pods")?.0.parse::<usize>().ok());
        let pods = self.pods.list();
        let taken = pods.iter().filter(|it| takes_room(it, &self.name)).count();
        places.map_or(usize::MAX, |it| it.saturating_sub(taken + given.len()))
    }

    async fn consider(&self, pod: &Arc<Pod>, given: &mut HashSet<PodKey>) -> Result<(), kube::Error> {
        // Without a Node it is not known yet what fits; its registration brings us back.
        let Some(node) = self.nodes.get("", &self.name) else {
            return Ok(());
        };
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let fitting = match fits(pod, &node) {
            Ok(()) if self.room(&node, given) == 0 => Err(FULL),
            other => other,
        };
        let Err(misfit) = fitting else {
            let binding = Binding {
                metadata: kube::core::ObjectMeta {
                    name: Some(name.clone()),
                    namespace: Some(namespace.clone()),
                    uid: pod.metadata.uid.clone(),
                    ..Default::default()
                },
                target: events::reference(&*node),
            };
            let _: Value = api
                .create_subresource("binding", &name, &PostParams::default(), &binding)
                .await?;
            given.insert(key(pod));
            let text = format!("Successfully assigned {namespace}/{name} to {}", self.name);
            self.recorder.tell(
                events::reference(&**pod),
                "default-scheduler",
                EventType::Normal,
                "Scheduled",
                text,
            );
            return Ok(());
        };
        // Another node may fit; only the last word of a lonely one is written down.
        let others = self
            .nodes
            .list()
            .iter()
            .any(|it| it.metadata.name.as_deref() != Some(&self.name) && fits(pod, it).is_ok());
        if others {
            return Ok(());
        }
        let text = format!("0/1 nodes are available: 1 {misfit}.");
        let said = condition(pod).is_some_and(|it| it.status == "False" && it.message.as_deref() == Some(&text));
        if said {
            return Ok(());
        }
        let mut conditions: Vec<PodCondition> = pod
            .status
            .as_ref()
            .and_then(|it| it.conditions.clone())
            .unwrap_or_default();
        conditions.retain(|it| it.type_ != "PodScheduled");
        conditions.push(PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            reason: Some("Unschedulable".into()),
            message: Some(text.clone()),
            last_transition_time: Some(times::seconds(Timestamp::now())),
            ..PodCondition::default()
        });
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": conditions}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        self.recorder.tell(
            events::reference(&**pod),
            "default-scheduler",
            EventType::Warning,
            "FailedScheduling",
            text,
        );
        Ok(())
    }
}

/// The key of a pod.
pub fn key(pod: &Pod) -> PodKey {
    (
        pod.metadata.namespace.clone().unwrap_or_default(),
        pod.metadata.name.clone().unwrap_or_default(),
    )
}

fn condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == "PodScheduled")
}

/// Whether a pod may run on a node; the error is what kube-scheduler says.
///
/// # Errors
/// The first reason against it.
pub fn fits(pod: &Pod, node: &Node) -> Result<(), &'static str> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let node_spec = node.spec.as_ref();
    if node_spec.and_then(|it| it.unschedulable).unwrap_or_default() {
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        if !tolerations.iter().any(|it| tolerates(it, &taint)) {
            return Err("node(s) were unschedulable");
        }
    }
    let taints = node_spec.and_then(|it| it.taints.as_deref()).unwrap_or_default();
    let hard = taints.iter().filter(|it| it.effect != "PreferNoSchedule");
    if hard
        .into_iter()
        .any(|taint| !tolerations.iter().any(|it| tolerates(it, taint)))
    {
        return Err("node(s) had untolerated taint(s)");
    }
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let selected = spec
        .node_selector
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let wanted = required.is_none_or(|it| it.node_selector_terms.iter().any(|it| term_matches(it, &labels, name)));
    if !selected || !wanted {
        return Err("node(s) didn't match Pod's node affinity/selector");
    }
    Ok(())
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && ((key.is_empty() && exists) || key == taint.key)
        && (exists || text(&toleration.value) == text(&taint.value))
}

fn term_matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // A term without any requirement matches nothing.
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|it| wants(it, labels.get(&it.key).map(String::as_str)))
        && fields
            .iter()
            .all(|it| wants(it, (it.key == "metadata.name").then_some(name)))
}

fn wants(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    holds(&requirement.operator, values, value)
}

/// Whether a requirement of a selector, of pods or of nodes, holds of a label's value.
/// The API server lets selectors of pods have no numbers.
pub fn holds(operator: &str, values: &[String], value: Option<&str>) -> bool {
    let is_in = value.is_some_and(|value| values.iter().any(|it| it == value));
    let number = |it: &str| it.parse::<i64>().ok();
    let compared = || Some(number(value?)?.cmp(&number(values.first()?)?));
    match operator {
        "In" => is_in,
        "NotIn" => !is_in,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|it| it.is_gt()),
        "Lt" => compared().is_some_and(|it| it.is_lt()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(pod: Value, node: Value) -> Result<(), &'static str> {
        let pod = json!({"spec": pod});
        let node = json!({"metadata": {"name": "n", "labels": {"zone": "a", "size": "5"}}, "spec": node});
        fits(
            &serde_json::from_value(pod).unwrap(),
            &serde_json::from_value(node).unwrap(),
        )
    }

    fn affinity(term: Value) -> Value {
        json!({"containers": [], "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
    }

    #[test]
    fn a_pod_goes_where_its_selector_and_affinity_lead() {
        let misfit = Err("node(s) didn't match Pod's node affinity/selector");
        let term = |key: &str, operator: &str, values: &[&str]| {
            affinity(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        let table = [
            (json!({"containers": []}), Ok(())),
            (json!({"containers": [], "nodeSelector": {"zone": "a"}}), Ok(())),
            (json!({"containers": [], "nodeSelector": {"zone": "b"}}), misfit),
            (term("zone", "In", &["a", "b"]), Ok(())),
            (term("zone", "NotIn", &["a"]), misfit),
            (term("size", "Gt", &["4"]), Ok(())),
            (term("size", "Lt", &["4"]), misfit),
            (term("none", "DoesNotExist", &[]), Ok(())),
            (affinity(json!({})), misfit),
            (
                affinity(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})),
                Ok(()),
            ),
            (
                affinity(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]})),
                misfit,
            ),
        ];
        for (pod, want) in table {
            assert_eq!(judged(pod.clone(), json!({})), want, "{pod}");
        }
    }

    #[test]
    fn a_taint_wants_a_toleration() {
        let tainted = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
        let with = |it: Value| json!({"containers": [], "tolerations": [it]});
        let refused = Err("node(s) had untolerated taint(s)");
        let table = [
            (json!({"containers": []}), refused),
            (with(json!({"key": "k", "value": "v"})), Ok(())),
            (with(json!({"key": "k", "value": "w"})), refused),
            (
                with(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"})),
                refused,
            ),
            (with(json!({"operator": "Exists"})), Ok(())),
        ];
        for (pod, want) in table {
            assert_eq!(judged(pod.clone(), tainted.clone()), want, "{pod}");
        }
        let cordoned = json!({"unschedulable": true});
        assert_eq!(
            judged(json!({"containers": []}), cordoned.clone()),
            Err("node(s) were unschedulable")
        );
        assert_eq!(judged(with(json!({"operator": "Exists"})), cordoned), Ok(()));
    }
}
