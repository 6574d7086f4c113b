//! How far the hooks are that run before an add-on goes.
//! Upstream: addon-framework `pkg/addonmanager/controllers/agentdeploy/default_hook_sync.go`, `hosted_hook_sync.go`. We
//! differ in two things: a hook may have a deadline, and each hook is looked for by its name,
//! so that objects before it need no report.

use std::time::Duration;

use jiff::Timestamp;
use ocm_api::{
    condition::{self, Status},
    conditions::manifest_work,
    work::ManifestWork,
};
use serde_json::Value;

use super::manifest::{self, text};

/// How far the hooks of one side are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookProgress {
    /// All are complete, or there are none.
    Done,
    /// Some are not, and may take no longer: how long they had at most.
    Expired(Duration),
    /// Some are not.
    Pending {
        /// Which ones, in words.
        names: Vec<String>,
        /// When the first of them may take no longer.
        again: Option<Duration>,
    },
}

/// How far these hooks are. `work` is the work they are in, as it is; `since` is when the add-on was deleted.
pub fn progress(hooks: &[&Value], work: Option<&ManifestWork>, since: Timestamp, now: Timestamp) -> HookProgress {
    let mut names = Vec::new();
    let mut again: Option<Duration> = None;
    let mut expired: Option<Duration> = None;
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    for hook in hooks {
        if work.is_some_and(|it| is_complete(hook, it)) {
            continue;
        }
        // A deadline that cannot be read is none: to let go too early would leave things behind.
        match manifest::deadline(hook).unwrap_or_default() {
            Some(deadline) if elapsed >= deadline => {
                expired = Some(expired.map_or(deadline, |it| it.max(deadline)));
            }
            Some(deadline) => {
                let left = deadline - elapsed;
                again = Some(again.map_or(left, |it| it.min(left)));
                names.push(named(hook));
            }
            None => names.push(named(hook)),
        }
    }
    match (names.is_empty(), expired) {
        (false, _) => HookProgress::Pending { names, again },
        (true, Some(deadline)) => HookProgress::Expired(deadline),
        (true, None) => HookProgress::Done,
    }
}

fn named(hook: &Value) -> String {
    let place = (text(hook, "/metadata/namespace"), text(hook, "/metadata/name"));
    match place {
        ("", name) => format!("{} {name}", text(hook, "/kind")),
        (namespace, name) => format!("{} {namespace}/{name}", text(hook, "/kind")),
    }
}

/// Whether a work reports a hook as complete: a Job that has succeeded, a Pod that has.
fn is_complete(hook: &Value, work: &ManifestWork) -> bool {
    let Some(status) = &work.status else { return false };
    let reported_as_is = condition::find(&status.conditions, manifest_work::AVAILABLE).is_some_and(|it| {
        it.status == Status::True.as_str()
            && (it.observed_generation.is_none() || it.observed_generation == work.metadata.generation)
    });
    let (value, complete) = match text(hook, "/kind") {
        "Job" => ("JobComplete", "True"),
        _ => ("PodPhase", "Succeeded"),
    };
    let reported = status.resource_status.manifests.iter().find(|it| {
        let meta = &it.resource_meta;
        meta.group == manifest::group(hook)
            && meta.kind == text(hook, "/kind")
            && meta.namespace == text(hook, "/metadata/namespace")
            && meta.name == text(hook, "/metadata/name")
    });
    reported_as_is
        && reported
            .into_iter()
            .flat_map(|it| &it.status_feedback.values)
            .any(|it| it.name == value && it.field_value.string.as_deref() == Some(complete))
}

#[cfg(test)]
mod tests {
    use ocm_api::annotations;
    use serde_json::json;

    use super::*;

    fn hook(kind: &str, name: &str, deadline: Option<&str>) -> Value {
        let version = if kind == "Job" { "batch/v1" } else { "v1" };
        let mut hook = json!({
            "apiVersion": version, "kind": kind,
            "metadata": {"name": name, "namespace": "n", "annotations": {annotations::ADDON_PRE_DELETE: ""}}
        });
        if let Some(deadline) = deadline {
            hook["metadata"]["annotations"][annotations::ADDON_PRE_DELETE_DEADLINE] = deadline.into();
        }
        hook
    }

    fn work(available: &str, generation: i64, reports: &[(&str, &str, &str, &str)]) -> ManifestWork {
        let manifests: Vec<_> = reports
            .iter()
            .map(|(kind, name, value, said)| {
                let group = if *kind == "Job" { "batch" } else { "" };
                let value = json!({"name": value, "fieldValue": {"type": "String", "string": said}});
                json!({
                    "resourceMeta": {"group": group, "kind": kind, "name": name, "namespace": "n"},
                    "statusFeedback": {"values": [value]}
                })
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "addon-a-pre-delete", "generation": 1},
            "status": {
                "conditions": [{
                    "type": "Available", "status": available, "reason": "R", "message": "",
                    "observedGeneration": generation, "lastTransitionTime": "2026-01-01T12:00:00Z"
                }],
                "resourceStatus": {"manifests": manifests}
            }
        }))
        .unwrap()
    }

    fn after(seconds: i64, hooks: &[Value], work: Option<&ManifestWork>) -> HookProgress {
        let since: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let now = since + jiff::SignedDuration::from_secs(seconds);
        progress(&hooks.iter().collect::<Vec<_>>(), work, since, now)
    }

    fn pending(names: &[&str], again: Option<u64>) -> HookProgress {
        HookProgress::Pending {
            names: names.iter().map(|it| (*it).to_owned()).collect(),
            again: again.map(Duration::from_secs),
        }
    }

    #[test]
    fn hooks_are_complete_when_jobs_complete_and_pods_succeed() {
        let hooks = [hook("Job", "j", None), hook("Pod", "p", None)];
        assert_eq!(after(0, &hooks, None), pending(&["Job n/j", "Pod n/p"], None));
        let half = work(
            "True",
            1,
            &[("Job", "j", "JobComplete", "True"), ("Pod", "p", "PodPhase", "Running")],
        );
        assert_eq!(after(0, &hooks, Some(&half)), pending(&["Pod n/p"], None));
        let reports = [
            ("Job", "j", "JobComplete", "True"),
            ("Pod", "p", "PodPhase", "Succeeded"),
        ];
        assert_eq!(after(0, &hooks, Some(&work("True", 1, &reports))), HookProgress::Done);
        assert_eq!(
            after(0, &hooks, Some(&work("False", 1, &reports))),
            pending(&["Job n/j", "Pod n/p"], None)
        );
        assert_eq!(
            after(0, &hooks, Some(&work("True", 0, &reports))),
            pending(&["Job n/j", "Pod n/p"], None)
        );
        assert_eq!(after(0, &[], None), HookProgress::Done);
    }

    #[test]
    fn only_a_deadline_ends_waiting_for_a_hook() {
        let patient = [hook("Job", "j", None)];
        assert_eq!(after(1_000_000, &patient, None), pending(&["Job n/j"], None));
        let hurried = [hook("Job", "j", Some("5m"))];
        assert_eq!(after(10, &hurried, None), pending(&["Job n/j"], Some(290)));
        assert_eq!(
            after(300, &hurried, None),
            HookProgress::Expired(Duration::from_secs(300))
        );
        let both = [hook("Job", "j", Some("5m")), hook("Job", "k", None)];
        assert_eq!(after(300, &both, None), pending(&["Job n/k"], None));
        let done = work("True", 1, &[("Job", "k", "JobComplete", "True")]);
        assert_eq!(
            after(300, &both, Some(&done)),
            HookProgress::Expired(Duration::from_secs(300))
        );
        assert_eq!(
            after(1_000_000, &[hook("Job", "j", Some("soon"))], None),
            pending(&["Job n/j"], None)
        );
    }
}
