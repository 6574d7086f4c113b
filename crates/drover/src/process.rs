//! What a long-running process asks of the system: open files, signals.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Raises the number of files the process may have open to what the system allows: every agent and every watch is a
/// connection, and the usual soft limit of 1024 is from a time before either.
pub fn raise_open_files() {
    if let Err(error) = raise() {
        warn!(%error, "could not raise the number of open files");
    }
}

#[expect(unsafe_code, reason = "setrlimit has no safe binding among our dependencies")]
fn raise() -> std::io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit writes one rlimit, and is given exactly that.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: setrlimit reads one rlimit, and is given exactly that.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Cancels `stop` on the first SIGINT or SIGTERM and ends the process on the second, for whoever has no patience.
pub fn stop_on_signals(stop: CancellationToken) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    tokio::spawn(async move {
        for last in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if last {
                std::process::exit(130);
            }
            stop.cancel();
        }
    });
    Ok(())
}
