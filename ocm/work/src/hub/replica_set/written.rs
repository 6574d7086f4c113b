//! What was written for a ManifestWorkReplicaSet is seen at once, without waiting for the watches.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::DynamicObject;
use ocm_api::work::ManifestWork;
use ocm_reconcile::{Done, Outcome, Step};
use serde::de::DeserializeOwned;

use super::{
    desired_state::Seen, fingerprint::Fingerprint, names, revision, rollout_status::RolloutStatus,
    works::ReplicaSetWorks,
};

impl ReplicaSetWorks {
    pub(super) fn see_what_is_written(&self, seen: &Seen, outcome: &Outcome) {
        let Some(set) = seen.set.as_deref() else {
            self.statuses.forget(&seen.key);
            return;
        };
        if seen.revisions.is_none() {
            revision::tell_that_none_are_kept();
        }
        self.statuses
            .forget_met(&seen.key, |cluster, name| self.works.get(cluster, name));
        let status = outcome.worked_out::<RolloutStatus>();
        for (step, answer) in outcome.results() {
            let Some(target) = step.target() else { continue };
            match (target.api_resource.kind.as_str(), answer) {
                (ManifestWork::KIND, Ok(Done::Object(object))) => {
                    let Some(work) = parsed::<ManifestWork>(object) else {
                        continue;
                    };
                    let answered = Fingerprint::of(&work.spec);
                    if let Some(wanted) = status.map(|it| it.spec).filter(|it| *it != answered)
                        && is_final(step, answered, seen)
                    {
                        self.by_set.answered(&names::label_value(set), wanted, answered);
                    }
                    self.works.put(work);
                }
                (ManifestWork::KIND, Ok(Done::AlreadyExists)) => {
                    let cluster = target.namespace.as_deref().unwrap_or_default();
                    self.statuses.met(&seen.key, cluster, &target.name);
                }
                ("ControllerRevision", Ok(Done::Object(object))) => {
                    if let Some(revision) = parsed::<ControllerRevision>(object) {
                        self.revisions.put(revision);
                    }
                }
                _ => {}
            }
        }
        match status {
            Some(status) => {
                let failed = seen.earlier.failure_with(outcome);
                self.statuses.put(
                    &seen.key,
                    RolloutStatus {
                        failed,
                        ..status.clone()
                    },
                );
            }
            None => self.statuses.forget(&seen.key),
        }
    }
}

fn parsed<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

/// Whether a server that answered something else than it was given would answer the same again: what was made new says
/// so at once; what was changed, when the change changed nothing, for otherwise somebody else may have been at it.
fn is_final(step: &Step, answered: Fingerprint, seen: &Seen) -> bool {
    match step {
        Step::Create { .. } => true,
        Step::MergePatch { target, patch, .. } if patch.get("spec").is_some() => {
            let cluster = target.namespace.as_deref().unwrap_or_default();
            let mut members = seen.members.iter();
            let before = members.find(|it| it.cluster() == cluster && it.name() == target.name);
            before.is_some_and(|it| it.spec == answered)
        }
        _ => false,
    }
}
