//! Durations as Go writes and reads them (`time.ParseDuration`): `1h30m`, `90s`, `1.5h`, `-5m`, `0`.

use jiff::SignedDuration;

/// Reads a duration; nothing when Go would not read it either.
pub fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanoseconds: i128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let (digits, after) = rest.split_at(number);
        let end = after
            .find(|it: char| it.is_ascii_digit() || it == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        nanoseconds = nanoseconds.checked_add(amount(digits, unit_nanoseconds(unit)?)?)?;
        rest = after;
    }
    let signed = if negative { -nanoseconds } else { nanoseconds };
    i64::try_from(signed).ok().map(SignedDuration::from_nanos)
}

fn unit_nanoseconds(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn amount(digits: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanoseconds = whole.checked_mul(unit)?;
    let mut part = unit;
    for digit in fraction.bytes() {
        part /= 10;
        nanoseconds = nanoseconds.checked_add(i128::from(digit - b'0') * part)?;
    }
    Some(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_we_read() {
        for (text, seconds) in [
            ("0", 0),
            ("5m", 300),
            ("1h30m", 5400),
            ("1.5h", 5400),
            ("-5m", -300),
            ("+2s", 2),
        ] {
            assert_eq!(parse(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("5ms"), Some(SignedDuration::from_millis(5)));
        assert_eq!(parse(".5s"), Some(SignedDuration::from_millis(500)));
        assert_eq!(parse("3µs"), Some(SignedDuration::from_micros(3)));
    }

    #[test]
    fn what_go_refuses_we_refuse() {
        for text in [
            "",
            "-",
            "5",
            "m",
            "5|",
            "5 m",
            "1.2.3s",
            ".s",
            "5d",
            "99999999999h",
            "170141183460469231731687303715.9s",
            "None",
            "1h-5m",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
