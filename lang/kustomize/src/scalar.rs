//! YAML's scalars as go-yaml 3 reads and writes them: kustomize keeps their text and their tag apart, so that a number
//! that is set into the place of a string stays a string, and a text that is set into the place of a number is an
//! error.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Number, Value as Json};

use crate::error::{KustomizeError, Result};

/// What a scalar is. One without a tag is what its text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Unset,
    Str,
    Int,
    Float,
    Bool,
    Null,
    Timestamp,
}

/// How a scalar is written, where it says something about its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Block,
    /// Nothing between braces or brackets. It is null, but upstream writes it as an empty string.
    EmptyInFlow,
}

/// A scalar with its text as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub text: String,
    pub tag: Tag,
    pub style: Style,
    pub shared: Option<Shared>,
}

/// Upstream puts one and the same value into all fields of an object that get a label or an annotation, so that whoever
/// changes one of them later changes all. Values with one `id` are one; the one that was written last counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    id: u64,
    written: u64,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let id = Shared::next();
        Shared { id, written: id }
    }

    fn next() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn id(self) -> u64 {
        self.id
    }

    pub(crate) fn written(self) -> u64 {
        self.written
    }
}

impl Scalar {
    /// A string, whatever it looks like.
    pub(crate) fn string(text: impl Into<String>) -> Self {
        Scalar::tagged(text, Tag::Str)
    }

    pub(crate) fn tagged(text: impl Into<String>, tag: Tag) -> Self {
        Scalar {
            text: text.into(),
            tag,
            style: Style::Plain,
            shared: None,
        }
    }

    /// A scalar that is what it looks like, written as `style`.
    pub(crate) fn untagged(text: impl Into<String>, style: Style) -> Self {
        Scalar {
            text: text.into(),
            tag: Tag::Unset,
            style,
            shared: None,
        }
    }

    /// Takes over another value. It is written as this one was.
    pub(crate) fn become_value_of(&mut self, other: Scalar) {
        self.text = other.text;
        self.tag = other.tag;
        if self.style == Style::EmptyInFlow {
            self.style = Style::Plain;
        }
        self.touch();
    }

    /// Notes that it was written.
    pub(crate) fn touch(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.written = Shared::next();
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.tag == Tag::Null
    }

    /// Its value, as whoever reads the written document finds it.
    pub(crate) fn to_json(&self) -> Result<Json> {
        let string = || Ok(Json::String(self.text.clone()));
        let plain = self.style == Style::Plain && !self.text.contains('\n');
        let looks = || Looks::of(&self.text);
        match self.tag {
            Tag::Str => string(),
            Tag::Unset if !plain => string(),
            Tag::Unset => looks().to_json(&self.text),
            tag => {
                let looks = looks();
                if looks.tag() == tag && plain {
                    return looks.to_json(&self.text);
                }
                if looks.tag() == tag {
                    return string();
                }
                match (tag, looks) {
                    (Tag::Float, it @ (Looks::Int(_) | Looks::Unsigned(_))) => it.to_json(&self.text),
                    _ => Err(KustomizeError::wrong(format!(
                        "`{}` is set where the value has another type; quote the value that is replaced, or set one \
                         of its type",
                        self.text
                    ))),
                }
            }
        }
    }

    /// How it is written, as far as one line goes.
    pub(crate) fn written(&self) -> String {
        match self.style {
            Style::SingleQuoted => format!("'{}'", self.text.replace('\'', "''")),
            Style::DoubleQuoted => format!("\"{}\"", self.text),
            Style::Plain if self.tag == Tag::Str && Looks::of(&self.text).tag() != Tag::Str => {
                format!("\"{}\"", self.text)
            }
            _ => self.text.trim().to_owned(),
        }
    }
}

/// What a plain text looks like to go-yaml 3.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Looks {
    Null,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    /// A point in time, as RFC 3339 writes it.
    Time(String),
    Merge,
    Str,
}

impl Looks {
    pub(crate) fn of(text: &str) -> Looks {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Looks::Null,
            "true" | "True" | "TRUE" => return Looks::Bool(true),
            "false" | "False" | "FALSE" => return Looks::Bool(false),
            ".nan" | ".NaN" | ".NAN" => return Looks::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Looks::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => return Looks::Float(f64::NEG_INFINITY),
            "<<" => return Looks::Merge,
            _ => {}
        }
        let finite = |text: &str| text.parse::<f64>().ok().filter(|it| it.is_finite());
        match text.as_bytes()[0] {
            b'.' if text.len() > 1 && text[1..].starts_with(|it: char| it.is_ascii_digit()) => {
                finite(text).map_or(Looks::Str, Looks::Float)
            }
            b'0'..=b'9' | b'+' | b'-' => {
                if let Some(time) = timestamp(text) {
                    return Looks::Time(time);
                }
                let plain = text.replace('_', "");
                if let Some(whole) = integer(&plain) {
                    return whole;
                }
                if is_float(&plain)
                    && let Some(value) = finite(&plain)
                {
                    return Looks::Float(value);
                }
                Looks::Str
            }
            _ => Looks::Str,
        }
    }

    /// As [`Looks::of`], with the truths of YAML 1.1 and times as texts: how kustomization files themselves are read.
    pub(crate) fn of_version_1_1(text: &str) -> Looks {
        match text {
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Looks::Bool(true),
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Looks::Bool(false),
            text => match Looks::of(text) {
                Looks::Time(_) => Looks::Str,
                looks => looks,
            },
        }
    }

    pub(crate) fn tag(&self) -> Tag {
        match self {
            Looks::Null => Tag::Null,
            Looks::Bool(_) => Tag::Bool,
            Looks::Int(_) | Looks::Unsigned(_) => Tag::Int,
            Looks::Float(_) => Tag::Float,
            Looks::Time(_) => Tag::Timestamp,
            Looks::Merge | Looks::Str => Tag::Str,
        }
    }

    pub(crate) fn to_json(&self, text: &str) -> Result<Json> {
        Ok(match self {
            Looks::Null => Json::Null,
            Looks::Bool(it) => Json::Bool(*it),
            Looks::Int(it) => Json::from(*it),
            Looks::Unsigned(it) => Json::from(*it),
            Looks::Float(it) => float(*it).ok_or_else(|| {
                KustomizeError::wrong(format!(
                    "`{text}` is no number that JSON knows; quote it if it is a text"
                ))
            })?,
            Looks::Time(it) => Json::String(it.clone()),
            Looks::Merge | Looks::Str => Json::String(text.to_owned()),
        })
    }
}

/// A number, which is whole when it has no decimals: as JSON writes it and YAML reads it again.
pub(crate) fn float(value: f64) -> Option<Json> {
    if !value.is_finite() {
        return None;
    }
    if value.fract() == 0.0 && value.abs() < 1e21 {
        // The shortest digits, filled up with zeros.
        let text = format!("{value}");
        if let Ok(whole) = text.parse::<i64>() {
            return Some(Json::from(whole));
        }
        if let Ok(whole) = text.parse::<u64>() {
            return Some(Json::from(whole));
        }
    }
    Number::from_f64(value).map(Json::Number)
}

/// The shortest text of a number, as Go's `%g` has it.
pub(crate) fn float_text(value: f64) -> String {
    let shortest = format!("{value:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else {
        return shortest;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    format!("{value}")
}

// Go's ParseInt and ParseUint of base 0, without underscores.
fn integer(text: &str) -> Option<Looks> {
    let (negative, signed, digits) = match text.as_bytes().first()? {
        b'-' => (true, true, &text[1..]),
        b'+' => (false, true, &text[1..]),
        _ => (false, false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return (value <= 1 << 63).then(|| Looks::Int((value as i64).wrapping_neg()));
    }
    match i64::try_from(value) {
        Ok(value) => Some(Looks::Int(value)),
        Err(_) => (!signed).then_some(Looks::Unsigned(value)),
    }
}

// ^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && (!whole.is_empty() || !fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|it| {
        let it = it.strip_prefix(['-', '+']).unwrap_or(it);
        !it.is_empty() && digits(it)
    });
    mantissa_fits && exponent_fits
}

/// `2006-1-2`, with or without a time of day, as RFC 3339 writes it.
fn timestamp(text: &str) -> Option<String> {
    if text.len() < 8 || !text.is_ascii() || text.as_bytes()[4] != b'-' {
        return None;
    }
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some((text.as_bytes()[at], &text[at + 1..]))),
        None => (text, None),
    };
    let number = |text: &str, most: usize| {
        let fits = !text.is_empty() && text.len() <= most && text.bytes().all(|it| it.is_ascii_digit());
        fits.then(|| text.parse::<u32>().ok()).flatten()
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 {
        return None;
    }
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=days).contains(&day) {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    let Some((separator, time)) = time else {
        return Some(format!("{date}T00:00:00Z"));
    };
    let (clock, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => (&time[..at], &time[at..]),
        None => (time, ""),
    };
    let zone = match zone {
        "" if separator == b' ' => "Z",
        "Z" | "+00:00" | "-00:00" if separator != b' ' => "Z",
        it if separator != b' ' && it.len() == 6 && it.as_bytes()[3] == b':' => {
            let (hours, minutes) = (number(&it[1..3], 2)?, number(&it[4..], 2)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            it
        }
        _ => return None,
    };
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (clock, None),
    };
    let mut parts = clock.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = match fraction {
        None => String::new(),
        Some(it) if it.is_empty() || !it.bytes().all(|it| it.is_ascii_digit()) => return None,
        Some(it) => {
            let it = it[..it.len().min(9)].trim_end_matches('0');
            if it.is_empty() { String::new() } else { format!(".{it}") }
        }
    };
    Some(format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"))
}
