//! The two timestamps of Kubernetes, with Go's error texts.
//! `Time` takes RFC 3339 and answers whole seconds in UTC; `MicroTime` takes and answers exactly six decimals.

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Parses a `Time` and writes it as Kubernetes answers it: `2026-11-20T16:53:32Z`.
pub fn normalise_seconds(text: &str) -> Result<String, String> {
    parse(text, SECONDS).map(seconds)
}

/// Parses a `MicroTime` and writes it as Kubernetes answers it: `2026-11-20T16:53:32.000000Z`.
pub fn normalise_micros(text: &str) -> Result<String, String> {
    parse(text, MICROS).map(micros)
}

/// A `Time` as text.
pub fn seconds(at: Timestamp) -> String {
    let it = at.to_zoned(TimeZone::UTC);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        it.year(),
        it.month(),
        it.day(),
        it.hour(),
        it.minute(),
        it.second()
    )
}

/// A `MicroTime` as text.
pub fn micros(at: Timestamp) -> String {
    let it = at.to_zoned(TimeZone::UTC);
    let micro = it.subsec_nanosecond() / 1000;
    let day = format!("{:04}-{:02}-{:02}", it.year(), it.month(), it.day());
    format!(
        "{day}T{:02}:{:02}:{:02}.{micro:06}Z",
        it.hour(),
        it.minute(),
        it.second()
    )
}

/// Whether a text is an RFC 3339 date and time.
pub fn is_rfc3339(text: &str) -> bool {
    parse(text, SECONDS).is_ok()
}

struct Reader<'a> {
    all: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn wrong(&self, element: &str) -> String {
        format!(
            "parsing time {:?} as {:?}: cannot parse {:?} as {element:?}",
            self.all, self.layout, self.rest
        )
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<i64, String> {
        let Some(head) = self
            .rest
            .get(..digits)
            .filter(|it| it.bytes().all(|b| b.is_ascii_digit()))
        else {
            return Err(self.wrong(element));
        };
        self.rest = &self.rest[digits..];
        head.parse().map_err(|_| self.wrong(element))
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.wrong(text))?;
        Ok(())
    }

    fn range(&self, value: i64, max: i64, what: &str) -> Result<(), String> {
        if value > max {
            Err(format!("parsing time {:?}: {what} out of range", self.all))
        } else {
            Ok(())
        }
    }
}

fn parse(text: &str, layout: &'static str) -> Result<Timestamp, String> {
    let mut it = Reader {
        all: text,
        rest: text,
        layout,
    };
    let year = it.number(4, "2006")?;
    it.literal("-")?;
    let month = it.number(2, "01")?;
    if month == 0 {
        it.range(1, 0, "month")?;
    }
    it.range(month, 12, "month")?;
    it.literal("-")?;
    let day = it.number(2, "02")?;
    it.literal("T")?;
    let hour = it.number(2, "15")?;
    it.range(hour, 23, "hour")?;
    it.literal(":")?;
    let minute = it.number(2, "04")?;
    it.range(minute, 59, "minute")?;
    it.literal(":")?;
    let second = it.number(2, "05")?;
    it.range(second, 59, "second")?;
    let mut nanos = 0i64;
    let digits = it
        .rest
        .strip_prefix(['.', ','])
        .map(|it| it.bytes().take_while(u8::is_ascii_digit).count())
        .unwrap_or(0);
    if layout == MICROS {
        if digits < 6 || !it.rest.starts_with('.') {
            return Err(it.wrong(".000000"));
        }
        nanos = it.rest[1..7].parse::<i64>().map_err(|_| it.wrong(".000000"))? * 1000;
        it.rest = &it.rest[7..];
    } else if digits > 0 {
        let kept = &it.rest[1..1 + digits.min(9)];
        nanos = kept.parse::<i64>().map_err(|_| it.wrong("Z07:00"))? * 10i64.pow(9 - kept.len() as u32);
        it.rest = &it.rest[1 + digits..];
    }
    let mut offset = 0i64;
    if let Some(rest) = it.rest.strip_prefix('Z') {
        it.rest = rest;
    } else {
        let sign = match it.rest.chars().next() {
            Some('+') => 1,
            Some('-') => -1,
            _ => return Err(it.wrong("Z07:00")),
        };
        let parts = it
            .rest
            .get(1..3)
            .zip(it.rest.get(4..6))
            .filter(|_| it.rest[3..].starts_with(':'));
        let Some((hours, minutes)) = parts.and_then(|(h, m)| h.parse::<i64>().ok().zip(m.parse::<i64>().ok())) else {
            return Err(it.wrong("Z07:00"));
        };
        it.range(hours, 24, "time zone offset hour")?;
        it.range(minutes, 60, "time zone offset minute")?;
        offset = sign * (hours * 3600 + minutes * 60);
        it.rest = &it.rest[6..];
    }
    if !it.rest.is_empty() {
        return Err(format!("parsing time {:?}: extra text: {:?}", it.all, it.rest));
    }
    let out_of_range = |_| format!("parsing time {text:?}: day out of range");
    let civil = civil::DateTime::new(
        year as i16,
        month as i8,
        day as i8,
        hour as i8,
        minute as i8,
        second as i8,
        nanos as i32,
    )
    .map_err(out_of_range)?;
    let zoned = civil.to_zoned(TimeZone::UTC).map_err(out_of_range)?;
    zoned
        .timestamp()
        .checked_sub(SignedDuration::from_secs(offset))
        .map_err(out_of_range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_normalised_to_utc() {
        let table = [
            ("2026-11-20T16:53:32Z", Ok("2026-11-20T16:53:32Z")),
            ("2026-11-20T18:53:32+02:00", Ok("2026-11-20T16:53:32Z")),
            ("2026-11-20T16:53:32.999Z", Ok("2026-11-20T16:53:32Z")),
            (
                "x",
                Err(r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#),
            ),
            (
                "2026-02-30T00:00:00Z",
                Err(r#"parsing time "2026-02-30T00:00:00Z": day out of range"#),
            ),
            (
                "2026-01-01T00:00:00Zx",
                Err(r#"parsing time "2026-01-01T00:00:00Zx": extra text: "x""#),
            ),
        ];
        for (text, want) in table {
            assert_eq!(
                normalise_seconds(text),
                want.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn a_micro_time_needs_exactly_six_decimals() {
        assert_eq!(
            normalise_micros("2026-01-01T02:00:00.123456+02:00"),
            Ok("2026-01-01T00:00:00.123456Z".to_owned())
        );
        let short = normalise_micros("2026-01-01T00:00:00Z").expect_err("no decimals");
        assert_eq!(
            short,
            r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
        assert!(normalise_micros("2026-01-01T00:00:00.123456789Z").is_err());
    }
}
