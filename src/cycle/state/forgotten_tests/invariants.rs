//! What must hold of every plan, and of the state after every step? `nominations_promises` has what must hold of nominations.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::Waiting;
use crate::api::GroupKey;
use crate::cycle::cache::{Group, State, gang};
use crate::cycle::plan::{Bind, Plan};
use crate::cycle::state::SchedulingState;

/// Returns how many members each PodGroup lacks of its minimum.
pub(super) fn lacking(state: &SchedulingState) -> BTreeMap<GroupKey, u32> {
    let lacks = |(key, group): (&GroupKey, &Group)| {
        let has = group.counts.placed + group.counts.succeeded;
        Some((key.clone(), group.facts.as_ref()?.min_member.saturating_sub(has)))
    };
    state.cache().groups().iter().filter_map(lacks).collect()
}

/// Checks a plan (C1, C2). `lacking` is what the PodGroups lacked before the cycle.
pub(super) fn check_plan(state: &SchedulingState, plan: &Plan, lacking: &BTreeMap<GroupKey, u32>) {
    plan.binds.iter().for_each(|bind| check_bind(state, bind));
    for (key, lacks) in lacking {
        let bound = u32::try_from(plan.binds.iter().filter(|bind| bind.group == *key).count()).unwrap();
        assert!(bound == 0 || bound >= *lacks, "C2: {key} lacks {lacks}, and {bound} are bound");
    }
}

fn check_bind(state: &SchedulingState, bind: &Bind) {
    let cache = state.cache();
    let node = cache.nodes().id(&bind.node).and_then(|id| cache.nodes().get(id)).unwrap();
    assert!(!node.unschedulable, "C1: {bind:?} goes to a node that is cordoned");
    let quota = cache.accounting().quota();
    assert_eq!((quota.closed_by(&bind.queue), quota.fault(&bind.queue)), (None, None), "C1: {bind:?} goes to a queue that takes no pod");
    let asks = &cache.pods()[&bind.uid].facts.request;
    let mut at = Some(Arc::clone(&bind.queue));
    while let Some(queue) = at {
        let view = quota.queue(&queue);
        // What is nominated is charged beyond the limits while the victims end.
        let mut used = view.used.clone();
        used.sub(&state.nominated_in(&queue).0);
        for (dimension, ceiling) in view.limits.into_iter().flat_map(|limits| limits.capability.iter()) {
            assert!(asks.get(dimension).is_zero() || used.get(dimension) <= ceiling, "C1: {bind:?} puts {queue} over");
        }
        at = view.parent.map(Arc::from);
    }
}

/// Checks what the state stores twice, and what may be reserved.
pub(super) fn check_state(state: &SchedulingState) {
    let cache = state.cache();
    let sharing = &cache.sharing;
    if let Some(shares) = sharing.shares.as_ref().filter(|_| !sharing.outdated) {
        assert_eq!(
            shares,
            &cache.accounting().quota().shares(Waiting::Of(&sharing.demands)),
            "shares that are kept though an input changed"
        );
    }
    let placed = cache.pods().values().filter(|member| member.state() == State::Placed).map(|member| member.facts.priority).min();
    assert_eq!(cache.placed_priorities.lowest().copied(), placed, "the lowest priority of a placed pod");
    assert_eq!(cache.groups().values().map(|group| group.waiting.len()).sum::<usize>(), cache.waiting_pods());
    cache.groups().iter().for_each(|(key, group)| check_reservation(state, key, group));
}

/// Checks that only an admitted PodGroup without its minimum reserves, in its queue (A2, A5). One of the controller reserves nothing before
/// its first pod.
fn check_reservation(state: &SchedulingState, key: &GroupKey, group: &Group) {
    let cache = state.cache();
    let reserved = cache.reserved(group);
    let queue = cache.accounting().quota().reservation_of(&key.to_string()).map(|(queue, _)| queue);
    assert_eq!(queue.is_some(), !reserved.is_zero(), "{key} reserves {reserved:?}");
    let Some(queue) = queue else { return };
    let Some(facts) = group.facts.as_ref().filter(|_| group.is_admitted()) else { panic!("A2: {key} is not admitted and reserves") };
    assert_eq!(queue, facts.queue, "A2: {key} reserves elsewhere");
    assert!(!gang::is_satisfied(group, facts), "A5: {key} has its places and reserves {reserved:?}");
    assert!(!facts.managed || !group.members.is_empty(), "A2: {key} has no member and reserves {reserved:?}");
}
