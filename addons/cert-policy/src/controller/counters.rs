//! What the controller counts, for Prometheus. Upstream: cert-policy-controller `controllers/metric.go`.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use ocm_addon_sdk::{
    kube::ResourceExt, ocm_api::policy::certificate_policy::CertificatePolicy, reconcile::metrics::label,
};
use parking_lot::Mutex;

use crate::evaluate::{COMPLIANT, NON_COMPLIANT};

/// Upper ends of the histogram in seconds: those of Prometheus' own libraries.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

struct Counts {
    /// By name and namespace: severity and state.
    states: BTreeMap<(String, String), (String, i8)>,
    /// By name: how often, and how many seconds in all.
    evaluations: BTreeMap<String, (u64, f64)>,
    /// Not cumulative; the last is what took longer than all.
    buckets: [u64; BUCKETS.len() + 1],
    seconds: f64,
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts {
    states: BTreeMap::new(),
    evaluations: BTreeMap::new(),
    buckets: [0; BUCKETS.len() + 1],
    seconds: 0.0,
});

/// A policy was looked at: what was found, and how long that took.
pub fn evaluated(policy: &CertificatePolicy, state: &str, took: Duration) {
    let value = match state {
        COMPLIANT => 0,
        NON_COMPLIANT => 1,
        _ => -1,
    };
    let (name, namespace) = (policy.name_any(), policy.namespace().unwrap_or_default());
    let seconds = took.as_secs_f64();
    let mut counts = COUNTS.lock();
    let key = (name.clone(), namespace);
    counts.states.insert(key, (policy.spec.severity.clone(), value));
    let (times, all) = counts.evaluations.entry(name).or_default();
    (*times, *all) = (*times + 1, *all + seconds);
    let bucket = BUCKETS.partition_point(|end| *end < seconds);
    counts.buckets[bucket] += 1;
    counts.seconds += seconds;
}

/// Forgets a policy that is gone.
pub fn forget(namespace: &str, name: &str) {
    let mut counts = COUNTS.lock();
    counts.states.remove(&(name.to_owned(), namespace.to_owned()));
    counts.evaluations.remove(name);
}

/// All of it in Prometheus' text format.
pub fn text() -> String {
    let counts = COUNTS.lock();
    let mut text = String::new();
    let mut family = |kind: &str, name: &str, help: &str, lines: Vec<(String, String)>| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (of, value) in lines {
            let _ = writeln!(text, "{name}{of} {value}");
        }
    };
    let states = counts.states.iter().map(|((policy, namespace), (severity, state))| {
        let severity = label(severity);
        let labels = format!(
            r#"{{kind="CertificatePolicy",policy="{policy}",policy_namespace="{namespace}",severity="{severity}"}}"#
        );
        (labels, state.to_string())
    });
    family(
        "gauge",
        "cluster_policy_governance_info",
        "The compliance status of the policy: 0 compliant, 1 not, -1 unknown",
        states.collect(),
    );
    let evaluations = |value: fn(&(u64, f64)) -> String| {
        let all = counts.evaluations.iter();
        all.map(|(policy, it)| (format!(r#"{{name="{policy}"}}"#), value(it)))
            .collect()
    };
    family(
        "counter",
        "cert_policy_evaluation_total",
        "How often the policy was looked at",
        evaluations(|it| it.0.to_string()),
    );
    family(
        "counter",
        "cert_policy_evaluation_seconds_total",
        "How many seconds that has taken",
        evaluations(|it| it.1.to_string()),
    );
    let (mut below, mut lines) = (0, Vec::new());
    for (bucket, count) in counts.buckets.iter().enumerate() {
        below += count;
        let end = BUCKETS.get(bucket).map_or("+Inf".to_owned(), f64::to_string);
        lines.push((format!(r#"_bucket{{le="{end}"}}"#), below.to_string()));
    }
    lines.push(("_sum".to_owned(), counts.seconds.to_string()));
    lines.push(("_count".to_owned(), below.to_string()));
    family(
        "histogram",
        "cert_policy_reconcile_seconds",
        "How many seconds it takes to look at a policy",
        lines,
    );
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_is_counted_until_it_is_gone() {
        let policy = json!({"metadata": {"name": "counted", "namespace": "ns"}, "spec": {"severity": "low"}});
        let policy = serde_json::from_value(policy).unwrap();
        evaluated(&policy, NON_COMPLIANT, Duration::from_millis(20));
        let lines = text();
        for line in [
            r#"cluster_policy_governance_info{kind="CertificatePolicy",policy="counted",policy_namespace="ns",severity="low"} 1"#,
            r#"cert_policy_evaluation_total{name="counted"} 1"#,
            r#"cert_policy_evaluation_seconds_total{name="counted"} 0.02"#,
            "# TYPE cert_policy_reconcile_seconds histogram",
        ] {
            assert!(lines.lines().any(|it| it == line), "{line}\nis not in\n{lines}");
        }
        forget("ns", "counted");
        assert!(!text().contains("counted"));
    }
}
