//! The runtime that a command runs on, and where its log goes.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

/// Runs a command on one thread: those that ask, write and end, and an agent, which waits nearly all the time.
pub fn short(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    block_on(runtime, command)
}

/// Runs a command that serves others on two threads. More would cost memory, and a hub is rarely busy.
pub fn long(command: impl Future<Output = Result<()>>) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2);
    block_on(runtime, command)
}

fn block_on(mut runtime: tokio::runtime::Builder, command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = runtime
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?;
    let result = runtime.block_on(command);
    // Whatever still waits for an answer from somewhere does not keep the process.
    runtime.shutdown_background();
    result
}

/// Sends the log to standard error, with `default` as the filter where the user gave none.
pub fn log_to_stderr(asked: Option<&str>, default: &str) -> Result<()> {
    let filter = asked.unwrap_or(default);
    let filter = EnvFilter::try_new(filter).with_context(|| format!("--log {filter:?} is not a log filter"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}
