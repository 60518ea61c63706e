//! The outcomes of preemption attempts, and the times of their retries.
//!
//! An outcome follows from the use and the demand of all queues, so it may be outdated after any change. Then the oldest outcomes are
//! renewed first, a few in each cycle. PodGroups with no other reason to be tried are retried a few at a time, at a bounded rate, until
//! all outcomes are current. So a full cluster with thousands of waiting PodGroups costs a bounded part of the time, and a cluster without
//! changes costs nothing. An outcome stands until it is renewed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::GroupKey;
use crate::cycle::explain::NotPreempted;

/// The most preemption attempts in one cycle, and in one batch of retries.
pub const MOST_PREEMPTION_ATTEMPTS: usize = 16;

/// The time between two batches of retries.
const NEXT: Duration = Duration::from_millis(100);

/// The last preemption attempt of each waiting PodGroup, and the order of the retries.
#[derive(Debug, Default)]
pub(in crate::cycle) struct PreemptionRetries {
    /// The number of changes so far from which an outcome follows.
    changes: u64,
    /// All outcomes that are no older than this stand, whatever changed until then: none of these PodGroups may preempt any pod.
    settled: u64,
    /// Outcomes that are older than this are renewed, though no pod may be preempted: what they say of the nodes is old.
    refresh: u64,
    attempts: BTreeMap<GroupKey, LastAttempt>,
    /// The keys of `attempts`: PodGroups without an attempt first, then the oldest attempts first.
    order: BTreeSet<(Option<u64>, GroupKey)>,
    /// The PodGroups that wait for binds under way: only a bound pod may be preempted.
    soon: BTreeSet<GroupKey>,
    /// The PodGroups with an outdated outcome, though nothing changed for the others. They keep their place in the order. So a PodGroup
    /// that changes often does not delay the others.
    reopened: BTreeSet<GroupKey>,
    /// When the next batch of retries is due.
    next_at: Duration,
    /// The PodGroups that this cycle tries only because of a retry.
    chosen: Vec<GroupKey>,
}

#[derive(Debug)]
struct LastAttempt {
    /// The number of changes before the attempt; none where it had no turn yet.
    at: Option<u64>,
    outcome: PreemptionOutcome,
    /// The priority with which it preempts, where only that could change its outcome: nodes or used quota refused it, and no reason
    /// about victims is reported.
    plain: Option<i32>,
}

/// Which pods may be preempted at all, by any PodGroup.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cycle) struct Preemptable {
    /// Whether a queue uses more than its share.
    pub(in crate::cycle) over_share: bool,
    /// The lowest priority of a pod that has a node.
    pub(in crate::cycle) lowest: Option<i32>,
}

/// The outcome of the last preemption attempt of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cycle) struct PreemptionOutcome {
    /// Why no pod is preempted, where that is worth reporting.
    pub(in crate::cycle) why: Option<Arc<NotPreempted>>,
    /// Whether victims are on their way out.
    pub(in crate::cycle) leaving: bool,
    /// Whether a pod, or a further one, may be preempted as soon as a bind has ended.
    pub(in crate::cycle) soon: bool,
}

impl PreemptionOutcome {
    /// Whether victims are on their way out, or may be as soon as a bind has ended.
    pub(in crate::cycle) const fn has_hope(&self) -> bool {
        self.leaving || self.soon
    }
}

impl PreemptionRetries {
    /// Records a change after which every outcome may be outdated.
    pub(in crate::cycle) const fn changed(&mut self) {
        self.changes = self.changes.saturating_add(1);
    }

    /// The nodes changed, so what the outcomes say of them is old.
    pub(in crate::cycle) const fn nodes_changed(&mut self) {
        self.changed();
        self.refresh = self.changes;
    }

    /// Whether a batch of retries is due at this time.
    pub(in crate::cycle) fn is_due(&self, now: Duration) -> bool {
        self.next_at <= now && self.is_open()
    }

    /// Records that a bind ended: the PodGroups that wait for binds may retry.
    pub(in crate::cycle) fn bound(&mut self) {
        self.reopened.append(&mut self.soon);
    }

    /// Marks the outcome of the PodGroup as outdated, because the PodGroup changed.
    pub(in crate::cycle) fn reopen(&mut self, key: &GroupKey) {
        if self.attempts.contains_key(key) {
            self.reopened.insert(key.clone());
        }
    }

    /// Returns the PodGroups to retry a preemption for at this time, though nothing else is to be done for them. An outcome that cannot
    /// have changed is not retried.
    pub(in crate::cycle) fn choose(&mut self, now: Duration, preemptable: Preemptable) -> &[GroupKey] {
        self.chosen.clear();
        if self.is_due(now) {
            let is_old = |(at, _): &&(Option<u64>, GroupKey)| *at < Some(self.changes);
            let old = self.order.iter().take_while(is_old).map(|(_, key)| key);
            let may_differ = |key: &&GroupKey| {
                let Some(last) = self.attempts.get(*key) else { return false };
                let plain = last.plain.filter(|_| last.at >= Some(self.refresh) && !preemptable.over_share);
                let may_preempt = plain.is_none_or(|priority| preemptable.lowest.is_some_and(|lowest| lowest < priority));
                last.at.is_none() || (last.at.max(Some(self.settled)) < Some(self.changes) && may_preempt)
            };
            let known = |key: &&GroupKey| self.attempts.get(*key).is_some_and(|last| last.at.max(Some(self.settled)) == Some(self.changes));
            self.chosen.extend(old.filter(may_differ).chain(self.reopened.iter().filter(known)).take(MOST_PREEMPTION_ATTEMPTS).cloned());
            self.next_at = now.saturating_add(NEXT);
            if self.chosen.is_empty() {
                self.settled = self.changes;
            }
        }
        &self.chosen
    }

    /// When the next retry is due; none where all outcomes are current.
    pub(in crate::cycle) fn next(&self) -> Option<Duration> {
        self.is_open().then_some(self.next_at)
    }

    /// The number of changes before the last attempt of the PodGroup; none where it had no attempt since it waits.
    pub(in crate::cycle) fn attempted_at(&self, key: &GroupKey) -> Option<u64> {
        self.attempts.get(key).and_then(|last| last.at)
    }

    /// The outcome of the last attempt of the PodGroup.
    pub(in crate::cycle) fn outcome(&self, key: &GroupKey) -> Option<&PreemptionOutcome> {
        self.attempts.get(key).map(|last| &last.outcome)
    }

    /// Whether the outcome of the last attempt is current.
    pub(in crate::cycle) fn is_current(&self, key: &GroupKey) -> bool {
        self.attempted_at(key) == Some(self.changes) && !self.reopened.contains(key)
    }

    /// Records the outcome of an attempt. `plain` is the priority with which the PodGroup preempts, where only that could change the outcome.
    pub(in crate::cycle) fn record(&mut self, key: &GroupKey, outcome: PreemptionOutcome, plain: Option<i32>) {
        self.put(key, Some(self.changes), outcome, plain);
    }

    /// Postpones the attempt of the PodGroup: this cycle had no attempts left.
    pub(in crate::cycle) fn postpone(&mut self, key: &GroupKey) {
        match self.attempts.get_mut(key) {
            // It may preempt now, so its outcome is not settled by what no PodGroup could preempt before.
            Some(last) => last.plain = None,
            None => self.put(key, None, PreemptionOutcome::default(), None),
        }
    }

    /// Forgets the PodGroups that this cycle retried and that need no preemption any more.
    pub(in crate::cycle) fn forget_needless<'a>(&mut self, wanted: impl Iterator<Item = &'a GroupKey> + Clone) {
        // The batch is small.
        for key in std::mem::take(&mut self.chosen) {
            if !wanted.clone().any(|wanted| *wanted == key) {
                self.forget(&key);
            }
        }
    }

    fn is_open(&self) -> bool {
        let first = self.order.first().map(|(at, _)| at.map(|at| at.max(self.settled)));
        !self.reopened.is_empty() || first.is_some_and(|at| at < Some(self.changes))
    }

    fn put(&mut self, key: &GroupKey, at: Option<u64>, outcome: PreemptionOutcome, plain: Option<i32>) {
        self.forget(key);
        if outcome.soon {
            self.soon.insert(key.clone());
        }
        self.attempts.insert(key.clone(), LastAttempt { at, outcome, plain });
        self.order.insert((at, key.clone()));
    }

    /// Forgets the outcome of the PodGroup, which does not wait any more or has another request.
    pub(in crate::cycle) fn forget(&mut self, key: &GroupKey) {
        if let Some(LastAttempt { at, .. }) = self.attempts.remove(key) {
            self.order.remove(&(at, key.clone()));
            self.soon.remove(key);
            self.reopened.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Preemptable = Preemptable { over_share: true, lowest: None };

    #[test]
    fn a_postponed_attempt_is_made_though_no_other_podgroup_may_preempt() {
        let (mut retries, lowest) = (PreemptionRetries::default(), Preemptable { over_share: false, lowest: Some(0) });
        let [plain, postponed] = ["plain", "postponed"].map(|name| GroupKey::new("ns", name));
        retries.put(&plain, Some(0), PreemptionOutcome::default(), Some(0));
        retries.changed();
        assert!(retries.choose(Duration::ZERO, lowest).is_empty());
        retries.put(&postponed, None, PreemptionOutcome::default(), None);
        assert_eq!(retries.choose(NEXT, lowest), [postponed]);
    }

    #[test]
    fn podgroups_that_are_retried_again_and_again_do_not_delay_the_others() {
        let mut retries = PreemptionRetries::default();
        let eager: Vec<GroupKey> = (0..20).map(|index| GroupKey::new("a", &format!("{index:02}"))).collect();
        let last_in_order = GroupKey::new("z", "owed");
        let soon = PreemptionOutcome { soon: true, ..PreemptionOutcome::default() };
        retries.changed();
        for key in eager.iter().chain([&last_in_order]) {
            retries.put(key, Some(0), soon.clone(), None);
        }
        let mut now = Duration::ZERO;
        let mut turns = 0;
        while !retries.choose(now, ANY).contains(&last_in_order) {
            turns += 1;
            assert!(turns < 3, "they have all the turns");
            for key in retries.chosen.clone() {
                retries.put(&key, Some(retries.changes), soon.clone(), None);
                retries.reopen(&key);
            }
            retries.changed();
            retries.bound();
            now += NEXT;
        }
        // Without any other change they are retried all the same, and once each.
        for key in eager.iter().chain([&last_in_order]) {
            retries.put(key, Some(retries.changes), soon.clone(), None);
        }
        assert_eq!(retries.next(), None);
        retries.bound();
        assert_eq!(retries.choose(now + NEXT, ANY).len(), MOST_PREEMPTION_ATTEMPTS);
        all_renewed(&mut retries);
        assert_eq!(retries.choose(now + NEXT * 2, ANY).len(), 21 - MOST_PREEMPTION_ATTEMPTS);
        all_renewed(&mut retries);
        assert_eq!(retries.next(), None);
    }

    fn all_renewed(retries: &mut PreemptionRetries) {
        for key in retries.chosen.clone() {
            retries.put(&key, Some(retries.changes), PreemptionOutcome::default(), None);
        }
    }
}
