//! The status of a pod as a kubelet writes it, from the states of its containers.

use super::address::HOST;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use std::net::Ipv4Addr;

use crate::times::seconds;

/// What is known of a pod besides its object.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Its directory and volumes are there.
    pub mounted: bool,
    /// When the node took it.
    pub since: Option<Time>,
    pub init: Vec<ContainerStatus>,
    pub main: Vec<ContainerStatus>,
    /// It was deleted, and all its containers have ended for good.
    pub ended: bool,
    /// Why it was ended although its containers could have gone on: a reason and a message.
    pub failed: Option<(&'static str, String)>,
}

/// Whether an init container stays beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

pub fn waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: (!message.is_empty()).then(|| message.to_owned()),
        }),
        ..ContainerState::default()
    }
}

pub fn running(since: Timestamp) -> ContainerState {
    ContainerState {
        running: Some(ContainerStateRunning {
            started_at: Some(seconds(since)),
        }),
        ..ContainerState::default()
    }
}

pub fn terminated(state: ContainerStateTerminated) -> ContainerState {
    ContainerState {
        terminated: Some(state),
        ..ContainerState::default()
    }
}

/// The end that a status shows, if it does.
pub fn end(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

fn last_end(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|it| it.running.is_some())
}

/// What a container shows before anything has happened to it.
pub fn fresh(container: &Container, is_init: bool, pod_has_init: bool) -> ContainerStatus {
    let reason = match is_init || pod_has_init {
        true => "PodInitializing",
        false => "ContainerCreating",
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(reason, "")),
        started: Some(false),
        ..ContainerStatus::default()
    }
}

/// The init containers that are not done yet.
fn incomplete<'a>(pod: &'a Pod, progress: &Progress) -> Vec<&'a str> {
    let init = pod.spec.as_ref().and_then(|it| it.init_containers.as_deref());
    let is_done = |container: &&Container| {
        let status = progress.init.iter().find(|it| it.name == container.name);
        let done = status.is_some_and(|it| match is_sidecar(container) {
            true => it.started == Some(true),
            false => end(it).is_some_and(|it| it.exit_code == 0),
        });
        !done
    };
    let left = init.unwrap_or_default().iter().filter(is_done);
    left.map(|it| it.name.as_str()).collect()
}

/// Where the pod is in its life.
fn phase(pod: &Pod, progress: &Progress) -> &'static str {
    if progress.failed.is_some() {
        return "Failed";
    }
    let policy = pod
        .spec
        .as_ref()
        .and_then(|it| it.restart_policy.as_deref())
        .unwrap_or("Always");
    let failed_init = || {
        progress
            .init
            .iter()
            .any(|it| end(it).is_some_and(|it| it.exit_code != 0))
    };
    if !incomplete(pod, progress).is_empty() {
        return if policy == "Never" && failed_init() {
            "Failed"
        } else {
            "Pending"
        };
    }
    let (mut is_waiting, mut running, mut stopped, mut succeeded) = (0, 0, 0, 0);
    for status in &progress.main {
        match (end(status), is_running(status)) {
            (Some(end), _) => {
                stopped += 1;
                succeeded += usize::from(end.exit_code == 0);
            }
            (None, true) => running += 1,
            // It ended, and waits to be started again.
            (None, false) if last_end(status).is_some() => stopped += 1,
            (None, false) => is_waiting += 1,
        }
    }
    match policy {
        _ if progress.ended && stopped == succeeded && is_waiting == 0 => "Succeeded",
        _ if progress.ended => "Failed",
        _ if is_waiting > 0 => "Pending",
        _ if running > 0 => "Running",
        _ if stopped == 0 => "Pending",
        "Always" => "Running",
        _ if stopped == succeeded => "Succeeded",
        "Never" => "Failed",
        _ => "Running",
    }
}

type Verdict = (bool, &'static str, String);

fn conditions(pod: &Pod, progress: &Progress, phase: &str) -> Vec<(&'static str, Verdict)> {
    let met = || (true, "", String::new());
    let initialized = match incomplete(pod, progress) {
        _ if phase == "Succeeded" => (true, "PodCompleted", String::new()),
        left if left.is_empty() => met(),
        left => {
            let text = format!("containers with incomplete status: [{}]", left.join(" "));
            (false, "ContainersNotInitialized", text)
        }
    };
    let sidecars: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|it| it.init_containers.iter().flatten())
        .filter(|it| is_sidecar(it))
        .map(|it| it.name.as_str())
        .collect();
    let beside = progress.init.iter().filter(|it| sidecars.contains(&it.name.as_str()));
    let unready: Vec<&str> = beside
        .chain(&progress.main)
        .filter(|it| !it.ready)
        .map(|it| it.name.as_str())
        .collect();
    let containers = match phase {
        "Succeeded" => (false, "PodCompleted", String::new()),
        "Failed" => (false, "PodFailed", String::new()),
        _ if unready.is_empty() => met(),
        _ => {
            let text = format!("containers with unready status: [{}]", unready.join(" "));
            (false, "ContainersNotReady", text)
        }
    };
    let gates = pod.spec.iter().flat_map(|it| it.readiness_gates.iter().flatten());
    let shut: Vec<_> = gates
        .filter(|gate| condition(pod, &gate.condition_type).is_none_or(|it| it.status != "True"))
        .map(|it| {
            let state = condition(pod, &it.condition_type)
                .map_or("does not exist".to_owned(), |it| format!("is {:?}", it.status));
            format!(
                "corresponding condition of pod readiness gate {:?} {state}.",
                it.condition_type
            )
        })
        .collect();
    let ready = match (&containers, shut.is_empty()) {
        ((true, _, _), false) => (false, "ReadinessGatesNotReady", shut.join(" ")),
        _ => containers.clone(),
    };
    let begun = match progress.mounted && !matches!(phase, "Succeeded" | "Failed") {
        true => met(),
        false => (false, "", String::new()),
    };
    vec![
        ("PodReadyToStartContainers", begun),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers),
        ("PodScheduled", met()),
    ]
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == kind)
}

/// The whole status of a pod at this address. `before` is what was written last: times of conditions stay while their
/// status does.
pub fn status(pod: &Pod, progress: &Progress, ip: Ipv4Addr, before: &[PodCondition], now: Timestamp) -> PodStatus {
    let phase = phase(pod, progress);
    let generation = pod.metadata.generation;
    let ours = conditions(pod, progress, phase);
    let mut list: Vec<PodCondition> = ours
        .iter()
        .map(|(kind, (holds, reason, message))| {
            let status = if *holds { "True" } else { "False" };
            let old = before
                .iter()
                .find(|it| it.type_ == *kind)
                .or_else(|| condition(pod, kind));
            let since = old
                .filter(|it| it.status == status)
                .and_then(|it| it.last_transition_time.clone());
            PodCondition {
                type_: (*kind).to_owned(),
                status: status.to_owned(),
                reason: (!reason.is_empty()).then(|| (*reason).to_owned()),
                message: (!message.is_empty()).then(|| message.clone()),
                last_transition_time: since.or_else(|| Some(seconds(now))),
                observed_generation: generation,
                ..PodCondition::default()
            }
        })
        .collect();
    let theirs = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    list.extend(
        theirs
            .filter(|it| ours.iter().all(|(kind, _)| *kind != it.type_))
            .cloned(),
    );
    let (reason, message) = progress.failed.clone().unzip();
    let address = progress.mounted.then(|| ip.to_string());
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(list),
        reason: reason.map(str::to_owned),
        message,
        start_time: progress.since.clone(),
        host_ip: Some(HOST.to_string()),
        host_ips: Some(vec![HostIP { ip: HOST.to_string() }]),
        pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: address,
        init_container_statuses: (!progress.init.is_empty()).then(|| progress.init.clone()),
        container_statuses: Some(progress.main.clone()),
        qos_class: pod.status.as_ref().and_then(|it| it.qos_class.clone()),
        observed_generation: generation,
        ..PodStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(policy: &str, init: &[&str]) -> Pod {
        let named = |it: &&str| json!({"name": it});
        serde_json::from_value(json!({
            "metadata": {"name": "p", "generation": 2},
            "spec": {"restartPolicy": policy, "containers": [{"name": "a"}, {"name": "b"}],
                     "initContainers": init.iter().map(named).collect::<Vec<_>>()},
            "status": {"conditions": [{"type": "Other", "status": "True"}]},
        }))
        .unwrap()
    }

    fn container(name: &str, state: &str) -> ContainerStatus {
        let ended = |code| ContainerStateTerminated {
            exit_code: code,
            ..ContainerStateTerminated::default()
        };
        let (state, last) = match state {
            "waiting" => (waiting("ContainerCreating", ""), None),
            "running" => (running(Timestamp::UNIX_EPOCH), None),
            "crashed" => (waiting("CrashLoopBackOff", ""), Some(terminated(ended(1)))),
            code => (terminated(ended(code.parse().unwrap())), None),
        };
        ContainerStatus {
            name: name.into(),
            ready: state.running.is_some(),
            state: Some(state),
            last_state: last,
            ..ContainerStatus::default()
        }
    }

    fn progress(init: &[&str], main: [&str; 2]) -> Progress {
        let named = |(at, state): (usize, &&str)| container(&format!("i{at}"), state);
        Progress {
            mounted: true,
            init: init.iter().enumerate().map(named).collect(),
            main: vec![container("a", main[0]), container("b", main[1])],
            ..Progress::default()
        }
    }

    #[test]
    fn the_phase_follows_from_the_containers_and_the_restart_policy() {
        let table: [(&str, &[&str], [&str; 2], &str); 12] = [
            ("Always", &[], ["waiting", "running"], "Pending"),
            ("Always", &[], ["running", "running"], "Running"),
            ("Always", &[], ["crashed", "running"], "Running"),
            ("Always", &[], ["crashed", "crashed"], "Running"),
            ("Always", &["running"], ["waiting", "waiting"], "Pending"),
            ("Never", &["1"], ["waiting", "waiting"], "Failed"),
            ("OnFailure", &["1"], ["waiting", "waiting"], "Pending"),
            ("Never", &["0"], ["0", "0"], "Succeeded"),
            ("Never", &[], ["0", "1"], "Failed"),
            ("Never", &[], ["1", "running"], "Running"),
            ("OnFailure", &[], ["0", "0"], "Succeeded"),
            ("OnFailure", &[], ["0", "crashed"], "Running"),
        ];
        for (policy, init, main, want) in table {
            let names: Vec<String> = (0..init.len()).map(|it| format!("i{it}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            assert_eq!(
                phase(&pod(policy, &names), &progress(init, main)),
                want,
                "{policy} {init:?} {main:?}"
            );
        }
    }

    #[test]
    fn a_pod_that_was_ended_does_not_go_on_running() {
        let ended = |main| Progress {
            ended: true,
            ..progress(&[], main)
        };
        assert_eq!(phase(&pod("Always", &[]), &ended(["0", "0"])), "Succeeded");
        assert_eq!(phase(&pod("Always", &[]), &ended(["0", "143"])), "Failed");
        assert_eq!(phase(&pod("Always", &[]), &ended(["0", "waiting"])), "Failed");
    }

    fn shown(pod: &Pod, progress: &Progress) -> Vec<String> {
        let status = status(pod, progress, HOST, &[], Timestamp::UNIX_EPOCH);
        let conditions = status.conditions.unwrap();
        let show = |it: &PodCondition| {
            let (reason, message) = (it.reason.as_deref().unwrap_or(""), it.message.as_deref().unwrap_or(""));
            format!("{}={} {reason} {message}", it.type_, it.status)
                .trim_end()
                .to_owned()
        };
        conditions.iter().map(show).collect()
    }

    #[test]
    fn conditions_name_the_containers_that_are_waited_for() {
        assert_eq!(
            shown(&pod("Always", &["i0"]), &progress(&["running"], ["waiting", "waiting"])),
            [
                "PodReadyToStartContainers=True",
                "Initialized=False ContainersNotInitialized containers with incomplete status: [i0]",
                "Ready=False ContainersNotReady containers with unready status: [a b]",
                "ContainersReady=False ContainersNotReady containers with unready status: [a b]",
                "PodScheduled=True",
                "Other=True",
            ]
        );
        assert_eq!(
            shown(&pod("Never", &[]), &progress(&[], ["0", "0"])),
            [
                "PodReadyToStartContainers=False",
                "Initialized=True PodCompleted",
                "Ready=False PodCompleted",
                "ContainersReady=False PodCompleted",
                "PodScheduled=True",
                "Other=True",
            ]
        );
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let pod = pod("Always", &[]);
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = status(&pod, &progress(&[], ["running", "waiting"]), HOST, &[], at(1))
            .conditions
            .unwrap();
        let then = status(&pod, &progress(&[], ["running", "running"]), HOST, &first, at(2))
            .conditions
            .unwrap();
        let times: Vec<i64> = then
            .iter()
            .take(5)
            .map(|it| it.last_transition_time.as_ref().unwrap().0.as_second())
            .collect();
        assert_eq!(times, [1, 1, 2, 2, 1]);
    }
}
