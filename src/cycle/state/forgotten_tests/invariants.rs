//! What must hold of every plan, and of the state after every step?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{PodView, Stage, Waiting};
use crate::api::{GroupKey, PodFacts, Uid};
use crate::cycle::cache::gang::Count;
use crate::cycle::cache::subgroups::SubgroupNeeds;
use crate::cycle::cache::{Group, Member, State, gang};
use crate::cycle::holds::Kind;
use crate::cycle::holds::victims::{LONGEST_GRACE, NOMINATION_MARGIN};
use crate::cycle::plan::{Bind, Eviction, Plan};
use crate::cycle::state::SchedulingState;
use crate::resources::Resources;

/// Returns how many members each PodGroup lacks of its minimum.
pub(super) fn lacking(state: &SchedulingState) -> BTreeMap<GroupKey, u32> {
    let lacks = |(key, group): (&GroupKey, &Group)| Some((key.clone(), Count::of(group, group.facts.as_ref()?).missing()));
    state.cache().groups().iter().filter_map(lacks).collect()
}

/// Checks a plan (C1, C2). `lacking` is what the PodGroups lacked before the cycle.
pub(super) fn check_plan<'a>(
    state: &SchedulingState,
    plan: &Plan,
    lacking: &BTreeMap<GroupKey, u32>,
    foreign: impl Iterator<Item = &'a PodFacts>,
) {
    assert!(state.cache().accounting().audit().is_clean());
    check_nodes(state, plan, foreign);
    plan.binds.iter().for_each(|bind| check_bind(state, bind));
    plan.binds.iter().for_each(|bind| check_part(state, bind));
    plan.evictions.iter().for_each(|eviction| check_eviction(state, eviction));
    for (key, lacks) in lacking {
        let bound = u32::try_from(plan.binds.iter().filter(|bind| bind.group == *key).count()).unwrap();
        assert!(bound == 0 || bound >= *lacks, "C2: {key} lacks {lacks}, and {bound} are bound");
    }
}

/// Checks that the pod belongs to no part of which others have no node.
fn check_part(state: &SchedulingState, bind: &Bind) {
    let Some((group, facts)) = state.cache().groups().get(&bind.group).and_then(|group| Some((group, group.facts.as_ref()?))) else {
        return;
    };
    let needs = SubgroupNeeds::of(group, facts, std::iter::empty());
    let lacks = group.subgroups.of(&bind.uid).and_then(|part| needs.lack.get(part));
    assert_eq!(lacks, None, "C2: {bind:?} is of a part that is not whole: {needs:?}");
}

/// Checks that no part that is whole loses some of its pods, and not all.
fn check_eviction(state: &SchedulingState, eviction: &Eviction) {
    let going: BTreeSet<&Uid> = eviction.victims.iter().map(|victim| &victim.uid).collect();
    let of_others: BTreeSet<&Uid> = state.holds.victims().filter(|uid| !going.contains(uid)).collect();
    for victim in &eviction.victims {
        let group = &state.cache().groups()[&victim.group];
        let Some((facts, part)) = group.facts.as_ref().zip(group.subgroups.of(&victim.uid)) else { continue };
        let size = usize::try_from(facts.sub_groups[part.policy].size).unwrap();
        let succeeded = usize::try_from(group.succeeded_in(part)).unwrap();
        let is_live = |uid: &&Uid| state.cache().pods()[*uid].state() == State::Placed && !of_others.contains(uid);
        let live: Vec<&Uid> = group.members.iter().filter(is_live).filter(|uid| group.subgroups.of(uid) == Some(part)).collect();
        let stay = live.iter().filter(|uid| !going.contains(*uid)).count();
        let was_whole = live.len() + succeeded >= size;
        assert!(!was_whole || stay == 0 || stay + succeeded >= size, "{eviction:?} leaves {stay} of a part of {size}");
    }
}

/// Checks that no node with a bind is over. It is counted from the pods themselves that are on it or are being bound to it: where victims
/// have not ended, what is nominated has to wait.
fn check_nodes<'a>(state: &SchedulingState, plan: &Plan, foreign: impl Iterator<Item = &'a PodFacts>) {
    let seen_on = |facts: &PodFacts| facts.node.clone().filter(|_| !facts.phase.ended());
    let holds = |member: &Member| match (&member.facts.node, &member.assumed) {
        (None, Some(assumed)) => Some(Arc::clone(&assumed.node)),
        (Some(_) | None, _) => seen_on(&member.facts),
    };
    let ours = state.cache().pods().values().filter_map(|member| Some((holds(member)?, &member.facts.request)));
    let mut used: BTreeMap<Arc<str>, Resources> = BTreeMap::new();
    for (node, request) in ours.chain(foreign.filter_map(|facts| Some((seen_on(facts)?, &facts.request)))) {
        used.entry(node).or_default().add(request);
    }
    for bind in &plan.binds {
        let node = state.cache().accounting().ledger().node(&bind.node).unwrap();
        assert!(node.allocatable.covers(&used[&bind.node]), "C1: {bind:?} puts its node over");
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
        let counts = |pod: &PodView<'_>| pod.stage != Stage::Nominated && pod.queue.is_some_and(|at| quota.tree().way(at).contains(&queue));
        let used: Resources = sum(cache.accounting().pods().filter(|(_, pod)| counts(pod)).map(|(_, pod)| pod.resources));
        for (dimension, ceiling) in view.limits.into_iter().flat_map(|limits| limits.capability.iter()) {
            assert!(asks.get(dimension).is_zero() || used.get(dimension) <= ceiling, "C1: {bind:?} puts {queue} over");
        }
        at = view.parent.map(Arc::from);
    }
}

/// Checks that every nomination has an end: that which was given in `until`, or the latest that a search may give.
pub(super) fn check_times(state: &SchedulingState, until: &mut BTreeMap<u64, Duration>, now: Duration) {
    for hold in state.holds.of_kind(Kind::Victims) {
        let until = *until.entry(hold.number).or_insert(now + LONGEST_GRACE + NOMINATION_MARGIN);
        assert!(until > now, "{} is nominated for longer than its time", hold.group);
    }
    assert!(!state.holds.of_kind(Kind::LostMember).any(|hold| hold.is_over(now)), "a place is kept for longer than its time");
}

/// Checks that every nomination and every kept place has ended, and that no record of one is left.
pub(super) fn check_nothing_is_left(state: &SchedulingState) {
    assert!(state.holds.is_empty(), "{:?}", state.holds);
}

/// Checks what the state stores twice; cycles may have something to do.
pub(super) fn check_records(state: &SchedulingState) {
    let cache = state.cache();
    let report = cache.accounting().audit();
    assert!(report.is_clean(), "{:?}", report.differences);
    assert_eq!(cache.groups().values().map(|group| group.waiting.len()).sum::<usize>(), cache.waiting_pods());
    check_nominations(state);
}

/// Checks what the state stores twice, and what may be reserved.
pub(super) fn check_state(state: &SchedulingState) {
    state.cache().check_giving_way();
    check_records(state);
    let cache = state.cache();
    let sharing = cache.sharing();
    if let Some(shares) = sharing.shares.as_ref().filter(|_| !sharing.outdated) {
        assert_eq!(
            shares,
            &cache.accounting().quota().shares(Waiting::Of(&sharing.demands)),
            "shares that are kept though an input changed"
        );
    }
    let placed = cache.pods().values().filter(|member| member.state() == State::Placed).map(|member| member.facts.priority).min();
    assert_eq!(cache.lowest_placed(), placed, "the lowest priority of a placed pod");
    cache.groups().iter().for_each(|(key, group)| check_reservation(state, key, group));
}

/// Checks that the records of each nomination agree: its own, the charges, the members, the counts of its PodGroup and the indexes.
fn check_nominations(state: &SchedulingState) {
    let (cache, holds) = (state.cache(), &state.holds);
    let (mut on_nodes, mut in_queues) = (BTreeMap::<Arc<str>, Resources>::new(), BTreeMap::<Arc<str>, Resources>::new());
    let is_ours = |uid: &Uid| cache.nominated_by_others().get(uid).is_none();
    for (uid, pod) in cache.accounting().pods().filter(|(uid, pod)| pod.stage == Stage::Nominated && is_ours(uid)) {
        let is_kept = holds.of_kind(Kind::LostMember).flat_map(|hold| &hold.places).any(|place| place.uid == *uid);
        let is_nominated = cache.pods().get(uid).is_some_and(|member| member.state() == State::Nominated);
        assert!(is_nominated != is_kept && is_kept == pod.queue.is_none(), "{uid} is charged for what it has not");
        on_nodes.entry(pod.node.unwrap().into()).or_default().add(pod.resources);
        pod.queue.into_iter().for_each(|queue| in_queues.entry(queue.into()).or_default().add(pod.resources));
    }
    for (node, resources) in &on_nodes {
        assert_eq!(holds.nominated_on(node).as_ref(), Some(resources), "what is nominated on {node}");
    }
    for queue in cache.queues().keys().chain(in_queues.keys()) {
        let own = in_queues.get(queue).cloned().unwrap_or_default();
        assert_eq!(holds.in_queue(cache, Kind::Victims, queue).1, own, "what is nominated in {queue}");
    }
    for (uid, member) in cache.pods().iter() {
        let stage = cache.accounting().pod(uid).map(|pod| pod.stage);
        assert_eq!(member.state() == State::Nominated, stage == Some(Stage::Nominated), "{uid}");
        assert!(member.state() != State::Waiting || stage.is_none(), "{uid} waits and is charged");
    }
    for (key, group) in cache.groups().iter() {
        let places = holds.nomination(key).map_or(0, |hold| hold.places.len());
        assert_eq!(usize::try_from(group.counts.nominated).unwrap(), places, "{key}");
    }
    let victims: BTreeSet<&Uid> = holds.of_kind(Kind::Victims).flat_map(|hold| hold.victims().unwrap()).collect();
    assert_eq!(victims, holds.victims().collect(), "the index of victims");
    assert!(victims.iter().all(|uid| cache.accounting().pod(uid).is_some()), "a nomination waits for a pod without a charge");
}

fn sum<'a>(all: impl Iterator<Item = &'a Resources>) -> Resources {
    all.fold(Resources::new(), |mut sum, one| {
        sum.add(one);
        sum
    })
}

/// Checks that only an admitted PodGroup reserves, in its queue, and one with its minimum only what it states beyond it (A2, A4). One of the
/// controller reserves nothing before its first pod.
fn check_reservation(state: &SchedulingState, key: &GroupKey, group: &Group) {
    let cache = state.cache();
    let reserved = cache.reserved(group);
    let queue = cache.accounting().quota().reservation_of(&key.to_string()).map(|(queue, _)| queue);
    assert_eq!(queue.is_some(), !reserved.is_zero(), "{key} reserves {reserved:?}");
    let Some(queue) = queue else { return };
    let Some(facts) = group.facts.as_ref().filter(|_| group.is_admitted()) else { panic!("A2: {key} is not admitted and reserves") };
    assert_eq!(queue, facts.queue, "A2: {key} reserves elsewhere");
    if gang::is_satisfied(group, facts) {
        let mut stated = facts.min_resources.clone().filter(|_| !facts.managed).unwrap_or_default();
        stated.sub(&group.charged);
        assert!(stated.covers(reserved), "A4: {key} has its places and reserves {reserved:?}, more than it states beyond them");
        assert!(state.next_attempt().is_some(), "A4: {key} has its places and reserves {reserved:?} for ever");
    }
    assert!(!facts.managed || !group.members.is_empty(), "A2: {key} has no member and reserves {reserved:?}");
}
