//! How does a PodGroup come, change and go, and what is counted of its members?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::pod_facts::PodPhase;
use crate::api::{GroupFacts, GroupKey, PriorityClassFacts, Uid};
use crate::cycle::explain::{Refusal, Step};
use crate::resources::Resources;
use crate::rules::{Rule, holds};

use super::World;
use super::admission::{Admission, Rest};
use super::pods::{Member, State};
use super::torn::Tear;

/// A group with what follows from its members. Exists as long as the object does or a pod refers to it.
#[derive(Debug, Default)]
pub struct Group {
    /// What the object says; none while there is none.
    pub facts: Option<Arc<GroupFacts>>,
    /// All members that are known.
    pub members: BTreeSet<Uid>,
    /// Those that may be placed.
    pub waiting: BTreeSet<Uid>,
    /// Those that ask for something that cannot be honoured.
    pub blocked: BTreeSet<Uid>,
    /// How many are where.
    pub counts: Counts,
    /// How many of each task have their place or succeeded.
    pub tasks: BTreeMap<String, u32>,
    /// What the members cost that have a place or for which one is kept.
    pub charged: Resources,
    /// What the members that wait ask for.
    pub asked: Resources,
    /// Whether its minimum may come in.
    pub admission: Admission,
    /// Whether it was admitted by right alone (A3), so that what it has reserved was more than there was room for.
    pub(in crate::cycle) by_right: bool,
    /// Until when it is patient though it is not admitted: it was until its object said something else.
    pub(super) patience: Option<Duration>,
    /// How it rests, if it found no places for too long.
    pub rest: Rest,
    /// Why it waits; none where it does not, or no cycle looked yet.
    pub refusal: Option<Arc<Refusal>>,
    /// What became of its last binds.
    pub retry: Retry,
    /// Whether only a part of its gang could be bound, and since when.
    pub(super) tear: Tear,
    /// Whether it was through ([`is_through`](crate::cycle::status::is_through)) when something changed last.
    pub(in crate::cycle) through: bool,
    /// Where it is counted in its queue.
    pub(super) filed: Option<(Arc<str>, Phase)>,
    /// What its queue's demand has of it.
    pub(super) demand: Option<(Arc<str>, Resources)>,
    /// The same with what it has reserved: what the shares follow from.
    pub(super) claim: Resources,
    /// The name under which it has something reserved.
    pub(in crate::cycle) holds: Option<Arc<str>>,
}

/// How many members are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// With a place: bound or being bound, not leaving.
    pub placed: u32,
    /// Without a place, and one is kept until others are gone.
    pub nominated: u32,
    /// Of those with a place, the ones that run.
    pub running: u32,
    /// Ended well.
    pub succeeded: u32,
    /// Ended badly.
    pub failed: u32,
    /// Placed by us, and the API server has not said yes yet.
    pub binding: u32,
    /// Of those the ones of which nobody has said for a while whether they are bound.
    pub open: u32,
    /// Leaving: there, but not to be counted on.
    pub leaving: u32,
    /// Held back by a gate that somebody has to lift first.
    pub gated: u32,
}

/// A group whose bind was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// How many tries in a row.
    pub failures: u32,
    /// When a bind was refused first since one was taken (monotonic); none where that is not so.
    pub since: Option<Duration>,
    /// When it is tried again (monotonic); none where nothing has failed.
    pub at: Option<Duration>,
    /// What failed last.
    pub step: Step,
    /// What the API server said last, of a bounded set.
    pub why: String,
    /// The nodes that failed, which are tried last.
    pub last: BTreeSet<Arc<str>>,
}

/// Where a group is in its life. Volcano's phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It waits for admission.
    Pending,
    /// Admitted: its pods are placed as soon as there is room.
    Inqueue,
    /// Its minimum has places.
    Running,
    /// Some members run, and the rest of its minimum finds no place.
    Unknown,
    /// Its minimum succeeded and nothing is left. Final.
    Completed,
}

impl Phase {
    /// As it stands in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Inqueue => "Inqueue",
            Self::Running => "Running",
            Self::Unknown => "Unknown",
            Self::Completed => "Completed",
        }
    }
}

impl Group {
    /// Whether it has no member that lives.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let live = [self.counts.placed, self.counts.nominated, self.counts.leaving, self.counts.gated];
        self.waiting.is_empty() && self.blocked.is_empty() && live == [0; 4]
    }

    /// Whether a member waits for a place, or for others to leave one.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.counts.nominated > 0
    }

    pub(super) fn count(&mut self, member: &Member) {
        self.tally(member, |number| *number = number.saturating_add(1));
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
        if matches!(member.state(), State::Placed | State::Succeeded) {
            let task = self.tasks.entry(member.facts.task().to_owned()).or_default();
            change(task);
        }
    }
}

impl World {
    /// A PodGroup is there, with these facts.
    pub fn apply_group(&mut self, facts: GroupFacts) {
        self.notice_terms(&facts);
        let key = facts.key.clone();
        let group = self.groups.entry(key.clone()).or_default();
        if group.facts.as_deref() == Some(&facts) {
            return;
        }
        let queue_changed = group.facts.as_ref().is_none_or(|old| old.queue != facts.queue);
        let asks_anew = queue_changed || group.facts.as_ref().is_none_or(|old| old.min_resources != facts.min_resources);
        let over = facts.is_over();
        if group.facts.as_ref().is_none_or(|old| !old.asks_the_same(&facts)) {
            self.asking.forget(&key);
            // Who may go for others, and with whom, follows from what the group says (R6, R8).
            if group.counts.placed > 0 {
                self.asking.changed();
            }
        }
        // Made again under its name, it begins anew.
        group.through &= group.facts.as_ref().is_some_and(|old| old.uid == facts.uid);
        group.facts = Some(Arc::new(facts));
        if over && holds(Rule::A5Over) {
            self.pend(&key);
        } else if asks_anew && holds(if queue_changed { Rule::A5Queue } else { Rule::A5Minimum }) {
            self.pend_anew(&key);
        }
        if queue_changed {
            self.wake_behind(&key);
            self.recharge(&key);
        }
        self.look_at(&key);
    }

    /// There is no such PodGroup any more. Its members stay charged where they are.
    pub fn delete_group(&mut self, key: &GroupKey) {
        self.take_back(key, "group_gone");
        let Some(group) = self.groups.get_mut(key) else { return };
        group.facts = None;
        group.refusal = None;
        if group.counts.placed > 0 {
            self.asking.changed();
        }
        self.pend(key);
        self.wake_behind(key);
        self.look_at(key);
        self.file(key, None);
        self.drop_empty_group(key);
    }

    /// Members that are bound and whose binding named no queue follow their group's.
    fn recharge(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let follows = |uid: &Uid| self.pods.get(uid).map(|member| Arc::clone(&member.facts)).filter(|facts| facts.charged_queue.is_none());
        let members: Vec<_> =
            group.members.iter().filter_map(follows).filter(|facts| facts.node.is_some() && !facts.phase.ended()).collect();
        for facts in members {
            self.charge_seen(&facts);
        }
    }

    /// The group is to be looked at by the next cycle.
    pub(super) fn look_at(&mut self, key: &GroupKey) {
        self.notice_places(key);
        self.look_at_what_is_left(key);
    }

    /// The same while a member is out of its sums, perhaps only for this moment: whether it has lost a place is known when that is over.
    pub(super) fn look_at_what_is_left(&mut self, key: &GroupKey) {
        self.shrink_reservation(key);
        self.park(key);
        self.requeue.try_again(key);
        self.demand_again(key);
    }

    /// The backlog has the group if it waits.
    fn park(&mut self, key: &GroupKey) {
        match self.groups.get(key).filter(|group| group.is_waiting() && !self.is_strangers(key)) {
            Some(group) => self.requeue.waits(key, group.facts.as_ref().map(|facts| facts.queue.as_str())),
            None => {
                self.wake_behind(key);
                self.asking.forget(key);
            }
        }
    }

    /// The group leaves its queue: whoever waited behind it (A6) has its turn.
    fn wake_behind(&mut self, key: &GroupKey) {
        if let Some(queue) = self.requeue.waits_no_longer(key)
            && self.is_fifo(&queue)
        {
            self.requeue.first_left(queue);
        }
    }

    pub(super) fn drop_empty_group(&mut self, key: &GroupKey) {
        let empty = |group: &Group| group.facts.is_none() && group.members.is_empty();
        if self.groups.get(key).is_some_and(empty) {
            self.groups.remove(key);
            self.requeue.gone(key);
            self.wake_behind(key);
            self.asking.forget(key);
        }
    }

    /// What a cycle found out about a group: why it waits, if it does.
    pub(in crate::cycle) fn judge_group(&mut self, key: &GroupKey, refusal: Option<Arc<Refusal>>) {
        let Some(group) = self.groups.get_mut(key) else { return };
        refusal.iter().for_each(|refusal| group.tear.waits_for(refusal));
        group.refusal.clone_from(&refusal);
        self.park(key);
        if let Some(refusal) = refusal {
            self.park_refused(key, &refusal);
        }
    }

    /// Says more about why the PodGroup waits. What has to change for it is the same, and since when.
    pub(in crate::cycle) fn explain_group(&mut self, key: &GroupKey, refusal: Arc<Refusal>) {
        if let Some(group) = self.groups.get_mut(key) {
            group.tear.waits_for(&refusal);
            group.refusal = Some(refusal);
        }
    }

    /// The class that the group names, where it names one that exists.
    pub(in crate::cycle) fn class_of(&self, group: &Group) -> Option<&PriorityClassFacts> {
        self.priority_classes.get(group.facts.as_ref()?.priority_class.as_ref()?)
    }

    /// The group's priority: that of its class where it names one that exists, else the highest of its waiting members.
    #[must_use]
    pub fn priority(&self, group: &Group) -> i32 {
        let of_members =
            || group.waiting.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.priority).max().unwrap_or(0);
        self.class_of(group).map_or_else(of_members, |class| class.value)
    }
}

/// What a pod counts with where it might go for somebody: the value of the class that its group names, if there is one, as for its group when that asks, else its own
/// priority. Otherwise two groups could take the same place from each other for ever.
pub(in crate::cycle) fn standing(
    groups: &BTreeMap<GroupKey, Group>,
    classes: &BTreeMap<String, PriorityClassFacts>,
    member: &Member,
) -> i32 {
    let class = groups.get(&member.facts.group).and_then(|group| group.facts.as_ref()?.priority_class.as_ref());
    class.and_then(|class| classes.get(class)).map_or(member.facts.priority, |class| class.value)
}
