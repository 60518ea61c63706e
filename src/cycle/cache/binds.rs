//! Updates the cache when a pod is assumed, and when its bind succeeds, fails or has an unknown outcome.

use std::sync::Arc;

use crate::accounting::Placement;
use crate::api::{GroupKey, PodFacts, Uid};
use crate::cycle::explain::Refusal;

use super::pods::{Assumed, Member};
use super::{Cache, Change, State};

impl Cache {
    /// Assumes a placed pod, which is held for volumes or not; the accounting has the charge already. The counts are updated in place, as
    /// this runs for each placement.
    pub(in crate::cycle) fn assume(&mut self, placement: &Placement, is_held: bool) -> Option<Arc<PodFacts>> {
        let mut member = self.pods.remove(&placement.uid)?;
        self.leave_class(&mut member);
        let Some(group) = self.groups.get_mut(&member.facts.group) else {
            self.pods.insert(placement.uid.clone(), member);
            return None;
        };
        group.forget(&member);
        member.assumed = Some(Assumed { is_held, ..Assumed::of(placement) });
        member.nominated = None;
        self.nominated.remove(&placement.uid);
        member.refusal = None;
        group.count(&member);
        if member.state() == State::Placed {
            self.placed_priorities.join(member.facts.priority);
        }
        let facts = Arc::clone(&member.facts);
        self.pods.insert(placement.uid.clone(), member);
        // The trial that placed it has put it on its node.
        self.came(&placement.uid);
        self.dirty.pods.insert(placement.uid.clone());
        self.dirty_path(&placement.queue);
        Some(facts)
    }

    /// Adjusts the charge of a pod that changed its request while its bind is under way (N1).
    pub(super) fn charge_assumed(&mut self, facts: &PodFacts) {
        let Some(pod) = self.accounting.pod(&facts.uid).filter(|pod| *pod.resources != facts.request) else { return };
        let (node, queue) = (pod.node.map(Arc::<str>::from), pod.queue.map(Arc::<str>::from));
        self.accounting.resize(&facts.uid, &facts.request);
        self.charge_changed(node.as_deref(), queue.as_deref(), true);
    }

    /// The claims of the pod are bound: it is being bound now.
    pub(in crate::cycle) fn end_hold(&mut self, uid: &Uid) {
        let Some(mut member) = self.detach(uid) else { return };
        if let Some(assumed) = &mut member.assumed {
            assumed.is_held = false;
            // Its charge is the same, and counts as allocated from now on.
            let queue = Arc::clone(&assumed.queue);
            self.dirty_path(&queue);
        }
        self.attach(member);
    }

    /// Records that the API server accepted the bind.
    pub fn confirm(&mut self, uid: &Uid) {
        self.accounting.confirm(uid);
        self.changed(Change::BindEnded);
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

    /// Records that the cluster went back: the binds that the API server has accepted so far may be lost.
    pub(in crate::cycle) fn doubt_binds(&mut self) {
        let confirmed = |member: &&Member| member.assumed.as_ref().is_some_and(|assumed| assumed.confirmed);
        let uids: Vec<Uid> = self.pods.values().filter(confirmed).map(|member| member.facts.uid.clone()).collect();
        for uid in uids {
            let assumed = self.pods.get_mut(&uid).and_then(|member| member.assumed.as_mut());
            assumed.into_iter().for_each(|assumed| assumed.doubtful = true);
        }
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

    /// Records that the API server refused the bind: the pod waits again, and its charge is taken back. Returns the pod and what was
    /// assumed of it. Returns none where the pod is unknown, or where the watch has shown it on a node: then it was bound, whatever the
    /// response was.
    pub(in crate::cycle) fn forget(&mut self, uid: &Uid) -> Option<(Arc<PodFacts>, Option<Assumed>)> {
        self.changed(Change::BindEnded);
        if self.pods.get(uid).is_none_or(|member| member.facts.node.is_some()) {
            return None;
        }
        let mut member = self.detach(uid)?;
        let assumed = member.assumed.take();
        self.release(uid);
        let facts = Arc::clone(&member.facts);
        self.count_on(&facts, None);
        self.attach(member);
        Some((facts, assumed))
    }
}
