//! How much one client may have at once, keep, and write: data, which whoever embeds the server may change.

use crate::rates::Rate;
use std::time::Duration;

/// The bounds of one server. Who is part of the process has none of them; administrators (`system:masters`) have the
/// seats, and none of what is counted by client.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Reads under way at once, as kube-apiserver's `--max-requests-inflight`.
    pub reads: usize,
    /// Writes under way at once, as its `--max-mutating-requests-inflight`.
    pub writes: usize,
    /// Further reads, and as many writes, of administrators and on Leases, when the seats of all are taken.
    pub kept: usize,
    /// Requests of one client that wait for a seat. More than one connection may have open,
    /// so that only who opens many is sent away.
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
    /// Certificate requests of one identity that nobody has decided. An agent asks for one at a time for itself
    /// and for each of its add-ons.
    pub open_requests: usize,
    /// All that are kept of one identity: a request that was decided stays for an hour.
    pub requests: usize,
    /// Certificate requests of an identity that many clients share until they have one of their own, such as a
    /// bootstrap token: a whole fleet may wait to be let in.
    pub shared_requests: usize,
    /// Bytes of all that are kept of one identity.
    pub requests_bytes: usize,
    /// Bytes of what a certificate request wants signed, whoever asks. The object around it has four times as much.
    pub request_bytes: usize,
    /// Events of one namespace, and their bytes, until clients write no more.
    pub events: usize,
    pub event_bytes: usize,
    /// Writes of status and Events of one client in one namespace.
    pub status_writes: Rate,
    /// Bytes of the objects that come of them.
    pub status_bytes: Rate,
    /// How many times as fast those write of whom is not known that they are one client:
    /// the controllers of a fleet write for all of it.
    pub shared_times: usize,
    /// Watches of one identity.
    pub watches: usize,
    /// The same of an identity that many clients share: each that waits to be let in has one.
    pub shared_watches: usize,
    /// Bytes that wait until the watches of one client are read.
    pub watch_bytes: usize,
    /// Bytes that wait until watches are read. Past it, those who have more than a little waiting lose theirs.
    pub watch_bytes_total: usize,
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
            open_requests: 100,
            requests: 500,
            shared_requests: 20_000,
            requests_bytes: 64 << 20,
            request_bytes: 16 << 10,
            events: 10_000,
            event_bytes: 32 << 20,
            status_writes: Rate {
                burst: 5000,
                per_second: 200,
            },
            status_bytes: Rate {
                burst: 64 << 20,
                per_second: 4 << 20,
            },
            shared_times: 10,
            watches: 1000,
            shared_watches: 20_000,
            watch_bytes: 32 << 20,
            watch_bytes_total: 256 << 20,
        }
    }
}
