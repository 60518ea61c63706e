//! Which PodGroups does a cycle try, and when is there something to do for it?

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Bound, Ceiling, ROOT_QUEUE};
use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::cycle::explain::Refusal;
use crate::cycle::order::GroupRank;
use crate::cycle::placement::Strategy;
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::requeue::{Blocker, Known, Lacking, LineKey};
use crate::resources::Resources;

use super::preemption_retries::Preemptable;
use super::{Group, World};

/// The objects with a status that may have changed since the last call.
#[derive(Debug, Default)]
pub struct Dirty {
    /// The queues with a status that may have changed.
    pub queues: BTreeSet<Arc<str>>,
    /// The pods with a condition that may have changed.
    pub pods: BTreeSet<Uid>,
}

impl World {
    /// Takes the objects that changed since the last call.
    pub fn take_dirty(&mut self) -> Dirty {
        Dirty { queues: std::mem::take(&mut self.dirty_queues), pods: std::mem::take(&mut self.dirty_pods) }
    }

    /// Whether a cycle would try anything at this moment.
    #[must_use]
    pub fn has_work(&self, now: Duration) -> bool {
        self.next_attempt().is_some_and(|at| at <= now)
    }

    /// Returns when a cycle has something to try although no event arrives until then; none where there is no such time.
    #[must_use]
    pub fn next_attempt(&self) -> Option<Duration> {
        if self.requeue.has_work() || self.nominations.has_work() {
            return Some(Duration::ZERO);
        }
        [self.requeue.next_timer(), self.nominations.next_deadline(), self.preemption_retries.next(), self.eviction_backoff.next()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the PodGroups that a cycle tries now.
    pub(in crate::cycle) fn take_candidates(&mut self, now: Duration) -> BTreeSet<GroupKey> {
        self.notice_unfilled();
        let ended = self.eviction_backoff.end_due(now);
        if ended || self.requeue.has_changes() || self.shares.is_none() || self.outdated {
            self.preemption_retries.changed();
        }
        let preemptable = if self.preemption_retries.is_due(now) { self.preemptable() } else { Preemptable::default() };
        let chosen = self.preemption_retries.choose(now, preemptable).to_vec();
        if self.requeue.has_changes() {
            self.notice_overpromising();
        }
        let Self { requeue, nodes, books, anti_affinity, classes, groups, queues, .. } = self;
        let reserves = |key: &GroupKey| groups.get(key).is_some_and(|group| group.reservation.is_some());
        let none = BTreeSet::new();
        let snapshot = Snapshot { nodes, ledger: books.ledger(), anti_affinity, strategy: Strategy::default(), barred: &none };
        let known = Known { snapshot, quota: books.quota(), classes, reserves: &reserves };
        let queue_of = |key: &GroupKey| Some(groups.get(key)?.facts.as_ref()?.queue.as_str());
        let is_fifo = |queue: &str| queues.get(queue).is_some_and(|facts| facts.dequeue_strategy == DequeueStrategy::Fifo);
        let candidates = requeue.take(now, &chosen, known, is_fifo, queue_of);
        self.classes.tidy();
        candidates
    }

    /// Returns which pods may be preempted at all.
    fn preemptable(&mut self) -> Preemptable {
        self.share_out();
        Preemptable { over_share: self.any_queue_over_share(), lowest: self.lowest_priority() }
    }

    /// The PodGroup was refused: it is parked under what has to change.
    pub(super) fn park_refused(&mut self, key: &GroupKey, refusal: &Refusal) {
        let Some(group) = self.groups.get(key) else { return };
        let Some(facts) = &group.facts else { return };
        let queue: Arc<str> = Arc::from(facts.queue.as_str());
        let classes: BTreeSet<_> = group.waiting.iter().filter_map(|uid| self.pods.get(uid)?.class).collect();
        let preemptable: BTreeSet<bool> =
            group.waiting.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.preemptable && facts.preemptable).collect();
        let differ = classes.len() > 1 || preemptable.len() > 1 || !self.anti_affinity.is_empty();
        let cause = refusal.cause();
        let blocker = if let Refusal::Nodes { needed, .. } = cause {
            match (classes.first(), preemptable.first()) {
                (Some(class), Some(preemptable)) if !differ => {
                    let minimum =
                        facts.min_resources.iter().flat_map(Resources::iter).map(|(name, amount)| (name.clone(), amount)).collect();
                    let reserves = group.reservation.is_some();
                    let line = LineKey { class: *class, members: *needed, queue, preemptable: *preemptable, reserves, minimum };
                    Blocker::Nodes(line, self.rank(group, facts))
                }
                _ => Blocker::Members(classes),
            }
        } else if let Refusal::Ceiling(ceiling) = cause {
            if differ { Blocker::Members(classes) } else { Blocker::Quota(lacking(queue, ceiling)) }
        } else if matches!(cause, Refusal::Backoff { failures: 0, .. }) {
            // The accounting changed between the answer of a node and the placement.
            Blocker::Members(classes)
        } else {
            Blocker::Itself
        };
        self.requeue.refused(key, blocker);
    }

    /// The rank of the PodGroup in its queue.
    pub(in crate::cycle) fn rank(&self, group: &Group, facts: &GroupFacts) -> GroupRank {
        let oldest = group.waiting.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.created).min();
        GroupRank { priority: Reverse(self.priority(group)), oldest: oldest.unwrap_or(facts.created), key: facts.key.clone() }
    }
}

/// What a queue has too little of, for a PodGroup of `queue`. What a queue is entitled to follows from what every queue uses and wants.
fn lacking(queue: Arc<str>, ceiling: &Ceiling) -> Lacking {
    if ceiling.bound == Bound::Entitlement {
        return Lacking { level: Arc::from(ROOT_QUEUE), queue, asked: None };
    }
    Lacking { level: Arc::clone(&ceiling.queue), queue, asked: Some((ceiling.dimension.clone(), ceiling.asked)) }
}
