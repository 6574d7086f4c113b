//! Jobs, and the CronJobs that make them: when a job is done, what a failed pod means for it, and whose its pods are. Facts from
//! Kubernetes `pkg/apis/batch/validation` and `pkg/registry/batch/job`.

use super::{
    changed, immutable, invalid_shown, list, non_negative,
    pods::template,
    qualified_name, schedules,
    scheduling::label_selector,
    subdomain, supported, text,
    workloads::{matches, template_mismatch},
};
use kube_store::status::FieldError;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Errors of a Job.
pub(super) fn job(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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
    immutable(new, Some(old), "/spec/selector", "spec.selector", errors);
    if !rests(old) {
        immutable(new, Some(old), "/spec/template", "spec.template", errors);
    } else if settled(&new["spec"]["template"]["spec"]) != settled(&old["spec"]["template"]["spec"]) {
        let given = &new["spec"]["template"]["spec"];
        errors.push(FieldError::invalid("spec.template.spec", given, "field is immutable"));
    }
    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        immutable(new, Some(old), &format!("/spec/{key}"), &format!("spec.{key}"), errors);
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

/// Errors of what a job, or each that a CronJob makes, shall do.
fn job_spec(spec: &Value, keeps_template: bool, place: &str, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("{place}.{name}");
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(spec, &format!("/{key}"), &field(key), errors);
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(field("backoffLimitPerIndex"), detail));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        managed_by(manager, &field("managedBy"), errors);
    }
    completion(spec, place, errors);
    if spec["podFailurePolicy"].is_object() {
        failure_policy(spec, &field("podFailurePolicy"), errors);
    }
    if spec["successPolicy"].is_object() {
        success_policy(spec, &field("successPolicy"), errors);
    }
    let replacement = &spec["podReplacementPolicy"];
    if !replacement.is_null() {
        let known: &[&str] = if spec["podFailurePolicy"].is_null() {
            &["Failed", "TerminatingOrFailed"]
        } else {
            &["Failed"]
        };
        supported(replacement, field("podReplacementPolicy"), known, errors);
    }
    if keeps_template {
        return;
    }
    template(&spec["template"], &field("template"), errors);
    let restart = field("template.spec.restartPolicy");
    match text(spec, "/template/spec/restartPolicy") {
        // It is what a pod does by itself, and so may not have been said at all.
        "" | "Always" => errors.push(FieldError::required(restart, r#"valid values: "OnFailure", "Never""#)),
        "OnFailure" if !spec["podFailurePolicy"].is_null() => {
            let detail = r#"only "Never" is supported when podFailurePolicy is specified"#;
            errors.push(FieldError::invalid(restart, &json!("OnFailure"), detail));
        }
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
        Some((domain, path)) => {
            subdomain(domain, field, errors);
            let known = |it: u8| it.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&it);
            if !path.bytes().all(known) {
                let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                errors.push(FieldError::invalid(field, &json!(path), detail));
            }
        }
    }
    if manager.len() > LENGTH_MAX {
        errors.push(FieldError::too_long(field, LENGTH_MAX));
    }
}

/// Errors of how many pods have to be done.
fn completion(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const MODES: [&str; 2] = ["NonIndexed", "Indexed"];
    /// More of them would make the lists of done and failed ones too long.
    const INDEXES_MAX: i64 = 100_000;
    /// With more completions than above there may only be so many at a time, or that fail.
    const OF_MANY_MAX: i64 = 10_000;
    let field = |name: &str| format!("{place}.{name}");
    let number = |key: &str| spec[key].as_i64();
    let mode = text(spec, "/completionMode");
    if !mode.is_empty() {
        supported(&json!(mode), field("completionMode"), &MODES, errors);
    }
    if mode.is_empty() || mode == "NonIndexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[key].is_null() {
                let detail = "requires indexed completion mode";
                errors.push(FieldError::invalid(field(key), &spec[key], detail));
            }
        }
    }
    if !is_indexed(spec) {
        return;
    }
    let at_most = |key: &str, most: i64, when: &str, errors: &mut Vec<FieldError>| {
        if number(key).is_some_and(|it| it > most) {
            let detail = format!("must be less than or equal to {most}{when}");
            errors.push(FieldError::invalid(field(key), &spec[key], detail));
        }
    };
    let (completions, failed) = (number("completions"), number("maxFailedIndexes"));
    if completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(field("completions"), detail));
    }
    at_most("parallelism", INDEXES_MAX, " when completion mode is Indexed", errors);
    if completions.is_some_and(|it| failed.is_some_and(|failed| failed > it)) {
        let detail = "must be less than or equal to completions";
        errors.push(FieldError::invalid(field("maxFailedIndexes"), &json!(failed), detail));
    }
    at_most("maxFailedIndexes", INDEXES_MAX, "", errors);
    if completions.is_none_or(|it| it <= INDEXES_MAX) || spec["backoffLimitPerIndex"].is_null() {
        return;
    }
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {INDEXES_MAX}");
        errors.push(FieldError::required(field("maxFailedIndexes"), &detail));
    }
    let when = format!(" when completions are above {INDEXES_MAX} and used with backoff limit per index");
    at_most("parallelism", OF_MANY_MAX, &when, errors);
    at_most("maxFailedIndexes", OF_MANY_MAX, &when, errors);
}

/// Errors of what a failed pod means.
fn failure_policy(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const RULES_MAX: usize = 20;
    const PATTERNS_MAX: usize = 20;
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    let rules = list(spec, "/podFailurePolicy/rules");
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(format!("{place}.rules"), rules.len(), RULES_MAX));
    }
    let containers = ["containers", "initContainers"].map(|it| list(&spec["template"]["spec"], &format!("/{it}")));
    let names: HashSet<&str> = containers.into_iter().flatten().map(|it| text(it, "/name")).collect();
    for (at, rule) in rules.iter().enumerate() {
        let place = format!("{place}.rules[{at}]");
        let action = format!("{place}.action");
        match text(rule, "/action") {
            "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
                let detail = "requires the backoffLimitPerIndex to be set";
                errors.push(FieldError::invalid(action, &rule["action"], detail));
            }
            given => known_or_required(given, action, &ACTIONS, errors),
        }
        let (codes, conditions) = (&rule["onExitCodes"], list(rule, "/onPodConditions"));
        if codes.is_object() {
            exit_codes(codes, &names, &format!("{place}.onExitCodes"), errors);
        }
        let field = format!("{place}.onPodConditions");
        if conditions.len() > PATTERNS_MAX {
            errors.push(FieldError::too_many(&field, conditions.len(), PATTERNS_MAX));
        }
        for (at, pattern) in conditions.iter().enumerate() {
            qualified_name(text(pattern, "/type"), &format!("{field}[{at}].type"), errors);
            let status = text(pattern, "/status");
            known_or_required(status, format!("{field}[{at}].status"), &STATUSES, errors);
        }
        let detail = match (codes.is_object(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        // The rule itself is not shown.
        errors.push(FieldError {
            reason: "FieldValueInvalid",
            field: place,
            detail: format!("Invalid value: {detail}"),
        });
    }
}

/// A word that has to be there and to be known.
fn known_or_required(given: &str, field: String, known: &[&str], errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        // The words stand as Go prints a list of texts.
        let words: Vec<_> = known.iter().map(|it| format!("{it:?}")).collect();
        let detail = format!("valid values: [{}]", words.join(" "));
        errors.push(FieldError::required(field, &detail));
    } else {
        supported(&json!(given), field, known, errors);
    }
}

fn exit_codes(codes: &Value, containers: &HashSet<&str>, place: &str, errors: &mut Vec<FieldError>) {
    const VALUES_MAX: usize = 255;
    let operator = text(codes, "/operator");
    known_or_required(operator, format!("{place}.operator"), &["In", "NotIn"], errors);
    if let Some(name) = codes["containerName"].as_str().filter(|it| !containers.contains(it)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(
            format!("{place}.containerName"),
            &json!(name),
            detail,
        ));
    }
    let (values, field) = (list(codes, "/values"), format!("{place}.values"));
    if values.is_empty() {
        let detail = "at least one value is required";
        errors.push(FieldError::invalid(&field, &codes["values"], detail));
    } else if values.len() > VALUES_MAX {
        errors.push(FieldError::too_many(&field, values.len(), VALUES_MAX));
    }
    let mut seen = HashSet::new();
    let mut highest = i64::MIN;
    let mut ordered = true;
    for (at, value) in values.iter().enumerate() {
        let code = value.as_i64().unwrap_or_default();
        if operator == "In" && code == 0 {
            let detail = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(format!("{field}[{at}]"), value, detail));
        }
        if !seen.insert(code) {
            errors.push(FieldError::duplicate(format!("{field}[{at}]"), value));
        }
        ordered &= std::mem::replace(&mut highest, code) <= code;
    }
    if !ordered {
        errors.push(FieldError::invalid(field, &codes["values"], "must be ordered"));
    }
}

/// Errors of when a job is done before all of its indexes are.
fn success_policy(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const RULES_MAX: usize = 20;
    const INDEXES_BYTES_MAX: usize = 64 * 1024;
    let policy = &spec["successPolicy"];
    let rules = list(policy, "/rules");
    if !is_indexed(spec) {
        // As the server within Kubernetes has it.
        let shown: Vec<_> = rules
            .iter()
            .map(|it| {
                let (indexes, count) = (&it["succeededIndexes"], &it["succeededCount"]);
                format!(r#"{{"SucceededIndexes":{indexes},"SucceededCount":{count}}}"#)
            })
            .collect();
        let shown = match policy["rules"] {
            Value::Null => "null".to_owned(),
            _ => format!("[{}]", shown.join(",")),
        };
        let detail = "requires indexed completion mode";
        errors.push(invalid_shown(place, &format!(r#"{{"Rules":{shown}}}"#), detail));
        return;
    }
    let field = format!("{place}.rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&field, detail));
    } else if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&field, rules.len(), RULES_MAX));
    }
    let completions = spec["completions"].as_i64().unwrap_or_default();
    for (at, rule) in rules.iter().enumerate() {
        let place = format!("{field}[{at}]");
        let (indexes, count) = (rule["succeededIndexes"].as_str(), rule["succeededCount"].as_i64());
        if indexes.is_none() && count.is_none() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(FieldError::required(&place, detail));
        }
        let mut total = 0;
        if let Some(indexes) = indexes {
            let field = format!("{place}.succeededIndexes");
            if indexes.len() > INDEXES_BYTES_MAX {
                errors.push(FieldError::too_long(&field, INDEXES_BYTES_MAX));
            }
            match count_of(indexes, completions) {
                Ok(count) => total = count,
                Err(why) => {
                    let detail = format!("error parsing succeededIndexes: {why}");
                    errors.push(FieldError::invalid(field, &json!(indexes), detail));
                }
            }
        }
        let Some(count) = count else { continue };
        let field = format!("{place}.succeededCount");
        non_negative(rule, "/succeededCount", &field, errors);
        let of_indexes = indexes.map(|_| (total, "the number of indexes in the specified succeededIndexes field"));
        let of_all = Some((completions, "the number of specified completions"));
        for (most, what) in [of_all, of_indexes].into_iter().flatten() {
            if count > most {
                let detail = format!("must be less than or equal to {most} ({what})");
                errors.push(FieldError::invalid(&field, &json!(count), detail));
            }
        }
    }
}

/// How many indexes a list of them and of intervals has: `1,3-5` has four.
fn count_of(indexes: &str, completions: i64) -> Result<i64, String> {
    let read = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(it) if it >= completions => Err(format!("too large index: {text:?}")),
        Ok(it) => Ok(it),
    };
    let order = |before: i64, next: i64| {
        if before < next {
            Ok(())
        } else {
            Err(format!("non-increasing order, previous: {before}, current: {next}"))
        }
    };
    let mut last = None;
    let mut total = 0;
    for interval in indexes.split(',').filter(|_| !indexes.is_empty()) {
        let (first, end) = match interval.split('-').collect::<Vec<_>>().as_slice() {
            [one] => (read(one)?, read(one)?),
            [first, end] => {
                let (first, end) = (read(first)?, read(end)?);
                order(first, end)?;
                (first, end)
            }
            _ => {
                return Err(format!(
                    "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
                ));
            }
        };
        if let Some(last) = last {
            order(last, first)?;
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Errors of a CronJob.
pub(super) fn cron_job(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
    /// Each of its jobs has a name with eleven characters more, which has to be a label.
    const NAME_LENGTH_MAX: usize = 52;
    schedules::schedule(new, old, errors);
    let number = |key: &str, errors: &mut Vec<FieldError>| {
        non_negative(new, &format!("/spec/{key}"), &format!("spec.{key}"), errors);
    };
    number("startingDeadlineSeconds", errors);
    let policy = json!(text(new, "/spec/concurrencyPolicy"));
    supported(&policy, "spec.concurrencyPolicy", &POLICIES, errors);
    if changed(new, old, "/spec/jobTemplate") {
        let (place, job) = ("spec.jobTemplate.spec", &new["spec"]["jobTemplate"]["spec"]);
        job_spec(job, false, place, errors);
        if !job["selector"].is_null() {
            let detail = "`selector` will be auto-generated";
            errors.push(FieldError::invalid(
                format!("{place}.selector"),
                &job["selector"],
                detail,
            ));
        }
        if job["manualSelector"] == true {
            let field = format!("{place}.manualSelector");
            errors.push(FieldError::not_supported(field, &json!(true), &["nil", "false"]));
        }
    }
    number("successfulJobsHistoryLimit", errors);
    number("failedJobsHistoryLimit", errors);
    let name = text(new, "/metadata/name");
    if old.is_none() && name.len() > NAME_LENGTH_MAX {
        let detail = format!("must be no more than {NAME_LENGTH_MAX} characters");
        errors.push(FieldError::invalid("metadata.name", &json!(name), detail));
    }
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
        crate::builtin_defaults::default("batch", "Job", &mut job);
        job
    }

    fn said(new: &Value, old: Option<&Value>) -> Vec<String> {
        crate::builtin_validation::said(|it| job(new, old, it))
    }

    fn wrong(more: Value) -> Vec<String> {
        said(&job_with(more), None)
    }

    #[test]
    fn a_job_that_uses_everything_passes() {
        let failures = json!({"rules": [
            {"action": "FailIndex", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [0, 1, 3]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]});
        let success = json!({"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 3}, {"succeededCount": 1}]});
        let good = json!({
            "completionMode": "Indexed", "completions": 5, "parallelism": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5,
            "podFailurePolicy": failures, "successPolicy": success, "managedBy": "ex.io/a/b",
        });
        assert_eq!(wrong(good), Vec::<String>::new());
        let mut manual = job_with(json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}));
        manual["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
        assert_eq!(said(&manual, None), Vec::<String>::new());
        assert_eq!(wrong(json!({"podFailurePolicy": {}})), Vec::<String>::new());
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
    fn a_failure_policy_says_what_it_knows() {
        let rule = |it: Value| wrong(json!({"podFailurePolicy": {"rules": [it]}}));
        let place = "spec.podFailurePolicy.rules[0]";
        assert_eq!(
            rule(json!({"action": "X"})),
            [
                format!(
                    "{place}.action: Unsupported value: \"X\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\""
                ),
                format!("{place}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
            ]
        );
        assert_eq!(
            rule(json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0, 1, 1]}})),
            [
                format!("{place}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"),
                format!("{place}.onExitCodes.values[2]: Duplicate value: 1"),
            ]
        );
        assert_eq!(
            rule(
                json!({"action": "FailIndex", "onExitCodes": {"operator": "X", "values": [], "containerName": "nope"},
                "onPodConditions": [{"type": "a", "status": "X"}]})
            ),
            [
                format!("{place}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"),
                format!("{place}.onExitCodes.operator: Unsupported value: \"X\": supported values: \"In\", \"NotIn\""),
                format!(
                    "{place}.onExitCodes.containerName: Invalid value: \"nope\": must be one of the container or initContainer names in \
                     the pod template"
                ),
                format!("{place}.onExitCodes.values: Invalid value: []: at least one value is required"),
                format!(
                    "{place}.onPodConditions[0].status: Unsupported value: \"X\": supported values: \"False\", \"True\", \"Unknown\""
                ),
                format!("{place}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"),
            ]
        );
        assert_eq!(
            rule(json!({"onExitCodes": {"operator": "NotIn", "values": [3, 1]}})),
            [
                format!(
                    "{place}.action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"
                ),
                format!("{place}.onExitCodes.values: Invalid value: [3,1]: must be ordered"),
            ]
        );
    }

    #[test]
    fn a_job_is_done_early_only_by_indexes() {
        assert_eq!(
            wrong(json!({"successPolicy": {"rules": [{"succeededIndexes": "0-"}]}})),
            [
                "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":\"0-\",\"SucceededCount\":null}]}: requires indexed \
                 completion mode"
            ]
        );
        assert_eq!(
            wrong(json!({"successPolicy": {}})),
            ["spec.successPolicy: Invalid value: {\"Rules\":null}: requires indexed completion mode"]
        );
        let rules = json!({"rules": [{"succeededIndexes": "0-5", "succeededCount": 9}, {}]});
        let place = "spec.successPolicy.rules[0]";
        assert_eq!(
            wrong(json!({"completionMode": "Indexed", "completions": 3, "successPolicy": rules})),
            [
                format!("{place}.succeededIndexes: Invalid value: \"0-5\": error parsing succeededIndexes: too large index: \"5\""),
                format!(
                    "{place}.succeededCount: Invalid value: 9: must be less than or equal to 3 (the number of specified completions)"
                ),
                format!(
                    "{place}.succeededCount: Invalid value: 9: must be less than or equal to 0 (the number of indexes in the specified \
                     succeededIndexes field)"
                ),
                "spec.successPolicy.rules[1]: Required value: at least one of succeededCount or succeededIndexes must be specified"
                    .to_owned(),
            ]
        );
        let table = [
            ("", Ok(0)),
            ("1,3-5", Ok(4)),
            ("3,1", Err("non-increasing order, previous: 3, current: 1")),
            ("3-3", Err("non-increasing order, previous: 3, current: 3")),
            ("0-", Err("cannot convert string to integer for index: \"\"")),
        ];
        for (indexes, want) in table {
            assert_eq!(count_of(indexes, 9), want.map_err(str::to_owned), "{indexes}");
        }
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
        let mut job = job_with(json!({"podFailurePolicy": {"rules": []}}));
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
        assert_eq!(
            said(&job, None),
            [
                "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is \
                 specified"
            ]
        );
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
