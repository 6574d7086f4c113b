//! `drover policy …`, and the binary as upstream's program `dryrun`.

use std::{ffi::OsString, path::Path, process::ExitCode};

use addon_config_policy::dryrun::{self, DryRun, StandardInput};
use clap::Subcommand;
use client::{connect::ApiServer, flags::Global};
use ocm_addon_sdk::program::Place;

/// Try policies
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Evaluate a ConfigurationPolicy without a cluster: print how objects in files differ from it, and its messages.
    ///
    /// The exit code is 0 for a policy that is compliant, 2 for one that is not, and 1 for all that went wrong.
    #[command(name = "dryrun")]
    DryRun(Box<DryRun>),
}

impl PolicyCommand {
    /// Does what was typed: what a policy says is in the exit code.
    pub fn run(self, global: &Global) -> ExitCode {
        match self {
            Self::DryRun(it) => {
                let connect = async || Ok(ApiServer::connect(global).await?.client);
                it.output(StandardInput::of_process(), connect).print()
            }
        }
    }
}

/// Runs the program `dryrun`, if the binary was called by its name, or by it as the first word. `None` otherwise.
pub fn run_program(arguments: &[OsString]) -> Option<ExitCode> {
    let is_it = |at: usize| {
        let name = arguments.get(at).and_then(|it| Path::new(it).file_name());
        name.is_some_and(|it| it == dryrun::PROGRAM)
    };
    let at = (0..2).find(|at| is_it(*at))?;
    credential::connection::install_crypto_provider();
    Some(dryrun::run(arguments[at + 1..].to_vec(), &Place::default()))
}

/// The exit code for a command line that is wrong. That of a policy which is not compliant is not for anything else.
pub fn exit_code(arguments: &[OsString], error: &clap::Error) -> u8 {
    let is_dry_run = arguments
        .windows(2)
        .any(|it| it[0] == "policy" && it[1] == dryrun::PROGRAM);
    match is_dry_run && error.use_stderr() {
        true => 1,
        false => u8::try_from(error.exit_code()).unwrap_or(2),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_wrong_line_is_no_policy_that_is_not_compliant() {
        let code = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Cli::try_parse_from(&words)
                .map_err(|error| exit_code(&words, &error))
                .err()
        };
        assert_eq!(code("drover policy dryrun"), Some(1));
        assert_eq!(code("drover policy dryrun -p a --nope"), Some(1));
        assert_eq!(code("drover policy dryrun --help"), Some(0));
        assert_eq!(code("drover policy dry"), Some(2));
        assert_eq!(code("drover policy dryrun -p a b - --no-colors"), None);
        assert_eq!(code("drover policy dryrun generate"), None);
    }

    #[test]
    fn the_program_is_called_by_its_name() {
        let run = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            run_program(&words)
        };
        assert_eq!(run("/usr/bin/dryrun --help"), Some(ExitCode::SUCCESS));
        assert_eq!(run("drover dryrun --help"), Some(ExitCode::SUCCESS));
        assert_eq!(run("drover policy dryrun"), None);
    }
}
