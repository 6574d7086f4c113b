//! What makes a value of one type of a value of another, and what says which type it has.
//! Upstream: cel-go `common/types`, the methods `ConvertToType`.

use std::{fmt, sync::Arc};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    objects::{Key, Opaque},
};

use super::addresses;
use crate::{
    charge::{argument, failed, pay},
    times,
    values::overflow,
};

/// The type of a value, which is a value too. It reads as its name.
#[derive(PartialEq, Eq)]
struct Type(String);

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Opaque for Type {
    fn runtime_type_name(&self) -> &'static str {
        "type"
    }
}

/// Types that an expression may name. `google` is the first word of the names of two more.
pub const TYPES: [&str; 11] = [
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional_type",
];
const PACKAGE: &str = "google";
const DURATION: &str = "google.protobuf.Duration";
const TIMESTAMP: &str = "google.protobuf.Timestamp";

/// Whether a name is that of a type, or begins one.
pub fn is_type(name: &str) -> bool {
    TYPES.contains(&name) || name == PACKAGE
}

/// The name of a value's type.
pub fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Function(..) => "function",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => DURATION,
        Value::Timestamp(_) => TIMESTAMP,
        Value::Opaque(it) => it.runtime_type_name(),
    }
}

fn named(name: &str) -> Value {
    Value::Opaque(Arc::new(Type(name.to_owned())))
}

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    for name in TYPES {
        root.add_variable_from_value(name, named(name));
    }
    let map = |fields: Vec<(&str, Value)>| {
        let fields = fields.into_iter().map(|(key, value)| (Key::from(key), value));
        Value::Map(fields.collect::<std::collections::HashMap<_, _>>().into())
    };
    let types = map(vec![("Duration", named(DURATION)), ("Timestamp", named(TIMESTAMP))]);
    root.add_variable_from_value(PACKAGE, map(vec![("protobuf", types)]));

    let mut add = |name: &'static str, made: fn(&Value) -> Result<Value, ExecutionError>| {
        root.add_function(name, move |ftx: &FunctionContext| {
            let is_alone = ftx.this.is_none() && ftx.args.len() == 1;
            if is_alone {
                made(&argument(ftx)?)
            } else {
                Err(ExecutionError::NoSuchOverload)
            }
        });
    };
    add("dyn", |it| Ok(it.clone()));
    add("type", |it| Ok(named(type_name(it))));
    add("int", int);
    add("uint", uint);
    add("double", double);
    add("bool", bool);
    add("bytes", |it| match it {
        Value::String(it) => Ok(Value::Bytes(Arc::new(it.as_bytes().to_vec()))),
        Value::Bytes(_) => Ok(it.clone()),
        _ => Err(none("bytes", it)),
    });
    add("string", string);
    add("duration", |it| match it {
        Value::Duration(_) => Ok(it.clone()),
        Value::String(text) => times::parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| none(DURATION, it)),
        _ => Err(none(DURATION, it)),
    });
    add("timestamp", |it| match it {
        Value::Timestamp(_) => Ok(it.clone()),
        Value::String(text) => times::parse_time(text)
            .map(Value::Timestamp)
            .ok_or_else(|| none(TIMESTAMP, it)),
        Value::Int(seconds) => {
            let time = times::from_seconds(*seconds);
            time.map(Value::Timestamp).ok_or_else(|| overflow("timestamp"))
        }
        _ => Err(none(TIMESTAMP, it)),
    });
    root.add_function("size", |ftx: &FunctionContext| {
        let it = match (&ftx.this, ftx.args) {
            (Some(it), []) => it.clone(),
            (None, [_]) => argument(ftx)?,
            _ => return Err(ExecutionError::NoSuchOverload),
        };
        let size = match &it {
            Value::String(it) => {
                pay(ftx, it.len() as u64 / 10)?;
                it.chars().count()
            }
            Value::Bytes(it) => it.len(),
            Value::List(it) => it.len(),
            Value::Map(it) => it.map.len(),
            _ => return Err(ExecutionError::NoSuchOverload),
        };
        Ok(Value::Int(size as i64))
    });
}

/// No value of that type can be made of this one. Its own type is said, and not what it is.
fn none(of: &str, value: &Value) -> ExecutionError {
    failed(
        "",
        &format!("type conversion error from '{}' to '{of}'", type_name(value)),
    )
}

fn int(value: &Value) -> Result<Value, ExecutionError> {
    let number = match value {
        Value::Int(it) => Some(*it),
        Value::UInt(it) => i64::try_from(*it).ok(),
        // The bounds themselves are no longer whole numbers that a float tells from their neighbours.
        Value::Float(it) if *it > i64::MIN as f64 && *it < i64::MAX as f64 => Some(*it as i64),
        Value::Float(_) => None,
        Value::Timestamp(it) => Some(it.timestamp()),
        Value::Duration(it) => it.num_nanoseconds(),
        Value::String(it) => return it.parse().map(Value::Int).map_err(|_| none("int", value)),
        _ => return Err(none("int", value)),
    };
    number.map(Value::Int).ok_or_else(|| overflow("integer"))
}

fn uint(value: &Value) -> Result<Value, ExecutionError> {
    let number = match value {
        Value::UInt(it) => Some(*it),
        Value::Int(it) => u64::try_from(*it).ok(),
        Value::Float(it) if *it >= 0.0 && *it < u64::MAX as f64 => Some(*it as u64),
        Value::Float(_) => None,
        Value::String(it) if it.starts_with('+') => return Err(none("uint", value)),
        Value::String(it) => return it.parse().map(Value::UInt).map_err(|_| none("uint", value)),
        _ => return Err(none("uint", value)),
    };
    number.map(Value::UInt).ok_or_else(|| overflow("unsigned integer"))
}

fn double(value: &Value) -> Result<Value, ExecutionError> {
    match value {
        Value::Float(_) => Ok(value.clone()),
        Value::Int(it) => Ok(Value::Float(*it as f64)),
        Value::UInt(it) => Ok(Value::Float(*it as f64)),
        Value::String(it) => parse_double(it).map(Value::Float).ok_or_else(|| none("double", value)),
        _ => Err(none("double", value)),
    }
}

/// A number as Go's `strconv.ParseFloat` reads it: underscores may stand between digits, and what is too large is none.
fn parse_double(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|it| bytes.get(it)).is_some_and(u8::is_ascii_digit);
    let placed = |(at, it): (usize, &u8)| *it != b'_' || is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1));
    if !bytes.iter().enumerate().all(placed) {
        return None;
    }
    let number: f64 = text.replace('_', "").parse().ok()?;
    let is_number = text.bytes().any(|it| it.is_ascii_digit());
    (number.is_finite() || !is_number).then_some(number)
}

fn bool(value: &Value) -> Result<Value, ExecutionError> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(it) => match it.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(none("bool", value)),
        },
        _ => Err(none("bool", value)),
    }
}

fn string(value: &Value) -> Result<Value, ExecutionError> {
    let text = match value {
        Value::String(_) => return Ok(value.clone()),
        Value::Int(it) => it.to_string(),
        Value::UInt(it) => it.to_string(),
        Value::Bool(it) => it.to_string(),
        Value::Float(it) => double_text(*it),
        Value::Duration(it) => times::duration_text(it),
        Value::Timestamp(it) => times::time_text(it),
        Value::Bytes(it) => String::from_utf8(it.to_vec())
            .map_err(|_| failed("", "invalid UTF-8 in bytes, cannot convert to string"))?,
        Value::Opaque(it) => addresses::text(&**it).ok_or_else(|| none("string", value))?,
        _ => return Err(none("string", value)),
    };
    Ok(text.into())
}

/// A number with as few digits as tell it from all others, in Go's format `%g`.
pub fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (123_456.75, "123456.75"),
            (0.0001, "0.0001"),
            (-0.00001, "-1e-05"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(double_text(number), text);
        }
    }

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, number) in [
            ("1_0", Some(10.0)),
            ("_1", None),
            ("1__0", None),
            ("1e400", None),
            ("", None),
        ] {
            assert_eq!(parse_double(text), number, "{text}");
        }
        assert_eq!(parse_double("-inf"), Some(f64::NEG_INFINITY));
    }
}
