//! A queue of objects that need a status write: it merges changes and limits the writes to each object.
//!
//! * A write starts a little after the change, so that changes that come together are one write.
//! * The next write to the object waits for the interval, so the number of writes is bounded. An urgent one does not wait for it.
//! * An object has at most one write under way.
//! * The content is computed when the write starts, so it is never outdated.
//! * After a failed write, only this object waits, longer each time.
//!
//! ```text
//!  (none) ── want ──► due ── take ──► under way ── done ──► (none), or due again if wanted meanwhile or failed
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::backoff::Backoff;

/// The back-off after a failed write.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));

/// The objects to be written, and when.
#[derive(Debug)]
pub struct WriteQueue<K> {
    /// The least time between two writes to one object.
    interval: Duration,
    due: BTreeSet<(Duration, K)>,
    entries: BTreeMap<K, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    due: Option<Duration>,
    under_way: bool,
    /// The earliest time of the next write, after a recent or failed write.
    not_before: Duration,
    failures: u32,
    /// Whether the next write does not wait for the interval.
    urgent: bool,
}

impl Entry {
    /// Returns when a write that is wanted at this time may start.
    fn at(&self, wanted: Duration) -> Duration {
        if self.urgent && self.failures == 0 { wanted } else { wanted.max(self.not_before) }
    }
}

impl<K: Clone + Ord> WriteQueue<K> {
    /// Creates an empty queue that writes each object at most once in `interval`.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self { interval, due: BTreeSet::new(), entries: BTreeMap::new() }
    }

    /// Requests a write of the object after `delay`, or as soon as the interval permits.
    pub fn want(&mut self, key: &K, now: Duration, delay: Duration) {
        let entry = self.entries.entry(key.clone()).or_default();
        let at = entry.at(now.saturating_add(delay));
        if entry.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = entry.due.replace(at) {
            self.due.remove(&(due, key.clone()));
        }
        if !entry.under_way {
            self.due.insert((at, key.clone()));
        }
    }

    /// Requests a write of the object after `delay`, whenever the last one was. After a failed write it waits all the same.
    pub fn want_urgently(&mut self, key: &K, now: Duration, delay: Duration) {
        self.entries.entry(key.clone()).or_default().urgent = true;
        self.want(key, now, delay);
    }

    /// Takes an object that is due. Its write is under way until [`done`](Self::done) or [`nothing`](Self::nothing).
    pub fn take(&mut self, now: Duration) -> Option<K> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.due = None;
            entry.under_way = true;
            entry.urgent = false;
        }
        Some(key)
    }

    /// Ends a write that was not necessary.
    pub fn nothing(&mut self, key: &K) {
        self.end(key);
    }

    /// Ends a write. A failed write is retried later.
    pub fn done(&mut self, key: &K, now: Duration, written: bool) {
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
        if let Some(due) = entry.due {
            self.due.insert((due, key.clone()));
        }
    }

    /// Forgets an object that was deleted.
    pub fn forget(&mut self, key: &K) {
        if let Some(due) = self.entries.remove(key).and_then(|entry| entry.due) {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// Returns the number of objects in memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.entries.len()
    }

    /// Returns the time at which the next object is due.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn changes_that_come_together_are_one_write_and_the_next_waits_for_the_interval() {
        let mut queue = WriteQueue::new(ms(1000));
        queue.want(&"a", ms(0), ms(100));
        queue.want(&"a", ms(50), ms(100));
        assert_eq!(queue.take(ms(99)), None);
        assert_eq!(queue.take(ms(100)), Some("a"));
        queue.want(&"a", ms(110), ms(0));
        assert_eq!(queue.take(ms(120)), None);
        queue.done(&"a", ms(130), true);
        assert_eq!(queue.next(), Some(ms(1130)));
        assert_eq!(queue.take(ms(1130)), Some("a"));
        queue.nothing(&"a");
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_shorter_delay_makes_the_write_earlier() {
        let mut queue = WriteQueue::new(ms(1000));
        queue.want(&"a", ms(0), ms(2000));
        queue.want(&"a", ms(0), ms(10));
        assert_eq!(queue.take(ms(10)), Some("a"));
        assert_eq!(queue.take(ms(5000)), None);
    }

    #[test]
    fn an_urgent_write_waits_for_a_failure_but_not_for_the_interval() {
        let mut queue = WriteQueue::new(ms(1000));
        let write = |queue: &mut WriteQueue<&str>, at, well| {
            assert_eq!(queue.take(ms(at)), Some("a"));
            queue.done(&"a", ms(at), well);
        };
        queue.want(&"a", ms(0), ms(0));
        write(&mut queue, 0, true);
        queue.want_urgently(&"a", ms(10), ms(100));
        assert_eq!(queue.next(), Some(ms(110)));
        // A usual request does not delay it, and one while a write is under way is urgent as well.
        queue.want(&"a", ms(20), ms(2000));
        assert_eq!(queue.take(ms(110)), Some("a"));
        queue.want_urgently(&"a", ms(120), ms(100));
        queue.done(&"a", ms(130), true);
        assert_eq!(queue.next(), Some(ms(220)));
        write(&mut queue, 220, true);
        queue.want(&"a", ms(230), ms(0));
        assert_eq!(queue.next(), Some(ms(1220)), "only one write was urgent");
        write(&mut queue, 1220, false);
        queue.want_urgently(&"a", ms(1230), ms(0));
        assert_eq!(queue.next(), Some(ms(1720)));
    }

    #[test]
    fn after_a_failure_only_this_object_waits_longer_each_time() {
        let mut queue = WriteQueue::new(ms(1000));
        for (now, next) in [(0, 500), (500, 1500), (1500, 3500)] {
            queue.want(&"a", ms(now), ms(0));
            assert_eq!(queue.take(ms(now)), Some("a"));
            queue.done(&"a", ms(now), false);
            assert_eq!(queue.next(), Some(ms(next)));
        }
        queue.want(&"b", ms(1500), ms(0));
        assert_eq!(queue.take(ms(1500)), Some("b"));
        queue.forget(&"a");
        assert_eq!(queue.next(), None);
    }
}
