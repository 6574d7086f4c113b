//! Reads a command line as upstream's programs do, and refuses it in their words.
//! Upstream: spf13/pflag and spf13/cobra, whose sentences users and scripts know.

use std::{collections::BTreeMap, time::Duration};

use clap::{
    Arg, ArgAction, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::flags::{Flag, Gate, LOGGING, Subcommand, ValueKind};

/// The flag of the gates, where there are any.
const FEATURE_GATES: Flag = Flag {
    name: "feature-gates",
    kind: ValueKind::Gates,
    default: "",
    help: "Switches to turn on or off, as NAME=BOOL",
    hidden: false,
};

/// What was typed, each flag with the values it has in the end.
#[derive(Debug, Default)]
pub struct FlagValues {
    values: BTreeMap<&'static str, Vec<String>>,
    given: BTreeMap<&'static str, bool>,
    gates: BTreeMap<&'static str, bool>,
}

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

/// The command as clap has it.
pub fn command(program: &'static str, subcommand: &Subcommand) -> Command {
    let mut command = Command::new(subcommand.name)
        .bin_name(format!("{program} {}", subcommand.name))
        .about(subcommand.about)
        .max_term_width(100)
        .disable_help_subcommand(true)
        // As cobra does, words beyond the sub-command are not looked at.
        .arg(Arg::new("words").num_args(0..).hide(true));
    for flag in all_flags(subcommand) {
        let help = match flag.default {
            "" => flag.help.to_owned(),
            default => format!("{} (default {default})", flag.help),
        };
        let mut arg = Arg::new(flag.name)
            .long(flag.name)
            .help(help)
            .hide(flag.hidden)
            .value_name(value_name(flag.kind))
            .action(ArgAction::Append)
            .allow_hyphen_values(true);
        if flag.kind == ValueKind::Bool {
            arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        if flag.name == "v" {
            arg = arg.short('v');
        }
        command = command.arg(arg);
    }
    command
}

fn value_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Bool => "bool",
        ValueKind::Int => "int",
        ValueKind::Int32 => "int32",
        ValueKind::Float32 => "float32",
        ValueKind::Duration => "duration",
        ValueKind::Text => "string",
        ValueKind::List => "strings",
        ValueKind::Array => "stringArray",
        ValueKind::Pairs => "stringToString",
        ValueKind::Gates => "mapStringBool",
    }
}

/// Reads the arguments of a sub-command, without its name.
pub fn read(program: &'static str, subcommand: &Subcommand, arguments: &[String]) -> Result<FlagValues, ReadError> {
    let words = std::iter::once(subcommand.name.to_owned()).chain(arguments.iter().cloned());
    let matches = command(program, subcommand)
        .try_get_matches_from(words)
        .map_err(|error| refusal(&error, arguments))?;
    let mut read = FlagValues::default();
    for flag in all_flags(subcommand) {
        let typed: Vec<String> = matches.get_many(flag.name).into_iter().flatten().cloned().collect();
        for value in &typed {
            check(flag, subcommand, value).map_err(|why| {
                let name = if flag.name == "v" {
                    "-v, --v".to_owned()
                } else {
                    format!("--{}", flag.name)
                };
                ReadError::Wrong(format!("invalid argument {value:?} for {name:?} flag: {why}"))
            })?;
        }
        read.given.insert(flag.name, !typed.is_empty());
        let typed = if typed.is_empty() && !flag.default.is_empty() {
            vec![default(flag)]
        } else {
            typed
        };
        let values = match flag.kind {
            ValueKind::Array => typed,
            ValueKind::List | ValueKind::Pairs | ValueKind::Gates => typed.iter().flat_map(|it| elements(it)).collect(),
            // The last one counts.
            _ => typed.into_iter().next_back().into_iter().collect(),
        };
        read.values.insert(flag.name, values);
    }
    read.gates = gates(subcommand, &read.pairs(FEATURE_GATES.name));
    Ok(read)
}

/// What a flag says that is not typed. A path is one of the pod's.
fn default(flag: &Flag) -> String {
    if flag.default.starts_with('/') {
        return process::pod::path(flag.default).to_string_lossy().into_owned();
    }
    flag.default.to_owned()
}

/// The parts of a list; an empty text has none.
fn elements(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|it| it.trim_matches('"').to_owned()).collect()
}

fn refusal(error: &clap::Error, arguments: &[String]) -> ReadError {
    if error.kind() == ErrorKind::DisplayHelp {
        return ReadError::Help(error.to_string());
    }
    let name = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(it)) => it.split_whitespace().next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let name = name.split(['=', '[']).next().unwrap_or_default();
    ReadError::Wrong(match error.kind() {
        ErrorKind::UnknownArgument => match name.strip_prefix("--") {
            Some(name) => format!("unknown flag: --{name}"),
            None => {
                let letter = name.chars().nth(1).unwrap_or_default();
                let whole = arguments.iter().find(|it| it.starts_with(name));
                format!("unknown shorthand flag: {letter:?} in {}", whole.map_or(name, |it| it))
            }
        },
        _ if name.starts_with('-') => format!("flag needs an argument: {name}"),
        _ => error.to_string(),
    })
}

/// What Go says of a value that it cannot read.
fn check(flag: &Flag, subcommand: &Subcommand, value: &str) -> Result<(), String> {
    let integer = |bits: u32| {
        let read: Result<i64, _> = match value.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => value.parse(),
        };
        let says = |what: &str| Err(format!("strconv.ParseInt: parsing {value:?}: {what}"));
        match read {
            Ok(it) if bits == 32 && i32::try_from(it).is_err() => says("value out of range"),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => says("value out of range"),
                _ => says("invalid syntax"),
            },
        }
    };
    match flag.kind {
        ValueKind::Bool => boolean(value)
            .map(|_| ())
            .ok_or_else(|| format!("strconv.ParseBool: parsing {value:?}: invalid syntax")),
        ValueKind::Int => integer(64),
        ValueKind::Int32 => integer(32),
        ValueKind::Float32 => value
            .parse::<f32>()
            .map(|_| ())
            .map_err(|_| format!("strconv.ParseFloat: parsing {value:?}: invalid syntax")),
        ValueKind::Duration => duration(value).map(|_| ()),
        ValueKind::Text | ValueKind::List | ValueKind::Array => Ok(()),
        ValueKind::Pairs => match elements(value).into_iter().find(|it| !it.contains('=')) {
            Some(it) => Err(format!("{it} must be formatted as key=value")),
            None => Ok(()),
        },
        ValueKind::Gates => elements(value).iter().try_for_each(|it| gate(it, subcommand)),
    }
}

fn gate(text: &str, subcommand: &Subcommand) -> Result<(), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!("missing bool value for {}", text.trim()));
    };
    let (name, value) = (name.trim(), value.trim());
    if boolean(value).is_none() {
        let why = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
        return Err(format!("invalid value of {name}={value}, err: {why}"));
    }
    if !["AllAlpha", "AllBeta"].contains(&name) && !subcommand.gates.iter().any(|it| it.name == name) {
        return Err(format!("unrecognized feature gate: {name}"));
    }
    Ok(())
}

/// A gate that is not named follows its stage, if that is, and upstream's default otherwise.
fn gates(subcommand: &Subcommand, typed: &BTreeMap<String, String>) -> BTreeMap<&'static str, bool> {
    let said = |name: &str| typed.get(name).and_then(|it| boolean(it.trim()));
    let value = |it: &Gate| {
        let stage = said(if it.is_beta { "AllBeta" } else { "AllAlpha" });
        said(it.name).or(stage).unwrap_or(it.default)
    };
    subcommand.gates.iter().map(|it| (it.name, value(it))).collect()
}

/// What Go's strconv.ParseBool takes.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A duration as Go writes it, or Go's complaint. A negative one is none of ours: it is as short as can be.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Some(it) = kube_primitives::duration::parse(text) {
        return Ok(if it.is_negative() {
            Duration::ZERO
        } else {
            it.unsigned_abs()
        });
    }
    let number = |it: char| it.is_ascii_digit() || it == '.' || it == '-' || it == '+';
    let unit = text.trim_start_matches(number);
    Err(match (unit, text.is_empty() || unit.len() == text.len()) {
        (_, true) => format!("time: invalid duration {text:?}"),
        ("", false) => format!("time: missing unit in duration {text:?}"),
        (unit, false) => {
            let end = unit.find(number).unwrap_or(unit.len());
            format!("time: unknown unit {:?} in duration {text:?}", &unit[..end])
        }
    })
}

impl FlagValues {
    fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the flag was typed at all.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.get(name).copied().unwrap_or_default()
    }

    /// A text.
    pub fn text(&self, name: &str) -> &str {
        self.all(name).first().map(String::as_str).unwrap_or_default()
    }

    /// A text, if it says anything.
    pub fn some(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|it| !it.is_empty())
    }

    /// A boolean.
    pub fn is_on(&self, name: &str) -> bool {
        boolean(self.text(name)).unwrap_or_default()
    }

    /// A whole number.
    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// A duration.
    pub fn duration(&self, name: &str) -> Duration {
        duration(self.text(name)).unwrap_or_default()
    }

    /// The elements of a list.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.all(name).to_vec()
    }

    /// Pairs by their first half.
    pub fn pairs(&self, name: &str) -> BTreeMap<String, String> {
        let pairs = self.all(name).iter().filter_map(|it| it.split_once('='));
        pairs
            .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
            .collect()
    }

    /// Whether a gate is on.
    pub fn gate(&self, name: &str) -> bool {
        self.gates.get(name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
