//! Pods, and templates of them that stand alone.

use super::{
    defaults::{self, entry},
    pod_admission::{self, UNCHANGEABLE},
    strategy::{Columns, Strategy},
    validation::{
        gates, list,
        pods::{pod_spec, template},
        text,
    },
    warnings,
};
use crate::builtin::Subresource;
use crate::{
    call::Call,
    object_meta,
    table::{cells, duration::since},
};
use jiff::Timestamp;
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value, json};

/// Pod.
pub struct Pods;

impl Strategy for Pods {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            // What it was called before it was a node.
            "spec.host",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[
            Subresource {
                name: "eviction",
                kind: "Eviction",
                group: "policy",
                version: "v1",
                verbs: &["create"],
            },
            Subresource {
                name: "binding",
                kind: "Binding",
                group: "",
                version: "",
                verbs: &["create"],
            },
            Subresource {
                name: "log",
                kind: "Pod",
                group: "",
                version: "",
                verbs: &["get"],
            },
            Subresource {
                name: "exec",
                kind: "PodExecOptions",
                group: "",
                version: "",
                verbs: &["create", "get"],
            },
            Subresource {
                name: "attach",
                kind: "PodAttachOptions",
                group: "",
                version: "",
                verbs: &["create", "get"],
            },
            Subresource {
                name: "portforward",
                kind: "PodPortForwardOptions",
                group: "",
                version: "",
                verbs: &["create", "get"],
            },
        ]
    }

    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
            row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        defaults::pods::pod(object);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        // What was stored once may stay: its status is still to be written.
        if old.is_none_or(|it| it["spec"] != new["spec"]) {
            pod_spec(&new["spec"], "spec", errors);
        }
        let Some(old) = old else {
            if !list(new, "/spec/ephemeralContainers").is_empty() {
                errors.push(FieldError::forbidden(
                    "spec.ephemeralContainers",
                    "cannot be set on create",
                ));
            }
            if !text(new, "/spec/nodeName").is_empty() && !list(new, "/spec/schedulingGates").is_empty() {
                let detail = "cannot be set until all schedulingGates have been cleared";
                errors.push(FieldError::forbidden("spec.nodeName", detail));
            }
            return;
        };
        let gated = !list(old, "/spec/schedulingGates").is_empty();
        if gated {
            gates::narrowed(&new["spec"], &old["spec"], errors);
        }
        // Images, deadlines and added tolerations may change; the rest of a pod may not.
        let rest = |pod: &Value| {
            let mut spec = pod["spec"].clone();
            for list in ["containers", "initContainers"] {
                for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    container.as_object_mut().map(|it| it.remove("image"));
                }
            }
            if let Some(map) = spec.as_object_mut() {
                for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName"] {
                    map.remove(key);
                }
                if gated {
                    gates::remove_changeable(map);
                }
                // A negative one, which was stored once, counts as 1 wherever it is read.
                if let Some(grace) = map.get_mut("terminationGracePeriodSeconds") {
                    *grace = grace.as_i64().map(|it| if it < 0 { 1 } else { it }).into();
                }
            }
            spec
        };
        if rest(new) != rest(old) {
            errors.push(FieldError::forbidden("spec", UNCHANGEABLE));
        }
        let deadline = |pod: &Value| pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
        let refusal = match (deadline(old), deadline(new)) {
            (Some(before), Some(now)) if before < now => Some("must be less than or equal to previous value"),
            (Some(_), None) => Some("must not update from a positive integer to nil value"),
            _ => None,
        };
        if let Some(detail) = refusal {
            let value = json!(deadline(new));
            errors.push(FieldError::invalid("spec.activeDeadlineSeconds", &value, detail));
        }
        // A toleration may come, and last longer or shorter; none may go.
        let tolerations = |pod: &Value| -> Vec<Value> {
            let mut all = list(pod, "/spec/tolerations").to_vec();
            for one in all.iter_mut().filter_map(Value::as_object_mut) {
                one.remove("tolerationSeconds");
            }
            all
        };
        let kept = tolerations(new);
        if tolerations(old).iter().any(|it| !kept.contains(it)) {
            errors.push(FieldError::forbidden(
                "spec.tolerations",
                "existing toleration can not be modified except its tolerationSeconds",
            ));
        }
        let gates = list(old, "/spec/schedulingGates");
        for (at, gate) in list(new, "/spec/schedulingGates").iter().enumerate() {
            if !gates.iter().any(|it| it["name"] == gate["name"]) {
                let name = text(gate, "/name");
                let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
                errors.push(FieldError::forbidden(
                    format!("spec.schedulingGates[{at}].name"),
                    detail,
                ));
            }
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        if old.is_none() {
            warnings::name("the Pod's hostname", new, warnings);
            warnings::pods::pod(new, "", warnings);
        }
    }

    fn prepare_for_create(&self, call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        pod_admission::prepare(call, value)
    }

    fn prepare_for_update(&self, call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        pod_admission::check_node(call, old, new)
    }

    fn added_late(&self) -> &'static [&'static str] {
        &[
            "/spec/nodeSelector",
            "/spec/overhead",
            "/spec/priority",
            "/spec/priorityClassName",
            "/spec/preemptionPolicy",
            "/spec/serviceAccount",
            "/spec/serviceAccountName",
            "/spec/tolerations",
        ]
    }

    fn status_metadata(&self) -> &'static [&'static str] {
        &["labels", "annotations", "finalizers", "managedFields"]
    }

    // The node that runs it deletes it with a grace of zero.
    fn may_vanish(&self, call: &Call<'_>, value: &Value) -> bool {
        object_meta::grace_left(value) == 0 || !is_on_a_node(call, value)
    }

    fn grace_seconds(&self, call: &Call<'_>, value: &Value, asked: Option<i64>) -> i64 {
        let over = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if over || !is_on_a_node(call, value) {
            return 0;
        }
        let own = || value["spec"]["terminationGracePeriodSeconds"].as_i64();
        asked.or_else(own).unwrap_or(30).max(0)
    }
}

/// PodTemplate.
pub struct PodTemplates;

impl Strategy for PodTemplates {
    fn columns(&self) -> Columns {
        Columns::new("Name|Containers|Images|Pod Labels", |it, _| {
            let (names, images) = cells::containers(it, &["template", "spec", "containers"]);
            vec![
                cells::name(it),
                names,
                images,
                cells::labels(cells::at(it, &["template", "metadata", "labels"])).into(),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        defaults::pods::template(entry(object, "template"));
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        template(&new["template"], "template", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        if old.is_none() {
            warnings::pods::pod(&new["template"], "template.", warnings);
        }
    }
}

/// A pod whose node does not exist is run by nobody, so that nobody would ever end its deletion.
fn is_on_a_node(call: &Call<'_>, pod: &Value) -> bool {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    !node.is_empty() && call.server.store.get("nodes", "", node).is_some()
}

/// What the statuses of the containers add up to.
#[derive(Default)]
struct Tally<'a> {
    restarts: i64,
    /// When a container last ended before it was started again; times of one form sort as text.
    last_restart: Option<&'a str>,
}

impl<'a> Tally<'a> {
    fn add(&mut self, container: &'a Value) {
        self.restarts += cells::number(container, &["restartCount"]);
        let finished = cells::at(container, &["lastState", "terminated", "finishedAt"]).as_str();
        self.last_restart = self.last_restart.max(finished);
    }
}

fn terminated_reason(state: &Value, prefix: &str) -> String {
    match (cells::text(state, &["reason"]), cells::number(state, &["signal"])) {
        ("", 0) => format!("{prefix}ExitCode:{}", cells::number(state, &["exitCode"])),
        ("", signal) => format!("{prefix}Signal:{signal}"),
        (reason, _) => format!("{prefix}{reason}"),
    }
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let mut reason = cells::or(
        cells::text(it, &["status", "reason"]),
        cells::text(it, &["status", "phase"]),
    )
    .to_owned();
    let gated =
        |it: &Value| cells::text(it, &["type"]) == "PodScheduled" && cells::text(it, &["reason"]) == "SchedulingGated";
    if cells::list(it, &["status", "conditions"]).iter().any(gated) {
        reason = "SchedulingGated".to_owned();
    }
    let init_specs = cells::list(it, &["spec", "initContainers"]);
    let is_sidecar = |container: &Value| {
        let spec = init_specs
            .iter()
            .find(|it| cells::text(it, &["name"]) == cells::text(container, &["name"]));
        spec.is_some_and(|it| cells::text(it, &["restartPolicy"]) == "Always")
    };
    let mut total =
        cells::list(it, &["spec", "containers"]).len() + init_specs.iter().filter(|it| is_sidecar(it)).count();
    let mut ready = 0;
    let mut tally = Tally::default();
    let mut sidecars = Tally::default();
    let mut initializing = false;
    for (index, container) in cells::list(it, &["status", "initContainerStatuses"]).iter().enumerate() {
        tally.add(container);
        let terminated = cells::at(container, &["state", "terminated"]);
        let waiting = cells::text(container, &["state", "waiting", "reason"]);
        if is_sidecar(container) {
            sidecars.add(container);
            if cells::at(container, &["started"]).as_bool() == Some(true) {
                ready += usize::from(cells::at(container, &["ready"]).as_bool() == Some(true));
                continue;
            }
        }
        if terminated.is_object() && cells::number(terminated, &["exitCode"]) == 0 {
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
    let initialized = cells::list(it, &["status", "conditions"])
        .iter()
        .any(|it| cells::text(it, &["type"]) == "Initialized" && cells::text(it, &["status"]) == "True");
    if !initializing || initialized {
        tally = sidecars;
        let mut has_running = false;
        for container in cells::list(it, &["status", "containerStatuses"]).iter().rev() {
            tally.add(container);
            let (waiting, terminated) = (
                cells::text(container, &["state", "waiting", "reason"]),
                cells::at(container, &["state", "terminated"]),
            );
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if terminated.is_object() {
                reason = terminated_reason(terminated, "");
            } else if cells::at(container, &["ready"]).as_bool() == Some(true)
                && cells::at(container, &["state", "running"]).is_object()
            {
                has_running = true;
                ready += 1;
            }
        }
        // A pod whose main container ended well while another still runs is not done.
        if reason == "Completed" && has_running {
            let is_ready = cells::list(it, &["status", "conditions"])
                .iter()
                .any(|it| cells::text(it, &["type"]) == "Ready" && cells::text(it, &["status"]) == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if !cells::at(it, &["metadata", "deletionTimestamp"]).is_null() {
        if cells::text(it, &["status", "reason"]) == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(cells::text(it, &["status", "phase"]), "Succeeded" | "Failed") {
            reason = "Terminating".to_owned();
        }
    }
    total = total.max(ready);
    let restarts = match tally.last_restart {
        Some(time) if tally.restarts > 0 => format!("{} ({} ago)", tally.restarts, since(Some(time), now)),
        _ => tally.restarts.to_string(),
    };
    let ip = cells::list(it, &["status", "podIPs"])
        .first()
        .map_or_else(|| cells::text(it, &["status", "podIP"]), |it| cells::text(it, &["ip"]));
    vec![
        cells::name(it),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        cells::age(it, now),
        cells::or(ip, cells::NONE).into(),
        cells::or(cells::text(it, &["spec", "nodeName"]), cells::NONE).into(),
        cells::or(cells::text(it, &["status", "nominatedNodeName"]), cells::NONE).into(),
        readiness_gates(it).into(),
    ]
}

fn readiness_gates(it: &Value) -> String {
    let gates = cells::list(it, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return cells::NONE.to_owned();
    }
    let is_true = |gate: &&Value| {
        let conditions = cells::list(it, &["status", "conditions"]).iter();
        conditions
            .filter(|it| cells::text(it, &["type"]) == cells::text(gate, &["conditionType"]))
            .any(|it| cells::text(it, &["status"]) == "True")
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}
