//! What the propagator tells Prometheus. Upstream: `controllers/policymetrics`, `controllers/propagator/metric.go`.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::{ComplianceState, Policy, labels},
    reconcile::metrics::{also, label},
};
use parking_lot::Mutex;

use super::{
    replica,
    templates::HubTemplates,
    world::{self, PolicyWorld},
};

/// How often a Policy could not be brought to a cluster, by namespace and name.
static FAILURES: Mutex<BTreeMap<(String, String), u64>> = Mutex::new(BTreeMap::new());

/// Upper ends of the histogram of durations, in seconds: the usual ones of Prometheus.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How long it took to deal with Policies of people.
struct Durations {
    /// Not cumulative; the last is what took longer than all.
    counts: [u64; BUCKETS.len() + 1],
    seconds: f64,
}

static HANDLED: Mutex<Durations> = Mutex::new(Durations {
    counts: [0; BUCKETS.len() + 1],
    seconds: 0.0,
});

/// Counts that a Policy of people was dealt with.
pub fn handled(took: Duration) {
    HANDLED.lock().count(took.as_secs_f64());
}

impl Durations {
    fn count(&mut self, seconds: f64) {
        self.counts[BUCKETS.partition_point(|end| *end < seconds)] += 1;
        self.seconds += seconds;
    }

    fn text(&self) -> String {
        // Upstream's name ends like this; those of its series have it twice.
        const NAME: &str = "ocm_handle_root_policy_duration_seconds_bucket";
        let mut text =
            format!("# HELP {NAME} How long it took to deal with a policy and its status.\n# TYPE {NAME} histogram\n");
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            let end = BUCKETS.get(bucket).map_or("+Inf".to_owned(), f64::to_string);
            let _ = writeln!(text, "{NAME}_bucket{{le=\"{end}\"}} {below}");
        }
        let _ = writeln!(text, "{NAME}_sum {}\n{NAME}_count {below}", self.seconds);
        text
    }
}

/// Counts that a Policy could not be brought to a cluster.
pub fn failed(namespace: &str, name: &str) {
    *FAILURES
        .lock()
        .entry((namespace.to_owned(), name.to_owned()))
        .or_default() += 1;
}

/// Adds the families to the metrics of the process. `with_states` adds `policy_governance_info`, a series for each
/// Policy and replica.
pub fn tell(world: &PolicyWorld, templates: &HubTemplates, with_states: bool) {
    let (world, templates) = (world.clone(), templates.clone());
    also("policy-propagator", move || {
        let mut text = failures();
        text.push_str(&HANDLED.lock().text());
        text.push_str(&watches(templates.watches()));
        if with_states {
            text.push_str(&states(&world));
        }
        text
    });
}

fn watches(count: usize) -> String {
    const NAME: &str = "hub_templates_active_watches";
    format!("# HELP {NAME} How many watches hub templates have.\n# TYPE {NAME} gauge\n{NAME} {count}\n")
}

fn failures() -> String {
    const NAME: &str = "policy_propagation_failure_total";
    let failures = FAILURES.lock();
    if failures.is_empty() {
        return String::new();
    }
    let mut text =
        format!("# HELP {NAME} How often a policy could not be brought to a cluster.\n# TYPE {NAME} counter\n");
    for ((namespace, name), count) in &*failures {
        let _ = writeln!(
            text,
            "{NAME}{{name=\"{}\",namespace=\"{}\"}} {count}",
            label(name),
            label(namespace)
        );
    }
    text
}

fn states(world: &PolicyWorld) -> String {
    const NAME: &str = "policy_governance_info";
    let mut text = format!(
        "# HELP {NAME} What a policy says: 0 it complies, 1 it does not, -1 it is not known or waits.\n# TYPE {NAME} gauge\n"
    );
    for policy in world.policies.list() {
        if let Some(line) = state(&policy) {
            let _ = writeln!(text, "{NAME}{line}");
        }
    }
    text
}

/// The series of one Policy; none for one that is disabled.
fn state(policy: &Policy) -> Option<String> {
    if policy.spec.disabled {
        return None;
    }
    let value = match policy.status.as_ref().and_then(|it| it.compliant) {
        Some(ComplianceState::Compliant) => 0,
        Some(ComplianceState::NonCompliant) => 1,
        Some(ComplianceState::Pending) | None => -1,
    };
    let (kind, namespace, name, cluster) = if world::is_replica(policy) {
        let (namespace, name) = replica::root_of(policy.labels().get(labels::ROOT_POLICY)?)?;
        (
            "propagated",
            namespace.to_owned(),
            name.to_owned(),
            policy.namespace().unwrap_or_default(),
        )
    } else {
        (
            "root",
            policy.namespace().unwrap_or_default(),
            policy.name_any(),
            "<null>".to_owned(),
        )
    };
    let [cluster, name, namespace] = [cluster, name, namespace].map(|it| label(&it));
    Some(format!(
        "{{cluster_namespace=\"{cluster}\",policy=\"{name}\",policy_namespace=\"{namespace}\",type=\"{kind}\"}} {value}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roots_and_replicas_tell_their_states() {
        let of = |metadata: serde_json::Value, disabled: bool, compliant: &str| {
            let object = json!({
                "metadata": metadata, "spec": {"disabled": disabled, "policy-templates": []}, "status": {"compliant": compliant},
            });
            state(&serde_json::from_value(object).unwrap())
        };
        let root = json!({"namespace": "ns", "name": "p"});
        assert_eq!(
            of(root.clone(), false, "NonCompliant").as_deref(),
            Some(r#"{cluster_namespace="<null>",policy="p",policy_namespace="ns",type="root"} 1"#)
        );
        assert_eq!(of(root.clone(), true, "NonCompliant"), None);
        assert!(of(root, false, "Pending").unwrap().ends_with(" -1"));
        let replica = json!({"namespace": "c1", "name": "ns.p", "labels": {labels::ROOT_POLICY: "ns.p"}});
        assert_eq!(
            of(replica, false, "Compliant").as_deref(),
            Some(r#"{cluster_namespace="c1",policy="p",policy_namespace="ns",type="propagated"} 0"#)
        );
    }

    #[test]
    fn durations_are_told_under_upstreams_name() {
        let mut durations = Durations {
            counts: [0; BUCKETS.len() + 1],
            seconds: 0.0,
        };
        [0.005, 0.5, 20.0].iter().for_each(|it| durations.count(*it));
        let text = durations.text();
        let name = "ocm_handle_root_policy_duration_seconds_bucket";
        for line in [
            "_bucket{le=\"0.005\"} 1",
            "_bucket{le=\"0.25\"} 1",
            "_bucket{le=\"10\"} 2",
            "_bucket{le=\"+Inf\"} 3",
            "_sum 20.505",
            "_count 3",
        ] {
            assert!(text.contains(&format!("\n{name}{line}\n")), "{line}: {text}");
        }
    }

    #[test]
    fn failures_are_counted_for_each_policy() {
        failed("ns", "failing");
        failed("ns", "failing");
        assert!(failures().contains("policy_propagation_failure_total{name=\"failing\",namespace=\"ns\"} 2\n"));
    }
}
