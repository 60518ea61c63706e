//! Who asks for the places of others in this cycle, and what becomes of it?
//!
//! After everybody had a turn, so that nobody goes for whom there was room. A group that found no places, or is kept out by amounts alone, asks again whenever something changed; a bounded
//! number asks in one cycle, those first that have not asked for longest, the others a moment later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};

use super::explain::Refusal;
use super::plan::{Plan, Taking};
use super::policy::Policy;
use super::reclaim::{self, Budgets, Claim, NotTaken};
use super::world::{MOST_CLAIMS, World};

/// A group that found no places in its turn.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) key: GroupKey,
    pub(super) queue: Arc<str>,
    /// The members that need places: all together, or, of a group that has its minimum, as many as can have one.
    pub(super) members: Vec<Uid>,
    pub(super) all_or_none: bool,
    /// Whether it is admitted, so that what it lacks is places.
    pub(super) admitted: bool,
}

impl Unplaced {
    /// A gang that needs places for all of these.
    pub(super) fn gang(key: &GroupKey, queue: &Arc<str>, members: &[Uid], admitted: bool) -> Self {
        Self { key: key.clone(), queue: Arc::clone(queue), members: members.to_vec(), all_or_none: true, admitted }
    }
}

/// Lets them ask, in the order of their turns.
pub(super) fn ask(world: &mut World, policy: &Policy, mut unplaced: Vec<Unplaced>, now: Duration, plan: &mut Plan) {
    unplaced.retain(|group| !world.was_answered(&group.key));
    if unplaced.is_empty() {
        return;
    }
    unplaced.sort_by_key(|group| world.asked_at(&group.key));
    world.share_out();
    let somebody_owes = world.somebody_owes();
    let mut left = MOST_CLAIMS;
    for group in unplaced {
        if left == 0 {
            world.asks_later(&group.key, now);
            continue;
        }
        world.asks(&group.key);
        if somebody_owes || world.has_lower(&group.key) {
            left = left.saturating_sub(1);
            take(world, policy, &group, now, plan);
        }
    }
}

/// One group asks: for all its members, and where each helps by itself for fewer, if not for all.
fn take(world: &mut World, policy: &Policy, group: &Unplaced, now: Duration, plan: &mut Plan) {
    let mut count = group.members.len();
    let mut why = None;
    while count > 0 {
        let members = group.members.get(..count).unwrap_or_default();
        let Some(answer) = find(world, policy, group, members) else { return };
        match answer {
            // What is leaving is enough, and its places are free soon.
            Ok(found) if found.victims.is_empty() => return,
            Ok(found) => return nominate(world, group, &found, now, plan),
            Err(not) => why = Some(not),
        }
        count = if group.all_or_none { 0 } else { count / 2 };
    }
    // Who is not admitted knows all that is in its way.
    if let Some(why) = why.filter(|why| group.admitted && why.says_something()) {
        world.explain_further(&group.key, &Arc::new(why));
    }
}

fn find(world: &mut World, policy: &Policy, group: &Unplaced, members: &[Uid]) -> Option<Result<reclaim::Taking, NotTaken>> {
    let known = world.groups.get(&group.key)?;
    let (last, holds) = (known.retry.last.clone(), known.holds.clone());
    let claim = Claim {
        group: &group.key,
        reservation: holds.as_deref().unwrap_or_default(),
        queue: &group.queue,
        members,
        priority: world.priority(known),
        preemptable: known.facts.as_ref().is_none_or(|facts| facts.preemptable),
        last: &last,
    };
    let room = world.budget_room();
    let of = |pod: &crate::api::PodFacts| room.of(pod);
    Some(reclaim::find(world, policy.placement, &claim, Budgets { left: room.left(), of: &of }))
}

fn nominate(world: &mut World, group: &Unplaced, found: &reclaim::Taking, now: Duration, plan: &mut Plan) {
    let place = |(uid, node): &(Uid, Arc<str>)| {
        let resources = world.pods.get(uid)?.facts.request.clone();
        Some(Placement { uid: uid.clone(), node: Arc::clone(node), queue: Arc::clone(&group.queue), resources })
    };
    let places: Vec<Placement> = found.places.iter().filter_map(place).collect();
    let queues: BTreeSet<&str> = found.victims.iter().filter_map(|uid| world.books.pod(uid)?.queue).collect();
    let taking = if queues.iter().all(|queue| **queue == *group.queue) { Taking::Preemption } else { Taking::Reclaim };
    let until = world.nomination_deadline(&found.victims, now);
    if let Some(eviction) = world.nominate(&group.key, &places, &found.victims, taking, until) {
        plan.evictions.push(eviction);
    }
}

impl World {
    /// Whether a queue uses more than its share of anything.
    fn somebody_owes(&self) -> bool {
        let Some(shares) = self.shares() else { return false };
        let quota = self.books().quota();
        quota.queues().any(|queue| shares.over(queue.name, queue.used).next().is_some())
    }

    /// Whether a pod of lower priority than the group may have its place anywhere. If not, nobody of its own queue goes for it (R11), and nobody is looked through to
    /// find that out.
    fn has_lower(&self, key: &GroupKey) -> bool {
        // A class may bring a pod lower than it says itself.
        let lowest = self.placed.lowest().into_iter().chain(self.priority_classes.values().copied()).min();
        self.groups.get(key).is_some_and(|group| lowest.is_some_and(|lowest| lowest < self.priority(group)))
    }

    /// What stands in the group's way is told with why nobody goes for it.
    fn explain_further(&mut self, key: &GroupKey, why: &Arc<NotTaken>) {
        let Some(group) = self.groups.get(key) else { return };
        let Some(refusal) = group.refusal.clone() else { return };
        let refusal = Arc::new(Refusal::Kept { refusal, why: Arc::clone(why) });
        let waiting: Vec<Uid> = group.waiting.iter().cloned().collect();
        for uid in waiting {
            self.refuse_pod(&uid, Some(&refusal));
        }
        self.judge_group(key, Some(refusal));
    }
}
