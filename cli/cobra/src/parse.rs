//! The words behind a command: flags anywhere among them, long and short, until `--`.

use std::collections::BTreeMap;

use crate::{
    flag::{Flag, KnownGate, ValueKind},
    values::{FlagValues, check},
};

/// A line that was read.
#[derive(Debug, Default)]
pub struct Parsed {
    pub values: FlagValues,
    /// What is no flag and no flag's value.
    pub words: Vec<String>,
    /// What to tell the user of flags that should not be used any more.
    pub warnings: Vec<String>,
}

/// Why a line is not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Something is wrong with it.
    Wrong(String),
    /// The help was asked for.
    Help,
}

/// The flag of every command.
pub(crate) const HELP: Flag = crate::flag::flag("help", ValueKind::Bool, "false", "Show this").short('h');

/// Whether the flag may stand without a value.
pub(crate) fn is_switch(flag: &Flag) -> bool {
    flag.kind == ValueKind::Bool
}

/// The flag of this name; a `_` in it is a `-`.
pub(crate) fn long<'a>(flags: &[&'a Flag], name: &str) -> Option<&'a Flag> {
    let name = name.replace('_', "-");
    flags.iter().copied().find(|it| it.name == name)
}

/// The flag of this letter.
pub(crate) fn short<'a>(flags: &[&'a Flag], letter: char) -> Option<&'a Flag> {
    flags.iter().copied().find(|it| it.short == Some(letter))
}

/// Reads the words behind a command as its flags and arguments.
///
/// # Errors
/// What pflag says of the first that it does not take, and when the help was asked for.
pub fn parse(flags: &[&'static Flag], gates: &[KnownGate], line: &[String]) -> Result<Parsed, ParseError> {
    let mut all = flags.to_vec();
    if long(flags, HELP.name).is_none() {
        all.push(&HELP);
    }
    let mut reader = Reader {
        flags: all,
        gates,
        line: line.iter(),
        typed: BTreeMap::new(),
        words: Vec::new(),
        warnings: Vec::new(),
    };
    reader.read().map_err(ParseError::Wrong)?;
    let values = FlagValues::of(&reader.flags, gates, &reader.typed);
    if values.is_on(HELP.name) {
        return Err(ParseError::Help);
    }
    Ok(Parsed {
        values,
        words: reader.words,
        warnings: reader.warnings,
    })
}

struct Reader<'a> {
    flags: Vec<&'static Flag>,
    gates: &'a [KnownGate],
    line: std::slice::Iter<'a, String>,
    typed: BTreeMap<&'static str, Vec<String>>,
    words: Vec<String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), String> {
        while let Some(word) = self.line.next() {
            match word.strip_prefix('-') {
                None | Some("") => self.words.push(word.clone()),
                Some("-") => self.words.extend(self.line.by_ref().cloned()),
                Some(rest) => match rest.strip_prefix('-') {
                    Some(name) => self.long(word, name)?,
                    None => self.shorts(rest)?,
                },
            }
        }
        Ok(())
    }

    fn long(&mut self, word: &str, text: &str) -> Result<(), String> {
        if text.starts_with(['-', '=']) {
            return Err(format!("bad flag syntax: {word}"));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let flag = long(&self.flags, name).ok_or_else(|| format!("unknown flag: --{name}"))?;
        let value = match value {
            Some(value) => value,
            None if is_switch(flag) => "true".to_owned(),
            None => match self.line.next() {
                Some(value) => value.clone(),
                None => return Err(format!("flag needs an argument: --{name}")),
            },
        };
        self.set(flag, value)
    }

    /// One dash, and letters: switches, of which the last may be a flag with its value.
    fn shorts(&mut self, letters: &str) -> Result<(), String> {
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            let flag = short(&self.flags, letter)
                .ok_or_else(|| format!("unknown shorthand flag: {} in -{rest}", quoted(letter)))?;
            let behind = &rest[letter.len_utf8()..];
            let value = match behind.strip_prefix('=') {
                Some(value) if !value.is_empty() => value.to_owned(),
                _ if is_switch(flag) => {
                    self.set(flag, "true".to_owned())?;
                    rest = behind;
                    continue;
                }
                _ if !behind.is_empty() => behind.to_owned(),
                _ => match self.line.next() {
                    Some(value) => value.clone(),
                    None => return Err(format!("flag needs an argument: {} in -{rest}", quoted(letter))),
                },
            };
            return self.set(flag, value);
        }
        Ok(())
    }

    fn set(&mut self, flag: &'static Flag, value: String) -> Result<(), String> {
        check(flag, self.gates, &value)
            .map_err(|why| format!("invalid argument {value:?} for {:?} flag: {why}", flag.shown()))?;
        let typed = self.typed.entry(flag.name).or_default();
        if let (Some(instead), true) = (flag.deprecated, typed.is_empty()) {
            self.warnings
                .push(format!("Flag --{} has been deprecated, {instead}", flag.name));
        }
        typed.push(value);
        Ok(())
    }
}

fn quoted(letter: char) -> String {
    format!("{letter:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::flag;

    const FLAGS: &[Flag] = &[
        flag("cluster", ValueKind::Text, "", "").short('c'),
        flag("clusters", ValueKind::List, "", ""),
        flag("wait", ValueKind::Bool, "false", ""),
        flag("replicaset", ValueKind::Bool, "false", "").short('r'),
        flag("output", ValueKind::Text, "tree", "").short('o'),
        flag("timeout", ValueKind::Int, "300", ""),
        flag("log-dir", ValueKind::Text, "", ""),
        flag("old", ValueKind::Bool, "false", "").deprecated("use --wait"),
    ];

    fn read(line: &str) -> Result<Parsed, String> {
        let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let flags: Vec<&'static Flag> = FLAGS.iter().collect();
        parse(&flags, &[], &line).map_err(|it| match it {
            ParseError::Wrong(why) => why,
            ParseError::Help => "help".to_owned(),
        })
    }

    #[test]
    fn a_value_stands_behind_a_flag_or_its_letter() {
        for line in ["--cluster a", "--cluster=a", "-c a", "-ca", "-c=a", "-rca", "-r -c a"] {
            let it = read(line).unwrap();
            assert_eq!(it.values.text("cluster"), "a", "{line}");
            assert_eq!(it.values.is_on("replicaset"), line.starts_with("-r"), "{line}");
        }
        let it = read("one --wait two --clusters a,b --clusters=c -- --three").unwrap();
        assert_eq!(it.words, ["one", "two", "--three"]);
        assert!(it.values.is_on("wait"));
        assert_eq!(it.values.list("clusters"), ["a", "b", "c"]);
        assert_eq!(
            (it.values.text("output"), it.values.is_given("output")),
            ("tree", false)
        );
        assert!(!read("--wait=false").unwrap().values.is_on("wait"));
        // As with pflag, a switch takes no value from the next word.
        assert_eq!(read("--wait false").unwrap().words, ["false"]);
        assert_eq!(read("--log_dir x").unwrap().values.text("log-dir"), "x");
    }

    #[test]
    fn what_is_wrong_is_said_as_pflag_says_it() {
        for (line, says) in [
            ("--foo", "unknown flag: --foo"),
            ("--foo=bar", "unknown flag: --foo"),
            ("-x", "unknown shorthand flag: 'x' in -x"),
            ("-rx", "unknown shorthand flag: 'x' in -x"),
            ("--cluster", "flag needs an argument: --cluster"),
            ("-c", "flag needs an argument: 'c' in -c"),
            ("---a", "bad flag syntax: ---a"),
            (
                "--wait=maybe",
                "invalid argument \"maybe\" for \"--wait\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "--timeout 5m",
                "invalid argument \"5m\" for \"--timeout\" flag: strconv.ParseInt: parsing \"5m\": invalid syntax",
            ),
            ("--help", "help"),
            ("-h", "help"),
            ("-h --foo", "unknown flag: --foo"),
        ] {
            assert_eq!(read(line).unwrap_err(), says, "{line}");
        }
    }

    #[test]
    fn a_deprecated_flag_is_taken_with_a_warning() {
        let it = read("--old --old=false").unwrap();
        assert!(!it.values.is_on("old"));
        assert_eq!(it.warnings, ["Flag --old has been deprecated, use --wait"]);
    }
}
