//! Which PodGroups wait for room, and for which others do they leave it (A6, A7)?

use std::collections::{BTreeMap, BTreeSet};

use super::super::cluster::{Amounts, Cluster, amount, asked_in, larger, plus};
use super::super::shares::right;
use super::super::tree::{spec, used, walk};
use super::order::Start;
use super::{CycleModel, positive};

/// A7: a member that was created so much before a PodGroup does not wait for it, in the unit of `created`.
const OLDER: u64 = 30;

impl CycleModel {
    /// A7: a further member is placed where `used(root)`, what counts of the reservations of others, and its request are not above `T`, in
    /// each dimension that it requests and in which something counts.
    pub(super) fn leaves_room(&self, group: &str, uid: &str, now: u64) -> bool {
        let cluster = self.cluster();
        let total = cluster.there_for_queues();
        let member = &self.members[uid];
        let counts = self.comes_first(&cluster, group, member.created, now);
        asked_in(&counts).all(|(dimension, counted)| {
            let asked = amount(&member.asks, dimension);
            asked == 0 || used(&cluster, "root", dimension) + counted + asked <= amount(&total, dimension)
        })
    }

    /// A7: returns what counts of what other PodGroups have reserved.
    fn comes_first(&self, cluster: &Cluster, group: &str, created: u64, now: u64) -> Amounts {
        let own_queue = &self.groups[group].queue;
        let mut by_queue: BTreeMap<String, Amounts> = BTreeMap::new();
        for (name, life) in &self.lives {
            let Some(other) = self.groups.get(name).filter(|_| name != group) else { continue };
            // The rest (A4) does not count, nor a reservation after one admission timeout, nor for a member that is so much older.
            let counts = !self.is_satisfied(name) && life.first_until.is_none_or(|until| until > now);
            if counts && created + OLDER >= other.created {
                let sum = by_queue.entry(other.queue.clone()).or_default();
                *sum = plus(sum, &life.reserved);
            }
        }
        let mut all = Amounts::new();
        for (queue, reserved) in by_queue {
            let of = |(dimension, amount): (&String, &i128)| {
                let left = (right(cluster, &queue, dimension) - used(cluster, &queue, dimension)).max(0);
                (dimension.clone(), if queue == *own_queue { *amount } else { (*amount).min(left) })
            };
            all = plus(&all, &reserved.iter().map(of).collect());
        }
        all
    }

    /// A6: whether another PodGroup of the fifo queue comes first: one that had its turn in this cycle and waits for room, or one that is not
    /// tried now, as nothing has changed for it since its last turn.
    pub(super) fn is_passed_over(
        &self,
        start: &Start,
        group: &str,
        tried: &BTreeSet<String>,
        firsts: &BTreeMap<String, String>,
        now: u64,
    ) -> bool {
        // A4: a gang with gates is admitted wherever it stands. One that waits for a binding to be tried again has no turn.
        if self.is_gated(group) || self.waits_for_retry(group, now) || self.finishes(group) {
            return false;
        }
        let queue = &self.groups[group].queue;
        let rank = self.rank(start, group);
        let mut not_tried = self.groups.keys().filter(|name| !tried.contains(*name) && self.groups[*name].queue == *queue);
        firsts.get(queue).is_some_and(|first| first != group)
            || not_tried.any(|name| self.rank(start, name) < rank && self.could_wait_for_room(name, now))
    }

    /// A6: others finish what they have begun: a partly bound gang, one that keeps a lost member's place, and a satisfied one that still has
    /// something of its rest reserved.
    fn finishes(&self, group: &str) -> bool {
        let Some(life) = self.lives.get(group) else { return false };
        let has_rest = self.is_satisfied(group) && !positive(&life.reserved).is_empty();
        self.is_partly_bound(group) || !life.kept.is_empty() || has_rest
    }

    /// A6: whether a PodGroup that found no room, or was not tried, waits for room.
    pub(super) fn could_wait_for_room(&self, group: &str, now: u64) -> bool {
        let life = self.lives.get(group).cloned().unwrap_or_default();
        let (satisfied, nobody_waits, is_whole) = (self.is_satisfied(group), self.waiting(group).is_empty(), self.is_whole(group));
        if self.has_ended(group) || satisfied && nobody_waits || self.is_shut(group) || self.can_never_fit(group) {
            return false;
        }
        // It waits for its own members: they do not exist, and it is admitted, asks for nothing, or no admission is owed to it. Or it backs off.
        let backs_off = life.backs_off_until > now;
        let for_members = life.admitted || backs_off || self.asked(group).is_empty() || !self.is_owed_a_beginning(group);
        let by_a7 = satisfied && !self.waiting(group).iter().any(|uid| self.leaves_room(group, uid, now));
        let waits_for_members = !is_whole && for_members || nobody_waits && backs_off;
        !waits_for_members && !self.waits_for_retry(group, now) && !by_a7
    }

    /// A6: whether it asks for more than a capability on its way or than the `allocatable` of all nodes, or empty nodes could not take its
    /// members. Of a satisfied PodGroup it is one further member.
    fn can_never_fit(&self, group: &str) -> bool {
        let cluster = self.cluster();
        let satisfied = self.is_satisfied(group);
        let asked = if satisfied { larger(&self.asked(group), &self.asks_of_one(group)) } else { self.asked(group) };
        let offered = cluster.offered();
        let way = walk(&cluster, &self.groups[group].queue);
        let too_much = |(dimension, asked): (&str, i128)| {
            let over = |queue: &&str| spec(&cluster, queue).capability.get(dimension).is_some_and(|most| asked > *most);
            way.iter().any(over) || asked > amount(&offered, dimension)
        };
        let members = if satisfied { 1 } else { self.missing(group) };
        let no_nodes = self.is_whole(group) && self.slots(group, &self.asks_of_one(group), false) < members;
        asked_in(&asked).any(too_much) || no_nodes
    }
}
