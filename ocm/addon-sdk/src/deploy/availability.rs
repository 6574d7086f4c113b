//! What the state of its works says about an add-on's health: the condition `Available`.
//!
//! Where health is a matter of the add-on's lease the agent of the cluster judges, and while the cluster is silent the
//! hub says Unknown; then nothing is said here.
//! Upstream: addon-framework `pkg/addonmanager/controllers/agentdeploy/healthcheck_sync.go` and
//! `pkg/utils/probe_helper.go`. We differ in one thing: of the Deployments and DaemonSets that are looked at each has
//! to be good. Upstream is content with those that were reported, so that one that is ready hides one
//! that never came up.

use ocm_api::{
    condition::{self, ConditionUpdate, Status, wanted},
    conditions::{
        managed_cluster_add_on::{self, deploy_reason as reason},
        manifest_work,
    },
    work::{ManifestWork, ResourceIdentifier, StatusFeedbackResult},
};

use crate::{Health, Probe, ProbeResult};

/// What the judgement is made from.
pub struct Case<'c> {
    /// The add-on.
    pub addon: &'c str,
    /// How its health is known.
    pub health: &'c Health,
    /// What is looked at.
    pub probes: &'c [Probe],
    /// The works with what is looked at: the hosting ones when the agent is hosted.
    pub works: &'c [&'c ManifestWork],
    /// Whether it was ever said how far the manifests are.
    pub manifests_reported: bool,
    /// What the cluster says about itself.
    pub cluster: Option<Status>,
    /// What the add-on says about what was found; asked only with [`Health::Work`].
    pub judge: &'c dyn Fn(&[ProbeResult]) -> Result<(), String>,
}

/// The condition to set, or why none is.
pub fn judge(case: &Case<'_>) -> Result<ConditionUpdate, &'static str> {
    let available = |status: Status, reason: &str, message: String| {
        Ok(wanted(managed_cluster_add_on::AVAILABLE, status, reason, message))
    };
    match case.health {
        Health::Lease => return Err("the agent judges its health by its lease"),
        Health::None => return Err("nobody judges its health"),
        Health::Work(_) | Health::Deployments | Health::Workloads => {}
    }
    if case.cluster == Some(Status::Unknown) {
        return Err("nothing is known of the cluster at present");
    }
    if matches!(case.health, Health::Work(probes) if probes.is_empty()) {
        return available(
            Status::True,
            reason::WORK_APPLIED,
            "Addon manifestWork is applied".to_owned(),
        );
    }
    if !case.manifests_reported {
        return Err("its manifests are not applied yet");
    }
    if case.works.is_empty() {
        let message = "Addon manifestWork is not found".to_owned();
        return available(Status::Unknown, reason::WORK_NOT_FOUND, message);
    }
    for work in case.works {
        let conditions = work.status.as_ref().map_or(&[][..], |it| &it.conditions);
        match condition::find(conditions, manifest_work::AVAILABLE) {
            None => {
                let message = "Addon manifestWork is not applied yet".to_owned();
                return available(Status::Unknown, reason::WORK_NOT_APPLIED, message);
            }
            Some(said) if said.status == Status::False.as_str() => {
                return available(Status::False, reason::WORK_NOT_APPLIED, said.message.clone());
            }
            Some(_) => {}
        }
    }
    let results = results(case.probes, case.works);
    if !case.probes.is_empty() && results.is_empty() {
        let message = "Probe results are not returned".to_owned();
        return available(Status::Unknown, reason::NO_PROBE_RESULT, message);
    }
    let status = match case.health {
        Health::Work(_) => (case.judge)(&results),
        _ => running(case.probes, &results),
    };
    match status {
        Ok(()) => {
            let message = format!("{} add-on is available.", case.addon);
            available(Status::True, reason::PROBE_AVAILABLE, message)
        }
        Err(why) => {
            let message = format!("Probe addon unavailable with err {why}");
            available(Status::False, reason::PROBE_UNAVAILABLE, message)
        }
    }
}

/// What was reported of the objects that the probes name, probe by probe.
pub fn results(probes: &[Probe], works: &[&ManifestWork]) -> Vec<ProbeResult> {
    let reported = || {
        works
            .iter()
            .filter_map(|it| it.status.as_ref())
            .flat_map(|it| &it.resource_status.manifests)
            .filter(|it| !it.status_feedback.values.is_empty())
    };
    let mut found = Vec::new();
    for probe in probes {
        for manifest in reported() {
            let meta = &manifest.resource_meta;
            let resource = ResourceIdentifier {
                group: meta.group.clone(),
                resource: meta.resource.clone(),
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
            };
            if names(&probe.resource, &resource) {
                found.push(ProbeResult {
                    resource,
                    feedback: manifest.status_feedback.clone(),
                });
            }
        }
    }
    found
}

fn names(pattern: &ResourceIdentifier, one: &ResourceIdentifier) -> bool {
    pattern.group == one.group
        && pattern.resource == one.resource
        && matches(&pattern.namespace, &one.namespace)
        && matches(&pattern.name, &one.name)
}

/// Whether a text is the pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first occurrence leaves the most for what follows.
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

/// Whether every Deployment that is looked at has a ready replica, and every DaemonSet a pod on each of its nodes.
fn running(probes: &[Probe], results: &[ProbeResult]) -> Result<(), String> {
    for probe in probes {
        let found = results.iter().find(|it| names(&probe.resource, &it.resource));
        let nothing = ProbeResult {
            resource: probe.resource.clone(),
            feedback: StatusFeedbackResult::default(),
        };
        has_ready_pods(found.unwrap_or(&nothing))?;
    }
    Ok(())
}

fn has_ready_pods(result: &ProbeResult) -> Result<(), String> {
    let daemon = result.resource.resource == "daemonsets";
    let (ready, desired) = if daemon {
        ("NumberReady", "DesiredNumberScheduled")
    } else {
        ("ReadyReplicas", "Replicas")
    };
    let ready = result.integer(ready).ok_or("readyReplica is not probed")?;
    let desired = result.integer(desired).ok_or("desiredNumberReplicas is not probed")?;
    let good = if daemon {
        ready == desired
    } else {
        desired == 0 || ready >= 1
    };
    if good {
        return Ok(());
    }
    let ResourceIdentifier {
        resource,
        namespace,
        name,
        ..
    } = &result.resource;
    Err(format!(
        "desiredNumberReplicas is {desired} but readyReplica is {ready} for {resource} {namespace}/{name}"
    ))
}

#[cfg(test)]
#[path = "availability_tests.rs"]
mod tests;
