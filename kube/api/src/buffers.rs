//! How many watches clients have, and how many bytes wait for them to be read.
//!
//! Who does not read makes its watch wait with the piece that was made for it. So pieces are counted by client until
//! the next one is asked for, and a watch whose piece finds no room ends: its client comes back with the revision that
//! it has seen, as after any end of a watch, and has missed nothing.

use crate::{limits::Limits, party::Party};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// What a client has whatever others have: those who do not read shall not end the watches of those who do.
const OWN_BYTES: usize = 1 << 20;

#[derive(Default)]
struct State {
    watches: usize,
    bytes: usize,
    /// Watches by identity.
    identities: HashMap<Arc<str>, usize>,
    /// Bytes by client.
    clients: HashMap<Arc<str>, usize>,
}

/// The watches of one server.
pub struct Buffers {
    limits: Limits,
    state: Mutex<State>,
}

/// What waits for one watch. Dropping it gives everything back.
pub struct Account {
    buffers: Arc<Buffers>,
    /// Nobody's bounds, if there is none.
    party: Option<Party>,
    held: usize,
}

impl Buffers {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
        })
    }

    /// Watches, and bytes that wait for them to be read.
    pub fn now(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.watches, state.bytes)
    }

    /// One watch more; `None` when the identity has as many as it may.
    pub fn open(self: &Arc<Self>, party: Option<Party>) -> Option<Account> {
        let mut state = self.state.lock();
        if let Some(party) = &party {
            let most = self.watches_max(party);
            let count = state.identities.entry(party.identity.clone()).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        state.watches += 1;
        drop(state);
        Some(Account {
            buffers: self.clone(),
            party,
            held: 0,
        })
    }

    /// The most watches of an identity.
    pub fn watches_max(&self, party: &Party) -> usize {
        match party.is_shared {
            true => self.limits.shared_watches,
            false => self.limits.watches,
        }
    }
}

impl Account {
    /// Says what waits now, instead of what waited before; whether there is room for it. One watch of each client
    /// always goes on, however large its piece is.
    pub fn hold(&mut self, bytes: usize) -> bool {
        let limits = &self.buffers.limits;
        let mut state = self.buffers.state.lock();
        let state = &mut *state;
        state.bytes -= self.held;
        let mut has_room = true;
        if let Some(party) = &self.party {
            let of_client = match state.clients.get_mut(&party.client) {
                Some(it) => it,
                None => state.clients.entry(party.client.clone()).or_default(),
            };
            *of_client -= self.held;
            let is_beyond_own = *of_client > 0 && *of_client + bytes > limits.watch_bytes;
            let is_beyond_all = state.bytes + bytes > limits.watch_bytes_total && *of_client + bytes > OWN_BYTES;
            has_room = !(is_beyond_own || (is_beyond_all && *of_client > 0));
            if has_room {
                *of_client += bytes;
            }
            if *of_client == 0 {
                state.clients.remove(&party.client);
            }
        }
        self.held = if has_room { bytes } else { 0 };
        state.bytes += self.held;
        has_room
    }

    /// Whose it is.
    pub fn party(&self) -> Option<&Party> {
        self.party.as_ref()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.hold(0);
        let mut state = self.buffers.state.lock();
        state.watches -= 1;
        if let Some(party) = &self.party
            && let Some(count) = state.identities.get_mut(&party.identity)
        {
            *count -= 1;
            if *count == 0 {
                state.identities.remove(&party.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_watch_bytes_are_limited_per_client_and_in_total() {
        const MIB: usize = 1 << 20;
        let buffers = Buffers::new(Limits {
            watches: 2,
            watch_bytes: 3 * MIB,
            watch_bytes_total: 4 * MIB,
            ..Limits::default()
        });
        let open = |client: &str, identity: &str| buffers.open(Some(Party::new(client, identity)));
        let mut first = open("a", "a1").unwrap();
        let mut second = open("a", "a1").unwrap();
        assert!(open("a", "a1").is_none(), "two of one identity");
        let mut third = open("a", "a2").unwrap();
        assert!(first.hold(2 * MIB) && second.hold(MIB));
        assert!(!third.hold(1), "its client has as much as it may");
        assert_eq!(buffers.now(), (3, 3 * MIB));
        // Others have what they need even when all is taken.
        let (mut other, mut more) = (open("b", "b").unwrap(), open("b", "b").unwrap());
        assert!(other.hold(MIB));
        assert!(!more.hold(MIB));
        assert!(second.hold(0) && third.hold(1));
        drop((first, second, third, other, more));
        assert_eq!(buffers.now(), (0, 0));
        let mut alone = open("c", "c").unwrap();
        assert!(alone.hold(9 * MIB), "one piece goes on, however large it is");
        let state = buffers.state.lock();
        assert_eq!((state.identities.len(), state.clients.len()), (1, 1));
    }
}
