//! Which PodGroups attempt a preemption in this cycle, and with which outcome?
//!
//! Preemptions follow the turns, so that no pod is evicted where there was room. A PodGroup that found no nodes, or that only amounts keep
//! out, tries again whenever something changed. A bounded number of attempts is made in one cycle, the oldest outcomes first; the others
//! follow a moment later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};

use super::explain::Refusal;
use super::misfits;
use super::plan::{EvictionCause, Plan};
use super::policy::Policy;
use super::reclaim::{self, Budgets, NotPreempted, Preemptor};
use super::world::{Group, MOST_PREEMPTION_ATTEMPTS, PreemptionOutcome, World};

/// A PodGroup that found no nodes in its turn.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) key: GroupKey,
    pub(super) queue: Arc<str>,
    /// The members that could be placed, in their order; none where it only waits for admission.
    pub(super) members: Vec<Uid>,
    /// The number of members that need nodes.
    pub(super) needed: usize,
    /// The number of first members that must be among them, because their task needs them.
    pub(super) first: usize,
    /// Whether all needed members must be placed together; a PodGroup with its minimum places as many further members as possible.
    pub(super) all_or_none: bool,
    /// Whether it is admitted, so that it lacks nodes.
    pub(super) admitted: bool,
}

impl Unplaced {
    /// Creates a gang that needs nodes for so many of these members, among them the first ones.
    pub(super) fn gang(key: &GroupKey, queue: &Arc<str>, members: &[Uid], [needed, first]: [u32; 2], admitted: bool) -> Self {
        let [needed, first] = [needed, first].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Self { key: key.clone(), queue: Arc::clone(queue), members: members.to_vec(), needed, first, all_or_none: true, admitted }
    }

    /// Creates the further members of a PodGroup that has its minimum.
    pub(super) fn further(key: &GroupKey, queue: &Arc<str>, members: Vec<Uid>) -> Self {
        let needed = members.len();
        Self { key: key.clone(), queue: Arc::clone(queue), members, needed, first: 0, all_or_none: false, admitted: true }
    }
}

/// Attempts preemptions for these PodGroups, the oldest outcomes first.
pub(super) fn attempt_all(world: &mut World, policy: &Policy, mut unplaced: Vec<Unplaced>, now: Duration, plan: &mut Plan) {
    world.forget_needless_retries(unplaced.iter().map(|group| &group.key));
    if unplaced.iter().any(|group| !world.has_current_outcome(&group.key)) {
        world.share_out();
    }
    unplaced.sort_by_key(|group| world.preemption_attempted_at(&group.key));
    let any_over_share = policy.evictions && world.any_queue_over_share();
    let mut left = MOST_PREEMPTION_ATTEMPTS;
    for group in &unplaced {
        let may_preempt = policy.evictions && !group.members.is_empty() && (any_over_share || world.has_lower_priority_pod(&group.key));
        if world.has_current_outcome(&group.key) {
        } else if may_preempt && left == 0 {
            world.postpone_preemption(&group.key);
        } else {
            // Recorded before the attempt: a nomination outdates the outcomes of other PodGroups, and not its own.
            world.record_preemption(&group.key, PreemptionOutcome::default());
            if may_preempt {
                left = left.saturating_sub(1);
                let outcome = attempt(world, policy, group, now, plan);
                world.record_preemption(&group.key, outcome);
            }
        }
        let Some(outcome) = world.preemption_outcome(&group.key).cloned() else { continue };
        if policy.evictions && !outcome.has_hope() && group.admitted && world.has_current_outcome(&group.key) {
            world.preempted_in_vain(&group.key, now, policy.admission_timeout);
        }
        // The refusal of a PodGroup that is not admitted is complete already.
        if let Some(why) = outcome.why.filter(|_| group.admitted) {
            world.explain_no_preemption(&group.key, &why);
        }
    }
}

/// Attempts a preemption for all members; where single members help, too, then for fewer.
fn attempt(world: &mut World, policy: &Policy, group: &Unplaced, now: Duration, plan: &mut Plan) -> PreemptionOutcome {
    let mut count = group.needed;
    let (mut why, mut soon) = (None, false);
    while count > 0 {
        let find = |world: &mut World, members: &[Uid]| find(world, policy, group, members);
        let Some(outcome) = misfits::search(world, &group.members, count, group.first, find) else { break };
        match outcome {
            Ok(found) => {
                // Where no victim is needed, terminating pods are enough, and their room is free soon.
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
    PreemptionOutcome { why: why.filter(NotPreempted::says_something).map(Arc::new), leaving: false, soon }
}

fn find(world: &mut World, policy: &Policy, group: &Unplaced, members: &[Uid]) -> Option<Result<reclaim::Preemption, NotPreempted>> {
    let known = world.groups.get(&group.key)?;
    let (last, reservation) = (known.retry.last.clone(), known.reservation.clone());
    let preemptor = Preemptor {
        group: &group.key,
        reservation: reservation.as_deref().unwrap_or_default(),
        queue: &group.queue,
        members,
        priority: world.preemption_priority(known, group, members),
        preemptable: known.facts.as_ref().is_none_or(|facts| facts.preemptable),
        last: &last,
    };
    let never = world.never_preempts(known, members);
    if let Some(why) = never.clone().filter(|_| world.terminating_or_victims().is_empty()) {
        return Some(Err(why));
    }
    let room = world.budget_room();
    let of = |pod: &crate::api::PodFacts| room.of(pod);
    let outcome = reclaim::find(world, policy.placement, &preemptor, Budgets { left: room.left(), of: &of });
    Some(match (outcome, never) {
        // It may still wait for terminating pods.
        (Ok(found), Some(why)) if !found.victims.is_empty() => Err(why),
        (Err(_), Some(why)) => Err(why),
        (outcome, _) => outcome,
    })
}

fn nominate(world: &mut World, group: &Unplaced, found: &reclaim::Preemption, now: Duration, plan: &mut Plan) {
    let place = |(uid, node): &(Uid, Arc<str>)| {
        let resources = world.pods.get(uid)?.facts.request.clone();
        Some(Placement { uid: uid.clone(), node: Arc::clone(node), queue: Arc::clone(&group.queue), resources })
    };
    let places: Vec<Placement> = found.places.iter().filter_map(place).collect();
    let queues: BTreeSet<&str> = found.victims.iter().filter_map(|uid| world.books.pod(uid)?.queue).collect();
    let cause = if queues.iter().all(|queue| **queue == *group.queue) { EvictionCause::Preemption } else { EvictionCause::Reclaim };
    let until = world.nomination_deadline(&places, &found.victims, now);
    if let Some(eviction) = world.nominate(&group.key, &places, &found.victims, cause, until) {
        plan.evictions.push(eviction);
    }
}

impl World {
    /// Whether a queue uses more than its share of anything.
    pub(in crate::cycle) fn any_queue_over_share(&self) -> bool {
        let Some(shares) = self.shares() else { return false };
        let quota = self.books().quota();
        quota.queues().any(|queue| shares.over(queue.name, queue.used).next().is_some())
    }

    /// Whether a pod with a node may have a lower priority than the PodGroup. If not, no pod of its own queue is a victim (R11), and no
    /// search is needed to find that out.
    fn has_lower_priority_pod(&self, key: &GroupKey) -> bool {
        self.groups.get(key).is_some_and(|group| self.lowest_priority().is_some_and(|lowest| lowest < self.priority(group)))
    }

    /// Returns the lowest priority that a pod with a node may have as a victim; none where no pod has a node.
    pub(in crate::cycle) fn lowest_priority(&self) -> Option<i32> {
        // A class may give a pod a lower priority than its own.
        self.placed.lowest().copied().into_iter().chain(self.priority_classes.values().map(|class| class.value)).min()
    }

    /// Returns the priority with which these members preempt (R8): that of the class of the PodGroup, else one of their own. A gang has
    /// the highest of its members, which are evicted together (R6). Further members have the lowest, because each is evicted alone. With a
    /// higher one, two PodGroups could preempt each other for ever.
    fn preemption_priority(&self, group: &Group, unplaced: &Unplaced, members: &[Uid]) -> i32 {
        let own = members.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.priority);
        let of_members = || if unplaced.all_or_none { own.max() } else { own.min() };
        self.class_of(group).map(|class| class.value).or_else(of_members).unwrap_or(0)
    }

    /// Returns why these members never preempt (R13); none where they may.
    fn never_preempts(&self, group: &Group, members: &[Uid]) -> Option<NotPreempted> {
        let class = self.class_of(group).filter(|class| !class.preempts).map(|class| class.name.clone());
        let never = |uid: &Uid| self.pods.get(uid).is_some_and(|member| !member.facts.preempts);
        (class.is_some() || members.iter().any(never)).then_some(NotPreempted::Never { class })
    }

    /// Adds to the refusal of the PodGroup why no pod is preempted for it.
    fn explain_no_preemption(&mut self, key: &GroupKey, why: &Arc<NotPreempted>) {
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
