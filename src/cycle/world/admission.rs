//! What does a PodGroup reserve in its queue, for how long, and when does the reservation end? (A2, A4, A5)
//!
//! ```text
//!            admitted: reserves its minimum                 placed, or over
//!  Pending ─────────────────────────────────► Inqueue ───────────────────────► Inqueue, reserves nothing
//!     ▲                                       │  │  ▲ shrinks by what members are charged
//!     │ refused, its object changed           │  ╰──╯
//!     ├───────────────────────────────────────┤
//!     │ no nodes until the admission timeout  │
//!     ╰── admission back-off: may be placed, reserves nothing, twice as long each time
//! ```
//!
//! A reservation only shrinks by itself. It grows where admission has checked the queues (F6), and where a refused bind gives a charge
//! back.

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupFacts, GroupKey};
use crate::cycle::gang::{has_its_places, is_satisfied};
use crate::cycle::requeue::{Change, Timer};
use crate::resources::Resources;

use super::{Group, World};

/// After this number of times the back-off does not become longer.
const MOST_DOUBLINGS: u32 = 5;

/// The first back-off of a PodGroup without an admission timeout, after a preemption in vain.
const WITHOUT_TIMEOUT: Duration = Duration::from_secs(30);

static NOTHING: Resources = Resources::new();

/// Whether a PodGroup is admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// It waits for admission, and reserves nothing.
    #[default]
    Pending,
    /// Its minimum may come in.
    Inqueue {
        /// Its minimum: its request and the charges of its members at that time. The part that is not charged to members now may be
        /// reserved.
        minimum: Resources,
        /// The end of the admission timeout (monotonic); none where there is no end.
        until: Option<Duration>,
    },
}

/// The back-off of a PodGroup that found no nodes for the whole admission timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionBackoff {
    /// The number of back-offs since it last had its nodes.
    pub times: u32,
    /// Until when it reserves nothing (monotonic).
    pub until: Duration,
}

impl AdmissionBackoff {
    fn begin(&mut self, now: Duration, timeout: Duration) {
        self.times = self.times.saturating_add(1);
        let doubled = self.times.saturating_sub(1).min(MOST_DOUBLINGS);
        self.until = now.saturating_add(timeout.saturating_mul(1 << doubled));
    }
}

impl Group {
    /// Whether the PodGroup is admitted.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.admission, Admission::Inqueue { .. })
    }

    /// Whether it waits for admission or for a node.
    pub(super) fn is_waiting(&self) -> bool {
        // A PodGroup with a reservation that waits for its own members is tried again, so that a closed queue is noticed. So is one that
        // requests room for members that do not exist yet. A PodGroup with all its nodes needs no admission: in a standby replica no cycle
        // runs.
        let asks = |facts: &Arc<GroupFacts>| !self.is_admitted() && !has_its_places(self, facts);
        self.waits() || self.reservation.is_some() || self.facts.as_ref().is_some_and(asks)
    }
}

impl World {
    /// The reservation of the PodGroup, beyond the charges of its members.
    #[must_use]
    pub fn reserved(&self, group: &Group) -> &Resources {
        group.reservation.as_deref().and_then(|name| self.books.quota().reservation_of(name)).map_or(&NOTHING, |(_, amounts)| amounts)
    }

    /// Revokes the admission: the PodGroup is Pending and reserves nothing.
    pub(in crate::cycle) fn revoke_admission(&mut self, key: &GroupKey) {
        self.cancel_admission_timeout(key);
        if let Some(group) = self.groups.get_mut(key) {
            group.admission = Admission::Pending;
            group.pending_until = None;
        }
        self.release_reservation(key);
    }

    /// Revokes the admission because the request changed. The PodGroup may be admitted anew, and its admission timeout stays as it was.
    pub(super) fn renew_admission(&mut self, key: &GroupKey) {
        let until = self.groups.get(key).and_then(|group| match &group.admission {
            Admission::Inqueue { until, .. } => *until,
            Admission::Pending => group.pending_until,
        });
        self.revoke_admission(key);
        if let Some(group) = self.groups.get_mut(key) {
            group.pending_until = until;
        }
    }

    /// The PodGroup has all nodes that its minimum needs: its reservation, its admission timeout and its back-off end.
    pub(in crate::cycle) fn satisfied(&mut self, key: &GroupKey) {
        self.cancel_admission_timeout(key);
        let Some(group) = self.groups.get_mut(key) else { return };
        group.admission_backoff = AdmissionBackoff::default();
        group.admission = Admission::Inqueue { minimum: Resources::new(), until: None };
        self.release_reservation(key);
    }

    /// Frees the part of the reservation that the placements do not use: waiting PodGroups are tried again.
    pub(in crate::cycle) fn free_surplus(&mut self, key: &GroupKey, reserved: &Resources, placements: &[Placement]) {
        let mut placed = Resources::new();
        placements.iter().for_each(|placement| placed.add(&placement.resources));
        if !placed.covers(reserved) {
            self.quota_freed(key);
        }
    }

    /// The PodGroup is nominated and charged (R10): it reserves nothing besides, and waits as long as its nomination says.
    pub(super) fn release_for_nomination(&mut self, key: &GroupKey, queue: &str) {
        self.cancel_admission_timeout(key);
        // The reservation may have been larger than the charge is now.
        if self.groups.get(key).is_some_and(|group| group.reservation.is_some()) {
            self.quota_freed(key);
        }
        self.set_reservation(key, queue, Resources::new());
        if let Some(group) = self.groups.get_mut(key) {
            group.admission = Admission::Inqueue { minimum: Resources::new(), until: None };
        }
    }

    /// Cancels the admission timeout of the PodGroup, if there is one.
    fn cancel_admission_timeout(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if let Admission::Inqueue { until, .. } = &mut group.admission {
            *until = None;
            self.requeue.timers.cancel(key, Timer::AdmissionTimeout);
        }
    }

    /// The queue of the reservation has more room for other PodGroups.
    fn quota_freed(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let reserved = group.reservation.as_deref().and_then(|name| self.books.quota().reservation_of(name)).map(|(queue, _)| queue);
        let own = group.facts.as_ref().map(|facts| facts.queue.as_str());
        for queue in reserved.into_iter().chain(own) {
            self.requeue.changed(Change::Quota(Arc::from(queue)));
        }
    }

    /// Reserves the minimum of an admitted PodGroup that has no nodes yet, less the charges of its members, at all levels in one step. The
    /// reservation lasts for `timeout` (0: for ever); a partially bound gang keeps it until the gang is finished. Returns whether the
    /// PodGroup is admitted; it is not during its admission back-off.
    pub(in crate::cycle) fn reserve(&mut self, key: &GroupKey, minimum: Resources, now: Duration, timeout: Duration) -> bool {
        // A gang that waits for members that may never be created is not partially bound.
        let partially_bound = self.is_partially_bound(key);
        let Some(group) = self.groups.get_mut(key) else { return false };
        let Some(facts) = group.facts.clone() else { return false };
        let (was, timer) = match &group.admission {
            Admission::Inqueue { until, .. } => (*until, *until),
            Admission::Pending => (group.pending_until.take(), None),
        };
        if !partially_bound && was.is_some_and(|until| until <= now) {
            group.admission_backoff.begin(now, timeout);
            // There may be no other event: the creator of the pods may wait for the admission.
            self.requeue.timers.set(key, Timer::AdmissionBackoff, group.admission_backoff.until);
        }
        if !partially_bound && group.admission_backoff.until > now {
            self.revoke_admission(key);
            return false;
        }
        let mut asked = minimum.clone();
        asked.sub(&group.charged);
        let asked = if is_satisfied(group, &facts) || facts.is_over() { Resources::new() } else { asked.without_negative() };
        let ends = !partially_bound && !timeout.is_zero() && !asked.is_zero();
        let until = ends.then(|| was.unwrap_or_else(|| now.saturating_add(timeout)));
        group.admission = Admission::Inqueue { minimum, until };
        if let Some(until) = until.filter(|_| until != timer) {
            self.requeue.timers.set(key, Timer::AdmissionTimeout, until);
        }
        // The former reservation may have been larger: the rest is free for other PodGroups.
        if self.groups.get(key).is_some_and(|group| !asked.covers(self.reserved(group))) {
            self.quota_freed(key);
        }
        self.set_reservation(key, &facts.queue, asked);
        self.update_demand(key);
        true
    }

    /// Whether it found no nodes for the whole admission timeout and is not admitted again yet (A5).
    pub(in crate::cycle) fn is_admission_backing_off(&self, key: &GroupKey, now: Duration) -> bool {
        self.groups.get(key).is_some_and(|group| group.admission_backoff.until > now)
    }

    /// Handles a preemption in vain. A reservation for which there is room is kept until the admission timeout. A reservation within the
    /// entitlement only (A3) is revoked at once: it counts as used, so victims would be evicted for room that no pod can use.
    pub(in crate::cycle) fn preempted_in_vain(&mut self, key: &GroupKey, now: Duration, timeout: Duration) {
        let Some(group) = self.groups.get(key).filter(|group| group.within_entitlement) else { return };
        let Some((name, facts)) = group.reservation.clone().zip(group.facts.clone()) else { return };
        let reserved = self.reserved(group).clone();
        // A partially bound gang keeps the reservation that it needs to be finished.
        if self.is_partially_bound(key) {
            return;
        }
        let mut trial = self.books.trial();
        trial.reserve(&name, &facts.queue, &Resources::new());
        if trial.books().fits_queue(&facts.queue, &reserved).is_ok() {
            return;
        }
        drop(trial);
        let Some(group) = self.groups.get_mut(key) else { return };
        group.admission_backoff.begin(now, if timeout.is_zero() { WITHOUT_TIMEOUT } else { timeout });
        let until = group.admission_backoff.until;
        // This comes first: it cancels the admission timeout, which is the same moment if the PodGroup was admitted just now.
        self.revoke_admission(key);
        self.requeue.timers.set(key, Timer::AdmissionBackoff, until);
    }

    /// Shrinks the reservation by the charges of the members (A4), and ends it when no more nodes are needed.
    pub(super) fn shrink_reservation(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let Some(facts) = group.facts.as_ref().filter(|_| group.reservation.is_some()) else { return };
        let Admission::Inqueue { minimum, .. } = &group.admission else { return };
        let reserved = self.reserved(group).clone();
        let mut left = minimum.clone();
        left.sub(&group.charged);
        let mut left = left.without_negative();
        left.min_each(&reserved);
        let queue = facts.queue.clone();
        if is_satisfied(group, facts) {
            // The unused part of its minimum is free for other PodGroups.
            if !left.is_zero() {
                self.requeue.changed(Change::Quota(Arc::from(queue.as_str())));
            }
            left = Resources::new();
        }
        if left != reserved {
            self.set_reservation(key, &queue, left);
        }
    }

    /// Reserves the charge of a pod with a refused bind in the same step, so that no other PodGroup takes it.
    pub(super) fn reserve_refused_bind(&mut self, key: &GroupKey, queue: &str, charged: &Resources) {
        let Some(group) = self.groups.get(key) else { return };
        if group.facts.as_ref().is_none_or(|facts| facts.queue != *queue || is_satisfied(group, facts) || facts.is_over()) {
            return;
        }
        let mut reserved = self.reserved(group).clone();
        reserved.add(charged);
        // The charge and the reservation belong to the minimum, or the reservation would shrink at once.
        let mut least = group.charged.clone();
        least.add(&reserved);
        let Some(group) = self.groups.get_mut(key) else { return };
        match &mut group.admission {
            Admission::Inqueue { minimum, .. } => minimum.max_each(&least),
            // Further members may wait behind another PodGroup; this part was admitted all the same.
            Admission::Pending => group.admission = Admission::Inqueue { minimum: least, until: None },
        }
        self.set_reservation(key, queue, reserved);
    }

    /// Ends the reservation of a PodGroup with binds that were refused for the whole `timeout` (0: never).
    pub(in crate::cycle) fn limit_reservation_while_refused(&mut self, key: &GroupKey, now: Duration, timeout: Duration) {
        let Some(group) = self.groups.get(key).filter(|group| group.reservation.is_some() && !timeout.is_zero()) else { return };
        let Some(until) = group.retry.since.map(|since| since.saturating_add(timeout)) else { return };
        if self.is_partially_bound(key) {
            return;
        }
        if until <= now {
            self.revoke_admission(key);
        } else {
            self.requeue.timers.set(key, Timer::BindsRefused, until);
        }
    }

    fn release_reservation(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if let Some(name) = group.reservation.take()
            && let Some(queue) = self.books.quota().reservation_of(&name).map(|(queue, _)| Arc::from(queue))
            && self.books.unreserve(&name)
        {
            self.requeue.changed(Change::Quota(queue));
            self.update_demand(key);
        }
    }

    fn set_reservation(&mut self, key: &GroupKey, queue: &str, amounts: Resources) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if amounts.is_zero() {
            if let Some(name) = group.reservation.take() {
                self.books.unreserve(&name);
            }
            return;
        }
        let name = group.reservation.get_or_insert_with(|| Arc::from(key.to_string()));
        self.books.reserve(name, queue, &amounts);
    }
}
