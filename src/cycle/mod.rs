//! One scheduling cycle: which pods are placed on which nodes now, and why does every other PodGroup wait?
//!
//! ```text
//!  World ──▶ candidates ──▶ gang ────▶ order ──▶ admit ──▶ place (filter, score, trial) ──▶ Plan
//!            PodGroups that  members    the next  below     all needed members,            binds,
//!            may succeed     needed     turn      every     or none                        evictions
//!            now             together             ceiling?
//! ```
//!
//! Reading order: [`policy`], [`world`] (the known facts), `requeue` (which PodGroups are tried), [`gang`], [`order`], [`admit`], `turn`,
//! [`place`](mod@self::place), [`placement`] (nodes, filter, score), `preemption` and [`reclaim`] (victims), [`explain`], [`plan`], and the statuses: [`status`] and [`queue_status`].
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

pub mod admit;
pub mod explain;
pub mod gang;
mod misfits;
pub mod order;
mod place;
pub mod placement;
pub mod plan;
pub mod policy;
mod preemption;
pub mod queue_status;
pub mod reclaim;
mod requeue;
pub mod share;
pub mod status;
#[cfg(test)]
pub(crate) mod testing;
mod turn;
pub mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupFacts, GroupKey, Uid};

use explain::Refusal;
use gang::Gang;
use order::{GroupRank, Turns};
use plan::Plan;
use policy::Policy;
use preemption::Unplaced;
use turn::{Turn, take_turn};
use world::World;

/// A PodGroup that waits for its turn.
#[derive(Debug)]
struct Want {
    key: GroupKey,
    gang: Gang,
    /// Its waiting members, in the order in which they are placed; none where it only waits for admission.
    members: Vec<Uid>,
    /// Why its members cannot be placed though it may be admitted: they are not all there yet.
    incomplete: Option<Refusal>,
    /// The number of members that had their turn: a satisfied PodGroup places one in a turn.
    next: usize,
    /// Why a member found no node in an earlier turn.
    refusal: Option<Arc<Refusal>>,
    /// The members that found no node.
    unplaced: Vec<Uid>,
}

impl Want {
    fn new(key: &GroupKey, gang: Gang, members: Vec<Uid>) -> Self {
        Self { key: key.clone(), gang, members, incomplete: None, next: 0, refusal: None, unplaced: Vec::new() }
    }
}

/// A PodGroup that is ready for its turn: its queue, its rank there, and its members.
type Ready = (Arc<str>, GroupRank, Want);

/// Tries every PodGroup with a relevant change, places what can be placed, and charges it. `now` is of the monotonic clock.
pub fn run(world: &mut World, policy: &Policy, now: Duration) -> Plan {
    let mut plan = Plan::default();
    let mut turns = Turns::default();
    let mut back_off: Vec<GroupKey> = Vec::new();
    plan.binds = world.take_fulfilled(now);
    for key in world.take_candidates(now) {
        if !world.groups.contains_key(&key) {
            continue;
        }
        if world.is_foreign(&key) {
            world.ignore_foreign(&key);
            continue;
        }
        match prepare(world, policy, &key, now) {
            Ok(Some((queue, rank, want))) => turns.push(queue, rank, want),
            Ok(None) => {}
            Err(refusal) => {
                if matches!(refusal, Refusal::Backoff { .. }) {
                    back_off.push(key.clone());
                }
                refuse(world, &key, &Arc::new(refusal));
            }
        }
        plan.tried.push(key);
    }
    let contend = turns.contend();
    if contend {
        world.share_out();
    }
    turns.rank_all(world);
    let mut first: BTreeMap<Arc<str>, GroupKey> = BTreeMap::new();
    let mut unplaced = Vec::new();
    while let Some((queue, rank, want)) = turns.pop() {
        // A partially bound gang is finished first, whatever its rank.
        let partially_bound = want.gang.needed > 0 && world.is_partially_bound(&want.key);
        if let Some(first) = first.get(&queue).filter(|_| !partially_bound) {
            world.revoke_admission(&want.key);
            refuse(world, &want.key, &Arc::new(Refusal::Behind { first: first.clone() }));
        } else {
            let key = want.key.clone();
            match take_turn(world, policy, &queue, want, now, &mut plan, &mut unplaced) {
                Turn::Over => {}
                Turn::Again(want) => turns.push(Arc::clone(&queue), rank, *want),
                Turn::First => _ = first.insert(Arc::clone(&queue), key),
            }
        }
        if contend {
            // The turn may have revoked an admission and so changed a demand; the ranks need shares.
            world.share_out_if_unknown();
        }
        turns.rank(&queue, world);
    }
    let whole = |group: &Unplaced| group.all_or_none.then(|| group.key.clone());
    let gangs: Vec<GroupKey> = unplaced.iter().filter_map(whole).chain(back_off).collect();
    preemption::attempt_all(world, policy, unplaced, now, &mut plan);
    if policy.evictions {
        plan.evictions.extend(gangs.iter().filter_map(|key| world.evict_partial_gang(key, now, policy.release)));
    }
    world.notice_unfilled();
    plan
}

/// Returns what the PodGroup wants in this cycle; none where it wants nothing.
fn prepare(world: &mut World, policy: &Policy, key: &GroupKey, now: Duration) -> Result<Option<Ready>, Refusal> {
    refuse_blocked(world, key);
    world.notice_attempt(key);
    let Some(group) = world.groups.get(key) else { return Ok(None) };
    let Some(facts) = group.facts.clone() else {
        return if group.waiting.is_empty() { Ok(None) } else { Err(Refusal::NoGroup { name: Arc::clone(&key.name) }) };
    };
    let has_all = group.waiting.is_empty() && gang::has_its_places(group, &facts);
    check_queue(world, key, &facts, has_all)?;
    check_time(world, policy, key, now)?;
    check_nomination(world, key, &facts)?;
    if has_all {
        world.satisfied(key);
        let unanswered = world.unanswered(key);
        world.judge_group(key, unanswered);
        return Ok(None);
    }
    let want = want(world, key, &facts)?;
    let Some(group) = world.groups.get(key) else { return Ok(None) };
    let rank = world.rank(group, &facts);
    Ok(Some((Arc::from(facts.queue.as_str()), rank, want)))
}

/// Refuses a PodGroup that cannot be placed as it is, and revokes an admission that its queue does not allow any more.
fn check_queue(world: &mut World, key: &GroupKey, facts: &GroupFacts, has_all: bool) -> Result<(), Refusal> {
    // A PodGroup with all its nodes and without a waiting pod keeps them, whatever became of its queue (O2).
    if !has_all && let Some(refusal) = unusable(world, facts) {
        world.revoke_admission(key);
        return Err(refusal);
    }
    // A5: before the turn of another PodGroup that could use this reservation.
    let satisfied = world.groups.get(key).is_none_or(|group| gang::is_satisfied(group, facts));
    if !satisfied && world.books.quota().closed_by(&facts.queue).is_some() {
        world.revoke_admission(key);
    }
    Ok(())
}

/// Refuses a PodGroup that backs off after a failed bind or eviction.
fn check_time(world: &mut World, policy: &Policy, key: &GroupKey, now: Duration) -> Result<(), Refusal> {
    let Some(group) = world.groups.get(key) else { return Ok(()) };
    // Where no pod waits there is nothing to be tried again: members are missing.
    if group.retry.at.is_none_or(|at| at <= now) || group.waiting.is_empty() {
        return Ok(());
    }
    // A gang that was placed and had failed binds has no earlier refusal.
    let lack = group.refusal.as_deref().and_then(Refusal::lack);
    let refusal = Refusal::Backoff { step: group.retry.step, why: group.retry.why.clone(), failures: group.retry.failures, lack };
    world.limit_reservation_while_refused(key, now, policy.admission_timeout);
    Err(refusal)
}

/// Refuses a nominated PodGroup. One that has its minimum waits only for the nominated members; the others are placed as usual.
fn check_nomination(world: &World, key: &GroupKey, facts: &GroupFacts) -> Result<(), Refusal> {
    let all_wait = |group: &world::Group| group.waiting.is_empty() || !gang::is_satisfied(group, facts);
    match world.nominated(key) {
        Some(waits) if world.groups.get(key).is_some_and(all_wait) => Err((**waits).clone()),
        Some(_) | None => Ok(()),
    }
}

/// Returns what the PodGroup needs together, and its waiting members in order.
fn want(world: &mut World, key: &GroupKey, facts: &GroupFacts) -> Result<Want, Refusal> {
    let Some(group) = world.groups.get(key) else { return Ok(Want::new(key, Gang::default(), Vec::new())) };
    let mut want = match gang::resolve(world, group, facts) {
        Ok(gang) => {
            let members = gang::in_order(world, group, &gang);
            Want::new(key, gang, members)
        }
        // It waits until the scheduling gates are removed, which may take any time: it reserves nothing.
        Err(refusal) if group.counts.gated > 0 => {
            world.revoke_admission(key);
            return Err(refusal);
        }
        Err(refusal) => Want { incomplete: Some(refusal), ..Want::new(key, Gang::default(), Vec::new()) },
    };
    if group.is_idle() {
        // No pod waits, so there is nothing to report. Volcano's job controller creates the pods only after the admission of the PodGroup.
        want.incomplete = None;
    }
    Ok(want)
}

/// Returns why the PodGroup cannot be placed or admitted as it is, whatever is free.
fn unusable(world: &World, facts: &GroupFacts) -> Option<Refusal> {
    // A PodGroup without a waiting pod is not admitted either: none of its pods could ever use its reservation.
    if let Some(fault) = facts.faults.first() {
        return Some(Refusal::Faulty(fault.clone()));
    }
    if facts.network_topology {
        return Some(Refusal::NetworkTopology);
    }
    if facts.sub_groups {
        return Some(Refusal::SubGroups);
    }
    if let Err(fault) = world.books.quota().path(&facts.queue) {
        return Some(Refusal::Queue(fault));
    }
    let (queue, field) = world.node_groups(&facts.queue)?;
    Some(Refusal::NodeGroups { queue, field })
}

/// Records that the PodGroup and each waiting member wait for this reason.
fn refuse(world: &mut World, key: &GroupKey, refusal: &Arc<Refusal>) {
    let waiting: Vec<_> = world.groups.get(key).map(|group| group.waiting.iter().cloned().collect()).unwrap_or_default();
    for uid in waiting {
        world.refuse_pod(&uid, Some(refusal));
    }
    let exists = world.groups.get(key).is_some_and(|group| group.facts.is_some());
    world.judge_group(key, exists.then(|| Arc::clone(refusal)));
}

/// Records why blocked members can never be placed as they are, whatever their PodGroup does.
fn refuse_blocked(world: &mut World, key: &GroupKey) {
    let blocked: Vec<_> = world.groups.get(key).map(|group| group.blocked.iter().cloned().collect()).unwrap_or_default();
    for uid in blocked {
        let refusal = world.pods.get(&uid).and_then(world::Member::blocked).map(Arc::new);
        world.refuse_pod(&uid, refusal.as_ref());
    }
}

#[cfg(test)]
mod admission_tests;
#[cfg(test)]
mod duel;
#[cfg(test)]
mod predicates_tests;
#[cfg(test)]
mod preemption_retries_tests;
#[cfg(test)]
mod preemption_tests;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod refused_tests;
#[cfg(test)]
mod release_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waking_tests;
#[cfg(test)]
mod woken_tests;
