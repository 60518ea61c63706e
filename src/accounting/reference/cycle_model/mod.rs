//! A reference model of the cycle: admission, reservations, back-off and order of PodGroups over time (A1 to A8, P1).
//!
//! The other parts of the reference answer questions about one cluster; this model covers the rules about time. It takes events, and runs a
//! cycle whenever the differential test runs one; `lives` shows the result. It is written from the text of the rules. Where the text leaves
//! a choice open (which members, which node, which PodGroups a cycle tries), the model takes the choice that was made and checks that it is
//! allowed. All members of a PodGroup are alike, so no choice among them changes how many are placed. There are no evictions.

mod cycle;
mod order;
mod places;
mod reservations;
mod room;
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::admission::{as_requests, asks, sum};
use super::cluster::{Amounts, Cluster, Group, Pod, Queue, Reservation, larger, less, plus};

pub(crate) use cycle::Bind;

/// The cluster and the history of each PodGroup. Times are in milliseconds.
#[derive(Clone, Default, Debug)]
pub(crate) struct CycleModel {
    nodes: BTreeMap<String, Amounts>,
    queues: BTreeMap<String, Queue>,
    fifo: BTreeSet<String>,
    groups: BTreeMap<String, GroupSpec>,
    members: BTreeMap<String, Member>,
    lives: BTreeMap<String, Life>,
}

/// The fields of a PodGroup's object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GroupSpec {
    pub(crate) queue: String,
    pub(crate) min_member: usize,
    /// How many members are to succeed in all, if that is not `min_member`.
    pub(crate) completions: Option<usize>,
    /// Whether podgroup-controller made it.
    pub(crate) managed: bool,
    /// `spec.minResources`, with the keys as written.
    pub(crate) min_resources: Option<Amounts>,
    /// The priority of its priority class.
    pub(crate) class: Option<i64>,
    pub(crate) created: u64,
    pub(crate) over: bool,
}

/// A pod of a PodGroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) group: String,
    pub(crate) asks: Amounts,
    pub(crate) priority: i64,
    pub(crate) created: u64,
    pub(crate) state: MemberState,
}

/// The state of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MemberState {
    /// The pod has a scheduling gate.
    Gated,
    Waits,
    On(Place),
    Succeeded,
    Failed,
}

/// The node and queue that a member is charged to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) queue: String,
    /// The bind is done, not only decided.
    pub(crate) bound: bool,
    pub(crate) terminating: bool,
}

/// The history of a PodGroup.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Life {
    admitted: bool,
    /// The amount that its admission asked for, with the charges of its members at that time.
    minimum: Amounts,
    /// Its reservation.
    reserved: Amounts,
    /// Whether A3 alone admitted it.
    by_reclaim: bool,
    /// What it lacks of its minimum and does not reserve, as A3 alone admitted it while it lacked members.
    unreserved: Amounts,
    /// When its admission times out.
    until: Option<u64>,
    /// Until when its reservation comes before the further members of other PodGroups; `None` before its first one since it had all nodes.
    first_until: Option<u64>,
    /// The places of its lost members.
    kept: Vec<Kept>,
    /// How often its admission was revoked since it had all nodes.
    times: u32,
    /// The end of its back-off.
    backs_off_until: u64,
    /// When a failed bind is retried.
    tries_again: Option<u64>,
    /// When the first bind failed after the last successful one.
    refused_since: Option<u64>,
    /// A4: until when what it states beyond its minimum stays reserved; 0 where that is over, and `None` before it had its minimum.
    rest_until: Option<u64>,
    /// Whether it had all its nodes once, with every bind done.
    had_its_places: bool,
    /// Whether all its members have ended, and no new one has come.
    ended: bool,
    /// How many members succeeded whose pods are gone.
    succeeded_before: usize,
    /// How many members its minimum needed when it was satisfied last with every bind done, and how many were charged then and stayed so.
    had: Option<(usize, usize)>,
}

/// The place of a lost member.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Kept {
    node: String,
    asks: Amounts,
    until: Option<u64>,
}

/// The visible state of a PodGroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) reserved: Amounts,
    /// `None` where it does not matter: its minimum is placed or zero, or it asks for nothing.
    pub(crate) admitted: Option<bool>,
    pub(crate) times: u32,
    /// The end of the back-off; `None` when there is none.
    pub(crate) backs_off_until: Option<u64>,
}

impl CycleModel {
    pub(crate) fn node(&mut self, name: &str, offers: Amounts) {
        self.nodes.insert(name.to_owned(), offers);
    }

    pub(crate) fn queue(&mut self, name: &str, spec: Queue, fifo: bool) {
        self.queues.insert(name.to_owned(), spec);
        if fifo {
            self.fifo.insert(name.to_owned())
        } else {
            self.fifo.remove(name)
        };
    }

    /// Sets a PodGroup. A5: when it is over or its object changes, its reservation ends.
    pub(crate) fn group(&mut self, name: &str, spec: GroupSpec) {
        // A zero amount is the same as an absent one.
        let counted = |spec: &GroupSpec| spec.min_resources.as_ref().map(|amounts| positive(&as_requests(amounts)));
        let before = self.groups.insert(name.to_owned(), spec.clone());
        // Writing the same object again is no event.
        let as_counted = |spec: &GroupSpec| GroupSpec { min_resources: counted(spec), ..spec.clone() };
        if before.as_ref().is_some_and(|before| as_counted(before) == as_counted(&spec)) {
            return;
        }
        if spec.over {
            self.revoke(name);
        } else if before.is_none_or(|before| before.queue != spec.queue || counted(&before) != counted(&spec)) {
            self.revoke_after_change(name);
        }
        self.follow(name);
    }

    /// Removes a PodGroup with all its members.
    pub(crate) fn group_gone(&mut self, name: &str) {
        self.members.retain(|_, member| member.group != name);
        self.groups.remove(name);
        self.lives.remove(name);
    }

    pub(crate) fn member(&mut self, uid: &str, member: Member) {
        let group = member.group.clone();
        let is_there = matches!(&member.state, MemberState::On(place) if place.bound);
        let failed = member.state == MemberState::Failed;
        let lives = !matches!(member.state, MemberState::Succeeded | MemberState::Failed);
        let before = self.members.insert(uid.to_owned(), member);
        let is_first = before.is_none() && self.count(&group, |_| true) == 1;
        let begins =
            is_first && self.groups.get(&group).is_some_and(|spec| spec.completions.is_none()) && self.life(&group).succeeded_before > 0;
        let enough = self.groups.get(&group).is_some_and(|spec| self.has_succeeded_enough(&group, spec));
        let none_counts = self.succeeded(&group) == 0;
        let ended = lives && std::mem::take(&mut self.life(&group).ended);
        if ended || lives && begins {
            let life = self.life(&group);
            // A1: it asks for minResources again, unless successes count.
            if begins || enough || none_counts {
                life.rest_until = None;
            }
            if begins || enough {
                life.succeeded_before = 0;
            }
        }
        if let Some(before) = before.as_ref().filter(|_| failed) {
            self.lost(before);
        }
        // This scheduler's bind succeeded. A bind by another scheduler does not count here.
        if is_there && before.is_some_and(|before| matches!(before.state, MemberState::On(place) if !place.bound)) {
            self.life(&group).refused_since = None;
        }
        self.follow(&group);
    }

    pub(crate) fn member_gone(&mut self, uid: &str) {
        if let Some(member) = self.members.remove(uid) {
            if member.state == MemberState::Succeeded {
                self.life(&member.group).succeeded_before += 1;
            }
            self.lost(&member);
            self.follow(&member.group);
        }
    }

    /// A4: what a refused bind gives back is reserved for its gang in the same step.
    pub(crate) fn bind_refused(&mut self, uid: &str, now: u64, tries_again: u64) {
        let Some(member) = self.members.get_mut(uid) else { return };
        let before = std::mem::replace(&mut member.state, MemberState::Waits);
        let (group, given_back) = (member.group.clone(), member.asks.clone());
        self.follow(&group);
        let Some(spec) = self.groups.get(&group) else { return };
        if matches!(before, MemberState::On(place) if place.queue == spec.queue) && !self.is_satisfied(&group) && !spec.over {
            let charged = self.charged(&group);
            let life = self.life(&group);
            life.reserved = plus(&life.reserved, &given_back);
            life.minimum = larger(&life.minimum, &plus(&charged, &life.reserved));
            life.admitted = true;
        }
        let life = self.life(&group);
        life.tries_again = Some(tries_again);
        life.refused_since.get_or_insert(now);
    }

    /// Returns the visible state of each PodGroup.
    pub(crate) fn seen(&self, now: u64) -> BTreeMap<String, Seen> {
        let seen = |(name, _): (&String, &GroupSpec)| {
            let life = self.lives.get(name).cloned().unwrap_or_default();
            let seen = Seen {
                reserved: positive(&life.reserved),
                admitted: (!self.is_satisfied(name) && !self.asked(name).is_empty()).then_some(life.admitted),
                times: life.times,
                backs_off_until: Some(life.backs_off_until).filter(|until| *until > now),
            };
            (name.clone(), seen)
        };
        self.groups.iter().map(seen).collect()
    }

    /// Whether A3 alone admitted the PodGroup.
    pub(crate) fn is_admitted_by_reclaim(&self, group: &str) -> bool {
        self.lives.get(group).is_some_and(|life| life.by_reclaim)
    }

    pub(crate) fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }

    /// Returns what is charged and what is reserved in a queue and all queues below it, by dimension.
    pub(crate) fn counted(&self, queue: &str) -> [Amounts; 2] {
        let cluster = self.cluster();
        let of = |count: fn(&Cluster, &str, &str) -> i128| {
            let each = cluster.dimensions().into_iter().map(|dimension| (dimension.clone(), count(&cluster, queue, &dimension)));
            positive(&each.collect())
        };
        [of(super::tree::used), of(super::tree::reserved)]
    }

    /// Returns the present cluster, as the other parts of the reference read it.
    fn cluster(&self) -> Cluster {
        let pod = |(uid, member): (&String, &Member)| {
            let MemberState::On(place) = &member.state else { return None };
            let pod = Pod {
                queue: place.queue.clone(),
                amounts: member.asks.clone(),
                node: Some(place.node.clone()),
                group: Some(member.group.clone()),
                terminating: place.terminating,
                ..Pod::default()
            };
            Some((uid.clone(), pod))
        };
        let group = |(name, spec): (&String, &GroupSpec)| {
            let asks = self.waiting(name).iter().map(|uid| self.members[uid].asks.clone()).collect();
            let group = Group {
                queue: spec.queue.clone(),
                min_member: self.needs(name),
                asks,
                // Where the members exist, an estimate of podgroup-controller does not count. Nothing does from when it is satisfied.
                min_resources: spec.min_resources.clone().filter(|_| self.begins(name) && (!spec.managed || !self.is_whole(name))),
                priority: 0,
                preemptable: true,
                member_keeps: false,
            };
            (name.clone(), group)
        };
        let reservation = |(name, life): (&String, &Life)| {
            let queue = self.groups.get(name)?.queue.clone();
            let amounts = positive(&life.reserved);
            (!amounts.is_empty()).then(|| (name.clone(), Reservation { queue, amounts }))
        };
        Cluster {
            nodes: self.nodes.clone(),
            queues: self.queues.clone(),
            pods: self.members.iter().filter_map(pod).collect(),
            groups: self.groups.iter().map(group).collect(),
            reservations: self.lives.iter().filter_map(reservation).collect(),
            ..Cluster::default()
        }
    }

    fn life(&mut self, group: &str) -> &mut Life {
        self.lives.entry(group.to_owned()).or_default()
    }

    fn count(&self, group: &str, which: impl Fn(&MemberState) -> bool) -> usize {
        self.members.values().filter(|member| member.group == group && which(&member.state)).count()
    }

    fn waiting(&self, group: &str) -> Vec<String> {
        let waits = |member: &Member| member.group == group && member.state == MemberState::Waits;
        self.members.iter().filter(|(_, member)| waits(member)).map(|(uid, _)| uid.clone()).collect()
    }

    /// Counts the members that are charged and not terminating.
    fn placed(&self, group: &str) -> usize {
        self.count(group, |state| matches!(state, MemberState::On(place) if !place.terminating))
    }

    /// Counts the members that succeeded, each once, also when the pod is gone.
    fn succeeded(&self, group: &str) -> usize {
        self.count(group, |state| *state == MemberState::Succeeded) + self.lives.get(group).map_or(0, |life| life.succeeded_before)
    }

    fn places(&self, group: &str) -> usize {
        self.placed(group) + self.succeeded(group)
    }

    /// Returns how many members must be placed at the same time now: minMember, but no more than are still to succeed.
    fn needs(&self, group: &str) -> usize {
        let Some(spec) = self.groups.get(group) else { return 0 };
        spec.min_member.min(spec.completions.unwrap_or(spec.min_member).saturating_sub(self.succeeded(group)))
    }

    /// Returns how many members its minimum still lacks.
    fn missing(&self, group: &str) -> usize {
        self.needs(group).saturating_sub(self.placed(group))
    }

    /// A2: whether a reservation for members that do not exist is owed: its creator may wait for the admission, and it never began.
    fn is_owed_a_beginning(&self, group: &str) -> bool {
        let life = self.lives.get(group);
        !self.groups[group].managed && !life.is_some_and(|life| life.had_its_places || life.ended)
    }

    /// A1: whether it needs members and was not satisfied once, with every bind done, since it began.
    fn begins(&self, group: &str) -> bool {
        !self.is_satisfied(group) && self.lives.get(group).is_none_or(|life| life.rest_until.is_none() || !life.had_its_places)
    }

    /// A1: whether as many succeeded as are to. Where none is to succeed, one must have.
    fn has_succeeded_enough(&self, group: &str, spec: &GroupSpec) -> bool {
        self.succeeded(group) >= spec.completions.unwrap_or(spec.min_member).max(1)
    }

    fn has_ended(&self, group: &str) -> bool {
        self.groups[group].over || self.lives.get(group).is_some_and(|life| life.ended)
    }

    fn is_satisfied(&self, group: &str) -> bool {
        self.missing(group) == 0
    }

    /// Whether the members that its minimum lacks exist.
    fn is_whole(&self, group: &str) -> bool {
        self.waiting(group).len() >= self.missing(group)
    }

    /// Returns the charges of its members (A1).
    fn charged(&self, group: &str) -> Amounts {
        let charged = |member: &&Member| member.group == group && matches!(&member.state, MemberState::On(place) if !place.terminating);
        sum(&self.members.values().filter(charged).map(|member| member.asks.clone()).collect::<Vec<_>>())
    }

    /// Returns what the PodGroup asks for (A1).
    fn asked(&self, group: &str) -> Amounts {
        // One that has ended asks for nothing. When there are too few members, none of them is needed now.
        if self.has_ended(group) || self.groups[group].min_resources.is_none() && !self.is_whole(group) {
            return Amounts::new();
        }
        positive(&asks(&self.cluster(), group))
    }
}

/// Returns the amounts without zeros.
fn positive(amounts: &Amounts) -> Amounts {
    amounts.iter().filter(|(_, amount)| **amount > 0).map(|(dimension, amount)| (dimension.clone(), *amount)).collect()
}

/// Whether `whole` is at least `part` in each dimension.
fn covers(whole: &Amounts, part: &Amounts) -> bool {
    positive(&less(part, whole)).is_empty()
}
