//! The reservation of an admitted PodGroup in its queue: its amount, and when it ends (A2, A4, A5).
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
//! A reservation only shrinks by itself. It grows where admission has checked the queues (F4), and where a refused bind gives a charge
//! back.

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::GroupKey;
use crate::cycle::cache::gang::{is_satisfied, is_satisfied_with_members};
use crate::cycle::cache::phase::has_ended;
use crate::cycle::cache::reservation::{AdmissionState, Precedence, Rest};
use crate::cycle::cache::{AdmissionBackoff, Cache, Group, Wake};
use crate::cycle::policy::WITHOUT_TIMEOUT;
use crate::cycle::requeue::{Timer, Timers};
use crate::resources::Resources;

use super::admit::Admitted;

/// After this number of times the back-off does not become longer.
const MOST_DOUBLINGS: u32 = 5;

impl AdmissionBackoff {
    fn begin(&mut self, now: Duration, timeout: Duration) {
        self.times = self.times.saturating_add(1);
        let doubled = self.times.saturating_sub(1).min(MOST_DOUBLINGS);
        self.until = now.saturating_add(timeout.saturating_mul(1 << doubled));
    }
}

/// Revokes the admission: the PodGroup is Pending and reserves nothing.
pub(in crate::cycle) fn revoke(cache: &mut Cache, timers: &mut Timers, key: &GroupKey) {
    cancel_timeout(cache, timers, key);
    timers.cancel(key, Timer::Precedence);
    if let Some(group) = cache.group_mut(key) {
        group.admission.state = AdmissionState::default();
        group.admission.within_entitlement = false;
    }
    cache.set_unreserved(key, None);
    cache.release_reservation(key);
}

/// Admits a PodGroup that reserves nothing but what is `kept` for lost members: scheduling gates hold its members back (A4).
pub(in crate::cycle) fn admit_without_reservation(cache: &mut Cache, timers: &mut Timers, key: &GroupKey, kept: &Resources) {
    let Some(group) = cache.groups().get(key) else { return };
    let (queue, reserved) = (cache.reserves_in(group), cache.reserved(group).clone());
    let mut stays = kept.clone();
    stays.min_each(&reserved);
    let mut minimum = Resources::new();
    match queue {
        Some(queue) if !stays.is_zero() => {
            cancel_timeout(cache, timers, key);
            cache.set_unreserved(key, None);
            if stays != reserved {
                quota_freed(cache, key);
                cache.set_reservation(key, &queue, &stays);
            }
            minimum = stays;
        }
        _ => revoke(cache, timers, key),
    }
    if let Some(group) = cache.group_mut(key) {
        if !minimum.is_zero() {
            minimum.add(&group.charged);
        }
        group.admission.state = AdmissionState::Inqueue { minimum, until: None };
        group.admission.within_entitlement = false;
    }
}

/// Revokes the admission because the request changed. The PodGroup may be admitted anew, and its admission timeout stays as it was.
pub(in crate::cycle) fn renew(cache: &mut Cache, timers: &mut Timers, key: &GroupKey) {
    let until = cache.groups().get(key).and_then(|group| group.admission.state.until());
    revoke(cache, timers, key);
    if let Some(group) = cache.group_mut(key) {
        group.admission.state = AdmissionState::Pending { until };
    }
}

/// The PodGroup has all nodes that its minimum needs: its admission timeout and its back-off end, and its reservation, but for what it states
/// beyond its minimum, which it keeps for `time` from the first moment on.
pub(in crate::cycle) fn satisfied(cache: &mut Cache, timers: &mut Timers, key: &GroupKey, now: Duration, time: Duration) {
    cancel_timeout(cache, timers, key);
    let Some(group) = cache.group_mut(key) else { return };
    group.admission.rest = match group.admission.rest {
        Rest::Owed => Rest::Until(now.saturating_add(time)),
        Rest::Until(until) if until > now => Rest::Until(until),
        Rest::Until(_) | Rest::Over => Rest::Over,
    };
    let rest = rest_of(group);
    group.admission.backoff = AdmissionBackoff::default();
    group.admission.within_entitlement = false;
    timers.cancel(key, Timer::Precedence);
    group.admission.precedence = Precedence::Whole;
    if rest.is_zero() || group.admission.reservation.is_none() {
        group.admission.state = AdmissionState::SETTLED;
        cache.set_unreserved(key, None);
        cache.release_reservation(key);
        return;
    }
    if let Rest::Until(until) = group.admission.rest {
        timers.set(key, Timer::Rest, until);
    }
    cache.set_unreserved(key, None);
    cache.update_first(key);
}

/// The minimum was placed. What its queues took beyond the charges of its members stays reserved, as far as the PodGroup states so much:
/// `minimum` is what they took, with these charges.
pub(in crate::cycle) fn keep_rest(cache: &mut Cache, key: &GroupKey, minimum: Resources) {
    let Some(group) = cache.group_mut(key) else { return };
    let most = left_of(&minimum, group);
    group.admission.state = AdmissionState::Inqueue { minimum, until: None };
    keep_rest_of(cache, key, &most);
}

/// A further member was placed into what was reserved, which is gone with that. The rest stays reserved, as far as it was.
pub(in crate::cycle) fn keep_rest_of(cache: &mut Cache, key: &GroupKey, reserved: &Resources) {
    let Some((group, facts)) = cache.groups().get(key).and_then(|group| Some((group, group.facts.clone()?))) else { return };
    let mut rest = rest_of(group);
    rest.min_each(reserved);
    if let AdmissionState::Inqueue { minimum, .. } = &group.admission.state {
        rest.min_each(&left_of(minimum, group));
    }
    cache.set_reservation(key, &facts.queue, &rest);
    cache.update_demand(key);
}

/// What of the minimum is not charged.
fn left_of(minimum: &Resources, group: &Group) -> Resources {
    let mut left = minimum.clone();
    left.sub(&group.charged);
    left.without_negative()
}

/// A satisfied PodGroup stays admitted (A5), and the time of what it reserves beyond its minimum begins and ends (A4), also where its members
/// wait for another reason.
pub(in crate::cycle) fn follow_rest(cache: &mut Cache, key: &GroupKey, now: Duration, time: Duration) {
    let Some(group) = cache.group_mut(key) else { return };
    if group.facts.as_ref().is_some_and(|facts| !facts.is_over() && is_satisfied_with_members(group, facts)) {
        if group.admission.rest == Rest::Owed {
            group.admission.rest = Rest::Until(now.saturating_add(time));
        }
        if !group.is_admitted() {
            group.admission.state = AdmissionState::SETTLED;
        }
    }
    if matches!(group.admission.rest, Rest::Until(until) if until <= now) {
        group.admission.rest = Rest::Over;
        if group.admission.reservation.is_some() && group.facts.as_ref().is_some_and(|facts| is_satisfied(group, facts)) {
            quota_freed(cache, key);
            cache.release_reservation(key);
        }
    }
}

/// What a PodGroup that has its minimum may still reserve: what a user or an operator states in minResources beyond the charges of its members.
fn rest_of(group: &Group) -> Resources {
    let Some(facts) = group.facts.as_ref().filter(|facts| !facts.managed && !has_ended(group, facts)) else { return Resources::new() };
    let Some(minimum) = facts.min_resources.as_ref().filter(|_| group.admission.rest != Rest::Over) else { return Resources::new() };
    left_of(minimum, group)
}

/// Frees the part of the reservation that the placements do not use: waiting PodGroups are tried again.
pub(in crate::cycle) fn free_surplus(cache: &mut Cache, key: &GroupKey, reserved: &Resources, placements: &[Placement]) {
    let mut placed = Resources::new();
    placements.iter().for_each(|placement| placed.add(&placement.resources));
    if !placed.covers(reserved) {
        quota_freed(cache, key);
    }
}

/// The PodGroup is nominated and charged (R7): it reserves nothing besides, and waits as long as its nomination says.
pub(in crate::cycle) fn release_for_nomination(cache: &mut Cache, timers: &mut Timers, key: &GroupKey, queue: &str) {
    cancel_timeout(cache, timers, key);
    timers.cancel(key, Timer::Precedence);
    // The reservation may have been larger than the charge is now.
    if cache.groups().get(key).is_some_and(|group| group.admission.reservation.is_some()) {
        quota_freed(cache, key);
    }
    cache.set_reservation(key, queue, &Resources::new());
    if let Some(group) = cache.group_mut(key) {
        group.admission.state = AdmissionState::SETTLED;
        group.admission.within_entitlement = false;
    }
    cache.set_unreserved(key, None);
}

/// Cancels the admission timeout of the PodGroup, if there is one.
fn cancel_timeout(cache: &mut Cache, timers: &mut Timers, key: &GroupKey) {
    if let Some(AdmissionState::Inqueue { until, .. }) = cache.group_mut(key).map(|group| &mut group.admission.state) {
        *until = None;
        timers.cancel(key, Timer::AdmissionTimeout);
    }
}

/// The queue of the reservation has more room for other PodGroups.
fn quota_freed(cache: &mut Cache, key: &GroupKey) {
    let Some(group) = cache.groups().get(key) else { return };
    let own = group.facts.as_ref().map(|facts| Arc::from(facts.queue.as_str()));
    for queue in cache.reserves_in(group).into_iter().chain(own) {
        cache.changed(Wake::Quota(queue));
    }
}

/// Reserves the minimum of an admitted PodGroup that has no nodes yet, less the charges of its members, at all levels in one step. One that
/// is to reserve nothing more keeps what it has (A3). The reservation lasts for `timeout` (0: for ever); a partially bound gang keeps it
/// until the gang is finished. The PodGroup is not admitted during its admission back-off.
pub(in crate::cycle) fn reserve(
    cache: &mut Cache,
    timers: &mut Timers,
    key: &GroupKey,
    admitted: Admitted,
    now: Duration,
    timeout: Duration,
) {
    // A gang that waits for members that may never be created is not partially bound.
    let partially_bound = cache.is_partially_bound(key);
    let reserved = cache.groups().get(key).map(|group| cache.reserved(group).clone()).unwrap_or_default();
    let Some(group) = cache.group_mut(key) else { return };
    let Some(facts) = group.facts.clone() else { return };
    group.admission.within_entitlement = admitted.within_entitlement;
    let was = group.admission.state.until();
    let timer = was.filter(|_| group.is_admitted());
    if !partially_bound && was.is_some_and(|until| until <= now) {
        group.admission.backoff.begin(now, timeout);
        // There may be no other event: the creator of the pods may wait for the admission.
        timers.set(key, Timer::AdmissionBackoff, group.admission.backoff.until);
    }
    if !partially_bound && group.admission.backoff.until > now {
        revoke(cache, timers, key);
        return;
    }
    let lacks = if is_satisfied(group, &facts) || facts.is_over() { Resources::new() } else { left_of(&admitted.minimum, group) };
    let is_unreserved = admitted.unreserved.is_some() && !lacks.is_zero();
    let asked = if is_unreserved { reserved } else { lacks.clone() };
    let ends = !partially_bound && !timeout.is_zero() && !lacks.is_zero();
    let until = ends.then(|| was.unwrap_or_else(|| now.saturating_add(timeout)));
    let mut minimum = admitted.minimum;
    if is_unreserved {
        minimum = group.charged.clone();
        minimum.add(&asked);
    }
    group.admission.state = AdmissionState::Inqueue { minimum, until };
    if let Some(until) = until.filter(|_| until != timer) {
        timers.set(key, Timer::AdmissionTimeout, until);
    }
    if !asked.is_zero() {
        begin_precedence(cache, timers, key, now, timeout);
    }
    // The former reservation may have been larger: the rest is free for other PodGroups.
    if cache.groups().get(key).is_some_and(|group| !asked.covers(cache.reserved(group))) {
        quota_freed(cache, key);
    }
    cache.set_reservation(key, &facts.queue, &asked);
    let mut unreserved = lacks;
    unreserved.sub(&asked);
    cache.set_unreserved(key, is_unreserved.then(|| (Arc::from(facts.queue.as_str()), unreserved.without_negative())));
    cache.update_demand(key);
}

/// Begins the time in which further members of other PodGroups leave room for the reservation, unless it has begun or is over (A7).
fn begin_precedence(cache: &mut Cache, timers: &mut Timers, key: &GroupKey, now: Duration, timeout: Duration) {
    let Some(group) = cache.group_mut(key) else { return };
    if group.admission.precedence == Precedence::Whole {
        // A reservation without an end would hold the others back for ever.
        let time = if timeout.is_zero() { WITHOUT_TIMEOUT } else { timeout };
        group.admission.precedence = Precedence::Until(now.saturating_add(time));
    }
    if let Precedence::Until(until) = group.admission.precedence {
        timers.set(key, Timer::Precedence, until);
    }
}

/// Ends that time when it is over: members that wait for it are tried again.
pub(in crate::cycle) fn end_precedence(cache: &mut Cache, key: &GroupKey, now: Duration) {
    let Some(group) = cache.group_mut(key) else { return };
    if matches!(group.admission.precedence, Precedence::Until(until) if until <= now) {
        group.admission.precedence = Precedence::Over;
        cache.update_first(key);
    }
}

/// Ends the admission back-off: the PodGroup may be admitted at once. The next back-off is as long as it would have been after this one.
pub(in crate::cycle) fn end_backoff(cache: &mut Cache, timers: &mut Timers, key: &GroupKey) {
    timers.cancel(key, Timer::AdmissionBackoff);
    if let Some(group) = cache.group_mut(key) {
        group.admission.backoff.until = Duration::ZERO;
    }
}

/// Returns whether the PodGroup is in its admission back-off (A5).
pub(in crate::cycle) fn is_backing_off(cache: &Cache, key: &GroupKey, now: Duration) -> bool {
    cache.groups().get(key).is_some_and(|group| group.admission.backoff.until > now)
}

/// Ends the time and the back-off of a PodGroup that needs no member, as a change of its object may make it so, or that has ended (A5).
pub(in crate::cycle) fn end_without_need(cache: &mut Cache, timers: &mut Timers, key: &GroupKey) {
    let Some(group) = cache.group_mut(key) else { return };
    let satisfied = group.facts.as_ref().is_some_and(|facts| is_satisfied(group, facts));
    if !satisfied && !group.facts.as_ref().is_some_and(|facts| has_ended(group, facts)) {
        return;
    }
    if satisfied {
        timers.cancel(key, Timer::Precedence);
        group.admission.precedence = Precedence::Whole;
    }
    let (AdmissionState::Pending { until } | AdmissionState::Inqueue { until, .. }) = &mut group.admission.state;
    *until = None;
    group.admission.backoff = AdmissionBackoff::default();
    timers.cancel(key, Timer::AdmissionTimeout);
    timers.cancel(key, Timer::AdmissionBackoff);
}

/// Handles a preemption in vain. A reservation for which there is room is kept until the admission timeout. A reservation within the
/// entitlement only (A3) is revoked at once: it counts as used, so victims would be evicted for room that no pod can use.
pub(in crate::cycle) fn preempted_in_vain(cache: &mut Cache, timers: &mut Timers, key: &GroupKey, now: Duration, timeout: Duration) {
    let Some(group) = cache.groups().get(key).filter(|group| group.admission.within_entitlement) else { return };
    let Some((name, facts)) = group.admission.reservation.clone().zip(group.facts.clone()) else { return };
    let reserved = cache.reserved(group).clone();
    // A partially bound gang keeps the reservation that it needs to be finished.
    if cache.is_partially_bound(key) {
        return;
    }
    let mut trial = cache.trial();
    trial.release_reservation(&name);
    if trial.accounting().fits_queue(&facts.queue, &reserved).is_ok() {
        return;
    }
    drop(trial);
    let Some(group) = cache.group_mut(key) else { return };
    group.admission.backoff.begin(now, if timeout.is_zero() { WITHOUT_TIMEOUT } else { timeout });
    let until = group.admission.backoff.until;
    // This comes first: it cancels the admission timeout, which is the same moment if the PodGroup was admitted just now.
    revoke(cache, timers, key);
    timers.set(key, Timer::AdmissionBackoff, until);
}

/// Shrinks the reservation by the charges of the members (A4), and ends it when no more nodes are needed.
pub(in crate::cycle) fn shrink(cache: &mut Cache, key: &GroupKey) {
    let Some(group) = cache.groups().get(key) else { return };
    let Some(facts) = group.facts.as_ref().filter(|_| group.admission.reservation.is_some()) else { return };
    let AdmissionState::Inqueue { minimum, .. } = &group.admission.state else { return };
    let reserved = cache.reserved(group).clone();
    let mut left = left_of(minimum, group);
    left.min_each(&reserved);
    let queue = facts.queue.clone();
    if is_satisfied(group, facts) {
        // The rest of its minimum is free for other PodGroups.
        let rest = rest_of(group);
        if !rest.covers(&left) {
            cache.changed(Wake::Quota(Arc::from(queue.as_str())));
        }
        left.min_each(&rest);
    }
    if left != reserved {
        cache.set_reservation(key, &queue, &left);
    }
}

/// Reserves the charge of a pod with a refused bind in the same step, so that no other PodGroup takes it.
pub(in crate::cycle) fn reserve_refused_bind(cache: &mut Cache, key: &GroupKey, queue: &str, charged: &Resources) {
    let Some(group) = cache.groups().get(key) else { return };
    if group.facts.as_ref().is_none_or(|facts| facts.queue != *queue || is_satisfied(group, facts) || facts.is_over()) {
        return;
    }
    let mut reserved = cache.reserved(group).clone();
    reserved.add(charged);
    // The charge and the reservation belong to the minimum, or the reservation would shrink at once.
    let mut least = group.charged.clone();
    least.add(&reserved);
    let Some(group) = cache.group_mut(key) else { return };
    match &mut group.admission.state {
        AdmissionState::Inqueue { minimum, .. } => minimum.max_each(&least),
        // Further members may wait behind another PodGroup; this part was admitted all the same.
        state @ AdmissionState::Pending { .. } => *state = AdmissionState::Inqueue { minimum: least, until: None },
    }
    cache.set_reservation(key, queue, &reserved);
}

/// Ends the reservation of a PodGroup with binds that were refused for the whole `timeout` (0: never).
pub(in crate::cycle) fn limit_while_refused(cache: &mut Cache, timers: &mut Timers, key: &GroupKey, now: Duration, timeout: Duration) {
    let reserves = cache.groups().get(key).filter(|group| group.admission.reservation.is_some() && !timeout.is_zero());
    let Some(until) = reserves.and_then(|group| group.retry.since).map(|since| since.saturating_add(timeout)) else { return };
    if cache.is_partially_bound(key) {
        return;
    }
    if until <= now {
        revoke(cache, timers, key);
    } else {
        timers.set(key, Timer::BindsRefused, until);
    }
}
