//! The formats that texts may have. Before draft 2019 a text that does not have its format is refused.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

type Check = Result<(), String>;

/// Formats that Helm's library checks and we do not: nobody writes them into charts,
/// and passing them by would be a lie.
pub(super) const NOT_CHECKED: [&str; 3] = ["period", "relative-json-pointer", "uri-template"];

/// Why a text does not have a format. A format that nobody knows is had by every text.
pub(super) fn check(format: &str, text: &str) -> Check {
    match format {
        "ipv4" => ipv4(text),
        "ipv6" => ipv6(text),
        "hostname" => hostname(text),
        "email" => email(text),
        "date" => date(text),
        "time" => time(text),
        "date-time" => date_time(text),
        "uuid" => matches(&UUID, text, "is no UUID"),
        "duration" => matches(&DURATION, text, "is no duration"),
        "json-pointer" => matches(&POINTER, text, "is no JSON pointer"),
        "semver" => matches(&SEMVER, text, "is no semantic version"),
        "regex" => crate::sprig::go_regex(text).map(drop),
        "uri" | "iri" => uri(text, true),
        "uri-reference" | "iri-reference" => uri(text, false),
        _ => Ok(()),
    }
}

static UUID: LazyLock<Regex> = LazyLock::new(|| known(r"^(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"));
static DURATION: LazyLock<Regex> =
    LazyLock::new(|| known(r"^P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)$"));
static POINTER: LazyLock<Regex> = LazyLock::new(|| known(r"^(/([^~/]|~[01])*)*$"));
static SEMVER: LazyLock<Regex> = LazyLock::new(|| {
    known(
        r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$",
    )
});

fn known(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is one of these here")
}

fn matches(pattern: &Regex, text: &str, refusal: &str) -> Check {
    // These two may not end where their parts would begin.
    let unfinished = text.starts_with('P') && (text.len() == 1 || text.ends_with('T'));
    if pattern.is_match(text) && !unfinished {
        return Ok(());
    }
    Err(format!("it {refusal}"))
}

fn refuse(why: &str) -> Check {
    Err(why.to_owned())
}

fn ipv4(text: &str) -> Check {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return refuse("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return refuse("leading zeros");
        }
        if group.is_empty() || group.len() > 3 || !group.bytes().all(|it| it.is_ascii_digit()) {
            return refuse("expected four decimals");
        }
        if group.parse::<u8>().is_err() {
            return refuse("decimal must be between 0 and 255");
        }
    }
    Ok(())
}

fn ipv6(text: &str) -> Check {
    if !text.contains(':') {
        return refuse("missing colon");
    }
    match text.parse::<Ipv6Addr>() {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn hostname(text: &str) -> Check {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return refuse("more than 253 characters long");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > 63 {
            return refuse("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return refuse("label starts with hyphen");
        }
        if label.ends_with('-') {
            return refuse("label ends with hyphen");
        }
        if let Some(it) = label.chars().find(|it| !it.is_ascii_alphanumeric() && *it != '-') {
            return Err(format!("invalid character {}", shown(it)));
        }
    }
    Ok(())
}

fn shown(it: char) -> String {
    format!("'{it}'")
}

fn email(text: &str) -> Check {
    if text.len() > 254 {
        return refuse("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else {
        return refuse("missing @");
    };
    if local.len() > 64 {
        return refuse("local part more than 64 characters long");
    }
    if local.len() > 1 && local.starts_with('"') {
        if local[1..local.len() - 1].contains(['\\', '"']) {
            return refuse("backslash and quote are not allowed within quoted local part");
        }
    } else {
        if local.starts_with('.') {
            return refuse("starts with dot");
        }
        if local.ends_with('.') {
            return refuse("ends with dot");
        }
        if local.contains("..") {
            return refuse("consecutive dots");
        }
        let allowed = |it: char| it.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(it);
        if let Some(it) = local.chars().find(|it| !allowed(*it)) {
            return Err(format!("invalid character {}", shown(it)));
        }
    }
    let address = domain.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match address {
        Some(address) => match address.strip_prefix("IPv6:") {
            Some(address) => ipv6(address).map_err(|why| format!("invalid ipv6 address: {why}")),
            None => ipv4(address).map_err(|why| format!("invalid ipv4 address: {why}")),
        },
        None => hostname(domain).map_err(|why| format!("invalid domain: {why}")),
    }
}

fn date(text: &str) -> Check {
    let is_shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, it)| match at {
            4 | 7 => it == b'-',
            _ => it.is_ascii_digit(),
        });
    if is_shaped && text.parse::<jiff::civil::Date>().is_ok() {
        return Ok(());
    }
    refuse("it is no day such as 2006-01-02")
}

fn time(text: &str) -> Check {
    let two = |at: usize| -> Option<u32> {
        let digits = text.get(at..at + 2)?;
        digits
            .bytes()
            .all(|it| it.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    if text.len() < 9 {
        return refuse("less than 9 characters long");
    }
    if text.get(2..3) != Some(":") || text.get(5..6) != Some(":") {
        return refuse("missing colon in correct place");
    }
    let (Some(hour), Some(minute), Some(second)) = (two(0), two(3), two(6)) else {
        return refuse("invalid hour/min/sec");
    };
    if hour > 23 || minute > 59 || second > 60 {
        return refuse("hour/min/sec out of range");
    }
    let mut rest = text.get(8..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix('.') {
        let after = fraction.trim_start_matches(|it: char| it.is_ascii_digit());
        if after.len() == fraction.len() {
            return refuse("no digits in second fraction");
        }
        rest = after;
    }
    let mut minutes = i64::from(hour * 60 + minute);
    if !rest.eq_ignore_ascii_case("z") {
        if rest.len() != 6 {
            return refuse("offset must be 6 characters long");
        }
        let sign = match rest.as_bytes()[0] {
            b'+' => -1,
            b'-' => 1,
            _ => return refuse("offset must begin with plus/minus"),
        };
        let start = text.len() - 5;
        if text.get(start + 2..start + 3) != Some(":") {
            return refuse("missing colon in offset in correct place");
        }
        let (Some(hours), Some(more)) = (two(start), two(start + 3)) else {
            return refuse("invalid hour/min in offset");
        };
        if hours > 23 || more > 59 {
            return refuse("hour/min in offset out of range");
        }
        minutes = (minutes + sign * i64::from(hours * 60 + more)).rem_euclid(24 * 60);
    }
    if second == 60 && minutes != 23 * 60 + 59 {
        return refuse("invalid leap second");
    }
    Ok(())
}

fn date_time(text: &str) -> Check {
    if text.len() < 20 {
        return refuse("less than 20 characters long");
    }
    let (Some(day), Some(between), Some(rest)) = (text.get(..10), text.get(10..11), text.get(11..)) else {
        return refuse("11th character must be t or T");
    };
    if !between.eq_ignore_ascii_case("t") {
        return refuse("11th character must be t or T");
    }
    date(day).map_err(|why| format!("invalid date element: {why}"))?;
    time(rest).map_err(|why| format!("invalid time element: {why}"))
}

fn uri(text: &str, absolute: bool) -> Check {
    if !absolute && text.contains('\\') {
        return refuse("contains \\");
    }
    let scheme = crate::sprig::url_scheme(text)?;
    if absolute && scheme.is_empty() {
        return refuse("relative url");
    }
    Ok(())
}
