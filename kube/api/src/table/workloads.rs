//! Cells of workloads.

use super::{
    cells::{
        NONE, UNSET, age, at, condition, containers, count, int_or_string, labels, list, name, number, or, selector,
        text,
    },
    duration::since,
};
use crate::conversion::{Conversion, autoscaler::Autoscalers};
use jiff::Timestamp;
use kube_primitives::duration::human;
use serde_json::Value;

const TEMPLATE: [&str; 4] = ["spec", "template", "spec", "containers"];

/// A `LabelSelector`, or the plain map that a ReplicationController has.
fn workload_selector(it: &Value) -> Value {
    let found = at(it, &["spec", "selector"]);
    let is_label_selector =
        found.is_null() || found.get("matchLabels").is_some() || found.get("matchExpressions").is_some();
    if is_label_selector {
        selector(found)
    } else {
        labels(found)
    }
    .into()
}

/// Replicas wanted; Kubernetes defaults to one.
fn replicas(it: &Value) -> i64 {
    at(it, &["spec", "replicas"]).as_i64().unwrap_or(1)
}

pub(super) fn replica_set(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(it, &TEMPLATE);
    let (current, ready) = (
        number(it, &["status", "replicas"]),
        number(it, &["status", "readyReplicas"]),
    );
    vec![
        name(it),
        replicas(it).into(),
        current.into(),
        ready.into(),
        age(it, now),
        names,
        images,
        workload_selector(it),
    ]
}

pub(super) fn deployment(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(it, &TEMPLATE);
    let status = |field: &str| number(it, &["status", field]);
    vec![
        name(it),
        format!("{}/{}", status("readyReplicas"), replicas(it)).into(),
        status("updatedReplicas").into(),
        status("availableReplicas").into(),
        age(it, now),
        names,
        images,
        workload_selector(it),
    ]
}

pub(super) fn daemon_set(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(it, &TEMPLATE);
    let status = |field: &str| Value::from(number(it, &["status", field]));
    vec![
        name(it),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(at(it, &["spec", "template", "spec", "nodeSelector"])).into(),
        age(it, now),
        names,
        images,
        workload_selector(it),
    ]
}

pub(super) fn stateful_set(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(it, &TEMPLATE);
    let ready = format!("{}/{}", number(it, &["status", "readyReplicas"]), replicas(it));
    vec![name(it), ready.into(), age(it, now), names, images]
}

pub(super) fn controller_revision(it: &Value, now: Timestamp) -> Vec<Value> {
    let owners = list(it, &["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|it| at(it, &["controller"]).as_bool() == Some(true));
    let controller = controller.map_or_else(
        || NONE.to_owned(),
        |it| {
            let group = text(it, &["apiVersion"])
                .split_once('/')
                .map(|(group, _)| format!(".{group}"))
                .unwrap_or_default();
            format!("{}{group}/{}", text(it, &["kind"]).to_lowercase(), text(it, &["name"]))
        },
    );
    vec![
        name(it),
        controller.into(),
        number(it, &["revision"]).into(),
        age(it, now),
    ]
}

pub(super) fn job(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(it, &TEMPLATE);
    let status = if condition(it, "Complete") {
        "Complete"
    } else if condition(it, "Failed") {
        "Failed"
    } else if !at(it, &["metadata", "deletionTimestamp"]).is_null() {
        "Terminating"
    } else if condition(it, "Suspended") {
        "Suspended"
    } else if condition(it, "FailureTarget") {
        "FailureTarget"
    } else if condition(it, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = number(it, &["status", "succeeded"]);
    let completions = match (
        at(it, &["spec", "completions"]).as_i64(),
        number(it, &["spec", "parallelism"]),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let moment = |field: &str| text(it, &["status", field]).parse::<Timestamp>().ok();
    let duration = moment("startTime").map_or_else(String::new, |start| {
        let end = moment("completionTime").unwrap_or(now);
        human(end.duration_since(start).as_secs())
    });
    vec![
        name(it),
        status.into(),
        completions.into(),
        duration.into(),
        age(it, now),
        names,
        images,
        selector(at(it, &["spec", "selector"])).into(),
    ]
}

pub(super) fn cron_job(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(it, &["spec", "jobTemplate", "spec", "template", "spec", "containers"]);
    let suspend = match at(it, &["spec", "suspend"]).as_bool() {
        None => UNSET,
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = at(it, &["status", "lastScheduleTime"])
        .as_str()
        .map_or_else(|| NONE.to_owned(), |time| since(Some(time), now));
    vec![
        name(it),
        text(it, &["spec", "schedule"]).into(),
        or(text(it, &["spec", "timeZone"]), NONE).into(),
        suspend.into(),
        count(it, &["status", "active"]).into(),
        last.into(),
        age(it, now),
        names,
        images,
        selector(at(it, &["spec", "jobTemplate", "spec", "selector"])).into(),
    ]
}

pub(super) fn autoscaler(it: &Value, now: Timestamp) -> Vec<Value> {
    if it["apiVersion"] == "autoscaling/v1" {
        let mut newer = it.clone();
        Autoscalers.convert(&mut newer, "autoscaling/v2");
        newer["apiVersion"] = "autoscaling/v2".into();
        return autoscaler(&newer, now);
    }
    let target = |field: &str| text(it, &["spec", "scaleTargetRef", field]);
    let reference = format!("{}/{}", target("kind"), target("name"));
    let minimum = int_or_string(at(it, &["spec", "minReplicas"]), UNSET);
    let (maximum, current) = (
        number(it, &["spec", "maxReplicas"]),
        number(it, &["status", "currentReplicas"]),
    );
    vec![
        name(it),
        reference.into(),
        targets(it).into(),
        minimum.into(),
        maximum.into(),
        current.into(),
        age(it, now),
    ]
}

/// Current and wanted value of each metric; at most two are shown.
fn targets(it: &Value) -> String {
    let statuses = list(it, &["status", "currentMetrics"]);
    let specs = list(it, &["spec", "metrics"]);
    let metric = |(index, spec): (usize, &Value)| {
        let (source, prefix) = match text(spec, &["type"]) {
            "Resource" => ("resource", format!("{}: ", text(spec, &["resource", "name"]))),
            "ContainerResource" => (
                "containerResource",
                format!("{}: ", text(spec, &["containerResource", "name"])),
            ),
            "Pods" => ("pods", String::new()),
            "Object" => ("object", String::new()),
            "External" => ("external", String::new()),
            _ => return "<unknown type>".to_owned(),
        };
        let current = statuses
            .get(index)
            .map_or(&Value::Null, |it| at(it, &[source, "current"]));
        let wanted = at(spec, &[source, "target"]);
        let unknown = "<unknown>";
        match at(wanted, &["averageUtilization"]) {
            Value::Null => {
                let field = if wanted.get("averageValue").is_some() {
                    "averageValue"
                } else {
                    "value"
                };
                let average = if field == "averageValue" && matches!(source, "object" | "external") {
                    " (avg)"
                } else {
                    ""
                };
                let read = |from: &Value| int_or_string(at(from, &[field]), unknown);
                format!("{prefix}{}/{}{average}", read(current), read(wanted))
            }
            utilization => {
                let read = match at(current, &["averageUtilization"]) {
                    Value::Null => unknown.to_owned(),
                    found => format!("{found}%"),
                };
                format!("{prefix}{read}/{utilization}%")
            }
        }
    };
    let texts: Vec<String> = specs.iter().enumerate().map(metric).collect();
    match texts.len() {
        0 => NONE.to_owned(),
        1 | 2 => texts.join(", "),
        more => format!("{} + {} more...", texts[..2].join(", "), more - 2),
    }
}
