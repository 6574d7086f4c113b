//! Timers as environment variables, written as Go writes durations.

use std::time::Duration;

use anyhow::{Result, anyhow};
use kube_primitives::duration;

/// What a variable says.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The duration that a variable says, or the default where nothing sets it.
///
/// # Errors
/// When it is not a duration above nothing.
pub fn duration(name: &str, default: Duration) -> Result<Duration> {
    read(name, variable(name), default)
}

/// The same of a text that was read already.
///
/// # Errors
/// When it is not a duration above nothing.
pub fn read(name: &str, text: Option<String>, default: Duration) -> Result<Duration> {
    match text.filter(|it| !it.is_empty()) {
        None => Ok(default),
        Some(text) => duration::parse(&text)
            .filter(|it| it.is_positive())
            .map(|it| it.unsigned_abs())
            .ok_or_else(|| anyhow!("{name}={text} is not a duration; write it as Go does, for example 5m or 1h30m")),
    }
}
