//! Which version had the cluster not passed at which time?
//!
//! A watch at version v has delivered everything up to v. Only with another fact that says something about now: if a request that was sent
//! at t is answered with version r, and the answer has passed etcd, then at t the cluster had not passed r. So a watch that has reached r
//! has delivered everything that happened before t.
//!
//! Such answers come for nothing with an election: the Lease is written every few seconds. Before each bookmark a watch asks for one as well
//! (`freshness`).
//! Versions of a Lease that has an etcd of its own say nothing about other objects: where they are higher, no watch reaches them, and each
//! asks itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two entries. It bounds their number.
const APART: Duration = Duration::from_secs(1);

/// How long an entry is of use: a watch that has not reached its version by then is listed again.
const KEPT: Duration = Duration::from_secs(120);

/// Times, each with a version that the cluster had not passed then; both rise. Times are those of `clock::through_suspension`. Cheap to
/// clone; every clone is the same.
#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct Timeline(Arc<Mutex<VecDeque<(Instant, u64)>>>);

impl Timeline {
    /// Records that the cluster had not passed `version` at `sent`: a request that was sent then was answered with it, and the answer has
    /// passed etcd.
    pub(in crate::runtime) fn record(&self, sent: Instant, version: u64) {
        let mut entries = self.entries();
        if entries.back().is_some_and(|(last, _)| sent <= *last) {
            return;
        }
        // After a restore of etcd every version begins again below these.
        while entries.back().is_some_and(|(_, known)| *known >= version) {
            entries.pop_back();
        }
        if entries.back().is_none_or(|(last, _)| sent.saturating_duration_since(*last) >= APART) {
            entries.push_back((sent, version));
        }
        while entries.front().is_some_and(|(first, _)| sent.saturating_duration_since(*first) > KEPT) {
            entries.pop_front();
        }
    }

    /// Returns the last known time at which the cluster had not passed this version.
    pub(in crate::runtime) fn as_of(&self, version: u64) -> Option<Instant> {
        self.entries().iter().rev().find(|(_, not_passed)| *not_passed <= version).map(|(sent, _)| *sent)
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    #[test]
    fn a_version_is_as_new_as_the_last_time_at_which_the_cluster_had_not_passed_it() {
        let (timeline, start) = (Timeline::default(), clock::monotonic());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(timeline.as_of(10), None);
        timeline.record(after(0), 10);
        timeline.record(after(2), 12);
        timeline.record(after(4), 20);
        let known = [9, 10, 11, 12, 19, 20, 99].map(|version| timeline.as_of(version));
        assert_eq!(known, [None, Some(after(0)), Some(after(0)), Some(after(2)), Some(after(2)), Some(after(4)), Some(after(4))]);
        // An answer that comes late to a request from before says nothing new.
        timeline.record(after(3), 15);
        assert_eq!(timeline.as_of(15), Some(after(2)));
        // Nothing was written in between.
        timeline.record(after(6), 20);
        assert_eq!((timeline.as_of(20), timeline.as_of(19)), (Some(after(6)), Some(after(2))));
        timeline.record(after(200), 21);
        assert_eq!((timeline.as_of(20), timeline.as_of(21)), (None, Some(after(200))), "the old entries are gone");
    }

    #[test]
    fn after_a_restore_of_etcd_the_versions_from_before_say_nothing() {
        let (timeline, start) = (Timeline::default(), clock::monotonic());
        timeline.record(start, 100);
        timeline.record(start + APART, 110);
        timeline.record(start + 2 * APART, 50);
        assert_eq!((timeline.as_of(49), timeline.as_of(120)), (None, Some(start + 2 * APART)));
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let (timeline, start) = (Timeline::default(), clock::monotonic());
        for number in 0..10_000 {
            timeline.record(start + Duration::from_millis(100 * number), number);
        }
        assert!((120..=121).contains(&timeline.entries().len()), "{}", timeline.entries().len());
    }
}
