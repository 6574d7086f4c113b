//! Events of both groups: the older asks of them what it has always asked, the newer more.
//! Upstream: pkg/apis/core/validation/events.go. Its fields are named as the kind within Kubernetes has them.

use super::{
    defaults::{entry, set},
    strategy::{Columns, Strategy},
    validation::{qualified_name, text},
};
use crate::table::{cells, duration::since};
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value, json};

/// Event of the core group.
pub struct CoreEvents;

impl Strategy for CoreEvents {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn columns(&self) -> Columns {
        printed()
    }

    fn default(&self, object: &mut Map<String, Value>) {
        for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            set(object, key, Value::Null);
        }
        entry(object, "involvedObject");
        entry(object, "source");
        set(object, "reportingComponent", "");
        set(object, "reportingInstance", "");
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let names = Names {
            involved: "involvedObject",
            controller: "reportingComponent",
            note: "message",
        };
        legacy(new, &names, errors);
    }
}

/// What `kubectl get` prints of either kind of event.
fn printed() -> Columns {
    Columns::new(
        "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*",
        row,
    )
}

/// Event of `events.k8s.io`.
pub struct Events;

impl Strategy for Events {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ]
    }

    fn columns(&self) -> Columns {
        printed()
    }

    fn default(&self, object: &mut Map<String, Value>) {
        for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
            set(object, key, Value::Null);
        }
        entry(object, "deprecatedSource");
        entry(object, "regarding");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let names = Names {
            involved: "regarding",
            controller: "reportingController",
            note: "note",
        };
        legacy(new, &names, errors);
        if old.is_none_or(|it| it["series"] != new["series"]) {
            series(new, errors);
        }
        match old {
            None => create(new, errors),
            Some(old) => update(new, old, errors),
        }
    }
}

/// What the same member is called.
struct Names {
    involved: &'static str,
    controller: &'static str,
    note: &'static str,
}

/// Errors that an event of either group has. One of the newer kind is known by its time.
fn legacy(new: &Value, names: &Names, errors: &mut Vec<FieldError>) {
    const LENGTH_MAX: usize = 128;
    const NOTE_LENGTH_MAX: usize = 1024;
    let own = text(new, "/metadata/namespace");
    let involved = new[names.involved]["namespace"].as_str().unwrap_or_default();
    let is_new = !text(new, "/eventTime").is_empty();
    // What lives in no namespace has its events in `default`.
    let fits = match (involved.is_empty(), is_new) {
        (true, true) => ["default", "kube-system"].contains(&own),
        (true, false) => ["", "default"].contains(&own),
        (false, true) => true,
        (false, false) => involved == own,
    };
    if !fits {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid(
            "involvedObject.namespace",
            &json!(involved),
            detail,
        ));
    }
    if !is_new {
        return;
    }
    let too_long = |field: &str, most: usize, errors: &mut Vec<FieldError>| {
        let detail = format!("can have at most {most} characters");
        errors.push(FieldError::invalid(field, &json!(""), detail));
    };
    let controller = new[names.controller].as_str().unwrap_or_default();
    if controller.is_empty() {
        errors.push(FieldError::required(names.controller, ""));
    }
    qualified_name(controller, names.controller, errors);
    for key in ["reportingInstance", "action", "reason"] {
        let given = new[key].as_str().unwrap_or_default();
        if given.is_empty() {
            errors.push(FieldError::required(key, ""));
        }
        if given.len() > LENGTH_MAX {
            too_long(key, LENGTH_MAX, errors);
        }
    }
    if new[names.note].as_str().is_some_and(|it| it.len() > NOTE_LENGTH_MAX) {
        too_long("message", NOTE_LENGTH_MAX, errors);
    }
}

/// What happened once is no series.
fn series(new: &Value, errors: &mut Vec<FieldError>) {
    let series = &new["series"];
    if series.is_null() {
        return;
    }
    if series["count"].as_i64().unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", &json!(""), "should be at least 2"));
    }
    if text(series, "/lastObservedTime").is_empty() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn create(new: &Value, errors: &mut Vec<FieldError>) {
    if text(new, "/eventTime").is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let mut wrong = |field: &str, detail: String| errors.push(FieldError::invalid(field, &json!(""), detail));
    let kind = text(new, "/type");
    if !["Normal", "Warning"].contains(&kind) {
        wrong("type", format!("has invalid value: {kind}"));
    }
    for (key, field) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        let is_unset = match &new[key] {
            Value::Null => true,
            Value::Object(it) => it.is_empty(),
            it => *it == 0,
        };
        if !is_unset {
            wrong(field, "needs to be unset".to_owned());
        }
    }
}

/// Of what happened nothing changes but how often.
fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for (key, field) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if new[key] != old[key] {
            errors.push(FieldError::invalid(field, &new[key], "field is immutable"));
        }
    }
}

/// Both groups of events, which name the same things differently.
fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let either = |one: &[&str], other: &[&str]| cells::or(cells::text(it, one), cells::text(it, other)).to_owned();
    let subject = if it.get("regarding").is_some() {
        "regarding"
    } else {
        "involvedObject"
    };
    let first_time = either(&["firstTimestamp"], &["deprecatedFirstTimestamp"]);
    let first = since(Some(cells::or(&first_time, cells::text(it, &["eventTime"]))), now);
    let last_time = either(&["lastTimestamp"], &["deprecatedLastTimestamp"]);
    let series = cells::at(it, &["series"]);
    let count = cells::number(it, &["count"]).max(cells::number(it, &["deprecatedCount"]));
    let (last, count) = match series {
        Value::Object(_) => (
            since(cells::at(series, &["lastObservedTime"]).as_str(), now),
            cells::number(series, &["count"]),
        ),
        _ => (
            if last_time.is_empty() {
                first.clone()
            } else {
                since(Some(&last_time), now)
            },
            count.max(1),
        ),
    };
    let component = either(&["source", "component"], &["deprecatedSource", "component"]);
    let component = cells::or(
        &component,
        cells::or(
            cells::text(it, &["reportingComponent"]),
            cells::text(it, &["reportingController"]),
        ),
    )
    .to_owned();
    let host = either(&["source", "host"], &["deprecatedSource", "host"]);
    let host = cells::or(&host, cells::text(it, &["reportingInstance"])).to_owned();
    let source = if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    };
    let object = match cells::text(it, &[subject, "kind"]) {
        "" => cells::text(it, &[subject, "name"]).to_owned(),
        kind => format!("{}/{}", kind.to_lowercase(), cells::text(it, &[subject, "name"])),
    };
    vec![
        last.into(),
        cells::text(it, &["type"]).into(),
        cells::text(it, &["reason"]).into(),
        object.into(),
        cells::text(it, &[subject, "fieldPath"]).into(),
        source.into(),
        either(&["message"], &["note"]).trim().into(),
        first.into(),
        count.into(),
        cells::name(it),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::validation::said;

    #[test]
    fn an_event_with_a_time_says_who_did_what() {
        let about =
            |namespace: &str| json!({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": namespace}});
        assert!(said(|it| CoreEvents.validate(&about("n"), None, it)).is_empty());
        let want = ["involvedObject.namespace: Invalid value: \"m\": does not match event.namespace"];
        assert_eq!(said(|it| CoreEvents.validate(&about("m"), None, it)), want);
        let mut new = about("m");
        new["eventTime"] = "2026-01-01T00:00:00.000000Z".into();
        let said_of_new = said(|it| CoreEvents.validate(&new, None, it));
        let (last, first) = (said_of_new.len() - 3, "reportingComponent: Required value");
        assert_eq!(said_of_new[0], first);
        assert_eq!(
            said_of_new[last..],
            [
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value"
            ]
        );
        for (key, value) in [
            ("reportingComponent", "ex.io/c"),
            ("reportingInstance", "i"),
            ("action", "A"),
            ("reason", "R"),
        ] {
            new[key] = value.into();
        }
        assert!(said(|it| CoreEvents.validate(&new, None, it)).is_empty());
    }

    #[test]
    fn events_of_the_new_group_only_change_their_series() {
        let good = json!({
            "metadata": {"namespace": "n"}, "regarding": {"kind": "Pod", "namespace": "n", "name": "p"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "R", "action": "A",
            "reportingController": "ex.io/c", "reportingInstance": "i",
        });
        assert!(said(|it| Events.validate(&good, None, it)).is_empty());
        let with = |key: &str, value: Value| {
            let mut new = good.clone();
            new[key] = value;
            new
        };
        let series = with(
            "series",
            json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}),
        );
        assert!(said(|it| Events.validate(&series, Some(&good), it)).is_empty());
        assert_eq!(
            said(|it| Events.validate(&with("reason", json!("S")), Some(&good), it)),
            ["reason: Invalid value: \"S\": field is immutable"]
        );
        assert_eq!(
            said(|it| Events.validate(&with("deprecatedCount", json!(3)), None, it)),
            ["count: Invalid value: \"\": needs to be unset"]
        );
    }
}
