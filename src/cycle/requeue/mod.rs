//! The requeue: which PodGroups the next cycle tries, and when it runs.
//!
//! ```text
//!                  refused                              a change that may help it
//!   tried ────────────────────────▶ parked under what ────────────────────────────▶ tried
//!     ▲                             refused it
//!     ╰── the PodGroup itself changed, its timer is over, its fifo queue has another first PodGroup
//! ```
//!
//! A change that may help waiting PodGroups is a [`Wake`]. Only this module decides which waiting PodGroups are tried after it, in [`wake`].
//! Reading order: [`changes`], [`parked`], [`wake`], [`timers`], [`backlog`].
//!
//! **Architecture invariant:** a PodGroup that a cycle from scratch would place or admit is never left parked
//! (`src/cycle/state/forgotten_tests.rs` holds random histories against that).

mod backlog;
mod changes;
mod parked;
mod preemption_retries;
#[cfg(test)]
mod preemption_retries_tests;
#[cfg(test)]
mod preempts_again_tests;
mod refused;
mod timers;
mod wake;
#[cfg(test)]
mod wake_counts_tests;
#[cfg(test)]
mod wake_tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::ROOT_QUEUE;
use crate::api::GroupKey;

pub use backlog::Backlog;
pub use preemption_retries::MOST_PREEMPTION_ATTEMPTS;
pub(in crate::cycle) use preemption_retries::{Preemptable, PreemptionOutcome, PreemptionRetries};
pub(in crate::cycle) use timers::{Timer, Timers};

use crate::cycle::cache::{Cache, Wake};

use changes::Changes;
use parked::{Blocker, Parked};

/// The PodGroups that wait, and those of them that the next cycle tries.
#[derive(Debug, Default)]
pub(super) struct Requeue {
    /// The PodGroups that wait for nodes or for admission.
    backlog: Backlog,
    /// The PodGroups that changed themselves. The next cycle tries them.
    to_try: BTreeSet<GroupKey>,
    /// The PodGroups that were refused.
    parked: Parked,
    changes: Changes,
    /// The fifo queues that lost a PodGroup that may have been the first one.
    left_by_first: BTreeSet<Arc<str>>,
    /// The fifo queues in which the first PodGroup has its minimum and waits with a further member.
    first_is_further: BTreeSet<Arc<str>>,
    /// The outcomes of preemption attempts, and the times of their retries.
    pub(super) preemptions: PreemptionRetries,
    /// The times at which PodGroups are tried although nothing changed.
    pub(super) timers: Timers,
}

impl Requeue {
    /// Adds a change that may help waiting PodGroups.
    pub(super) fn changed(&mut self, change: Wake) {
        self.changes.add(change);
    }

    /// Records that in some dimension nothing counts that is reserved for a minimum: PodGroups that left room for it are tried (A7).
    pub(super) fn minimums_served(&mut self) {
        if self.parked.quota.contains_key(ROOT_QUEUE) {
            self.changes.add(Wake::Quota(Arc::from(ROOT_QUEUE)));
        }
    }

    /// Records that pods fill more of the guarantees: less is kept free for these (F3). PodGroups of this kind are tried that `root` has refused.
    pub(super) fn floors_filled(&mut self, is_unreserved: impl Fn(&GroupKey) -> bool) {
        let refused = self.parked.quota.get(ROOT_QUEUE).into_iter().flatten();
        self.to_try.extend(refused.filter(|key| is_unreserved(key)).cloned());
    }

    /// Records that more counts of what is reserved for minimums: a further member that has to leave room for them holds back no PodGroup
    /// of its fifo queue any more (A6, A7).
    pub(super) fn minimums_reserved(&mut self) {
        self.left_by_first.append(&mut self.first_is_further);
    }

    /// Records that the first PodGroup of this fifo queue has its minimum and waits with a further member.
    pub(super) fn first_is_further(&mut self, queue: &Arc<str>) {
        self.first_is_further.insert(Arc::clone(queue));
    }

    /// Records that the PodGroup itself changed: the next cycle tries it.
    pub(super) fn try_again(&mut self, key: &GroupKey) {
        self.to_try.insert(key.clone());
    }

    /// Adds the PodGroup to the backlog, in this queue if it has one. Returns the other queue in which it waited until now.
    pub(super) fn waits(&mut self, key: &GroupKey, queue: Option<&str>) -> Option<Arc<str>> {
        self.backlog.insert(key, queue)
    }

    /// Parks a refused PodGroup until its blocker changes.
    fn refused(&mut self, key: &GroupKey, blocker: Blocker) {
        let now = self.changes.next();
        self.parked.park(key, blocker, now);
    }

    /// The PodGroup waits no longer. Returns its queue if it waited in one.
    pub(super) fn waits_no_longer(&mut self, key: &GroupKey) -> Option<Arc<str>> {
        self.parked.remove(key);
        self.backlog.remove(key)
    }

    /// Records that a PodGroup left this fifo queue and may have been the first one there.
    pub(super) fn first_left(&mut self, queue: Arc<str>) {
        self.left_by_first.insert(queue);
    }

    /// The PodGroup is gone.
    pub(super) fn gone(&mut self, key: &GroupKey) {
        self.timers.cancel_all(key);
    }

    /// Returns the PodGroups that wait for this queue to have more left.
    pub(super) fn waiting_for(&self, queue: &str) -> impl Iterator<Item = &GroupKey> {
        self.parked.quota.get(queue).into_iter().flatten()
    }

    /// Returns the PodGroups that wait.
    pub(super) const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Returns whether a cycle has something to do before any timer.
    pub(super) fn has_work(&self) -> bool {
        self.has_changes() || !self.to_try.is_empty() || !self.left_by_first.is_empty()
    }

    /// Returns whether there are changes that may help waiting PodGroups.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Returns the PodGroups that changed themselves and are tried by the next cycle.
    pub(super) const fn to_try(&self) -> &BTreeSet<GroupKey> {
        &self.to_try
    }

    /// Returns when the first timer is over; none where there is none.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        self.timers.next()
    }

    /// Returns the PodGroups that this cycle tries.
    ///
    /// * PodGroups that changed themselves.
    /// * PodGroups with a timer that is over.
    /// * PodGroups that a change may help.
    /// * A few PodGroups that retry a preemption.
    pub(in crate::cycle) fn take(&mut self, now: Duration, preemptable: Preemptable, cache: &Cache) -> BTreeSet<GroupKey> {
        let mut tried = std::mem::take(&mut self.to_try);
        tried.extend(self.timers.take_over(now));
        tried.extend(self.preemptions.choose(now, preemptable).iter().cloned());
        if self.changes.everything {
            self.changes.all_answered();
            tried.extend(self.backlog.iter().cloned());
        } else if !self.changes.is_empty() {
            tried.extend(wake::woken(&mut self.changes, &self.parked, cache));
        }
        // The first PodGroup of a fifo queue is found only by comparing all PodGroups that wait there (A6).
        let queue_of = |key: &GroupKey| Some(cache.groups().get(key)?.facts.as_ref()?.queue.as_str());
        let mut fifo: BTreeSet<&str> = tried.iter().filter_map(queue_of).filter(|queue| cache.is_fifo(queue)).collect();
        let left = std::mem::take(&mut self.left_by_first);
        fifo.extend(left.iter().map(|queue| &**queue));
        self.first_is_further.retain(|queue| !fifo.contains(&**queue));
        let beside: Vec<GroupKey> = fifo.iter().flat_map(|queue| self.backlog.in_queue(queue)).cloned().collect();
        tried.extend(beside);
        // What is tried is parked again where it is refused. So no change wakes a PodGroup twice without a refusal in between.
        tried.iter().for_each(|key| self.parked.remove(key));
        tried
    }

    /// Bounds the work that is collected for the next cycle, while this replica is a standby and no cycle runs. Above `most` PodGroups,
    /// PodGroups that do not exist are forgotten. Above `most` names, the first cycle after a takeover tries everything.
    pub(super) fn stand_by(&mut self, most: usize, exists: impl Fn(&GroupKey) -> bool) {
        if self.to_try.len() > most {
            self.to_try.retain(exists);
        }
        if self.changes.len().saturating_add(self.left_by_first.len()) > most {
            self.left_by_first.clear();
            self.first_is_further.clear();
            self.changes.add(Wake::Everything);
        }
    }

    /// Returns how many names of nodes and queues are remembered for the next cycle.
    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        self.changes.len().saturating_add(self.left_by_first.len())
    }
}
