//! Where it is told that somebody has reached a bound; `limit_events` says it in Events.

use crate::party::Party;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Reports that wait; when there are more, enough is said.
const WAITING_MAX: usize = 256;
/// One refusal.
pub struct Report {
    pub identity: String,
    pub bound: &'static str,
    pub message: String,
}

/// Where refusals are told.
pub struct Reports(Sender<Report>);

/// Where refusals are told, and what writes them down.
pub fn reports() -> (Reports, Receiver<Report>) {
    let (sender, receiver) = channel(WAITING_MAX);
    (Reports(sender), receiver)
}

impl Reports {
    /// Tells that a bound was reached. What cannot be taken now was told often enough.
    pub fn tell(&self, party: &Party, bound: &'static str, message: &str) {
        let _ = self.0.try_send(Report {
            identity: party.identity.to_string(),
            bound,
            message: message.to_owned(),
        });
    }
}
