//! In which order did things happen? Changes of several watches, which lag independently, put into the one order of their resourceVersions.
//!
//! ```text
//!   watch of pods    ──┐
//!   watch of nodes   ──┼─► add ─► [ sorted by resourceVersion ........ | held back ] ─► settle ─► Judge
//!   watch of queues  ──┘            judged once, in order                 the last moments: a slower watch may still put something in between
//! ```
//!
//! A change that comes later still, into the part that was judged, makes the whole history be judged anew: findings may then appear or go.
//!
//! The time of a change is the earliest arrival of anything with its resourceVersion or a later one: it surely had happened by then.

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

/// The history of one cluster, and what is to be said about it.
#[derive(Debug)]
pub struct History {
    entries: Vec<Entry>,
    /// So many entries have been judged.
    judged: usize,
    stale: bool,
    judge: Judge,
    graces: Graces,
    base: u64,
    /// When nothing is to be asserted. Only ever added to, or closed, at the present.
    pub excuses: Vec<Excuse>,
}

impl History {
    /// An empty history.
    pub fn new(graces: Graces) -> Self {
        Self { entries: Vec::new(), judged: 0, stale: false, judge: Judge::new(graces, 0), graces, base: 0, excuses: Vec::new() }
    }

    /// Says up to which resourceVersion the lists that began the watches reached: bindings before that are not judged.
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

    /// Judges what happened up to a time in milliseconds, and lets the clocks of the checks run up to it.
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

    /// What was found up to the last settling.
    pub fn findings(&self) -> &[Finding] {
        self.judge.findings()
    }

    /// How many bindings by S were judged.
    pub fn judged_bindings(&self) -> u64 {
        self.judge.bindings()
    }

    /// What is wrong in the state of the last settling, if it is to be one of rest.
    pub fn at_rest(&self, now: i64) -> Vec<Finding> {
        self.judge.at_rest(now)
    }
}
