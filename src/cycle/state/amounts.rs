//! Are the amounts still true in what PodGroups say that wait for a queue?
//!
//! A PodGroup that a queue has refused is tried again when it may fit, and not before. Until then other pods come and go, and its message says
//! what is used and reserved, and what holds it. So after a change of a queue the first PodGroups that wait for it say what is so now, and so do
//! the first of their pods. They have no turn for that, and no pod is searched that could be preempted.

use std::sync::Arc;

use crate::accounting::{Bound, Ceiling, QueueRefusal};
use crate::api::{GroupKey, Uid};
use crate::cycle::explain::Refusal;
use crate::resources::Resources;

use super::SchedulingState;

/// How many PodGroups that wait for a queue say so, and how many of their pods. The other ones say what was so when they were tried last. It is
/// as many as may be written at once where only amounts have changed.
pub(in crate::cycle) const TOLD_AT_ONCE: usize = 20;
/// How many that wait for a queue are looked at.
const LOOKED_AT: usize = 1_000;

impl SchedulingState {
    /// Brings up to date what the first PodGroups say that wait for a queue of which something changed. Returns these PodGroups.
    pub(super) fn follow_queues(&mut self) -> Vec<GroupKey> {
        // Some of those below `root` wait for nodes.
        let lacks_quota = |key: &&GroupKey| {
            let refusal = self.cache.groups().get(*key).and_then(|group| group.refusal.as_ref());
            refusal.is_some_and(|refusal| matches!(refusal.cause(), Refusal::Ceiling(_)))
        };
        let first = |queue: &Arc<str>| -> Vec<GroupKey> {
            self.requeue.waiting_for(queue).take(LOOKED_AT).filter(lacks_quota).take(TOLD_AT_ONCE).cloned().collect()
        };
        let waiting: Vec<Vec<GroupKey>> = self.cache.dirty_queues().iter().map(first).collect();
        let mut told = Vec::new();
        for keys in waiting {
            let mut pods = TOLD_AT_ONCE;
            told.extend(keys.into_iter().filter(|key| self.say_amounts_of_now(key, &mut pods).is_some()));
        }
        told
    }

    /// Takes its pods off the number of those that are left to be told. None where the PodGroup does not wait for amounts alone.
    fn say_amounts_of_now(&mut self, key: &GroupKey, pods: &mut usize) -> Option<()> {
        let group = self.cache.groups().get(key)?;
        let said = Arc::clone(group.refusal.as_ref()?);
        let Refusal::Ceiling(before) = said.cause() else { return None };
        let waiting: Vec<Uid> = group.waiting.iter().take(*pods).cloned().collect();
        *pods = pods.saturating_sub(waiting.len());
        if let Some(ceiling) = self.of_now(key, before).filter(|now| now != before) {
            let now = Arc::new(said.with_ceiling(ceiling));
            for uid in &waiting {
                if self.cache.pods().get(uid).is_some_and(|member| member.refusal.as_ref() == Some(&said)) {
                    self.cache.refuse_pod(uid, Some(&now));
                }
            }
            self.cache.refuse_group(key, Some(now));
        }
        // Others may hold it, though the amounts are the same.
        self.cache.tell_again(&waiting);
        Some(())
    }

    /// Returns the ceiling with the amounts of now; none where it does not refuse so much any more. Then the PodGroup is tried, or another
    /// ceiling refuses it.
    fn of_now(&mut self, key: &GroupKey, before: &Ceiling) -> Option<Ceiling> {
        let cache = &mut self.cache;
        let group = cache.groups().get(key)?;
        let facts = Arc::clone(group.facts.as_ref()?);
        let asked = Resources::new().with(before.dimension.as_str(), before.asked);
        let reservation = group.admission.reservation.clone();
        let oldest = cache.oldest_waiting(group).unwrap_or_default();
        let first = (before.bound == Bound::Minimums).then(|| cache.reserved_before(&facts.queue, oldest));
        let mut trial = cache.trial();
        // What it has itself is not in its way.
        reservation.iter().for_each(|name| trial.release_reservation(name));
        self.holds.kept_for(key).for_each(|place| _ = trial.set_aside(&place.uid));
        let quota = trial.accounting().quota();
        match (before.bound, first) {
            (Bound::Minimums, Some(first)) => quota.leaves(&asked, &first).err(),
            (Bound::Entitlement, _) => match quota.within_entitlement(&facts.queue, &asked) {
                Err(QueueRefusal::Ceiling(ceiling)) => Some(ceiling),
                _ => None,
            },
            _ => {
                let refusals = quota.refusals(&facts.queue, &asked).into_iter();
                // With `--admit-by=nodes` it is what the nodes offer that refuses.
                refusals.chain(quota.within_nodes(&asked).err()).find(|now| now.queue == before.queue && now.bound == before.bound)
            }
        }
    }
}
