//! Semantic versions.
//! Upstream: k8s.io/apiserver pkg/cel/library/semverlib.go over github.com/blang/semver, of which the messages are.
//! What is said of a build counts nowhere, so it is not kept.

use std::{borrow::Cow, cmp::Ordering, sync::Arc};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::{Arguments, This},
    objects::Opaque,
};

use super::urls::quoted;
use crate::charge::{failed, pay};

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    root.add_function("semver", |ftx: &FunctionContext, Arguments(args): Arguments| {
        let version = argument(ftx, &args)?.map_err(|it| failed(ftx.name, &it))?;
        Ok(Value::Opaque(Arc::new(version)))
    });
    root.add_function("isSemver", |ftx: &FunctionContext, Arguments(args): Arguments| {
        argument(ftx, &args).map(|it| it.is_ok())
    });
    for (at, name) in ["major", "minor", "patch"].into_iter().enumerate() {
        root.add_function(name, move |This(this): This<Value>| {
            let version = version(&this).ok_or(ExecutionError::NoSuchOverload)?;
            // As in Go, what is too large for an int is a negative one.
            Ok::<_, ExecutionError>(version.numbers[at].cast_signed())
        });
    }
}

/// Which of two versions comes first; `None` if they are not both versions.
pub fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    Some(version(one)?.order(version(other)?))
}

/// How long the text of a version is that has to be gone through to compare it; `None` if it is none.
pub fn length(value: &dyn Opaque) -> Option<usize> {
    let version: &Version = value.downcast_ref()?;
    Some(version.prerelease.as_ref().map_or(0, String::len))
}

#[derive(Debug, PartialEq, Eq)]
struct Version {
    numbers: [u64; 3],
    /// Each of its identifiers can be read.
    prerelease: Option<String>,
}

/// A part of a prerelease: numbers come before texts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'a> {
    Number(u64),
    Text(&'a str),
}

impl Opaque for Version {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.Semver"
    }
}

impl Version {
    fn order(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| match (&self.prerelease, &other.prerelease) {
                (Some(one), Some(other)) => identifiers(one).cmp(identifiers(other)),
                (one, other) => one.is_none().cmp(&other.is_none()),
            })
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = cut(rest, '+');
        let (patch, prerelease) = cut(rest, '-');
        let numbers = [
            number(major, "Major", "major")?,
            number(minor, "Minor", "minor")?,
            number(patch, "Patch", "patch")?,
        ];
        for part in prerelease.into_iter().flat_map(|it| it.split('.')) {
            identifier(part)?;
        }
        for part in build.into_iter().flat_map(|it| it.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_identifier(part) {
                let part = quoted(part.as_bytes());
                return Err(format!("Invalid character(s) found in build meta data {part}"));
            }
        }
        Ok(Self {
            numbers,
            prerelease: prerelease.map(str::to_owned),
        })
    }
}

/// Makes `v1`, `1.2` and `01.02.03` what they are meant to be.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<_> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|it| it.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, Cow::Borrowed("0"));
    Ok(parts.join("."))
}

/// A number without the zeros it begins with, whatever follows it.
fn without_zeros(text: &str) -> Cow<'_, str> {
    if text.len() < 2 {
        return text.into();
    }
    let trimmed = text.trim_start_matches('0');
    if trimmed.starts_with(|it: char| it.is_ascii_digit()) {
        trimmed.into()
    } else {
        format!("0{trimmed}").into()
    }
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at)
        .map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_digit())
}

fn has_zeros(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn number(text: &str, name: &str, lower: &str) -> Result<u64, String> {
    if !is_number(text) {
        let text = quoted(text.as_bytes());
        return Err(format!("Invalid character(s) found in {lower} number {text}"));
    }
    if has_zeros(text) {
        let text = quoted(text.as_bytes());
        return Err(format!("{name} number must not contain leading zeroes {text}"));
    }
    value(text)
}

fn value(digits: &str) -> Result<u64, String> {
    digits.parse().map_err(|_| {
        let wrong = if digits.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        format!("strconv.ParseUint: parsing {}: {wrong}", quoted(digits.as_bytes()))
    })
}

/// The identifiers of a prerelease that has been read before.
fn identifiers(text: &str) -> impl Iterator<Item = Identifier<'_>> {
    text.split('.').filter_map(|it| identifier(it).ok())
}

fn identifier(text: &str) -> Result<Identifier<'_>, String> {
    let shown = || quoted(text.as_bytes());
    if text.is_empty() {
        Err("Prerelease is empty".to_owned())
    } else if is_number(text) && has_zeros(text) {
        let shown = shown();
        Err(format!(
            "Numeric PreRelease version must not contain leading zeroes {shown}"
        ))
    } else if is_number(text) {
        value(text).map(Identifier::Number)
    } else if is_identifier(text) {
        Ok(Identifier::Text(text))
    } else {
        Err(format!("Invalid character(s) found in prerelease {}", shown()))
    }
}

fn version(value: &Value) -> Option<&Version> {
    match value {
        Value::Opaque(it) => it.downcast_ref(),
        _ => None,
    }
}

/// The version that a text, and whether to normalize it, say; or what is wrong with it.
fn argument(ftx: &FunctionContext, args: &[Value]) -> Result<Result<Version, String>, ExecutionError> {
    let (text, normalize) = match args {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(normalize)] => (text, *normalize),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    pay(ftx, text.len() as u64 / 10)?;
    Ok(if normalize {
        normalized(text).and_then(|it| Version::read(&it))
    } else {
        Version::read(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_the_specification() {
        let versions = [
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0--",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0",
            "1.0.1",
            "1.2.0",
            "1.10.0",
            "18446744073709551615.0.0",
        ];
        let versions = versions.map(|it| Version::read(it).unwrap());
        assert!(versions.is_sorted_by(|one, other| one.order(other) == Ordering::Less));
    }

    #[test]
    fn a_build_makes_no_other_version() {
        assert_eq!(Version::read("1.0.0-a+b.c"), Version::read("1.0.0-a"));
        assert!(Version::read("1.0.0+").is_err());
        assert!(Version::read("1.0.0+b_c").is_err());
    }

    #[test]
    fn only_normalization_accepts_short_versions_and_leading_zeros() {
        for (text, meant) in [
            ("v1", "1.0.0"),
            ("1.2", "1.2.0"),
            ("v01.002.0003-04+05", "1.2.3-04+05"),
            ("00.0.00-a", "0.0.0-a"),
            ("v", ".0.0"),
            ("vv1", "0v1.0.0"),
            ("é.1", "0é.1.0"),
        ] {
            assert_eq!(normalized(text).as_deref(), Ok(meant));
            assert!(Version::read(text).is_err(), "{text}");
        }
        assert!(normalized("1.2-a").is_err());
    }
}
