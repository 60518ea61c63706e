//! What follows when a pod is to be bound, is bound, or its bind fails?

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, PodFacts, Uid};
use crate::cycle::explain::{Refusal, Step};
use crate::cycle::plan::Bind;
use crate::cycle::requeue::Timer;

use super::pods::Assumed;
use super::{State, World};

impl World {
    /// Assumes the placements of the PodGroup and returns the binds.
    pub(in crate::cycle) fn assume_all(&mut self, key: &GroupKey, placements: &[Placement], minimum: Option<u32>) -> Vec<Bind> {
        let mut binds = Vec::with_capacity(placements.len());
        for placement in placements {
            self.assume(placement);
            let Some(facts) = self.pods.get(&placement.uid).map(|member| Arc::clone(&member.facts)) else { continue };
            binds.push(Bind {
                uid: placement.uid.clone(),
                namespace: Arc::clone(&facts.namespace),
                name: Arc::clone(&facts.name),
                node: Arc::clone(&placement.node),
                queue: Arc::clone(&placement.queue),
                group: key.clone(),
                minimum,
            });
        }
        binds
    }

    /// Assumes a placed pod; the accounting has the charge already. The counts are updated in place, as this runs for each placement.
    pub(in crate::cycle) fn assume(&mut self, placement: &Placement) {
        let Some(member) = self.pods.get_mut(&placement.uid) else { return };
        let Some(group) = self.groups.get_mut(&member.facts.group) else { return };
        let mut left = group.total_demand.clone();
        group.forget(member);
        if let Some(class) = member.class.take() {
            self.classes.leave(class);
        }
        member.assumed =
            Some(Assumed { node: Arc::clone(&placement.node), queue: Arc::clone(&placement.queue), confirmed: false, open: None });
        member.nominated = None;
        member.refusal = None;
        group.count(member);
        if member.state() == State::Placed {
            self.placed.join(member.facts.priority);
        }
        self.anti_affinity.set(&member.facts, Some(&placement.node));
        self.dirty_pods.insert(placement.uid.clone());
        // Its queue may be over its share now, and its gang may not need another member any more (R2, R6).
        self.preemption_retries.changed();
        let key = member.facts.group.clone();
        // The demand became a charge, so the sum of both is what it was, and so are the shares.
        let shares = self.shares.take();
        self.retry_group(&key);
        self.shares = shares;
        left.sub(&placement.resources);
        self.outdated |= self.groups.get(&key).is_some_and(|group| left != group.total_demand);
        self.dirty_path(&placement.queue);
    }

    /// Adjusts the charge of a pod that changed its request while its bind is under way (N2).
    pub(super) fn charge_assumed(&mut self, facts: &PodFacts) {
        let Some(pod) = self.books.pod(&facts.uid).filter(|pod| *pod.resources != facts.request) else { return };
        let (node, queue) = (pod.node.map(Arc::<str>::from), pod.queue.map(Arc::<str>::from));
        self.books.resize(&facts.uid, &facts.request);
        self.books_changed(node.as_deref(), queue.as_deref(), true);
    }

    /// Records that the API server accepted the bind.
    pub fn confirm(&mut self, uid: &Uid) {
        self.books.confirm(uid);
        self.preemption_retries.bound();
        let Some(mut member) = self.detach(uid) else { return };
        if let Some(assumed) = &mut member.assumed {
            assumed.confirmed = true;
        }
        if let Some(group) = self.groups.get_mut(&member.facts.group) {
            group.retry.failures = 0;
            group.retry.since = None;
            group.retry.last.clear();
        }
        self.attach(member);
    }

    /// Records that the outcome of a bind is unknown for long. The pod stays charged, and its PodGroup reports it. `why` is of a bounded
    /// set.
    pub fn bind_unanswered(&mut self, uid: &Uid, why: &'static str) {
        let Some(mut member) = self.detach(uid) else { return };
        if let Some(assumed) = &mut member.assumed {
            assumed.open = Some(why);
        }
        self.attach(member);
    }

    /// Returns why a PodGroup with all its nodes waits: the outcome of some binds is unknown. None where it is not so.
    pub(in crate::cycle) fn unanswered(&self, key: &GroupKey) -> Option<Arc<Refusal>> {
        let group = self.groups.get(key).filter(|group| group.counts.open > 0)?;
        let open = |uid: &Uid| self.pods.get(uid)?.assumed.as_ref()?.open;
        let why = group.members.iter().find_map(open)?;
        Some(Arc::new(Refusal::Unanswered { binds: group.counts.open, why }))
    }

    /// Records that the API server refused the bind. The pod waits again, and its PodGroup backs off. `now` and `wait` are of the
    /// monotonic clock; `why` is of a bounded set.
    pub fn refuse_bind(&mut self, uid: &Uid, why: &str, now: Duration, wait: impl Fn(u32) -> Duration) {
        self.preemption_retries.bound();
        // The watch has shown the pod on a node: it was bound, whatever the response was.
        if self.pods.get(uid).is_none_or(|member| member.facts.node.is_some()) {
            return;
        }
        let Some(mut member) = self.detach(uid) else { return };
        let assumed = member.assumed.take();
        let key = member.facts.group.clone();
        self.release(uid);
        let facts = Arc::clone(&member.facts);
        self.keep_away(&facts, None);
        self.attach(member);
        if let Some(assumed) = &assumed {
            self.reserve_refused_bind(&key, &assumed.queue, &facts.request);
            self.update_demand(&key);
        }
        let node = assumed.map(|assumed| assumed.node);
        if let Some(group) = self.groups.get_mut(&key) {
            group.retry.since.get_or_insert(now);
        }
        self.back_off(&key, (Step::Bind, why), now, node, wait);
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
        let Some(group) = self.groups.get_mut(key) else { return };
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
