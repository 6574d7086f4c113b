//! Which clusters are in which sets, kept as the fleet changes: many placements choose from the same few sets.

use std::{collections::HashMap, sync::Arc};

use ocm_api::cluster::{ManagedClusterSet, Membership};
use parking_lot::Mutex;

use super::{
    fleet::{Delta, FleetTable, Known},
    slots::Slots,
};

/// More sets than this are not remembered.
const SETS_MAX: usize = 1000;

/// The members of sets.
#[derive(Default)]
pub(crate) struct Members {
    by_set: Mutex<HashMap<String, OfSet>>,
}

struct OfSet {
    set: Arc<ManagedClusterSet>,
    seen: Option<u64>,
    slots: Slots,
}

impl Members {
    /// The clusters of any of these sets, those that are being deleted left out.
    pub(crate) fn of(&self, sets: &[Arc<ManagedClusterSet>], fleet: &FleetTable) -> Slots {
        let mut by_set = self.by_set.lock();
        if by_set.len() > SETS_MAX {
            by_set.clear();
        }
        let mut all = Slots::default();
        for set in sets {
            let name = set.metadata.name.as_deref().unwrap_or_default();
            if by_set.get(name).is_none_or(|it| it.set.spec != set.spec) {
                let of_set = OfSet {
                    set: set.clone(),
                    seen: None,
                    slots: Slots::default(),
                };
                by_set.insert(name.to_owned(), of_set);
            }
            if let Some(of_set) = by_set.get_mut(name) {
                of_set.look(fleet);
                all.extend(&of_set.slots);
            }
        }
        all
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        *self.by_set.lock() = HashMap::new();
    }
}

impl OfSet {
    fn look(&mut self, fleet: &FleetTable) {
        let membership = Membership::of([&*self.set]);
        let is_in = |it: &Known| it.cluster.metadata.deletion_timestamp.is_none() && membership.has(&it.cluster);
        match fleet.since(self.seen) {
            Delta::All => {
                self.slots = Slots::default();
                for (slot, known) in fleet.all() {
                    self.slots.set(slot, is_in(known));
                }
            }
            Delta::Changed(changed) => {
                for (slot, known) in changed {
                    self.slots.set(slot, known.as_ref().is_some_and(is_in));
                }
            }
        }
        self.seen = Some(fleet.position());
    }
}
