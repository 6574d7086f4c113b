//! String formats that Kubernetes enforces in custom resources. Formats it does not know are ignored.

use regex::Regex;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

/// The formats of strings that are enforced; others raise the warning `unrecognized format "foo"`
/// when a CRD names them.
pub const KNOWN: [&str; 30] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "int32",
    "int64",
    "float",
];

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

macro_rules! matches_pattern {
    ($text:expr, $pattern:expr) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| regex($pattern));
        PATTERN.is_match($text)
    }};
}

/// Whether a text has a format; true for formats that are not enforced.
pub fn is_valid(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|it| it.is_ascii_hexdigit()),
        "byte" => matches_pattern!(
            text,
            r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
        ),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => matches_pattern!(text, r#"^[^@\s<>(),:;\[\]"]+@[^@\s<>(),:;"]+$"#),
        "hexcolor" => matches_pattern!(text, r"^#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => {
            text.len() <= 253
                && matches_pattern!(
                    text,
                    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
                )
        }
        "k8sshortname" => text.len() <= 63 && matches_pattern!(text, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        "mac" => matches_pattern!(
            text,
            r"^(?:[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}[:-]){4}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{2}[:-]){7}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}|(?:[0-9a-fA-F]{4}\.){3}[0-9a-fA-F]{4})$"
        ),
        "rgbcolor" => matches_pattern!(
            text,
            r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$"
        ),
        "ssn" => matches_pattern!(text, r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        "uri" => is_uri(text),
        "uuid" => matches_pattern!(
            text,
            r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
        ),
        "uuid3" => matches_pattern!(
            text,
            r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
        ),
        "uuid4" => matches_pattern!(
            text,
            r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
        ),
        "uuid5" => matches_pattern!(
            text,
            r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
        ),
        _ => true,
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    !bits.starts_with('+') && bits.parse::<u8>().is_ok_and(|it| it <= max)
}

fn is_date(text: &str) -> bool {
    matches_pattern!(text, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$") && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let clock = matches_pattern!(
        &time.to_lowercase(),
        r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
    );
    clock && is_date(date)
}

/// Go's duration syntax (`1h30m`), and the long units (`2 days`) that Kubernetes' format library also reads.
fn is_duration(text: &str) -> bool {
    matches_pattern!(
        text,
        r"^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$"
    ) || matches_pattern!(
        text,
        r"(?i)^\s*([0-9]+\s*(nanoseconds?|nanos?|microseconds?|micros?|milliseconds?|millis?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|d|weeks?|wks?|w)\s*)+$"
    )
}

fn is_hostname(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.strip_suffix('.').unwrap_or(text).split('.').all(|label| {
            !label.is_empty()
                && label.chars().count() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|it| it.is_alphanumeric() || it == '-' || it == '_')
        })
}

fn is_uri(text: &str) -> bool {
    let clean = !text.is_empty() && !text.chars().any(|it| it.is_control() || it == ' ');
    clean && (text.starts_with('/') || matches_pattern!(text, r"^[A-Za-z][A-Za-z0-9+.-]*:.*$"))
}

fn digits(text: &str) -> Vec<u32> {
    text.chars()
        .filter(|it| !matches!(it, '-' | ' '))
        .map(|it| it.to_digit(10).unwrap_or(99))
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let body: Vec<char> = text.chars().filter(|it| !matches!(it, '-' | ' ')).collect();
    if body.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (at, c) in body.iter().enumerate() {
        match (c.to_digit(10), at, c) {
            (Some(digit), _, _) => sum += (at as u32 + 1) * digit,
            (None, 9, 'X') => sum += 100,
            _ => return false,
        }
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let body = digits(text);
    body.len() == 13
        && body.iter().all(|it| *it < 10)
        && body
            .iter()
            .enumerate()
            .map(|(at, it)| it * if at % 2 == 0 { 1 } else { 3 })
            .sum::<u32>()
            % 10
            == 0
}

fn is_credit_card(text: &str) -> bool {
    let body = digits(text);
    if !(12..=19).contains(&body.len()) || body.iter().any(|it| *it > 9) {
        return false;
    }
    let sum: u32 = body
        .iter()
        .rev()
        .enumerate()
        .map(|(at, it)| if at % 2 == 0 { *it } else { it * 2 / 10 + it * 2 % 10 })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn formats_are_enforced() {
        let table = [
            ("date-time", "2026-01-01T00:00:00Z", true),
            ("date-time", "notadate", false),
            ("date-time", "2026-02-30T00:00:00Z", false),
            ("email", "a@b.c", true),
            ("email", "a", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("uuid", "x", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv4", "::1", false),
            ("ipv6", "::1", true),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("duration", "1h", true),
            ("duration", "1", false),
            ("duration", "1h30m5.5s", true),
            ("date", "2026-02-28", true),
            ("date", "2026-02-30", false),
            ("byte", "aGk=", true),
            ("byte", "a", false),
            ("hostname", "a.example.com", true),
            ("hostname", "-a", false),
            ("mac", "01:02:03:04:05:06", true),
            ("mac", "01:02", false),
            ("uri", "https://x/y", true),
            ("uri", "no uri", false),
            ("hexcolor", "#fff", true),
            ("isbn10", "0-306-40615-2", true),
            ("isbn13", "978-0-306-40615-7", true),
            ("creditcard", "4111111111111111", true),
            ("creditcard", "4111111111111112", false),
            ("what-ever", "anything", true),
        ];
        for (format, text, want) in table {
            assert_eq!(is_valid(format, text), want, "{format} {text}");
        }
    }
}
