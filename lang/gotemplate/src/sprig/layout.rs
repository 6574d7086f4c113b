//! Go's time layouts: a date is written and read by the example of January 2, 15:04:05, 2006.

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The pieces of a layout, longest first where one begins another.
const PIECES: &[&str] = &[
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "-07:00:00",
    "-070000",
    "-07:00",
    "-0700",
    "-07",
    "Z07:00:00",
    "Z070000",
    "Z07:00",
    "Z0700",
    "Z07",
    "002",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "__2",
    "_2",
    "1",
    "2",
    "3",
    "4",
    "5",
];

enum Piece<'a> {
    Text(&'a str),
    Field(&'static str),
    /// A fraction of a second: its separator, its digits, and whether zeros at its end are left out.
    Fraction(char, usize, bool),
}

fn pieces(layout: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < layout.len() {
        let rest = &layout[at..];
        if let Some((separator, digits, trimmed)) = fraction(rest) {
            found.push(Piece::Text(&layout[start..at]));
            found.push(Piece::Fraction(separator, digits, trimmed));
            at += 1 + digits;
            start = at;
            continue;
        }
        let piece = PIECES.iter().find(|it| rest.starts_with(**it)).copied();
        // _2006 is an underscore and a year; Jan and Mon inside longer words are text.
        let piece = match piece {
            Some("_2") if rest.starts_with("_2006") => None,
            Some(name @ ("Jan" | "Mon")) => {
                let goes_on = rest[name.len()..].starts_with(|it: char| it.is_ascii_lowercase());
                if goes_on { None } else { Some(name) }
            }
            other => other,
        };
        match piece {
            Some(piece) => {
                found.push(Piece::Text(&layout[start..at]));
                found.push(Piece::Field(piece));
                at += piece.len();
                start = at;
            }
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    found.push(Piece::Text(&layout[start..]));
    found
}

fn fraction(rest: &str) -> Option<(char, usize, bool)> {
    let separator = rest.chars().next().filter(|it| matches!(it, '.' | ','))?;
    let digit = rest[1..].chars().next().filter(|it| matches!(it, '0' | '9'))?;
    let digits = rest[1..].chars().take_while(|it| *it == digit).count();
    let goes_on = rest[1 + digits..].starts_with(|it: char| it.is_ascii_digit());
    (!goes_on).then_some((separator, digits, digit == '9'))
}

fn offset(seconds: i32, piece: &str) -> String {
    if piece.starts_with('Z') && seconds == 0 {
        return "Z".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let all = seconds.abs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match piece[1..].len() {
        2 => format!("{sign}{hours:02}"),
        4 => format!("{sign}{hours:02}{minutes:02}"),
        5 => format!("{sign}{hours:02}:{minutes:02}"),
        6 => format!("{sign}{hours:02}{minutes:02}{seconds:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

fn weekday(day: Weekday) -> usize {
    usize::from(day.to_sunday_zero_offset() as u8)
}

/// What `%Z` says: an abbreviation, or the offset where the zone has none.
fn abbreviation(time: &Zoned) -> String {
    let info = time.time_zone().to_offset_info(time.timestamp());
    let text = info.abbreviation().to_owned();
    if text.starts_with(|it: char| it.is_ascii_alphabetic()) {
        return text;
    }
    let seconds = info.offset().seconds();
    // A zone that is known by its offset alone has all four digits.
    if seconds % 3600 == 0 && time.time_zone().to_fixed_offset().is_err() {
        offset(seconds, "-07")
    } else {
        offset(seconds, "-0700")
    }
}

/// Go's `Time.Format`.
pub(super) fn format(time: &Zoned, layout: &str) -> String {
    let mut out = String::new();
    let hour = i32::from(time.hour());
    let hour_of_twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    for piece in pieces(layout) {
        let name = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Fraction(separator, digits, trimmed) => {
                let all = format!("{:09}", time.subsec_nanosecond());
                let mut shown = &all[..digits.min(9)];
                if trimmed {
                    shown = shown.trim_end_matches('0');
                }
                if !shown.is_empty() {
                    out.push(separator);
                    out.push_str(shown);
                }
                continue;
            }
            Piece::Field(name) => name,
        };
        let month = MONTHS[usize::from(time.month() as u8) - 1];
        let day = DAYS[weekday(time.weekday())];
        out.push_str(&match name {
            "January" => month.to_owned(),
            "Jan" => month[..3].to_owned(),
            "Monday" => day.to_owned(),
            "Mon" => day[..3].to_owned(),
            "MST" => abbreviation(time),
            "2006" => format!("{:04}", time.year()),
            "06" => format!("{:02}", time.year().rem_euclid(100)),
            "01" => format!("{:02}", time.month()),
            "1" => time.month().to_string(),
            "02" => format!("{:02}", time.day()),
            "_2" => format!("{:2}", time.day()),
            "2" => time.day().to_string(),
            "002" => format!("{:03}", time.day_of_year()),
            "__2" => format!("{:3}", time.day_of_year()),
            "15" => format!("{hour:02}"),
            "03" => format!("{hour_of_twelve:02}"),
            "3" => hour_of_twelve.to_string(),
            "04" => format!("{:02}", time.minute()),
            "4" => time.minute().to_string(),
            "05" => format!("{:02}", time.second()),
            "5" => time.second().to_string(),
            "PM" => if hour >= 12 { "PM" } else { "AM" }.to_owned(),
            "pm" => if hour >= 12 { "pm" } else { "am" }.to_owned(),
            zone => offset(time.offset().seconds(), zone),
        });
    }
    out
}

/// Go's `time.ParseInLocation`. The error names the piece that did not fit.
pub(super) fn parse(layout: &str, text: &str, zone: &TimeZone) -> Result<Zoned, String> {
    let refuse = |rest: &str, piece: &str| {
        let [text, layout, rest, piece] = [text, layout, rest, piece].map(crate::strconv::quote);
        format!("parsing time {text} as {layout}: cannot parse {rest} as {piece}")
    };
    let mut rest = text;
    let (mut year, mut month, mut day) = (0i16, 1i8, 1i8);
    let (mut hour, mut minute, mut second, mut nanos) = (0i8, 0i8, 0i8, 0i32);
    let mut afternoon = None;
    let mut fixed = None;
    let pieces = pieces(layout);
    for (at, piece) in pieces.iter().enumerate() {
        let name = match piece {
            Piece::Text(expected) => {
                rest = rest.strip_prefix(expected).ok_or_else(|| refuse(rest, expected))?;
                continue;
            }
            Piece::Fraction(separator, ..) => {
                if let Some(after) = rest.strip_prefix(*separator) {
                    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                    nanos = format!("{:0<9}", &after[..digits.min(9)]).parse().unwrap_or(0);
                    rest = &after[digits..];
                }
                continue;
            }
            Piece::Field(name) => *name,
        };
        let before = rest;
        let mut number = |least: usize, most: usize| -> Result<i64, String> {
            let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
            if digits < least {
                return Err(refuse(before, name));
            }
            let value = rest[..digits].parse().map_err(|_| refuse(before, name))?;
            rest = &rest[digits..];
            Ok(value)
        };
        match name {
            "2006" => year = number(4, 4)? as i16,
            "06" => {
                let short = number(2, 2)? as i16;
                year = if short >= 69 { 1900 + short } else { 2000 + short };
            }
            "01" => month = number(2, 2)? as i8,
            "1" => month = number(1, 2)? as i8,
            "02" => day = number(2, 2)? as i8,
            "2" => day = number(1, 2)? as i8,
            "_2" => {
                rest = rest.strip_prefix(' ').unwrap_or(rest);
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
                day = rest[..digits].parse().map_err(|_| refuse(before, name))?;
                rest = &rest[digits..];
            }
            "15" => hour = number(1, 2)? as i8,
            "03" => hour = number(2, 2)? as i8,
            "3" => hour = number(1, 2)? as i8,
            "04" => minute = number(2, 2)? as i8,
            "4" => minute = number(1, 2)? as i8,
            "05" | "5" => {
                second = number(if name == "05" { 2 } else { 1 }, 2)? as i8;
                // A fraction is read even where the layout has none.
                let wanted = matches!(pieces.get(at + 2), Some(Piece::Fraction(..)));
                if !wanted && rest.starts_with('.') && rest[1..].starts_with(|it: char| it.is_ascii_digit()) {
                    let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                    nanos = format!("{:0<9}", &rest[1..=digits.min(9)]).parse().unwrap_or(0);
                    rest = &rest[1 + digits..];
                }
            }
            "PM" | "pm" => {
                let (found, after) = rest.split_at_checked(2).ok_or_else(|| refuse(before, name))?;
                afternoon = Some(match found {
                    "PM" | "pm" => true,
                    "AM" | "am" => false,
                    _ => return Err(refuse(before, name)),
                });
                rest = after;
            }
            "January" | "Jan" | "Monday" | "Mon" => {
                let names: &[&str] = if name.starts_with('J') { &MONTHS } else { &DAYS };
                let short = name.len() == 3;
                let found = names.iter().position(|it| {
                    let it = if short { &it[..3] } else { it };
                    rest.get(..it.len()).is_some_and(|found| found.eq_ignore_ascii_case(it))
                });
                let found = found.ok_or_else(|| refuse(before, name))?;
                rest = &rest[if short { 3 } else { names[found].len() }..];
                if name.starts_with('J') {
                    month = found as i8 + 1;
                }
            }
            "MST" => {
                let letters = rest.bytes().take_while(u8::is_ascii_uppercase).count();
                if letters < 3 {
                    return Err(refuse(before, name));
                }
                if &rest[..letters] == "UTC" {
                    fixed = Some(0);
                }
                rest = &rest[letters..];
            }
            zone_piece if zone_piece.starts_with(['-', 'Z']) => {
                if zone_piece.starts_with('Z') && rest.starts_with('Z') {
                    fixed = Some(0);
                    rest = &rest[1..];
                    continue;
                }
                let length = zone_piece.len();
                let found = rest.get(..length).ok_or_else(|| refuse(before, name))?;
                let sign = match found.as_bytes()[0] {
                    b'+' => 1,
                    b'-' => -1,
                    _ => return Err(refuse(before, name)),
                };
                let digits: String = found[1..].chars().filter(|it| *it != ':').collect();
                let part = |at: usize| digits.get(at..at + 2).map_or(Ok(0), str::parse::<i32>);
                let parts = [part(0), part(2), part(4)];
                let [Ok(hours), Ok(minutes), Ok(seconds)] = parts else {
                    return Err(refuse(before, name));
                };
                fixed = Some(sign * (hours * 3600 + minutes * 60 + seconds));
                rest = &rest[length..];
            }
            _ => return Err(refuse(before, name)),
        }
    }
    if !rest.is_empty() {
        let [text, rest] = [text, rest].map(crate::strconv::quote);
        return Err(format!("parsing time {text}: extra text: {rest}"));
    }
    match afternoon {
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    let quoted = crate::strconv::quote(text);
    let out_of_range = |what: &str| format!("parsing time {quoted}: {what} out of range");
    let what = if !(1..=12).contains(&month) {
        "month"
    } else if !(0..24).contains(&hour) {
        "hour"
    } else if !(0..60).contains(&minute) {
        "minute"
    } else if !(0..60).contains(&second) {
        "second"
    } else {
        "day"
    };
    let civil = DateTime::new(year, month, day, hour, minute, second, nanos).map_err(|_| out_of_range(what))?;
    let zone = match fixed {
        Some(0) => TimeZone::UTC,
        Some(seconds) => TimeZone::fixed(Offset::from_seconds(seconds).map_err(|_| out_of_range("time zone offset"))?),
        None => zone.clone(),
    };
    civil.to_zoned(zone).map_err(|_| out_of_range("day"))
}

/// The zero time of Go, the first of January in the year one.
pub(super) fn zero() -> Zoned {
    Timestamp::from_second(-62_135_596_800)
        .expect("the year one is a time")
        .to_zoned(TimeZone::UTC)
}
