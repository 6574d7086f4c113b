//! When a CronJob runs: five fields of numbers, as cron has them, and the zone whose clock counts.
//! Upstream reads them with github.com/robfig/cron, whose words these are.

use super::{changed, text};
use kube_store::status::FieldError;
use serde_json::{Value, json};

/// The names, the least and the most of a field.
type Field = (&'static [&'static str], i64, i64);

const FIELDS: [Field; 5] = [
    (&[], 0, 59),
    (&[], 0, 23),
    (&[], 1, 31),
    (
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        1,
        12,
    ),
    (&["sun", "mon", "tue", "wed", "thu", "fri", "sat"], 0, 6),
];

/// Errors of the schedule of a CronJob and of its zone.
pub(super) fn schedule(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let schedule = text(new, "/spec/schedule");
    let mut wrong = |why: &str| errors.push(FieldError::invalid("spec.schedule", &json!(schedule), why));
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else {
        if let Err(why) = read(schedule) {
            wrong(&why);
        }
        // What was stored with a zone in it may keep it.
        let kept = old.is_some_and(|it| text(it, "/spec/schedule").contains("TZ"));
        if schedule.contains("TZ") && !kept {
            wrong("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        } else if schedule.contains("TZ") && !new["spec"]["timeZone"].is_null() {
            wrong("cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
    }
    if changed(new, old, "/spec/timeZone")
        && let Some(zone) = new["spec"]["timeZone"].as_str()
    {
        time_zone(zone, errors);
    }
}

fn read(schedule: &str) -> Result<(), String> {
    let zoned = schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=");
    let schedule = match schedule.split_once(' ') {
        Some((_, rest)) if zoned => rest.trim(),
        _ => schedule,
    };
    if schedule.starts_with('@') {
        const KNOWN: [&str; 7] = [
            "@yearly",
            "@annually",
            "@monthly",
            "@weekly",
            "@daily",
            "@midnight",
            "@hourly",
        ];
        return match KNOWN.contains(&schedule) || schedule.starts_with("@every ") {
            true => Ok(()),
            false => Err(format!("unrecognized descriptor: {schedule}")),
        };
    }
    let fields: Vec<_> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (count, all) = (fields.len(), fields.join(" "));
        return Err(format!("expected exactly 5 fields, found {count}: [{all}]"));
    }
    for (given, field) in fields.iter().zip(FIELDS) {
        for range in given.split(',').filter(|it| !it.is_empty()) {
            self::range(range, field)?;
        }
    }
    Ok(())
}

fn range(range: &str, (names, least, most): Field) -> Result<(), String> {
    let number_or_name = |text: &str| {
        let named = names.iter().position(|it| it.eq_ignore_ascii_case(text));
        named.map_or_else(|| number(text), |at| Ok(least + at as i64))
    };
    let parts: Vec<_> = range.split('/').collect();
    let ends: Vec<_> = parts[0].split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (least, most),
        [one] => (number_or_name(one)?, number_or_name(one)?),
        [from, to] => (number_or_name(from)?, number_or_name(to)?),
        [from, ..] => {
            number_or_name(from)?;
            return Err(format!("too many hyphens: {range}"));
        }
        [] => return Ok(()),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // From here on, every so often.
            if ends.len() == 1 {
                end = most;
            }
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {range}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {range}"));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {range}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

fn time_zone(zone: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |why: &str| errors.push(FieldError::invalid("spec.timeZone", &json!(zone), why));
    if zone.is_empty() {
        wrong("timeZone must be nil or non-empty string");
        return;
    }
    let unknown = format!("unknown time zone {zone}");
    let is_part = |part: &str| {
        let good = |it: u8| it.is_ascii_alphanumeric() || b"._+-".contains(&it);
        !part.is_empty() && part != "." && part != ".." && !part.starts_with('-') && part.bytes().all(good)
    };
    if !zone.split('/').all(is_part) {
        wrong(&unknown);
        return;
    }
    if zone.eq_ignore_ascii_case("local") {
        wrong("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
        return;
    }
    // Some systems come without the zones, or without those of old names: there every zone is taken.
    let is_known = |zone: &str| jiff::tz::db().get(zone).is_ok();
    if is_known("US/Eastern") && !is_known(zone) {
        wrong(&unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_cron_reads_them() {
        for good in [
            "* * * * *",
            "*/5 0-23/2 1,15 jan-DEC mon-fri",
            "0 0 ? * 0",
            "5/10 * * * SUN",
            "@daily",
            "@every 1h30m",
            "0  12 31 12 6",
            "*/90 * * * *",
            "0-0 0 1-31 * 0-6",
        ] {
            assert_eq!(read(good), Ok(()), "{good}");
        }
        for (schedule, why) in [
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("1-80/2 * * * *", "end of range (80) above maximum (59): 1-80/2"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            (
                "30-10 * * * *",
                "beginning of range (30) beyond end of range (10): 30-10",
            ),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(read(schedule), Err(why.to_owned()), "{schedule}");
        }
    }

    #[test]
    fn zones_have_names() {
        let said = |zone: &str| {
            let mut errors = Vec::new();
            time_zone(zone, &mut errors);
            errors.into_iter().map(|it| it.detail).collect::<Vec<_>>()
        };
        for good in [
            "UTC",
            "Etc/UTC",
            "Europe/Berlin",
            "America/Argentina/Buenos_Aires",
            "Etc/GMT+5",
        ] {
            assert_eq!(said(good), Vec::<String>::new(), "{good}");
        }
        assert_eq!(
            said(""),
            ["Invalid value: \"\": timeZone must be nil or non-empty string"]
        );
        assert_eq!(said("../x"), ["Invalid value: \"../x\": unknown time zone ../x"]);
        assert_eq!(
            said("Local"),
            [
                "Invalid value: \"Local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
            ]
        );
    }
}
