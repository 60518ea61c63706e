//! The preemption attempts of a cycle, and their outcomes.
//!
//! Preemptions follow the turns, so that no pod is evicted where there was room. A PodGroup that found no nodes, or that only amounts keep
//! out, tries again whenever something changed. A bounded number of attempts is made in one cycle, the oldest outcomes first; the others
//! follow a moment later.

mod again;
mod left_out;
mod partial_gang;
pub(super) mod reclaim;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Bound, Ceiling, Placement};
use crate::api::{GroupKey, Uid};
use crate::resources::Resources;

use super::admission::{admit, reservation};
use super::cache::gang::Gang;
use super::cache::{Cache, Group, request_of};
use super::explain::{NotPreempted, Refusal};
use super::plan::{EvictionCause, Plan};
use super::policy::Policy;
use super::requeue::{MOST_PREEMPTION_ATTEMPTS, PreemptionOutcome};
use super::state::SchedulingState;

use reclaim::{Budgets, Preemptor};

pub(in crate::cycle) use again::nominate_again;
pub(in crate::cycle) use partial_gang::evict_partial_gang;

/// A PodGroup that found no nodes in its turn.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) key: GroupKey,
    pub(super) queue: Arc<str>,
    /// The members that could be placed, in their order; none where it only waits for admission.
    pub(super) members: Vec<Uid>,
    /// What of them needs nodes.
    pub(super) gang: Gang,
    /// Whether all needed members must be placed together; a PodGroup with its minimum places as many further members as possible.
    pub(super) all_or_none: bool,
    /// Whether fewer of them are of no use.
    together: bool,
    /// Whether it is admitted, so that it lacks nodes.
    pub(super) admitted: bool,
}

impl Unplaced {
    /// Creates a gang of these members that needs nodes.
    pub(super) fn gang(key: &GroupKey, queue: &Arc<str>, members: &[Uid], gang: &Gang, admitted: bool) -> Self {
        let (key, queue, members, gang) = (key.clone(), Arc::clone(queue), members.to_vec(), gang.clone());
        Self { key, queue, members, gang, all_or_none: true, together: true, admitted }
    }

    /// Creates the further members of a PodGroup that has its minimum; `together` where they are one subgroup.
    pub(super) fn further(key: &GroupKey, queue: &Arc<str>, members: Vec<Uid>, together: bool) -> Self {
        let gang = Gang::of(u32::try_from(members.len()).unwrap_or(u32::MAX));
        Self { key: key.clone(), queue: Arc::clone(queue), members, gang, all_or_none: false, together, admitted: true }
    }
}

/// Attempts preemptions for these PodGroups, the oldest outcomes first.
pub(super) fn attempt_all(state: &mut SchedulingState, policy: &Policy, mut unplaced: Vec<Unplaced>, now: Duration, plan: &mut Plan) {
    state.requeue.preemptions.forget_needless(unplaced.iter().map(|group| &group.key));
    if unplaced.iter().any(|group| !state.requeue.preemptions.is_current(&group.key)) {
        state.cache.share_out();
    }
    unplaced.sort_by_key(|group| state.requeue.preemptions.attempted_at(&group.key));
    let any_over_share = policy.evictions && state.cache.any_queue_over_share();
    let mut left = MOST_PREEMPTION_ATTEMPTS;
    for group in &unplaced {
        let has_victims = any_over_share || has_lower_priority_pod(&state.cache, &group.key);
        // It loses its reservation where nothing is found, and what is terminating may be enough for it (A3, R3).
        let by_reclaim = state.cache.groups().get(&group.key).is_some_and(|group| group.admission.within_entitlement);
        let may_preempt = policy.evictions && !group.members.is_empty() && (has_victims || by_reclaim);
        // What others had reserved is no part of an outcome, and it may have been in the way of what is terminating.
        if state.requeue.preemptions.is_current(&group.key) && !by_reclaim {
        } else if may_preempt && left == 0 {
            state.requeue.preemptions.postpone(&group.key);
        } else {
            // Recorded before the attempt: a nomination outdates the outcomes of other PodGroups, and not its own.
            record(state, &group.key, PreemptionOutcome::default());
            if may_preempt {
                left = left.saturating_sub(1);
                let outcome = attempt(state, policy, group, now, plan);
                record(state, &group.key, outcome);
            }
        }
        // With what was placed after its turn, another queue may be far enough over its share for it to be admitted (A3).
        if !group.admitted && any_over_share && !plan.binds.is_empty() && is_admissible(state, policy, group) {
            state.requeue.try_again(&group.key);
        }
        let Some(outcome) = state.requeue.preemptions.outcome(&group.key).cloned() else { continue };
        if policy.evictions && !outcome.has_hope() && group.admitted && state.requeue.preemptions.is_current(&group.key) {
            reservation::preempted_in_vain(&mut state.cache, &mut state.requeue.timers, &group.key, now, policy.admission_timeout);
        }
        // Otherwise the refusal of a PodGroup that is not admitted is complete already.
        if let Some(why) = outcome.why.filter(|why| group.admitted || why.protects_what_is_owed(&group.queue)) {
            explain_no_preemption(&mut state.cache, &group.key, &why);
        }
    }
}

/// Whether it would be admitted in a turn now.
fn is_admissible(state: &mut SchedulingState, policy: &Policy, group: &Unplaced) -> bool {
    let needed = usize::try_from(group.gang.needed).unwrap_or(usize::MAX);
    let together = group.members.get(..needed).unwrap_or(&group.members);
    admit::admit(&mut state.cache, &group.key, together, policy.admit_within_nodes).is_ok()
}

/// Attempts a preemption for all members; where single members help, too, then for fewer.
fn attempt(state: &mut SchedulingState, policy: &Policy, group: &Unplaced, now: Duration, plan: &mut Plan) -> PreemptionOutcome {
    let mut gang = group.gang.clone();
    let (mut why, mut soon) = (None, false);
    while gang.needed > 0 {
        let find = |state: &mut SchedulingState, members: &[Uid]| find(state, policy, group, members);
        let Some(outcome) = left_out::search(state, &group.key, &group.members, &gang, find) else { break };
        match outcome {
            Ok(found) => {
                let why = if found.victims.is_empty() {
                    // Terminating pods are enough, and their room is free soon.
                    first_terminating(state, &found).map(Arc::new)
                } else {
                    nominate(state, group, &found, now, plan);
                    None
                };
                return PreemptionOutcome { why, leaving: true, soon };
            }
            Err(not) => {
                soon |= not.is_soon();
                why = Some(not);
            }
        }
        gang = Gang::of(if group.together { 0 } else { gang.needed / 2 });
    }
    PreemptionOutcome { why: why.filter(NotPreempted::says_something).map(Arc::new), leaving: false, soon }
}

/// Returns which of the terminating pods is the first on a node that these places use; none where the places need no pod to go.
fn first_terminating(state: &SchedulingState, found: &reclaim::Preemption) -> Option<NotPreempted> {
    let nodes: BTreeSet<&Arc<str>> = found.places.iter().map(|(_, node)| node).collect();
    let gone = state.holds.terminating_or_victims(&state.cache);
    let facts = gone.iter().filter_map(|uid| state.cache.pods().get(uid)).map(|member| &member.facts);
    let there = facts.filter_map(|pod| Some((pod, pod.node.as_ref().filter(|node| nodes.contains(node))?)));
    let (pod, node) = there.min_by_key(|(pod, _)| (&pod.namespace, &pod.name))?;
    Some(NotPreempted::Terminating { pod: format!("{}/{}", pod.namespace, pod.name), node: Arc::clone(node) })
}

fn find(
    state: &mut SchedulingState,
    policy: &Policy,
    group: &Unplaced,
    members: &[Uid],
) -> Option<Result<reclaim::Preemption, NotPreempted>> {
    let known = state.cache.groups().get(&group.key)?;
    let beyond = beyond(&state.cache, group, members);
    let preemptor = Preemptor {
        group: &group.key,
        queue: &group.queue,
        members,
        beyond: &beyond,
        priority: preemption_priority(&state.cache, known, group, members),
        preemptable: state.cache.may_borrow(&group.key),
    };
    let never = never_preempts(&state.cache, known, members);
    if let Some(why) = never.clone().filter(|_| state.holds.terminating_or_victims(&state.cache).is_empty()) {
        return Some(Err(why));
    }
    let room = state.cache.budget_room(state.holds.victims());
    let of = |pod: &crate::api::PodFacts| room.of(pod);
    let outcome = reclaim::find(state, policy.placement, &preemptor, Budgets { left: room.left(), of: &of });
    let outcome = outcome.and_then(|found| leaving_room(state, group, members, found));
    Some(match (outcome, never) {
        // It may still wait for terminating pods.
        (Ok(found), Some(why)) if !found.victims.is_empty() => Err(why),
        (Err(_), Some(why)) => Err(why),
        (outcome, _) => outcome,
    })
}

/// Returns the preemption again if these members leave room for what other PodGroups have reserved when the victims are gone (A7). If they
/// do not, they wait for that, and no pod is preempted for it. A gang and its minimum come first themselves.
fn leaving_room(
    state: &mut SchedulingState,
    group: &Unplaced,
    members: &[Uid],
    found: reclaim::Preemption,
) -> Result<reclaim::Preemption, NotPreempted> {
    if group.all_or_none || found.victims.is_empty() || state.cache.reserved_first().all().is_zero() {
        return Ok(found);
    }
    let created = members.iter().filter_map(|uid| state.cache.pods().get(uid)).map(|member| member.facts.created).max();
    let asked = request_of(state.cache.pods(), members);
    let gone = state.holds.terminating_or_victims(&state.cache);
    let first = state.cache.first_before(created.unwrap_or_default());
    let mut trial = state.cache.trial();
    gone.iter().chain(&found.victims).for_each(|uid| _ = trial.set_aside(uid));
    let quota = trial.accounting().quota();
    match quota.leaves(&asked, &first.before(&group.queue, quota)) {
        Ok(()) => Ok(found),
        Err(ceiling) => Err(NotPreempted::Unplaceable(Box::new(Refusal::Ceiling(ceiling)))),
    }
}

fn nominate(state: &mut SchedulingState, group: &Unplaced, found: &reclaim::Preemption, now: Duration, plan: &mut Plan) {
    let place = |(uid, node): &(Uid, Arc<str>)| {
        let resources = state.cache.pods().get(uid)?.facts.request.clone();
        Some(Placement { uid: uid.clone(), node: Arc::clone(node), queue: Arc::clone(&group.queue), resources })
    };
    let places: Vec<Placement> = found.places.iter().filter_map(place).collect();
    let queues: BTreeSet<&str> = found.victims.iter().filter_map(|uid| state.cache.accounting().pod(uid)?.queue).collect();
    let cause = if queues.iter().all(|queue| **queue == *group.queue) { EvictionCause::Preemption } else { EvictionCause::Reclaim };
    let until = state.holds.deadline(&state.cache, &places, &found.victims, now);
    let beyond = beyond(&state.cache, group, &found.places.iter().map(|(uid, _)| uid.clone()).collect::<Vec<_>>());
    if let Some(eviction) = state.nominate(&group.key, &places, &found.victims, cause, until) {
        plan.evictions.push(eviction);
        // Its queues take that, too, when the victims are gone.
        let mut minimum = state.cache.groups().get(&group.key).map(|group| group.charged.clone()).unwrap_or_default();
        minimum.add(&beyond);
        reservation::keep_rest(&mut state.cache, &group.key, minimum);
    }
}

/// What the minimum of the PodGroup asks for beyond these members (A1); nothing for further members.
fn beyond(cache: &Cache, group: &Unplaced, members: &[Uid]) -> Resources {
    if group.all_or_none { admit::beyond(cache, &group.key, members) } else { Resources::new() }
}

/// Records the outcome of an attempt.
fn record(state: &mut SchedulingState, key: &GroupKey, outcome: PreemptionOutcome) {
    // A queue that can reclaim from others has a sibling that uses more than its share (A3).
    let plain = state.cache.groups().get(key).filter(|group| {
        outcome == PreemptionOutcome::default()
            && group.refusal.as_deref().is_some_and(|refusal| {
                let used = |ceiling: &Ceiling| ceiling.bound != Bound::Entitlement && ceiling.unused_guarantee.is_zero();
                matches!(refusal, Refusal::Nodes { .. }) || matches!(refusal, Refusal::Ceiling(ceiling) if used(ceiling))
            })
    });
    let plain = plain.map(|group| state.cache.priority(group));
    state.requeue.preemptions.record(key, outcome, plain);
}

/// Whether a pod with a node may have a lower priority than the PodGroup. If not, no pod of its own queue is a victim (R1b), and no
/// search is needed to find that out.
fn has_lower_priority_pod(cache: &Cache, key: &GroupKey) -> bool {
    cache.groups().get(key).is_some_and(|group| cache.lowest_priority().is_some_and(|lowest| lowest < cache.priority(group)))
}

/// Returns the priority with which these members preempt (R2c): that of the class of the PodGroup, else one of their own. A gang has
/// the highest of its members, which are evicted together (R4). Further members have the lowest, because each is evicted alone. With a
/// higher one, two PodGroups could preempt each other for ever.
fn preemption_priority(cache: &Cache, group: &Group, unplaced: &Unplaced, members: &[Uid]) -> i32 {
    let own = members.iter().filter_map(|uid| cache.pods().get(uid)).map(|member| member.facts.priority);
    let of_members = || if unplaced.all_or_none { own.max() } else { own.min() };
    cache.class_of(group).map(|class| class.value).or_else(of_members).unwrap_or(0)
}

/// Returns why these members never preempt (R1c); none where they may.
fn never_preempts(cache: &Cache, group: &Group, members: &[Uid]) -> Option<NotPreempted> {
    let class = cache.class_of(group).filter(|class| !class.preempts).map(|class| class.name.clone());
    let never = |uid: &Uid| cache.pods().get(uid).is_some_and(|member| !member.facts.preempts);
    (class.is_some() || members.iter().any(never)).then_some(NotPreempted::Never { class })
}

/// Adds to the refusal of the PodGroup why no pod is preempted for it. What has to change for the PodGroup is the same, and since when it waits.
fn explain_no_preemption(cache: &mut Cache, key: &GroupKey, why: &Arc<NotPreempted>) {
    let Some(refusal) = cache.groups().get(key).and_then(|group| group.refusal.clone()) else { return };
    let refusal = Arc::new(Refusal::WithoutPreemption { refusal, why: Arc::clone(why) });
    cache.refuse_waiting(key, &refusal);
    cache.refuse_group(key, Some(refusal));
}

#[cfg(test)]
mod other_pods_tests;
#[cfg(test)]
mod partial_gang_tests;
#[cfg(test)]
mod tests;
