//! A queue of objects that need a status write: it merges changes and limits the writes to each object.
//!
//! * A write starts a little after the change, so that changes that come together are one write.
//! * The next write to the object waits for the interval, so the number of writes is bounded. An urgent one does not wait for it.
//! * An object has at most one write under way.
//! * The content is computed when the write starts, so it is never outdated.
//! * After a failed write, only this object waits, longer each time.
//! * Each object has a lane, its namespace. An object of a lane without room delays no object of another lane.
//!
//! ```text
//!  (none) ── want ──► due ── take ──► under way ── done ──► (none), or due again if wanted meanwhile or failed
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::due_by_lane::DueByLane;
use crate::backoff::Backoff;

/// The back-off after a failed write.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));

/// The objects to be written, and when.
#[derive(Debug)]
pub(super) struct WriteQueue<K> {
    /// The least time between two writes to one object.
    interval: Duration,
    due: DueByLane<K>,
    entries: BTreeMap<K, Entry>,
}

#[derive(Debug)]
struct Entry {
    lane: Arc<str>,
    due: Option<Duration>,
    under_way: bool,
    /// The earliest time of the next write, after a recent or failed write.
    not_before: Duration,
    failures: u32,
    /// Whether the next write does not wait for the interval.
    urgent: bool,
    /// Whether the object was deleted while a write of it was under way.
    gone: bool,
}

impl Entry {
    const fn new(lane: Arc<str>) -> Self {
        Self { lane, due: None, under_way: false, not_before: Duration::ZERO, failures: 0, urgent: false, gone: false }
    }

    /// Returns when a write that is wanted at this time may start.
    fn at(&self, wanted: Duration) -> Duration {
        if self.urgent && self.failures == 0 { wanted } else { wanted.max(self.not_before) }
    }
}

impl<K: Clone + Ord> WriteQueue<K> {
    /// Creates an empty queue that writes each object at most once in `interval`.
    #[must_use]
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, due: DueByLane::new(), entries: BTreeMap::new() }
    }

    /// Requests a write of the object of this lane after `delay`, or as soon as the interval permits.
    pub(super) fn want(&mut self, key: &K, lane: &Arc<str>, now: Duration, delay: Duration) {
        self.entry(key, lane);
        self.want_at(key, now.saturating_add(delay));
    }

    /// Requests a write of the object after `delay`, whenever the last one was. After a failed write it waits all the same.
    pub(super) fn want_urgently(&mut self, key: &K, lane: &Arc<str>, now: Duration, delay: Duration) {
        self.entry(key, lane).urgent = true;
        self.want_at(key, now.saturating_add(delay));
    }

    /// Requests a write of a known object now, or as soon as the interval permits. Does nothing if the object is not known.
    pub(super) fn want_again(&mut self, key: &K, now: Duration) {
        self.want_at(key, now);
    }

    fn entry(&mut self, key: &K, lane: &Arc<str>) -> &mut Entry {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(Arc::clone(lane)));
        entry.gone = false;
        entry
    }

    fn want_at(&mut self, key: &K, at: Duration) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let at = entry.at(at);
        if entry.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = entry.due.replace(at) {
            self.due.remove(&entry.lane, due, key);
        }
        if !entry.under_way {
            self.due.insert(&entry.lane, at, key.clone());
        }
    }

    /// Takes an object that is due, of a lane for which `has_room` holds, and returns it with its lane. Its write is under way until
    /// [`done`](Self::done) or [`nothing`](Self::nothing).
    pub(super) fn take(&mut self, now: Duration, has_room: impl Fn(&Arc<str>) -> bool) -> Option<(Arc<str>, K)> {
        let (lane, key) = self.due.take(now, has_room)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.due = None;
            entry.under_way = true;
            entry.urgent = false;
        }
        Some((lane, key))
    }

    /// Ends a write that was not necessary.
    pub(super) fn nothing(&mut self, key: &K) {
        self.end(key);
    }

    /// Ends a write. A failed write is retried later.
    pub(super) fn done(&mut self, key: &K, now: Duration, written: bool) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if written {
            entry.failures = 0;
            entry.not_before = now.saturating_add(self.interval);
        } else {
            entry.failures = entry.failures.saturating_add(1);
            entry.not_before = now.saturating_add(BACKOFF.delay(entry.failures));
            entry.due = Some(entry.not_before);
        }
        entry.due = entry.due.map(|due| entry.at(due));
        self.end(key);
    }

    fn end(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.under_way = false;
        if entry.gone {
            self.entries.remove(key);
        } else if let Some(due) = entry.due {
            self.due.insert(&entry.lane, due, key.clone());
        }
    }

    /// Forgets an object that was deleted. One with a write under way is forgotten after it: another object of this name waits for its end.
    pub(super) fn forget(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let due = entry.due.take();
        if entry.under_way {
            entry.gone = true;
            return;
        }
        due.into_iter().for_each(|due| self.due.remove(&entry.lane, due, key));
        self.entries.remove(key);
    }

    /// Returns the number of objects in memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.entries.len()
    }

    /// Returns the time at which the next object is due, of the lanes for which `has_room` holds.
    #[must_use]
    pub(super) fn next(&self, has_room: impl Fn(&Arc<str>) -> bool) -> Option<Duration> {
        self.due.next(has_room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn lane() -> Arc<str> {
        Arc::from("ns")
    }

    fn any(_lane: &Arc<str>) -> bool {
        true
    }

    fn take(queue: &mut WriteQueue<&'static str>, now: Duration) -> Option<&'static str> {
        queue.take(now, any).map(|(_, key)| key)
    }

    #[test]
    fn changes_that_come_together_are_one_write_and_the_next_waits_for_the_interval() {
        let mut queue = WriteQueue::new(ms(1000));
        queue.want(&"a", &lane(), ms(0), ms(100));
        queue.want(&"a", &lane(), ms(50), ms(100));
        assert_eq!(take(&mut queue, ms(99)), None);
        assert_eq!(take(&mut queue, ms(100)), Some("a"));
        queue.want(&"a", &lane(), ms(110), ms(0));
        assert_eq!(take(&mut queue, ms(120)), None);
        queue.done(&"a", ms(130), true);
        assert_eq!(queue.next(any), Some(ms(1130)));
        assert_eq!(take(&mut queue, ms(1130)), Some("a"));
        queue.nothing(&"a");
        assert_eq!(queue.next(any), None);
    }

    #[test]
    fn a_shorter_delay_makes_the_write_earlier() {
        let mut queue = WriteQueue::new(ms(1000));
        queue.want(&"a", &lane(), ms(0), ms(2000));
        queue.want(&"a", &lane(), ms(0), ms(10));
        assert_eq!(take(&mut queue, ms(10)), Some("a"));
        assert_eq!(take(&mut queue, ms(5000)), None);
    }

    #[test]
    fn an_urgent_write_waits_for_a_failure_but_not_for_the_interval() {
        let mut queue = WriteQueue::new(ms(1000));
        let write = |queue: &mut WriteQueue<&'static str>, at, well| {
            assert_eq!(take(queue, ms(at)), Some("a"));
            queue.done(&"a", ms(at), well);
        };
        queue.want(&"a", &lane(), ms(0), ms(0));
        write(&mut queue, 0, true);
        queue.want_urgently(&"a", &lane(), ms(10), ms(100));
        assert_eq!(queue.next(any), Some(ms(110)));
        // A usual request does not delay it, and one while a write is under way is urgent as well.
        queue.want(&"a", &lane(), ms(20), ms(2000));
        assert_eq!(take(&mut queue, ms(110)), Some("a"));
        queue.want_urgently(&"a", &lane(), ms(120), ms(100));
        queue.done(&"a", ms(130), true);
        assert_eq!(queue.next(any), Some(ms(220)));
        write(&mut queue, 220, true);
        queue.want(&"a", &lane(), ms(230), ms(0));
        assert_eq!(queue.next(any), Some(ms(1220)), "only one write was urgent");
        write(&mut queue, 1220, false);
        queue.want_urgently(&"a", &lane(), ms(1230), ms(0));
        assert_eq!(queue.next(any), Some(ms(1720)));
    }

    #[test]
    fn after_a_failure_only_this_object_waits_longer_each_time() {
        let mut queue = WriteQueue::new(ms(1000));
        for (now, next) in [(0, 500), (500, 1500), (1500, 3500)] {
            queue.want(&"a", &lane(), ms(now), ms(0));
            assert_eq!(take(&mut queue, ms(now)), Some("a"));
            queue.done(&"a", ms(now), false);
            assert_eq!(queue.next(any), Some(ms(next)));
        }
        queue.want(&"b", &lane(), ms(1500), ms(0));
        assert_eq!(take(&mut queue, ms(1500)), Some("b"));
        queue.forget(&"a");
        assert_eq!(queue.next(any), None);
    }

    #[test]
    fn an_object_that_is_created_again_has_one_write_under_way() {
        let mut queue = WriteQueue::new(ms(1000));
        queue.want(&"a", &lane(), ms(0), ms(0));
        assert_eq!(take(&mut queue, ms(0)), Some("a"));
        queue.want(&"a", &lane(), ms(5), ms(0));
        queue.forget(&"a");
        queue.want(&"a", &lane(), ms(10), ms(0));
        assert_eq!(take(&mut queue, ms(500)), None);
        queue.done(&"a", ms(500), true);
        assert_eq!(take(&mut queue, ms(1500)), Some("a"));
        queue.forget(&"a");
        assert_eq!(queue.remembered(), 1);
        queue.done(&"a", ms(1600), false);
        assert_eq!((queue.remembered(), queue.next(any)), (0, None));
    }

    #[test]
    fn an_object_of_a_lane_without_room_delays_no_other() {
        let mut queue = WriteQueue::new(ms(1000));
        let [full, free]: [Arc<str>; 2] = ["full".into(), "free".into()];
        queue.want(&"a", &full, ms(0), ms(0));
        queue.want(&"b", &free, ms(0), ms(10));
        let has_room = |lane: &Arc<str>| *lane == free;
        assert_eq!((queue.next(has_room), queue.take(ms(5), has_room)), (Some(ms(10)), None));
        assert_eq!(queue.take(ms(10), has_room), Some((Arc::clone(&free), "b")));
        assert_eq!(take(&mut queue, ms(10)), Some("a"));
    }
}
