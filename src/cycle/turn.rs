//! What does a group get when it is its turn? Admission, then its gang whole, or one further member.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::{self, Rule};

use super::claim::Unplaced;
use super::explain::Refusal;
use super::gang::Gang;
use super::place::{self, Attempt};
use super::plan::Plan;
use super::policy::Policy;
use super::world::World;
use super::{Want, admit, refuse};

/// How a turn ended.
pub(super) enum Turn {
    /// Nothing is left to do for the group.
    Over,
    /// It has further members to place.
    Again(Box<Want>),
    /// It waits for room, and whoever comes after it in a fifo queue waits for it (A6).
    First,
}

/// One turn of a group: admission, and then its gang whole, or one further member.
pub(super) fn take_turn(
    world: &mut World,
    policy: &Policy,
    queue: &Arc<str>,
    mut want: Want,
    now: Duration,
    plan: &mut Plan,
    unplaced: &mut Vec<Unplaced>,
) -> Turn {
    let Some(group) = world.groups.get(&want.key) else { return Turn::Over };
    let Some(facts) = group.facts.clone() else { return Turn::Over };
    let (last, holds, reserved) = (group.retry.last.clone(), group.holds.clone(), world.reserved(group).clone());
    let needed = want.gang.needed;
    let first = want.gang.tasks.values().fold(0_u32, |sum, missing| sum.saturating_add(*missing));
    let members = want.members.get(want.next..).unwrap_or_default();
    let attempt = Attempt { queue, members, needed, first: 0, preemptable: facts.preemptable, last: &last, holds: holds.as_deref() };
    if members.is_empty() || needed > 0 {
        let gang_members = members.get(..usize::try_from(needed).unwrap_or(usize::MAX)).unwrap_or(members);
        let minimum = match admit::admit(world, &want.key, gang_members) {
            Ok(minimum) => minimum,
            Err(refusal) => {
                if rules::holds(Rule::A5Closed) || !matches!(refusal, Refusal::Closed { .. }) {
                    world.pend(&want.key);
                }
                // Where only amounts are in the way, others may go for it: in a queue that is full of lower priorities nobody is admitted before one of those goes. And
                // what it is owed may be more tomorrow, though nothing becomes free.
                if matches!(refusal, Refusal::Ceiling(_)) {
                    unplaced.push(Unplaced::gang(&want.key, queue, members, [needed, first], false));
                }
                // Without it who comes after it would have room, and then this one, too, and so on for ever.
                if members.is_empty() && world.is_resting(&want.key, now) {
                    refuse(world, &want.key, &Arc::new(refusal));
                    return Turn::Over;
                }
                return waits(world, queue, &want, refusal);
            }
        };
        if members.is_empty() {
            world.reserve(&want.key, minimum, now, policy.patience);
            match want.incomplete.take() {
                // It waits for its members and not for room, so nobody waits for it.
                Some(refusal) if !rules::holds(Rule::A6Members) => return waits(world, queue, &want, refusal),
                Some(refusal) => refuse(world, &want.key, &Arc::new(refusal)),
                None => world.judge_group(&want.key, None),
            }
            return Turn::Over;
        }
        match place::place(world, policy.placement, &Attempt { first, ..attempt }) {
            Err(refusal) => {
                world.reserve(&want.key, minimum, now, policy.patience);
                unplaced.push(Unplaced::gang(&want.key, queue, members, [needed, first], true));
                return waits(world, queue, &want, refusal);
            }
            Ok(placements) => {
                world.free_surplus(&want.key, &reserved, &placements);
                plan.binds.extend(world.assume_all(&want.key, &placements, None));
            }
        }
        world.satisfied(&want.key);
        want.gang = Gang::default();
        want.members.retain(|uid| world.pods.get(uid).is_some_and(|member| member.assumed.is_none()));
        want.next = 0;
    } else {
        let one = members.get(..1).unwrap_or_default();
        match place::place(world, policy.placement, &Attempt { members: one, needed: 1, ..attempt }) {
            Err(refusal) => {
                let refusal = Arc::new(refusal);
                for uid in one {
                    world.refuse_pod(uid, Some(&refusal));
                }
                want.refusal.get_or_insert(refusal);
                want.unplaced.extend(one.iter().cloned());
            }
            Ok(placements) => {
                let minimum = Some(facts.min_member).filter(|minimum| *minimum > 1);
                plan.binds.extend(world.assume_all(&want.key, &placements, minimum));
            }
        }
        want.next = want.next.saturating_add(1);
    }
    if want.next < want.members.len() {
        return Turn::Again(Box::new(want));
    }
    world.satisfied(&want.key);
    let Some(refusal) = want.refusal.take() else {
        let waits = world.nominated(&want.key).cloned();
        world.judge_group(&want.key, waits);
        return Turn::Over;
    };
    let comes_first = is_first(world, queue, &want);
    world.judge_group(&want.key, Some(refusal));
    if world.nominated(&want.key).is_none() {
        unplaced.push(Unplaced::further(&want.key, queue, want.unplaced));
    }
    if comes_first { Turn::First } else { Turn::Over }
}

/// The group found no room in its turn.
fn waits(world: &mut World, queue: &str, want: &Want, refusal: Refusal) -> Turn {
    let comes_first = is_first(world, queue, want);
    refuse(world, &want.key, &Arc::new(refusal));
    if comes_first { Turn::First } else { Turn::Over }
}

/// Whether whoever comes after the group in its queue waits for it: while the queue is fifo and the group could ever fit (A6).
fn is_first(world: &World, queue: &str, want: &Want) -> bool {
    rules::holds(Rule::A6) && world.is_fifo(queue) && {
        let least = admit::least(world, &want.key, &want.members, want.gang.needed);
        !rules::holds(Rule::A6Ever) || world.books.quota().ever_fits(queue, &least)
    }
}
