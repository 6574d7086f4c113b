//! The command line as it is typed: the global flags and the tree of commands.
//! What each command's own flags mean is decided in that command's file.

use clap::{Parser, Subcommand};
use client::flags::Global;

use crate::command;

/// Open Cluster Management in one binary: a hub, its agents, and the commands to work with them.
#[derive(Debug, Parser)]
#[command(name = "drover", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: DroverCommand,
}

/// Everything the binary can do, in the order of the help.
#[derive(Debug, Subcommand)]
pub enum DroverCommand {
    /// Start a hub and clusters that have joined it, all in this process
    Up(command::up::Up),
    /// Start a Kubernetes API on its own, with nothing of Open Cluster Management
    #[command(subcommand)]
    Kube(command::kube::Kube),
    /// Make a cluster a hub: an operator, which follows a ClusterManager
    Init(Box<command::init::Init>),
    /// Join a cluster to a hub: an operator, which follows a Klusterlet, or an agent in this process
    Join(Box<command::join::Join>),
    /// Take the agent off a cluster
    Unjoin(command::unjoin::Unjoin),
    /// Take the hub off its cluster
    Clean(command::clean::Clean),
    /// Run other images of a hub or of an agent, and keep all else
    #[command(subcommand)]
    Upgrade(command::upgrade::Upgrade),
    /// Print a page about the hub: clusters and their sets, works, add-ons, placements,
    /// the token that clusters join with
    #[command(subcommand)]
    Get(command::get::Get),
    /// Create something on the hub
    #[command(subcommand)]
    Create(command::create::Create),
    /// Delete something from the hub
    #[command(subcommand)]
    Delete(command::delete::Delete),
    /// Accept clusters that asked to join: approve their certificate requests and admit them
    Accept(command::accept::Accept),
    /// Enable, disable, make and list add-ons
    #[command(subcommand, alias = "addons")]
    Addon(command::addon::Addon),
    /// Put clusters into sets, and let namespaces use them
    #[command(subcommand, name = "clusterset")]
    ClusterSet(command::clusterset::ClusterSet),
    /// Reach clusters through the add-on cluster-proxy
    #[command(subcommand)]
    Proxy(command::proxy::Proxy),
    /// Install the hub's part of an add-on
    #[command(subcommand)]
    Install(command::hub_addon::InstallWhat),
    /// Remove the hub's part of an add-on
    #[command(subcommand)]
    Uninstall(command::hub_addon::UninstallWhat),
    /// Look after the applications of subscriptions
    #[command(subcommand)]
    App(command::app::App),
    /// Try policies: what one would say of objects in files, without a cluster
    #[command(subcommand)]
    Policy(command::policy::PolicyCommand),
    /// Say what an object waits for, one sentence for each thing
    Why(command::why::Why),
    /// Run the hub's controllers against the Kubernetes API of the kubeconfig
    Hub(command::hub::Hub),
    /// Run the agent of the cluster of the kubeconfig
    Agent(command::agent::Agent),
    /// Write everything in a data directory to a file, while it is in use or not
    Backup(command::backup::Backup),
    /// Make a data directory of what `drover backup` has written
    Restore(command::restore::Restore),
    /// Print the manifests that run a hub or an agent on a Kubernetes, for `kubectl apply -f -`
    #[command(subcommand)]
    Manifests(command::manifests::Manifests),
    /// Print the version of this binary, and of the hub if it can be reached
    Version(command::version::Version),
    /// Print the completion script of a shell
    #[command(alias = "completion")]
    Completions(command::completions::Completions),
}

#[cfg(test)]
mod tests {
    use client::flags::WAIT_SECONDS_MAX;

    use super::*;

    #[test]
    fn no_command_waits_longer_than_a_clock_runs() {
        let commands = [
            "init",
            "join --cluster-name c --bootstrap-kubeconfig f",
            "upgrade clustermanager",
            "delete token",
            "unjoin --cluster-name c",
            "clean",
            "accept --clusters c",
            "delete work w --clusters c",
        ];
        for command in commands {
            let wait = |seconds: u64| {
                let line = format!("drover {command} --timeout {seconds}");
                Cli::try_parse_from(line.split(' '))
                    .map(drop)
                    .map_err(|it| it.to_string())
            };
            assert_eq!(wait(WAIT_SECONDS_MAX), Ok(()), "{command}");
            let error = wait(u64::MAX).unwrap_err();
            assert!(
                error.contains("--timeout <SECONDS>") && error.contains("0..=31536000"),
                "{error}"
            );
        }
    }
}
