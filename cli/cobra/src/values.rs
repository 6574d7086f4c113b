//! What flags were given, and what Go says of a value that it cannot read.

use std::{collections::BTreeMap, num::IntErrorKind, time::Duration};

use crate::flag::{Flag, KnownGate, ValueKind};

/// What was typed, each flag with the values it has in the end.
#[derive(Debug, Default)]
pub struct FlagValues {
    values: BTreeMap<&'static str, Vec<String>>,
    /// The names of the flags that were typed, in the order of the alphabet.
    given: Vec<&'static str>,
    gates: BTreeMap<&'static str, bool>,
}

impl FlagValues {
    /// From what was typed for each flag, in the order it was typed.
    pub(crate) fn of(
        flags: &[&'static Flag],
        gates: &[KnownGate],
        typed: &BTreeMap<&'static str, Vec<String>>,
    ) -> Self {
        let mut read = Self::default();
        for flag in flags {
            let typed = typed.get(flag.name).cloned().unwrap_or_default();
            if !typed.is_empty() {
                read.given.push(flag.name);
            }
            let typed = if typed.is_empty() && !flag.default.is_empty() {
                vec![flag.default.to_owned()]
            } else {
                typed
            };
            let values = match flag.kind {
                ValueKind::Array => typed,
                ValueKind::List | ValueKind::Pairs | ValueKind::Gates => {
                    typed.iter().flat_map(|it| elements(it)).collect()
                }
                // The last one counts.
                _ => typed.into_iter().next_back().into_iter().collect(),
            };
            if flag.kind == ValueKind::Gates {
                let pairs = pairs(&values);
                read.gates = gate_values(gates, &pairs);
            }
            read.values.insert(flag.name, values);
        }
        read.given.sort_unstable();
        read
    }

    fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Says something else where a flag was not typed: what `change` makes of its default, if anything.
    pub fn change_defaults(&mut self, change: impl Fn(&str) -> Option<String>) {
        let defaults = self.values.iter_mut().filter(|(name, _)| !self.given.contains(name));
        for value in defaults.flat_map(|(_, values)| values) {
            if let Some(changed) = change(value) {
                *value = changed;
            }
        }
    }

    /// Whether the flag was typed at all.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// The flags that were typed, in the order of the alphabet.
    pub fn given(&self) -> &[&'static str] {
        &self.given
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
        integer(self.text(name)).unwrap_or_default()
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
        pairs(self.all(name))
    }

    /// Whether a gate is on.
    pub fn gate(&self, name: &str) -> bool {
        self.gates.get(name).copied().unwrap_or_default()
    }
}

fn pairs(elements: &[String]) -> BTreeMap<String, String> {
    let pairs = elements.iter().filter_map(|it| it.split_once('='));
    pairs
        .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
        .collect()
}

/// The parts of a list, which is a line of comma-separated values; an empty text has none.
pub fn elements(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // A quote inside quotes is written twice.
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                push(&mut parts, '"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => parts.push(String::new()),
            letter => push(&mut parts, letter),
        }
    }
    parts
}

fn push(parts: &mut [String], letter: char) {
    if let Some(last) = parts.last_mut() {
        last.push(letter);
    }
}

/// What Go says of a value that it cannot read.
///
/// # Errors
/// That sentence.
pub fn check(flag: &Flag, gates: &[KnownGate], value: &str) -> Result<(), String> {
    let says = |function: &str, what: &str| Err(format!("strconv.{function}: parsing {value:?}: {what}"));
    match flag.kind {
        ValueKind::Bool => match boolean(value) {
            Some(_) => Ok(()),
            None => says("ParseBool", "invalid syntax"),
        },
        ValueKind::Int | ValueKind::Int64 | ValueKind::Int32 => match integer(value) {
            Ok(it) if flag.kind == ValueKind::Int32 && i32::try_from(it).is_err() => {
                says("ParseInt", "value out of range")
            }
            Ok(_) => Ok(()),
            Err(what) => says("ParseInt", what),
        },
        ValueKind::Uint64 => match value.parse::<u64>() {
            Ok(_) => Ok(()),
            Err(error) => says("ParseUint", fault(error.kind())),
        },
        ValueKind::Float32 => match value.parse::<f32>() {
            Ok(_) => Ok(()),
            Err(_) => says("ParseFloat", "invalid syntax"),
        },
        ValueKind::Duration => duration(value).map(|_| ()),
        ValueKind::Text | ValueKind::List | ValueKind::Array => Ok(()),
        ValueKind::Pairs => match elements(value).into_iter().find(|it| !it.contains('=')) {
            Some(it) => Err(format!("{it} must be formatted as key=value")),
            None => Ok(()),
        },
        ValueKind::Gates => elements(value)
            .iter()
            .filter(|it| !it.is_empty())
            .try_for_each(|it| gate(it, gates)),
    }
}

fn fault(kind: &IntErrorKind) -> &'static str {
    match kind {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// A whole number, as Go reads it: a `0x` before it makes it hexadecimal.
fn integer(text: &str) -> Result<i64, &'static str> {
    let read = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    read.map_err(|error| fault(error.kind()))
}

fn gate(text: &str, gates: &[KnownGate]) -> Result<(), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!("missing bool value for {}", text.trim()));
    };
    let (name, value) = (name.trim(), value.trim());
    if boolean(value).is_none() {
        let why = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
        return Err(format!("invalid value of {name}={value}, err: {why}"));
    }
    if !["AllAlpha", "AllBeta"].contains(&name) && !gates.iter().any(|it| it.name == name) {
        return Err(format!("unrecognized feature gate: {name}"));
    }
    Ok(())
}

/// A gate that is not named follows its stage, if that is, and upstream's default otherwise.
fn gate_values(gates: &[KnownGate], typed: &BTreeMap<String, String>) -> BTreeMap<&'static str, bool> {
    let said = |name: &str| typed.get(name).and_then(|it| boolean(it.trim()));
    let value = |it: &KnownGate| {
        let stage = said(if it.is_beta { "AllBeta" } else { "AllAlpha" });
        said(it.name).or(stage).unwrap_or(it.default)
    };
    gates.iter().map(|it| (it.name, value(it))).collect()
}

/// What Go's strconv.ParseBool takes.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A duration as Go writes it. A negative one is none of ours: it is as short as can be.
///
/// # Errors
/// Go's complaint.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_line_of_comma_separated_values() {
        assert_eq!(elements("a,b"), ["a", "b"]);
        assert_eq!(elements("\"a,b\",c"), ["a,b", "c"]);
        assert_eq!(elements("\"a\"\"b\""), ["a\"b"]);
        assert_eq!(elements("a,"), ["a", ""]);
        assert!(elements("").is_empty());
    }

    #[test]
    fn a_duration_is_read_as_in_go() {
        assert_eq!(duration("1m47s"), Ok(Duration::from_secs(107)));
        assert_eq!(duration("-5s"), Ok(Duration::ZERO));
        assert_eq!(duration("x"), Err("time: invalid duration \"x\"".to_owned()));
        assert_eq!(duration("5"), Err("time: missing unit in duration \"5\"".to_owned()));
    }
}
