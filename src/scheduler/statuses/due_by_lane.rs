//! Which object is due first, if the objects of some lanes may not be written now?
//!
//! A lane is a namespace. An object of a lane without room does not delay the objects of other lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Objects and the times at which they are due, by lane.
#[derive(Debug)]
pub(super) struct DueByLane<K> {
    /// The objects of each lane, in order. No lane is empty.
    lanes: BTreeMap<Arc<str>, BTreeSet<(Duration, K)>>,
    /// The time of the first object of each lane.
    first: BTreeSet<(Duration, Arc<str>)>,
}

impl<K: Clone + Ord> DueByLane<K> {
    pub(super) const fn new() -> Self {
        Self { lanes: BTreeMap::new(), first: BTreeSet::new() }
    }

    /// Adds an object of the lane.
    pub(super) fn insert(&mut self, lane: &Arc<str>, at: Duration, key: K) {
        self.change(lane, |objects| _ = objects.insert((at, key)));
    }

    /// Removes an object of the lane that is due at this time. Does nothing if it is not there.
    pub(super) fn remove(&mut self, lane: &Arc<str>, at: Duration, key: &K) {
        self.change(lane, |objects| _ = objects.remove(&(at, key.clone())));
    }

    /// Returns when the first object is due among the lanes for which `has_room` holds.
    pub(super) fn next(&self, has_room: impl Fn(&Arc<str>) -> bool) -> Option<Duration> {
        self.first.iter().find(|(_, lane)| has_room(lane)).map(|(at, _)| *at)
    }

    /// Takes the first object that is due by now among the lanes for which `has_room` holds. Returns its lane, too.
    pub(super) fn take(&mut self, now: Duration, has_room: impl Fn(&Arc<str>) -> bool) -> Option<(Arc<str>, K)> {
        let mut due = self.first.iter().take_while(|(at, _)| *at <= now);
        let lane = due.find(|(_, lane)| has_room(lane)).map(|(_, lane)| Arc::clone(lane))?;
        let mut taken = None;
        self.change(&lane, |objects| taken = objects.pop_first());
        taken.map(|(_, key)| (lane, key))
    }

    fn change(&mut self, lane: &Arc<str>, change: impl FnOnce(&mut BTreeSet<(Duration, K)>)) {
        let objects = self.lanes.entry(Arc::clone(lane)).or_default();
        let before = objects.first().map(|(at, _)| *at);
        change(objects);
        let after = objects.first().map(|(at, _)| *at);
        if after.is_none() {
            self.lanes.remove(lane);
        }
        if before != after {
            before.into_iter().for_each(|at| _ = self.first.remove(&(at, Arc::clone(lane))));
            after.into_iter().for_each(|at| _ = self.first.insert((at, Arc::clone(lane))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_object_of_the_lanes_with_room_is_next() {
        let mut due = DueByLane::new();
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        for (lane, seconds, key) in [(&a, 1, "a1"), (&a, 2, "a2"), (&b, 3, "b3")] {
            due.insert(lane, SECOND * seconds, key);
        }
        let only_b = |lane: &Arc<str>| *lane == b;
        assert_eq!((due.next(|_| true), due.next(only_b), due.next(|_| false)), (Some(SECOND), Some(SECOND * 3), None));
        assert_eq!(due.take(SECOND * 2, only_b), None, "it is not due yet");
        assert_eq!(due.take(SECOND * 3, only_b), Some((Arc::clone(&b), "b3")));
        due.insert(&b, Duration::ZERO, "b0");
        assert_eq!(due.next(|_| true), Some(Duration::ZERO), "an earlier object is the first one of its lane");
        due.remove(&b, Duration::ZERO, &"b0");
        due.remove(&a, SECOND, &"a2");
        assert_eq!(due.next(|_| true), Some(SECOND), "an object is removed by its time");
        let taken: Vec<_> = std::iter::from_fn(|| due.take(SECOND * 9, |_| true)).map(|(_, key)| key).collect();
        assert_eq!(taken, ["a1", "a2"]);
        assert!(due.lanes.is_empty() && due.first.is_empty(), "it remembers nothing");
    }
}
