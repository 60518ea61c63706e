//! Updates the cache when a PodGroup is added, changed or deleted, and counts its members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::pod_facts::PodPhase;
use crate::api::{GroupFacts, GroupKey, PriorityClassFacts, Uid};
use crate::by_key::ByKey;
use crate::cycle::explain::{Refusal, Step};
use crate::resources::Resources;

use super::gang::Count;
use super::partial_gang::PartialGang;
use super::phase::succeeded_enough;
use super::pods::{Member, State};
use super::reservation::{Admission, Rest};
use super::subgroups::Subgroups;
use super::successes::Successes;
use super::{Cache, Change, Phase};

/// A PodGroup with what follows from its members. It exists while the object exists or a pod names it.
#[derive(Debug, Default)]
pub struct Group {
    /// The facts of the object; none while there is no object.
    pub facts: Option<Arc<GroupFacts>>,
    /// All known members.
    pub members: BTreeSet<Uid>,
    /// The members that may be placed.
    pub waiting: BTreeSet<Uid>,
    /// The members with a request that the scheduler does not support.
    pub blocked: BTreeSet<Uid>,
    /// The number of members in each state.
    pub counts: Counts,
    /// The members of each task that have a node or succeeded, and have a pod.
    pub tasks: BTreeMap<String, u32>,
    /// The members of each subgroup.
    pub subgroups: Subgroups,
    /// The members that succeeded and whose pods are gone.
    pub successes: Successes,
    /// The resources of the members that have a node or a nominated node.
    pub charged: Resources,
    /// The resources that the waiting members request.
    pub asked: Resources,
    /// Whether it is admitted, and what it reserves.
    pub admission: Admission,
    /// Why it waits; none where it does not wait or no cycle has tried it.
    pub refusal: Option<Arc<Refusal>>,
    /// The outcome of its last binds.
    pub retry: Retry,
    /// What is known of a gang of which only a part is bound.
    pub(in crate::cycle) partial: PartialGang,
    /// Whether it had ended ([`has_ended`](super::phase::has_ended)) at the last change.
    pub(super) ended: bool,
    /// Whether it had all its nodes once, as far as this process has seen; see [`had_its_places`](super::gang::had_its_places).
    pub(super) had_its_places: bool,
    /// The queue and phase under which it is counted.
    pub(super) filed: Option<(Arc<str>, Phase)>,
    /// Its part of the demand of its queue.
    pub(super) demand: Option<(Arc<str>, Resources)>,
    /// The larger of its demand and its reservation. The shares are computed from this.
    pub(in crate::cycle) total_demand: Resources,
}

/// The number of members in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// With a node: bound or being bound, and not terminating.
    pub placed: u32,
    /// Without a node, with a nominated node.
    pub nominated: u32,
    /// With a node, and running.
    pub running: u32,
    /// Succeeded.
    pub succeeded: u32,
    /// Failed.
    pub failed: u32,
    /// Being bound: the API server has not confirmed yet.
    pub binding: u32,
    /// Being bound for long: neither the API server nor the watch has shown the outcome of the bind.
    pub open: u32,
    /// With a node, and held until the claims of its placement have volumes. They count as being bound, too.
    pub held: u32,
    /// Terminating: still on a node, but its gang cannot count on it.
    pub leaving: u32,
    /// Not schedulable yet, because of scheduling gates.
    pub gated: u32,
}

/// The back-off of a PodGroup after a refused bind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// The number of failed tries in a row.
    pub failures: u32,
    /// When a bind was refused first since the last accepted bind (monotonic); none where no bind was.
    pub since: Option<Duration>,
    /// When it is tried again (monotonic); none where nothing failed.
    pub at: Option<Duration>,
    /// The step that failed last.
    pub step: Step,
    /// The last reason of the API server, of a bounded set.
    pub why: String,
    /// The nodes that failed, which are tried last.
    pub last: BTreeSet<Arc<str>>,
}

impl Group {
    /// Whether it has no live member.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let live = [self.counts.placed, self.counts.nominated, self.counts.leaving, self.counts.gated];
        self.waiting.is_empty() && self.blocked.is_empty() && live == [0; 4]
    }

    /// Whether a member waits for a node or is nominated.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.counts.nominated > 0
    }

    /// Its owner tries again. If as many had succeeded as were to, what has no pod any more was for the last time. Else what failed or was lost
    /// is made again, and the successes count.
    fn begin_anew(&mut self) {
        self.ended = false;
        let is_enough = self.facts.as_ref().is_some_and(|facts| succeeded_enough(self, facts));
        if is_enough {
            self.successes.forget();
        }
        // Where successes count, what failed is made again, and the rest was reserved before (A4).
        if is_enough || self.counts.succeeded == 0 && self.successes.number() == 0 {
            self.admission.rest = Rest::Owed;
        }
    }

    /// A pod of it comes that was not known. Where all others are gone, also those that succeeded, all of it is made again. A Job says itself
    /// how many are still to succeed.
    pub(super) fn comes(&mut self) {
        let says_itself = self.facts.as_ref().is_some_and(|facts| facts.completions.is_some());
        if self.members.is_empty() && self.successes.number() > 0 && !says_itself {
            self.successes.forget();
            self.begin_anew();
        }
    }

    pub(super) fn count(&mut self, member: &Member) {
        if self.ended && member.lives() {
            self.begin_anew();
        }
        if member.of_earlier {
            return;
        }
        self.tally(member, |number| *number = number.saturating_add(1));
        if let Some(facts) = self.facts.as_ref().filter(|facts| !facts.sub_groups.is_empty()) {
            self.subgroups.count(&facts.sub_groups, member);
        }
        let uid = &member.facts.uid;
        self.members.insert(uid.clone());
        match member.state() {
            State::Waiting => {
                self.asked.add(&member.facts.request);
                self.waiting.insert(uid.clone())
            }
            State::Blocked => self.blocked.insert(uid.clone()),
            State::Placed | State::Nominated => {
                self.charged.add(&member.facts.request);
                true
            }
            State::Gated | State::Leaving | State::Succeeded | State::Failed | State::Gone => false,
        };
    }

    pub(super) fn forget(&mut self, member: &Member) {
        self.tally(member, |number| *number = number.saturating_sub(1));
        self.subgroups.forget(member);
        let uid = &member.facts.uid;
        self.members.remove(uid);
        if self.waiting.remove(uid) {
            self.asked.sub(&member.facts.request);
        }
        self.blocked.remove(uid);
        if matches!(member.state(), State::Placed | State::Nominated) {
            self.charged.sub(&member.facts.request);
        }
    }

    fn tally(&mut self, member: &Member, change: impl Fn(&mut u32)) {
        match member.state() {
            State::Placed => {
                change(&mut self.counts.placed);
                if member.facts.phase == PodPhase::Running {
                    change(&mut self.counts.running);
                }
            }
            State::Nominated => change(&mut self.counts.nominated),
            State::Succeeded => change(&mut self.counts.succeeded),
            State::Failed => change(&mut self.counts.failed),
            State::Leaving => change(&mut self.counts.leaving),
            State::Gated => change(&mut self.counts.gated),
            State::Waiting | State::Blocked | State::Gone => {}
        }
        if member.assumed.as_ref().is_some_and(|assumed| !assumed.confirmed) {
            change(&mut self.counts.binding);
        }
        if member.assumed.as_ref().is_some_and(|assumed| !assumed.confirmed && assumed.open.is_some()) {
            change(&mut self.counts.open);
        }
        if member.assumed.as_ref().is_some_and(|assumed| assumed.is_held) {
            change(&mut self.counts.held);
        }
        if matches!(member.state(), State::Placed | State::Succeeded) {
            let task = self.tasks.entry(member.facts.task().to_owned()).or_default();
            change(task);
        }
    }
}

impl Cache {
    /// Adds or updates a PodGroup.
    pub fn apply_group(&mut self, facts: GroupFacts) {
        let key = facts.key.clone();
        let group = self.groups.get_or_default(&key);
        let old = group.facts.take();
        if old.as_deref() == Some(&facts) {
            group.facts = old;
            return;
        }
        let queue_changed = old.as_ref().is_none_or(|old| old.queue != facts.queue);
        let minimum_changed = queue_changed || old.as_ref().is_none_or(|old| old.min_resources != facts.min_resources);
        let asks_otherwise = old.as_ref().is_none_or(|old| !old.asks_the_same(&facts));
        let has_victims = group.counts.placed > 0;
        let parted_otherwise = old.as_ref().map_or(&[][..], |old| &old.sub_groups) != facts.sub_groups;
        let over = facts.is_over();
        // A PodGroup that was recreated under its name starts anew. One that this process sees for the first time may have begun before.
        if old.as_ref().is_some_and(|old| old.uid != facts.uid) {
            (group.ended, group.had_its_places) = (false, false);
            group.admission.rest = Rest::Owed;
            group.successes = Successes::default();
        }
        // A scheduler that starts later does not know when it had its nodes first.
        if old.is_none() && facts.was_scheduled() {
            group.admission.rest = Rest::Over;
        }
        let begins = old.is_none_or(|old| old.uid != facts.uid);
        group.facts = Some(Arc::new(facts));
        if parted_otherwise {
            group.recount_subgroups(&self.pods);
        }
        if asks_otherwise {
            self.changed(Change::Request(key.clone()));
            // Which pods may be preempted, and which of them together, follows from the PodGroup (R4, R2c).
            if has_victims {
                self.changed(Change::Victims);
            }
        }
        if over {
            self.changed(Change::Ended(key.clone()));
        } else if minimum_changed {
            self.changed(Change::Minimum(key.clone()));
        }
        if queue_changed {
            // What it wants moves with it, even where its demand and its reservation together stay the same.
            self.sharing.shares = None;
            self.recharge(&key);
        }
        if begins {
            self.recount_ended(&key);
        }
        self.changed(Change::Group(key));
    }

    /// Removes a PodGroup. Its members stay charged where they are.
    pub fn delete_group(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.facts = None;
        group.refusal = None;
        (group.ended, group.had_its_places, group.successes) = (false, false, Successes::default());
        group.recount_subgroups(&self.pods);
        group.admission.rest = Rest::Owed;
        if group.counts.placed > 0 {
            self.changed(Change::Victims);
        }
        self.changed(Change::Ended(key.clone()));
        self.changed(Change::Group(key.clone()));
        self.file(key, None);
    }

    /// Forgets a PodGroup that has no object and that no pod names. Returns whether it is forgotten.
    pub(in crate::cycle) fn drop_empty_group(&mut self, key: &GroupKey) -> bool {
        let empty = |group: &Group| group.facts.is_none() && group.members.is_empty();
        self.groups.get(key).is_some_and(empty) && self.groups.remove(key).is_some()
    }

    /// Charges bound members to the queue of their PodGroup, where their binding named no queue.
    fn recharge(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let follows = |uid: &Uid| self.pods.get(uid).map(|member| Arc::clone(&member.facts)).filter(|facts| facts.charged_queue.is_none());
        let members: Vec<_> =
            group.members.iter().filter_map(follows).filter(|facts| facts.node.is_some() && !facts.phase.ended()).collect();
        for facts in members {
            self.charge_seen(&facts);
        }
    }

    /// Whether the PodGroup waits for admission or for a node.
    pub(in crate::cycle) fn is_waiting(&self, key: &GroupKey) -> bool {
        self.groups.get(key).is_some_and(Group::is_waiting) && !self.is_foreign(key)
    }

    /// Whether the queue may borrow for the next members of the PodGroup, as far as these do not say otherwise themselves (S3): the
    /// PodGroup is preemptable, and it has its minimum, or no placed member that keeps the others of the minimum from being preempted.
    pub(in crate::cycle) fn may_borrow(&self, key: &GroupKey) -> bool {
        let Some((group, facts)) = self.groups.get(key).and_then(|group| Some((group, group.facts.as_ref()?))) else { return true };
        let has_minimum = Count::of(group, facts).missing() == 0;
        let keeps = |uid: &Uid| self.pods.get(uid).is_some_and(|pod| !pod.facts.preemptable && pod.state() == State::Placed);
        facts.preemptable && (has_minimum || group.counts.placed == 0 || !group.members.iter().any(keeps))
    }

    /// The priority class that the PodGroup names; none where it does not exist.
    pub(in crate::cycle) fn class_of(&self, group: &Group) -> Option<&PriorityClassFacts> {
        self.priority_classes.get(group.facts.as_ref()?.priority_class.as_ref()?)
    }

    /// The priority of the PodGroup: that of its class, else the highest of its waiting members.
    #[must_use]
    pub fn priority(&self, group: &Group) -> i32 {
        let of_members =
            || group.waiting.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.priority).max().unwrap_or(0);
        self.class_of(group).map_or_else(of_members, |class| class.value)
    }
}

/// Returns the priority of a pod as a possible victim: that of the class of its PodGroup or its own, whichever is larger. A PodGroup that
/// preempts counts with the same class, so two PodGroups do not preempt each other for ever. A class that is made again with a lower value
/// is for new pods: a running one keeps what it was made with.
pub(in crate::cycle) fn victim_priority(
    groups: &ByKey<GroupKey, Group>,
    classes: &BTreeMap<String, PriorityClassFacts>,
    member: &Member,
) -> i32 {
    let class = groups.get(&member.facts.group).and_then(|group| group.facts.as_ref()?.priority_class.as_ref());
    class.and_then(|class| classes.get(class)).map_or(member.facts.priority, |class| class.value.max(member.facts.priority))
}
