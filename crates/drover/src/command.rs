//! The commands, one file each: what was typed (the `Args` struct), what it means (checked before anything happens), and
//! what is printed.

pub mod accept;
pub mod completions;
pub mod create;
pub mod delete;
pub mod get;
pub mod version;
pub mod why;

use std::io::IsTerminal;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, Global};

/// Runs the command that was typed.
pub fn run(cli: Cli) -> Result<()> {
    let global = cli.global;
    // What a short command has to say it says itself, in its one sentence.
    log_to_stderr(&global, "off")?;
    match cli.command {
        Command::Get(it) => short(it.run(&global)),
        Command::Create(it) => short(it.run(&global)),
        Command::Delete(it) => short(it.run(&global)),
        Command::Accept(it) => short(it.run(&global)),
        Command::Why(it) => short(it.run(&global)),
        Command::Version(it) => short(it.run(&global)),
        Command::Completions(it) => it.run(),
    }
}

/// Runs a command that asks, writes and ends: one thread is enough.
fn short(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?;
    runtime.block_on(command)
}

/// Sends the log to standard error, with `default` as the filter where the user gave none.
fn log_to_stderr(global: &Global, default: &str) -> Result<()> {
    let filter = global.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(filter).with_context(|| format!("--log {filter:?} is not a log filter"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}
