//! The commands, one file each: what was typed (the `Args` struct), what it means (checked before anything happens),
//! and what is printed.

pub mod accept;
pub mod addon;
pub mod agent;
pub mod app;
pub mod backup;
pub mod clean;
pub mod clusterset;
pub mod completions;
pub mod create;
pub mod delete;
pub mod get;
pub mod hub;
pub mod hub_addon;
pub mod init;
pub mod join;
pub mod kube;
pub mod manifests;
pub mod policy;
pub mod proxy;
pub mod restore;
pub mod unjoin;
pub mod up;
pub mod upgrade;
pub mod version;
pub mod why;

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
use process::runtime::{log_to_stderr, long, short};

use crate::{
    cli::{Cli, DroverCommand},
    command::hub_addon::{InstallWhat, UninstallWhat},
};

/// Runs the command that was typed, and what the process ends with. `begun` is when it began.
pub fn run(cli: Cli, begun: Instant) -> Result<ExitCode> {
    let global = cli.global;
    log_to_stderr(global.log.as_deref(), cli.command.log_filter())?;
    // kube would take the first provider it is built with; said here, it is the same for everything in the process.
    credential::connection::install_crypto_provider();
    match cli.command {
        DroverCommand::Get(it) => short(it.run(&global)),
        DroverCommand::Create(it) => short(it.run(&global)),
        DroverCommand::Delete(it) => short(it.run(&global)),
        DroverCommand::Accept(it) => short(it.run(&global)),
        DroverCommand::Addon(it) => short(it.run(&global)),
        DroverCommand::ClusterSet(it) => short(it.run(&global)),
        DroverCommand::Install(InstallWhat::HubAddon(it)) => short(it.run(&global)),
        DroverCommand::Uninstall(UninstallWhat::HubAddon(it)) => short(it.run(&global)),
        DroverCommand::Proxy(it) => short(it.run(&global)),
        DroverCommand::App(it) => short(it.run(&global)),
        DroverCommand::Policy(it) => return Ok(it.run(&global)),
        DroverCommand::Why(it) => short(it.run(&global)),
        DroverCommand::Version(it) => short(it.run(&global)),
        DroverCommand::Completions(it) => it.run(),
        DroverCommand::Backup(it) => short(it.run()),
        DroverCommand::Restore(it) => it.run(),
        DroverCommand::Kube(it) => long(it.run(begun)),
        DroverCommand::Manifests(it) => it.run(),
        DroverCommand::Init(it) => short(it.run(&global)),
        DroverCommand::Unjoin(it) => short(it.run(&global)),
        DroverCommand::Clean(it) => short(it.run(&global)),
        DroverCommand::Upgrade(it) => short(it.run(&global)),
        DroverCommand::Up(it) => long(it.run(begun)),
        DroverCommand::Join(it) if it.is_embedded() => long(it.run(&global)),
        DroverCommand::Join(it) => short(it.run(&global)),
        DroverCommand::Hub(it) => long(it.run(&global)),
        DroverCommand::Agent(it) => short(it.run(&global)),
    }
    .map(|()| ExitCode::SUCCESS)
}

impl DroverCommand {
    /// What is logged where the user does not say. What a short command has to say it says itself, in one sentence; of
    /// `up` and `join` only what is wrong is worth a line between the steps; `hub` and `agent` have nothing
    /// but their log.
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
