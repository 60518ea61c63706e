//! Which reservations give way to a PodGroup? Those of PodGroups of its queue that come after it (A4).
//!
//! A reservation keeps room for a PodGroup while it waits for nodes or for its members. It keeps it against those that come later. One that
//! comes first takes it as soon as nodes have room, so that a stream of younger PodGroups holds back no older one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling};
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::resources::Resources;

use super::gang::is_satisfied;
use super::{Cache, Group, GroupRank, Wake};

/// By queue: the last of the PodGroups that have reserved something; none where none has. A cycle forgets it when it begins. It may be too
/// late a one, as reservations end.
#[derive(Debug, Default)]
pub(in crate::cycle) struct LastReserved(BTreeMap<Arc<str>, Option<GroupRank>>);

impl LastReserved {
    /// The PodGroup has reserved something.
    pub(super) fn add(&mut self, queue: &str, rank: GroupRank) {
        if let Some(last) = self.0.get_mut(queue) {
            *last = last.take().max(Some(rank));
        }
    }

    pub(in crate::cycle) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Cache {
    /// Returns the PodGroups whose reservations give way to this one where the ceiling refuses `asked`, or some of these members, the last of
    /// them first; so many that it fits without them, and so do the members one after the other. Empty where it would not, or where none
    /// comes later. Its own reservation is left out.
    pub(in crate::cycle) fn that_give_way(
        &mut self,
        key: &GroupKey,
        queue: &Arc<str>,
        members: &[Uid],
        asked: &Resources,
        by: &Ceiling,
    ) -> Vec<GroupKey> {
        if !matches!(by.bound, Bound::Capability | Bound::Cluster) || !by.reserved.is_positive() {
            return Vec::new();
        }
        let rank = |group: &Group| Some(self.rank(group, group.facts.as_ref()?));
        let Some(own) = self.groups.get(key).and_then(rank) else { return Vec::new() };
        if self.last_reserved.0.get(queue).is_some_and(|last| last.as_ref().is_none_or(|last| *last <= own)) {
            return Vec::new();
        }
        let ranks: Vec<GroupRank> = self.reserving_in(queue).collect();
        self.last_reserved.0.insert(Arc::clone(queue), ranks.iter().max().cloned());
        let mut later: Vec<GroupRank> = ranks.into_iter().filter(|rank| *rank > own && self.gives_way(&rank.key)).collect();
        later.sort_by(|a, b| b.cmp(a));
        self.as_many_as_fit(key, queue, members, asked, later)
    }

    fn as_many_as_fit(&mut self, key: &GroupKey, queue: &str, members: &[Uid], asked: &Resources, later: Vec<GroupRank>) -> Vec<GroupKey> {
        let name = |key: &GroupKey, groups: &Self| groups.groups.get(key).and_then(|group| group.admission.reservation.clone());
        let own = name(key, self);
        let names: Vec<(GroupKey, Arc<str>)> =
            later.into_iter().filter_map(|rank| Some((rank.key.clone(), name(&rank.key, self)?))).collect();
        let Self { accounting, pods, .. } = self;
        let mut requests = members.iter().filter_map(|uid| pods.get(uid)).map(|member| &member.facts.request).peekable();
        let mut sum = Resources::new();
        let mut trial = accounting.trial();
        own.iter().for_each(|name| trial.release_reservation(name));
        let mut way = Vec::new();
        for (key, name) in names {
            trial.release_reservation(&name);
            way.push(key);
            let fits = |asked: &Resources| trial.accounting().fits_queue(queue, asked).is_ok();
            // Members that fit now fit with fewer reservations, too.
            while let Some(request) = requests.peek() {
                let mut with_this = sum.clone();
                with_this.add(request);
                if !fits(&with_this) {
                    break;
                }
                sum = with_this;
                requests.next();
            }
            if requests.peek().is_none() && fits(asked) {
                return way;
            }
        }
        Vec::new()
    }

    /// The rank by which a reservation gives way. It counts from the creation of its PodGroup, or of the oldest member that waits if that is
    /// older: it keeps the room for whoever makes the members.
    pub(super) fn rank_of_reservation(&self, group: &Group, facts: &GroupFacts) -> GroupRank {
        let rank = self.rank(group, facts);
        GroupRank { lacks_members: false, oldest: rank.oldest.min(facts.created), ..rank }
    }

    /// The last of the PodGroups that have reserved something in the queue.
    pub(in crate::cycle) fn last_reserving_in(&self, queue: &str) -> Option<GroupRank> {
        self.reserving_in(queue).max()
    }

    fn reserving_in<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = GroupRank> + 'a {
        let rank = |name: &str| {
            let (namespace, name) = name.split_once('/')?;
            let group = self.groups.get(&GroupKey::new(namespace, name))?;
            Some(self.rank_of_reservation(group, group.facts.as_ref()?))
        };
        self.accounting.quota().reservations_in(queue).filter_map(move |(name, _)| rank(name))
    }

    /// The PodGroup or a member of it changed. Where its reservation gives way to more PodGroups from now on, they are tried.
    pub(in crate::cycle) fn notice_way(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        // Also before it reserves anything: what it reserves in a cycle is as old as it was then.
        let now = group.facts.as_ref().map(|facts| (self.rank_of_reservation(group, facts), self.gives_way(key)));
        let queue = self.reserves_in(group);
        let Some(group) = self.groups.get_mut(key) else { return };
        let before = std::mem::replace(&mut group.admission.gives_way, now.clone());
        let more = before.zip(now).is_some_and(|(before, now)| now.0 > before.0 || now.1 && !before.1);
        if let Some(queue) = queue.filter(|_| more) {
            self.last_reserved.clear();
            self.changed(Wake::Quota(queue));
        }
    }

    /// Whether what the PodGroup has reserved gives way: not where it finishes what it has begun (A6).
    fn gives_way(&self, key: &GroupKey) -> bool {
        let begun = |group: &Group| !group.admission.kept.is_empty() || group.facts.as_ref().is_none_or(|facts| is_satisfied(group, facts));
        self.groups.get(key).is_some_and(|group| !begun(group)) && !self.is_partially_bound(key)
    }
}
