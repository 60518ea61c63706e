//! A queue of keys for the workers of a controller.
//!
//! A key that is added while it waits is in the queue once. A key that is added while it is in work is worked on once more
//! afterwards, never by two workers at a time:
//!
//! ```text
//!            add                    next                    drop of Work
//!   (none) ───────► waiting ───────────────► in work ───────────────────────► (none)
//!      │               ▲                      │   │ add                          ▲
//!      │ add_after     │ time is up           │   ▼                              │
//!      └──────────► later                     │  in work, again ──► waiting      │
//!                                             └──────────────────────────────────┘
//! ```
//!
//! Keys may have lanes (a namespace): the lanes have turns, the keys of one lane come in their order, and a lane whose work is slow has few workers
//! ([`super::lanes`]). A key that fails waits longer each time ([`WorkQueue::retry`]), and only that key. The queue holds keys and no objects: the
//! worker looks up the object when it gets the key.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock;
use super::lanes::{Lanes, Slots};
use crate::backoff::Backoff;

/// The time in which the work on a key usually ends. Then its lane counts as slow.
const EXPECTED: Duration = Duration::from_secs(3);

/// The queue. Cheap to clone; every clone is the same queue.
pub struct WorkQueue<K>(Arc<Inner<K>>);

struct Inner<K> {
    state: Mutex<State<K>>,
    /// Notified of every change that can make [`WorkQueue::next`] return sooner.
    changed: Notify,
    backoff: Backoff,
    /// Returns the lane of a key.
    lane: fn(&K) -> Arc<str>,
}

struct State<K> {
    /// The keys for the next workers, by lane. No lane is empty.
    ready: BTreeMap<Arc<str>, VecDeque<K>>,
    /// The lanes in `ready`, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// The workers of each lane.
    workers: Lanes<K>,
    /// The keys in `ready`, to find them.
    waiting: BTreeSet<K>,
    /// The keys in work; true when the key was added meanwhile.
    in_work: BTreeMap<K, bool>,
    /// When a key is to be added: by time, and by key. The two always agree.
    later: BTreeSet<(Instant, K)>,
    due: BTreeMap<K, Instant>,
    failures: BTreeMap<K, u32>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

impl<K: Clone + Ord> WorkQueue<K> {
    /// Makes an empty queue. After a failure a key waits by `backoff`. client-go's back-off is 5 ms to 1000 s; a PodGroup that is
    /// a quarter of an hour late is useless, so 5 ms to 30 s is meant.
    #[cfg(test)]
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self::with_lanes(backoff, Slots::UNLIMITED, |_| Arc::from(""))
    }

    /// Makes an empty queue in which each key has a lane. The number of workers is that of `slots`.
    pub fn with_lanes(backoff: Backoff, slots: Slots, lane: fn(&K) -> Arc<str>) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                ready: BTreeMap::new(),
                turns: VecDeque::new(),
                workers: Lanes::new(slots),
                waiting: BTreeSet::new(),
                in_work: BTreeMap::new(),
                later: BTreeSet::new(),
                due: BTreeMap::new(),
                failures: BTreeMap::new(),
            }),
            changed: Notify::new(),
            backoff,
            lane,
        }))
    }

    /// Puts a key at the end, now. A later time that it was waiting for is dropped, because its worker reads the whole state of the key.
    pub fn add(&self, key: K) {
        self.lock().add(key, self.0.lane);
        self.0.changed.notify_one();
    }

    /// Adds a key after `delay`. If it waits for a time already, the earlier time counts. Nothing changes when it is in the queue already.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let mut state = self.lock();
        let at = clock::monotonic() + delay;
        let sooner = state.due.get(&key).is_some_and(|due| *due <= at);
        if sooner || state.waiting.contains(&key) {
            return;
        }
        state.forget_later(&key);
        state.later.insert((at, key.clone()));
        state.due.insert(key, at);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Counts a failure of this key and adds it after the back-off, which it returns.
    pub fn retry(&self, key: K) -> Duration {
        let failures = {
            let mut state = self.lock();
            let count = state.failures.entry(key.clone()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        let delay = self.0.backoff.delay(failures);
        self.add_after(key, delay);
        delay
    }

    /// Clears the failures of a key: it succeeded, or there is nothing left to do for it.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// Returns how often this key failed in a row.
    #[cfg(test)]
    pub(crate) fn failures(&self, key: &K) -> u32 {
        self.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Returns how many keys wait for a worker; keys with a later time do not count. For the metric.
    pub fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Whether no key waits for a worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many keys are in work.
    #[cfg(test)]
    pub(crate) fn in_work(&self) -> usize {
        self.lock().in_work.len()
    }

    /// Waits for the next key. It is in work until the [`Work`] is dropped. Safe to drop and to call again.
    pub async fn next(&self) -> Work<K> {
        loop {
            // Registered before the state is read, so that no change in between is missed.
            let changed = self.0.changed.notified();
            let until = {
                let mut state = self.lock();
                let now = clock::monotonic();
                let until = state.bring_due(now, self.0.lane);
                if let Some(key) = state.take(now) {
                    let more = !state.waiting.is_empty() || until.is_some();
                    drop(state);
                    if more {
                        // Two additions between the reads and the waits of two workers leave one permit for
                        // both (no test can time that): the worker that wakes passes it on.
                        self.0.changed.notify_one();
                    }
                    return Work { key, queue: self.clone() };
                }
                until
            };
            tokio::select! {
                () = changed => {}
                () = clock::until(until) => {}
            }
        }
    }

    fn done(&self, key: &K) {
        self.lock().done(key, clock::monotonic(), self.0.lane);
        self.0.changed.notify_one();
    }

    /// Takes the lock even when it is poisoned: no code of a caller runs under it, and each change is complete.
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Ord> State<K> {
    fn add(&mut self, key: K, lane: fn(&K) -> Arc<str>) {
        self.forget_later(&key);
        if let Some(again) = self.in_work.get_mut(&key) {
            *again = true;
        } else if self.waiting.insert(key.clone()) {
            let lane = lane(&key);
            let keys = self.ready.entry(Arc::clone(&lane)).or_default();
            if keys.is_empty() {
                self.turns.push_back(lane);
            }
            keys.push_back(key);
        }
    }

    fn forget_later(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.later.remove(&(at, key.clone()));
        }
    }

    /// Moves every key that is due, and returns the time of the next one.
    fn bring_due(&mut self, now: Instant, lane: fn(&K) -> Arc<str>) -> Option<Instant> {
        while let Some((at, _)) = self.later.first() {
            if *at > now {
                return Some(*at);
            }
            if let Some((_, key)) = self.later.pop_first() {
                self.due.remove(&key);
                self.add(key, lane);
            }
        }
        None
    }

    /// Takes a key of the first lane that has room.
    fn take(&mut self, now: Instant) -> Option<K> {
        if self.workers.is_full() {
            return None;
        }
        let at = self.turns.iter().position(|lane| self.workers.has_room(std::slice::from_ref(lane), now))?;
        let lane = self.turns.remove(at)?;
        let keys = self.ready.get_mut(&lane)?;
        let key = keys.pop_front()?;
        if keys.is_empty() {
            self.ready.remove(&lane);
        } else {
            self.turns.push_back(Arc::clone(&lane));
        }
        self.waiting.remove(&key);
        self.in_work.insert(key.clone(), false);
        self.workers.start(key.clone(), vec![lane], now + EXPECTED);
        Some(key)
    }

    fn done(&mut self, key: &K, now: Instant, lane: fn(&K) -> Arc<str>) {
        self.workers.end(key, now);
        if self.in_work.remove(key) == Some(true) {
            self.add(key.clone(), lane);
        }
    }
}

/// A key in work. While it lives, no other worker gets the key; dropping it ends that, also by a panic.
pub struct Work<K: Clone + Ord> {
    key: K,
    queue: WorkQueue<K>,
}

impl<K: Clone + Ord> Work<K> {
    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Ends the work with success: the failures are cleared.
    pub fn succeeded(self) {
        self.queue.forget(&self.key);
    }

    /// Ends the work with success, and adds the key again after `delay` at the latest.
    pub fn again_after(self, delay: Duration) {
        self.queue.forget(&self.key);
        self.queue.add_after(self.key.clone(), delay);
    }

    /// Ends the work with a failure: the key is added again after its back-off, which is returned.
    pub fn failed(self) -> Duration {
        self.queue.retry(self.key.clone())
    }
}

impl<K: Clone + Ord> Drop for Work<K> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

#[cfg(test)]
#[path = "workqueue_tests.rs"]
mod tests;
