//! What the hub tells Prometheus of Subscriptions. Upstream: multicloud-operators-subscription
//! pkg/metrics/add_propagation_metrics.go. The durations are in milliseconds, and the buckets those of Prometheus.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use ocm_addon_sdk::reconcile::metrics::{also, label};
use parking_lot::Mutex;

/// Upper ends of the histograms.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How long it took with one Subscription.
#[derive(Clone, Copy, Default)]
struct PropagationTimes {
    /// Not cumulative; the last is what took longer than all.
    counts: [u64; BUCKETS.len() + 1],
    sum: f64,
}

/// By namespace and name.
type Family = Mutex<BTreeMap<(String, String), PropagationTimes>>;

static PROPAGATED: Family = Mutex::new(BTreeMap::new());
static FAILED: Family = Mutex::new(BTreeMap::new());

/// Counts that a Subscription, by namespace and name, was brought to its clusters.
pub fn propagated(subscription: (String, String), took: Duration) {
    count(&PROPAGATED, subscription, took);
}

/// Counts that a Subscription, by namespace and name, was not.
pub fn failed(subscription: (String, String), took: Duration) {
    count(&FAILED, subscription, took);
}

/// Forgets a Subscription, by namespace and name.
pub fn forget(subscription: &(String, String)) {
    PROPAGATED.lock().remove(subscription);
    FAILED.lock().remove(subscription);
}

/// Adds the families to the metrics of the process.
pub fn tell() {
    also("subscription-propagation", || {
        family(
            &PROPAGATED,
            "propagation_successful_time",
            "How long it took to bring a Subscription to its clusters.",
        ) + &family(
            &FAILED,
            "propagation_failed_time",
            "How long it took when a Subscription could not go to them.",
        )
    });
}

fn count(family: &Family, subscription: (String, String), took: Duration) {
    let milliseconds = took.as_secs_f64() * 1000.0;
    let mut all = family.lock();
    let times = all.entry(subscription).or_default();
    times.counts[BUCKETS.partition_point(|end| *end < milliseconds)] += 1;
    times.sum += milliseconds;
}

fn family(family: &Family, name: &str, help: &str) -> String {
    let all = family.lock();
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("# HELP {name} {help}\n# TYPE {name} histogram\n");
    for ((namespace, subscription), times) in &*all {
        let labels = format!(
            "subscription_name=\"{}\",subscription_namespace=\"{}\"",
            label(subscription),
            label(namespace)
        );
        let mut below = 0;
        for (bucket, count) in times.counts.iter().enumerate() {
            below += count;
            let end = BUCKETS.get(bucket).map_or("+Inf".to_owned(), f64::to_string);
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{end}\"}} {below}");
        }
        let _ = writeln!(
            text,
            "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {below}",
            times.sum
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_has_a_histogram() {
        static TIMES: Family = Mutex::new(BTreeMap::new());
        assert_eq!(family(&TIMES, "t", "Help."), "");
        count(&TIMES, ("ns".to_owned(), "s".to_owned()), Duration::from_millis(2));
        let text = family(&TIMES, "t", "Help.");
        let labels = "subscription_name=\"s\",subscription_namespace=\"ns\"";
        for line in [
            "# TYPE t histogram".to_owned(),
            format!("t_bucket{{{labels},le=\"1\"}} 0"),
            format!("t_bucket{{{labels},le=\"2.5\"}} 1"),
            format!("t_sum{{{labels}}} 2"),
            format!("t_count{{{labels}}} 1"),
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
    }
}
