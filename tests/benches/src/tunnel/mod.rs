//! The way to clusters: a request through user-server, tunnel and service-proxy, all in this process and with TLS on
//! every part of the way; the tunnel alone, ours beside konnectivity's own programs; and tokens of
//! ManagedServiceAccounts.

mod programs;
mod target;
mod tokens;
mod world;

use std::{path::Path, time::Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    Size,
    statistics::{milliseconds, percentile, round},
};
use world::TunnelWorld;

/// Bytes of one answer.
const ONE: usize = 1 << 30;
/// Streams at once, and bytes of each.
const STREAMS: usize = 64;
const EACH: usize = 16 << 20;

/// All of it.
pub async fn measure(binary: &Path, konnectivity: Option<&Path>, size: Size) -> Result<Value> {
    let world = TunnelWorld::start().await?;
    let (one, each) = if size.runs == 1 {
        (ONE / 8, EACH / 8)
    } else {
        (ONE, EACH)
    };
    let mut single = Vec::new();
    let mut direct = Vec::new();
    let mut many = Vec::new();
    for _ in 0..size.runs {
        single.push(rate(one, world.download(true, one)).await?);
        direct.push(rate(one, world.download(false, one)).await?);
        let all = (0..STREAMS).map(|_| world.download(true, each));
        let all = futures::future::try_join_all(all);
        many.push(rate(each * STREAMS, async { all.await.map(drop) }).await?);
    }
    let gets = if size.runs == 1 { 200 } else { 2000 };
    let (mut through, mut past) = (world.latencies(true, gets).await?, world.latencies(false, gets).await?);
    let (through, past) = (percentile(&mut through, 0.5), percentile(&mut past, 0.5));
    drop(world);
    Ok(json!({
        "oneStreamMegabytesPerSecond": best(single, 400.0),
        "oneStreamWithoutTunnelMegabytesPerSecond": best(direct, f64::NAN),
        "streams64MegabytesPerSecond": best(many, 600.0),
        "addedMillisecondsOfAGet": {"measured": round(through - past), "promised": 1.0, "through": round(through), "direct": round(past)},
        "programs": programs::measure(binary, konnectivity, size).await?,
        "tokens": tokens::measure(binary, size).await?,
    }))
}

/// Megabytes per second of something that moves so many bytes.
pub(super) async fn rate(bytes: usize, work: impl Future<Output = Result<()>>) -> Result<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(bytes as f64 / 1e6 / begun.elapsed().as_secs_f64())
}

/// The median of several runs beside what was promised, if anything was.
pub(super) fn best(mut runs: Vec<f64>, promised: f64) -> Value {
    let all: Vec<f64> = runs.iter().copied().map(round).collect();
    let promised = if promised.is_nan() {
        Value::Null
    } else {
        json!(promised)
    };
    json!({"measured": round(percentile(&mut runs, 0.5)), "promised": promised, "runs": all})
}

/// The same in milliseconds.
pub(super) fn elapsed(since: Instant) -> f64 {
    milliseconds(since.elapsed())
}
