//! Completion scripts of shells, which clap writes from our tables.

use clap::{Arg, ArgAction};
use clap_complete::Shell;

use crate::{
    command::{CobraCommand, Program},
    flag::{Flag, ValueKind},
};

/// The script for a shell (`bash`, `zsh`, `fish`, `powershell`); nothing where it is none of them.
pub fn script(program: Program, shell: &str) -> Option<String> {
    let shell: Shell = shell.parse().ok()?;
    let mut command = of(program.root).args(program.global.iter().map(|it| argument(it).global(true)));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, program.root.name, &mut script);
    Some(String::from_utf8_lossy(&script).into_owned())
}

fn of(command: &'static CobraCommand) -> clap::Command {
    let flags = command.flags.iter().flat_map(|it| it.iter());
    clap::Command::new(command.name)
        .about(command.about)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args(flags.map(argument))
        .subcommands(command.commands.iter().map(of))
}

/// A flag as clap has it.
pub fn argument(flag: &'static Flag) -> Arg {
    let help = match flag.default {
        "" => flag.help.to_owned(),
        default => format!("{} (default {default})", flag.help),
    };
    let mut arg = Arg::new(flag.name)
        .long(flag.name)
        .help(help)
        .hide(flag.hidden)
        .value_name(flag.kind.name())
        .action(ArgAction::Append)
        .allow_hyphen_values(true);
    if flag.kind == ValueKind::Bool {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    if let Some(letter) = flag.short {
        arg = arg.short(letter);
    }
    arg
}
