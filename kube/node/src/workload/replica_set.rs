//! ReplicaSets: as many pods as wanted, of one template.
//!
//! root: ReplicaSet; reads: its pods; writes: pods, its status; never: another owner's pods.

use super::{Again, Error, WorkloadKey, WorkloadKind, Workloads, pods};
use crate::times;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::v1::Pod,
};
use std::{sync::Arc, time::Duration};

const COMPONENT: &str = "replicaset-controller";
/// After a refusal (a quota, a webhook, a missing account) nothing tells us that it would be granted now.
const REFUSED_RETRY: Duration = Duration::from_secs(5);

impl Workloads {
    pub(super) async fn replica_set(&self, set: &Arc<ReplicaSet>) -> Result<Again, Error> {
        let spec = &set.spec;
        let claimed = self.claim(&**set, &spec.selector).await?;
        let mut active: Vec<Arc<Pod>> = claimed.into_iter().filter(|it| pods::is_active(it)).collect();
        let wanted = spec.replicas.unwrap_or(1);
        let missing = wanted.max(0) - i32::try_from(active.len()).unwrap_or(i32::MAX);
        let (mut failure, mut again) = (None, None);
        if set.metadata.deletion_timestamp.is_none() {
            if missing > 0 {
                let (count, rest) = pods::portion(missing);
                match self.grow(set, count, &mut active).await {
                    Ok(()) => again = rest,
                    Err(error) => failure = Some(("FailedCreate", error)),
                }
            } else if missing < 0 {
                pods::by_worth(&mut active);
                let extra: Vec<_> = active.drain(..missing.unsigned_abs() as usize).collect();
                let deleted = self.delete_pods(&**set, COMPONENT, &extra).await;
                failure = deleted.err().map(|it| ("FailedDelete", it));
            }
        }
        let now = Timestamp::now();
        let counts = pods::count(&active, spec.min_ready_seconds.unwrap_or_default(), now);
        let labels = spec
            .template
            .as_ref()
            .and_then(|it| it.metadata.as_ref()?.labels.clone())
            .unwrap_or_default();
        let labelled = active.iter().filter(|pod| {
            let own = pod.metadata.labels.as_ref();
            labels
                .iter()
                .all(|(key, value)| own.and_then(|it| it.get(key)) == Some(value))
        });
        let status = ReplicaSetStatus {
            replicas: counts.all,
            fully_labeled_replicas: Some(i32::try_from(labelled.count()).unwrap_or(i32::MAX)),
            ready_replicas: Some(counts.ready),
            available_replicas: Some(counts.available),
            observed_generation: set.metadata.generation,
            conditions: conditions(set, failure.as_ref(), now),
            terminating_replicas: None,
        };
        let status = without_zeros(status);
        self.write_status(&self.replica_sets, &**set, set.status.as_ref(), &status)
            .await?;
        if wanted == 0 {
            self.wake_deployment(set);
        }
        let retry = failure.map(|_| REFUSED_RETRY);
        Ok(pods::sooner(pods::sooner(counts.next, retry), again))
    }

    /// A Deployment with the strategy Recreate waits for the end of the last pod, which the status does not count while
    /// it ends.
    fn wake_deployment(&self, set: &ReplicaSet) {
        if let Some(owner) = pods::controller(&set.metadata).filter(|it| it.kind == "Deployment") {
            let namespace = set.metadata.namespace.clone().unwrap_or_default();
            let key = WorkloadKey::Object(WorkloadKind::Deployment, namespace, owner.name.clone());
            self.queue.add(key);
        }
    }

    async fn grow(&self, set: &Arc<ReplicaSet>, count: usize, active: &mut Vec<Arc<Pod>>) -> Result<(), Error> {
        let template = set.spec.template.clone().unwrap_or_default();
        let namespace = set.metadata.namespace.as_deref();
        let pod = pods::from_template(&template, pods::owned_by(&**set), namespace);
        let wanted = vec![pod; count];
        let made = self.create_pods(&**set, COMPONENT, wanted).await?;
        active.extend(made.into_iter().map(Arc::new));
        Ok(())
    }
}

/// Go leaves a zero out.
fn without_zeros(mut status: ReplicaSetStatus) -> ReplicaSetStatus {
    for it in [
        &mut status.fully_labeled_replicas,
        &mut status.ready_replicas,
        &mut status.available_replicas,
    ] {
        *it = it.filter(|it| *it != 0);
    }
    status
}

fn conditions(set: &ReplicaSet, failure: Option<&(&str, Error)>, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    let before = set
        .status
        .as_ref()
        .and_then(|it| it.conditions.clone())
        .unwrap_or_default();
    let (ours, mut list): (Vec<_>, Vec<_>) = before
        .into_iter()
        .partition(|it| it.type_.as_deref() == Some("ReplicaFailure"));
    if let Some((reason, error)) = failure {
        let since = ours.first().and_then(|it| it.last_transition_time.clone());
        list.push(ReplicaSetCondition {
            type_: Some("ReplicaFailure".into()),
            status: Some("True".into()),
            reason: Some((*reason).to_owned()),
            message: Some(pods::said(error)),
            last_transition_time: since.or_else(|| Some(times::seconds(now))),
        });
    }
    (!list.is_empty()).then_some(list)
}
