//! Whom does a cycle look at, and when is there something to look at?

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupKey, Uid};

use super::World;

/// What changed since it was last asked, to be told to people.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Queues whose status may have changed.
    pub queues: BTreeSet<Arc<str>>,
    /// Pods whose condition may have changed.
    pub pods: BTreeSet<Uid>,
}

impl World {
    /// What changed since this was last asked.
    pub fn take_dirty(&mut self) -> Dirty {
        Dirty { queues: std::mem::take(&mut self.dirty_queues), pods: std::mem::take(&mut self.dirty_pods) }
    }

    /// Whether a cycle would look at anything at this moment.
    #[must_use]
    pub fn has_work(&self, now: Duration) -> bool {
        self.next_look().is_some_and(|at| at <= now)
    }

    /// When a cycle is to look at something although nothing happens until then; at once where something was gained by the last one.
    #[must_use]
    pub fn next_look(&self) -> Option<Duration> {
        if self.gained || !self.dirty_groups.is_empty() || !self.passed_on.is_empty() || self.nominations.has_work() {
            return Some(Duration::ZERO);
        }
        let alarm = self.alarms.first().map(|(at, _)| *at);
        [alarm, self.nominations.next_deadline(), self.asking.next(), self.stays.next()].into_iter().flatten().min()
    }

    /// The groups that a cycle looks at now; they are not dirty any more.
    pub(in crate::cycle) fn take_candidates(&mut self, now: Duration) -> BTreeSet<GroupKey> {
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.alarms.pop_first() {
                self.dirty_groups.insert(key);
            }
        }
        self.notice_unfilled();
        let mut candidates = std::mem::take(&mut self.dirty_groups);
        let rested = self.stays.wake(now);
        if rested || self.gained || self.shares.is_none() || self.outdated {
            self.asking.changed();
        }
        candidates.extend(self.asking.choose(now).iter().cloned());
        if std::mem::take(&mut self.gained) {
            candidates.extend(self.backlog.iter().cloned());
            self.notice_overpromising();
        }
        // Whoever comes first in a fifo queue is known only beside everybody else who waits there (A6).
        let queue = |key: &GroupKey| Some(self.groups.get(key)?.facts.as_ref()?.queue.as_str());
        let passed_on = std::mem::take(&mut self.passed_on);
        let mut fifo: BTreeSet<_> = candidates.iter().filter_map(queue).filter(|queue| self.is_fifo(queue)).collect();
        fifo.extend(passed_on.iter().map(|queue| &**queue));
        let beside: Vec<_> = fifo.iter().flat_map(|queue| self.backlog.in_queue(queue)).cloned().collect();
        candidates.extend(beside);
        self.classes.tidy();
        candidates
    }
}
