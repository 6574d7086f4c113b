//! Flags that many commands take.

use std::path::PathBuf;

use clap::{Args, builder::RangedU64ValueParser, value_parser};

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The kubeconfig to use [default: $KUBECONFIG, ~/.kube/config, the pod's own, ./.drover/hub.kubeconfig]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use [default: its current context]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub context: Option<String>,
    /// What to log to standard error, for example `info` or `work=debug,warn`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "DROVER_LOG",
        help_heading = "Global options"
    )]
    pub log: Option<String>,
}

/// The longest that a command waits, in seconds: a year, which nobody sits through,
/// and which every clock can be moved on by.
pub const WAIT_SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

/// Reads the `--timeout` of a command.
pub fn wait_seconds() -> RangedU64ValueParser<u64> {
    value_parser!(u64).range(..=WAIT_SECONDS_MAX)
}
