//! Jobs: when one is done, and whose its pods are. Facts from Kubernetes `pkg/apis/batch/validation` and
//! `pkg/registry/batch/job`.

use super::{
    defaults::{self, entry, items, member, set, text_of},
    strategy::{Columns, Strategy},
    validation::{
        self, changed,
        fields::{FieldRule::*, FieldRules},
        immutable, list,
        pods::template,
        published,
        scheduling::{label_selector, matches, template_mismatch},
        subdomain, supported, text,
    },
    warnings,
};
use crate::table::{cells, duration::since};
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value, json};

/// Job.
pub struct Jobs;

impl Strategy for Jobs {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*",
            row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            set(spec, "completions", 1);
        }
        set(spec, "parallelism", 1);
        let per_index = spec.contains_key("backoffLimitPerIndex");
        set(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
        set(spec, "completionMode", "NonIndexed");
        set(spec, "suspend", false);
        let has_policy = spec.contains_key("podFailurePolicy");
        set(
            spec,
            "podReplacementPolicy",
            if has_policy { "Failed" } else { "TerminatingOrFailed" },
        );
        set(spec, "manualSelector", false);
        failure_policy(spec);
        defaults::pods::template(entry(spec, "template"));
        job_selector(object);
        entry(object, "status");
    }

    fn fields(&self) -> FieldRules {
        &[
            (
                "spec.parallelism|completions|activeDeadlineSeconds|backoffLimit|ttlSecondsAfterFinished",
                AtLeast(0),
            ),
            ("spec.backoffLimitPerIndex|maxFailedIndexes", AtLeast(0)),
            ("spec.completionMode", OneOf(&["NonIndexed", "Indexed"])),
            ("spec.podReplacementPolicy", OneOf(&["Failed", "TerminatingOrFailed"])),
            (
                "spec.selector|completionMode|podFailurePolicy|backoffLimitPerIndex|managedBy|successPolicy",
                Immutable,
            ),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if !changed(new, old, "/spec") {
            return;
        }
        let spec = &new["spec"];
        let is_own = spec["manualSelector"] != true;
        if is_own && !spec["selector"].is_null() {
            generated_selector(new, old, errors);
        }
        let keeps_template = !changed(new, old, "/spec/template");
        job_spec(spec, keeps_template, "spec", errors);
        if spec["selector"].is_null() {
            errors.push(FieldError::required("spec.selector", ""));
        }
        let before = errors.len();
        label_selector(&spec["selector"], "spec.selector", errors);
        let labels = &spec["template"]["metadata"]["labels"];
        if errors.len() == before && (spec["selector"].is_null() || !matches(&spec["selector"], labels)) {
            errors.push(template_mismatch(new));
        }
        let completions = spec["completions"].as_i64().unwrap_or_default();
        if is_indexed(spec) && completions > 0 {
            let name = text(new, "/metadata/name");
            let host = format!("{name}-{}", completions - 1);
            if !kube_store::schema::metadata::label_errors(&host).is_empty() {
                let detail = format!("will not able to create pod with invalid DNS label: {host}");
                errors.push(FieldError::invalid("metadata.name", &json!(name), detail));
            }
        }
        if let Some(old) = old {
            job_update(new, old, errors);
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
        if !validation::changed(new, old, "/spec") {
            return;
        }
        if old.is_none() {
            warnings::name("Pod names and hostnames", new, warnings);
        }
        let spec = &new["spec"];
        let number = |key: &str| spec[key].as_i64().unwrap_or_default();
        if spec["completionMode"] == "Indexed" && number("completions") > 100_000 && number("parallelism") > 10_000 {
            warnings.push(
                "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not \
                 be able to track completedIndexes when a big number of indexes fail"
                    .to_owned(),
            );
        }
        warnings::pods::pod(&spec["template"], "spec.template.", warnings);
    }

    fn added_late(&self) -> &'static [&'static str] {
        &[
            "/spec/selector",
            "/metadata/labels",
            "/metadata/labels/batch.kubernetes.io~1controller-uid",
            "/metadata/labels/batch.kubernetes.io~1job-name",
            "/metadata/labels/controller-uid",
            "/metadata/labels/job-name",
            "/spec/template/metadata/labels",
            "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
            "/spec/template/metadata/labels/batch.kubernetes.io~1job-name",
            "/spec/template/metadata/labels/controller-uid",
            "/spec/template/metadata/labels/job-name",
        ]
    }
}

/// CronJob, on which nothing here acts.
pub struct CronJobs;

impl Strategy for CronJobs {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
            cron_job_row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "concurrencyPolicy", "Allow");
        set(spec, "suspend", false);
        set(spec, "successfulJobsHistoryLimit", 3);
        set(spec, "failedJobsHistoryLimit", 1);
        let job = entry(spec, "jobTemplate");
        entry(job, "metadata");
        let job = entry(job, "spec");
        failure_policy(job);
        let template = entry(job, "template");
        entry(template, "metadata");
        defaults::pods::template(template);
        entry(object, "status");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

fn is_indexed(spec: &Value) -> bool {
    spec["completionMode"] == "Indexed"
}

/// The labels by which a job knows its pods, and what each has of the job.
fn own_labels(job: &Value) -> [(&'static str, Value); 4] {
    let own = |key: &str| json!(text(job, &format!("/metadata/{key}")));
    [
        ("controller-uid", own("uid")),
        ("job-name", own("name")),
        ("batch.kubernetes.io/controller-uid", own("uid")),
        ("batch.kubernetes.io/job-name", own("name")),
    ]
}

/// A selector that a job does not choose itself selects its pods by labels that only they have.
fn generated_selector(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if text(new, "/metadata/uid").is_empty() {
        errors.push(FieldError::required("metadata.uid", ""));
    }
    let mut own = own_labels(new).to_vec();
    // What was stored without the newer two may do without them.
    let had = |key: &str| old.is_none_or(|it| it["spec"]["template"]["metadata"]["labels"].get(key).is_some());
    if !had(own[2].0) || !had(own[3].0) {
        own.truncate(2);
    }
    let labels = &new["spec"]["template"]["metadata"]["labels"];
    for (key, value) in &own {
        let field = format!("spec.template.metadata.labels[{key}]");
        let detail = format!("must be '{}'", value.as_str().unwrap_or_default());
        match labels.get(*key) {
            None => errors.push(FieldError::required(field, &detail)),
            Some(given) if given != value => errors.push(FieldError::invalid(field, labels, detail)),
            Some(_) => {}
        }
    }
    let expected: Map<String, Value> = own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let selector = &new["spec"]["selector"];
    let mut unreadable = Vec::new();
    label_selector(selector, "", &mut unreadable);
    if unreadable.is_empty() && !matches(selector, &expected.into()) {
        let detail = "`selector` not auto-generated";
        errors.push(FieldError::invalid("spec.selector", selector, detail));
    }
}

/// What a job keeps for life.
fn job_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    if !is_indexed(spec) {
        immutable(new, Some(old), "/spec/completions", "spec.completions", errors);
    } else if old["spec"]["completions"] != spec["completions"]
        && !spec["completions"].is_null()
        && spec["completions"] != spec["parallelism"]
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid("spec.completions", &spec["completions"], detail));
    }
    if !rests(old) {
        immutable(new, Some(old), "/spec/template", "spec.template", errors);
    } else if settled(&new["spec"]["template"]["spec"]) != settled(&old["spec"]["template"]["spec"]) {
        let given = &new["spec"]["template"]["spec"];
        errors.push(FieldError::invalid("spec.template.spec", given, "field is immutable"));
    }
}

/// Whether a job is suspended and has no pods, so that other pods may come of it.
fn rests(job: &Value) -> bool {
    let is_suspended = |it: &Value| it["type"] == "Suspended" && it["status"] == "True";
    job["spec"]["suspend"] == true
        && (job["status"]["startTime"].is_null() || list(job, "/status/conditions").iter().any(is_suspended))
        && job["status"]["active"].as_i64().unwrap_or_default() == 0
}

/// What of a pod's spec stays the same even while the job rests: all but where the pods run, and what they get there.
fn settled(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(map) = spec.as_object_mut() else { return spec };
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        map.remove(key);
    }
    if let Some(affinity) = map.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            map.remove("affinity");
        }
    }
    for kind in ["containers", "initContainers"] {
        let containers = map.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            container.remove("resources");
        }
    }
    spec
}

/// Errors of what a job shall do.
fn job_spec(spec: &Value, keeps_template: bool, place: &str, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("{place}.{name}");
    if let Some(manager) = spec["managedBy"].as_str() {
        managed_by(manager, &field("managedBy"), errors);
    }
    completion(spec, place, errors);
    for key in ["podFailurePolicy", "successPolicy"] {
        published::member("io.k8s.api.batch.v1.JobSpec", key, &spec[key], &field(key), errors);
    }
    if keeps_template {
        return;
    }
    template(&spec["template"], &field("template"), errors);
    let restart = field("template.spec.restartPolicy");
    match text(spec, "/template/spec/restartPolicy") {
        // It is what a pod does by itself, and so may not have been said at all.
        "" | "Always" => errors.push(FieldError::required(restart, r#"valid values: "OnFailure", "Never""#)),
        given => supported(&json!(given), restart, &["OnFailure", "Never"], errors),
    }
}

fn managed_by(manager: &str, field: &str, errors: &mut Vec<FieldError>) {
    const LENGTH_MAX: usize = 63;
    let parts = manager
        .split_once('/')
        .filter(|it| !it.0.is_empty() && !it.1.is_empty());
    match parts {
        _ if manager.is_empty() => errors.push(FieldError::required(field, "")),
        None => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(field, &json!(manager), detail));
        }
        Some((domain, _)) => subdomain(domain, field, errors),
    }
    if manager.len() > LENGTH_MAX {
        errors.push(FieldError::too_long(field, LENGTH_MAX));
    }
}

/// Errors of how many pods have to be done.
fn completion(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    /// More of them would make the lists of done and failed ones too long.
    const INDEXES_MAX: i64 = 100_000;
    let field = |name: &str| format!("{place}.{name}");
    let number = |key: &str| spec[key].as_i64();
    if !is_indexed(spec) {
        return;
    }
    if number("completions").is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(field("completions"), detail));
    }
    if number("parallelism").is_some_and(|it| it > INDEXES_MAX) {
        let detail = format!("must be less than or equal to {INDEXES_MAX} when completion mode is Indexed");
        errors.push(FieldError::invalid(field("parallelism"), &spec["parallelism"], detail));
    }
}

/// What a failed pod means: a condition that only names its type is one that is true.
fn failure_policy(spec: &mut Map<String, Value>) {
    let Some(policy) = member(spec, "podFailurePolicy") else {
        return;
    };
    // A list that Go does not leave out.
    set(policy, "rules", Value::Null);
    for rule in items(policy, "rules") {
        items(rule, "onPodConditions").for_each(|it| set(it, "status", "True"));
    }
}

/// A job owns its pods by its own uid; known once the object has one. What a client says of it stays,
/// and is checked later.
fn job_selector(object: &mut Map<String, Value>) {
    let meta = entry(object, "metadata");
    let (uid, name) = (text_of(meta, "uid").to_owned(), text_of(meta, "name").to_owned());
    if uid.is_empty() {
        return;
    }
    let spec = entry(object, "spec");
    if spec.get("manualSelector") != Some(&json!(true)) {
        let selected = entry(entry(spec, "selector"), "matchLabels");
        set(selected, "batch.kubernetes.io/controller-uid", uid.as_str());
        let labels = entry(entry(entry(spec, "template"), "metadata"), "labels");
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            set(labels, key, value.as_str());
        }
    }
    let labels = spec.get("template").and_then(|it| it.pointer("/metadata/labels"));
    let labels = labels.filter(|it| it.is_object()).cloned();
    if let Some(labels) = labels {
        set(entry(object, "metadata"), "labels", labels);
    }
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = cells::containers(it, &["spec", "template", "spec", "containers"]);
    let status = if cells::condition(it, "Complete") {
        "Complete"
    } else if cells::condition(it, "Failed") {
        "Failed"
    } else if !cells::at(it, &["metadata", "deletionTimestamp"]).is_null() {
        "Terminating"
    } else if cells::condition(it, "Suspended") {
        "Suspended"
    } else if cells::condition(it, "FailureTarget") {
        "FailureTarget"
    } else if cells::condition(it, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = cells::number(it, &["status", "succeeded"]);
    let completions = match (
        cells::at(it, &["spec", "completions"]).as_i64(),
        cells::number(it, &["spec", "parallelism"]),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let moment = |field: &str| cells::text(it, &["status", field]).parse::<Timestamp>().ok();
    let duration = moment("startTime").map_or_else(String::new, |start| {
        let end = moment("completionTime").unwrap_or(now);
        kube_primitives::duration::human(end.duration_since(start).as_secs())
    });
    vec![
        cells::name(it),
        status.into(),
        completions.into(),
        duration.into(),
        cells::age(it, now),
        names,
        images,
        cells::selector(cells::at(it, &["spec", "selector"])).into(),
    ]
}

fn cron_job_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = cells::containers(it, &["spec", "jobTemplate", "spec", "template", "spec", "containers"]);
    let suspend = match cells::at(it, &["spec", "suspend"]).as_bool() {
        None => cells::UNSET,
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = cells::at(it, &["status", "lastScheduleTime"])
        .as_str()
        .map_or_else(|| cells::NONE.to_owned(), |time| since(Some(time), now));
    vec![
        cells::name(it),
        cells::text(it, &["spec", "schedule"]).into(),
        cells::or(cells::text(it, &["spec", "timeZone"]), cells::NONE).into(),
        suspend.into(),
        cells::count(it, &["status", "active"]).into(),
        last.into(),
        cells::age(it, now),
        names,
        images,
        cells::selector(cells::at(it, &["spec", "jobTemplate", "spec", "selector"])).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Job with these members in its spec.
    fn job_with(more: Value) -> Value {
        let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": pod}});
        for (key, value) in more.as_object().expect("members") {
            job["spec"][key] = value.clone();
        }
        crate::kinds::default("batch", "Job", &mut job);
        job
    }

    fn said(new: &Value, old: Option<&Value>) -> Vec<String> {
        let errors = crate::kinds::validate("batch", "Job", new, old);
        errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
    }

    fn wrong(more: Value) -> Vec<String> {
        said(&job_with(more), None)
    }

    #[test]
    fn a_job_that_uses_everything_passes() {
        let good = json!({
            "completionMode": "Indexed", "completions": 5, "parallelism": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5,
            "podFailurePolicy": {"rules": [{"action": "FailIndex"}]}, "successPolicy": {"rules": []}, "managedBy": "ex.io/a/b",
        });
        assert_eq!(wrong(good), Vec::<String>::new());
        let mut manual = job_with(json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}));
        manual["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
        assert_eq!(said(&manual, None), Vec::<String>::new());
    }

    #[test]
    fn a_job_selects_its_own_pods_and_no_others() {
        let own = r#"{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"j","controller-uid":"u","job-name":"j"}"#;
        let mismatch = "`selector` does not match template `labels`";
        assert_eq!(
            wrong(json!({"selector": {"matchLabels": {"a": "b"}}})),
            [
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: \
                 `selector` not auto-generated"
                    .to_owned(),
                format!("spec.template.metadata.labels: Invalid value: {own}: {mismatch}"),
            ]
        );
        assert_eq!(
            wrong(json!({"manualSelector": true})),
            [
                "spec.selector: Required value".to_owned(),
                format!("spec.template.metadata.labels: Invalid value: null: {mismatch}"),
            ]
        );
        let mut taken = job_with(json!({}));
        taken["spec"]["template"]["metadata"]["labels"]["controller-uid"] = json!("x");
        let labels = own.replace(
            r#""controller-uid":"u","job-name""#,
            r#""controller-uid":"x","job-name""#,
        );
        assert_eq!(
            said(&taken, None),
            [format!(
                "spec.template.metadata.labels[controller-uid]: Invalid value: {labels}: must be 'u'"
            )]
        );
        // What was stored so may stay.
        let mut more = taken.clone();
        more["status"] = json!({"active": 1});
        assert_eq!(said(&more, Some(&taken)), Vec::<String>::new());
    }

    #[test]
    fn the_pods_of_a_job_end() {
        for given in ["Always", ""] {
            let mut job = job_with(json!({}));
            job["spec"]["template"]["spec"]["restartPolicy"] = json!(given);
            assert_eq!(
                said(&job, None).last().expect("an error"),
                "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""
            );
        }
        let long = "a".repeat(62);
        let mut indexed = job_with(json!({"completionMode": "Indexed", "completions": 11}));
        indexed["metadata"]["name"] = json!(long);
        let found = said(&indexed, None);
        assert_eq!(
            found.last().expect("an error"),
            &format!(
                "metadata.name: Invalid value: \"{long}\": will not able to create pod with invalid DNS label: {long}-10"
            )
        );
    }

    #[test]
    fn a_job_that_rests_may_still_run_elsewhere() {
        let old = job_with(json!({"suspend": true}));
        let mut new = old.clone();
        let pod = &mut new["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"a": "b"});
        pod["affinity"] = json!({"nodeAffinity": {}});
        pod["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
        new["spec"]["suspend"] = json!(false);
        assert_eq!(said(&new, Some(&old)), Vec::<String>::new());
        let mut busy = old.clone();
        busy["status"] = json!({"active": 1, "startTime": "2024-01-01T00:00:00Z"});
        assert_eq!(said(&new, Some(&busy)).len(), 1);
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("j");
        assert_eq!(said(&new, Some(&old)).len(), 1);
        let mut new = old.clone();
        new["spec"]["backoffLimitPerIndex"] = json!(1);
        assert!(
            said(&new, Some(&old))
                .contains(&"spec.backoffLimitPerIndex: Invalid value: 1: field is immutable".to_owned())
        );
        let old = job_with(json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3}));
        let mut new = old.clone();
        new["spec"]["completions"] = json!(4);
        assert_eq!(
            said(&new, Some(&old)),
            ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"]
        );
        new["spec"]["parallelism"] = json!(4);
        assert_eq!(said(&new, Some(&old)), Vec::<String>::new());
    }
}
