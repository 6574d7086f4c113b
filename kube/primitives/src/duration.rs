//! Durations as Go reads them (`1h30m`), and ages as kubectl writes them (`3m4s`).

use jiff::SignedDuration;

/// Reads a duration as Go writes it: numbers with units, such as `1h30m`, `90s`, `1.5h`, `-5m`, `0`; up to 290 years.
/// Nothing when Go would not read it either.
/// Upstream: Go's `time.ParseDuration`.
pub fn parse(text: &str) -> Option<SignedDuration> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut rest = unsigned;
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    // The least number has no positive.
    let most = i64::MIN.unsigned_abs();
    while !rest.is_empty() {
        let digits = |it: &str| it.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = after
            .strip_prefix('.')
            .map_or(("", after), |it| it.split_at(digits(it)));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after
            .find(|it: char| it == '.' || it.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: u64 = match unit {
            "ns" => 1,
            // The sign for micro and the Greek letter look alike.
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut nanoseconds = whole.checked_mul(unit).filter(|it| *it <= most)?;
        // What has more digits than Go counts is less than it counts.
        let (mut part, mut scale) = (0u64, 1f64);
        for digit in fraction.bytes() {
            let Some(more) = part
                .checked_mul(10)
                .and_then(|it| it.checked_add(u64::from(digit - b'0')))
            else {
                break;
            };
            if more > most {
                break;
            }
            (part, scale) = (more, scale * 10.0);
        }
        nanoseconds = nanoseconds.checked_add((part as f64 * (unit as f64 / scale)) as u64)?;
        total = total.checked_add(nanoseconds).filter(|it| *it <= most)?;
        rest = after;
    }
    let signed = if text.starts_with('-') {
        0i64.checked_sub_unsigned(total)?
    } else {
        i64::try_from(total).ok()?
    };
    Some(SignedDuration::from_nanos(signed))
}

/// A duration as Go writes it, such as `300h0m0s`, `1.5s` or `0s`.
/// Upstream: Go's `Duration.String`.
pub fn text(duration: SignedDuration) -> String {
    let nanoseconds = duration.as_nanos();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let parts = |count: u128, unit: u128, digits: usize| {
        let fraction = format!("{:0digits$}", count % unit);
        match fraction.trim_end_matches('0') {
            "" => (count / unit).to_string(),
            fraction => format!("{}.{fraction}", count / unit),
        }
    };
    match all {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{all}ns"),
        1_000..1_000_000 => format!("{sign}{}\u{b5}s", parts(all, 1_000, 3)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", parts(all, 1_000_000, 6)),
        _ => {
            let (minutes, rest) = (all / 60_000_000_000, all % 60_000_000_000);
            let seconds = parts(rest, 1_000_000_000, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// A number of seconds as an age: `5s`, `3m20s`, `45m`, `3h10m`, `26h`, `3d4h`, `100d`, `2y35d`, `9y`. A clock that is
/// a second ahead of another is no news, one that is further off is `<invalid>`.
/// Upstream: apimachinery `pkg/util/duration`, `HumanDuration`.
pub fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
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
    fn a_duration_is_written_as_go_writes_it() {
        for (read, written) in [
            ("0", "0s"),
            ("300h", "300h0m0s"),
            ("90m", "1h30m0s"),
            ("61s", "1m1s"),
            ("1500ms", "1.5s"),
            ("20ms", "20ms"),
            ("1500us", "1.5ms"),
            ("7ns", "7ns"),
            ("1500ns", "1.5\u{b5}s"),
            ("-90s", "-1m30s"),
        ] {
            assert_eq!(parse(read).map(text).as_deref(), Some(written));
        }
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

    #[test]
    fn an_age_has_the_steps_of_kubectl() {
        let cases = [
            (-5, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (184, "3m4s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
            (283_910_400, "9y"),
        ];
        for (seconds, wanted) in cases {
            assert_eq!(human(seconds), wanted, "{seconds} s");
        }
    }
}
