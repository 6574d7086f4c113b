//! Jobs: pods until enough of them have succeeded.
//!
//! root: Job; reads: its pods; writes: pods, its status, and deletes it when its time to live is over; never: another
//! owner's pods. Upstream counts each pod once with the help of finalizers; here the counts never go back, and a pod
//! that is removed in the moment it ends may be run again.

use super::{Again, Error, Workloads, pods};
use crate::{events::EventType, times};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods},
    core::v1::{EnvVar, Pod},
};
use kube::api::{DeleteParams, Preconditions};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const COMPONENT: &str = "job-controller";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The pause after the first failed pod and the longest one.
const BACKOFF_MIN: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(600);

/// How the pods of a Job stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    active: i32,
    succeeded: i32,
    failed: i32,
    /// Restarts of containers in active pods.
    restarts: i32,
}

/// What becomes of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Complete,
    Failed(&'static str, &'static str),
    /// It goes on with so many active pods.
    Run(i32),
}

fn verdict(spec: &JobSpec, tally: Tally, ran: Duration) -> Verdict {
    let limit = spec.backoff_limit.unwrap_or(6);
    let pod = spec.template.spec.as_ref();
    let restarts_in_place = pod.and_then(|it| it.restart_policy.as_deref()) == Some("OnFailure");
    let past_restarts = restarts_in_place && tally.restarts > 0 && tally.restarts >= limit;
    if tally.failed > limit || past_restarts {
        return Verdict::Failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    let deadline = spec.active_deadline_seconds.map(times::of_seconds);
    if deadline.is_some_and(|it| ran >= it) {
        return Verdict::Failed("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    match spec.completions {
        Some(wanted) if tally.succeeded >= wanted => Verdict::Complete,
        Some(wanted) => Verdict::Run(parallelism.min(wanted.saturating_sub(tally.succeeded))),
        None if tally.succeeded > 0 && tally.active == 0 => Verdict::Complete,
        // The first success says that the work is done: the others end by themselves.
        None if tally.succeeded > 0 => Verdict::Run(tally.active),
        None => Verdict::Run(parallelism),
    }
}

fn backoff(failed: usize) -> Duration {
    match failed {
        0 => Duration::ZERO,
        count => {
            (BACKOFF_MIN * 2_u32.saturating_pow(u32::try_from(count - 1).unwrap_or(u32::MAX).min(10))).min(BACKOFF_MAX)
        }
    }
}

/// When the last container of a pod ended.
fn ended(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let ends = statuses
        .iter()
        .filter_map(|it| Some(it.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0));
    ends.max()
}

fn has(job: &Job, kind: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|it| it.conditions.as_deref());
    conditions
        .unwrap_or_default()
        .iter()
        .any(|it| it.type_ == kind && it.status == "True")
}

fn index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

/// `0-3,5` for a set of indexes.
fn ranges(indexes: &BTreeSet<i32>) -> String {
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let show = |(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

impl Workloads {
    pub(super) async fn job(&self, job: &Arc<Job>) -> Result<Again, Error> {
        let Some(spec) = &job.spec else { return Ok(None) };
        if has(job, "Complete") || has(job, "Failed") {
            return self.expire(job, spec).await;
        }
        if job.metadata.deletion_timestamp.is_some()
            || spec
                .managed_by
                .as_deref()
                .is_some_and(|it| it != "kubernetes.io/job-controller")
        {
            return Ok(None);
        }
        let now = Timestamp::now();
        let before = job.status.clone().unwrap_or_default();
        let suspended = spec.suspend.unwrap_or_default();
        let began = before.start_time.clone().filter(|_| !suspended);
        let began = began.or_else(|| (!suspended).then(|| times::seconds(now)));
        let ran = began.as_ref().map_or(Duration::ZERO, |it| times::until(it.0, now));
        let selector = spec.selector.clone().unwrap_or_default();
        let claimed = self.claim(&**job, &selector).await?;
        let (mut active, over): (Vec<_>, Vec<_>) = claimed.iter().cloned().partition(|it| pods::is_active(it));
        let of = |phase: &str| over.iter().filter(|it| pods::phase(it) == phase).count();
        let number = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let done: BTreeSet<i32> = over
            .iter()
            .filter(|it| pods::phase(it) == "Succeeded")
            .filter_map(|it| index(it))
            .collect();
        let succeeded = if is_indexed { done.len() } else { of("Succeeded") };
        let tally = Tally {
            active: number(active.len()),
            succeeded: number(succeeded).max(before.succeeded.unwrap_or_default()),
            failed: number(of("Failed")).max(before.failed.unwrap_or_default()),
            restarts: active.iter().map(|it| restarts(it)).fold(0, i32::saturating_add),
        };
        let verdict = if suspended {
            Verdict::Run(0)
        } else {
            verdict(spec, tally, ran)
        };
        let mut again: Again = None;
        match &verdict {
            Verdict::Run(wanted) => {
                let missing = wanted - tally.active;
                if missing > 0 {
                    again = self
                        .start_pods(job, spec, missing, &mut active, &over, &done, now)
                        .await?;
                } else if missing < 0 {
                    pods::by_worth(&mut active);
                    let extra: Vec<_> = active.drain(..missing.unsigned_abs() as usize).collect();
                    self.delete_pods(&**job, COMPONENT, &extra).await?;
                }
                let deadline = spec
                    .active_deadline_seconds
                    .filter(|_| !suspended)
                    .map(times::of_seconds);
                again = pods::sooner(again, deadline.map(|it| it.saturating_sub(ran)));
            }
            Verdict::Complete | Verdict::Failed(..) => {
                self.delete_pods(&**job, COMPONENT, &active).await?;
                active.clear();
            }
        }
        let terminating = claimed
            .iter()
            .filter(|it| it.metadata.deletion_timestamp.is_some() && matches!(pods::phase(it), "Pending" | "Running"));
        let terminating = number(terminating.count());
        let left = terminating
            + if matches!(verdict, Verdict::Run(_)) {
                0
            } else {
                tally.active
            };
        let failed = match &verdict {
            // What is ended for the failure of others counts as failed, too.
            Verdict::Failed(..) => tally.failed.saturating_add(tally.active),
            _ => tally.failed,
        };
        let mut status = JobStatus {
            active: nonzero(number(active.len())),
            ready: Some(pods::count(&active, 0, now).ready),
            succeeded: nonzero(tally.succeeded),
            failed: nonzero(failed),
            terminating: Some(terminating),
            start_time: began,
            completed_indexes: (is_indexed && !done.is_empty()).then(|| ranges(&done)),
            uncounted_terminated_pods: Some(UncountedTerminatedPods::default()),
            conditions: before.conditions.clone(),
            ..before.clone()
        };
        let conditions = status.conditions.get_or_insert_default();
        match &verdict {
            Verdict::Run(_) => suspend(conditions, suspended, now),
            Verdict::Complete => {
                let text = "Reached expected number of succeeded pods";
                set(conditions, "SuccessCriteriaMet", "CompletionsReached", text, now);
                if left == 0 {
                    set(conditions, "Complete", "CompletionsReached", text, now);
                    status.completion_time = Some(times::seconds(now));
                }
            }
            Verdict::Failed(reason, text) => {
                set(conditions, "FailureTarget", reason, text, now);
                if left == 0 {
                    set(conditions, "Failed", reason, text, now);
                }
            }
        }
        if conditions.is_empty() {
            status.conditions = None;
        }
        self.write_status(&self.jobs, &**job, job.status.as_ref(), &status)
            .await?;
        match &verdict {
            Verdict::Complete if left == 0 => {
                self.tell(&**job, COMPONENT, EventType::Normal, "Completed", "Job completed")
            }
            Verdict::Failed(reason, text) if left == 0 => {
                self.tell(&**job, COMPONENT, EventType::Warning, reason, *text)
            }
            _ => {}
        }
        Ok(again)
    }

    /// Makes more pods, unless one has failed a moment ago.
    #[allow(clippy::too_many_arguments)] // The parts of one pass; a struct would only rename them.
    async fn start_pods(
        &self,
        job: &Arc<Job>,
        spec: &JobSpec,
        missing: i32,
        active: &mut Vec<Arc<Pod>>,
        over: &[Arc<Pod>],
        done: &BTreeSet<i32>,
        now: Timestamp,
    ) -> Result<Again, Error> {
        let last = |phase: &'static str| {
            over.iter()
                .filter(move |it| pods::phase(it) == phase)
                .filter_map(|it| ended(it))
        };
        let success = last("Succeeded").max();
        let since_success: Vec<_> = last("Failed")
            .filter(|it| success.is_none_or(|success| *it > success))
            .collect();
        if let Some(failure) = since_success.iter().max() {
            let wait = times::until(now, times::after(*failure, backoff(since_success.len())));
            if !wait.is_zero() {
                return Ok(Some(wait));
            }
        }
        let pod = pods::from_template(
            &spec.template,
            pods::owned_by(&**job),
            job.metadata.namespace.as_deref(),
        );
        let (count, rest) = pods::portion(missing);
        let wanted: Vec<Pod> = if spec.completion_mode.as_deref() == Some("Indexed") {
            let taken: BTreeSet<i32> = active
                .iter()
                .filter_map(|it| index(it))
                .chain(done.iter().copied())
                .collect();
            let free = (0..spec.completions.unwrap_or_default()).filter(|it| !taken.contains(it));
            free.take(count).map(|it| with_index(pod.clone(), it)).collect()
        } else {
            vec![pod; count]
        };
        let made = self.create_pods(&**job, COMPONENT, wanted).await?;
        active.extend(made.into_iter().map(Arc::new));
        Ok(rest)
    }

    /// Removes a Job that is over when its time to live is.
    async fn expire(&self, job: &Arc<Job>, spec: &JobSpec) -> Result<Again, Error> {
        let Some(seconds) = spec.ttl_seconds_after_finished else {
            return Ok(None);
        };
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let conditions = job
            .status
            .as_ref()
            .and_then(|it| it.conditions.as_deref())
            .unwrap_or_default();
        let finished = conditions
            .iter()
            .filter(|it| matches!(it.type_.as_str(), "Complete" | "Failed") && it.status == "True")
            .find_map(|it| it.last_transition_time.as_ref());
        let Some(finished) = finished else { return Ok(None) };
        let left = times::until(
            Timestamp::now(),
            times::after(finished.0, times::of_seconds(seconds.into())),
        );
        if !left.is_zero() {
            return Ok(Some(left));
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: job.metadata.uid.clone(),
                ..Preconditions::default()
            }),
            ..DeleteParams::foreground()
        };
        let api = self.api::<Job>(job.metadata.namespace.as_deref());
        match api
            .delete(job.metadata.name.as_deref().unwrap_or_default(), &params)
            .await
        {
            Ok(_) => Ok(None),
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let all = status.into_iter().flat_map(|it| {
        let init = it.init_container_statuses.iter().flatten();
        init.chain(it.container_statuses.iter().flatten())
    });
    all.map(|it| it.restart_count).fold(0, i32::saturating_add)
}

fn with_index(mut pod: Pod, index: i32) -> Pod {
    let text = index.to_string();
    let name = pod.metadata.generate_name.take().unwrap_or_default();
    pod.metadata.generate_name = Some(format!("{name}{index}-"));
    for map in [&mut pod.metadata.labels, &mut pod.metadata.annotations] {
        map.get_or_insert_default().insert(INDEX.into(), text.clone());
    }
    let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}}});
    let variable: Option<EnvVar> = serde_json::from_value(variable).ok();
    if let (Some(spec), Some(variable)) = (&mut pod.spec, variable) {
        let init = spec.init_containers.iter_mut().flatten();
        for container in spec.containers.iter_mut().chain(init) {
            container.env.get_or_insert_default().push(variable.clone());
        }
    }
    pod
}

fn nonzero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

fn set(conditions: &mut Vec<JobCondition>, kind: &str, reason: &str, message: &str, now: Timestamp) {
    if conditions.iter().any(|it| it.type_ == kind && it.status == "True") {
        return;
    }
    conditions.retain(|it| it.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: "True".into(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(times::seconds(now)),
        last_transition_time: Some(times::seconds(now)),
    });
}

/// Says that a Job is suspended, or that it is not any more.
fn suspend(conditions: &mut Vec<JobCondition>, suspended: bool, now: Timestamp) {
    let known = conditions.iter().find(|it| it.type_ == "Suspended");
    match (suspended, known.map(|it| it.status == "True")) {
        (true, Some(true)) | (false, Some(false) | None) => {}
        (true, _) => {
            conditions.retain(|it| it.type_ != "Suspended");
            set(conditions, "Suspended", "JobSuspended", "Job suspended", now);
        }
        (false, Some(true)) => {
            conditions.retain(|it| it.type_ != "Suspended");
            set(conditions, "Suspended", "JobResumed", "Job resumed", now);
            if let Some(it) = conditions.last_mut() {
                it.status = "False".into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(value: serde_json::Value) -> JobSpec {
        serde_json::from_value(value).unwrap()
    }

    fn tally(active: i32, succeeded: i32, failed: i32) -> Tally {
        Tally {
            active,
            succeeded,
            failed,
            restarts: 0,
        }
    }

    #[test]
    fn a_job_ends_after_enough_successes_or_too_many_failures() {
        let exceeded = Verdict::Failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        let fixed = spec(json!({"completions": 3, "parallelism": 2, "backoffLimit": 1, "template": {}}));
        let queue = spec(json!({"parallelism": 2, "template": {}}));
        let table = [
            (&fixed, tally(0, 0, 0), Verdict::Run(2)),
            (&fixed, tally(1, 2, 0), Verdict::Run(1)),
            (&fixed, tally(0, 3, 1), Verdict::Complete),
            (&fixed, tally(0, 0, 1), Verdict::Run(2)),
            (&fixed, tally(1, 0, 2), exceeded),
            (&queue, tally(0, 0, 0), Verdict::Run(2)),
            (&queue, tally(1, 1, 0), Verdict::Run(1)),
            (&queue, tally(0, 1, 0), Verdict::Complete),
        ];
        for (spec, tally, want) in table {
            assert_eq!(verdict(spec, tally, Duration::ZERO), want, "{tally:?}");
        }
    }

    #[test]
    fn restarts_in_place_and_time_are_limited_too() {
        let in_place =
            spec(json!({"backoffLimit": 2, "template": {"spec": {"containers": [], "restartPolicy": "OnFailure"}}}));
        let with = |restarts| Tally {
            active: 1,
            restarts,
            ..Tally::default()
        };
        assert_eq!(verdict(&in_place, with(1), Duration::ZERO), Verdict::Run(1));
        assert!(matches!(
            verdict(&in_place, with(2), Duration::ZERO),
            Verdict::Failed("BackoffLimitExceeded", _)
        ));
        let timed = spec(json!({"activeDeadlineSeconds": 5, "template": {}}));
        assert_eq!(verdict(&timed, tally(1, 0, 0), Duration::from_secs(4)), Verdict::Run(1));
        assert!(matches!(
            verdict(&timed, tally(1, 0, 0), Duration::from_secs(5)),
            Verdict::Failed("DeadlineExceeded", _)
        ));
    }

    #[test]
    fn pauses_after_failures_double_up_to_ten_minutes() {
        let pauses: Vec<u64> = (0..9).map(|it| backoff(it).as_secs()).collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[test]
    fn indexes_are_shown_as_ranges() {
        let of = |list: &[i32]| ranges(&list.iter().copied().collect());
        assert_eq!(of(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(of(&[]), "");
    }
}
