//! Updates the state when a gang loses a member: its place is kept, until the gang has its minimum again or the admission timeout ends (A8).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Accounting;
use crate::api::{GroupFacts, GroupKey};
use crate::cycle::admission::reservation;
use crate::cycle::cache::{Group, LostMember, gang};
use crate::cycle::holds::{Hold, Kind};

use super::SchedulingState;

impl SchedulingState {
    /// A member that had a node is gone or has failed.
    pub(super) fn member_lost(&mut self, lost: &LostMember) {
        self.keep_place(lost, None);
    }

    /// Keeps the place of the lost member until then, if its gang still needs it.
    fn keep_place(&mut self, lost: &LostMember, until: Option<Duration>) {
        let (key, uid) = (&lost.facts.group, &lost.facts.uid);
        let Some(group) = self.cache.groups().get(key) else { return };
        let Some(facts) = &group.facts else { return };
        let missing = missing(group, facts);
        // The room of a victim is for another PodGroup, and a gang that is evicted needs none.
        let is_evicted = self.holds.is_victim(uid) || group.partial.eviction.is_some();
        let was_whole = gang::had_its_places(group, facts) && group.counts.placed > 0;
        let ends = facts.is_over() || facts.deleting;
        if gang::minimum(facts) < 2 || !was_whole || ends || is_evicted || self.holds.kept_for(key).count() >= missing {
            return;
        }
        let in_queue = (*lost.queue == *facts.queue).then(|| Arc::clone(&lost.queue));
        if !self.fits_again(lost, in_queue.as_deref()) {
            return;
        }
        if let Some(hold) = self.holds.keep(lost, until).and_then(|number| self.holds.get(number)) {
            hold.places.iter().for_each(|place| self.cache.keep(&place.uid, &place.node, &place.resources));
            reservation::end_backoff(&mut self.cache, &mut self.requeue.timers, key);
            reservation::reserve_refused_bind(&mut self.cache, key, &lost.queue, &lost.facts.request);
            // What is reserved is no demand beside that.
            self.cache.update_demand(key);
            self.follow_kept(key);
        }
    }

    /// Whether the request of the lost member fits again on its node, and in this queue. What is nominated for other PodGroups counts. Some
    /// of it may be overcommitted until pods end, so it is enough if the request fits when the terminating pods and the victims are gone,
    /// as in a search for victims.
    fn fits_again(&mut self, lost: &LostMember, queue: Option<&str>) -> bool {
        if fits(self.cache.accounting(), lost, queue) {
            return true;
        }
        if !self.holds.has_nominations() {
            return false;
        }
        let leaving = self.holds.terminating_or_victims(&self.cache);
        let mut trial = self.cache.trial();
        leaving.iter().for_each(|uid| _ = trial.set_aside(uid));
        fits(trial.accounting(), lost, queue)
    }

    /// The PodGroup changed: drops the kept places that it does not need any more.
    pub(super) fn drop_needless_places(&mut self, key: &GroupKey) {
        if self.holds.kept_for(key).next().is_none() {
            return;
        }
        let needed = self.cache.groups().get(key).and_then(|group| {
            let facts = group.facts.as_ref().filter(|facts| !facts.is_over() && group.counts.placed > 0)?;
            Some(missing(group, facts))
        });
        if needed.is_none() && self.cache.groups().get(key).is_some_and(|group| group.counts.placed == 0) {
            // Nothing of it is left for which the request is kept. It asks for admission as any other.
            reservation::renew(&mut self.cache, &mut self.requeue.timers, key);
        }
        let mut left = needed.unwrap_or(0);
        self.drop_places(key, |_| {
            let drops = left == 0;
            left = left.saturating_sub(1);
            drops
        });
    }

    /// Drops all kept places of the PodGroup.
    pub(super) fn drop_all_places(&mut self, key: &GroupKey) {
        self.drop_places(key, |_| true);
    }

    /// Makes a change as if no place were kept. Those that still fit afterwards are kept as long as before: what is nominated comes first.
    pub(in crate::cycle) fn without_kept_places(&mut self, change: impl FnOnce(&mut Self)) {
        let kept = self.holds.of_kind(Kind::LostMember).filter_map(|hold| Some((hold.lost()?.clone(), hold.until)));
        let kept: Vec<(LostMember, Option<Duration>)> = kept.collect();
        for (lost, _) in &kept {
            self.end_places(&lost.facts.group, |_| true);
        }
        self.follow();
        change(self);
        for (lost, until) in kept {
            if self.holds.nomination(&lost.facts.group).is_none() {
                self.keep_place(&lost, until);
            }
        }
        self.follow();
    }

    /// Drops the kept places of which the time is over, in a standby. No cycle ends the reservation for them there, so it ends with them.
    pub(super) fn end_kept_places_in_standby(&mut self, now: Duration, timeout: Duration) {
        for key in self.kept_too_long(now, timeout) {
            self.end_places(&key, |hold| hold.is_over(now));
        }
        self.follow();
    }

    /// Drops these kept places of the PodGroup, and its reservation with the last of them.
    fn end_places(&mut self, key: &GroupKey, which: impl FnMut(&Hold) -> bool) {
        self.drop_places(key, which);
        if self.holds.kept_for(key).next().is_none() {
            reservation::renew(&mut self.cache, &mut self.requeue.timers, key);
        }
    }

    /// Drops the kept places of which the time is over.
    pub(in crate::cycle) fn end_kept_places(&mut self, now: Duration, timeout: Duration) {
        for key in self.kept_too_long(now, timeout) {
            self.drop_places(&key, |hold| hold.is_over(now));
        }
        self.follow();
    }

    /// Begins the time of new places, and returns the PodGroups with places of which the time is over. Without a timeout they are kept
    /// until the gang has its minimum.
    fn kept_too_long(&mut self, now: Duration, timeout: Duration) -> BTreeSet<GroupKey> {
        self.holds.begin(Kind::LostMember, now, Some(timeout).filter(|timeout| !timeout.is_zero()));
        let over = self.holds.due(Kind::LostMember, now);
        over.into_iter().filter_map(|number| Some(self.holds.get(number)?.group.clone())).collect()
    }

    /// Tells the cache which places are kept for the PodGroup.
    fn follow_kept(&mut self, key: &GroupKey) {
        let kept = self.holds.kept_for(key).map(|place| place.uid.clone()).collect();
        self.cache.set_kept(key, kept);
        // What is reserved for them gives way to none.
        self.cache.update_way(key, false);
    }

    fn drop_places(&mut self, key: &GroupKey, mut which: impl FnMut(&Hold) -> bool) {
        let dropped: Vec<u64> = self.holds.held_for(key, Kind::LostMember).filter(|hold| which(hold)).map(|hold| hold.number).collect();
        for place in dropped.iter().filter_map(|number| self.holds.remove(*number)).flat_map(|hold| hold.places) {
            self.cache.drop_kept(&place.uid, &place.node);
        }
        // What was reserved with them ends in its next turn.
        if !dropped.is_empty() {
            self.requeue.try_again(key);
        }
        self.follow_kept(key);
    }
}

/// Whether the request fits on the node and in the queue. A node that is gone takes no other pod, so it is in no pod's way.
fn fits(accounting: &Accounting, lost: &LostMember, queue: Option<&str>) -> bool {
    let request = &lost.facts.request;
    accounting.ledger().node(&lost.node).is_none_or(|node| node.fits(request).is_ok())
        && queue.is_none_or(|queue| accounting.fits_queue(queue, request).is_ok())
}

/// How many members the minimum lacks, that of each task included.
fn missing(group: &Group, facts: &GroupFacts) -> usize {
    usize::try_from(gang::missing(group, facts)).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;
