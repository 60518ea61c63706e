//! Which evictions wait for a slot, and which is next?
//!
//! An eviction belongs to the namespaces of its victims: their webhooks and budgets answer it. It keeps its slot until all its victims are
//! evicted or one is refused, so the evictions of a namespace with a webhook that hangs must not have all slots
//! ([`crate::runtime::lanes`]). The first one in order that has room is next.
//!
//! Pure: the time is an argument.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use crate::cycle::plan::Eviction;
use crate::runtime::lanes::{Lanes, Slots};

/// The slots: as many as one namespace had when there was no limit for one, four times.
const SLOTS: Slots = Slots { all: 16, lane: 4, slow_lane: 1, slow: 8 };

/// How long an eviction may take before its namespaces count as slow, and how much more for each victim (four requests).
const EXPECTED: Duration = Duration::from_secs(3);
const EXPECTED_FOR_ONE: Duration = Duration::from_millis(250);

/// How many evictions wait at most. A nomination waits once, and a PodGroup tries again later if its eviction is not accepted.
const WAITING: usize = 1024;

/// The evictions that wait for a slot, and the slots.
#[derive(Debug)]
pub(super) struct EvictionQueue {
    waiting: VecDeque<(Eviction, Timestamp)>,
    lanes: Lanes<u64>,
}

impl Default for EvictionQueue {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), lanes: Lanes::new(SLOTS) }
    }
}

impl EvictionQueue {
    /// Adds an eviction. Returns it when too many wait.
    pub(super) fn push(&mut self, eviction: Eviction, now: Timestamp) -> Option<Eviction> {
        if self.waiting.len() >= WAITING {
            return Some(eviction);
        }
        self.waiting.push_back((eviction, now));
        None
    }

    /// Takes the next eviction. It has its slot until [`ended`](Self::ended).
    pub(super) fn take(&mut self, now: Instant) -> Option<(Eviction, Timestamp)> {
        if self.lanes.is_full() {
            return None;
        }
        let at = self.waiting.iter().position(|(eviction, _)| self.lanes.has_room(&namespaces(eviction), now))?;
        let (eviction, created) = self.waiting.remove(at)?;
        let victims = u32::try_from(eviction.victims.len()).unwrap_or(u32::MAX);
        let late = now + EXPECTED + EXPECTED_FOR_ONE.saturating_mul(victims.min(1_000));
        self.lanes.start(eviction.nomination, namespaces(&eviction), late);
        Some((eviction, created))
    }

    /// Frees the slot of an eviction.
    pub(super) fn ended(&mut self, nomination: u64, now: Instant) {
        self.lanes.end(&nomination, now);
    }

    /// Drops the evictions that wait.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Drops the waiting eviction of a nomination.
    pub(super) fn withdraw(&mut self, nomination: u64) {
        self.waiting.retain(|(eviction, _)| eviction.nomination != nomination);
    }
}

fn namespaces(eviction: &Eviction) -> Vec<Arc<str>> {
    let all: BTreeSet<&Arc<str>> = eviction.victims.iter().map(|victim| &victim.namespace).collect();
    all.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{GroupKey, Uid};
    use crate::cycle::plan::{EvictionCause, Victim};
    use crate::runtime::clock;

    fn eviction(nomination: u64, namespaces: &[&str]) -> Eviction {
        let victim = |namespace: &&str| Victim {
            namespace: Arc::from(*namespace),
            name: Arc::from("p"),
            uid: Uid::from("u"),
            queue: Arc::from("q"),
            group: GroupKey::new(namespace, "g"),
        };
        Eviction {
            nomination,
            group: GroupKey::new("ns", "asking"),
            group_uid: Uid::from("g"),
            queue: Arc::from("q"),
            cause: EvictionCause::Reclaim,
            victims: namespaces.iter().map(victim).collect(),
        }
    }

    fn taken(queue: &mut EvictionQueue, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| queue.take(now)).map(|(eviction, _)| eviction.nomination).collect()
    }

    #[test]
    fn the_evictions_of_a_namespace_that_hangs_leave_slots_for_the_others() {
        let (mut queue, begin) = (EvictionQueue::default(), clock::monotonic());
        (0..100).for_each(|nomination| assert!(queue.push(eviction(nomination, &["hangs"]), Timestamp::UNIX_EPOCH).is_none()));
        assert_eq!(taken(&mut queue, begin), [0, 1, 2, 3]);
        for nomination in 100..103 {
            queue.push(eviction(nomination, &["works"]), Timestamp::UNIX_EPOCH);
        }
        queue.push(eviction(103, &["works", "hangs"]), Timestamp::UNIX_EPOCH);
        assert_eq!(taken(&mut queue, begin), [100, 101, 102], "a victim in the other namespace keeps the last one waiting");
        // The four give up. From now on the namespace has one slot.
        let later = begin + Duration::from_secs(30);
        (0..4).for_each(|nomination| queue.ended(nomination, later));
        (100..103).for_each(|nomination| queue.ended(nomination, begin));
        assert_eq!(taken(&mut queue, later), [4]);
        queue.ended(4, later);
        assert_eq!(taken(&mut queue, later), [5, 6, 7, 8], "it was answered in time: all is as before");
    }

    #[test]
    fn many_victims_may_take_longer() {
        let (mut queue, begin) = (EvictionQueue::default(), clock::monotonic());
        queue.push(eviction(0, &["ns"; 40]), Timestamp::UNIX_EPOCH);
        assert_eq!(taken(&mut queue, begin), [0]);
        (1..9).for_each(|nomination| assert!(queue.push(eviction(nomination, &["ns"]), Timestamp::UNIX_EPOCH).is_none()));
        assert_eq!(taken(&mut queue, begin + Duration::from_secs(12)), [1, 2, 3]);
    }

    #[test]
    fn too_many_evictions_are_handed_back_and_a_withdrawn_one_is_forgotten() {
        let mut queue = EvictionQueue::default();
        (0..1024).for_each(|nomination| assert!(queue.push(eviction(nomination, &["ns"]), Timestamp::UNIX_EPOCH).is_none()));
        assert_eq!(queue.push(eviction(1024, &["ns"]), Timestamp::UNIX_EPOCH).map(|eviction| eviction.nomination), Some(1024));
        queue.withdraw(7);
        assert!(queue.push(eviction(1025, &["ns"]), Timestamp::UNIX_EPOCH).is_none());
        assert!(!queue.waiting.iter().any(|(eviction, _)| eviction.nomination == 7));
    }
}
