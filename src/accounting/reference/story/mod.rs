//! What becomes of groups from event to event: who is admitted, what is reserved for whom, who rests, and who comes first (A1, A2, A4 to A6, P1, P2)?
//!
//! The rest of the reference answers questions about one cluster; this is what those rules need that speak of time. Events come in, a cycle is played at each moment that the
//! duel says, and what follows is plain to see in `lives`. Written from the text: where that leaves the choice (which members, which node, whom a cycle looks at) it takes
//! what was chosen, and checks that it may be. The members of one group are all alike, so that no choice among them changes how many find places. There are no evictions:
//! nobody may go for anybody.

mod keeping;
mod order;
mod playing;
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::admission::{as_requests, asks, sum};
use super::cluster::{Amounts, Cluster, Group, Pod, Queue, Reservation, larger, less, plus};

pub(crate) use playing::Bind;

/// Everything that is there, and what became of it so far. Times are milliseconds.
#[derive(Clone, Default, Debug)]
pub(crate) struct Story {
    nodes: BTreeMap<String, Amounts>,
    queues: BTreeMap<String, Queue>,
    fifo: BTreeSet<String>,
    groups: BTreeMap<String, Said>,
    members: BTreeMap<String, Member>,
    lives: BTreeMap<String, Life>,
}

/// What a group's object says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) queue: String,
    pub(crate) min_member: usize,
    /// Keys as they are written.
    pub(crate) min_resources: Option<Amounts>,
    /// The priority of the class that it names.
    pub(crate) class: Option<i64>,
    pub(crate) created: u64,
    pub(crate) over: bool,
}

/// A pod of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) group: String,
    pub(crate) asks: Amounts,
    pub(crate) priority: i64,
    pub(crate) created: u64,
    pub(crate) stands: Stands,
}

/// Where a member stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stands {
    /// A gate holds it back.
    Gated,
    Waits,
    On(Place),
    Succeeded,
    Failed,
}

/// Where a member is charged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) queue: String,
    /// Not only decided.
    pub(crate) bound: bool,
    pub(crate) terminating: bool,
}

/// What became of a group.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Life {
    admitted: bool,
    /// What was asked for when it was admitted, with what its members were charged then.
    minimum: Amounts,
    /// What it has reserved.
    reserved: Amounts,
    /// By A3 alone.
    by_right: bool,
    /// When its patience is over.
    until: Option<u64>,
    /// The same of one that is not admitted any more because its object says something else.
    patience: Option<u64>,
    /// How often it has rested since it had its places, and until when it does.
    times: u32,
    rests_until: u64,
    /// A bind failed, and it is tried again then.
    tries_again: Option<u64>,
    /// When a bind failed first since one was taken.
    refused_since: Option<u64>,
    /// Its minMember when it had all its places last, and how many it has had ever since.
    had: Option<(usize, usize)>,
}

/// What is to be seen of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) reserved: Amounts,
    /// None where it does not matter: its minimum has places or needs none, or it asks for nothing.
    pub(crate) admitted: Option<bool>,
    pub(crate) times: u32,
    /// None where it does not rest now.
    pub(crate) rests_until: Option<u64>,
}

impl Story {
    pub(crate) fn node(&mut self, name: &str, offers: Amounts) {
        self.nodes.insert(name.to_owned(), offers);
    }

    pub(crate) fn queue(&mut self, name: &str, said: Queue, fifo: bool) {
        self.queues.insert(name.to_owned(), said);
        if fifo {
            self.fifo.insert(name.to_owned())
        } else {
            self.fifo.remove(name)
        };
    }

    /// A5: when the group is over or its object says something else, its reservation is taken back.
    pub(crate) fn group(&mut self, name: &str, said: Said) {
        // To ask for nothing of something is the same as not to name it.
        let counted = |said: &Said| said.min_resources.as_ref().map(|amounts| positive(&as_requests(amounts)));
        let before = self.groups.insert(name.to_owned(), said.clone());
        // What is written again as it was is nothing that happens.
        let as_counted = |said: &Said| Said { min_resources: counted(said), ..said.clone() };
        if before.as_ref().is_some_and(|before| as_counted(before) == as_counted(&said)) {
            return;
        }
        if said.over {
            self.pend(name);
        } else if before.is_none_or(|before| before.queue != said.queue || counted(&before) != counted(&said)) {
            self.pend_anew(name);
        }
        self.follow(name);
    }

    /// The group is gone, and all its members.
    pub(crate) fn group_gone(&mut self, name: &str) {
        self.members.retain(|_, member| member.group != name);
        self.groups.remove(name);
        self.lives.remove(name);
    }

    pub(crate) fn member(&mut self, uid: &str, member: Member) {
        let group = member.group.clone();
        let is_there = matches!(&member.stands, Stands::On(place) if place.bound);
        let before = self.members.insert(uid.to_owned(), member);
        // Its bind was taken; one that another has bound says nothing about ours.
        if is_there && before.is_some_and(|before| matches!(before.stands, Stands::On(place) if !place.bound)) {
            self.life(&group).refused_since = None;
        }
        self.follow(&group);
    }

    pub(crate) fn member_gone(&mut self, uid: &str) {
        if let Some(member) = self.members.remove(uid) {
            self.follow(&member.group);
        }
    }

    /// A5: what a refused bind gives back is reserved for its gang in the same step.
    pub(crate) fn bind_refused(&mut self, uid: &str, now: u64, tries_again: u64) {
        let Some(member) = self.members.get_mut(uid) else { return };
        let before = std::mem::replace(&mut member.stands, Stands::Waits);
        let (group, given_back) = (member.group.clone(), member.asks.clone());
        self.follow(&group);
        let Some(said) = self.groups.get(&group) else { return };
        if matches!(before, Stands::On(place) if place.queue == said.queue) && !self.is_satisfied(&group) && !said.over {
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

    /// Of each group that there is.
    pub(crate) fn seen(&self, now: u64) -> BTreeMap<String, Seen> {
        let seen = |(name, _): (&String, &Said)| {
            let life = self.lives.get(name).cloned().unwrap_or_default();
            let seen = Seen {
                reserved: positive(&life.reserved),
                admitted: (!self.is_satisfied(name) && !self.asked(name).is_empty()).then_some(life.admitted),
                times: life.times,
                rests_until: Some(life.rests_until).filter(|until| *until > now),
            };
            (name.clone(), seen)
        };
        self.groups.iter().map(seen).collect()
    }

    pub(crate) fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }

    /// What is charged and what is reserved in a queue and all below it, by dimension.
    pub(crate) fn counted(&self, queue: &str) -> [Amounts; 2] {
        let cluster = self.cluster();
        let of = |count: fn(&Cluster, &str, &str) -> i128| {
            let each = cluster.dimensions().into_iter().map(|dimension| (dimension.clone(), count(&cluster, queue, &dimension)));
            positive(&each.collect())
        };
        [of(super::tree::used), of(super::tree::reserved)]
    }

    /// The cluster at this moment, as the rest of the reference reads it.
    fn cluster(&self) -> Cluster {
        let pod = |(uid, member): (&String, &Member)| {
            let Stands::On(place) = &member.stands else { return None };
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
        let group = |(name, said): (&String, &Said)| {
            let asks = self.waiting(name).iter().map(|uid| self.members[uid].asks.clone()).collect();
            let group = Group {
                queue: said.queue.clone(),
                // Who succeeded has had what the gang is for.
                min_member: said.min_member.saturating_sub(self.count(name, |stands| *stands == Stands::Succeeded)),
                asks,
                min_resources: said.min_resources.clone(),
                priority: 0,
                preemptable: true,
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

    fn count(&self, group: &str, which: impl Fn(&Stands) -> bool) -> usize {
        self.members.values().filter(|member| member.group == group && which(&member.stands)).count()
    }

    fn waiting(&self, group: &str) -> Vec<String> {
        let waits = |member: &Member| member.group == group && member.stands == Stands::Waits;
        self.members.iter().filter(|(_, member)| waits(member)).map(|(uid, _)| uid.clone()).collect()
    }

    /// Those that are charged and not terminating.
    fn placed(&self, group: &str) -> usize {
        self.count(group, |stands| matches!(stands, Stands::On(place) if !place.terminating))
    }

    fn places(&self, group: &str) -> usize {
        self.placed(group) + self.count(group, |stands| *stands == Stands::Succeeded)
    }

    /// How many members its minimum still needs.
    fn missing(&self, group: &str) -> usize {
        self.groups.get(group).map_or(0, |said| said.min_member.saturating_sub(self.places(group)))
    }

    fn is_satisfied(&self, group: &str) -> bool {
        self.missing(group) == 0
    }

    /// Whether those that it still needs are there.
    fn is_whole(&self, group: &str) -> bool {
        self.waiting(group).len() >= self.missing(group)
    }

    /// A1: what its members are charged.
    fn charged(&self, group: &str) -> Amounts {
        let charged = |member: &&Member| member.group == group && matches!(&member.stands, Stands::On(place) if !place.terminating);
        sum(&self.members.values().filter(charged).map(|member| member.asks.clone()).collect::<Vec<_>>())
    }

    /// A1.
    fn asked(&self, group: &str) -> Amounts {
        // Of members that are not enough nobody is needed now.
        if self.groups[group].min_resources.is_none() && !self.is_whole(group) {
            return Amounts::new();
        }
        positive(&asks(&self.cluster(), group))
    }
}

/// Without what is 0.
fn positive(amounts: &Amounts) -> Amounts {
    amounts.iter().filter(|(_, amount)| **amount > 0).map(|(dimension, amount)| (dimension.clone(), *amount)).collect()
}

/// Whether the one is in each dimension at least the other.
fn covers(whole: &Amounts, part: &Amounts) -> bool {
    positive(&less(part, whole)).is_empty()
}
