//! Timers that upstream keeps as constants, as environment variables with Go's durations.

use std::time::Duration;

use anyhow::{Result, anyhow};
use process::environment::duration;
use registration::agent::Intervals;

/// How often a registration agent looks at its credential and at the hub.
pub fn intervals() -> Result<Intervals> {
    let default = Intervals::default();
    Ok(Intervals {
        certificate: duration("DROVER_CERT_REFRESH_INTERVAL", default.certificate)?,
        renewal: duration("DROVER_REGISTER_RESYNC_INTERVAL", default.renewal)?,
        creation: duration("DROVER_CLUSTER_CREATE_INTERVAL", default.creation)?,
    })
}

/// How many seconds the Lease of an add-on's agent lasts.
pub fn addon_lease_seconds() -> Result<Option<u64>> {
    let name = "DROVER_ADDON_LEASE_DURATION_SECONDS";
    let read = |it: String| it.parse().ok().filter(|it| *it > 0);
    match std::env::var(name).ok().filter(|it| !it.is_empty()) {
        None => Ok(None),
        Some(text) => match read(text.clone()) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(anyhow!("{name}={text} is not a number of seconds")),
        },
    }
}

/// After how long the operator of agents asks a hub again that refuses an agent.
pub fn hub_access_check_interval() -> Result<Duration> {
    duration(
        "DROVER_HUB_ACCESS_CHECK_INTERVAL",
        operator::klusterlet::HUB_ACCESS_CHECK_INTERVAL,
    )
}
