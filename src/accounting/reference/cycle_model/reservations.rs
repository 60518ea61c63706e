//! How long a reservation lasts, and how it changes (A4, A5).

use std::collections::BTreeMap;

use super::super::admission::{as_requests, sum};
use super::super::cluster::{amount, larger, less, plus};
use super::super::limits::fits;
use super::{CycleModel, covers, positive};

/// The admission timeout: how long a PodGroup without nodes keeps its reservation, in milliseconds.
pub(super) const ADMISSION_TIMEOUT: u64 = 30_000;
/// P1, A7: by how much older a further member comes before the minimum of another PodGroup, in seconds.
pub(super) const MINIMUMS_PASS: u64 = 30;
/// The back-off doubles each time, up to this many timeouts.
const LONGEST: u64 = 32;

impl CycleModel {
    /// Revokes the admission and the reservation.
    pub(super) fn revoke(&mut self, group: &str) {
        let life = self.life(group);
        life.admitted = false;
        life.by_reclaim = false;
        life.unreserved.clear();
        life.reserved.clear();
        (life.until, life.earlier_until) = (None, None);
    }

    /// Revokes the admission and the reservation after a change of the object. The change does not extend the timeout.
    pub(super) fn revoke_after_change(&mut self, group: &str) {
        let life = self.life(group);
        let earlier_until = if life.admitted { life.until } else { life.earlier_until };
        self.revoke(group);
        let life = self.life(group);
        life.earlier_until = earlier_until;
        life.kept.clear();
    }

    /// Records that the minimum is placed: the back-off ends, and the reservation but for the rest that the PodGroup states.
    pub(super) fn minimum_is_placed(&mut self, group: &str, now: u64) {
        let life = self.life(group);
        life.rest_until = Some(match life.rest_until {
            None => now + ADMISSION_TIMEOUT,
            Some(until) if until > now => until,
            _ => 0,
        });
        let (rest, minimum, mut reserved) = (self.rest(group), self.life(group).minimum.clone(), self.life(group).reserved.clone());
        self.revoke(group);
        let keeps = !rest.is_empty() && !positive(&reserved).is_empty();
        let life = self.life(group);
        life.admitted = true;
        life.minimum.clear();
        (life.times, life.backs_off_until) = (0, 0);
        life.first_until = None;
        life.kept.clear();
        if keeps {
            reserved.iter_mut().for_each(|(dimension, amounts)| *amounts = (*amounts).min(amount(&rest, dimension)));
            (life.minimum, life.reserved) = (minimum, reserved);
            // In its queue only (A7).
            life.first_until = Some(0);
        }
    }

    /// A4: what a PodGroup that has its minimum may still reserve: what it states in minResources beyond its members.
    fn rest(&self, group: &str) -> super::Amounts {
        let spec = &self.groups[group];
        let over = self.lives.get(group).is_some_and(|life| life.rest_until == Some(0)) || self.has_ended(group) || spec.managed;
        let Some(minimum) = spec.min_resources.as_ref().filter(|_| !over) else { return super::Amounts::new() };
        positive(&less(&as_requests(minimum), &self.charged(group)))
    }

    /// Updates the reservation after a change of the PodGroup. A4: it shrinks by the charges of the members. A5: it ends when the minimum is placed.
    pub(super) fn follow(&mut self, group: &str) {
        if !self.groups.contains_key(group) {
            return;
        }
        let (charged, is_satisfied, min) = (self.charged(group), self.is_satisfied(group), self.groups[group].min_member);
        let (placed, places, missing, is_over) = (self.placed(group), self.places(group), self.missing(group), self.groups[group].over);
        let is_bound = self.count(group, |state| matches!(state, super::MemberState::On(place) if !place.bound)) == 0;
        // A8: without a member on a node nothing is kept.
        if placed == 0 && !self.life(group).kept.is_empty() {
            self.revoke_after_change(group);
        }
        let ended = self.has_ended(group);
        self.life(group).ended = ended;
        let rest = self.rest(group);
        let life = self.life(group);
        life.had_its_places |= is_satisfied && is_bound && places > 0;
        let left = less(&life.minimum, &charged);
        for (dimension, reserved) in &mut life.reserved {
            *reserved = (*reserved).min(amount(&left, dimension));
        }
        life.kept.truncate(if is_satisfied || is_over || placed == 0 { 0 } else { missing });
        if is_satisfied {
            life.reserved.iter_mut().for_each(|(dimension, reserved)| *reserved = (*reserved).min(amount(&rest, dimension)));
            if is_bound && placed > 0 {
                life.had = Some((min, places));
            }
        } else if let Some((_, had)) = &mut life.had {
            *had = (*had).min(places);
        }
    }

    /// Whether no member lives, and all that are there have ended, or as many succeeded as are to. Where it says how many are to succeed,
    /// successes alone are no end before. A new member ends that.
    fn has_ended(&self, group: &str) -> bool {
        let spec = &self.groups[group];
        let ended = |state: &super::MemberState| matches!(state, super::MemberState::Succeeded | super::MemberState::Failed);
        let (all, over) = (self.count(group, |_| true), self.count(group, ended));
        let enough = self.has_succeeded_enough(group, spec);
        let failed = self.count(group, |state| *state == super::MemberState::Failed);
        all == over
            && (all > 0 && (spec.completions.is_none() || failed > 0)
                || enough
                || spec.over
                || self.lives.get(group).is_some_and(|life| life.ended))
    }

    /// A5: whether a gang is partially bound and its other members exist. A gang that had its minimum, still has it, and asks for more does
    /// not count, if none of the additional members is bound.
    pub(super) fn is_partially_bound(&self, group: &str) -> bool {
        let places = self.places(group);
        let had = self.lives.get(group).and_then(|life| life.had);
        let asks_for_more = had.is_some_and(|(min, had)| places >= min && places <= had);
        self.placed(group) > 0 && self.is_whole(group) && !asks_for_more
    }

    /// Reserves for a PodGroup that was admitted and found no nodes; A2 to A5 give the amount and the time.
    pub(super) fn reserve(&mut self, group: &str, lacks_members: bool, now: u64) {
        let (partially_bound, charged, is_satisfied) = (self.is_partially_bound(group), self.charged(group), self.is_satisfied(group));
        let is_over = self.groups[group].over;
        let life = self.life(group);
        let until = if life.admitted { life.until } else { life.earlier_until };
        if !partially_bound && until.is_some_and(|until| until <= now) {
            self.back_off(group, now);
        }
        let life = self.life(group);
        if !partially_bound && life.backs_off_until > now {
            self.revoke(group);
            return;
        }
        life.admitted = true;
        life.earlier_until = None;
        let lacks = if is_satisfied || is_over { super::Amounts::new() } else { positive(&less(&life.minimum, &charged)) };
        let ends = !partially_bound && !lacks.is_empty();
        life.until = ends.then(|| until.unwrap_or(now + ADMISSION_TIMEOUT));
        if lacks_members && life.by_reclaim && !covers(&life.reserved, &lacks) {
            // A3: what it has is kept.
            life.reserved = positive(&life.reserved);
            life.minimum = plus(&charged, &life.reserved);
            life.unreserved = positive(&less(&lacks, &life.reserved));
        } else {
            life.reserved = lacks;
            life.unreserved.clear();
        }
        if !life.reserved.is_empty() {
            life.first_until.get_or_insert(now + ADMISSION_TIMEOUT);
        }
    }

    /// A8: the place and the request of a lost member are kept for its gang.
    pub(super) fn lost(&mut self, member: &super::Member) {
        let (group, super::MemberState::On(place)) = (&member.group, &member.state) else { return };
        let Some(spec) = self.groups.get(group).cloned().filter(|spec| spec.min_member > 1 && !spec.over && place.bound) else { return };
        let (missing, placed, charged) = (self.missing(group), self.placed(group), self.charged(group));
        let fits_again = self.fits_again(place, &spec.queue, &member.asks);
        let life = self.life(group);
        if life.had.is_none() || placed == 0 || life.kept.len() >= missing || !fits_again {
            return;
        }
        life.kept.push(super::Kept { node: place.node.clone(), asks: positive(&member.asks), until: None });
        life.backs_off_until = 0;
        if place.queue == spec.queue {
            life.reserved = plus(&life.reserved, &member.asks);
            life.minimum = larger(&life.minimum, &plus(&charged, &life.reserved));
            life.admitted = true;
        }
    }

    /// A8: whether the request of a lost member fits again on its node, unless that is gone, and in the queue of its gang, if it was charged there.
    fn fits_again(&self, place: &super::Place, queue: &str, asks: &super::Amounts) -> bool {
        let cluster = self.cluster();
        let on_node = !self.nodes.contains_key(&place.node) || self.has_room(&cluster, "", &place.node, asks);
        on_node && (place.queue != queue || fits(&cluster, queue, asks).is_ok())
    }

    /// A5: a back-off ends when a member is gone or has failed and too few exist.
    pub(super) fn rest_ends_without(&mut self, group: &str) {
        if self.groups.contains_key(group) && !self.is_whole(group) {
            self.life(group).backs_off_until = 0;
        }
    }

    /// A8: the time of kept places begins with the next cycle, and ends.
    pub(super) fn end_kept(&mut self, now: u64) {
        for life in self.lives.values_mut() {
            life.kept.iter_mut().for_each(|kept| _ = kept.until.get_or_insert(now + ADMISSION_TIMEOUT));
            life.kept.retain(|kept| kept.until.is_some_and(|until| until > now));
        }
    }

    /// A8: what is kept on the node for other PodGroups.
    pub(super) fn kept_for_others(&self, node: &str, group: &str) -> super::Amounts {
        let others = self.lives.iter().filter(|(name, _)| *name != group).flat_map(|(_, life)| &life.kept);
        sum(&others.filter(|kept| kept.node == node).map(|kept| kept.asks.clone()).collect::<Vec<_>>())
    }

    /// A7: what PodGroups have reserved and further members of others with this age leave room for, by queue.
    pub(super) fn reserved_first(&self, now: u64, created: u64) -> BTreeMap<&str, super::Amounts> {
        let mut first: BTreeMap<&str, super::Amounts> = BTreeMap::new();
        for (name, life) in self.lives.iter().filter(|(_, life)| life.first_until.is_none_or(|until| until > now)) {
            let Some(group) = self.groups.get(name).filter(|group| group.created <= created + MINIMUMS_PASS) else { continue };
            let of_queue = first.entry(&group.queue).or_default();
            *of_queue = plus(of_queue, &positive(&life.reserved));
        }
        first
    }

    fn back_off(&mut self, group: &str, now: u64) {
        let life = self.life(group);
        life.times += 1;
        life.backs_off_until = now + ADMISSION_TIMEOUT * LONGEST.min(1 << (life.times - 1));
    }

    /// A3: a reservation by A3 alone ends at once when the PodGroup finds no pods to evict. There are no evictions here, so it ends
    /// whenever the PodGroup tries and the terminating pods do not free enough (R3).
    pub(super) fn finds_no_victims(&mut self, group: &str, now: u64) {
        let Some(life) = self.lives.get(group).filter(|life| life.by_reclaim && !positive(&life.reserved).is_empty()) else { return };
        let (queue, without) = (self.groups[group].queue.clone(), self.cluster().without_reservation(group));
        if self.is_partially_bound(group) || fits(&without, &queue, &life.reserved).is_ok() {
            return;
        }
        let mut settled = without;
        settled.pods.retain(|_, pod| !pod.terminating);
        // R3: its queues must take what it asks for, and nodes its members.
        let fits_then =
            |model: &Self| fits(&settled, &queue, &model.asked(group)).is_ok() && model.find_places(&settled, group, model.missing(group));
        if settled.pods.len() < self.cluster().pods.len() && fits_then(self) {
            return;
        }
        self.back_off(group, now);
        self.revoke(group);
    }
}
