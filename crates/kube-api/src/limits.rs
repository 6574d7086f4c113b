//! How much one client may have at once, keep, and write: data, which whoever embeds the server may change.

use std::time::Duration;

/// The bounds of one server. Who is part of the process has none of them; administrators (`system:masters`) have the seats,
/// and none of what is counted by client.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Reads under way at once, as kube-apiserver's `--max-requests-inflight`.
    pub reads: usize,
    /// Writes under way at once, as its `--max-mutating-requests-inflight`.
    pub writes: usize,
    /// Further reads, and as many writes, of administrators and on Leases, when the seats of all are taken.
    pub kept: usize,
    /// Requests of one client that wait for a seat. More than one connection may have open, so that only who opens many is sent
    /// away.
    pub waiting: usize,
    /// How long one waits at most: a quarter of a request's time, as there.
    pub wait: Duration,
    /// How long the body of a request may take, which is a request's time there.
    pub body: Duration,
    /// How long it may take whatever comes of it; after that it has to come at `body_bytes_per_second` on average.
    pub body_start: Duration,
    /// What a body has to come at. A client on a line of 64 kbit/s has eight times as much.
    pub body_bytes_per_second: usize,
    /// Bodies of one client that are on their way or wait for a seat.
    pub bodies: usize,
    /// Bytes of those: ten of the largest.
    pub body_bytes: usize,
    /// Bytes of all bodies. A quarter of them is kept for administrators and Leases.
    pub body_bytes_total: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reads: 400,
            writes: 200,
            kept: 40,
            waiting: 1100,
            wait: Duration::from_secs(15),
            body: Duration::from_secs(60),
            body_start: Duration::from_secs(10),
            body_bytes_per_second: 1 << 10,
            bodies: 1500,
            body_bytes: 32 << 20,
            body_bytes_total: 256 << 20,
        }
    }
}
