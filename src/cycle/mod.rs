//! One scheduling cycle: which pods are placed on which nodes now, and why does every other PodGroup wait?
//!
//! ```text
//!  State ──▶ candidates ──▶ gang ────▶ order ──▶ admit ──▶ place (filter, score, trial) ──▶ Plan
//!            PodGroups that  members    the next  below     all needed members,            binds,
//!            may succeed     needed     turn      every     or none                        evictions
//!            now             together             ceiling?
//! ```
//!
//! Reading order: [`policy`], [`cache`] (the known facts), [`state`] (what follows from an event), [`requeue`] (which PodGroups are tried),
//! [`order`], [`admission`], `turn`, [`placement`] (nodes, filter, score), `preemption` (victims), [`holds`] (the room that is held for
//! members before they are bound), [`explain`], [`plan`], what there is to say ([`status`], [`queue_status`], [`queue_faults`]), and for reports
//! [`next_member`].
//!
//! Promises, cited by the tests:
//!
//! * **C1** no plan puts a node over its allocatable, in a resource that the pod requests, or a queue or an ancestor over its capability; no
//!   plan uses the unused guarantee of another queue, or places a pod in a queue that is closed or broken;
//! * **C2** a gang that is not satisfied is placed with all that it needs, or not at all;
//! * **C3** the same facts give the same plan, whatever the order in which they came;
//! * **C4** the accounting is right after every step: the audit is clean.
//!
//! **Architecture invariant:** pure. Time is an argument, no order comes from a hash, nothing is logged, nothing fails.

#![cfg_attr(not(test), deny(clippy::float_arithmetic, clippy::arithmetic_side_effects))]

pub mod admission;
mod asks_nodes;
pub mod cache;
mod eviction_backoff;
pub mod explain;
pub mod holds;
pub mod next_member;
pub mod order;
pub mod placement;
pub mod plan;
pub mod policy;
mod preemption;
pub mod queue_faults;
pub mod queue_status;
pub mod requeue;
pub mod share;
pub mod state;
pub mod status;
#[cfg(test)]
pub(crate) mod testing;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupFacts, GroupKey};

use admission::{admit, reservation};
use cache::gang::{self, Gang};
use cache::{Group, GroupRank, Member, members};
use explain::Refusal;
use order::Turns;
use plan::Plan;
use policy::Policy;
use preemption::Unplaced;
use state::{SchedulingState, TOLD_AT_ONCE};
use turn::{Turn, Want, take_turn};

/// A PodGroup that is ready for its turn: its queue, its rank there, and its members.
type Ready = (Arc<str>, GroupRank, Want);

/// How many PodGroups of a fifo queue name the one that comes first. With a pod each, they may all be written at once when that changes.
const NAME_THE_FIRST: usize = TOLD_AT_ONCE / 2;

/// A fifo queue in which a PodGroup waits for room (A6).
struct Blocked {
    /// The PodGroup that comes first.
    first: GroupKey,
    /// How many were refused behind it.
    behind: usize,
}

impl Blocked {
    /// Returns what the next one behind is told. All of the queue are tried together, so this is its place in the queue.
    fn refuse_next(&mut self) -> Refusal {
        self.behind = self.behind.saturating_add(1);
        Refusal::Behind { first: (self.behind <= NAME_THE_FIRST).then(|| self.first.clone()) }
    }
}

/// Tries every PodGroup with a relevant change, places what can be placed, and charges it. `now` is of the monotonic clock.
pub fn run(state: &mut SchedulingState, policy: &Policy, now: Duration) -> Plan {
    let mut plan = Plan::default();
    let mut turns = Turns::default();
    let mut back_off: Vec<GroupKey> = Vec::new();
    state.end_kept_places(now, policy.admission_timeout);
    plan.nominated_again = preemption::nominate_again(state, policy, now);
    plan.binds = state.take_supplied(now, policy.volume_timeout);
    plan.binds.extend(state.take_fulfilled(now, policy.rest_time()));
    for key in state.take_candidates(now) {
        if !state.cache.groups().contains_key(&key) {
            continue;
        }
        if state.cache.is_foreign(&key) {
            state.ignore_foreign(&key);
            continue;
        }
        state.complete_successes(&key);
        match prepare(state, policy, &key, now) {
            Ok(Some((queue, rank, want))) => turns.push(queue, rank, want),
            Ok(None) => {}
            Err(refusal) => {
                if matches!(refusal, Refusal::Backoff { .. }) {
                    back_off.push(key.clone());
                }
                state.refuse(&key, &Arc::new(refusal));
            }
        }
        plan.tried.push(key);
    }
    let contend = turns.contend();
    if contend {
        state.cache.share_out();
    }
    turns.rank_all(&state.cache);
    let mut blocked: BTreeMap<Arc<str>, Blocked> = BTreeMap::new();
    let mut unplaced = Vec::new();
    while let Some((queue, mut rank, want)) = turns.pop() {
        // A partially bound gang is finished first, whatever its rank. So is one that has lost a member (A8).
        let partially_bound = want.gang.needed > 0 && state.cache.is_partially_bound(&want.key);
        // Its quota is there, and the first may wait for that very quota.
        let has_rest = |group: &Group| {
            group.admission.reservation.is_some() && group.facts.as_ref().is_some_and(|facts| gang::is_satisfied(group, facts))
        };
        let has_rest = state.cache.groups().get(&want.key).is_some_and(has_rest);
        let is_exempt = partially_bound || has_rest || state.holds.kept_for(&want.key).next().is_some();
        if let Some(blocked) = blocked.get_mut(&queue).filter(|_| !is_exempt) {
            // One with its minimum reserves nothing, and only its further members wait: it stays admitted.
            let satisfied = |group: &Group| group.facts.as_ref().is_some_and(|facts| gang::is_satisfied(group, facts));
            if !state.cache.groups().get(&want.key).is_some_and(satisfied) {
                state.revoke_admission(&want.key);
            }
            state.refuse(&want.key, &Arc::new(blocked.refuse_next()));
        } else {
            let key = want.key.clone();
            match take_turn(state, policy, &queue, want, now, &mut plan, &mut unplaced) {
                Turn::Over => {}
                Turn::Again(want) => {
                    rank.has_minimum = true;
                    turns.push(Arc::clone(&queue), rank, *want);
                }
                // A PodGroup that has its turn behind the first does not replace it.
                Turn::First => {
                    if rank.has_minimum {
                        state.requeue.first_is_further(&queue);
                    }
                    blocked.entry(Arc::clone(&queue)).or_insert(Blocked { first: key, behind: 0 });
                }
            }
        }
        if contend {
            // The turn may have revoked an admission and so changed a demand; the ranks need shares.
            state.cache.share_out_if_unknown();
        }
        turns.rank(&queue, &state.cache);
    }
    let whole = |group: &Unplaced| group.all_or_none.then(|| group.key.clone());
    let gangs: Vec<GroupKey> = unplaced.iter().filter_map(whole).chain(back_off).collect();
    preemption::attempt_all(state, policy, unplaced, now, &mut plan);
    if policy.evictions {
        plan.evictions.extend(gangs.iter().filter_map(|key| preemption::evict_partial_gang(state, key, now, policy.release)));
    }
    state.cache.notice_unfilled();
    state.cache.notice_minimums();
    state.follow();
    state.asking.follow(&mut state.cache, state.requeue.backlog().iter(), now);
    plan.volumes = state.take_volume_writes();
    plan
}

/// Returns what the PodGroup wants in this cycle; none where it wants nothing.
fn prepare(state: &mut SchedulingState, policy: &Policy, key: &GroupKey, now: Duration) -> Result<Option<Ready>, Refusal> {
    refuse_blocked(state, key);
    state.cache.notice_attempt(key);
    reservation::end_precedence(&mut state.cache, key, now);
    reservation::follow_rest(&mut state.cache, key, now, policy.rest_time());
    let Some(group) = state.cache.groups().get(key) else { return Ok(None) };
    let Some(facts) = group.facts.clone() else {
        return if group.waiting.is_empty() { Ok(None) } else { Err(Refusal::NoGroup { name: Arc::clone(&key.name) }) };
    };
    let has_all = group.waiting.is_empty() && gang::has_its_places(group, &facts);
    check_queue(state, key, &facts, has_all)?;
    check_time(state, policy, key, now)?;
    check_nomination(state, key, &facts)?;
    if has_all {
        state.satisfied(key, now, policy.rest_time());
        let waits = state.cache.unanswered(key).or_else(|| state.waits_for_volumes(key));
        state.judge_group(key, waits);
        return Ok(None);
    }
    let want = want(state, key, &facts)?;
    let Some(group) = state.cache.groups().get(key) else { return Ok(None) };
    if gang::asks_for_nothing(group, &facts) {
        // It has no turn, which would go by its rank and not by that of those who ask (P1).
        state.admit_without_reservation(key);
        state.judge_group(key, None);
        return Ok(None);
    }
    if want.members.is_empty() && !gang::is_owed_a_beginning(group, &facts) {
        // Nobody waits for its admission, so members that do not exist reserve nothing (A2). What is kept of a lost one is kept (A8).
        if state.holds.kept_for(key).next().is_none() {
            state.revoke_admission(key);
        } else {
            state.admit_without_reservation(key);
        }
        let Some(refusal) = want.incomplete else {
            state.judge_group(key, None);
            return Ok(None);
        };
        return Err(refusal);
    }
    let rank = state.cache.rank(group, &facts);
    Ok(Some((Arc::from(facts.queue.as_str()), rank, want)))
}

/// Refuses a PodGroup that cannot be placed as it is, and revokes an admission that its queue does not allow any more.
fn check_queue(state: &mut SchedulingState, key: &GroupKey, facts: &GroupFacts, has_all: bool) -> Result<(), Refusal> {
    // A PodGroup with all its nodes and without a waiting pod keeps them, whatever became of its queue (O1).
    let satisfied = state.cache.groups().get(key).is_none_or(|group| gang::is_satisfied_with_members(group, facts));
    if !has_all && let Some(refusal) = admit::unusable(&state.cache, facts) {
        // A5: before the turn of another PodGroup that could use the reservation, or a place (A8). One that is satisfied stays admitted.
        if !satisfied {
            state.end_admission(key);
            state.follow();
        }
        return Err(refusal);
    }
    Ok(())
}

/// Refuses a PodGroup that backs off after a failed bind or eviction.
fn check_time(state: &mut SchedulingState, policy: &Policy, key: &GroupKey, now: Duration) -> Result<(), Refusal> {
    let Some(group) = state.cache.groups().get(key) else { return Ok(()) };
    // Where no pod waits there is nothing to be tried again: members are missing.
    if group.retry.at.is_none_or(|at| at <= now) || group.waiting.is_empty() {
        return Ok(());
    }
    // A gang that was placed and had failed binds has no earlier refusal.
    let lack = group.refusal.as_deref().and_then(Refusal::lack);
    let refusal = Refusal::Backoff { step: group.retry.step, why: group.retry.why.clone(), failures: group.retry.failures, lack };
    reservation::limit_while_refused(&mut state.cache, &mut state.requeue.timers, key, now, policy.admission_timeout);
    Err(refusal)
}

/// Refuses a nominated PodGroup. One that has its minimum waits only for the nominated members; the others are placed as usual.
fn check_nomination(state: &SchedulingState, key: &GroupKey, facts: &GroupFacts) -> Result<(), Refusal> {
    let all_wait = |group: &Group| group.waiting.is_empty() || !gang::is_satisfied(group, facts);
    match state.nominated(key) {
        Some(waits) if state.cache.groups().get(key).is_some_and(all_wait) => Err((**waits).clone()),
        Some(_) | None => Ok(()),
    }
}

/// Returns what the PodGroup needs together, and its waiting members in order.
fn want(state: &mut SchedulingState, key: &GroupKey, facts: &GroupFacts) -> Result<Want, Refusal> {
    let Some(group) = state.cache.groups().get(key) else { return Ok(Want::new(key, Gang::default(), Vec::new())) };
    let victims = state.holds.victims_among(&group.members);
    let mut want = match gang::resolve_without(&state.cache, group, facts, &victims) {
        Ok(gang) => {
            let members = members::in_order(&state.cache, group, &gang);
            Want::new(key, gang, members)
        }
        // It waits until the scheduling gates are removed, which may take any time: it reserves nothing. The program that removes them may
        // wait for its admission.
        Err(refusal) if group.counts.gated > 0 => {
            state.admit_without_reservation(key);
            return Err(refusal);
        }
        Err(refusal) => {
            let mut want = Want::new(key, Gang::default(), Vec::new());
            want.incomplete = Some(refusal);
            want
        }
    };
    if group.is_idle() {
        // No pod waits, so there is nothing to report. Volcano's job controller creates the pods only after the admission of the PodGroup.
        want.incomplete = None;
    }
    Ok(want)
}

/// Records why blocked members can never be placed as they are, whatever their PodGroup does.
fn refuse_blocked(state: &mut SchedulingState, key: &GroupKey) {
    let blocked: Vec<_> = state.cache.groups().get(key).map(|group| group.blocked.iter().cloned().collect()).unwrap_or_default();
    for uid in blocked {
        let refusal = state.cache.pods().get(&uid).and_then(Member::blocked).map(Arc::new);
        state.cache.refuse_pod(&uid, refusal.as_ref());
    }
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;
