//! The commands, one file each: what was typed (the `Args` struct), what it means (checked before anything happens), and
//! what is printed.

pub mod accept;
pub mod addon;
pub mod agent;
pub mod backup;
pub mod clean;
pub mod clusterset;
pub mod completions;
pub mod create;
pub mod delete;
pub mod get;
pub mod hub;
pub mod init;
pub mod join;
pub mod kube;
pub mod manifests;
pub mod restore;
pub mod unjoin;
pub mod up;
pub mod version;
pub mod why;

use std::time::Instant;

use anyhow::Result;
use process::runtime::{log_to_stderr, long, short};

use crate::{cli::Cli, cli::Command};

/// Runs the command that was typed. `begun` is when the process began.
pub fn run(cli: Cli, begun: Instant) -> Result<()> {
    let global = cli.global;
    log_to_stderr(global.log.as_deref(), cli.command.log_filter())?;
    // kube would take the first provider it is built with; said here, it is the same for everything in the process.
    credential::connection::install_crypto_provider();
    match cli.command {
        Command::Get(it) => short(it.run(&global)),
        Command::Create(it) => short(it.run(&global)),
        Command::Delete(it) => short(it.run(&global)),
        Command::Accept(it) => short(it.run(&global)),
        Command::Addon(it) => short(it.run(&global)),
        Command::ClusterSet(it) => short(it.run(&global)),
        Command::Why(it) => short(it.run(&global)),
        Command::Version(it) => short(it.run(&global)),
        Command::Completions(it) => it.run(),
        Command::Backup(it) => short(it.run()),
        Command::Restore(it) => it.run(),
        Command::Kube(it) => long(it.run(begun)),
        Command::Manifests(it) => it.run(),
        Command::Init(it) => short(it.run(&global)),
        Command::Unjoin(it) => short(it.run(&global)),
        Command::Clean(it) => short(it.run(&global)),
        Command::Up(it) => long(it.run(begun)),
        Command::Join(it) if it.is_embedded() => long(it.run(&global)),
        Command::Join(it) => short(it.run(&global)),
        Command::Hub(it) => long(it.run(&global)),
        Command::Agent(it) => short(it.run(&global)),
    }
}

impl Command {
    /// What is logged where the user does not say. What a short command has to say it says itself, in one sentence; of `up`
    /// and `join` only what is wrong is worth a line between the steps; `hub` and `agent` have nothing but their log.
    fn log_filter(&self) -> &'static str {
        match self {
            Self::Hub(_) | Self::Agent(_) => "info,kube_client=off,kube_runtime=off,rustls_platform_verifier=off",
            // kube logs what it also returns, and what it returns is told in a sentence.
            Self::Up(_) | Self::Join(_) | Self::Kube(_) => {
                "warn,kube_client=off,kube_runtime=off,rustls_platform_verifier=off"
            }
            _ => "off",
        }
    }
}
