//! Dates. `now` asks the clock that the engine was given; the local time zone is UTC,
//! so that a chart renders the same on every machine.

use std::any::Any;
use std::rc::Rc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::layout;
use crate::exec::Call;
use crate::functions::Functions;
use crate::gofmt::display;
use crate::sprig::strings::int;
use crate::value::{Object, Value};

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("now", "", |call, _| Ok(time(call.now().to_zoned(TimeZone::UTC))));
    functions.add("date", "string any", |call, a| {
        Ok(written(call, &a[1], "UTC", &display(&a[0])))
    });
    functions.add("dateInZone", "string any string", |call, a| {
        Ok(written(call, &a[1], &display(&a[2]), &display(&a[0])))
    });
    functions.alias("date_in_zone", "dateInZone");
    functions.add("htmlDate", "any", |call, a| {
        Ok(written(call, &a[0], "UTC", "2006-01-02"))
    });
    functions.add("htmlDateInZone", "any string", |call, a| {
        Ok(written(call, &a[0], &display(&a[1]), "2006-01-02"))
    });
    functions.add("dateModify", "string any", |_, a| {
        let from = wanted(&a[1])?;
        match parse_duration(&display(&a[0])) {
            Ok(by) => moved(&from, by),
            Err(_) => Ok(time(from)),
        }
    });
    functions.alias("date_modify", "dateModify");
    functions.add("mustDateModify", "string any", |_, a| {
        moved(&wanted(&a[1])?, parse_duration(&display(&a[0]))?)
    });
    functions.alias("must_date_modify", "mustDateModify");
    functions.add("toDate", "string string", |_, a| {
        let read = layout::parse(&display(&a[0]), &display(&a[1]), &TimeZone::UTC);
        Ok(time(read.unwrap_or_else(|_| layout::zero())))
    });
    functions.add("mustToDate", "string string", |_, a| {
        Ok(time(layout::parse(&display(&a[0]), &display(&a[1]), &TimeZone::UTC)?))
    });
    functions.add("unixEpoch", "any", |_, a| {
        Ok(Value::from(wanted(&a[0])?.timestamp().as_second().to_string()))
    });
    functions.add("ago", "any", |call, a| {
        let now = call.now();
        let since = match &a[0] {
            Value::Int(seconds, _) => Timestamp::from_second(*seconds).unwrap_or(now),
            other => time_of(other).map_or(now, |it| it.timestamp()),
        };
        let nanos = now.duration_since(since).as_nanos();
        let second = 1_000_000_000;
        let rounded = (nanos + if nanos < 0 { -second / 2 } else { second / 2 }) / second * second;
        Ok(Value::from(show_duration(rounded as i64)))
    });
    functions.add("duration", "any", |_, a| {
        let seconds = match &a[0] {
            Value::Str(text) => text.parse::<i64>().unwrap_or(0),
            Value::Int(value, crate::value::IntType::Int64) => *value,
            _ => 0,
        };
        Ok(Value::from(show_duration(seconds.wrapping_mul(1_000_000_000))))
    });
    functions.add("durationRound", "any", |call, a| {
        let nanos = match &a[0] {
            Value::Str(text) => parse_duration(text).unwrap_or(0),
            Value::Int(value, crate::value::IntType::Int64) => *value,
            other => match time_of(other) {
                Some(it) => i64::try_from(call.now().duration_since(it.timestamp()).as_nanos()).unwrap_or(i64::MAX),
                None => 0,
            },
        };
        Ok(Value::from(rounded(nanos.unsigned_abs())))
    });
}

fn rounded(nanos: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;
    let units = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    match units.iter().find(|(unit, _)| nanos > *unit) {
        Some((unit, name)) => format!("{}{name}", nanos / unit),
        None => "0s".to_owned(),
    }
}

/// A Go `time.Time`.
pub(crate) struct Time(pub Zoned);

pub(crate) fn time(at: Zoned) -> Value {
    Value::Object(Rc::new(Time(at)))
}

fn time_of(value: &Value) -> Option<Zoned> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref::<Time>().map(|it| it.0.clone()),
        _ => None,
    }
}

fn wanted(value: &Value) -> Result<Zoned, String> {
    time_of(value).ok_or_else(|| format!("wrong type for value; expected time.Time; got {}", value.type_name()))
}

fn moved(from: &Zoned, nanos: i64) -> Outcome {
    from.checked_add(SignedDuration::from_nanos(nanos))
        .map(time)
        .map_err(|error| error.to_string())
}

fn written(call: &Call<'_>, value: &Value, zone: &str, by: &str) -> Value {
    let at = match value {
        Value::Int(seconds, _) => Timestamp::from_second(*seconds).unwrap_or_else(|_| call.now()),
        other => time_of(other).map_or_else(|| call.now(), |it| it.timestamp()),
    };
    let zone = match zone {
        "" | "UTC" | "Local" => TimeZone::UTC,
        name => TimeZone::get(name).unwrap_or(TimeZone::UTC),
    };
    Value::from(layout::format(&at.to_zoned(zone), by))
}

/// Go's `time.ParseDuration`, in nanoseconds.
fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", crate::strconv::quote(text));
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos = 0f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|it: char| !it.is_ascii_digit() && it != '.')
            .unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|it: char| it.is_ascii_digit() || it == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            "" => {
                return Err(format!(
                    "time: missing unit in duration {}",
                    crate::strconv::quote(text)
                ));
            }
            unknown => {
                let [unknown, text] = [unknown, text].map(crate::strconv::quote);
                return Err(format!("time: unknown unit {unknown} in duration {text}"));
            }
        };
        nanos += number * unit;
        rest = &rest[letters..];
    }
    if nanos >= i64::MAX as f64 {
        return Err(invalid());
    }
    Ok((sign * nanos) as i64)
}

/// Go's `Duration.String`.
fn show_duration(nanos: i64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let all = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64| {
        let digits = unit.ilog10() as usize;
        let tail = format!("{:0digits$}", value % unit);
        let tail = tail.trim_end_matches('0');
        match tail.is_empty() {
            true => (value / unit).to_string(),
            false => format!("{}.{tail}", value / unit),
        }
    };
    if all < 1_000 {
        return format!("{sign}{all}ns");
    }
    if all < 1_000_000 {
        return format!("{sign}{}µs", fraction(all, 1_000));
    }
    if all < 1_000_000_000 {
        return format!("{sign}{}ms", fraction(all, 1_000_000));
    }
    let minutes = all / 60_000_000_000;
    let seconds = fraction(all % 60_000_000_000, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

impl Object for Time {
    fn type_name(&self) -> &str {
        "time.Time"
    }
    fn method(&self, name: &str) -> Option<&'static str> {
        match name {
            "Unix" | "UnixNano" | "UnixMilli" | "Year" | "Month" | "Day" | "Hour" | "Minute" | "Second"
            | "Nanosecond" | "YearDay" | "Weekday" | "UTC" | "Local" | "String" | "IsZero" => Some(""),
            "Format" => Some("string"),
            "AddDate" => Some("int int int"),
            "Before" | "After" | "Equal" => Some("any"),
            _ => None,
        }
    }
    fn call(&self, name: &str, a: &[Value]) -> Outcome {
        let it = &self.0;
        Ok(match name {
            "Unix" => Value::int64(it.timestamp().as_second()),
            "UnixMilli" => Value::int64(it.timestamp().as_millisecond()),
            "UnixNano" => Value::int64(i64::try_from(it.timestamp().as_nanosecond()).unwrap_or(0)),
            "Year" => Value::int(it.year().into()),
            "Month" => Value::from(layout::format(it, "January")),
            "Weekday" => Value::from(layout::format(it, "Monday")),
            "Day" => Value::int(it.day().into()),
            "Hour" => Value::int(it.hour().into()),
            "Minute" => Value::int(it.minute().into()),
            "Second" => Value::int(it.second().into()),
            "Nanosecond" => Value::int(it.subsec_nanosecond().into()),
            "YearDay" => Value::int(it.day_of_year().into()),
            "UTC" | "Local" => time(it.with_time_zone(TimeZone::UTC)),
            "IsZero" => Value::Bool(*it == layout::zero()),
            "Format" => Value::from(layout::format(it, &display(&a[0]))),
            "Before" => Value::Bool(*it < wanted(&a[0])?),
            "After" => Value::Bool(*it > wanted(&a[0])?),
            "Equal" => Value::Bool(it.timestamp() == wanted(&a[0])?.timestamp()),
            "AddDate" => {
                let span = jiff::Span::new()
                    .try_years(int(&a[0]))
                    .and_then(|it| it.try_months(int(&a[1])))
                    .and_then(|it| it.try_days(int(&a[2])))
                    .map_err(|error| error.to_string())?;
                time(it.checked_add(span).map_err(|error| error.to_string())?)
            }
            _ => Value::from(self.display()),
        })
    }
    fn display(&self) -> String {
        layout::format(&self.0, "2006-01-02 15:04:05.999999999 -0700 MST")
    }
    fn to_json(&self) -> serde_json::Value {
        layout::format(&self.0, "2006-01-02T15:04:05.999999999Z07:00").into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
