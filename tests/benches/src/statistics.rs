//! Medians and percentiles.

use serde_json::{Value, json};
use std::time::Duration;

/// The value below which `share` (0 to 1) of all lie.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = (share * last as f64).round() as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}

/// Rounds to two decimals: more would pretend.
pub fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A duration in milliseconds.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Bytes in mebibytes, rounded.
pub fn mebibytes(bytes: u64) -> f64 {
    round(bytes as f64 / f64::from(1 << 20))
}

/// The median of several runs beside what was promised.
pub fn median(mut runs: Vec<f64>, promised: f64) -> Value {
    let all: Vec<f64> = runs.iter().copied().map(round).collect();
    json!({"measured": round(percentile(&mut runs, 0.5)), "promised": promised, "runs": all})
}
