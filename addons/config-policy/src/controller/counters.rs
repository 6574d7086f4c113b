//! What a controller counts, for Prometheus. Upstream: config-policy-controller `controllers/metric.go`.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use ocm_addon_sdk::{
    kube::ResourceExt, ocm_api::policy::configuration_policy::ConfigurationPolicy, reconcile::metrics::label,
};
use parking_lot::Mutex;

use crate::evaluate::{COMPLIANT, NON_COMPLIANT};

#[derive(Clone, Copy, Default)]
struct Effort {
    times: u64,
    seconds: f64,
}

#[derive(Default)]
struct Counts {
    /// Kind, policy, namespace: severity and state.
    states: BTreeMap<(&'static str, String, String), (String, i8)>,
    /// By policy.
    evaluations: BTreeMap<String, Effort>,
    /// By policy, namespace and object.
    comparisons: BTreeMap<(String, String, String), Effort>,
    /// By owner, policy and type.
    user_errors: BTreeMap<(String, String, &'static str), u64>,
    system_errors: BTreeMap<(String, String, &'static str), u64>,
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts {
    states: BTreeMap::new(),
    evaluations: BTreeMap::new(),
    comparisons: BTreeMap::new(),
    user_errors: BTreeMap::new(),
    system_errors: BTreeMap::new(),
});

/// A policy was evaluated, which took so long.
pub fn evaluated(policy: &ConfigurationPolicy, took: Duration) {
    let state = policy.status.as_ref().map_or("", |it| it.compliant.as_str());
    let (name, namespace) = (policy.name_any(), policy.namespace().unwrap_or_default());
    state_of("ConfigurationPolicy", &name, &namespace, &policy.spec.severity, state);
    add(COUNTS.lock().evaluations.entry(name).or_default(), took);
}

/// What a policy is in one word, as the gauge has it: 0 Compliant, 1 NonCompliant, -1 otherwise.
pub fn state_of(kind: &'static str, name: &str, namespace: &str, severity: &str, state: &str) {
    let value = match state {
        COMPLIANT => 0,
        NON_COMPLIANT => 1,
        _ => -1,
    };
    let key = (kind, name.to_owned(), namespace.to_owned());
    COUNTS.lock().states.insert(key, (severity.to_owned(), value));
}

/// An object was compared, which took so long.
pub fn compared(policy: &str, namespace: &str, object: &str, took: Duration) {
    let key = (policy.to_owned(), namespace.to_owned(), object.to_owned());
    add(COUNTS.lock().comparisons.entry(key).or_default(), took);
}

/// The author of a policy has made an error.
pub fn user_error(policy: &ConfigurationPolicy, r#type: &'static str) {
    *COUNTS.lock().user_errors.entry(error_key(policy, r#type)).or_default() += 1;
}

/// Something failed that no author could mend.
pub fn system_error(policy: &impl ResourceExt, r#type: &'static str) {
    *COUNTS
        .lock()
        .system_errors
        .entry(error_key(policy, r#type))
        .or_default() += 1;
}

fn error_key(policy: &impl ResourceExt, r#type: &'static str) -> (String, String, &'static str) {
    let owner = policy.owner_references().first().map(|it| it.name.clone());
    (owner.unwrap_or_default(), policy.name_any(), r#type)
}

fn add(effort: &mut Effort, took: Duration) {
    effort.times += 1;
    effort.seconds += took.as_secs_f64();
}

/// Forgets what a policy is in one word.
pub fn forget_state(kind: &'static str, namespace: &str, name: &str) {
    let is_it =
        |(of, policy, at): &(&str, String, String)| (*of, policy.as_str(), at.as_str()) == (kind, name, namespace);
    COUNTS.lock().states.retain(|it, _| !is_it(it));
}

/// Forgets a ConfigurationPolicy that is gone.
pub fn forget(namespace: &str, name: &str) {
    forget_state("ConfigurationPolicy", namespace, name);
    let mut counts = COUNTS.lock();
    counts.evaluations.remove(name);
    counts.comparisons.retain(|(policy, ..), _| policy != name);
    counts.user_errors.retain(|(_, policy, _), _| policy != name);
    counts.system_errors.retain(|(_, policy, _), _| policy != name);
}

fn family(text: &mut String, kind: &str, name: &str, help: &str, lines: impl Iterator<Item = (String, String)>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
    for (labels, value) in lines {
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
}

/// All of it in Prometheus' text format.
pub fn text() -> String {
    let counts = COUNTS.lock();
    let mut text = String::new();
    let states = counts
        .states
        .iter()
        .map(|((kind, policy, namespace), (severity, value))| {
            let severity = label(severity);
            let labels =
                format!(r#"kind="{kind}",policy="{policy}",policy_namespace="{namespace}",severity="{severity}""#);
            (labels, value.to_string())
        });
    family(
        &mut text,
        "gauge",
        "cluster_policy_governance_info",
        "The compliance status of the policy: 0 compliant, 1 not, -1 unknown",
        states,
    );
    let evaluations = |value: fn(&Effort) -> String| {
        let all = counts.evaluations.iter();
        all.map(move |(policy, it)| (format!(r#"name="{policy}""#), value(it)))
    };
    let (times, seconds): (fn(&Effort) -> String, fn(&Effort) -> String) =
        (|it| it.times.to_string(), |it| it.seconds.to_string());
    family(
        &mut text,
        "counter",
        "config_policy_evaluation_total",
        "How often the policy was evaluated",
        evaluations(times),
    );
    family(
        &mut text,
        "counter",
        "config_policy_evaluation_seconds_total",
        "How long the evaluations of the policy have taken",
        evaluations(seconds),
    );
    let comparisons = |value: fn(&Effort) -> String| {
        counts.comparisons.iter().map(move |((policy, namespace, object), it)| {
            let labels = format!(r#"config_policy_name="{policy}",namespace="{namespace}",object="{object}""#);
            (labels, value(it))
        })
    };
    family(
        &mut text,
        "counter",
        "compare_objects_evaluation_total",
        "How often an object was compared",
        comparisons(times),
    );
    family(
        &mut text,
        "counter",
        "compare_objects_seconds_total",
        "How long the comparisons of an object have taken",
        comparisons(seconds),
    );
    for (errors, name, help) in [
        (
            &counts.user_errors,
            "policy_user_errors_total",
            "Errors of authors of policies",
        ),
        (
            &counts.system_errors,
            "policy_system_errors_total",
            "Errors that no author can mend",
        ),
    ] {
        let lines = errors.iter().map(|((policy, template, r#type), count)| {
            let labels = format!(r#"policy="{policy}",template="{template}",type="{}""#, r#type);
            (labels, count.to_string())
        });
        family(&mut text, "counter", name, help, lines);
    }
    text
}
