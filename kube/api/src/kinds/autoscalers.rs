//! HorizontalPodAutoscalers, on which nothing here acts.

use super::{
    defaults::{entry, set, text_of},
    strategy::{Columns, Strategy},
    validation::published,
};
use crate::{
    conversion::{Conversion, autoscaler::Autoscalers},
    table::cells,
};
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value};

/// HorizontalPodAutoscaler.
pub struct HorizontalPodAutoscalers;

impl Strategy for HorizontalPodAutoscalers {
    fn other_versions(&self) -> &'static [&'static str] {
        &["v1"]
    }

    fn columns(&self) -> Columns {
        Columns::new("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        // Members that Go does not leave out.
        let is_older = text_of(object, "apiVersion") == "autoscaling/v1";
        let status = entry(object, "status");
        set(status, "desiredReplicas", 0);
        match is_older {
            true => set(status, "currentReplicas", 0),
            false => set(status, "currentMetrics", Value::Null),
        }
        entry(object, "spec");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    if it["apiVersion"] == "autoscaling/v1" {
        let mut newer = it.clone();
        Autoscalers.convert(&mut newer, "autoscaling/v2");
        newer["apiVersion"] = "autoscaling/v2".into();
        return row(&newer, now);
    }
    let target = |field: &str| cells::text(it, &["spec", "scaleTargetRef", field]);
    let reference = format!("{}/{}", target("kind"), target("name"));
    let minimum = cells::int_or_string(cells::at(it, &["spec", "minReplicas"]), cells::UNSET);
    let (maximum, current) = (
        cells::number(it, &["spec", "maxReplicas"]),
        cells::number(it, &["status", "currentReplicas"]),
    );
    vec![
        cells::name(it),
        reference.into(),
        targets(it).into(),
        minimum.into(),
        maximum.into(),
        current.into(),
        cells::age(it, now),
    ]
}

/// Current and wanted value of each metric; at most two are shown.
fn targets(it: &Value) -> String {
    let statuses = cells::list(it, &["status", "currentMetrics"]);
    let specs = cells::list(it, &["spec", "metrics"]);
    let metric = |(index, spec): (usize, &Value)| {
        let (source, prefix) = match cells::text(spec, &["type"]) {
            "Resource" => ("resource", format!("{}: ", cells::text(spec, &["resource", "name"]))),
            "ContainerResource" => (
                "containerResource",
                format!("{}: ", cells::text(spec, &["containerResource", "name"])),
            ),
            "Pods" => ("pods", String::new()),
            "Object" => ("object", String::new()),
            "External" => ("external", String::new()),
            _ => return "<unknown type>".to_owned(),
        };
        let current = statuses
            .get(index)
            .map_or(&Value::Null, |it| cells::at(it, &[source, "current"]));
        let wanted = cells::at(spec, &[source, "target"]);
        let unknown = "<unknown>";
        match cells::at(wanted, &["averageUtilization"]) {
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
                let read = |from: &Value| cells::int_or_string(cells::at(from, &[field]), unknown);
                format!("{prefix}{}/{}{average}", read(current), read(wanted))
            }
            utilization => {
                let read = match cells::at(current, &["averageUtilization"]) {
                    Value::Null => unknown.to_owned(),
                    found => format!("{found}%"),
                };
                format!("{prefix}{read}/{utilization}%")
            }
        }
    };
    let texts: Vec<String> = specs.iter().enumerate().map(metric).collect();
    match texts.len() {
        0 => cells::NONE.to_owned(),
        1 | 2 => texts.join(", "),
        more => format!("{} + {} more...", texts[..2].join(", "), more - 2),
    }
}
