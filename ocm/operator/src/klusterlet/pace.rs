//! How often a hub is asked: many clusters that ask at the same time could burden it.
//! Upstream: the client of the controller that checks access has QPS 2 and burst 5. We let a whole check through at
//! once, and sustain no more than upstream does.

use std::time::Duration;

use tokio::{sync::Mutex, time::Instant};

/// Requests that may be sent at once.
const BURST: f64 = 100.0;
/// Requests a second that may be sent for ever.
const PER_SECOND: f64 = 2.0;

/// A pace that is shared by everybody who asks.
pub struct Pace {
    state: Mutex<State>,
}

struct State {
    left: f64,
    at: Instant,
}

impl Pace {
    /// Nothing was asked yet.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                left: BURST,
                at: Instant::now(),
            }),
        }
    }

    /// Ends when the next request may be sent.
    pub async fn next(&self) {
        let wait = self.state.lock().await.take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

impl State {
    fn take(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * PER_SECOND).min(BURST) - 1.0;
        self.at = now;
        match self.left < 0.0 {
            true => Duration::from_secs_f64(-self.left / PER_SECOND),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_two_a_second() {
        let begin = Instant::now();
        let mut state = State { left: BURST, at: begin };
        assert!((0..100).all(|_| state.take(begin).is_zero()));
        assert_eq!(state.take(begin), Duration::from_millis(500));
        assert_eq!(state.take(begin), Duration::from_secs(1));
        // A second later what was taken beforehand is given back.
        assert_eq!(state.take(begin + Duration::from_secs(1)), Duration::from_millis(500));
        assert!(state.take(begin + Duration::from_secs(100)).is_zero());
    }
}
