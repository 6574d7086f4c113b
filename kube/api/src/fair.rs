//! Who is served next when more is asked than can be done at once.
//!
//! Reads and writes have so many seats each, as kube-apiserver has them. Who finds none waits with the others of the
//! same client, and a seat that becomes free goes to the client whose turn it is: one that asks for a thousand things
//! at once waits for itself. No client has all seats, so that one whose requests take long (a webhook that does not
//! answer) leaves some to others. Some more seats are kept for what must not wait for anybody: administrators, and the
//! renewal of Leases. Who has too many waiting is told to come back later.

use crate::limits::Limits;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use tokio::sync::oneshot;

/// Which seats a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatKind {
    Read,
    Write,
}

impl SeatKind {
    /// The seats of a method.
    pub fn of(method: &http::Method) -> Self {
        match method.is_safe() {
            true => Self::Read,
            false => Self::Write,
        }
    }
}

#[derive(Default)]
struct Client {
    /// Seats it has.
    busy: usize,
    waiting: VecDeque<oneshot::Sender<Seat>>,
    /// Whether it will have a turn.
    has_turn: bool,
}

struct State {
    free: usize,
    clients: HashMap<Arc<str>, Client>,
    /// Those that wait, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

struct Lane {
    /// The most seats that one client has.
    share: usize,
    state: Mutex<State>,
}

impl Lane {
    fn new(seats: usize) -> Arc<Self> {
        Arc::new(Self {
            share: (seats - seats / 4).max(1),
            state: Mutex::new(State {
                free: seats,
                clients: HashMap::new(),
                turns: VecDeque::new(),
            }),
        })
    }

    /// A seat, if one is free for this client.
    fn ask_at_once(self: &Arc<Self>, name: &str) -> Option<Seat> {
        self.ask(name, 0)?.ok()
    }

    /// A seat at once, or the place in the queue; `None` when the queue is full.
    fn ask(self: &Arc<Self>, name: &str, waiting_max: usize) -> Option<Result<Seat, oneshot::Receiver<Seat>>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let name: Arc<str> = match state.clients.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => name.into(),
        };
        let client = state.clients.entry(name.clone()).or_default();
        if state.free > 0 && client.busy < self.share && client.waiting.is_empty() {
            state.free -= 1;
            client.busy += 1;
            return Some(Ok(Seat::new(self.clone(), name)));
        }
        // Those who have gone away are nobody's queue.
        if client.waiting.len() >= waiting_max {
            client.waiting.retain(|it| !it.is_closed());
        }
        if client.waiting.len() >= waiting_max {
            if client.busy == 0 && !client.has_turn {
                state.clients.remove(&name);
            }
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if !client.has_turn {
            client.has_turn = true;
            state.turns.push_back(name);
        }
        client.waiting.push_back(sender);
        Some(Err(receiver))
    }

    /// Takes a seat back and gives the free ones to whose turn it is.
    fn give_back(self: &Arc<Self>, name: &str) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.free += 1;
        if let Some(client) = state.clients.get_mut(name) {
            client.busy -= 1;
        }
        let mut passed = 0;
        while state.free > 0 && passed < state.turns.len() {
            let Some(name) = state.turns.pop_front() else { break };
            let Some(client) = state.clients.get_mut(&name) else {
                continue;
            };
            if client.busy >= self.share {
                passed += 1;
                state.turns.push_back(name);
                continue;
            }
            while let Some(next) = client.waiting.pop_front() {
                match next.send(Seat::new(self.clone(), name.clone())) {
                    Ok(()) => {
                        state.free -= 1;
                        client.busy += 1;
                        break;
                    }
                    // Gone meanwhile; the seat was never taken.
                    Err(mut seat) => seat.lane = None,
                }
            }
            passed = 0;
            if client.waiting.is_empty() {
                client.has_turn = false;
                if client.busy == 0 {
                    state.clients.remove(&name);
                }
            } else {
                state.turns.push_back(name);
            }
        }
        if let Some(client) = state.clients.get(name)
            && client.busy == 0
            && !client.has_turn
        {
            state.clients.remove(name);
        }
    }
}

/// A request under way. Dropping it lets the next one begin.
pub struct Seat {
    lane: Option<Arc<Lane>>,
    name: Arc<str>,
}

impl Seat {
    fn new(lane: Arc<Lane>, name: Arc<str>) -> Self {
        Self { lane: Some(lane), name }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            lane.give_back(&self.name);
        }
    }
}

/// The seats of one server.
pub struct Fair {
    limits: Limits,
    reads: Arc<Lane>,
    writes: Arc<Lane>,
    kept_reads: Arc<Lane>,
    kept_writes: Arc<Lane>,
}

impl Fair {
    pub fn new(limits: Limits) -> Self {
        Self {
            reads: Lane::new(limits.reads),
            writes: Lane::new(limits.writes),
            kept_reads: Lane::new(limits.kept),
            kept_writes: Lane::new(limits.kept),
            limits,
        }
    }

    /// Waits for a seat; `None` when too many of this client wait already, or it took too long.
    pub async fn seat(&self, name: &str, kind: SeatKind) -> Option<Seat> {
        let lane = match kind {
            SeatKind::Read => &self.reads,
            SeatKind::Write => &self.writes,
        };
        self.wait_for(lane, name).await
    }

    /// Waits for a seat of those that are kept, if none of the others is free.
    pub async fn kept_seat(&self, name: &str, kind: SeatKind) -> Option<Seat> {
        let (lane, kept) = match kind {
            SeatKind::Read => (&self.reads, &self.kept_reads),
            SeatKind::Write => (&self.writes, &self.kept_writes),
        };
        match lane.ask_at_once(name) {
            Some(seat) => Some(seat),
            None => self.wait_for(kept, name).await,
        }
    }

    async fn wait_for(&self, lane: &Arc<Lane>, name: &str) -> Option<Seat> {
        match lane.ask(name, self.limits.waiting)? {
            Ok(seat) => Some(seat),
            Err(place) => tokio::time::timeout(self.limits.wait, place).await.ok()?.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, future::BoxFuture};
    use std::time::Duration;

    fn fair(seats: usize, waiting: usize) -> Fair {
        Fair::new(Limits {
            reads: seats,
            waiting,
            ..Limits::default()
        })
    }

    fn ask<'a>(fair: &'a Fair, name: &'a str) -> BoxFuture<'a, Option<Seat>> {
        let mut asked = fair.seat(name, SeatKind::Read).boxed();
        // As far as it goes: into the queue.
        assert!(asked.as_mut().now_or_never().is_none());
        asked
    }

    #[tokio::test]
    async fn free_seats_go_to_the_next_client_not_the_busiest() {
        let fair = fair(2, 100);
        // A quarter of two seats is none, so both could be one client's.
        let first = fair.seat("noisy", SeatKind::Read).await.unwrap();
        let second = fair.seat("noisy", SeatKind::Read).await.unwrap();
        let mut noisy: Vec<_> = (0..50).map(|_| ask(&fair, "noisy")).collect();
        let quiet = ask(&fair, "quiet");
        drop(first);
        let next = noisy.remove(0).now_or_never().unwrap().unwrap();
        drop(second);
        assert!(
            quiet.now_or_never().unwrap().is_some(),
            "the quiet one waited for the noisy one"
        );
        drop(next);
        assert!(noisy.remove(0).now_or_never().unwrap().is_some());
    }

    #[tokio::test]
    async fn one_client_never_has_all_seats() {
        let fair = fair(8, 100);
        let mut held = Vec::new();
        for _ in 0..6 {
            held.push(fair.seat("noisy", SeatKind::Read).await.unwrap());
        }
        let waiting = ask(&fair, "noisy");
        let quiet = fair.seat("quiet", SeatKind::Read).now_or_never().unwrap();
        assert!(quiet.is_some());
        drop(quiet);
        // A seat of somebody else is none for who has its share.
        let mut waiting = waiting;
        assert!(waiting.as_mut().now_or_never().is_none());
        held.pop();
        assert!(waiting.now_or_never().unwrap().is_some());
    }

    #[tokio::test]
    async fn a_client_with_too_many_waiting_requests_is_rejected_alone() {
        let fair = fair(1, 2);
        let held = fair.seat("noisy", SeatKind::Read).await.unwrap();
        let queue = [ask(&fair, "noisy"), ask(&fair, "noisy")];
        assert!(fair.seat("noisy", SeatKind::Read).await.is_none());
        let quiet = ask(&fair, "quiet");
        assert!(
            fair.seat("noisy", SeatKind::Write).await.is_some(),
            "writes have their own"
        );
        // Who gave up waiting makes room.
        drop(queue);
        let again = ask(&fair, "noisy");
        drop(held);
        let again = again.now_or_never().unwrap();
        assert!(again.is_some(), "it was its turn");
        drop(again);
        assert!(quiet.now_or_never().unwrap().is_some());
        assert!(fair.reads.state.lock().clients.is_empty());
        assert_eq!(fair.reads.state.lock().free, 1);
    }

    #[tokio::test]
    async fn urgent_requests_have_seats_when_all_others_are_taken() {
        let fair = Fair::new(Limits {
            reads: 1,
            kept: 1,
            ..Limits::default()
        });
        let free = fair.kept_seat("lease", SeatKind::Read).await.unwrap();
        let mut noisy = ask(&fair, "noisy");
        let kept = fair.kept_seat("lease", SeatKind::Read).now_or_never().unwrap().unwrap();
        drop(kept);
        assert!(noisy.as_mut().now_or_never().is_none(), "it is nobody else's");
        drop(free);
        assert!(noisy.now_or_never().unwrap().is_some());
        for lane in [&fair.reads, &fair.kept_reads] {
            assert!(lane.state.lock().clients.is_empty());
        }
    }

    #[tokio::test]
    async fn a_seat_that_comes_too_late_goes_to_the_next() {
        let fair = Fair::new(Limits {
            reads: 1,
            wait: Duration::ZERO,
            ..Limits::default()
        });
        let held = fair.seat("a", SeatKind::Read).await.unwrap();
        assert!(fair.seat("b", SeatKind::Read).await.is_none());
        drop(held);
        assert!(fair.seat("c", SeatKind::Read).await.is_some());
    }
}
