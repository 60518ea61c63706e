//! Would a cycle decide on a binding again? It is asked before the binding is sent another time, because its node may be cordoned, or full, by now.

use std::sync::Arc;

use crate::api::{GroupFacts, PodFacts};
use crate::cycle::admission::admit;
use crate::cycle::cache::State;
use crate::cycle::holds::Kind;
use crate::cycle::placement::Strategy;
use crate::cycle::placement::placer::Pod;
use crate::cycle::plan::Bind;

use super::super::SchedulingState;

impl SchedulingState {
    /// Whether the pod would be placed on its node again: by its own facts, its PodGroup, its queue, and the node with all other pods on
    /// it. What is nominated for gangs was decided later and counts on this pod, so it is left out.
    pub fn would_bind_again(&mut self, bind: &Bind) -> bool {
        let Some((pod, group)) = self.assumed(bind) else { return false };
        let has_minimum = bind.minimum.is_none_or(|minimum| minimum == group.min_member);
        if *group.queue != *bind.queue
            || !has_minimum
            || group.is_over()
            || group.deleting
            || admit::unusable(&self.cache, &group).is_some()
        {
            return false;
        }
        let Self { cache, holds, .. } = self;
        let nominated = holds.of_kind(Kind::Victims).flat_map(|hold| &hold.places).map(|place| &place.uid);
        let preemptable = cache.may_borrow(&bind.group);
        // The node is given, so no preference is needed.
        let (mut placer, _) = cache.placer(&bind.group, &bind.queue, Strategy::default());
        nominated.for_each(|uid| placer.trial().set_aside(uid));
        placer.places_again(&bind.queue, Pod::new(&pod, None), &bind.node, preemptable)
    }

    /// Returns the pod of the binding and its PodGroup; none where the pod is not assumed on this node any more, cannot be bound, or has no PodGroup.
    fn assumed(&self, bind: &Bind) -> Option<(Arc<PodFacts>, Arc<GroupFacts>)> {
        let member = self.cache.pods().get(&bind.uid)?;
        let facts = &member.facts;
        let is_there = member.assumed.as_ref().is_some_and(|assumed| assumed.node == bind.node && assumed.queue == bind.queue);
        if !is_there
            || facts.node.is_some()
            || facts.gated
            || facts.group != bind.group
            || member.state() != State::Placed
            || member.blocked().is_some()
            || facts.constraints.volumes.as_ref().is_some_and(|volumes| !volumes.unbound.is_empty())
        {
            return None;
        }
        let group = self.cache.groups().get(&bind.group)?.facts.clone()?;
        Some((Arc::clone(facts), group))
    }
}

#[cfg(test)]
#[path = "again_tests.rs"]
mod tests;
