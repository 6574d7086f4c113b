//! Removes works that are complete and asked to be removed some time after.
//! Reads: works. Writes: nothing but their deletion. Never: works of a ManifestWorkReplicaSet, which would make them
//! anew.
//! Upstream: ocm pkg/work/hub/controllers/manifestworkgarbagecollection, gate `CleanUpCompletedManifestWork`.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_api::{condition, conditions::manifest_work::COMPLETE, labels, work::ManifestWork};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches,
    cache::{key_of, split_key},
    rbac::Right,
};

/// The reconciler.
pub struct CompletedWorks {
    works: Cache<ManifestWork>,
}

impl CompletedWorks {
    /// Over the caches of the process.
    pub fn new(caches: &Caches) -> Self {
        Self { works: caches.of() }
    }
}

/// A work and the time.
pub struct Seen {
    pub now: Timestamp,
    pub work: Option<Arc<ManifestWork>>,
}

/// Whether the work could ever be removed by this controller.
pub fn concerns(work: &ManifestWork) -> bool {
    let of_a_set = work
        .metadata
        .labels
        .iter()
        .flatten()
        .any(|(key, _)| key == labels::MANIFEST_WORK_REPLICA_SET);
    let ttl = work
        .spec
        .delete_option
        .as_ref()
        .and_then(|it| it.ttl_seconds_after_finished);
    work.metadata.deletion_timestamp.is_none() && !of_a_set && ttl.is_some()
}

#[ocm_reconcile::async_trait]
impl Reconciler for CompletedWorks {
    const NAME: &'static str = "completed-works";
    const WORKERS: usize = 5;
    const RIGHTS: &'static [Right] = &[Right::new(
        ManifestWork::GROUP,
        "manifestworks",
        "delete",
        "Works whose time is over.",
    )];

    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.works, |_, new| new.filter(|it| concerns(it)).map(key_of));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            work: self.works.get(namespace, name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(work) = seen.work.as_deref().filter(|it| concerns(it)) else {
            return plan;
        };
        let seconds = work
            .spec
            .delete_option
            .as_ref()
            .and_then(|it| it.ttl_seconds_after_finished)
            .unwrap_or_default();
        let conditions = work
            .status
            .as_ref()
            .map(|it| it.conditions.as_slice())
            .unwrap_or_default();
        let Some(complete) = condition::find(conditions, COMPLETE).filter(|it| it.status == "True") else {
            plan.wait("the work is not complete");
            return plan;
        };
        let kept_for = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let age = seen.now.duration_since(complete.last_transition_time.0);
        match kept_for
            .checked_sub(Duration::try_from(age).unwrap_or_default())
            .filter(|it| !it.is_zero())
        {
            Some(remainder) => {
                plan.wait(format!(
                    "the work is complete and is removed in {}s",
                    remainder.as_secs()
                ));
                plan.look_again(remainder);
            }
            None => {
                plan.delete(Site::Hub, work);
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn show(ttl: Value, complete: bool, hour: u8, labels: Value) -> String {
        let status = if complete { "True" } else { "False" };
        let work: ManifestWork = serde_json::from_value(json!({
            "metadata": {"name": "job", "namespace": "cluster1", "uid": "1", "labels": labels},
            "spec": {"deleteOption": {"ttlSecondsAfterFinished": ttl}},
            "status": {"conditions": [{
                "type": "Complete", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T12:00:00Z"
            }]}
        }))
        .unwrap();
        let now = format!("2026-01-01T{hour:02}:00:00Z").parse().unwrap();
        CompletedWorks::plan(&Seen {
            now,
            work: Some(Arc::new(work)),
        })
        .to_string()
    }

    #[test]
    fn a_complete_work_goes_when_its_time_is_over() {
        let delete = "hub: delete ManifestWork cluster1/job\n";
        assert_eq!(show(json!(3600), true, 13, json!({})), delete);
        assert_eq!(show(json!(0), true, 12, json!({})), delete);
        assert_eq!(show(json!(-5), true, 12, json!({})), delete);
        assert_eq!(
            show(json!(7200), true, 13, json!({})),
            "nothing to do\nwaits: the work is complete and is removed in 3600s\nagain in 3600s\n"
        );
        assert_eq!(
            show(json!(0), false, 13, json!({})),
            "nothing to do\nwaits: the work is not complete\n"
        );
    }

    #[test]
    fn a_work_without_a_ttl_stays() {
        assert_eq!(show(Value::Null, true, 13, json!({})), "nothing to do\n");
        let of_a_set = json!({"work.open-cluster-management.io/manifestworkreplicaset": "ns.name"});
        assert_eq!(show(json!(0), true, 13, of_a_set), "nothing to do\n");
    }
}
