//! Puts the changes of several watches, which lag independently, into one order: the order of their resourceVersions.
//!
//! ```text
//!   watch of pods    ──┐
//!   watch of nodes   ──┼─► add ─► [ sorted by resourceVersion ........ | held back ] ─► settle ─► Judge
//!   watch of queues  ──┘            judged once, in order                 the last moments: a slower watch may still insert a change
//! ```
//!
//! A change may arrive even later, with a place in the part that was already judged. Then the whole history is judged again, and findings
//! may appear or go.
//!
//! The time of a change is the earliest arrival of any change with the same or a later resourceVersion: at that time it had certainly happened.

use super::facts::Change;
use super::finding::Finding;
use super::judge::{Graces, Judge};
use super::timers::Excuse;

#[derive(Debug)]
struct Entry {
    version: u64,
    arrived: i64,
    change: Change,
}

/// The history of one cluster, with its judge.
#[derive(Debug)]
pub struct History {
    entries: Vec<Entry>,
    /// The number of entries that have been judged.
    judged: usize,
    stale: bool,
    judge: Judge,
    graces: Graces,
    base: u64,
    /// The periods in which checks assert nothing. An excuse is only added or closed at the present time.
    pub excuses: Vec<Excuse>,
}

impl History {
    /// Creates an empty history.
    pub fn new(graces: Graces) -> Self {
        Self { entries: Vec::new(), judged: 0, stale: false, judge: Judge::new(graces, 0), graces, base: 0, excuses: Vec::new() }
    }

    /// Sets the resourceVersion of the lists that started the watches. Earlier bindings are not judged.
    pub fn begins_after(&mut self, version: u64) {
        if version > self.base {
            self.base = version;
            self.stale = true;
        }
    }

    /// Adds a change that arrived at a time in milliseconds.
    pub fn add(&mut self, version: u64, arrived: i64, change: Change) {
        let place = self.entries.partition_point(|entry| entry.version <= version);
        self.stale |= place < self.judged;
        self.entries.insert(place, Entry { version, arrived, change });
    }

    /// Judges everything that happened up to a time in milliseconds, and moves the timers of the checks to that time.
    pub fn settle(&mut self, until: i64) {
        if self.stale {
            self.judge = Judge::new(self.graces, self.base);
            self.judged = 0;
            self.stale = false;
        }
        let open = self.entries.get(self.judged..).unwrap_or_default();
        let mut times: Vec<i64> = open.iter().map(|entry| entry.arrived).collect();
        let mut earliest = i64::MAX;
        for time in times.iter_mut().rev() {
            earliest = earliest.min(*time);
            *time = earliest;
        }
        let due = times.partition_point(|time| *time <= until);
        for (entry, at) in open.iter().zip(&times).take(due) {
            self.judge.take(entry.version, *at, &entry.change, &self.excuses);
        }
        self.judged = self.judged.saturating_add(due);
        self.judge.pass(until, &self.excuses);
    }

    /// Returns since when changes by other clients are forgiven to a decision that is seen at a time.
    pub fn forgiven_from(&self, at: i64) -> i64 {
        self.judge.forgiven_from(at, &self.excuses)
    }

    /// Returns the findings up to the last call of `settle`.
    pub fn findings(&self) -> &[Finding] {
        self.judge.findings()
    }

    /// Returns how many bindings by the scheduler were judged.
    pub fn judged_bindings(&self) -> u64 {
        self.judge.bindings()
    }

    /// Returns how many evictions by the scheduler were judged.
    pub fn judged_evictions(&self) -> u64 {
        self.judge.evictions()
    }

    /// Returns what is wrong in the last settled state, under the assumption that the cluster is at rest.
    pub fn at_rest(&self, now: i64) -> Vec<Finding> {
        self.judge.at_rest(now)
    }
}
