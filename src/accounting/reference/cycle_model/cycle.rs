//! What happens in one cycle: admission and placement in the order of P1 (A1 to A7). The choices that the text leaves open are those that were
//! made: which PodGroups are tried, which members are bound and where, and which PodGroups looked for victims in vain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::admission::{can_reclaim, sum};
use super::super::cluster::{Amounts, larger, plus};
use super::super::limits::fits;
use super::{CycleModel, MemberState, Place, covers, positive};

/// A bind that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bind {
    pub(crate) pod: String,
    pub(crate) node: String,
}

/// What became of a PodGroup's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// Its minimum, or one further member, has nodes now.
    Placed,
    /// It waits for room (A6).
    WaitsForRoom,
    /// It waits for something else, or not at all.
    Passes,
}

impl CycleModel {
    /// Runs a cycle. The error is the first thing that the rules do not allow.
    pub(crate) fn cycle(
        &mut self,
        now: u64,
        tried: &BTreeSet<String>,
        binds: &[Bind],
        backing_off: &BTreeSet<String>,
    ) -> Result<(), String> {
        self.end_by_time(now);
        let mut left: BTreeSet<String> = tried.iter().filter(|name| self.has_turns(name, now)).cloned().collect();
        let start = self.start();
        let mut binds: VecDeque<Bind> = binds.iter().cloned().collect();
        // A6: the first that waits for room, of each fifo queue.
        let mut first_of_queue: BTreeMap<String, String> = BTreeMap::new();
        // A3: those that look for victims after all turns.
        let mut looking: Vec<String> = Vec::new();
        // P1: the order is found anew after each turn. A PodGroup has its minimum in one turn, and each further member in one.
        while let Some(name) = self.first_of(&start, &left) {
            let queue = self.groups[&name].queue.clone();
            if self.fifo.contains(&queue) && self.is_passed_over(&start, &name, tried, &first_of_queue, now) {
                // A6: what it has reserved is taken back. A5: one that is satisfied stays admitted.
                if !self.is_satisfied(&name) {
                    self.revoke(&name);
                }
                left.remove(&name);
                continue;
            }
            let turn = if self.is_satisfied(&name) {
                self.further_member(&name, now, &mut binds)?
            } else {
                self.minimum(&name, now, &mut binds, &mut looking)?
            };
            match turn {
                Turn::Placed => continue,
                Turn::WaitsForRoom => _ = first_of_queue.entry(queue).or_insert(name.clone()),
                Turn::Passes => {}
            }
            left.remove(&name);
        }
        if let Some(bind) = binds.front() {
            return Err(format!("{} is bound, and has no place by the rules", bind.pod));
        }
        self.look_for_victims(&looking, now, backing_off)
    }

    /// A2 to A5: the turn of a PodGroup that is not satisfied.
    fn minimum(&mut self, group: &str, now: u64, binds: &mut VecDeque<Bind>, looking: &mut Vec<String>) -> Result<Turn, String> {
        let is_whole = self.is_whole(group);
        // A5: during the back-off it is placed where it would be admitted, and reserves nothing. A partly bound gang does not back off.
        let before = self.life(group).clone();
        let had = before.reserved.clone();
        let is_timed_out = self.is_timed_out(group, now);
        let mut may_be_placed = self.admit(group, now);
        // A4: what comes later gives way, as soon as nodes have room. So it does where reclaim alone admits.
        let is_kept_out = !may_be_placed || !self.members_fit(group, self.missing(group));
        if is_whole && is_kept_out && self.later_give_way(group, &self.asked(group), self.missing(group)) {
            may_be_placed = self.admit(group, now);
        }
        if before.backs_off_until > now && !self.is_partly_bound(group) {
            *self.life(group) = before;
            self.lose(group);
        } else if may_be_placed && is_timed_out {
            // A5: it backs off in place of it, so it has reserved nothing that could count (A7).
            self.life(group).first_until = before.first_until;
            self.back_off(group, now);
        }
        may_be_placed &= is_whole;
        if may_be_placed && self.members_fit(group, self.missing(group)) {
            self.take_minimum(group, now, binds, &had)?;
            return Ok(Turn::Placed);
        }
        // A3: no pod goes for members that do not exist.
        if may_be_placed && self.life(group).by_reclaim && !self.is_partly_bound(group) {
            looking.push(group.to_owned());
        }
        Ok(if self.could_wait_for_room(group, now) { Turn::WaitsForRoom } else { Turn::Passes })
    }

    /// P1: whether the PodGroup asks for something now. What follows where it does not is done before the first turn: others use it.
    fn has_turns(&mut self, group: &str, now: u64) -> bool {
        if !self.groups.contains_key(group) || self.has_ended(group) {
            return false;
        }
        let (satisfied, is_whole) = (self.is_satisfied(group), self.is_whole(group));
        // A5: it stays admitted, whatever becomes of its queue.
        if satisfied && (self.places(group) > 0 || !self.waiting(group).is_empty()) {
            self.life(group).admitted = true;
        }
        // O1, A2: a queue that takes no pods does not admit it.
        if self.is_shut(group) && !satisfied {
            self.life(group).admitted = false;
            return false;
        }
        // A4, A6: it waits for a binding to be tried again.
        if self.waits_for_retry(group, now) {
            return false;
        }
        if satisfied {
            return !self.waiting(group).is_empty() && !self.is_shut(group);
        }
        // A4: a gang that lacks members of which some are gated is admitted, also during its back-off, and reserves nothing, but for A8.
        if self.is_gated(group) {
            self.lose(group);
            self.life(group).admitted = true;
            return false;
        }
        // A2: for members that do not exist, admission is owed to a beginning alone.
        let is_owed = is_whole || self.is_owed_a_beginning(group);
        if !is_owed {
            self.lose(group);
            self.life(group).admitted = !self.life(group).kept.is_empty();
        }
        is_owed
    }

    /// A2, A3: asks for the admission where what is reserved is not enough. Returns whether the PodGroup is admitted.
    fn admit(&mut self, group: &str, now: u64) -> bool {
        let asked = self.asked(group);
        let is_whole = self.is_whole(group);
        let life = self.life(group).clone();
        // A2: while it has reserved what it asks for, it is admitted, and where it asks for less it keeps what it has.
        if !positive(&life.reserved).is_empty() && covers(&life.reserved, &asked) {
            let charged = self.charged(group);
            let life = self.life(group);
            life.unreserved = Amounts::new();
            life.minimum = plus(&charged, &life.reserved);
            self.begin_admission(group, now);
            return true;
        }
        let without = self.cluster().without_reservation(group);
        let queue = self.groups[group].queue.clone();
        if fits(&without, &queue, &asked).is_ok() {
            if asked.is_empty() {
                // A2: it is admitted and reserves nothing, so no timeout runs.
                self.life(group).admitted = true;
                self.life(group).until = None;
            } else {
                self.reserve(group, &asked, now, false);
            }
            return true;
        }
        let with_others = if is_whole { asked.clone() } else { plus(&asked, &self.lacked_by_others(group)) };
        if can_reclaim(&without, &queue, &with_others) {
            if is_whole {
                self.reserve(group, &asked, now, true);
            } else {
                self.admit_without_reserving(group, &asked, now);
            }
            return true;
        }
        // A3: one that was admitted so while members are lacking stays admitted for its admission timeout.
        if life.admitted && !life.unreserved.is_empty() && !is_whole {
            self.admit_without_reserving(group, &asked, now);
            return true;
        }
        // A2: it loses what it has, what is reserved for a lost member too.
        self.lose(group);
        let charged = self.charged(group);
        let life = self.life(group);
        (life.reserved, life.minimum) = (Amounts::new(), charged);
        false
    }

    /// A3: what other PodGroups of the queue lack that A3 admitted while they lack members.
    fn lacked_by_others(&self, group: &str) -> Amounts {
        let queue = &self.groups[group].queue;
        let mut lacked = Amounts::new();
        for (name, life) in &self.lives {
            if name != group && self.groups.get(name).is_some_and(|other| other.queue == *queue) {
                lacked = plus(&lacked, &life.unreserved);
            }
        }
        lacked
    }

    /// F4, N2: whether the queues take so many members, one after the other, and the nodes do. Its own reservation is not in its way.
    fn members_fit(&self, group: &str, members: usize) -> bool {
        let (without, one) = (self.cluster().without_reservation(group), self.asks_of_one(group));
        let fit = |count: usize| fits(&without, &self.groups[group].queue, &sum(&vec![one.clone(); count])).is_ok();
        self.slots(group, &one, true) >= members && (1..=members).all(fit)
    }

    /// Returns what one of its waiting members requests. All are alike.
    pub(super) fn asks_of_one(&self, group: &str) -> Amounts {
        self.waiting(group).first().map(|uid| self.members[uid].asks.clone()).unwrap_or_default()
    }

    /// Applies the binds of a minimum, which must be the next ones. A4: the rest begins, as far as it was reserved before or fits now.
    fn take_minimum(&mut self, group: &str, now: u64, binds: &mut VecDeque<Bind>, had: &Amounts) -> Result<(), String> {
        let (asked, charged) = (self.asked(group), self.charged(group));
        let fits = fits(&self.cluster().without_reservation(group), &self.groups[group].queue, &asked).is_ok();
        let life = self.life(group);
        if fits {
            life.minimum = larger(&life.minimum, &plus(&charged, &asked));
            life.reserved = larger(&life.reserved, &asked);
        } else {
            (life.reserved, life.minimum) = (had.clone(), plus(&charged, had));
        }
        for _ in 0..self.missing(group) {
            self.take_bind(group, binds)?;
        }
        self.follow(group);
        self.end_rest_by_time(group, now);
        Ok(())
    }

    /// N1, N2: applies the next bind, which must be one of a waiting member of this PodGroup, on a node with room.
    fn take_bind(&mut self, group: &str, binds: &mut VecDeque<Bind>) -> Result<(), String> {
        let bind = binds.pop_front().ok_or_else(|| format!("there is room for {group}, and it is not bound"))?;
        if !self.waiting(group).contains(&bind.pod) {
            return Err(format!("{} is bound, and a member of {group} is next", bind.pod));
        }
        let asks = self.members[&bind.pod].asks.clone();
        if !self.has_room(&bind.node, &asks, Some(group)) {
            return Err(format!("{} is bound to {}, which has no room", bind.pod, bind.node));
        }
        let place = Place { node: bind.node, queue: self.groups[group].queue.clone(), bound: false, terminating: false };
        if let Some(member) = self.members.get_mut(&bind.pod) {
            member.state = MemberState::On(place);
        }
        self.life(group).tries_again = None;
        Ok(())
    }

    /// A3, R3: after all turns, those that A3 alone admitted have looked for victims, and there are none. One backs off, unless what is
    /// terminating is enough, its request fits by now, or bindings are under way. Whether their pods might go for it is what was decided. They
    /// look in any order, so one may have looked before or after others lost their reservations.
    fn look_for_victims(&mut self, looking: &[String], now: u64, backing_off: &BTreeSet<String>) -> Result<(), String> {
        let before = self.clone();
        looking.iter().filter(|name| backing_off.contains(*name)).for_each(|name| self.back_off(name, now));
        let binds = self.members.values().any(|member| matches!(&member.state, MemberState::On(place) if !place.bound));
        for group in looking {
            if backing_off.contains(group) && before.leaving_are_enough(group) {
                return Err(format!("{group} backs off, and what is terminating is enough"));
            }
            if !backing_off.contains(group) && !binds && !self.leaving_are_enough(group) && !self.reservation_fits(group) {
                return Err(format!("{group} has no victims, and does not back off"));
            }
        }
        Ok(())
    }

    /// R3: whether the queues take its request, and nodes its members, when the terminating pods are gone.
    fn leaving_are_enough(&self, group: &str) -> bool {
        let mut settled = self.clone();
        settled.members.retain(|_, member| !matches!(&member.state, MemberState::On(place) if place.terminating));
        let without = settled.cluster().without_reservation(group);
        fits(&without, &self.groups[group].queue, &settled.asked(group)).is_ok() && settled.members_fit(group, settled.missing(group))
    }

    /// F4: whether the queues take what it has reserved.
    fn reservation_fits(&self, group: &str) -> bool {
        let reserved = self.lives.get(group).map(|life| life.reserved.clone()).unwrap_or_default();
        fits(&self.cluster().without_reservation(group), &self.groups[group].queue, &reserved).is_ok()
    }

    /// The turn of a satisfied PodGroup: one further member.
    fn further_member(&mut self, group: &str, now: u64, binds: &mut VecDeque<Bind>) -> Result<Turn, String> {
        let waiting = self.waiting(group);
        if waiting.is_empty() {
            return Ok(Turn::Passes);
        }
        // A7: any waiting member that need not wait may be placed.
        let may: Vec<String> = waiting.into_iter().filter(|uid| self.leaves_room(group, uid, now)).collect();
        let has_room = !may.is_empty() && (self.members_fit(group, 1) || self.later_give_way(group, &self.asks_of_one(group), 1));
        if may.is_empty() || !has_room {
            return Ok(if self.could_wait_for_room(group, now) { Turn::WaitsForRoom } else { Turn::Passes });
        }
        if binds.front().is_some_and(|bind| self.waiting(group).contains(&bind.pod) && !may.contains(&bind.pod)) {
            return Err(format!("{group}: a further member takes the room that is reserved for others"));
        }
        self.take_bind(group, binds)?;
        self.follow(group);
        Ok(Turn::Placed)
    }
}
