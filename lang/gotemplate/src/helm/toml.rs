//! TOML as BurntSushi/toml writes and reads it, as far as charts use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset};

use crate::gofmt::display;
use crate::strconv::format_float;
use crate::value::{Elem, Map, Value};

/// Writes a table. Anything else is refused in the library's words, which then are the result.
pub(crate) fn write(value: &Value) -> String {
    let map = match value.underlying() {
        Value::Map(map) => map,
        list @ Value::List(_) => return inline(&list, 0).unwrap_or_else(|message| message),
        _ => return "toml: top-level values must be Go maps or structs".to_owned(),
    };
    let mut out = String::new();
    match table(&mut out, &map, &[], 0) {
        Ok(()) => out,
        Err(message) => message,
    }
}

fn key(text: &str) -> String {
    let bare = !text.is_empty()
        && text
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
    if bare { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for it in text.chars() {
        match it {
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            it if it < ' ' || it == '\u{7f}' => out.push_str(&format!("\\u{:04x}", it as u32)),
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

fn is_table(value: &Value) -> bool {
    match value.underlying() {
        Value::Map(_) => true,
        Value::List(list) => {
            !list.items().is_empty() && list.items().iter().all(|it| matches!(it.underlying(), Value::Map(_)))
        }
        _ => false,
    }
}

fn table(out: &mut String, map: &Map, path: &[String], depth: usize) -> Result<(), String> {
    if depth > 100 {
        return Err("toml: tables are nested too deeply".to_owned());
    }
    let indent = "  ".repeat(path.len());
    let entries = map.entries();
    let (tables, plain): (Vec<_>, Vec<_>) = entries.iter().partition(|(_, it)| is_table(it));
    for (name, value) in plain {
        if value.is_nil() {
            continue;
        }
        out.push_str(&indent);
        out.push_str(&format!("{} = {}\n", key(name), inline(value, depth)?));
    }
    for (name, value) in tables {
        let mut path = path.to_vec();
        path.push(key(name));
        let indent = "  ".repeat(path.len() - 1);
        let maps = match value.underlying() {
            Value::Map(map) => {
                separate(out, &path);
                out.push_str(&format!("{indent}[{}]\n", path.join(".")));
                table(out, &map, &path, depth + 1)?;
                continue;
            }
            Value::List(list) => list.items().to_vec(),
            _ => continue,
        };
        for item in maps {
            if let Value::Map(map) = item.underlying() {
                separate(out, &path);
                out.push_str(&format!("{indent}[[{}]]\n", path.join(".")));
                table(out, &map, &path, depth + 1)?;
            }
        }
    }
    Ok(())
}

// The library sets a blank line before a table of the top level.
fn separate(out: &mut String, path: &[String]) {
    if path.len() == 1 && !out.is_empty() {
        out.push('\n');
    }
}

fn inline(value: &Value, depth: usize) -> Result<String, String> {
    if depth > 100 {
        return Err("toml: arrays are nested too deeply".to_owned());
    }
    Ok(match value {
        Value::Bool(_) | Value::Int(..) => display(value),
        Value::Float(it) if it.is_nan() => "nan".to_owned(),
        Value::Float(it) if it.is_infinite() => if *it > 0.0 { "inf" } else { "-inf" }.to_owned(),
        Value::Float(it) => {
            let text = format_float(*it, 'g', -1);
            if text.contains(['.', 'e']) {
                text
            } else {
                format!("{text}.0")
            }
        }
        Value::List(list) => {
            if list.items().iter().any(Value::is_nil) {
                return Err("toml: cannot encode array with nil element".to_owned());
            }
            let items: Vec<String> = list
                .items()
                .iter()
                .map(|it| inline(it, depth + 1))
                .collect::<Result<_, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries: Vec<String> = map
                .entries()
                .iter()
                .map(|(name, it)| Ok(format!("{} = {}", key(name), inline(it, depth + 1)?)))
                .collect::<Result<_, String>>()?;
            format!("{{{}}}", entries.join(", "))
        }
        Value::Missing | Value::Nil => return Err("toml: cannot encode array with mixed element types".to_owned()),
        other => quoted(&display(other)),
    })
}

/// Reads a document. What is wrong with one is said in the reader's words after Helm's line number.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |it| it.start.min(text.len()));
        let line = text.as_bytes()[..at].iter().filter(|it| **it == b'\n').count() + 1;
        format!("toml: line {line}: {}", error.message())
    })?;
    made_of_table(document.get_ref())
}

fn made_of_table(table: &DeTable<'_>) -> Result<Value, String> {
    let entries: BTreeMap<Arc<str>, Value> = table
        .iter()
        .map(|(name, value)| Ok((Arc::from(name.get_ref().as_ref()), made_of(value.get_ref())?)))
        .collect::<Result<_, String>>()?;
    Ok(Value::Map(Map::new(entries, Elem::Any)))
}

// The reader bounds how deep a document is nested, so this recursion is bounded too.
fn made_of(value: &DeValue<'_>) -> Result<Value, String> {
    Ok(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(it) => match i64::from_str_radix(it.as_str(), it.radix()) {
            Ok(number) => Value::int64(number),
            Err(_) => return Err(format!("toml: {} is out of range for int64", it.as_str())),
        },
        DeValue::Float(it) => match it.as_str().parse() {
            Ok(number) => Value::Float(number),
            Err(_) => return Err(format!("toml: {} is no float64", it.as_str())),
        },
        DeValue::Boolean(it) => Value::Bool(*it),
        DeValue::Datetime(it) => time_of(it).ok_or_else(|| format!("toml: {it} is no time"))?,
        DeValue::Array(items) => {
            let items = items.iter().map(|it| made_of(it.get_ref()));
            Value::list(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => made_of_table(table)?,
    })
}

/// A time as Go has it: a day without a time begins at midnight, a time without a day is one of the year 0, and one
/// without a zone is local, which is UTC here.
fn time_of(it: &Datetime) -> Option<Value> {
    let (year, month, day) = match &it.date {
        Some(date) => (i16::try_from(date.year).ok()?, date.month, date.day),
        None => (0, 1, 1),
    };
    let (hour, minute, second, nanos) = match &it.time {
        Some(time) => (
            time.hour,
            time.minute,
            time.second.unwrap_or(0),
            time.nanosecond.unwrap_or(0),
        ),
        None => (0, 0, 0, 0),
    };
    let small = |it: u8| i8::try_from(it).ok();
    let at = jiff::civil::DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        i32::try_from(nanos).ok()?,
    )
    .ok()?;
    let zone = match it.offset {
        Some(Offset::Custom { minutes }) => {
            TimeZone::fixed(jiff::tz::Offset::from_seconds(i32::from(minutes) * 60).ok()?)
        }
        Some(Offset::Z) | None => TimeZone::UTC,
    };
    Some(crate::sprig::time(at.to_zoned(zone).ok()?))
}
