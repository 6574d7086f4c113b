//! How long a container that ended waits to be started again.

use std::time::Duration;

/// The first pause and the longest one of a kubelet.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
/// A container that ran this long is taken for well again.
const WELL: Duration = Duration::from_secs(600);

/// The pause before the next start, doubling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// The pause after a run of this length: none the first time.
    pub fn after(&mut self, ran: Duration) -> Duration {
        let pause = match self.last {
            _ if ran >= WELL => Duration::ZERO,
            None => Duration::ZERO,
            Some(last) => (last * 2).clamp(FIRST, LONGEST),
        };
        self.last = Some(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_five_minutes_and_resets_after_long_runs() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..8).map(|_| backoff.after(Duration::ZERO).as_secs()).collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.after(WELL), Duration::ZERO);
        assert_eq!(backoff.after(Duration::ZERO), FIRST);
    }
}
