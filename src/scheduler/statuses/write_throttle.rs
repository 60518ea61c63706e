//! Limits writes over all objects together: those of conditions in which only the amounts have changed, and those of Events.
//!
//! In a full cluster, pods start and end all the time. The amounts in the conditions of thousands of waiting PodGroups change with them.
//! The [`WriteQueue`](super::write_queue::WriteQueue) limits the writes to each object, but the sum of these writes would still overload
//! the API server. So these writes share a [`Budget`]: so many at once, then one in each interval, in the order of the requests. A
//! condition with a new reason is written without a budget. The text is computed when the object has its turn.
//!
//! ```text
//!          may_write: yes ─────────────────────────────────╮
//!  (none) ─┤                          budget              ▼
//!          ╰─ no ──► waiting ── next_turn ──► its turn ── may_write: yes ──► (none)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::scheduler::event::Subject;

/// The objects with this number and above come after all others.
const BEHIND: u64 = 1 << 63;

/// How many writes there may be over all objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// How many need not wait after a quiet time.
    pub(super) at_once: u32,
    /// The time between two writes while objects wait.
    pub(super) every: Duration,
}

/// The budget, and the objects that wait for it.
#[derive(Debug)]
pub(super) struct WriteThrottle {
    budget: Budget,
    /// The time at which all writes so far would have ended at one in each interval.
    spent_until: Duration,
    /// The waiting objects in order.
    order: BTreeMap<u64, Subject>,
    /// The place of each waiting object in `order`.
    waiting: BTreeMap<Subject, u64>,
    /// The objects that have their turn and are not written yet.
    turns: BTreeSet<Subject>,
    /// The number of objects that have waited so far.
    came: u64,
}

impl WriteThrottle {
    /// Creates a throttle that has written nothing.
    pub(super) const fn new(budget: Budget) -> Self {
        Self { budget, spent_until: Duration::ZERO, order: BTreeMap::new(), waiting: BTreeMap::new(), turns: BTreeSet::new(), came: 0 }
    }

    /// Returns whether the object may be written now. If not, it waits for its turn.
    pub(super) fn may_write(&mut self, subject: &Subject, now: Duration) -> bool {
        self.may(subject, 0, now)
    }

    /// The same for a write that says nothing new. It waits behind all that do.
    pub(super) fn may_repeat(&mut self, subject: &Subject, now: Duration) -> bool {
        self.may(subject, BEHIND, now)
    }

    fn may(&mut self, subject: &Subject, class: u64, now: Duration) -> bool {
        if self.turns.remove(subject) {
            return true;
        }
        if self.order.is_empty() && self.free_at() <= now {
            self.spend(now);
            return true;
        }
        let place = self.came.saturating_add(class);
        // One that has news now moves to the front of those that repeat something.
        let moves = self.waiting.get(subject).is_none_or(|waits| *waits >= BEHIND && place < BEHIND);
        if moves {
            if let Some(former) = self.waiting.insert(subject.clone(), place) {
                self.order.remove(&former);
            }
            self.order.insert(place, subject.clone());
            self.came = self.came.saturating_add(1);
        }
        false
    }

    /// Returns the next object that has its turn by now. Each turn is returned once.
    pub(super) fn next_turn(&mut self, now: Duration) -> Option<Subject> {
        if self.free_at() > now {
            return None;
        }
        let (_, subject) = self.order.pop_first()?;
        self.waiting.remove(&subject);
        self.turns.insert(subject.clone());
        self.spend(now);
        Some(subject)
    }

    /// Returns the time of the next turn; `None` if no object waits.
    pub(super) fn next(&self) -> Option<Duration> {
        (!self.order.is_empty()).then(|| self.free_at())
    }

    /// Forgets an object that needs no write, or that was written for another reason.
    pub(super) fn forget(&mut self, subject: &Subject) {
        if self.turns.remove(subject) {
            // The turn needed no write.
            self.spent_until = self.spent_until.saturating_sub(self.budget.every);
        }
        if let Some(number) = self.waiting.remove(subject) {
            self.order.remove(&number);
        }
    }

    /// Returns the number of objects in memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.waiting.len().max(self.order.len()).saturating_add(self.turns.len())
    }

    fn free_at(&self) -> Duration {
        self.spent_until.saturating_sub(self.budget.every.saturating_mul(self.budget.at_once.saturating_sub(1)))
    }

    fn spend(&mut self, now: Duration) {
        self.spent_until = self.spent_until.max(now).saturating_add(self.budget.every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(50);
    const BUDGET: Budget = Budget { at_once: 100, every: EVERY };

    fn pod(index: usize) -> Subject {
        Subject::Pod(format!("{index:04}").as_str().into())
    }

    #[test]
    fn a_burst_is_written_at_once_and_the_rest_at_a_steady_rate_in_order() {
        let (mut throttle, mut now) = (WriteThrottle::new(BUDGET), Duration::from_secs(100));
        let written: Vec<_> = (0..300).filter(|index| throttle.may_write(&pod(*index), now)).collect();
        assert_eq!((written.len(), written.last()), (100, Some(&99)));
        assert_eq!(throttle.next(), Some(now + EVERY));
        // The order of names does not matter, and a second request changes nothing.
        assert!(!throttle.may_write(&pod(0), now) && !throttle.may_write(&pod(100), now));
        let mut turns = Vec::new();
        while let Some(at) = throttle.next() {
            assert_eq!(at, now + EVERY);
            assert_eq!(throttle.next_turn(now), None);
            now = at;
            let turn = throttle.next_turn(now).unwrap();
            assert_eq!(throttle.next_turn(now), None);
            assert!(throttle.may_write(&turn, now));
            turns.push(turn);
        }
        assert_eq!(turns, (100..300).chain([0]).map(pod).collect::<Vec<_>>());
        assert_eq!(throttle.remembered(), 0);
        // After a quiet time there is a new burst.
        now += EVERY * 100;
        assert_eq!((0..300).filter(|index| throttle.may_write(&pod(*index), now)).count(), 100);
    }

    #[test]
    fn a_write_that_repeats_something_waits_behind_all_with_news() {
        let (mut throttle, now) = (WriteThrottle::new(BUDGET), Duration::ZERO);
        assert!((0..100).all(|index| throttle.may_write(&pod(index), now)));
        assert!(!throttle.may_repeat(&pod(100), now) && !throttle.may_repeat(&pod(101), now) && !throttle.may_write(&pod(102), now));
        // It has news by now.
        assert!(!throttle.may_write(&pod(101), now) && !throttle.may_repeat(&pod(102), now));
        let order: Vec<_> = (1..=3).filter_map(|turn| throttle.next_turn(now + EVERY * turn)).collect();
        assert_eq!(order, [102, 101, 100].map(pod));
    }

    #[test]
    fn an_object_that_needs_no_write_is_forgotten() {
        let (mut throttle, now) = (WriteThrottle::new(BUDGET), Duration::ZERO);
        (0..103).for_each(|index| _ = throttle.may_write(&pod(index), now));
        throttle.forget(&pod(101));
        let later = now + EVERY;
        assert_eq!(throttle.next_turn(later), Some(pod(100)));
        assert_eq!(throttle.next_turn(later), None);
        // A turn that needs no write goes to the next object.
        throttle.forget(&pod(100));
        assert_eq!(throttle.next_turn(later), Some(pod(102)));
        throttle.forget(&pod(102));
        assert_eq!((throttle.remembered(), throttle.next()), (0, None));
    }
}
