//! Which nominations of an earlier leader are made again after a takeover?
//!
//! A nomination is in memory only. What is left of it in the cluster are the `status.nominatedNodeName` of its members and the pods that are
//! leaving. So a new leader takes the PodGroups with waiting members that name a node, in the order of their ranks, and nominates each of
//! them again that fits there once the terminating pods are gone. No pod is evicted for it.
//!
//! The names are not trusted. They only choose nodes for an attempt that checks everything that a placement checks. A nomination that was made
//! again holds its room while a terminating pod could make the difference; where there is room already, it is bound in the same cycle. All
//! others are given up: the PodGroup is tried as any other, and the status writer removes the names.
//!
//! A standby keeps the places of lost members, and does not know which of them are victims. So they are left out here, and kept where they
//! fit afterwards.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};
use crate::cycle::admission::admit;
use crate::cycle::cache::gang::{self, Gang};
use crate::cycle::cache::{Cache, Group, GroupRank, members};
use crate::cycle::explain::Refusal;
use crate::cycle::holds::victims::{helpful, is_for_other_pods};
use crate::cycle::placement::placer::{Attempt, Places, Pod};
use crate::cycle::policy::Policy;
use crate::cycle::state::SchedulingState;

/// The most pods that are set aside or placed for all PodGroups together, about a second of work. The PodGroups beyond that are given up.
const MOST_STEPS: usize = 200_000;

/// A waiting member, and the node that it must go to; none where any node will do.
type Named = (Uid, Option<Arc<str>>);

/// Makes the nominations of the leader before again, if this is the first cycle after a takeover. Returns their PodGroups.
pub(in crate::cycle) fn nominate_again(state: &mut SchedulingState, policy: &Policy, now: Duration) -> Vec<GroupKey> {
    if !std::mem::take(&mut state.holds.to_be_read) {
        return Vec::new();
    }
    let named = with_names(&state.cache);
    let mut done = Vec::new();
    if !named.is_empty() {
        state.without_kept_places(|state| done = nominate_all(state, policy, named, now));
    }
    done
}

fn nominate_all(state: &mut SchedulingState, policy: &Policy, named: BTreeSet<GroupRank>, now: Duration) -> Vec<GroupKey> {
    let leaving: Vec<Uid> = state.cache.leaving().keys().cloned().collect();
    let (mut left, mut done) = (MOST_STEPS, Vec::new());
    for GroupRank { key, .. } in named {
        let members = state.cache.groups().get(&key).map_or(0, |group| group.waiting.len());
        let Some(rest) = left.checked_sub(leaving.len().saturating_add(members)) else { break };
        left = rest;
        if nominate_one(state, policy, &key, &leaving, now).is_some() {
            done.push(key);
        }
    }
    done
}

/// The PodGroups with a waiting member that names a node, in order.
fn with_names(cache: &Cache) -> BTreeSet<GroupRank> {
    let names = |uid: &Uid| cache.pods().get(uid).is_some_and(|member| member.facts.nominated_node.is_some());
    let named = cache.groups().values().filter(|group| group.waiting.iter().any(names));
    named.filter_map(|group| Some(cache.rank(group, group.facts.as_ref()?))).collect()
}

/// Nominates one PodGroup again. None where it is given up.
fn nominate_one(state: &mut SchedulingState, policy: &Policy, key: &GroupKey, leaving: &[Uid], now: Duration) -> Option<()> {
    let group = state.cache.groups().get(key)?;
    let facts = group.facts.clone()?;
    if admit::unusable(&state.cache, &facts).is_some() {
        return None;
    }
    let gang = gang::resolve(&state.cache, group, &facts).ok()?;
    let members = members(&state.cache, group, &gang);
    let places = places(state, policy, key, &members, leaving).ok()?;
    let fixed: Vec<Named> = places.iter().map(|(uid, node)| (uid.clone(), Some(Arc::clone(node)))).collect();
    let nodes: BTreeSet<&str> = places.iter().map(|(_, node)| &**node).collect();
    let (victims, lack) = match self::places(state, policy, key, &fixed, &[]) {
        Ok(_) => (BTreeSet::new(), None),
        Err(refusal) => {
            let mut victims: BTreeSet<Uid> = helpful(&state.cache, &state.holds, &nodes, &refusal).cloned().collect();
            if is_for_other_pods(&refusal) {
                // Without all of them it fits.
                victims.extend(leaving.iter().cloned());
            }
            // Otherwise no amount keeps it away, and nothing would be waited for.
            if victims.is_empty() {
                return None;
            }
            (victims, refusal.lack())
        }
    };
    let queue: Arc<str> = Arc::from(facts.queue.as_str());
    let place = |(uid, node): (Uid, Arc<str>)| {
        let resources = state.cache.pods().get(&uid)?.facts.request.clone();
        Some(Placement { uid, node, queue: Arc::clone(&queue), resources })
    };
    let places: Vec<Placement> = places.into_iter().filter_map(place).collect();
    let until = state.holds.deadline(&state.cache, &places, &[], now);
    state.nominate_again(key, &places, &victims, lack, until)
}

/// The members that are nominated: as many as the gang needs, those with names first; where it has its minimum, those with names.
fn members(cache: &Cache, group: &Group, gang: &Gang) -> Vec<Named> {
    let named = |uid: Uid| {
        let node = cache.pods().get(&uid).and_then(|member| member.facts.nominated_node.clone());
        (uid, node)
    };
    let facts = |(uid, _): &Named| cache.pods().get(uid).map(|member| &*member.facts);
    let mut all: Vec<Named> = members::in_order(cache, group, gang).into_iter().map(named).collect();
    // A member that may go anywhere must not take the room of one that may not.
    all.sort_by_key(|(_, node)| Reverse(node.is_some()));
    if gang.needed == 0 {
        all.retain(|(_, node)| node.is_some());
        return gang.that_can_be_placed(group, all, facts);
    }
    gang.split(group, all, facts).0
}

/// Returns the nodes of all these members, with these pods set aside as if they were gone; or why they do not fit. Nothing has changed then.
fn places(state: &mut SchedulingState, policy: &Policy, key: &GroupKey, members: &[Named], aside: &[Uid]) -> Result<Places, Refusal> {
    let SchedulingState { cache, .. } = state;
    let queue = cache.groups().get(key).and_then(|group| group.facts.as_ref()).map(|facts| facts.queue.clone()).unwrap_or_default();
    let preemptable = cache.may_borrow(key);
    let (mut placer, beside) = cache.placer(key, &queue, policy.placement);
    aside.iter().for_each(|uid| placer.trial().set_aside(uid));
    let pod = |uid, node| beside.pods.get(uid).map(|member| Pod { node, ..Pod::new(&member.facts, member.class) });
    let to_place: Vec<Pod<'_>> = members.iter().filter_map(|(uid, node)| pod(uid, node.as_deref())).collect();
    let needed = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let attempt = Attempt { queue: &queue, pods: &to_place, needed, parts: &[], preemptable, is_due: false };
    placer.try_place(&attempt).map_err(|not| *not.refusal)
}

#[cfg(test)]
#[path = "again_tests.rs"]
mod tests;
