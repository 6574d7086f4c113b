//! Cells of pods: one word for the state of many containers.

use super::{
    cells::{NONE, age, at, list, name, number, or, text},
    duration::since,
};
use jiff::Timestamp;
use serde_json::Value;

/// What the statuses of the containers add up to.
#[derive(Default)]
struct Tally<'a> {
    restarts: i64,
    /// When a container last ended before it was started again; times of one form sort as text.
    last_restart: Option<&'a str>,
}

impl<'a> Tally<'a> {
    fn add(&mut self, container: &'a Value) {
        self.restarts += number(container, &["restartCount"]);
        let finished = at(container, &["lastState", "terminated", "finishedAt"]).as_str();
        self.last_restart = self.last_restart.max(finished);
    }
}

fn terminated_reason(state: &Value, prefix: &str) -> String {
    match (text(state, &["reason"]), number(state, &["signal"])) {
        ("", 0) => format!("{prefix}ExitCode:{}", number(state, &["exitCode"])),
        ("", signal) => format!("{prefix}Signal:{signal}"),
        (reason, _) => format!("{prefix}{reason}"),
    }
}

pub(super) fn pod(it: &Value, now: Timestamp) -> Vec<Value> {
    let mut reason = or(text(it, &["status", "reason"]), text(it, &["status", "phase"])).to_owned();
    let gated = |it: &Value| text(it, &["type"]) == "PodScheduled" && text(it, &["reason"]) == "SchedulingGated";
    if list(it, &["status", "conditions"]).iter().any(gated) {
        reason = "SchedulingGated".to_owned();
    }
    let init_specs = list(it, &["spec", "initContainers"]);
    let is_sidecar = |container: &Value| {
        let spec = init_specs
            .iter()
            .find(|it| text(it, &["name"]) == text(container, &["name"]));
        spec.is_some_and(|it| text(it, &["restartPolicy"]) == "Always")
    };
    let mut total = list(it, &["spec", "containers"]).len() + init_specs.iter().filter(|it| is_sidecar(it)).count();
    let mut ready = 0;
    let mut tally = Tally::default();
    let mut sidecars = Tally::default();
    let mut initializing = false;
    for (index, container) in list(it, &["status", "initContainerStatuses"]).iter().enumerate() {
        tally.add(container);
        let terminated = at(container, &["state", "terminated"]);
        let waiting = text(container, &["state", "waiting", "reason"]);
        if is_sidecar(container) {
            sidecars.add(container);
            if at(container, &["started"]).as_bool() == Some(true) {
                ready += usize::from(at(container, &["ready"]).as_bool() == Some(true));
                continue;
            }
        }
        if terminated.is_object() && number(terminated, &["exitCode"]) == 0 {
            continue;
        }
        reason = if terminated.is_object() {
            terminated_reason(terminated, "Init:")
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", init_specs.len())
        };
        initializing = true;
        break;
    }
    let initialized = list(it, &["status", "conditions"])
        .iter()
        .any(|it| text(it, &["type"]) == "Initialized" && text(it, &["status"]) == "True");
    if !initializing || initialized {
        tally = sidecars;
        let mut has_running = false;
        for container in list(it, &["status", "containerStatuses"]).iter().rev() {
            tally.add(container);
            let (waiting, terminated) = (
                text(container, &["state", "waiting", "reason"]),
                at(container, &["state", "terminated"]),
            );
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if terminated.is_object() {
                reason = terminated_reason(terminated, "");
            } else if at(container, &["ready"]).as_bool() == Some(true)
                && at(container, &["state", "running"]).is_object()
            {
                has_running = true;
                ready += 1;
            }
        }
        // A pod whose main container ended well while another still runs is not done.
        if reason == "Completed" && has_running {
            let is_ready = list(it, &["status", "conditions"])
                .iter()
                .any(|it| text(it, &["type"]) == "Ready" && text(it, &["status"]) == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if !at(it, &["metadata", "deletionTimestamp"]).is_null() {
        if text(it, &["status", "reason"]) == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(text(it, &["status", "phase"]), "Succeeded" | "Failed") {
            reason = "Terminating".to_owned();
        }
    }
    total = total.max(ready);
    let restarts = match tally.last_restart {
        Some(time) if tally.restarts > 0 => format!("{} ({} ago)", tally.restarts, since(Some(time), now)),
        _ => tally.restarts.to_string(),
    };
    let ip = list(it, &["status", "podIPs"])
        .first()
        .map_or_else(|| text(it, &["status", "podIP"]), |it| text(it, &["ip"]));
    vec![
        name(it),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        age(it, now),
        or(ip, NONE).into(),
        or(text(it, &["spec", "nodeName"]), NONE).into(),
        or(text(it, &["status", "nominatedNodeName"]), NONE).into(),
        readiness_gates(it).into(),
    ]
}

fn readiness_gates(it: &Value) -> String {
    let gates = list(it, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_true = |gate: &&Value| {
        let conditions = list(it, &["status", "conditions"]).iter();
        conditions
            .filter(|it| text(it, &["type"]) == text(gate, &["conditionType"]))
            .any(|it| text(it, &["status"]) == "True")
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}
