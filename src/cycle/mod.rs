//! One scheduling cycle: who gets which node now, and why does everybody else wait?
//!
//! ```text
//!  World ──▶ candidates ──▶ gang ──▶ order ──▶ admit ──▶ place (filter, score, trial) ──▶ Plan
//!            dirty groups,  what is  whose     below     all that is needed, or nobody     binds,
//!            or, if some-   needed   turn      every                                       and every
//!            thing was      together it is     ceiling?                                    refusal's
//!            gained, all    now?                                                           reason
//! ```
//!
//! Reading order: [`world`] (what is known), [`gang`], [`order`], [`admit`], [`place`](mod@self::place), [`filter`], [`view`] (and `board`) and [`score`],
//! [`explain`], [`plan`], and what is told to people: [`status`] and [`queue_status`].
//!
//! Promises, cited by the tests:
//!
//! * **C1** no plan puts a node over its allocatable, in a dimension that the pod asks for, or a queue or an ancestor over its capability, takes what is
//!   kept for the guarantee of another queue, or places anybody in a queue that is closed or broken;
//! * **C2** a gang that is not satisfied is placed with all that it needs, or not at all;
//! * **C3** the same facts give the same plan, whatever the order in which they came;
//! * **C4** the books are right after every step: the audit is clean.
//!
//! **Architecture invariant:** pure. Time is an argument, no order comes from a hash, nothing is logged, nothing fails.

#![cfg_attr(not(test), deny(clippy::float_arithmetic, clippy::arithmetic_side_effects))]

pub mod admit;
mod board;
pub mod class;
pub mod explain;
pub mod filter;
pub mod gang;
pub mod nodes;
pub mod order;
mod place;
pub mod plan;
pub mod queue_status;
pub mod score;
pub mod share;
pub mod status;
#[cfg(test)]
pub(crate) mod testing;
pub mod view;
pub mod world;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use crate::api::pod_facts::PodFacts;
use crate::api::{GroupKey, Uid};
use crate::runtime::flags::Placement;

use explain::Refusal;
use gang::Gang;
use order::{GroupRank, Turns};
use place::Attempt;
use plan::{Bind, Plan};
use world::World;

/// A group that waits for its turn.
#[derive(Debug)]
struct Want {
    key: GroupKey,
    gang: Gang,
    /// Its waiting members, in the order in which they are placed.
    members: Vec<Uid>,
    /// How many of the members had their turn: for a satisfied group, which places one in a turn.
    next: usize,
    /// Why a member found no place in an earlier turn.
    refusal: Option<Arc<Refusal>>,
}

/// A group whose turn will come: its queue, its place there, and what it wants.
type Ready = (Arc<str>, GroupRank, Want);

/// A group that gets no turn, and whether it is admitted all the same.
struct Refused {
    admitted: bool,
    why: Box<Refusal>,
}

impl Refused {
    fn yet_admitted(why: Refusal) -> Self {
        Self { admitted: true, why: Box::new(why) }
    }
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Self { admitted: false, why: Box::new(why) }
    }
}

/// Looks at every group that something may have changed for, places what can be placed, and charges it. `now` is of the monotonic clock.
pub fn run(world: &mut World, policy: Placement, now: Duration) -> Plan {
    let mut plan = Plan::default();
    let mut turns = Turns::default();
    for key in world.take_candidates(now) {
        if !world.groups.contains_key(&key) {
            continue;
        }
        match prepare(world, &key, now) {
            Ok(Some((queue, rank, want))) => turns.push(queue, rank, want),
            Ok(None) => {}
            Err(Refused { admitted, why }) => refuse(world, &key, admitted, &Arc::new(*why)),
        }
        plan.looked_at.push(key);
    }
    if turns.contend() {
        world.share_out();
    }
    turns.rank_all(world);
    while let Some((queue, rank, want)) = turns.pop() {
        if let Some(want) = take_turn(world, policy, &queue, want, &mut plan) {
            turns.push(Arc::clone(&queue), rank, want);
        }
        turns.rank(&queue, world);
    }
    plan
}

/// What the group wants in this cycle; nothing where nobody waits.
fn prepare(world: &mut World, key: &GroupKey, now: Duration) -> Result<Option<Ready>, Refused> {
    refuse_blocked(world, key);
    let Some(group) = world.groups.get(key) else { return Ok(None) };
    let Some(facts) = group.facts.clone() else {
        return if group.waiting.is_empty() { Ok(None) } else { Err(Refusal::NoGroup { name: Arc::clone(&key.name) }.into()) };
    };
    if let Some(fault) = facts.faults.first().filter(|_| !group.waiting.is_empty()) {
        return Err(Refusal::Faulty(fault.clone()).into());
    }
    if facts.network_topology && !group.waiting.is_empty() {
        return Err(Refusal::NetworkTopology.into());
    }
    if let Err(fault) = world.books.quota().path(&facts.queue) {
        return Err(Refusal::Queue(fault).into());
    }
    if group.retry.at.is_some_and(|at| at > now) {
        let retry = &group.retry;
        return Err(Refused::yet_admitted(Refusal::Backoff { why: retry.why.clone(), failures: retry.failures }));
    }
    let gang = match gang::resolve(world, group, &facts) {
        Ok(gang) => gang,
        Err(_) if group.is_idle() => {
            // Nobody waits, so there is nothing to complain about. Volcano's job controller makes the pods only once the group is admitted.
            let admitted = admit::admit(world, group, &facts, &[]);
            world.judge_group(key, admitted.is_ok(), admitted.err().map(Arc::new));
            return Ok(None);
        }
        Err(refusal) => {
            // A group that has not all its pods yet is admitted all the same.
            admit::admit(world, group, &facts, &[])?;
            return Err(Refused::yet_admitted(refusal));
        }
    };
    if group.waiting.is_empty() {
        // A group that has its places keeps them, whatever became of its queue since (O2).
        let satisfied = group.counts.placed > 0 || group.counts.succeeded > 0;
        let refusal = if satisfied { None } else { admit::admit(world, group, &facts, &[]).err() };
        world.judge_group(key, refusal.is_none(), refusal.map(Arc::new));
        return Ok(None);
    }
    let oldest = group.waiting.iter().filter_map(|uid| world.pods.get(uid)).map(|member| member.facts.created).min();
    let rank = GroupRank { priority: Reverse(world.priority(group)), oldest: oldest.unwrap_or(facts.created), key: key.clone() };
    let members = gang::in_order(world, group, &gang);
    Ok(Some((Arc::from(facts.queue.as_str()), rank, Want { key: key.clone(), gang, members, next: 0, refusal: None })))
}

/// One turn of a group: its gang whole, or one further member. What it still wants then, if anything.
fn take_turn(world: &mut World, policy: Placement, queue: &str, mut want: Want, plan: &mut Plan) -> Option<Want> {
    let (facts, last) = {
        let group = world.groups.get(&want.key)?;
        (Arc::clone(group.facts.as_ref()?), group.retry.last.clone())
    };
    let needed = want.gang.needed;
    let members = want.members.get(want.next..).unwrap_or_default();
    if needed > 0 {
        let first = want.gang.tasks.values().fold(0_u32, |sum, missing| sum.saturating_add(*missing));
        let gang_members = members.get(..usize::try_from(needed).unwrap_or(usize::MAX)).unwrap_or(members);
        let group = world.groups.get(&want.key)?;
        if let Err(refusal) = admit::admit(world, group, &facts, gang_members) {
            refuse(world, &want.key, false, &Arc::new(refusal));
            return None;
        }
        match place::place(world, policy, &Attempt { queue, members, needed, first, preemptable: facts.preemptable, last: &last }) {
            Err(refusal) => {
                refuse(world, &want.key, true, &Arc::new(refusal));
                return None;
            }
            Ok(placements) => keep(world, &want.key, &placements, plan),
        }
        want.gang = Gang::default();
        want.members.retain(|uid| world.pods.get(uid).is_some_and(|member| member.assumed.is_none()));
        want.next = 0;
    } else {
        let one = members.get(..1).unwrap_or_default();
        match place::place(
            world,
            policy,
            &Attempt { queue, members: one, needed: 1, first: 0, preemptable: facts.preemptable, last: &last },
        ) {
            Err(refusal) => {
                let refusal = Arc::new(refusal);
                for uid in one {
                    world.refuse_pod(uid, Some(&refusal));
                }
                want.refusal.get_or_insert(refusal);
            }
            Ok(placements) => keep(world, &want.key, &placements, plan),
        }
        want.next = want.next.saturating_add(1);
    }
    if want.next < want.members.len() {
        return Some(want);
    }
    world.judge_group(&want.key, true, want.refusal);
    None
}

/// What the trial placed is assumed, and planned.
fn keep(world: &mut World, key: &GroupKey, placements: &[crate::accounting::Placement], plan: &mut Plan) {
    for placement in placements {
        world.assume(placement);
        let Some(facts): Option<Arc<PodFacts>> = world.pods.get(&placement.uid).map(|member| Arc::clone(&member.facts)) else { continue };
        plan.binds.push(Bind {
            uid: placement.uid.clone(),
            namespace: Arc::clone(&facts.namespace),
            name: Arc::clone(&facts.name),
            node: Arc::clone(&placement.node),
            queue: Arc::clone(&placement.queue),
            group: key.clone(),
        });
    }
}

/// The group waits, and each waiting member for the same reason.
fn refuse(world: &mut World, key: &GroupKey, admitted: bool, refusal: &Arc<Refusal>) {
    let waiting: Vec<_> = world.groups.get(key).map(|group| group.waiting.iter().cloned().collect()).unwrap_or_default();
    for uid in waiting {
        world.refuse_pod(&uid, Some(refusal));
    }
    let exists = world.groups.get(key).is_some_and(|group| group.facts.is_some());
    world.judge_group(key, admitted, exists.then(|| Arc::clone(refusal)));
}

/// Members that can never be placed as they are say so, whatever their group does.
fn refuse_blocked(world: &mut World, key: &GroupKey) {
    let blocked: Vec<_> = world.groups.get(key).map(|group| group.blocked.iter().cloned().collect()).unwrap_or_default();
    for uid in blocked {
        let refusal = world.pods.get(&uid).and_then(world::Member::blocked).map(Arc::new);
        world.refuse_pod(&uid, refusal.as_ref());
    }
}

#[cfg(test)]
mod promises;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;
