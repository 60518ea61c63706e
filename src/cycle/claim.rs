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
use super::misfits;
use super::plan::{Plan, Taking};
use super::policy::Policy;
use super::reclaim::{self, Budgets, Claim, NotTaken};
use super::world::{Group, MOST_PREEMPTION_ATTEMPTS, PreemptionOutcome, World};

/// A group that found no places in its turn.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) key: GroupKey,
    pub(super) queue: Arc<str>,
    /// The members that could be placed, in their order; none where it only waits for admission.
    pub(super) members: Vec<Uid>,
    /// How many of them need places.
    pub(super) needed: usize,
    /// The first so many are among those, because their task needs them.
    pub(super) first: usize,
    /// Whether all that are needed must find places together, or, of a group that has its minimum, as many as can have one.
    pub(super) all_or_none: bool,
    /// Whether it is admitted, so that what it lacks is places.
    pub(super) admitted: bool,
}

impl Unplaced {
    /// A gang that needs places for so many of these, among them the first ones.
    pub(super) fn gang(key: &GroupKey, queue: &Arc<str>, members: &[Uid], [needed, first]: [u32; 2], admitted: bool) -> Self {
        let [needed, first] = [needed, first].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Self { key: key.clone(), queue: Arc::clone(queue), members: members.to_vec(), needed, first, all_or_none: true, admitted }
    }

    /// Further members of a group that has its minimum.
    pub(super) fn further(key: &GroupKey, queue: &Arc<str>, members: Vec<Uid>) -> Self {
        let needed = members.len();
        Self { key: key.clone(), queue: Arc::clone(queue), members, needed, first: 0, all_or_none: false, admitted: true }
    }
}

/// Lets them ask, in the order of their turns.
pub(super) fn ask(world: &mut World, policy: &Policy, mut unplaced: Vec<Unplaced>, now: Duration, plan: &mut Plan) {
    world.forget_needless_retries(unplaced.iter().map(|group| &group.key));
    if unplaced.iter().any(|group| !world.has_current_outcome(&group.key)) {
        world.share_out();
    }
    unplaced.sort_by_key(|group| world.preemption_attempted_at(&group.key));
    let somebody_owes = policy.evictions && world.somebody_owes();
    let mut left = MOST_PREEMPTION_ATTEMPTS;
    for group in &unplaced {
        let asks = policy.evictions && !group.members.is_empty() && (somebody_owes || world.has_lower(&group.key));
        if world.has_current_outcome(&group.key) {
        } else if asks && left == 0 {
            world.postpone_preemption(&group.key);
        } else {
            // Before it is known what comes of it: who is nominated changes the answers of others, and not its own.
            world.record_preemption(&group.key, PreemptionOutcome::default());
            if asks {
                left = left.saturating_sub(1);
                let answer = take(world, policy, group, now, plan);
                world.record_preemption(&group.key, answer);
            }
        }
        let Some(answer) = world.preemption_outcome(&group.key).cloned() else { continue };
        if policy.evictions && !answer.has_hope() && group.admitted && world.has_current_outcome(&group.key) {
            world.preempted_in_vain(&group.key, now, policy.patience);
        }
        // Who is not admitted knows all that is in its way.
        if let Some(why) = answer.why.filter(|_| group.admitted) {
            world.explain_further(&group.key, &why);
        }
    }
}

/// One group asks: for all its members, and where each helps by itself for fewer, if not for all.
fn take(world: &mut World, policy: &Policy, group: &Unplaced, now: Duration, plan: &mut Plan) -> PreemptionOutcome {
    let mut count = group.needed;
    let (mut why, mut soon) = (None, false);
    while count > 0 {
        let find = |world: &mut World, members: &[Uid]| find(world, policy, group, members);
        let Some(answer) = misfits::search(world, &group.members, count, group.first, find) else { break };
        match answer {
            Ok(found) => {
                // What is leaving is enough where nobody is to go, and its places are free soon.
                if !found.victims.is_empty() {
                    nominate(world, group, &found, now, plan);
                }
                return PreemptionOutcome { why: None, leaving: true, soon };
            }
            Err(not) => {
                soon |= not.is_soon();
                why = Some(not);
            }
        }
        count = if group.all_or_none { 0 } else { count / 2 };
    }
    PreemptionOutcome { why: why.filter(NotTaken::says_something).map(Arc::new), leaving: false, soon }
}

fn find(world: &mut World, policy: &Policy, group: &Unplaced, members: &[Uid]) -> Option<Result<reclaim::Taking, NotTaken>> {
    let known = world.groups.get(&group.key)?;
    let (last, holds) = (known.retry.last.clone(), known.reservation.clone());
    let claim = Claim {
        group: &group.key,
        reservation: holds.as_deref().unwrap_or_default(),
        queue: &group.queue,
        members,
        priority: world.asks_with(known, group, members),
        preemptable: known.facts.as_ref().is_none_or(|facts| facts.preemptable),
        last: &last,
    };
    let mild = world.goes_without(known, members);
    if let Some(why) = mild.clone().filter(|_| world.terminating_or_victims().is_empty()) {
        return Some(Err(why));
    }
    let room = world.budget_room();
    let of = |pod: &crate::api::PodFacts| room.of(pod);
    let answer = reclaim::find(world, policy.placement, &claim, Budgets { left: room.left(), of: &of });
    Some(match (answer, mild) {
        // Who leaves anyhow it may wait for.
        (Ok(found), Some(why)) if !found.victims.is_empty() => Err(why),
        (Err(_), Some(why)) => Err(why),
        (answer, _) => answer,
    })
}

fn nominate(world: &mut World, group: &Unplaced, found: &reclaim::Taking, now: Duration, plan: &mut Plan) {
    let place = |(uid, node): &(Uid, Arc<str>)| {
        let resources = world.pods.get(uid)?.facts.request.clone();
        Some(Placement { uid: uid.clone(), node: Arc::clone(node), queue: Arc::clone(&group.queue), resources })
    };
    let places: Vec<Placement> = found.places.iter().filter_map(place).collect();
    let queues: BTreeSet<&str> = found.victims.iter().filter_map(|uid| world.books.pod(uid)?.queue).collect();
    let taking = if queues.iter().all(|queue| **queue == *group.queue) { Taking::Preemption } else { Taking::Reclaim };
    let until = world.nomination_deadline(&places, &found.victims, now);
    if let Some(eviction) = world.nominate(&group.key, &places, &found.victims, taking, until) {
        plan.evictions.push(eviction);
    }
}

impl World {
    /// Whether a queue uses more than its share of anything.
    pub(in crate::cycle) fn somebody_owes(&self) -> bool {
        let Some(shares) = self.shares() else { return false };
        let quota = self.books().quota();
        quota.queues().any(|queue| shares.over(queue.name, queue.used).next().is_some())
    }

    /// Whether a pod of lower priority than the group may have its place anywhere. If not, nobody of its own queue goes for it (R11), and nobody is looked through to
    /// find that out.
    fn has_lower(&self, key: &GroupKey) -> bool {
        self.groups.get(key).is_some_and(|group| self.lowest_priority().is_some_and(|lowest| lowest < self.priority(group)))
    }

    /// Returns the lowest priority with which a pod may count that has a node; none where there is none.
    pub(in crate::cycle) fn lowest_priority(&self) -> Option<i32> {
        // A class may bring a pod lower than it says itself.
        self.placed.lowest().copied().into_iter().chain(self.priority_classes.values().map(|class| class.value)).min()
    }

    /// The priority with which these members ask (R8): that of the class that the group names, else the highest among a gang's, which keep each other's places (R6), and of
    /// further members the lowest, for each of them goes alone. With a higher one they would take what is taken from them again, and so on for ever.
    fn asks_with(&self, group: &Group, asks: &Unplaced, members: &[Uid]) -> i32 {
        let own = members.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.priority);
        let of_members = || if asks.all_or_none { own.max() } else { own.min() };
        self.class_of(group).map(|class| class.value).or_else(of_members).unwrap_or(0)
    }

    /// Why nobody is to go for these members of the group (R13); none where others may.
    fn goes_without(&self, group: &Group, members: &[Uid]) -> Option<NotTaken> {
        let class = self.class_of(group).filter(|class| !class.preempts).map(|class| class.name.clone());
        let mild = |uid: &Uid| self.pods.get(uid).is_some_and(|member| !member.facts.preempts);
        (class.is_some() || members.iter().any(mild)).then_some(NotTaken::Never { class })
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
        self.explain_group(key, refusal);
    }
}
