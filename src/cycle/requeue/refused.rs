//! Decides what has to change before a refused PodGroup can succeed.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling, ROOT_QUEUE};
use crate::api::{GroupFacts, GroupKey};
use crate::cycle::cache::{Cache, Group};
use crate::cycle::explain::Refusal;
use crate::resources::Resources;

use super::Requeue;
use super::parked::{Blocker, Lacking, LineKey};

impl Requeue {
    /// The PodGroup was refused: it is parked under what has to change.
    pub(in crate::cycle) fn park_refused(&mut self, cache: &Cache, key: &GroupKey, refusal: &Refusal) {
        let Some(group) = cache.groups().get(key) else { return };
        let Some(facts) = &group.facts else { return };
        self.refused(key, blocker(cache, group, facts, refusal));
    }

    /// The PodGroup was refused by nodes, and would not be admitted either: it waits for a change of any of the two.
    pub(in crate::cycle) fn park_for_nodes_and_quota(&mut self, cache: &Cache, key: &GroupKey) {
        let Some(group) = cache.groups().get(key) else { return };
        let members = group.waiting.iter().filter_map(|uid| cache.pods().get(uid));
        self.refused(key, Blocker::Members(members.filter_map(|member| member.class).collect()));
    }
}

/// Returns what has to change before the PodGroup can succeed.
fn blocker(cache: &Cache, group: &Group, facts: &GroupFacts, refusal: &Refusal) -> Blocker {
    let waiting = || group.waiting.iter().filter_map(|uid| cache.pods().get(uid));
    let classes: BTreeSet<_> = waiting().filter_map(|member| member.class).collect();
    let preemptable: BTreeSet<bool> = waiting().map(|member| member.facts.preemptable && facts.preemptable).collect();
    // A place that is kept for the PodGroup tells it apart from others like it.
    let alike = if classes.len() > 1 || preemptable.len() > 1 || !group.admission.kept.is_empty() {
        None
    } else {
        classes.first().zip(preemptable.first())
    };
    let queue: Arc<str> = Arc::from(facts.queue.as_str());
    match refusal.cause() {
        Refusal::Nodes { needed, .. } => {
            let Some((class, preemptable)) = alike else { return Blocker::Members(classes) };
            let minimum = facts.min_resources.iter().flat_map(Resources::iter).map(|(name, amount)| (name.clone(), amount)).collect();
            let reserves = group.admission.reservation.is_some();
            let line = LineKey { class: *class, members: *needed, queue, preemptable: *preemptable, reserves, minimum };
            Blocker::Nodes(line, cache.rank(group, facts))
        }
        // A PodGroup without a waiting member asks for its minimum alone.
        Refusal::Ceiling(ceiling) if alike.is_some() || classes.is_empty() => Blocker::Quota(lacking(queue, ceiling)),
        // Of members that differ, some may fit where others do not. Without a failure, the accounting changed between the answer of a node
        // and the placement.
        Refusal::Ceiling(_) | Refusal::Backoff { failures: 0, .. } => Blocker::Members(classes),
        // A limit of a queue is a change of everything; the others are about the PodGroup itself, or a time.
        Refusal::NoGroup { .. }
        | Refusal::Unsupported(_)
        | Refusal::Faulty(_)
        | Refusal::Claim(_)
        | Refusal::NetworkTopology
        | Refusal::NodeGroups { .. }
        | Refusal::Queue(_)
        | Refusal::Closed { .. }
        | Refusal::AfterOthers { .. }
        | Refusal::NotEnoughTasks { .. }
        | Refusal::NotEnoughPodsOfTask { .. }
        | Refusal::NotEnoughSubGroups { .. }
        | Refusal::IncompleteSubGroup { .. }
        | Refusal::Behind { .. }
        | Refusal::WithoutPreemption { .. }
        | Refusal::Nominated { .. }
        | Refusal::Backoff { .. }
        | Refusal::Volumes { .. }
        | Refusal::Unanswered { .. } => Blocker::Itself,
    }
}

/// What a queue has too little of, for a PodGroup of `queue`. What a queue is entitled to follows from what every queue uses and wants.
fn lacking(queue: Arc<str>, ceiling: &Ceiling) -> Lacking {
    if ceiling.bound == Bound::Entitlement {
        return Lacking { level: Arc::from(ROOT_QUEUE), queue, asked: None, for_minimums: false };
    }
    Lacking {
        level: Arc::clone(&ceiling.queue),
        queue,
        asked: Some((ceiling.dimension.clone(), ceiling.asked)),
        for_minimums: ceiling.bound == Bound::Minimums,
    }
}
