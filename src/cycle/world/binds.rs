//! What follows where a pod is to be bound, is bound, or is not?

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
    /// What was placed for the group is assumed; what is to be bound.
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

    /// A cycle placed the pod; the books have it already. Where it stands it stays, as this is done for each placement.
    pub(in crate::cycle) fn assume(&mut self, placement: &Placement) {
        let Some(member) = self.pods.get_mut(&placement.uid) else { return };
        let Some(group) = self.groups.get_mut(&member.facts.group) else { return };
        let mut left = group.claim.clone();
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
        // Its queue may be over its share by it, and its gang may do without another (R2, R6).
        self.asking.changed();
        let key = member.facts.group.clone();
        // What waited is taken now, so the demand is what it was, and so are the shares.
        let shares = self.shares.take();
        self.look_at(&key);
        self.shares = shares;
        left.sub(&placement.resources);
        self.outdated |= self.groups.get(&key).is_some_and(|group| left != group.claim);
        self.dirty_path(&placement.queue);
    }

    /// A pod whose bind is under way asks for something else now: it counts with that where it is charged (N2).
    pub(super) fn charge_assumed(&mut self, facts: &PodFacts) {
        let Some(pod) = self.books.pod(&facts.uid).filter(|pod| *pod.resources != facts.request) else { return };
        let (node, queue) = (pod.node.map(Arc::<str>::from), pod.queue.map(Arc::<str>::from));
        self.books.resize(&facts.uid, &facts.request);
        self.books_changed(node.as_deref(), queue.as_deref(), true);
    }

    /// The API server bound the pod as we asked.
    pub fn confirm(&mut self, uid: &Uid) {
        self.books.confirm(uid);
        self.asking.bound();
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

    /// Nobody has said for a while whether the pod is bound: what it takes stays charged, and its group says so. `why` is of a bounded set.
    pub fn bind_unanswered(&mut self, uid: &Uid, why: &'static str) {
        let Some(mut member) = self.detach(uid) else { return };
        if let Some(assumed) = &mut member.assumed {
            assumed.open = Some(why);
        }
        self.attach(member);
    }

    /// Why the group waits that has its places, where nobody says whether its members are bound.
    pub(in crate::cycle) fn unanswered(&self, key: &GroupKey) -> Option<Arc<Refusal>> {
        let group = self.groups.get(key).filter(|group| group.counts.open > 0)?;
        let open = |uid: &Uid| self.pods.get(uid)?.assumed.as_ref()?.open;
        let why = group.members.iter().find_map(open)?;
        Some(Arc::new(Refusal::Unanswered { binds: group.counts.open, why }))
    }

    /// The API server did not bind the pod: it waits again, and its group backs off. `now` and `wait` are of the monotonic clock; `why` is of
    /// a bounded set.
    pub fn refuse_bind(&mut self, uid: &Uid, why: &str, now: Duration, wait: impl Fn(u32) -> Duration) {
        self.asking.bound();
        // Seen on a node meanwhile: then it was bound, whatever the answer said.
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
            self.swap_back(&key, &assumed.queue, &facts.request);
            self.demand_again(&key);
        }
        let node = assumed.map(|assumed| assumed.node);
        if let Some(group) = self.groups.get_mut(&key) {
            group.retry.since.get_or_insert(now);
        }
        self.back_off(&key, (Step::Bind, why), now, node, wait);
    }

    /// The group is tried again later, with this node last: what failed, and why.
    pub(super) fn back_off(
        &mut self,
        key: &GroupKey,
        (step, why): (Step, &str),
        now: Duration,
        node: Option<Arc<str>>,
        wait: impl Fn(u32) -> Duration,
    ) {
        let Some(group) = self.groups.get_mut(key) else { return };
        // All that fails before it is tried again is one try: of a large gang the binds are refused one by one.
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
