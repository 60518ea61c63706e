//! Updates the state when pods are assumed, when they are bound, and when a bind fails.

mod again;

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};
use crate::cycle::admission::reservation;
use crate::cycle::explain::Step;
use crate::cycle::plan::Bind;
use crate::cycle::requeue::Timer;

use super::SchedulingState;

impl SchedulingState {
    /// Assumes the placements of the PodGroup and returns the binds. Where a claim of one of the pods has no volume, all of them are held,
    /// and a later cycle returns the binds. So are further members while the minimum of the PodGroup is.
    pub(in crate::cycle) fn assume_all(&mut self, key: &GroupKey, placements: &[Placement], minimum: Option<u32>) -> Vec<Bind> {
        let mut left = self.cache.groups().get(key).map(|group| group.total_demand.clone()).unwrap_or_default();
        let claims = self.claims_without_volume(placements);
        let is_held = !claims.is_empty() || self.waits_for_minimum(key);
        let mut assumed = Vec::with_capacity(placements.len());
        for placement in placements {
            if self.cache.assume(placement, is_held).is_some() {
                left.sub(&placement.resources);
                assumed.push(placement.clone());
            }
        }
        if is_held {
            self.holds.hold_for_claims(&self.cache, key, &assumed, minimum, &claims);
        }
        // Its queue may be over its share now, and its gang may not need another member any more (R2, R4).
        self.requeue.preemptions.changed();
        // The demand became a charge, so the sum of both is what it was, and so are the shares.
        self.keeping_shares(|state| state.group_changed(key));
        if self.cache.groups().get(key).is_some_and(|group| left != group.total_demand) {
            self.cache.shares_are_outdated();
        }
        if is_held { Vec::new() } else { self.binds_of(key, &assumed, minimum) }
    }

    /// Returns the binds of these assumed placements.
    pub(super) fn binds_of(&self, key: &GroupKey, placements: &[Placement], minimum: Option<u32>) -> Vec<Bind> {
        // All members are of one queue.
        let path: Arc<str> = placements.first().map(|first| Arc::from(self.cache.written_path(&first.queue))).unwrap_or_default();
        let bind = |placement: &Placement| {
            let facts = &self.cache.pods().get(&placement.uid)?.facts;
            Some(Bind {
                uid: placement.uid.clone(),
                resource_version: facts.resource_version,
                namespace: Arc::clone(&facts.namespace),
                name: Arc::clone(&facts.name),
                node: Arc::clone(&placement.node),
                queue: Arc::clone(&placement.queue),
                path: Arc::clone(&path),
                group: key.clone(),
                minimum,
            })
        };
        placements.iter().filter_map(bind).collect()
    }

    /// Makes a change, and restores the shares of this cycle after it.
    pub(super) fn keeping_shares(&mut self, change: impl FnOnce(&mut Self)) {
        let shares = self.cache.take_shares();
        change(self);
        self.cache.restore_shares(shares);
    }

    /// Records that the API server accepted the bind.
    pub fn confirm(&mut self, uid: &Uid) {
        self.cache.confirm(uid);
        self.follow();
    }

    /// Records that the outcome of a bind is unknown for long. The pod stays charged, and its PodGroup reports it. `why` is of a bounded
    /// set.
    pub fn bind_unanswered(&mut self, uid: &Uid, why: &'static str) {
        self.cache.bind_unanswered(uid, why);
        self.follow();
    }

    /// Records that the API server refused the bind. The pod waits again, and its PodGroup backs off. `now` and `wait` are of the
    /// monotonic clock; `why` is of a bounded set.
    pub fn refuse_bind(&mut self, uid: &Uid, why: &str, now: Duration, wait: impl Fn(u32) -> Duration) {
        self.take_back(uid, (Step::Bind, why), now, wait);
    }

    /// Takes the node of an assumed pod back after this step. The pod waits again, and its PodGroup backs off.
    pub(super) fn take_back(&mut self, uid: &Uid, step: (Step, &str), now: Duration, wait: impl Fn(u32) -> Duration) {
        let forgotten = self.cache.forget(uid);
        self.follow();
        let Some((facts, assumed)) = forgotten else { return };
        let key = &facts.group;
        if let Some(assumed) = &assumed {
            reservation::reserve_refused_bind(&mut self.cache, key, &assumed.queue, &facts.request);
            self.cache.update_demand(key);
        }
        if let Some(group) = self.cache.group_mut(key) {
            group.retry.since.get_or_insert(now);
        }
        self.back_off(key, step, now, assumed.map(|assumed| assumed.node), wait);
    }

    /// Records that the cluster went back: the binds that were confirmed so far may be lost.
    pub fn doubt_binds(&mut self) {
        self.cache.doubt_binds();
    }

    /// Forgets a bind that was confirmed before the cluster went back: the pod waits again. A bind without an answer stays, and so does one
    /// that was confirmed since, which the list may not show yet.
    pub fn lose_bind(&mut self, uid: &Uid) {
        let assumed = self.cache.pods().get(uid).and_then(|member| member.assumed.as_ref());
        if assumed.is_some_and(|assumed| assumed.doubtful) {
            self.cache.forget(uid);
            self.follow();
        }
    }

    /// Records that the API server refused to evict the pod.
    pub fn back_off_eviction(&mut self, uid: &Uid, now: Duration) {
        if self.cache.pods().contains_key(uid) {
            self.eviction_backoff.refused(uid, now);
        }
    }

    /// Records that the API server refused to evict the pod because its namespace is being deleted: it refuses each pod of the namespace,
    /// so all of them back off.
    pub fn back_off_evictions_beside(&mut self, uid: &Uid, now: Duration) {
        let Some(namespace) = self.cache.pods().get(uid).map(|member| Arc::clone(&member.facts.namespace)) else { return };
        let beside = self.cache.pods().values().filter(|member| member.facts.namespace == namespace);
        beside.for_each(|member| self.eviction_backoff.refused(&member.facts.uid, now));
    }

    /// Returns whether the pod is no candidate for a preemption at this moment.
    #[cfg(test)]
    pub fn eviction_backs_off(&self, uid: &Uid) -> bool {
        self.eviction_backoff.is_active(uid)
    }

    /// Lets the PodGroup back off, with this node tried last, and records the step that failed and why.
    pub(super) fn back_off(
        &mut self,
        key: &GroupKey,
        (step, why): (Step, &str),
        now: Duration,
        node: Option<Arc<str>>,
        wait: impl Fn(u32) -> Duration,
    ) {
        let Some(group) = self.cache.group_mut(key) else { return };
        // All failures before the next try count as one: the binds of a large gang are refused one by one.
        if group.retry.failures == 0 || group.retry.at.is_none_or(|at| at <= now) {
            group.retry.failures = group.retry.failures.saturating_add(1);
        }
        group.retry.step = step;
        group.retry.why = why.to_owned();
        group.retry.last.extend(node);
        let at = now.saturating_add(wait(group.retry.failures));
        group.retry.at = Some(at);
        self.requeue.timers.set(key, Timer::BindBackoff, at);
    }
}
