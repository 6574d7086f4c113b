//! What was written is seen at once, without asking and without waiting for the watches.

use std::sync::atomic::Ordering;

use kube::{Api, api::DynamicObject};
use ocm_api::work::{AppliedManifestWork, ManifestWork};
use ocm_reconcile::{Done, Outcome, Site, Step, StepError, execute::sentence};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::{
    applying::WriteHashes,
    attempts::{is_gone, is_leaving},
    manifest::ObjectKey,
    manifest_works::ManifestWorks,
    records,
    seen::Seen,
    strategy::LastWrite,
};

impl ManifestWorks {
    /// Takes in what became of works and traces in the last stage.
    pub(super) fn see_works_and_traces(&self, outcome: &Outcome) {
        for (step, result) in outcome.results_of_last_stage() {
            let (Some(target), Ok(Done::Object(object))) = (step.target(), result) else {
                continue;
            };
            if is_gone(object) || records::is_object(target) {
                continue;
            }
            if target.site == Site::Hub {
                parsed::<ManifestWork>(object)
                    .into_iter()
                    .for_each(|it| self.works.put(it));
            } else if let Some(trace) = parsed::<AppliedManifestWork>(object) {
                self.learn_what_is_kept(step, &trace);
                self.traces.put(trace);
            }
        }
    }

    /// Reads traces that were to be made and are there, for which the watch is behind: they were made by an earlier run
    /// that did not live to see it.
    pub(super) async fn read_traces_of_before(&self, outcome: &Outcome) -> Result<(), kube::Error> {
        for (step, result) in outcome.results() {
            if let (Some(target), Ok(Done::AlreadyExists)) = (step.target(), result)
                && !records::is_object(target)
            {
                let traces = Api::<AppliedManifestWork>::all(self.cluster.clone());
                self.traces.put(traces.get(&target.name).await?);
            }
        }
        Ok(())
    }

    fn learn_what_is_kept(&self, step: &Step, trace: &AppliedManifestWork) {
        let sent = match step {
            Step::Create { object, .. } => object,
            Step::MergePatch { patch, .. } => patch,
            _ => return,
        };
        if sent["spec"]["agentID"].as_str().is_none_or(str::is_empty) {
            return;
        }
        let kept = !trace.spec.agent_id.is_empty();
        if self.keeps_agent_id.swap(kept, Ordering::Relaxed) && !kept {
            warn!(
                "the CRD of AppliedManifestWorks is of an old release without spec.agentID: whose they are is told by the hub's \
                 address alone"
            );
        }
    }

    /// Takes in what became of the objects of a work in the last stage.
    pub(super) fn see_objects(&self, seen: &Seen, outcome: &Outcome) {
        let hashes = outcome.worked_out::<WriteHashes>();
        for (step, result) in outcome.results_of_last_stage() {
            let Some(key) = step.target().and_then(records::key_of_target) else {
                continue;
            };
            match result {
                Ok(Done::Object(object)) => {
                    let hash = hashes.and_then(|it| it.of(&key));
                    self.see_object(seen, step, &key, object, hash);
                }
                Ok(Done::Gone) => self.objects.learn(&seen.key, &key, None),
                Ok(_) => {}
                Err(error) => self.see_refusal(seen, step, &key, error),
            }
        }
    }

    fn see_object(&self, seen: &Seen, step: &Step, key: &ObjectKey, object: &DynamicObject, hash: Option<&String>) {
        let value = serde_json::to_value(object).unwrap_or_default();
        if matches!(step, Step::Delete { .. }) {
            self.objects.learn(&seen.key, key, remains(object).then_some(value));
            return;
        }
        let is_whole = matches!(step, Step::Create { .. } | Step::Replace { .. });
        if is_whole && seen.attempts.unpatchable.contains(key) {
            self.objects.set_must_be_whole(key, true);
        }
        self.objects.learn(&seen.key, key, Some(value));
        if let (Some(hash), Some(version)) = (hash, &object.metadata.resource_version) {
            let written = LastWrite {
                hash: hash.clone(),
                resource_version: version.clone(),
            };
            let has_content = !matches!(step, Step::MergePatch { .. });
            self.objects.wrote(&seen.key, key, written, has_content);
        }
    }

    fn see_refusal(&self, seen: &Seen, step: &Step, key: &ObjectKey, error: &StepError) {
        self.objects.unlearn(key);
        let applies = matches!(step, Step::Apply { .. });
        if is_leaving(seen, key) {
            if applies && matches!(error.code(), Some(400 | 403 | 422)) {
                let (message, how) = (sentence(error), seen.attempts.releases.get(key).copied());
                let how = how.unwrap_or_default().next();
                warn!(%key, %message, ?how, "what only a leaving work asked for cannot be taken off a shared object");
            }
            return;
        }
        if error.code() == Some(404) && is_unserved(&sentence(error)) {
            self.discovery.forget(&key.group, &key.version);
        }
        if !applies && error.is_forbidden() {
            // The rights have changed: the next pass begins as if nothing were known.
            self.objects.set_must_be_whole(key, false);
        }
    }
}

fn parsed<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

/// Whether an object that the API server answered a deletion with is still there: it waits for finalizers, or is given
/// time to end.
fn remains(object: &DynamicObject) -> bool {
    let waits = object.metadata.finalizers.as_ref().is_some_and(|it| !it.is_empty());
    let ends = object.metadata.deletion_grace_period_seconds.is_some_and(|it| it > 0);
    object.metadata.deletion_timestamp.is_some() && (waits || ends)
}

fn is_unserved(message: &str) -> bool {
    message.contains("could not find the requested resource") || message.contains("404 page not found")
}
