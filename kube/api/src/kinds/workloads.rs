//! The kinds that make pods, but for Jobs.

use super::{
    defaults::{self, entry, items, member, set, text_of},
    strategy::{Columns, Strategy},
    validation::{
        changed,
        fields::{FieldRule::*, FieldRules},
        immutable, int_or_percent, invalid_shown, list, not_more_than_all,
        pods::template,
        published,
        scheduling::{label_selector, matches, template_mismatch},
        text,
    },
    warnings,
};
use crate::table::cells;
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Deployment.
pub struct Deployments;

impl Strategy for Deployments {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
            deployment_row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "replicas", 1);
        set(spec, "revisionHistoryLimit", 10);
        set(spec, "progressDeadlineSeconds", 600);
        let strategy = entry(spec, "strategy");
        set(strategy, "type", "RollingUpdate");
        if text_of(strategy, "type") == "RollingUpdate" {
            let rolling = entry(strategy, "rollingUpdate");
            set(rolling, "maxUnavailable", "25%");
            set(rolling, "maxSurge", "25%");
        }
        defaults::pods::template(entry(spec, "template"));
        entry(object, "status");
    }

    fn fields(&self) -> FieldRules {
        &[
            (
                "spec.replicas|minReadySeconds|revisionHistoryLimit|progressDeadlineSeconds",
                AtLeast(0),
            ),
            ("spec.selector", Immutable),
            ("spec.template.spec.restartPolicy", OneOf(&["Always"])),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if !changed(new, old, "/spec") {
            return;
        }
        replicated_pods(new, old, errors);
        let strategy = &new["spec"]["strategy"];
        let update = &strategy["rollingUpdate"];
        match text(strategy, "/type") {
            "Recreate" => {
                if !update.is_null() {
                    let detail = "may not be specified when strategy `type` is 'Recreate'";
                    errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
                }
            }
            "RollingUpdate" => rolling_deployment(update, errors),
            other => errors.push(unknown_strategy(
                "spec.strategy",
                other,
                &bounds_shown(update),
                ["Recreate", "RollingUpdate"],
            )),
        }
        let seconds = |key: &str| new["spec"][key].as_i64();
        let deadline = seconds("progressDeadlineSeconds");
        if deadline.is_some_and(|it| it <= seconds("minReadySeconds").unwrap_or_default()) {
            let detail = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid(
                "spec.progressDeadlineSeconds",
                &json!(deadline),
                detail,
            ));
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        warnings::template(true, new, old, warnings);
    }

    fn status_metadata(&self) -> &'static [&'static str] {
        &["annotations", "finalizers", "ownerReferences", "managedFields"]
    }

    // The one kind whose annotations count: its controller copies them to ReplicaSets.
    fn generation_metadata(&self) -> Option<&'static str> {
        Some("annotations")
    }
}

/// What Deployments and ReplicaSets say of their pods: a selector, and a template for what lasts.
fn replicated_pods(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if selector(new, "deployment", errors) && changed(new, old, "/spec/template") {
        template(&new["spec"]["template"], "spec.template", errors);
        lasting(new, "ReplicaSet", errors);
    }
}

/// ReplicaSet.
pub struct ReplicaSets;

impl Strategy for ReplicaSets {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
            replica_set_row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "replicas", 1);
        defaults::pods::template(entry(spec, "template"));
        set(entry(object, "status"), "replicas", 0);
    }

    fn fields(&self) -> FieldRules {
        &[
            ("spec.replicas|minReadySeconds", AtLeast(0)),
            ("spec.selector", Immutable),
            ("spec.template.spec.restartPolicy", OneOf(&["Always"])),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if !changed(new, old, "/spec") {
            return;
        }
        replicated_pods(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        warnings::template(true, new, old, warnings);
    }
}

/// ReplicationController, on which nothing here acts.
pub struct ReplicationControllers;

impl Strategy for ReplicationControllers {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
            replica_set_row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "replicas", 1);
        // Of the workloads it is the only one whose template may be absent, which is then said.
        if let Some(template) = member(spec, "template") {
            defaults::pods::template(template);
        }
        let labels = spec.get("template").and_then(|it| it.pointer("/metadata/labels"));
        let labels = labels.filter(|it| it.is_object()).cloned();
        if let Some(labels) = labels {
            set(spec, "selector", labels.clone());
            set(entry(object, "metadata"), "labels", labels);
        }
        set(entry(object, "status"), "replicas", 0);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        warnings::template(true, new, old, warnings);
    }
}

/// DaemonSet.
pub struct DaemonSets;

impl Strategy for DaemonSets {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|Containers*|Images*|Selector*",
            daemon_set_row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "revisionHistoryLimit", 10);
        let strategy = entry(spec, "updateStrategy");
        set(strategy, "type", "RollingUpdate");
        if text_of(strategy, "type") == "RollingUpdate" {
            let rolling = entry(strategy, "rollingUpdate");
            set(rolling, "maxUnavailable", 1);
            set(rolling, "maxSurge", 0);
        }
        defaults::pods::template(entry(spec, "template"));
        set(
            entry(entry(object, "metadata"), "annotations"),
            "deprecated.daemonset.template.generation",
            "1",
        );
        let status = entry(object, "status");
        for counter in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
        ] {
            set(status, counter, 0);
        }
    }

    fn fields(&self) -> FieldRules {
        &[
            ("spec.minReadySeconds|revisionHistoryLimit", AtLeast(0)),
            ("spec.selector", Immutable),
            ("spec.template.spec.restartPolicy", OneOf(&["Always"])),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if !changed(new, old, "/spec") {
            return;
        }
        let given = &new["spec"]["selector"];
        if given.is_null() {
            // Upstream misses it only by what it selects: nothing.
            errors.push(template_mismatch(new));
        } else {
            selector(new, "daemonset", errors);
        }
        if changed(new, old, "/spec/template") {
            template(&new["spec"]["template"], "spec.template", errors);
            lasting(new, "DaemonSet", errors);
        }
        rolling_daemon_set(new, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        warnings::template(false, new, old, warnings);
    }
}

/// StatefulSet.
pub struct StatefulSets;

impl Strategy for StatefulSets {
    fn columns(&self) -> Columns {
        Columns::new("Name|Ready|Age|Containers*|Images*", stateful_set_row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "replicas", 1);
        set(spec, "podManagementPolicy", "OrderedReady");
        // Go does not leave it out.
        set(spec, "serviceName", "");
        set(spec, "revisionHistoryLimit", 10);
        let strategy = entry(spec, "updateStrategy");
        set(strategy, "type", "RollingUpdate");
        if text_of(strategy, "type") == "RollingUpdate" {
            set(entry(strategy, "rollingUpdate"), "partition", 0);
        }
        // Kubernetes knows the field, and has it switched off: what it says is lost there, too.
        if let Some(update) = member(strategy, "rollingUpdate") {
            update.remove("maxUnavailable");
        }
        let policy = entry(spec, "persistentVolumeClaimRetentionPolicy");
        set(policy, "whenDeleted", "Retain");
        set(policy, "whenScaled", "Retain");
        for claim in items(spec, "volumeClaimTemplates") {
            set(claim, "kind", "PersistentVolumeClaim");
            set(claim, "apiVersion", "v1");
            defaults::volumes::claim(claim);
        }
        defaults::pods::template(entry(spec, "template"));
        let status = entry(object, "status");
        set(status, "replicas", 0);
        set(status, "availableReplicas", 0);
    }

    fn fields(&self) -> FieldRules {
        &[
            ("spec.replicas|minReadySeconds", AtLeast(0)),
            ("spec.ordinals.start", AtLeast(0)),
            ("spec.updateStrategy.rollingUpdate.partition", AtLeast(0)),
            (
                "spec.persistentVolumeClaimRetentionPolicy.whenDeleted|whenScaled",
                OneOf(&["Retain", "Delete"]),
            ),
            ("spec.serviceName", Label),
            ("spec.template.spec.restartPolicy", OneOf(&["Always"])),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        const POLICIES: [&str; 2] = ["OrderedReady", "Parallel"];
        if !changed(new, old, "/spec") {
            return;
        }
        let policy = text(new, "/spec/podManagementPolicy");
        if !POLICIES.contains(&policy) {
            let detail = format!("must be '{}' or '{}'", POLICIES[0], POLICIES[1]);
            errors.push(FieldError::invalid("spec.podManagementPolicy", &json!(policy), detail));
        }
        rolling_stateful_set(new, errors);
        let (claims, field) = (&new["spec"]["volumeClaimTemplates"], "spec.volumeClaimTemplates");
        // What may not change is not checked again.
        if old.is_none() {
            published::member(
                "io.k8s.api.apps.v1.StatefulSetSpec",
                "volumeClaimTemplates",
                claims,
                field,
                errors,
            );
        }
        let readable = selector(new, "statefulset", errors);
        if changed(new, old, "/spec/template") {
            if readable {
                template(&with_claims(new), "spec.template", errors);
            }
            lasting(new, "StatefulSet", errors);
        }
        const KEPT: [&str; 4] = ["serviceName", "podManagementPolicy", "volumeClaimTemplates", "selector"];
        if old.is_some_and(|old| KEPT.iter().any(|key| new["spec"].get(*key) != old["spec"].get(*key))) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                          'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.push(FieldError::forbidden("spec", detail));
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        warnings::template(false, new, old, warnings);
        if new["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|it| it < 0) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .to_owned(),
            );
        }
    }
}

/// ControllerRevision.
pub struct ControllerRevisions;

impl Strategy for ControllerRevisions {
    fn columns(&self) -> Columns {
        Columns::new("Name|Controller|Revision|Age", controller_revision_row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        set(object, "revision", 0);
    }

    fn fields(&self) -> FieldRules {
        &[("revision", AtLeast(0))]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        match &new["data"] {
            _ if old.is_some() => immutable(new, old, "/data", "data", errors),
            Value::Object(_) => {}
            Value::Null => errors.push(FieldError::required("data", "data is mandatory")),
            _ => errors.push(FieldError::required("data", "data must be a valid JSON object")),
        }
    }
}

/// Pods that are made anew whenever they end have no time to end in.
fn lasting(new: &Value, maker: &str, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"]["template"]["spec"];
    if !spec["activeDeadlineSeconds"].is_null() {
        let field = "spec.template.spec.activeDeadlineSeconds";
        let detail = format!("activeDeadlineSeconds in {maker} is not Supported");
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// The bounds of a rolling update as the server within Kubernetes has them.
fn bounds_shown(update: &Value) -> String {
    let shown = |key: &str| match &update[key] {
        Value::Null => "0".to_owned(),
        bound => bound.to_string(),
    };
    match update.is_object() {
        true => format!(
            r#"{{"MaxUnavailable":{},"MaxSurge":{}}}"#,
            shown("maxUnavailable"),
            shown("maxSurge")
        ),
        false => "null".to_owned(),
    }
}

/// An unknown kind of strategy is told of the strategy as a whole.
fn unknown_strategy(field: &str, kind: &str, update: &str, known: [&str; 2]) -> FieldError {
    let [first, second] = known;
    FieldError {
        reason: "FieldValueNotSupported",
        field: field.to_owned(),
        detail: format!(
            r#"Unsupported value: {{"Type":{kind:?},"RollingUpdate":{update}}}: supported values: "{first}", "{second}""#
        ),
    }
}

/// A number or a percentage that stands for none.
fn is_none(value: &Value) -> bool {
    match value {
        // A text that says nothing of the kind counts as none, too.
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse().unwrap_or(0) == 0,
        value => value.as_i64().unwrap_or_default() == 0,
    }
}

fn rolling_deployment(update: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.strategy.rollingUpdate";
    let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
    let field = format!("{place}.maxUnavailable");
    int_or_percent(unavailable, &field, errors);
    int_or_percent(surge, &format!("{place}.maxSurge"), errors);
    if is_none(unavailable) && is_none(surge) {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&field, unavailable, detail));
    }
    not_more_than_all(unavailable, &field, errors);
}

fn rolling_daemon_set(new: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.updateStrategy";
    let update = &new["spec"]["updateStrategy"]["rollingUpdate"];
    match text(new, "/spec/updateStrategy/type") {
        "RollingUpdate" => {}
        "OnDelete" => return,
        other => {
            let known = ["RollingUpdate", "OnDelete"];
            errors.push(unknown_strategy(place, other, &bounds_shown(update), known));
            return;
        }
    }
    let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
    let bounds = [("maxUnavailable", unavailable), ("maxSurge", surge)];
    for check in [int_or_percent, not_more_than_all] {
        for (key, value) in bounds {
            check(value, &format!("{place}.rollingUpdate.{key}"), errors);
        }
    }
    match (is_none(unavailable), is_none(surge)) {
        (false, false) => errors.push(FieldError::invalid(
            format!("{place}.rollingUpdate.maxSurge"),
            surge,
            "may not be set when maxUnavailable is non-zero",
        )),
        (true, true) => errors.push(FieldError::required(
            format!("{place}.rollingUpdate.maxUnavailable"),
            "cannot be 0 when maxSurge is 0",
        )),
        _ => {}
    }
}

fn rolling_stateful_set(new: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.updateStrategy.rollingUpdate";
    let update = &new["spec"]["updateStrategy"]["rollingUpdate"];
    let shown = |it: &Value| match it.is_object() {
        true => format!(
            r#"{{"Partition":{},"MaxUnavailable":null}}"#,
            it["partition"].as_i64().unwrap_or_default()
        ),
        false => "null".to_owned(),
    };
    match text(new, "/spec/updateStrategy/type") {
        "RollingUpdate" => {}
        "OnDelete" => {
            if update.is_object() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(invalid_shown(place, &shown(update), detail));
            }
        }
        other => {
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":{}}}"#, shown(update));
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(invalid_shown("spec.updateStrategy", &shown, detail));
        }
    }
}

/// The template of a StatefulSet with the volumes that its claims become, which its containers may mount, too; what its
/// controller writes over is not looked at.
fn with_claims(new: &Value) -> Value {
    let mut template = new["spec"]["template"].clone();
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    for key in ["subdomain", "hostname"] {
        spec.remove(key);
    }
    let claims = list(new, "/spec/volumeClaimTemplates");
    if claims.is_empty() {
        return template;
    }
    let mut names = HashSet::new();
    let mut volumes = Vec::new();
    for name in claims.iter().map(|it| text(it, "/metadata/name")) {
        if names.insert(name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    let own = spec.remove("volumes").unwrap_or_default();
    let others = own.as_array().into_iter().flatten();
    volumes.extend(others.filter(|it| !names.contains(text(it, "/name"))).cloned());
    spec.insert("volumes".to_owned(), volumes.into());
    template
}

/// A workload selects its own pods: the selector is given, not empty, and matches the labels of the template. Answers
/// whether it can be read. `maker` is what upstream calls the workload.
fn selector(new: &Value, maker: &str, errors: &mut Vec<FieldError>) -> bool {
    let Some(selector) = new.pointer("/spec/selector").filter(|it| !it.is_null()) else {
        errors.push(FieldError::required("spec.selector", ""));
        errors.push(template_mismatch(new));
        return true;
    };
    let before = errors.len();
    label_selector(selector, "spec.selector", errors);
    let readable = errors.len() == before;
    let empty = |key: &str| match selector.get(key) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    };
    if empty("matchLabels") && empty("matchExpressions") {
        let detail = format!("empty selector is invalid for {maker}");
        errors.push(FieldError::invalid("spec.selector", selector, detail));
    } else if readable && !matches(selector, &new["spec"]["template"]["metadata"]["labels"]) {
        errors.push(template_mismatch(new));
    }
    match maker {
        _ if readable => {}
        "deployment" => errors.push(FieldError::invalid("spec.selector", selector, "invalid label selector")),
        "statefulset" => errors.push(FieldError {
            reason: "FieldValueInvalid",
            field: "spec.selector".to_owned(),
            detail: format!("Invalid value: {selector}"),
        }),
        _ => {}
    }
    readable
}

const TEMPLATE: [&str; 4] = ["spec", "template", "spec", "containers"];

/// A `LabelSelector`, or the plain map that a ReplicationController has.
fn workload_selector(it: &Value) -> Value {
    let found = cells::at(it, &["spec", "selector"]);
    let is_label_selector =
        found.is_null() || found.get("matchLabels").is_some() || found.get("matchExpressions").is_some();
    if is_label_selector {
        cells::selector(found)
    } else {
        cells::labels(found)
    }
    .into()
}

/// Replicas wanted; Kubernetes defaults to one.
fn replicas(it: &Value) -> i64 {
    cells::at(it, &["spec", "replicas"]).as_i64().unwrap_or(1)
}

fn replica_set_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = cells::containers(it, &TEMPLATE);
    let (current, ready) = (
        cells::number(it, &["status", "replicas"]),
        cells::number(it, &["status", "readyReplicas"]),
    );
    vec![
        cells::name(it),
        replicas(it).into(),
        current.into(),
        ready.into(),
        cells::age(it, now),
        names,
        images,
        workload_selector(it),
    ]
}

fn deployment_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = cells::containers(it, &TEMPLATE);
    let status = |field: &str| cells::number(it, &["status", field]);
    vec![
        cells::name(it),
        format!("{}/{}", status("readyReplicas"), replicas(it)).into(),
        status("updatedReplicas").into(),
        status("availableReplicas").into(),
        cells::age(it, now),
        names,
        images,
        workload_selector(it),
    ]
}

fn daemon_set_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = cells::containers(it, &TEMPLATE);
    let status = |field: &str| Value::from(cells::number(it, &["status", field]));
    vec![
        cells::name(it),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        cells::labels(cells::at(it, &["spec", "template", "spec", "nodeSelector"])).into(),
        cells::age(it, now),
        names,
        images,
        workload_selector(it),
    ]
}

fn stateful_set_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = cells::containers(it, &TEMPLATE);
    let ready = format!("{}/{}", cells::number(it, &["status", "readyReplicas"]), replicas(it));
    vec![cells::name(it), ready.into(), cells::age(it, now), names, images]
}

fn controller_revision_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let owners = cells::list(it, &["metadata", "ownerReferences"]);
    let controller = owners
        .iter()
        .find(|it| cells::at(it, &["controller"]).as_bool() == Some(true));
    let controller = controller.map_or_else(
        || cells::NONE.to_owned(),
        |it| {
            let group = cells::text(it, &["apiVersion"])
                .split_once('/')
                .map(|(group, _)| format!(".{group}"))
                .unwrap_or_default();
            format!(
                "{}{group}/{}",
                cells::text(it, &["kind"]).to_lowercase(),
                cells::text(it, &["name"])
            )
        },
    );
    vec![
        cells::name(it),
        controller.into(),
        cells::number(it, &["revision"]).into(),
        cells::age(it, now),
    ]
}
