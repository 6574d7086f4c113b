//! Durations as kubectl prints them.

use jiff::Timestamp;

/// Seconds as an age: `5s`, `3m20s`, `45m`, `3h10m`, `26h`, `3d4h`, `100d`, `2y35d`, `9y`. Slightly negative ones are `0s`,
/// because clocks differ; others are `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
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

/// The age of a timestamp; `<unknown>` if there is none, `<invalid>` if it is no timestamp.
pub fn since(time: Option<&str>, now: Timestamp) -> String {
    let Some(time) = time.filter(|it| !it.is_empty()) else {
        return "<unknown>".to_owned();
    };
    match time.parse::<Timestamp>() {
        Ok(time) => human_duration(now.duration_since(time).as_secs()),
        Err(_) => "<invalid>".to_owned(),
    }
}
