//! Which reservations give way to a PodGroup? Those of PodGroups of its queue that come after it (A4).
//!
//! A reservation keeps room for a PodGroup while it waits for nodes or for its members. It keeps it against those that come later. One that
//! comes first takes it as soon as nodes have room, so that a stream of younger PodGroups holds back no older one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling};
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::resources::Resources;

use super::gang::is_satisfied;
use super::{Cache, Group, GroupRank, Wake};

/// By queue: the PodGroups whose reservations give way, in the order of their reservations. No entry is empty.
#[derive(Debug, Default)]
pub(super) struct GivingWay(BTreeMap<Arc<str>, BTreeSet<GroupRank>>);

impl GivingWay {
    fn remove(&mut self, queue: &Arc<str>, rank: &GroupRank) {
        let Some(ranks) = self.0.get_mut(queue) else { return };
        ranks.remove(rank);
        if ranks.is_empty() {
            self.0.remove(queue);
        }
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
        if !matches!(by.bound, Bound::Capability | Bound::Cluster) || !by.reserved.is_positive() || !by.fits_without_reservations() {
            return Vec::new();
        }
        let rank = |group: &Group| Some(self.rank(group, group.facts.as_ref()?));
        let Some(own) = self.groups.get(key).and_then(rank) else { return Vec::new() };
        if self.last_giving_way(queue).is_none_or(|last| *last <= own) {
            return Vec::new();
        }
        let Self { accounting, giving_way, groups, pods, .. } = self;
        let name = |key: &GroupKey| groups.get(key).and_then(|group| group.admission.reservation.as_deref());
        let later = giving_way.0.get(queue).into_iter().flat_map(|ranks| ranks.range((Excluded(&own), Unbounded)).rev());
        let mut requests = members.iter().filter_map(|uid| pods.get(uid)).map(|member| &member.facts.request).peekable();
        let mut sum = Resources::new();
        let mut trial = accounting.trial();
        name(key).iter().for_each(|name| trial.release_reservation(name));
        let mut way = Vec::new();
        for rank in later.filter(|rank| rank.key != *key) {
            name(&rank.key).iter().for_each(|name| trial.release_reservation(name));
            way.push(rank.key.clone());
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

    /// The last of the PodGroups whose reservations in the queue give way.
    pub(in crate::cycle) fn last_giving_way(&self, queue: &str) -> Option<&GroupRank> {
        self.giving_way.0.get(queue)?.last()
    }

    /// The rank by which a reservation gives way. It counts from the creation of its PodGroup, or of the oldest member that waits if that is
    /// older: it keeps the room for whoever makes the members.
    pub(super) fn rank_of_reservation(&self, group: &Group, facts: &GroupFacts) -> GroupRank {
        let rank = self.rank(group, facts);
        GroupRank { lacks_members: false, oldest: rank.oldest.min(facts.created), ..rank }
    }

    /// The PodGroup, a member or its reservation changed: its reservation has its place in the order. Where one that it had before gives way to
    /// more PodGroups from now on, they are tried.
    pub(in crate::cycle) fn update_way(&mut self, key: &GroupKey, begins: bool) {
        let Some(group) = self.groups.get(key) else { return };
        let filed = self.reserves_in(group).zip(group.facts.as_ref()).filter(|_| self.gives_way(key));
        let now = filed.map(|(queue, facts)| (queue, self.rank_of_reservation(group, facts)));
        let Some(group) = self.groups.get_mut(key).filter(|group| group.admission.gives_way != now) else { return };
        let before = std::mem::replace(&mut group.admission.gives_way, now.clone());
        if let Some((queue, rank)) = &before {
            self.giving_way.remove(queue, rank);
        }
        if let Some((queue, rank)) = now {
            let more = before.is_none_or(|(_, before)| rank > before);
            self.giving_way.0.entry(Arc::clone(&queue)).or_default().insert(rank);
            if more && !begins {
                self.changed(Wake::Quota(queue));
            }
        }
    }

    /// The priorities of all PodGroups may be others.
    pub(super) fn update_ways(&mut self) {
        let reserving = self.groups.iter().filter(|(_, group)| group.admission.reservation.is_some());
        let keys: Vec<GroupKey> = reserving.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.update_way(key, false));
    }

    /// Whether what the PodGroup has reserved gives way: not where it finishes what it has begun (A6).
    fn gives_way(&self, key: &GroupKey) -> bool {
        let begun = |group: &Group| !group.admission.kept.is_empty() || group.facts.as_ref().is_none_or(|facts| is_satisfied(group, facts));
        self.groups.get(key).is_some_and(|group| !begun(group)) && !self.is_partially_bound(key)
    }

    /// Checks that each reservation that gives way has its place in the order, and nothing else has one.
    #[cfg(test)]
    pub(in crate::cycle) fn check_giving_way(&self) {
        let mut filed: BTreeMap<Arc<str>, BTreeSet<GroupRank>> = BTreeMap::new();
        for (key, group) in self.groups.iter().filter(|(key, _)| self.gives_way(key)) {
            let Some((queue, facts)) = self.reserves_in(group).zip(group.facts.as_ref()) else { continue };
            assert!(filed.entry(queue).or_default().insert(self.rank_of_reservation(group, facts)), "{key}");
        }
        assert_eq!(self.giving_way.0, filed);
    }
}
