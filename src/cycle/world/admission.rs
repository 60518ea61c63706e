//! What has a group reserved in its queue, for how long, and what becomes of it? (A2, A4, A5)
//!
//! ```text
//!            admitted: reserves its minimum                 placed, or over
//!  Pending ─────────────────────────────────► Inqueue ───────────────────────► Inqueue, reserves nothing
//!     ▲                                       │  │  ▲ shrinks by what members are charged
//!     │ refused, its object changed           │  ╰──╯
//!     ├───────────────────────────────────────┤
//!     │ no places for the whole patience      │
//!     ╰── rests: may be placed, reserves nothing, twice as long each time
//! ```
//!
//! A reservation only ever shrinks by itself; it grows where admission has asked the queues (F6), and where a refused bind gives a charge back.

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupFacts, GroupKey};
use crate::cycle::gang::{has_its_places, is_satisfied};
use crate::cycle::requeue::{Change, Timer};
use crate::resources::Resources;
use crate::rules::{Rule, holds};

use super::{Group, World};

/// After so many times the rest does not become longer.
const LONGEST: u32 = 5;

/// How long one rests first whose patience has no end, and that has asked in vain.
const ENDLESS: Duration = Duration::from_secs(30);

static NOTHING: Resources = Resources::new();

/// Whether a group is admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// It waits for admission, and reserves nothing.
    #[default]
    Pending,
    /// Its minimum may come in.
    Inqueue {
        /// Its minimum: what it asked for and what its members were charged then. Of it, what they are not charged now may be reserved.
        minimum: Resources,
        /// Until when it is kept for one that finds no places (monotonic); none where there is no end.
        until: Option<Duration>,
    },
}

/// How a group rests that has found no places for the whole patience.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// How often that was so since it last had its places.
    pub times: u32,
    /// Until when it reserves nothing (monotonic).
    pub until: Duration,
}

impl Rest {
    fn begin(&mut self, now: Duration, patience: Duration) {
        self.times = self.times.saturating_add(1);
        let most = if holds(Rule::A5Most) { LONGEST } else { LONGEST.saturating_mul(2) };
        let doubled = if holds(Rule::A5Twice) { self.times.saturating_sub(1).min(most) } else { 0 };
        self.until = now.saturating_add(patience.saturating_mul(1 << doubled));
    }
}

/// Whether nothing is reserved for it any more.
fn is_over(facts: &GroupFacts) -> bool {
    facts.is_over() && holds(Rule::A5Over)
}

impl Group {
    /// Whether its minimum may come in.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.admission, Admission::Inqueue { .. })
    }

    /// Whether it waits for admission or for a place.
    pub(super) fn is_waiting(&self) -> bool {
        // One that has something reserved and waits for its own members is asked again, too, whether its queue is open; and so is one that asks for room for members which are not
        // there yet, though others of it have their places. Who has its places needs no cycle that admits it: where this replica stands by, none ever runs.
        let asks = |facts: &Arc<GroupFacts>| !self.is_admitted() && !has_its_places(self, facts);
        self.waits() || self.holds.is_some() || self.facts.as_ref().is_some_and(asks)
    }
}

impl World {
    /// What the group has reserved beyond what its members are charged.
    #[must_use]
    pub fn reserved(&self, group: &Group) -> &Resources {
        group.holds.as_deref().and_then(|name| self.books.quota().reservation_of(name)).map_or(&NOTHING, |(_, amounts)| amounts)
    }

    /// The group is not admitted, and reserves nothing.
    pub(in crate::cycle) fn pend(&mut self, key: &GroupKey) {
        self.without_end(key);
        if let Some(group) = self.groups.get_mut(key) {
            group.admission = Admission::Pending;
            group.patience = None;
        }
        self.release_reservation(key);
    }

    /// What the group asks for is another, so it is admitted anew, or not; its patience is no longer for that.
    pub(super) fn pend_anew(&mut self, key: &GroupKey) {
        let until = self.groups.get(key).and_then(|group| match &group.admission {
            Admission::Inqueue { until, .. } => *until,
            Admission::Pending => group.patience,
        });
        self.pend(key);
        if let Some(group) = self.groups.get_mut(key) {
            group.patience = until.filter(|_| holds(Rule::A5Anew));
        }
    }

    /// The group has all the places that its minimum needs: nothing is reserved any more, and its patience is new.
    pub(in crate::cycle) fn satisfied(&mut self, key: &GroupKey) {
        self.without_end(key);
        let Some(group) = self.groups.get_mut(key) else { return };
        group.rest = Rest::default();
        group.admission = Admission::Inqueue { minimum: Resources::new(), until: None };
        if holds(Rule::A5Places) {
            self.release_reservation(key);
        }
    }

    /// What the group had reserved beyond what it is charged now is free for others, who are to have a look.
    pub(in crate::cycle) fn free_surplus(&mut self, key: &GroupKey, reserved: &Resources, placements: &[Placement]) {
        let mut placed = Resources::new();
        placements.iter().for_each(|placement| placed.add(&placement.resources));
        if !placed.covers(reserved) {
            self.quota_freed(key);
        }
    }

    /// Places are kept for the group and charged (R10): they are not reserved as well, and it waits for them as long as its nomination says.
    pub(super) fn reserves_elsewhere(&mut self, key: &GroupKey, queue: &str) {
        self.without_end(key);
        // More may have been reserved than is charged now.
        if self.groups.get(key).is_some_and(|group| group.holds.is_some()) {
            self.quota_freed(key);
        }
        self.hold(key, queue, Resources::new());
        if let Some(group) = self.groups.get_mut(key) {
            group.admission = Admission::Inqueue { minimum: Resources::new(), until: None };
        }
    }

    /// The end of the group's patience, if there was one, wakes nobody any more.
    fn without_end(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if let Admission::Inqueue { until, .. } = &mut group.admission {
            *until = None;
            self.requeue.timers.cancel(key, Timer::AdmissionTimeout);
        }
    }

    /// The queue in which the PodGroup has its reservation has more left for others.
    fn quota_freed(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let held = group.holds.as_deref().and_then(|name| self.books.quota().reservation_of(name)).map(|(queue, _)| queue);
        let own = group.facts.as_ref().map(|facts| facts.queue.as_str());
        for queue in held.into_iter().chain(own) {
            self.requeue.changed(Change::Quota(Arc::from(queue)));
        }
    }

    /// Admission took the group, which has no places yet: what its members are not charged of its minimum is reserved, at all levels in one step, for as
    /// long as `patience` (0: for ever). Whether it is admitted; one that rests is not. A gang of which a part is bound keeps its reservation until it is
    /// finished.
    pub(in crate::cycle) fn reserve(&mut self, key: &GroupKey, minimum: Resources, now: Duration, patience: Duration) -> bool {
        // One that waits for members of its own, which may never come, is no such gang.
        let half_bound = self.is_half_bound(key);
        let Some(group) = self.groups.get_mut(key) else { return false };
        let Some(facts) = group.facts.clone() else { return false };
        let (was, wakes) = match &group.admission {
            Admission::Inqueue { until, .. } => (*until, *until),
            Admission::Pending => (group.patience.take(), None),
        };
        if holds(Rule::A5Patience) && !half_bound && was.is_some_and(|until| until <= now) {
            group.rest.begin(now, patience);
            // Nothing else may ever happen: who makes the pods of a group may wait for its admission.
            self.requeue.timers.set(key, Timer::AdmissionBackoff, group.rest.until);
        }
        if holds(Rule::A5Rests) && !half_bound && group.rest.until > now {
            self.pend(key);
            return false;
        }
        let mut asked = minimum.clone();
        asked.sub(&group.charged);
        let asked = if is_satisfied(group, &facts) || is_over(&facts) { Resources::new() } else { asked.without_negative() };
        let ends = !half_bound && !patience.is_zero() && !asked.is_zero();
        let until = ends.then(|| was.unwrap_or_else(|| now.saturating_add(patience)));
        group.admission = Admission::Inqueue { minimum, until };
        if let Some(until) = until.filter(|_| until != wakes) {
            self.requeue.timers.set(key, Timer::AdmissionTimeout, until);
        }
        // What it asked for before may have been more: that is free for others, who are to have a look.
        if self.groups.get(key).is_some_and(|group| !asked.covers(self.reserved(group))) {
            self.quota_freed(key);
        }
        self.hold(key, &facts.queue, asked);
        self.demand_again(key);
        true
    }

    /// Whether it found no places for the whole patience, and is not admitted again yet (A5).
    pub(in crate::cycle) fn is_resting(&self, key: &GroupKey, now: Duration) -> bool {
        self.groups.get(key).is_some_and(|group| group.rest.until > now)
    }

    /// The group has asked in vain for the places of others. Where there is room for what it has reserved, that is kept for it until its patience is over; what was reserved
    /// by right alone (A3) is taken back at once: it counts as taken, so others would go to make room for what nobody can use.
    pub(in crate::cycle) fn give_up(&mut self, key: &GroupKey, now: Duration, patience: Duration) {
        let Some(group) = self.groups.get(key).filter(|group| group.by_right) else { return };
        let Some((name, facts)) = group.holds.clone().zip(group.facts.clone()) else { return };
        let held = self.reserved(group).clone();
        // A gang of which a part is bound keeps what it needs to be finished.
        if self.is_half_bound(key) || !holds(Rule::A5Vain) {
            return;
        }
        let mut trial = self.books.trial();
        trial.reserve(&name, &facts.queue, &Resources::new());
        if trial.books().fits_queue(&facts.queue, &held).is_ok() {
            return;
        }
        drop(trial);
        let Some(group) = self.groups.get_mut(key) else { return };
        group.rest.begin(now, if patience.is_zero() { ENDLESS } else { patience });
        let until = group.rest.until;
        // First, for the end of its patience wakes nobody any more, and that is the same moment if it was admitted just now.
        self.pend(key);
        self.requeue.timers.set(key, Timer::AdmissionBackoff, until);
    }

    /// What the group reserves follows what its members are charged (A4), and goes when it needs no places any more.
    pub(super) fn shrink_reservation(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let Some(facts) = group.facts.as_ref().filter(|_| group.holds.is_some()) else { return };
        let Admission::Inqueue { minimum, .. } = &group.admission else { return };
        let held = self.reserved(group).clone();
        let mut left = minimum.clone();
        if holds(Rule::A4) {
            left.sub(&group.charged);
        }
        let mut left = left.without_negative();
        left.min_each(&held);
        let queue = facts.queue.clone();
        if is_satisfied(group, facts) && holds(Rule::A5Places) {
            // What it does not use of its minimum is free for others.
            if !left.is_zero() {
                self.requeue.changed(Change::Quota(Arc::from(queue.as_str())));
            }
            left = Resources::new();
        }
        if left != held {
            self.hold(key, &queue, left);
        }
    }

    /// A bind was refused: what its pod was charged is reserved for its group in the same step, so that nobody else takes it meanwhile.
    pub(super) fn swap_back(&mut self, key: &GroupKey, queue: &str, charged: &Resources) {
        let Some(group) = self.groups.get(key).filter(|_| holds(Rule::A5Back)) else { return };
        if group.facts.as_ref().is_none_or(|facts| facts.queue != *queue || is_satisfied(group, facts) || is_over(facts)) {
            return;
        }
        let mut held = self.reserved(group).clone();
        held.add(charged);
        // What is charged and reserved now belongs to its minimum, or it would shrink at once.
        let mut least = group.charged.clone();
        least.add(&held);
        let Some(group) = self.groups.get_mut(key) else { return };
        match &mut group.admission {
            Admission::Inqueue { minimum, .. } => minimum.max_each(&least),
            // Further members of it wait behind somebody, say; this part of it had come in all the same.
            Admission::Pending => group.admission = Admission::Inqueue { minimum: least, until: None },
        }
        self.hold(key, queue, held);
    }

    /// The group waits until a bind is tried again. Where they were refused all the time, its reservation is kept for no longer than its patience (0: for ever).
    pub(in crate::cycle) fn keep_while_refused(&mut self, key: &GroupKey, now: Duration, patience: Duration) {
        let Some(group) = self.groups.get(key).filter(|group| group.holds.is_some() && !patience.is_zero()) else { return };
        let Some(until) = group.retry.since.map(|since| since.saturating_add(patience)) else { return };
        if self.is_half_bound(key) || !holds(Rule::A5Refused) {
            return;
        }
        if until <= now {
            self.pend(key);
        } else {
            self.requeue.timers.set(key, Timer::BindsRefused, until);
        }
    }

    fn release_reservation(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if let Some(name) = group.holds.take()
            && let Some(queue) = self.books.quota().reservation_of(&name).map(|(queue, _)| Arc::from(queue))
            && self.books.unreserve(&name)
        {
            self.requeue.changed(Change::Quota(queue));
            self.demand_again(key);
        }
    }

    fn hold(&mut self, key: &GroupKey, queue: &str, amounts: Resources) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if amounts.is_zero() || !holds(Rule::A2Reserves) {
            if let Some(name) = group.holds.take() {
                self.books.unreserve(&name);
            }
            return;
        }
        let name = group.holds.get_or_insert_with(|| Arc::from(key.to_string()));
        self.books.reserve(name, queue, &amounts);
    }
}
