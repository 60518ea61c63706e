//! The state of the scheduler: the cache, the PodGroups that wait, and the nominations.
//!
//! ```text
//!  event ──▶ Cache ── Changes ──▶ follow: requeue, admission, nominations, eviction back-off
//!                                    ╰── once for each PodGroup that changed: its reservation, its place in the backlog, its demand
//! ```
//!
//! [`SchedulingState::follow`] is the one place that passes the cache's [`Change`]s on. What is derived of a PodGroup is computed there,
//! when its facts are complete again. A cycle's own decisions are followed up in `binds` and `nominate`.

mod amounts;
mod binds;
mod hold;
mod keep;
mod nominate;
mod standby;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::api::workload::NamespaceLabels;
use crate::api::{BudgetFacts, BudgetKey, GroupFacts, GroupKey, NodeFacts, PodFacts, PriorityClassFacts, QueueFacts, Uid};
use crate::resources::Resources;

use super::admission::reservation;
use super::asks_nodes::Asking;
use super::cache::{Cache, Change, Dirty, Group, Phase, Wake, gang};
use super::eviction_backoff::EvictionBackoff;
use super::explain::Refusal;
use super::holds::{Holds, Kind, victims};
use super::requeue::{Backlog, Preemptable, Requeue};

pub(in crate::cycle) use amounts::TOLD_AT_ONCE;

/// The state that a cycle decides on and changes.
#[derive(Debug)]
pub struct SchedulingState {
    /// The facts.
    pub(super) cache: Cache,
    /// The PodGroups that wait, and the subset that the next cycle tries.
    pub(super) requeue: Requeue,
    /// The room that is held for members before they are bound.
    pub(super) holds: Holds,
    /// The pods with a refused eviction.
    pub(super) eviction_backoff: EvictionBackoff,
    /// When it is decided which waiting pods ask for nodes.
    pub(super) asking: Asking,
}

impl SchedulingState {
    /// Creates an empty state for the pods of these schedulers.
    #[must_use]
    pub fn new(schedulers: impl IntoIterator<Item = String>) -> Self {
        Self {
            cache: Cache::new(schedulers),
            requeue: Requeue::default(),
            holds: Holds::default(),
            eviction_backoff: EvictionBackoff::default(),
            asking: Asking::default(),
        }
    }

    /// The facts.
    #[must_use]
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The PodGroups that wait for nodes or for admission.
    #[must_use]
    pub const fn backlog(&self) -> &Backlog {
        self.requeue.backlog()
    }

    /// Takes the objects with a status that may have changed since the last call.
    pub fn take_dirty(&mut self) -> Dirty {
        let groups = self.follow_queues();
        Dirty { groups, ..self.cache.take_dirty() }
    }

    /// Counts the PodGroup in its queue under its phase; under none where it is gone.
    pub fn file(&mut self, key: &GroupKey, phase: Option<Phase>) {
        self.cache.file(key, phase);
    }

    /// Sets the node groups that unknown queues name, for a state that is made to answer one question.
    pub fn name_node_groups(&mut self, named: BTreeSet<String>) {
        self.cache.name_node_groups(named);
    }

    /// Adds or updates a node.
    pub fn apply_node(&mut self, facts: NodeFacts) {
        self.cache.apply_node(facts);
        self.follow();
    }

    /// Removes a node. Its pods stay charged to its name.
    pub fn delete_node(&mut self, name: &str) {
        self.cache.delete_node(name);
        self.follow();
    }

    /// Records the labels of a namespace.
    pub fn apply_namespace(&mut self, facts: NamespaceLabels) {
        self.cache.set_namespace(&facts.name, Some(facts.labels));
        self.follow();
    }

    /// Removes a namespace.
    pub fn delete_namespace(&mut self, name: &str) {
        self.cache.set_namespace(name, None);
        self.follow();
    }

    /// Adds or updates a pod. A foreign pod is charged to its node and to no queue.
    pub fn apply_pod(&mut self, mut facts: PodFacts) {
        self.cache.resolve_claims(&mut facts);
        if self.holds.has_nominations()
            && let Some(key) = victims::broken_by_pod(&self.cache, &facts)
        {
            self.withdraw_nomination(&key, "pod_changed");
        }
        self.holds.pod_changed(&facts.uid);
        if self.holds.has_none() {
            self.cache.apply_pod(facts);
        } else {
            let (uid, before) = (facts.uid.clone(), self.charge_of(&facts.uid));
            self.cache.apply_pod(facts);
            // It may take the room of a nomination, or of pods that wait for volumes.
            if let Some(now) = self.charge_of(&uid).filter(|now| before.as_ref() != Some(now)) {
                self.holds.room_taken_on(&now.0);
            }
        }
        self.follow();
    }

    /// Takes in the resourceVersion that the answer to a write of this pod carried. No PodGroup is tried again for it.
    pub fn pod_version(&mut self, uid: &Uid, version: u64) {
        self.cache.pod_version(uid, version);
    }

    /// Removes a pod.
    pub fn delete_pod(&mut self, uid: &Uid) {
        let nominated = self.cache.pods().get(uid).filter(|member| member.nominated.is_some());
        if let Some(key) = nominated.map(|member| member.facts.group.clone()) {
            self.withdraw_nomination(&key, "pod_gone");
        }
        self.holds.pod_changed(uid);
        self.cache.delete_pod(uid);
        self.follow();
    }

    /// Adds or updates a PodGroup.
    pub fn apply_group(&mut self, facts: GroupFacts) {
        if self.nominated(&facts.key).is_some() && victims::is_broken_by_group(&self.cache, &facts) {
            self.withdraw_nomination(&facts.key, "group_changed");
        }
        self.holds.group_changed(&facts.key);
        self.cache.apply_group(facts);
        self.follow();
    }

    /// Removes a PodGroup. Its members stay charged where they are.
    pub fn delete_group(&mut self, key: &GroupKey) {
        self.withdraw_nomination(key, "group_gone");
        self.holds.group_changed(key);
        self.cache.delete_group(key);
        self.follow();
    }

    /// Adds or updates a queue.
    pub fn apply_queue(&mut self, facts: QueueFacts) {
        self.cache.apply_queue(facts);
        self.follow();
    }

    /// Removes a queue. Pods in it remain charged to its name.
    pub fn delete_queue(&mut self, name: &str) {
        self.cache.delete_queue(name);
        self.follow();
    }

    /// Adds or updates a priority class.
    pub fn apply_priority_class(&mut self, facts: PriorityClassFacts) {
        self.cache.apply_priority_class(facts);
        self.follow();
    }

    /// Removes a priority class.
    pub fn delete_priority_class(&mut self, name: &str) {
        self.cache.delete_priority_class(name);
        self.follow();
    }

    /// Adds or updates a disruption budget.
    pub fn apply_budget(&mut self, facts: BudgetFacts) {
        self.cache.apply_budget(facts);
        self.follow();
    }

    /// Removes a disruption budget.
    pub fn delete_budget(&mut self, key: &BudgetKey) {
        self.cache.delete_budget(key);
        self.follow();
    }

    /// Passes on the changes of the cache.
    pub(in crate::cycle) fn follow(&mut self) {
        self.cache.retry_refused_for_selectors();
        loop {
            let changes = self.cache.take_changes();
            if changes.is_empty() {
                return;
            }
            let mut groups = BTreeSet::new();
            for change in changes {
                self.pass_on(change, &mut groups);
            }
            groups.iter().for_each(|key| self.group_changed(key));
        }
    }

    fn pass_on(&mut self, change: Change, groups: &mut BTreeSet<GroupKey>) {
        let Self { cache, requeue, holds, eviction_backoff, asking: _ } = self;
        match change {
            Change::Wake(wake) => {
                if let Wake::Node(node) = &wake {
                    let kept = holds.on_node(node).filter(|hold| hold.lost().is_some());
                    kept.for_each(|hold| requeue.try_again(&hold.group));
                }
                requeue.changed(wake);
            }
            Change::Group(key) => _ = groups.insert(key),
            Change::Request(key) => requeue.preemptions.forget(&key),
            Change::Minimum(key) => {
                reservation::renew(cache, &mut requeue.timers, &key);
                self.drop_all_places(&key);
            }
            Change::Ended(key) => self.end_admission(&key),
            Change::Lost(lost) => self.member_lost(&lost),
            Change::MemberGone(key) => self.member_gone(&key),
            Change::WaitingPod(key) => requeue.preemptions.reopen(&key),
            Change::Complete(eviction) => holds.withdrawn.push(eviction),
            Change::BindEnded => requeue.preemptions.bound(),
            Change::Released(uid) => holds.gone(&uid),
            Change::PodGone(uid) => eviction_backoff.forget(&uid),
            Change::Victim(uid) => {
                eviction_backoff.forget(&uid);
                requeue.preemptions.changed();
            }
            Change::Victims => requeue.preemptions.changed(),
            Change::Budgets => {
                eviction_backoff.clear();
                requeue.preemptions.changed();
            }
            Change::NodeObject(name) => {
                holds.node_changed(&name);
                requeue.preemptions.nodes_changed();
                // Which PodGroup is the first that could ever fit depends on the nodes (A6).
                cache.fifo_queues().for_each(|queue| requeue.first_left(Arc::clone(queue)));
            }
            Change::FloorsFilled => requeue.floors_filled(|key| cache.groups().get(key).is_some_and(Group::is_unreserved)),
            Change::MinimumsServed => requeue.minimums_served(),
            Change::MinimumsReserved => requeue.minimums_reserved(),
            Change::Queues => {
                [Kind::Victims, Kind::Claims].into_iter().for_each(|kind| holds.all_changed(kind));
            }
        }
    }

    /// The PodGroup or a member of it changed: what is derived from it follows, and the next cycle tries it.
    fn group_changed(&mut self, key: &GroupKey) {
        if !self.cache.groups().contains_key(key) {
            return;
        }
        self.cache.notice_placement(key);
        reservation::shrink(&mut self.cache, key);
        reservation::end_without_need(&mut self.cache, &mut self.requeue.timers, key);
        self.drop_needless_places(key);
        self.cache.update_first(key);
        self.cache.update_way(key, false);
        self.park(key);
        self.cache.update_demand(key);
        // That a PodGroup is gone may help others: the next cycle has to run.
        self.requeue.try_again(key);
        if self.cache.drop_empty_group(key) {
            self.requeue.gone(key);
        }
    }

    /// Puts the PodGroup into the backlog if it waits, or takes it out. PodGroups that waited behind it in a fifo queue are tried (A6).
    fn park(&mut self, key: &GroupKey) {
        let left = if self.cache.is_waiting(key) {
            let facts = self.cache.groups().get(key).and_then(|group| group.facts.as_ref());
            self.requeue.waits(key, facts.map(|facts| facts.queue.as_str()))
        } else {
            self.requeue.preemptions.forget(key);
            self.requeue.waits_no_longer(key)
        };
        if let Some(queue) = left.filter(|queue| self.cache.is_fifo(queue)) {
            self.requeue.first_left(queue);
        }
    }

    /// A member is gone or has failed. Where fewer exist than the gang needs, its owner may wait for the admission before it makes another (A5).
    fn member_gone(&mut self, key: &GroupKey) {
        let group = self.cache.groups().get(key).filter(|group| group.admission.backoff.until > Duration::ZERO);
        let lacks = |group: &Group| group.facts.as_ref().is_some_and(|facts| !gang::is_whole(&self.cache, group, facts));
        if group.is_some_and(lacks) {
            reservation::end_backoff(&mut self.cache, &mut self.requeue.timers, key);
        }
    }

    /// Counts the successes of which only the status of the PodGroup knows.
    pub(in crate::cycle) fn complete_successes(&mut self, key: &GroupKey) {
        if self.cache.complete_successes(key) {
            self.follow();
        }
    }

    /// Records why a PodGroup waits, as a cycle found, and parks it until that changes; none where it does not wait.
    pub(in crate::cycle) fn judge_group(&mut self, key: &GroupKey, refusal: Option<Arc<Refusal>>) {
        self.cache.refuse_group(key, refusal.clone());
        self.park(key);
        if let Some(refusal) = refusal {
            self.requeue.park_refused(&self.cache, key, &refusal);
        }
    }

    /// Records that the PodGroup and each waiting member wait for this reason.
    pub(in crate::cycle) fn refuse(&mut self, key: &GroupKey, refusal: &Arc<Refusal>) {
        self.cache.refuse_waiting(key, refusal);
        let exists = self.cache.groups().get(key).is_some_and(|group| group.facts.is_some());
        self.judge_group(key, exists.then(|| Arc::clone(refusal)));
    }

    /// Revokes the admission: the PodGroup is Pending and reserves nothing.
    pub(in crate::cycle) fn revoke_admission(&mut self, key: &GroupKey) {
        reservation::revoke(&mut self.cache, &mut self.requeue.timers, key);
    }

    /// Revokes the admission for good: no place is kept for a lost member any more (A5, A8).
    pub(super) fn end_admission(&mut self, key: &GroupKey) {
        self.revoke_admission(key);
        self.drop_all_places(key);
    }

    /// Takes the reservation of the PodGroup for one that comes before it. It asks again in the next cycle.
    pub(super) fn give_way(&mut self, key: &GroupKey) {
        self.revoke_admission(key);
        self.requeue.try_again(key);
    }

    /// Admits the PodGroup without a reservation, but for the places of lost members, if its queue is open.
    pub(super) fn admit_without_reservation(&mut self, key: &GroupKey) {
        let mut kept = Resources::new();
        self.holds.kept_for(key).for_each(|place| kept.add(&place.resources));
        reservation::admit_without_reservation(&mut self.cache, &mut self.requeue.timers, key, &kept);
    }

    /// The PodGroup has all nodes that its minimum needs: it reserves only what it states beyond that, for the time of an admission.
    pub(in crate::cycle) fn satisfied(&mut self, key: &GroupKey, now: Duration, time: Duration) {
        reservation::satisfied(&mut self.cache, &mut self.requeue.timers, key, now, time);
        self.drop_all_places(key);
    }

    /// Removes all decisions about a foreign PodGroup.
    pub(super) fn ignore_foreign(&mut self, key: &GroupKey) {
        self.revoke_admission(key);
        self.judge_group(key, None);
        self.cache.file(key, None);
        // It may have counted as ours until now.
        self.cache.update_demand(key);
    }

    /// Whether a cycle would try anything at this moment.
    #[must_use]
    pub fn has_work(&self, now: Duration) -> bool {
        self.next_attempt().is_some_and(|at| at <= now)
    }

    /// Returns when a cycle has something to try although no event arrives until then; none where there is no such time.
    #[must_use]
    pub fn next_attempt(&self) -> Option<Duration> {
        if self.requeue.has_work() || self.holds.has_work() || self.cache.has_refused_for_selectors_to_try() {
            return Some(Duration::ZERO);
        }
        let timers = [self.requeue.next_timer(), self.holds.next_deadline()];
        timers.into_iter().chain([self.requeue.preemptions.next(), self.eviction_backoff.next(), self.asking.next()]).flatten().min()
    }

    /// Returns the PodGroups that a cycle tries now.
    pub(in crate::cycle) fn take_candidates(&mut self, now: Duration) -> BTreeSet<GroupKey> {
        self.cache.notice_unfilled();
        self.cache.notice_minimums();
        self.follow();
        let ended = self.eviction_backoff.end_due(now);
        if ended || self.requeue.has_changes() || self.cache.lacks_shares() {
            self.requeue.preemptions.changed();
        }
        let mut preemptable = Preemptable::default();
        if self.requeue.preemptions.is_due(now) {
            self.cache.share_out();
            preemptable = Preemptable { over_share: self.cache.any_queue_over_share(), lowest: self.cache.lowest_priority() };
        }
        if self.requeue.has_changes() {
            self.cache.notice_overpromising();
        }
        let candidates = self.requeue.take(now, preemptable, &self.cache);
        self.cache.tidy_classes();
        // What became free is passed on by now, all the way up.
        self.cache.forget_unused_places();
        candidates
    }
}

#[cfg(test)]
mod forgotten_tests;
#[cfg(test)]
mod nominations_tests;
#[cfg(test)]
mod refused_tests;
