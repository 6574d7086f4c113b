//! The command line of `dryrun`, and what upstream's program says of one that is wrong.
//! Upstream: config-policy-controller `pkg/dryrun/cmd.go`, on spf13/cobra.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::{
    ArgAction, Args, Parser, Subcommand,
    builder::OsStringValueParser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use ocm_addon_sdk::values::settings::parse_bool;

use super::report::Colors;

/// What `dryrun` is told.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct DryRun {
    #[command(subcommand)]
    pub(super) command: Option<DryRunCommand>,
    /// The ConfigurationPolicy, or a Policy that has one
    #[arg(long, short, value_name = "FILE", required = true, allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    policy: Option<OsString>,
    /// What the status should be; where it differs is printed
    #[arg(long, short = 'c', value_name = "FILE", allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    desired_status: Option<OsString>,
    /// Write the compliance messages to this file, one a line, and do not print them
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    messages_path: Option<OsString>,
    /// Write the whole status to this file
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    status_path: Option<OsString>,
    /// Print how objects differ from the policy
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    print_diffs: bool,
    /// Print differences whole, and not cut after 50 lines
    #[arg(long, value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, hide_default_value = true)]
    full_diffs: bool,
    /// Print without colors
    #[arg(long, value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, hide_default_value = true)]
    no_colors: bool,
    /// Write what is logged to this file
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    log_path: Option<OsString>,
    /// The kinds that there are, as `generate` prints them [default: those of Kubernetes]
    #[arg(long, value_name = "FILE", env = "DRYRUN_MAPPINGS_FILE", allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    mappings_file: Option<OsString>,
    /// Read the objects from the cluster of the kubeconfig and not from files; nothing is changed there
    /// [env: DRYRUN_FROM_CLUSTER=]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = go_bool, action = ArgAction::Set)]
    from_cluster: Option<bool>,
    /// The objects of the cluster: files, directories, or `-` for the standard input, which is read, too, where it is
    /// no terminal
    #[arg(value_name = "FILE", value_parser = OsStringValueParser::new())]
    pub(super) inputs: Vec<OsString>,
}

/// What `dryrun` does besides.
#[derive(Clone, Debug, Subcommand)]
pub enum DryRunCommand {
    /// Print the kinds of the cluster of the kubeconfig, for `--mappings-file`
    Generate,
}

impl DryRun {
    pub(super) fn policy(&self) -> &Path {
        Path::new(self.policy.as_deref().unwrap_or_default())
    }

    pub(super) fn desired_status(&self) -> Option<&Path> {
        path(&self.desired_status)
    }

    pub(super) fn messages_path(&self) -> Option<&Path> {
        path(&self.messages_path)
    }

    pub(super) fn status_path(&self) -> Option<&Path> {
        path(&self.status_path)
    }

    pub(super) fn log_path(&self) -> Option<&Path> {
        path(&self.log_path)
    }

    pub(super) fn mappings_file(&self) -> Option<&Path> {
        path(&self.mappings_file)
    }

    pub(super) fn prints_diffs(&self) -> bool {
        self.print_diffs
    }

    pub(super) fn full_diffs(&self) -> bool {
        self.full_diffs
    }

    pub(super) fn colors(&self) -> Colors {
        match self.no_colors {
            true => Colors::Plain,
            false => Colors::Ansi,
        }
    }

    pub(super) fn is_from_cluster(&self) -> bool {
        let by_environment = || std::env::var("DRYRUN_FROM_CLUSTER").is_ok_and(|it| it == "true");
        self.from_cluster.unwrap_or_else(by_environment)
    }
}

/// An empty path is none.
fn path(value: &Option<OsString>) -> Option<&Path> {
    value.as_deref().filter(|it| !it.is_empty()).map(Path::new)
}

/// A truth as Go's ParseBool reads it.
fn go_bool(text: &str) -> Result<bool, String> {
    parse_bool(text).ok_or_else(|| format!("strconv.ParseBool: parsing {text:?}: invalid syntax"))
}

/// Evaluate a ConfigurationPolicy without a cluster: print how objects in files differ from it, and its messages
#[derive(Debug, Parser)]
#[command(
    name = "dryrun",
    max_term_width = 100,
    args_override_self = true,
    disable_version_flag = true
)]
pub(super) struct DryRunProgram {
    #[command(flatten)]
    pub(super) arguments: DryRun,
}

/// What cobra says of a command line that is wrong; `last` is its last word.
pub(super) fn as_cobra_says(error: &clap::Error, last: &OsStr) -> String {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    let flag = argument.split([' ', '[', '=']).next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if flag.starts_with("--") => format!("unknown flag: {flag}"),
        ErrorKind::UnknownArgument => {
            let letter = flag.trim_start_matches('-');
            format!("unknown shorthand flag: '{letter}' in -{letter}")
        }
        ErrorKind::MissingRequiredArgument => "required flag(s) \"policy\" not set".to_owned(),
        ErrorKind::InvalidValue => match last.to_str().and_then(|it| it.strip_prefix('-')) {
            Some(short) if !short.starts_with('-') => format!("flag needs an argument: '{short}' in -{short}"),
            _ => format!("flag needs an argument: {flag}"),
        },
        ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue);
            format!(
                "invalid argument {value:?} for {flag:?} flag: strconv.ParseBool: parsing {value:?}: invalid syntax"
            )
        }
        _ => {
            let whole = error.to_string();
            let line = whole.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<DryRun, String> {
        let words = std::iter::once("dryrun").chain(line.split_whitespace());
        let read = DryRunProgram::try_parse_from(words);
        read.map(|it| it.arguments)
            .map_err(|it| as_cobra_says(&it, OsStr::new(line.split(' ').next_back().unwrap_or_default())))
    }

    #[test]
    fn flags_are_read_as_cobra_reads_them() {
        let read = read("-p a b --print-diffs=false --no-colors - -c=d --full-diffs=0 --status-path x").unwrap();
        assert_eq!(read.policy(), Path::new("a"));
        assert_eq!(read.inputs, ["b", "-"]);
        assert_eq!(read.desired_status(), Some(Path::new("d")));
        assert_eq!(read.colors(), Colors::Plain);
        assert!(!read.prints_diffs() && !read.full_diffs());
        assert_eq!(read.messages_path(), None);
    }

    #[test]
    fn a_wrong_line_is_refused_as_cobra_refuses_it() {
        let refused = |line: &str| read(line).unwrap_err();
        assert_eq!(refused(""), "required flag(s) \"policy\" not set");
        assert_eq!(refused("--nope"), "unknown flag: --nope");
        assert_eq!(refused("-x"), "unknown shorthand flag: 'x' in -x");
        assert_eq!(refused("-p"), "flag needs an argument: 'p' in -p");
        assert_eq!(refused("--policy"), "flag needs an argument: --policy");
        assert_eq!(
            refused("-p a --print-diffs=x"),
            "invalid argument \"x\" for \"--print-diffs\" flag: strconv.ParseBool: parsing \"x\": invalid syntax"
        );
        assert!(matches!(
            read("generate").unwrap().command,
            Some(DryRunCommand::Generate)
        ));
    }
}
