//! When is something told to people?
//!
//! Whatever changes is wanted to be told, a little later, so that changes that come together are one write; then not again for a while, so
//! that an object that changes all the time costs a bounded number of writes; and never twice at a time for one object. What is told is worked
//! out at the moment it is sent, so nothing that waits here can be old. After a failure the object, and only that, waits longer each time.
//!
//! ```text
//!  (none) ── want ──► due ── take ──► under way ── done ──► (none), or due again if wanted meanwhile or failed
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::backoff::Backoff;

/// How patiently it is told again after a failure.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));

/// Who is to be told about, and when.
#[derive(Debug)]
pub struct Teller<K> {
    /// The least time between two writes to one object.
    interval: Duration,
    due: BTreeSet<(Duration, K)>,
    entries: BTreeMap<K, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    due: Option<Duration>,
    under_way: bool,
    /// Not before this time, because it was told a moment ago or failed.
    not_before: Duration,
    failures: u32,
}

impl<K: Clone + Ord> Teller<K> {
    /// Tells about one object at most once in `interval`.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self { interval, due: BTreeSet::new(), entries: BTreeMap::new() }
    }

    /// It is to be told about within `delay`, or as soon as it may be.
    pub fn want(&mut self, key: &K, now: Duration, delay: Duration) {
        let entry = self.entries.entry(key.clone()).or_default();
        let at = now.saturating_add(delay).max(entry.not_before);
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

    /// One that is to be told about now; it is under way until [`done`](Self::done) or [`nothing`](Self::nothing).
    pub fn take(&mut self, now: Duration) -> Option<K> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.due = None;
            entry.under_way = true;
        }
        Some(key)
    }

    /// There was nothing to tell.
    pub fn nothing(&mut self, key: &K) {
        self.end(key);
    }

    /// It was told, or that failed and is tried again later.
    pub fn done(&mut self, key: &K, now: Duration, told: bool) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if told {
            entry.failures = 0;
            entry.not_before = now.saturating_add(self.interval);
        } else {
            entry.failures = entry.failures.saturating_add(1);
            entry.not_before = now.saturating_add(BACKOFF.delay(entry.failures));
            entry.due = Some(entry.not_before);
        }
        entry.due = entry.due.map(|due| due.max(entry.not_before));
        self.end(key);
    }

    fn end(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.under_way = false;
        if let Some(due) = entry.due {
            self.due.insert((due, key.clone()));
        }
    }

    /// The object is gone.
    pub fn forget(&mut self, key: &K) {
        if let Some(due) = self.entries.remove(key).and_then(|entry| entry.due) {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// How many objects anything is remembered of.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.entries.len()
    }

    /// When the next one is due.
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
    fn what_changes_together_is_told_once_and_not_again_for_a_while() {
        let mut teller = Teller::new(ms(1000));
        teller.want(&"a", ms(0), ms(100));
        teller.want(&"a", ms(50), ms(100));
        assert_eq!(teller.take(ms(99)), None);
        assert_eq!(teller.take(ms(100)), Some("a"));
        teller.want(&"a", ms(110), ms(0));
        assert_eq!(teller.take(ms(120)), None);
        teller.done(&"a", ms(130), true);
        assert_eq!(teller.next(), Some(ms(1130)));
        assert_eq!(teller.take(ms(1130)), Some("a"));
        teller.nothing(&"a");
        assert_eq!(teller.next(), None);
    }

    #[test]
    fn a_shorter_delay_brings_it_forward() {
        let mut teller = Teller::new(ms(1000));
        teller.want(&"a", ms(0), ms(2000));
        teller.want(&"a", ms(0), ms(10));
        assert_eq!(teller.take(ms(10)), Some("a"));
        assert_eq!(teller.take(ms(5000)), None);
    }

    #[test]
    fn a_failure_waits_longer_each_time_and_only_for_that_object() {
        let mut teller = Teller::new(ms(1000));
        for (now, next) in [(0, 500), (500, 1500), (1500, 3500)] {
            teller.want(&"a", ms(now), ms(0));
            assert_eq!(teller.take(ms(now)), Some("a"));
            teller.done(&"a", ms(now), false);
            assert_eq!(teller.next(), Some(ms(next)));
        }
        teller.want(&"b", ms(1500), ms(0));
        assert_eq!(teller.take(ms(1500)), Some("b"));
        teller.forget(&"a");
        assert_eq!(teller.next(), None);
    }
}
