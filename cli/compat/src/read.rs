//! Reads a command line as upstream's programs do, and refuses it in their words.
//! Upstream: spf13/pflag and spf13/cobra, whose sentences users and scripts know.

use clap::{Arg, Command};
use cobra::{Flag, ParseError, ValueKind, completion::argument, flag};
pub use cobra::{FlagValues, values::duration};

use super::flags::{LOGGING, Subcommand};

/// The flag of the gates, where there are any.
const FEATURE_GATES: Flag = flag(
    "feature-gates",
    ValueKind::Gates,
    "",
    "Switches to turn on or off, as NAME=BOOL",
);

/// Why a command line is not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Something is wrong with it.
    Wrong(String),
    /// The help was asked for; this is it.
    Help(String),
}

/// Where the name of the sub-command is: the first word that is neither a flag nor a flag's value. As cobra has it, a
/// flag that stands before the sub-command is one of the sub-command's.
pub fn word(arguments: &[String]) -> Option<usize> {
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        match argument.as_str() {
            "--" => return None,
            it if it.starts_with('-') && it.len() > 1 => {
                let alone = it.contains('=') || ["--help", "-h", "--version"].contains(&it);
                let short_with_value = !it.starts_with("--") && it.len() > 2;
                at += if alone || short_with_value { 1 } else { 2 };
            }
            _ => return Some(at),
        }
    }
    None
}

fn all_flags(subcommand: &Subcommand) -> impl Iterator<Item = &'static Flag> {
    let gates = (!subcommand.gates.is_empty()).then_some(&FEATURE_GATES);
    let own = subcommand.flags.iter().flat_map(|it| it.iter());
    own.chain(LOGGING).chain(gates)
}

/// The command as clap has it, for its help and for completion.
pub fn command(program: &'static str, subcommand: &Subcommand) -> Command {
    Command::new(subcommand.name)
        .bin_name(format!("{program} {}", subcommand.name))
        .about(subcommand.about)
        .max_term_width(100)
        .disable_help_subcommand(true)
        // As cobra does, words beyond the sub-command are not looked at.
        .arg(Arg::new("words").num_args(0..).hide(true))
        .args(all_flags(subcommand).map(argument))
}

/// Reads the arguments of a sub-command, without its name.
pub fn read(program: &'static str, subcommand: &Subcommand, arguments: &[String]) -> Result<FlagValues, ReadError> {
    let flags: Vec<&'static Flag> = all_flags(subcommand).collect();
    match cobra::parse(&flags, subcommand.gates, arguments) {
        Ok(parsed) => {
            let mut values = parsed.values;
            // A path that nobody typed is one of the pod's, too.
            values.change_defaults(|it| {
                it.starts_with('/')
                    .then(|| process::pod::path(it).to_string_lossy().into_owned())
            });
            Ok(values)
        }
        Err(ParseError::Help) => Err(ReadError::Help(command(program, subcommand).render_help().to_string())),
        Err(ParseError::Wrong(why)) => Err(ReadError::Wrong(why)),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
