//! How does a reservation begin, shrink and end, and when does a PodGroup back off (A2 to A5)?

use super::super::admission::{as_requests, sum};
use super::super::cluster::{Amounts, Cluster, amount, less, plus};
use super::super::limits::fits;
use super::super::tree::{broken, closed_by, is_leaf};
use super::places::of_places;
use super::{CycleModel, MemberState, positive};

/// The admission timeout, in milliseconds.
const TIMEOUT: u64 = 30_000;
/// A5: twice as long each time, up to 32 timeouts: 2 to the power of 5.
const MOST_DOUBLINGS: u32 = 5;

impl CycleModel {
    /// A2, A3: reserves a request.
    pub(super) fn reserve(&mut self, group: &str, asked: &Amounts, now: u64, by_reclaim: bool) {
        let charged = self.charged(group);
        let life = self.life(group);
        life.minimum = plus(&charged, asked);
        life.reserved = positive(asked);
        life.by_reclaim = by_reclaim;
        life.unreserved = Amounts::new();
        self.begin_admission(group, now);
    }

    /// A3: it lacks members, so it is admitted and reserves nothing more until the request fits. What it has is for the members that exist.
    pub(super) fn admit_without_reserving(&mut self, group: &str, asked: &Amounts, now: u64) {
        let charged = self.charged(group);
        let life = self.life(group);
        life.by_reclaim = true;
        life.minimum = plus(&charged, &life.reserved);
        life.unreserved = positive(&less(asked, &life.reserved));
        self.begin_admission(group, now);
    }

    /// The admission timeout begins with the cycle that admits. A5: where a change of the object had ended the reservation, its time goes on.
    pub(super) fn begin_admission(&mut self, group: &str, now: u64) {
        let is_partly_bound = self.is_partly_bound(group);
        let life = self.life(group);
        life.admitted = true;
        life.until = (!is_partly_bound).then(|| life.until.unwrap_or(now + TIMEOUT));
        self.begin_to_count(group, now);
    }

    /// A7: a reservation counts for one admission timeout, from the first one that its PodGroup made since it was satisfied last.
    fn begin_to_count(&mut self, group: &str, now: u64) {
        let life = self.life(group);
        if !positive(&life.reserved).is_empty() {
            life.first_until.get_or_insert(now + TIMEOUT);
        }
    }

    /// A5, A6: the admission and the reservation end, without a back-off and without a time that goes on. So do the places (A8).
    pub(super) fn revoke(&mut self, group: &str) {
        self.life(group).kept.clear();
        self.lose(group);
    }

    /// A5: when its object names another queue or other minResources, it asks anew, and its time goes on. A8: nothing is kept any more.
    pub(super) fn revoke_after_change(&mut self, group: &str) {
        let until = self.life(group).until;
        self.revoke(group);
        self.life(group).until = until;
    }

    /// A2: the admission ends with its time, and the reservation but for the places of lost members (A8).
    pub(super) fn lose(&mut self, group: &str) {
        let charged = self.charged(group);
        let life = self.life(group);
        life.admitted = false;
        life.until = None;
        life.reserved = positive(&no_more_than(&life.reserved, &of_places(life)));
        life.minimum = plus(&charged, &life.reserved);
        life.by_reclaim = false;
        life.unreserved = Amounts::new();
    }

    /// A4: where only reservations of PodGroups of the queue that come later are in the way, the last of them give way, as many as are in the
    /// way, and only if nodes take so many members now. Returns whether they did.
    pub(super) fn later_give_way(&mut self, group: &str, asked: &Amounts, members: usize) -> bool {
        let queue = self.groups[group].queue.clone();
        let own = self.rank_now(group, None);
        let gives_way = |name: &String| {
            let of_queue = name != group && self.groups.get(name).is_some_and(|other| other.queue == queue);
            let begun = || self.is_satisfied(name) || self.is_partly_bound(name) || !self.lives[name].kept.is_empty();
            of_queue && !begun() && self.rank_now(name, Some(self.groups[name].created)) > own
        };
        let mut cluster = self.cluster().without_reservation(group);
        let mut later: Vec<String> = cluster.reservations.keys().filter(|name| gives_way(name)).cloned().collect();
        later.sort_by_key(|name| self.rank_now(name, Some(self.groups[name].created)));
        let mut way = Vec::new();
        let one = self.asks_of_one(group);
        let takes = |cluster: &Cluster, asks: &Amounts| fits(cluster, &queue, asks).is_ok();
        // F3: the queue may take all of them, and not the first alone.
        while !takes(&cluster, asked) || !(1..=members).all(|count| takes(&cluster, &sum(&vec![one.clone(); count]))) {
            let Some(last) = later.pop() else { return false };
            cluster = cluster.without_reservation(&last);
            way.push(last);
        }
        let taken = !way.is_empty() && self.slots(group, &one, true) >= members;
        if taken {
            way.iter().for_each(|name| self.revoke(name));
        }
        taken
    }

    /// A5: the PodGroup backs off, for as long as the timeout, twice as long each time, up to 32 timeouts. It reserves nothing, for a lost
    /// member neither.
    pub(super) fn back_off(&mut self, group: &str, now: u64) {
        self.lose(group);
        let charged = self.charged(group);
        let life = self.life(group);
        (life.reserved, life.minimum) = (Amounts::new(), charged);
        life.backs_off_until = now + (TIMEOUT << life.times.min(MOST_DOUBLINGS));
        life.times += 1;
    }

    /// A5: whether its admission timeout is over. A partly bound gang keeps its reservation, without a time.
    pub(super) fn is_timed_out(&self, group: &str, now: u64) -> bool {
        let is_over = self.lives.get(group).and_then(|life| life.until).is_some_and(|until| until <= now);
        is_over && !self.is_satisfied(group) && !self.is_partly_bound(group)
    }

    /// A4, A5: what follows from every event: the reservation shrinks by the charges, and ends when the PodGroup is satisfied or has ended.
    pub(super) fn follow(&mut self, group: &str) {
        let Some(spec) = self.groups.get(group).cloned() else { return };
        self.note_end(group);
        let has_ended = self.has_ended(group);
        let charged = self.charged(group);
        let satisfied = self.is_satisfied(group);
        let (placed, succeeded, needs, missing) = (self.placed(group), self.succeeded(group), self.needs(group), self.missing(group));
        let bound = self.count(group, |state| matches!(state, MemberState::On(place) if place.bound && !place.terminating));
        let life = self.life(group);
        // A4: it shrinks by what the members are charged, and does not grow when a charge goes.
        life.reserved = no_more_than(&life.reserved, &less(&life.minimum, &charged));
        if has_ended {
            // A5: it ends, the rest too.
            self.revoke(group);
            (self.life(group).times, self.life(group).backs_off_until) = (0, 0);
            return;
        }
        if satisfied {
            // A8: kept until the gang is satisfied. A5: the reservation, the back-off and the count end.
            life.kept.clear();
            life.until = None;
            life.by_reclaim = false;
            life.unreserved = Amounts::new();
            life.times = 0;
            life.backs_off_until = 0;
            life.first_until = None;
            // A4: the rest: what minResources that our controller did not write state beyond the charges, as far as it was reserved.
            let stated = spec.min_resources.filter(|_| !spec.managed && life.rest_until != Some(0));
            let rest = stated.map(|stated| less(&as_requests(&stated), &charged)).unwrap_or_default();
            life.reserved = no_more_than(&life.reserved, &rest);
            // Without a rest, nothing of its minimum is left that could be reserved.
            if positive(&life.reserved).is_empty() {
                life.minimum = Amounts::new();
            }
            // Satisfied once: when the bindings of these members were done. With a minimum of 0, one of a member.
            if bound + succeeded > 0 && bound == placed {
                life.had_its_places = true;
                life.had = Some((needs, placed));
            } else if placed == 0 {
                // A5: what it had before counts no more.
                life.had = None;
            }
            return;
        }
        // A5: it is partly bound as any gang from when one of the additional members has a node.
        if let Some((minimum, before)) = life.had {
            life.had = (placed <= before).then_some((minimum, placed));
        }
        // A8: at most as many places are kept as members are missing.
        if life.kept.len() > missing {
            life.kept.truncate(missing);
            if life.until.is_none() && life.tries_again.is_none() {
                life.reserved = no_more_than(&life.reserved, &of_places(life));
            }
        }
        // A8: kept until the gang has no member with a node. It asks anew then, and its time goes on.
        if placed == 0 && !self.life(group).kept.is_empty() {
            self.revoke_after_change(group);
        }
    }

    /// A1: it has ended when no member lives, and either members are there that all have ended, or as many succeeded as are to. Where it says
    /// how many are to succeed, successes alone are no end before.
    fn note_end(&mut self, group: &str) {
        let Some(spec) = self.groups.get(group).cloned() else { return };
        let lives = self.count(group, |state| !matches!(state, MemberState::Succeeded | MemberState::Failed));
        let there = self.count(group, |_| true);
        let more_to_come = spec.completions.is_some() && self.count(group, |state| *state == MemberState::Failed) == 0;
        if lives == 0 && (there > 0 && !more_to_come || self.has_succeeded_enough(group, &spec)) {
            self.life(group).ended = true;
        }
    }

    /// A4, A5, A8: what ends by time or by the state of a queue, before any PodGroup is tried.
    pub(super) fn end_by_time(&mut self, now: u64) {
        for name in self.groups.keys().cloned().collect::<Vec<_>>() {
            self.follow(&name);
            // A8: one admission timeout, counted from the next cycle.
            self.life(&name).kept.iter_mut().for_each(|kept| _ = kept.until.get_or_insert(now + TIMEOUT));
            self.give_up_kept(&name, |kept| kept.until.is_some_and(|until| until <= now));
            let satisfied = self.is_satisfied(&name);
            // A4: the time of the rest goes on where a member is lost or its binding refused.
            if self.life(&name).rest_until.is_some_and(|until| until <= now) && !satisfied {
                self.life(&name).rest_until = Some(0);
            }
            // A5: one that is satisfied stays admitted and keeps its rest, whatever becomes of its queue.
            if satisfied {
                self.end_rest_by_time(&name, now);
                continue;
            }
            // A5: it ends when its queue is closed or broken.
            if self.is_shut(&name) {
                self.revoke(&name);
                continue;
            }
            // A4: what the turns of this cycle find; a gang has none while it waits for a binding to be tried again.
            if self.is_gated(&name) && !self.waits_for_retry(&name, now) {
                let admitted = self.life(&name).admitted;
                self.lose(&name);
                // It stays admitted where it has no turn.
                self.life(&name).admitted = admitted;
            }
            // A5: with bindings that were refused for a whole admission timeout since one was accepted, it reserves nothing until its next try.
            let refused = self.life(&name).refused_since.is_some_and(|since| since + TIMEOUT <= now);
            let reserves = !positive(&self.life(&name).reserved).is_empty();
            if refused && reserves && self.waits_for_retry(&name, now) && !self.is_partly_bound(&name) {
                self.revoke(&name);
            }
        }
    }

    /// A4: the rest stays for one admission timeout, from the first time that the PodGroup is satisfied, here from the cycle that sees it. There
    /// is no second one.
    pub(super) fn end_rest_by_time(&mut self, group: &str, now: u64) {
        let has_members = self.places(group) > 0 || !self.waiting(group).is_empty();
        let life = self.life(group);
        if has_members && life.rest_until.is_none() {
            life.rest_until = Some(now + TIMEOUT);
        }
        if life.rest_until.is_some_and(|until| until <= now) {
            life.rest_until = Some(0);
            life.reserved = Amounts::new();
        }
    }

    /// O1, T1b: whether the queue of the PodGroup, or one above it, is closed or broken.
    pub(super) fn is_shut(&self, group: &str) -> bool {
        let (cluster, queue) = (self.cluster(), &self.groups[group].queue);
        broken(&cluster, queue).is_some() || !is_leaf(&cluster, queue) || closed_by(&cluster, queue).is_some()
    }

    /// A5: a part has nodes and the others exist; not one that was satisfied, has still as many members charged as its minimum was then, and
    /// asks for more, until one of the additional members has a node ([`CycleModel::follow`] forgets the minimum then).
    pub(super) fn is_partly_bound(&self, group: &str) -> bool {
        let placed = self.placed(group);
        let part_has_nodes = placed > 0 && !self.is_satisfied(group) && self.is_whole(group);
        let had = self.lives.get(group).and_then(|life| life.had);
        let asks_for_more = had.is_some_and(|(minimum, _)| self.needs(group) > minimum && placed >= minimum);
        part_has_nodes && !asks_for_more
    }

    /// A4: whether it lacks members of which some are gated.
    pub(super) fn is_gated(&self, group: &str) -> bool {
        !self.is_whole(group) && self.count(group, |state| *state == MemberState::Gated) > 0
    }

    /// A4, A6: whether it waits for a binding to be tried again; without a waiting member there is none.
    pub(super) fn waits_for_retry(&self, group: &str, now: u64) -> bool {
        self.lives.get(group).and_then(|life| life.tries_again).is_some_and(|at| at > now) && !self.waiting(group).is_empty()
    }
}

/// Returns the smaller amount in each dimension.
pub(super) fn no_more_than(amounts: &Amounts, most: &Amounts) -> Amounts {
    amounts.iter().map(|(dimension, own)| (dimension.clone(), (*own).min(amount(most, dimension)))).collect()
}
