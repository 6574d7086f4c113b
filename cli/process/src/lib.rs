//! What every long-running process of ours needs, whichever part of a hub or of an agent runs in it: signals and open
//! files, a runtime and a log, and a port on which it tells over TLS whether it lives, what it has done,
//! and the pages that it has besides.

pub mod certificate_files;
pub mod code_pages;
pub mod environment;
pub mod health;
pub mod pod;
pub mod runtime;
pub mod sent;
pub mod serving;

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

/// Who this process is: the pod or the host, and something that no other process has.
pub fn identity() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let host = || {
        std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|it| it.trim().to_owned())
    };
    let name = named("POD_NAME").or_else(|| named("HOSTNAME")).or_else(host);
    let unique: u128 = rand::random();
    format!("{}_{unique:032x}", name.unwrap_or_else(|| "drover".to_owned()))
}

/// What the system says of this process, as Prometheus' clients tell it: name, type, meaning, value.
/// What cannot be read is left out.
pub fn numbers() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let (status, stat) = (read("status"), read("stat"));
    let kib = |field: &str| -> Option<u64> {
        let line = status.lines().find_map(|it| it.strip_prefix(field))?;
        line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().ok()
    };
    // The second field is the program's name in parentheses, which may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |it| it.1).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<u32>().ok());
    let cpu = ticks(11).zip(ticks(12)).map(|(user, system)| {
        // Linux tells times to programs in hundredths of a second on every architecture.
        (f64::from(user) + f64::from(system)) / 100.0
    });
    let files = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let resident = kib("VmRSS").map(|it| it * 1024);
    let known = [
        (
            "process_cpu_seconds_total",
            "counter",
            "CPU time this process has used.",
            cpu.map(|it| it.to_string()),
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Memory of this process that is resident.",
            resident.map(|it| it.to_string()),
        ),
        (
            "process_open_fds",
            "gauge",
            "Files this process has open.",
            files.map(|it| it.to_string()),
        ),
    ];
    let known = known.into_iter();
    known
        .filter_map(|(name, kind, help, value)| Some((name, kind, help, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_report_memory_cpu_time_and_open_files() {
        let numbers = numbers();
        let of = |name: &str| -> f64 { numbers.iter().find(|it| it.0 == name).unwrap().3.parse().unwrap() };
        assert!(of("process_resident_memory_bytes") > 1e6);
        assert!(of("process_cpu_seconds_total") >= 0.0);
        assert!(of("process_open_fds") >= 3.0);
    }
}
