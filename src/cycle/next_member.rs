//! Which member of a PodGroup finds no node, and for which reasons does each node refuse it?
//!
//! For a report about one PodGroup (`kubectl podgroup why`). The members go to their nodes in the order of a turn, as in the attempt that
//! refused the PodGroup. Nothing is placed when this returns.

use crate::api::GroupKey;

use super::cache::{gang, members, to_place};
use super::placement::first_refused::FirstRefused;
use super::placement::placer::Attempt;
use super::policy::Policy;
use super::state::SchedulingState;

/// Returns the first member without a node; none where all members find nodes, or the nodes are not in the way.
pub fn next_member(state: &mut SchedulingState, policy: &Policy, key: &GroupKey) -> Option<FirstRefused> {
    let cache = &state.cache;
    let group = cache.groups().get(key)?;
    let facts = group.facts.clone()?;
    let gang = gang::resolve(cache, group, &facts).ok()?;
    let members = members::in_order(cache, group, &gang);
    let preemptable = cache.may_borrow(key);
    let (mut placer, beside) = state.cache.placer(key, &facts.queue, policy.placement);
    let mut pods = to_place(beside.pods, &members);
    if let Some(group) = beside.groups.get(key) {
        pods = gang.prepare(group, pods);
    }
    placer.first_refused(&Attempt { queue: &facts.queue, pods: &pods, needed: gang.needed.max(1), parts: &[], preemptable, is_due: false })
}
