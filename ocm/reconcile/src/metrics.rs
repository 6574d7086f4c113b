//! What the reconcilers of this process have done, in numbers: how often each ran, how long that took, how much waits.
//!
//! The names are those that controller-runtime and client-go give to the same things, so that dashboards made for them
//! go on working. One process counts everything by the reconciler's name, however many of one name it runs.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::queue::{Queue, WeakQueue};

/// Upper ends of the histogram of durations, in milliseconds.
const BUCKETS: [u64; 10] = [1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000];

static METERS: Mutex<BTreeMap<&'static str, Arc<Meter>>> = Mutex::new(BTreeMap::new());

/// The numbers of one reconciler.
#[derive(Default)]
pub(crate) struct Meter {
    succeeded: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
    /// Not cumulative; the last is what took longer than all.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    queues: Mutex<Vec<WeakQueue>>,
}

/// The meter of a reconciler, whose queue this is.
pub(crate) fn meter(name: &'static str, queue: &Queue) -> Arc<Meter> {
    let meter = METERS.lock().entry(name).or_default().clone();
    let mut queues = meter.queues.lock();
    queues.retain(|it| it.waiting().is_some());
    queues.push(queue.downgrade());
    drop(queues);
    meter
}

impl Meter {
    pub(crate) fn count(&self, took: Duration, succeeded: bool) {
        let result = if succeeded { &self.succeeded } else { &self.failed };
        result.fetch_add(1, Ordering::Relaxed);
        self.micros
            .fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let bucket = BUCKETS.partition_point(|end| u128::from(*end) < took.as_millis().max(1));
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
    }

    fn waiting(&self) -> usize {
        self.queues.lock().iter().filter_map(WeakQueue::waiting).sum()
    }
}

/// What else tells its numbers, by its name.
type Told = Arc<dyn Fn() -> String + Send + Sync>;
static ALSO: Mutex<BTreeMap<&'static str, Told>> = Mutex::new(BTreeMap::new());

/// Adds families to [`text`]: `told` returns them in Prometheus' text format, whenever somebody asks. What was added
/// under the same name before is replaced.
pub fn also(name: &'static str, told: impl Fn() -> String + Send + Sync + 'static) {
    ALSO.lock().insert(name, Arc::new(told));
}

/// A value of a label as Prometheus' text format has it between quotes.
pub fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// How many runs there were in this process, of all reconcilers.
pub fn runs() -> u64 {
    let of = |it: &Arc<Meter>| it.succeeded.load(Ordering::Relaxed) + it.failed.load(Ordering::Relaxed);
    METERS.lock().values().map(of).sum()
}

/// All of it in Prometheus' text format.
pub fn text() -> String {
    let meters: Vec<_> = METERS.lock().iter().map(|(name, it)| (*name, it.clone())).collect();
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, lines: &dyn Fn(&mut String, &str, &Meter)| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (controller, meter) in &meters {
            lines(&mut text, controller, meter);
        }
    };
    let load = |it: &AtomicU64| it.load(Ordering::Relaxed);
    const TOTAL: &str = "controller_runtime_reconcile_total";
    family(TOTAL, "counter", "Runs by their result.", &|text, name, meter| {
        for (result, count) in [("success", &meter.succeeded), ("error", &meter.failed)] {
            let _ = writeln!(
                text,
                "{TOTAL}{{controller=\"{name}\",result=\"{result}\"}} {}",
                load(count)
            );
        }
    });
    const TIME: &str = "controller_runtime_reconcile_time_seconds";
    family(TIME, "histogram", "How long runs took.", &|text, name, meter| {
        let mut below = 0;
        for (bucket, count) in meter.buckets.iter().enumerate() {
            below += load(count);
            let end = BUCKETS.get(bucket).map_or("+Inf".to_owned(), |it| seconds(*it * 1000));
            let _ = writeln!(text, "{TIME}_bucket{{controller=\"{name}\",le=\"{end}\"}} {below}");
        }
        let _ = writeln!(
            text,
            "{TIME}_sum{{controller=\"{name}\"}} {}",
            seconds(load(&meter.micros))
        );
        let _ = writeln!(text, "{TIME}_count{{controller=\"{name}\"}} {below}");
    });
    const DEPTH: &str = "workqueue_depth";
    family(DEPTH, "gauge", "Keys that wait for a run.", &|text, name, meter| {
        let _ = writeln!(text, "{DEPTH}{{name=\"{name}\"}} {}", meter.waiting());
    });
    let also: Vec<Told> = ALSO.lock().values().cloned().collect();
    also.iter().for_each(|it| text.push_str(&it()));
    text
}

fn seconds(micros: u64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds of a process's life have room in 53 bits"
    )]
    let seconds = micros as f64 / 1e6;
    seconds.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn runs_are_counted_by_name_and_duration_with_queue_depth() {
        let (first, second) = (Queue::new(), Queue::new());
        let meter = meter("metrics-test", &first);
        super::meter("metrics-test", &second);
        first.add("a");
        second.add("a");
        second.add("b");
        assert_eq!(second.next().await, "a");
        meter.count(Duration::from_micros(1500), true);
        meter.count(Duration::from_millis(5), true);
        meter.count(Duration::from_secs(100), false);
        assert!(runs() >= 3);
        let text = text();
        for line in [
            "controller_runtime_reconcile_total{controller=\"metrics-test\",result=\"success\"} 2",
            "controller_runtime_reconcile_total{controller=\"metrics-test\",result=\"error\"} 1",
            "controller_runtime_reconcile_time_seconds_bucket{controller=\"metrics-test\",le=\"0.001\"} 1",
            "controller_runtime_reconcile_time_seconds_bucket{controller=\"metrics-test\",le=\"0.005\"} 2",
            "controller_runtime_reconcile_time_seconds_bucket{controller=\"metrics-test\",le=\"60\"} 2",
            "controller_runtime_reconcile_time_seconds_bucket{controller=\"metrics-test\",le=\"+Inf\"} 3",
            "controller_runtime_reconcile_time_seconds_sum{controller=\"metrics-test\"} 100.0065",
            "controller_runtime_reconcile_time_seconds_count{controller=\"metrics-test\"} 3",
            "workqueue_depth{name=\"metrics-test\"} 2",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\nis not in\n{text}");
        }
        also("metrics-test", || {
            format!("own_total{{of=\"{}\"}} 1\n", label("a\"b\n"))
        });
        assert!(super::text().contains("own_total{of=\"a\\\"b\\n\"} 1\n"));
        drop(first);
        assert!(super::text().contains("workqueue_depth{name=\"metrics-test\"} 1\n"));
    }
}
