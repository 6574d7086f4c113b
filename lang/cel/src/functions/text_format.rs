//! Strings made by a pattern (`'%s'.format([x])`).
//! Upstream: cel-go ext/formatting.go, which Kubernetes' version of the library has: its `%f` and `%e` are for readers
//! of English rather than for machines (`1,052.03`, `1.05×10⁰³`), and what stands for the precision of `%e` is a width.
//! The later formatting_v2.go is not what Kubernetes has.

use std::{fmt::Write, sync::LazyLock};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::{Arguments, This},
    objects::{Key, Map},
};
use regex::Regex;

use super::{
    conversions::{double_text, type_name},
    text::no_such_overload,
};
use crate::charge::{failed, pay};
use crate::times::{duration_text, time_text};

/// More digits than this make much out of nothing.
const PRECISION_MAX: usize = 99;
const PRECISION: usize = 6;

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    root.add_function(
        "format",
        |ftx: &FunctionContext, This(this): This<Value>, Arguments(args): Arguments| match (&this, args.as_slice()) {
            _ if ftx.this.is_none() => Err(ExecutionError::NoSuchOverload),
            (Value::String(pattern), [Value::List(items)]) => {
                // The digits of large numbers take long, and are many.
                let pay = |clause: &Clause, text: &str| match clause {
                    Clause::Fixed(_) | Clause::Scientific(_) => pay(ftx, text.len() as u64),
                    _ => Ok(()),
                };
                Ok::<Value, _>(format(pattern, items, pay)?.into())
            }
            _ => Err(no_such_overload("format", type_name(&this), &args)),
        },
    );
}

/// Puts the items where the pattern has clauses; those that are left over are left out.
fn format(
    pattern: &str,
    items: &[Value],
    pay: impl Fn(&Clause, &str) -> Result<(), ExecutionError>,
) -> Result<String, ExecutionError> {
    let mut made = String::new();
    let mut rest = pattern;
    let mut index = 0;
    while let Some((before, after)) = rest.split_once('%') {
        made.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            made.push('%');
            rest = after;
            continue;
        }
        let Some(item) = items.get(index) else {
            return Err(failed("format", &format!("index {index} out of range")));
        };
        index += 1;
        if after.is_empty() {
            return Err(failed("format", "unexpected end of string"));
        }
        let (clause, after) = Clause::read(after).map_err(|it| failed("could not parse formatting clause", &it))?;
        let text = clause.show(item).map_err(|it| failed("error during formatting", &it))?;
        pay(&clause, &text)?;
        made.push_str(&text);
        rest = after;
    }
    made.push_str(rest);
    Ok(made)
}

/// What stands behind a `%`.
enum Clause {
    Text,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex,
    UpperHex,
    Octal,
}

impl Clause {
    /// Reads the clause that a text begins with, and says what comes after it.
    fn read(text: &str) -> Result<(Self, &str), String> {
        let (precision, rest) = match text.strip_prefix('.') {
            None => (PRECISION, text),
            Some(rest) => precision(rest).map_err(|it| format!("error while parsing precision: {it}"))?,
        };
        let clause = match rest.bytes().next() {
            Some(b's') => Self::Text,
            Some(b'd') => Self::Decimal,
            Some(b'f') => Self::Fixed(precision),
            Some(b'e') => Self::Scientific(precision),
            Some(b'b') => Self::Binary,
            Some(b'x') => Self::Hex,
            Some(b'X') => Self::UpperHex,
            Some(b'o') => Self::Octal,
            other => {
                // Upstream takes the first byte for a character.
                let shown = other.map_or_else(String::new, |it| char::from(it).to_string());
                return Err(format!("unrecognized formatting clause \"{shown}\""));
            }
        };
        Ok((clause, rest.get(1..).unwrap_or_default()))
    }

    fn show(&self, value: &Value) -> Result<String, String> {
        let given = type_name(value);
        match (self, value) {
            (Self::Text, _) => text(value),
            (Self::Decimal, Value::Int(it)) => Ok(it.to_string()),
            (Self::Decimal, Value::UInt(it)) => Ok(it.to_string()),
            (Self::Decimal, _) => Err(format!(
                "decimal clause can only be used on integers, was given {given}"
            )),
            (Self::Fixed(precision), _) => match double(value) {
                Some(it) => Ok(fixed(it, *precision)),
                None => Err(format!(
                    "fixed-point clause can only be used on doubles, was given {given}"
                )),
            },
            (Self::Scientific(width), _) => match double(value) {
                Some(it) => Ok(format!("{:>1$}", scientific(it), *width)),
                None => Err(format!(
                    "scientific clause can only be used on doubles, was given {given}"
                )),
            },
            (Self::Binary, Value::Int(it)) => Ok(format!("{}{:b}", minus(*it), it.unsigned_abs())),
            (Self::Binary, Value::UInt(it)) => Ok(format!("{it:b}")),
            (Self::Binary, Value::Bool(it)) => Ok(u8::from(*it).to_string()),
            (Self::Binary, _) => Err(format!(
                "only integers and bools can be formatted as binary, was given {given}"
            )),
            (Self::Octal, Value::Int(it)) => Ok(format!("{}{:o}", minus(*it), it.unsigned_abs())),
            (Self::Octal, Value::UInt(it)) => Ok(format!("{it:o}")),
            (Self::Octal, _) => Err(format!("octal clause can only be used on integers, was given {given}")),
            (Self::Hex, _) => hex(value),
            (Self::UpperHex, _) => hex(value).map(|it| it.to_ascii_uppercase()),
        }
    }
}

/// Reads the digits that a text begins with, and says what comes after them.
fn precision(text: &str) -> Result<(usize, &str), String> {
    let end = text.find(|it: char| !it.is_ascii_digit());
    let (digits, rest) = text.split_at(end.ok_or("could not find end of precision specifier")?);
    let problem = match digits.parse::<i64>() {
        Ok(it) => match usize::try_from(it) {
            Ok(it) if it <= PRECISION_MAX => return Ok((it, rest)),
            _ => return Err("the precision is too high".to_owned()),
        },
        Err(_) if digits.is_empty() => "invalid syntax",
        Err(_) => "value out of range",
    };
    Err(format!(
        "error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {problem}"
    ))
}

/// What `%f` and `%e` take: doubles, and the names of those that JSON has no number for.
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Float(it) => Some(*it),
        Value::String(it) => match it.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn minus(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

/// The sign of a number for readers: zero has none.
fn sign(number: f64) -> &'static str {
    if number < 0.0 { "-" } else { "" }
}

/// What is no number, for readers.
fn without_digits(number: f64) -> Option<String> {
    if number.is_nan() {
        Some("NaN".to_owned())
    } else if number.is_infinite() {
        Some(format!("{}∞", sign(number)))
    } else {
        None
    }
}

/// A number in digits, in groups of three.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(it) = without_digits(number) {
        return it;
    }
    let digits = format!("{:.precision$}", number.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut made = sign(number).to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            made.push(',');
        }
        made.push(digit);
    }
    if !fraction.is_empty() {
        made.push('.');
        made.push_str(fraction);
    }
    made
}

/// A number with a power of ten.
fn scientific(number: f64) -> String {
    if let Some(it) = without_digits(number) {
        return it;
    }
    let digits = format!("{:.PRECISION$e}", number.abs());
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let (minus, power) = exponent.strip_prefix('-').map_or(("", exponent), |it| ("⁻", it));
    let raised = |it| match it {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    };
    let power: String = format!("{power:0>2}").chars().map(raised).collect();
    format!("{}{mantissa}×10{minus}{power}", sign(number))
}

fn hex(value: &Value) -> Result<String, String> {
    let of_bytes = |bytes: &[u8]| {
        let mut made = String::with_capacity(bytes.len() * 2);
        for it in bytes {
            write!(made, "{it:02x}").expect("a string takes everything");
        }
        made
    };
    match value {
        Value::Int(it) => Ok(format!("{}{:x}", minus(*it), it.unsigned_abs())),
        Value::UInt(it) => Ok(format!("{it:x}")),
        Value::String(it) => Ok(of_bytes(it.as_bytes())),
        Value::Bytes(it) => Ok(of_bytes(it)),
        _ => Err(format!(
            "only integers, byte buffers, and strings can be formatted as hex, was given {}",
            type_name(value)
        )),
    }
}

/// A value as `%s` has it, and as `string()` has those that it takes.
pub fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::List(_) | Value::Map(_) => {
            let mut made = String::new();
            write_nested(value, &mut made)?;
            Ok(made)
        }
        Value::Int(it) => Ok(it.to_string()),
        Value::UInt(it) => Ok(it.to_string()),
        Value::Float(it) => Ok(double_text(*it)),
        Value::String(it) => Ok(it.to_string()),
        Value::Bytes(it) => of_bytes(it).map(str::to_owned),
        Value::Bool(it) => Ok(it.to_string()),
        Value::Null => Ok("null".to_owned()),
        Value::Duration(it) => Ok(duration_text(it)),
        Value::Timestamp(it) => Ok(time_text(it)),
        // The value that is a type reads as its name.
        Value::Opaque(it) if it.runtime_type_name() == "type" => Ok(format!("{:?}", it.as_debug())),
        Value::Opaque(_) | Value::Function(..) => Err(format!(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
             and timestamps, was given {}",
            type_name(value)
        )),
    }
}

fn of_bytes(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| {
        "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string".to_owned()
    })
}

/// A value within a list or a map: as it would be written in an expression.
fn write_nested(value: &Value, made: &mut String) -> Result<(), String> {
    match value {
        Value::List(items) => {
            made.push('[');
            for (at, it) in items.iter().enumerate() {
                if at > 0 {
                    made.push_str(", ");
                }
                write_nested(it, made)?;
            }
            made.push(']');
        }
        Value::Map(it) => write_map(it, made)?,
        Value::String(it) => write_quoted(it, made),
        Value::Bytes(it) => {
            made.push('b');
            write_quoted(of_bytes(it)?, made);
        }
        Value::Float(it) if it.is_finite() => made.push_str(&format!("{it:.PRECISION$}")),
        Value::Float(it) => write_quoted(&double_text(*it), made),
        Value::Duration(_) => made.push_str(&format!("duration(\"{}\")", text(value)?)),
        Value::Timestamp(_) => made.push_str(&format!("timestamp(\"{}\")", text(value)?)),
        Value::Opaque(it) if it.runtime_type_name() != "type" => {
            return Err(format!("no formatting function for {}", type_name(value)));
        }
        _ => made.push_str(&text(value)?),
    }
    Ok(())
}

/// The entries of a map in the order of their keys as they are written.
fn write_map(map: &Map, made: &mut String) -> Result<(), String> {
    let mut entries = Vec::with_capacity(map.map.len());
    for (key, value) in map.map.iter() {
        let mut shown = String::new();
        match key {
            Key::String(it) => write_quoted(it, &mut shown),
            key => shown = key.to_string(),
        }
        entries.push((shown, value));
    }
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    made.push('{');
    for (at, (key, value)) in entries.into_iter().enumerate() {
        if at > 0 {
            made.push_str(", ");
        }
        made.push_str(&key);
        made.push(':');
        write_nested(value, made)?;
    }
    made.push('}');
    Ok(())
}

/// A text in quotes, as Go's `%q` has it.
fn write_quoted(text: &str, made: &mut String) {
    /// Go's notion of what can be printed, which is older than ours of Unicode.
    static PRINTED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[[\p{L}\p{M}\p{N}\p{P}\p{S}]&&\p{age:15.0}]$").expect("the pattern is a constant")
    });
    made.push('"');
    for it in text.chars() {
        let escaped = match it {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            '\\' => "\\\\",
            '"' => "\\\"",
            ' '..='~' => {
                made.push(it);
                continue;
            }
            _ if PRINTED.is_match(it.encode_utf8(&mut [0; 4])) => {
                made.push(it);
                continue;
            }
            _ => {
                let code = u32::from(it);
                made.push_str(&match code {
                    ..0x80 => format!("\\x{code:02x}"),
                    0x80..0x1_0000 => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
                continue;
            }
        };
        made.push_str(escaped);
    }
    made.push('"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn shown(pattern: &str, item: impl Into<Value>) -> Result<String, String> {
        format(pattern, &[item.into()], |_, _| Ok(())).map_err(|it| match it {
            ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
            other => other.to_string(),
        })
    }

    #[test]
    fn numbers_are_for_readers() {
        for (pattern, number, text) in [
            ("%f", -1_234_567.5, "-1,234,567.500000"),
            ("%.0f", 2.5, "2"),
            ("%.0f", -0.4, "-0"),
            ("%.1f", -0.0, "0.0"),
            ("%f", f64::NEG_INFINITY, "-∞"),
            ("%e", 1_052.25, "1.052250×10⁰³"),
            ("%e", 5e-324, "4.940656×10⁻³²⁴"),
            ("%s", 1_234_567.5, "1.2345675e+06"),
            ("%s", 123_456.5, "123456.5"),
            ("%s", 0.00001, "1e-05"),
            ("%s", f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(shown(pattern, number), Ok(text.to_owned()), "{pattern} {number}");
        }
    }

    #[test]
    fn the_precision_of_e_is_a_width() {
        assert_eq!(shown("%.15e", 2_345_000.0), Ok("  2.345000×10⁰⁶".to_owned()));
        assert_eq!(shown("%.1e", 2_345_000.0), Ok("2.345000×10⁰⁶".to_owned()));
        assert_eq!(shown("%e", f64::NAN), Ok("   NaN".to_owned()));
    }

    #[test]
    fn list_items_are_formatted_as_literals() {
        let items = vec![
            Value::from("a\"\u{1}é\u{200b}\u{e0001}"),
            Value::Bytes(Arc::new(vec![0, 0x61])),
            Value::Float(-0.0),
            Value::Float(f64::NAN),
            Value::Null,
        ];
        let text = r#"["a\"\x01é\u200b\U000e0001", b"\x00a", -0.000000, "NaN", null]"#;
        assert_eq!(shown("%s", items), Ok(text.to_owned()));
        let error = "error during formatting: could not convert argument \"invalid UTF-8 in bytes, cannot convert to \
                     string\" to string";
        assert_eq!(shown("%s", Value::Bytes(Arc::new(vec![0xff]))), Err(error.to_owned()));
    }

    #[test]
    fn errors_read_as_upstreams() {
        for (pattern, error) in [
            ("%s%s", "format: index 1 out of range"),
            ("%", "format: unexpected end of string"),
            (
                "%.3",
                "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
            ),
            (
                "%é",
                "could not parse formatting clause: unrecognized formatting clause \"Ã\"",
            ),
            (
                "%f",
                "error during formatting: fixed-point clause can only be used on doubles, was given int",
            ),
        ] {
            assert_eq!(shown(pattern, 1), Err(error.to_owned()), "{pattern}");
        }
    }
}
