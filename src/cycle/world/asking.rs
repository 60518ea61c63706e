//! Which groups have asked in vain for the places of others, and when is each asked again?
//!
//! The answer follows from what everybody uses and wants, so it may be another whenever that changed. Then those are asked first that were asked longest ago, a few in each
//! cycle and so many cycles in a second: a full cluster with thousands who wait costs a bounded part of the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::GroupKey;

use super::World;

/// So many groups ask in one cycle.
pub const MOST_CLAIMS: usize = 16;

/// Who has not been asked since something changed is asked so much later.
const NEXT: Duration = Duration::from_millis(100);

/// Who asked, and when.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// How often anything changed so far that an answer follows from.
    changes: u64,
    /// After how many of them each group was asked.
    asked: BTreeMap<GroupKey, u64>,
    /// The same, longest ago first.
    order: BTreeSet<(u64, GroupKey)>,
}

/// How many there are of each priority.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Priorities(BTreeMap<i32, usize>);

impl Priorities {
    pub(super) fn join(&mut self, priority: i32) {
        let count = self.0.entry(priority).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn leave(&mut self, priority: i32) {
        let Some(count) = self.0.get_mut(&priority) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.0.remove(&priority);
        }
    }

    /// The lowest of all.
    #[must_use]
    pub(in crate::cycle) fn lowest(&self) -> Option<i32> {
        self.0.first_key_value().map(|(priority, _)| *priority)
    }
}

impl Asking {
    /// Something changed. Who is to be asked again now.
    pub(super) fn changed(&mut self) -> Vec<GroupKey> {
        self.changes = self.changes.saturating_add(1);
        self.order.iter().take(MOST_CLAIMS).map(|(_, key)| key.clone()).collect()
    }

    /// The group waits no more.
    pub(super) fn forget(&mut self, key: &GroupKey) {
        if let Some(at) = self.asked.remove(key) {
            self.order.remove(&(at, key.clone()));
        }
    }
}

impl World {
    /// After how many changes the group was asked; none where it was not asked since it waits, or all has changed since.
    #[must_use]
    pub(in crate::cycle) fn asked_at(&self, key: &GroupKey) -> Option<u64> {
        self.asking.asked.get(key).copied()
    }

    /// Whether the answer that the group got is still the answer.
    #[must_use]
    pub(in crate::cycle) fn was_answered(&self, key: &GroupKey) -> bool {
        self.asked_at(key) == Some(self.asking.changes)
    }

    /// The group asks now.
    pub(in crate::cycle) fn asks(&mut self, key: &GroupKey) {
        self.asking.forget(key);
        self.asking.asked.insert(key.clone(), self.asking.changes);
        self.asking.order.insert((self.asking.changes, key.clone()));
    }

    /// The group could not ask in this cycle, in which others did.
    pub(in crate::cycle) fn asks_later(&mut self, key: &GroupKey, now: Duration) {
        self.alarms.insert((now.saturating_add(NEXT), key.clone()));
    }
}
