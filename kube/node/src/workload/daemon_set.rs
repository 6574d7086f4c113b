//! DaemonSets: a pod on every node that wants one.
//!
//! root: DaemonSet; reads: nodes, its pods; writes: pods, its status; never: another owner's pods. Upstream keeps its
//! templates as ControllerRevisions, to go back to one; here the label `controller-revision-hash` tells them apart.

use super::{Again, Error, Workloads, deployment::hash, pods, rollout};
use crate::schedule;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetStatus},
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const COMPONENT: &str = "daemonset-controller";
const REVISION: &str = "controller-revision-hash";
const REFUSED_RETRY: Duration = Duration::from_secs(5);

/// Taints that a daemon's pod does not mind.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// A pod of the set for one node, which the scheduler gives to no other one.
fn pod_for(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let mut pod = pods::from_template(
        &set.spec.template,
        pods::owned_by(set),
        set.metadata.namespace.as_deref(),
    );
    pod.metadata
        .labels
        .get_or_insert_default()
        .insert(REVISION.into(), hash.into());
    let spec = pod.spec.get_or_insert_default();
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        tolerations.extend(serde_json::from_value(toleration).ok());
    }
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let affinity = spec
        .affinity
        .get_or_insert_default()
        .node_affinity
        .get_or_insert_default();
    let required = &mut affinity.required_during_scheduling_ignored_during_execution;
    let terms = &mut required.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(Default::default());
    }
    for term in terms {
        term.match_fields = serde_json::from_value(json!([field])).ok();
    }
    pod
}

fn node_of(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let bound = spec.node_name.clone().filter(|it| !it.is_empty());
    bound.or_else(|| {
        let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        let field = required.node_selector_terms.first()?.match_fields.as_ref()?.first()?;
        field.values.as_ref()?.first().cloned()
    })
}

fn revision(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    labels.and_then(|it| it.get(REVISION)).map_or("", String::as_str)
}

impl Workloads {
    pub(super) async fn daemon_set(&self, set: &Arc<DaemonSet>) -> Result<Again, Error> {
        let spec = &set.spec;
        let now = Timestamp::now();
        let hash = hash(&spec.template, 0);
        let claimed = self.claim(&**set, &spec.selector).await?;
        let mut active: Vec<Arc<Pod>> = claimed.into_iter().filter(|it| pods::is_active(it)).collect();
        let name = |it: &Arc<Node>| it.metadata.name.clone().unwrap_or_default();
        let nodes = self.nodes.list();
        let wanting: Vec<String> = nodes
            .iter()
            .filter(|it| schedule::fits(&pod_for(set, &name(it), &hash), it).is_ok())
            .map(name)
            .collect();
        let mut refused = None;
        if set.metadata.deletion_timestamp.is_none() {
            let has = |node: &String| active.iter().any(|it| node_of(it).as_ref() == Some(node));
            let missing = wanting
                .iter()
                .filter(|it| !has(it))
                .map(|it| pod_for(set, it, &hash))
                .collect();
            match self.create_pods(&**set, COMPONENT, missing).await {
                Ok(made) => active.extend(made.into_iter().map(Arc::new)),
                Err(error) => refused = Some(error),
            }
            let extra = self.extra(set, &wanting, &mut active, &hash, now);
            self.delete_pods(&**set, COMPONENT, &extra).await?;
            active.retain(|it| !extra.iter().any(|gone| gone.metadata.uid == it.metadata.uid));
        }
        let on_wanting = |it: &&Arc<Pod>| node_of(it).is_some_and(|it| wanting.contains(&it));
        let counts = pods::count(
            active.iter().filter(on_wanting),
            spec.min_ready_seconds.unwrap_or_default(),
            now,
        );
        let number = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
        let desired = number(wanting.len());
        let updated = number(
            active
                .iter()
                .filter(on_wanting)
                .filter(|it| revision(it) == hash)
                .count(),
        );
        let nonzero = |it: i32| (it != 0).then_some(it);
        let status = DaemonSetStatus {
            current_number_scheduled: counts.all.min(desired),
            desired_number_scheduled: desired,
            number_misscheduled: number(active.iter().filter(|it| !on_wanting(it)).count()),
            number_ready: counts.ready,
            number_available: nonzero(counts.available),
            number_unavailable: nonzero(desired - counts.available),
            updated_number_scheduled: nonzero(updated),
            observed_generation: set.metadata.generation,
            ..set.status.clone().unwrap_or_default()
        };
        self.write_status(&self.daemon_sets, &**set, set.status.as_ref(), &status)
            .await?;
        Ok(counts.next.or(refused.map(|_| REFUSED_RETRY)))
    }

    /// Pods that have to go: where none is wanted, twice on a node, and old ones as far as the update allows.
    fn extra(
        &self,
        set: &DaemonSet,
        wanting: &[String],
        active: &mut [Arc<Pod>],
        hash: &str,
        now: Timestamp,
    ) -> Vec<Arc<Pod>> {
        pods::by_worth(active);
        let mut extra = Vec::new();
        let mut kept: Vec<(String, Arc<Pod>)> = Vec::new();
        for pod in active.iter().rev() {
            match node_of(pod) {
                Some(node) if wanting.contains(&node) && !kept.iter().any(|(it, _)| *it == node) => {
                    kept.push((node, pod.clone()))
                }
                _ => extra.push(pod.clone()),
            }
        }
        let strategy = set.spec.update_strategy.as_ref();
        if strategy.and_then(|it| it.type_.as_deref()) == Some("OnDelete") {
            return extra;
        }
        let one = IntOrString::Int(1);
        let allowed = strategy.and_then(|it| it.rolling_update.as_ref()?.max_unavailable.as_ref());
        let desired = i32::try_from(wanting.len()).unwrap_or(i32::MAX);
        let allowed = rollout::amount(allowed.unwrap_or(&one), desired, true).max(1);
        let min_ready = set.spec.min_ready_seconds.unwrap_or_default();
        let available = pods::count(kept.iter().map(|(_, it)| it), min_ready, now).available;
        let mut may_go = allowed - (desired - available);
        for (_, pod) in kept.iter().filter(|(_, it)| revision(it) != hash) {
            // One that is not available is missed by nobody.
            if pods::ready_since(pod).is_none() {
                extra.push(pod.clone());
            } else if may_go > 0 {
                may_go -= 1;
                extra.push(pod.clone());
            }
        }
        extra
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_for_one_node_only() {
        let set: DaemonSet = serde_json::from_value(json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [], "nodeSelector": {"zone": "a"}}}},
        }))
        .unwrap();
        let pod = pod_for(&set, "one", "h");
        assert_eq!(node_of(&pod).as_deref(), Some("one"));
        let node = |name: &str, zone: &str| {
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": {"zone": zone}}, "spec": {"unschedulable": true}}),
            )
            .unwrap()
        };
        assert_eq!(schedule::fits(&pod, &node("one", "a")), Ok(()));
        assert!(schedule::fits(&pod, &node("two", "a")).is_err());
        assert!(schedule::fits(&pod, &node("one", "b")).is_err());
    }
}
