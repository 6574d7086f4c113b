//! Durations and times as Go reads, counts and writes them.

use jiff::tz::TimeZone;
use kube_cel::cel::{
    Context, ExecutionError, Value,
    extractors::{Arguments, This},
};
use kube_primitives::duration;

use crate::charge::failed;

/// A time with its offset.
pub type Time = chrono::DateTime<chrono::FixedOffset>;

/// The first and the last second that a timestamp may be: the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Whether CEL has this time.
pub fn is_in_range(time: &Time) -> bool {
    SECONDS.contains(&time.timestamp())
}

/// The time so many seconds after 1970 began.
pub fn from_seconds(seconds: i64) -> Option<Time> {
    let time = chrono::DateTime::from_timestamp(seconds, 0)?.fixed_offset();
    Some(time).filter(is_in_range)
}

/// A time of RFC 3339. As in Go, an hour may have one digit and a comma may begin the fraction.
pub fn parse_time(text: &str) -> Option<Time> {
    let bytes = text.as_bytes();
    // With two digits for the hour and a point it is as the parser here reads it; seconds of leap are none in Go.
    let mut exact = text.to_owned();
    if bytes.get(10) == Some(&b'T') && bytes.get(12) == Some(&b':') && bytes[..10].is_ascii() {
        exact.insert(11, '0');
    }
    let bytes = exact.as_bytes();
    let at = |index: usize| bytes.get(index).copied();
    let shaped = at(4) == Some(b'-')
        && at(7) == Some(b'-')
        && at(10) == Some(b'T')
        && at(13) == Some(b':')
        && at(16) == Some(b':');
    if !exact.is_ascii() || !shaped {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = exact.get(from..to)?;
        digits
            .bytes()
            .all(|it| it.is_ascii_digit())
            .then(|| digits.parse::<u32>().ok())?
    };
    let date = chrono::NaiveDate::from_ymd_opt(i32::try_from(number(0, 4)?).ok()?, number(5, 7)?, number(8, 10)?)?;
    let rest = exact.get(19..)?;
    let (nanoseconds, zone) = match rest.strip_prefix(['.', ',']) {
        None => (0, rest),
        Some(rest) => {
            let count = rest.bytes().take_while(u8::is_ascii_digit).count();
            let digits = rest.get(..count.min(9)).filter(|it| !it.is_empty())?;
            (format!("{digits:0<9}").parse().ok()?, &rest[count..])
        }
    };
    let time = date.and_hms_nano_opt(number(11, 13)?, number(14, 16)?, number(17, 19)?, nanoseconds)?;
    let seconds = match zone.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), hours @ .., b':', _, _] if hours.len() == 2 => {
            let two = |it: &str| {
                it.bytes()
                    .all(|it| it.is_ascii_digit())
                    .then(|| it.parse::<i32>().ok())
                    .flatten()
            };
            let (hours, minutes) = (two(&zone[1..3])?, two(&zone[4..6])?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let utc = time.checked_sub_signed(chrono::Duration::seconds(seconds.into()))?;
    // A day away from here is no offset that the engine's times can have; the moment is the same.
    let offset = chrono::FixedOffset::east_opt(seconds).or(chrono::FixedOffset::east_opt(0))?;
    Some(Time::from_naive_utc_and_offset(utc, offset)).filter(is_in_range)
}

/// A time as Go's `RFC3339Nano` writes it.
pub fn time_text(time: &Time) -> String {
    let mut text = time.format("%Y-%m-%dT%H:%M:%S").to_string();
    let nanoseconds = time.timestamp_subsec_nanos();
    if nanoseconds != 0 {
        text.push_str(format!(".{nanoseconds:09}").trim_end_matches('0'));
    }
    match time.offset().local_minus_utc() {
        0 => text.push('Z'),
        _ => text.push_str(&time.format("%:z").to_string()),
    }
    text
}

/// A duration of Go: numbers with units, such as `1h30m`; up to 290 years, in nanoseconds.
pub fn parse_duration(text: &str) -> Option<chrono::Duration> {
    let nanoseconds = i64::try_from(duration::parse(text)?.as_nanos()).ok()?;
    Some(chrono::Duration::nanoseconds(nanoseconds))
}

/// A duration as CEL writes it: seconds.
pub fn duration_text(duration: &chrono::Duration) -> String {
    // Go counts them as a float.
    let seconds = duration.num_seconds() as f64 + f64::from(duration.subsec_nanos()) / 1e9;
    format!("{seconds}s")
}

/// Takes the place of the engine's own functions of parts of a time.
pub fn replace(root: &mut Context<'static>) {
    use chrono::{Datelike as _, Timelike as _};
    root.add_function("getFullYear", |This(it): This<Value>, Arguments(args): Arguments| {
        part("getFullYear", &it, &args, |it| it.year().into())
    });
    root.add_function("getMonth", |This(it): This<Value>, Arguments(args): Arguments| {
        part("getMonth", &it, &args, |it| it.month0().into())
    });
    root.add_function("getDayOfYear", |This(it): This<Value>, Arguments(args): Arguments| {
        part("getDayOfYear", &it, &args, |it| it.ordinal0().into())
    });
    root.add_function("getDayOfMonth", |This(it): This<Value>, Arguments(args): Arguments| {
        part("getDayOfMonth", &it, &args, |it| it.day0().into())
    });
    root.add_function("getDate", |This(it): This<Value>, Arguments(args): Arguments| {
        part("getDate", &it, &args, |it| it.day().into())
    });
    root.add_function("getDayOfWeek", |This(it): This<Value>, Arguments(args): Arguments| {
        part("getDayOfWeek", &it, &args, |it| {
            it.weekday().num_days_from_sunday().into()
        })
    });
    root.add_function(
        "getHours",
        |This(it): This<Value>, Arguments(args): Arguments| match it {
            Value::Duration(it) if args.is_empty() => Ok(Value::Int(it.num_hours())),
            it => part("getHours", &it, &args, |it| it.hour().into()),
        },
    );
    root.add_function(
        "getMinutes",
        |This(it): This<Value>, Arguments(args): Arguments| match it {
            Value::Duration(it) if args.is_empty() => Ok(Value::Int(it.num_minutes())),
            it => part("getMinutes", &it, &args, |it| it.minute().into()),
        },
    );
    root.add_function(
        "getSeconds",
        |This(it): This<Value>, Arguments(args): Arguments| match it {
            Value::Duration(it) if args.is_empty() => Ok(Value::Int(it.num_seconds())),
            it => part("getSeconds", &it, &args, |it| it.second().into()),
        },
    );
    root.add_function(
        "getMilliseconds",
        |This(it): This<Value>, Arguments(args): Arguments| match it {
            Value::Duration(it) if args.is_empty() => Ok(Value::Int(it.num_milliseconds())),
            it => part("getMilliseconds", &it, &args, |it| it.timestamp_subsec_millis().into()),
        },
    );
}

/// A part of a time, in the zone that is asked for; without one in UTC.
fn part(name: &str, value: &Value, args: &[Value], part: fn(&Time) -> i64) -> Result<Value, ExecutionError> {
    let Value::Timestamp(time) = value else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let seconds = match args {
        [] => 0,
        [Value::String(zone)] => offset(zone, time.timestamp()).map_err(|why| failed(name, &why))?,
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let there = time.naive_utc().checked_add_signed(chrono::Duration::seconds(seconds));
    let there = there.ok_or_else(|| failed(name, "timestamp overflow"))?;
    Ok(Value::Int(part(&there.and_utc().fixed_offset())))
}

/// How many seconds a zone is ahead of UTC at that second: a name of the IANA database, or hours and minutes.
fn offset(zone: &str, second: i64) -> Result<i64, String> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        if zone.is_empty() || zone == "UTC" || zone == "Local" {
            return Ok(0);
        }
        let unknown = || format!("unknown time zone {zone}");
        // The database is asked without regard to case.
        let found = TimeZone::get(zone).ok().filter(|it| it.iana_name() == Some(zone));
        let zone = found.ok_or_else(unknown)?;
        let at = jiff::Timestamp::from_second(second).map_err(|_| unknown())?;
        return Ok(zone.to_offset(at).seconds().into());
    };
    let number = |it: &str| {
        let number = it.parse::<i32>();
        number.map_err(|_| format!("strconv.Atoi: parsing {it:?}: invalid syntax"))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let seconds = i64::from(minutes) * if zone.starts_with('-') { -60 } else { 60 };
    Ok(i64::from(hours) * 3600 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, nanoseconds) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("1.s", Some(1_000_000_000)),
            (".5s", Some(500_000_000)),
            ("1\u{b5}s", Some(1_000)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("2562048h", None),
            ("99999999999999999999h", None),
            ("0.99999999999999999999999s", Some(1_000_000_000)),
            ("", None),
            ("-", None),
            ("1", None),
            ("1 h", None),
            ("1hfoo", None),
            (".s", None),
            ("1d", None),
            ("\u{661}s", None),
        ] {
            let read = parse_duration(text).and_then(|it| it.num_nanoseconds());
            assert_eq!(read, nanoseconds, "{text}");
        }
    }

    #[test]
    fn times_are_those_of_go() {
        for (text, written) in [
            ("2026-01-01T00:00:00Z", Some("2026-01-01T00:00:00Z")),
            ("2026-01-01T0:00:00,50Z", Some("2026-01-01T00:00:00.5Z")),
            ("2026-01-01T10:00:00+05:30", Some("2026-01-01T10:00:00+05:30")),
            (
                "2026-01-01T10:00:00.123456789123-00:00",
                Some("2026-01-01T10:00:00.123456789Z"),
            ),
            ("2026-01-01T00:00:60Z", None),
            ("2026-02-29T00:00:00Z", None),
            ("2026-01-01 00:00:00Z", None),
            ("2026-01-01T00:00:00", None),
            ("2026-01-01T00:00:00é", None),
            ("é026-01-01T00:00:00Z", None),
            ("0001-01-01T00:00:00+01:00", None),
            ("2026-01-01T00:00:00+:00", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text).as_ref().map(time_text).as_deref(), written, "{text}");
        }
    }
}
