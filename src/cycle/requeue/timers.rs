//! The timers after which a PodGroup is tried again although nothing changed. Nominations and evictions have their own deadlines.
//!
//! A PodGroup has at most one timer of each kind; setting it again moves it. Times are of the monotonic clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::GroupKey;

/// Why a PodGroup is tried again at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cycle) enum Timer {
    /// The back-off after a refused bind or eviction ends. (The first variant: `cancel_all` begins there.)
    BindBackoff,
    /// The admission timeout ends: the reservation is taken back if the PodGroup still has no nodes.
    AdmissionTimeout,
    /// The admission back-off ends: the PodGroup may be admitted again.
    AdmissionBackoff,
    /// Further members of other PodGroups leave room for its reservation no longer (A7).
    Precedence,
    /// What the PodGroup states beyond its minimum is reserved no longer.
    Rest,
    /// Binds have been refused for the whole admission timeout.
    BindsRefused,
    /// A partial gang has found no nodes for its other members for the whole release time.
    PartialGang,
    /// The binds of the other members of a partial gang have been refused for the whole release time.
    PartialGangRefused,
}

/// The timers of all PodGroups. At most one of each kind for each.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Timers {
    by_time: BTreeSet<(Duration, GroupKey, Timer)>,
    /// The inverse of `by_time`.
    of: BTreeMap<(GroupKey, Timer), Duration>,
}

impl Timers {
    /// Sets the timer, or moves it if it is set.
    pub(in crate::cycle) fn set(&mut self, key: &GroupKey, timer: Timer, at: Duration) {
        self.cancel(key, timer);
        self.of.insert((key.clone(), timer), at);
        self.by_time.insert((at, key.clone(), timer));
    }

    /// Cancels the timer; nothing where it is not set.
    pub(in crate::cycle) fn cancel(&mut self, key: &GroupKey, timer: Timer) {
        if let Some(at) = self.of.remove(&(key.clone(), timer)) {
            self.by_time.remove(&(at, key.clone(), timer));
        }
    }

    /// Cancels all timers of a PodGroup that is gone.
    pub(super) fn cancel_all(&mut self, key: &GroupKey) {
        let of_it = self.of.range((key.clone(), Timer::BindBackoff)..).take_while(|((of, _), _)| of == key);
        let timers: Vec<Timer> = of_it.map(|((_, timer), _)| *timer).collect();
        timers.into_iter().for_each(|timer| self.cancel(key, timer));
    }

    /// Returns the time of the first timer; none where no timer is set.
    pub(super) fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _, _)| *at)
    }

    /// Removes the timers that are over at `now` and returns their PodGroups.
    pub(super) fn take_over(&mut self, now: Duration) -> BTreeSet<GroupKey> {
        let mut over = BTreeSet::new();
        while self.by_time.first().is_some_and(|(at, _, _)| *at <= now) {
            let Some((_, key, timer)) = self.by_time.pop_first() else { break };
            self.of.remove(&(key.clone(), timer));
            over.insert(key);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_of_one_kind_moves_and_leaves_the_others_alone() {
        let (mut timers, key) = (Timers::default(), GroupKey::new("ns", "g"));
        let seconds = Duration::from_secs;
        timers.set(&key, Timer::BindBackoff, seconds(3));
        timers.set(&key, Timer::AdmissionTimeout, seconds(3));
        timers.set(&key, Timer::BindBackoff, seconds(1));
        assert_eq!(timers.next(), Some(seconds(1)));
        assert_eq!(timers.take_over(seconds(2)).len(), 1);
        assert_eq!(timers.next(), Some(seconds(3)));
        timers.cancel(&key, Timer::BindBackoff);
        assert_eq!(timers.next(), Some(seconds(3)), "the other kind is still set");
        timers.cancel_all(&key);
        assert!(timers.next().is_none() && timers.of.is_empty());
    }
}
