//! Chooses the members of a gang that are left out of a preemption.
//!
//! Placing skips a member without a node where another can replace it ([`placer`](crate::cycle::placement::placer)). A preemption does the
//! same: otherwise one pod that fits nowhere would keep all the others from what their queue can reclaim. First, members that no node would
//! take without our pods are left out; pods of other schedulers are never victims. Then, where a search could not place a member, members
//! of the same class are left out from there on. Members that a task needs cannot be replaced.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Uid;

use crate::cycle::cache::Cache;
use crate::cycle::explain::NotPreempted;
use crate::cycle::placement::class::{Class, ClassId};
use crate::cycle::placement::filter::lasting_refusal;
use crate::cycle::state::SchedulingState;

use super::reclaim::Preemption;

/// The most kinds of members that are left out, with one search for each.
const MOST_KINDS: usize = 4;
/// The most pairs of a kind and a node that are checked before a search. A few kinds are always checked, however many nodes there are; the
/// search finds out the others.
const MOST_LOOKS: usize = 20_000;

/// Searches for `count` of these members, of which the first `first` cannot be replaced. Returns the outcome, that of the first search
/// where none succeeds.
pub(super) fn search(
    state: &mut SchedulingState,
    members: &[Uid],
    count: usize,
    first: usize,
    mut find: impl FnMut(&mut SchedulingState, &[Uid]) -> Option<Result<Preemption, NotPreempted>>,
) -> Option<Result<Preemption, NotPreempted>> {
    let mut left = if members.len() > count { that_fit_somewhere(&state.cache, members, first) } else { members.to_vec() };
    if left.len() < count {
        left = members.to_vec();
    }
    let mut answer = None;
    for _ in 0..=MOST_KINDS {
        let Some(some) = left.get(..count) else { break };
        let why = match find(state, some)? {
            Ok(preemption) => return Some(Ok(preemption)),
            Err(why) => why,
        };
        let misfit = why.placed_before().filter(|at| *at >= first && left.len() > count);
        answer.get_or_insert(Err(why));
        let Some((at, kind)) = misfit.and_then(|at| Some((at, class(&state.cache, left.get(at)?)?))) else { break };
        let mut place = 0_usize;
        left.retain(|uid| {
            place = place.saturating_add(1);
            place <= at || class(&state.cache, uid) != Some(kind)
        });
    }
    answer
}

fn class(cache: &Cache, uid: &Uid) -> Option<ClassId> {
    cache.pods().get(uid)?.class
}

/// Returns the members that some node would take without our pods, and the first ones whatever they request.
fn that_fit_somewhere(cache: &Cache, members: &[Uid], first: usize) -> Vec<Uid> {
    let kinds: BTreeSet<ClassId> = members.iter().filter_map(|uid| class(cache, uid)).collect();
    if kinds.len() < 2 {
        return members.to_vec();
    }
    let most = MOST_LOOKS.checked_div(cache.nodes().iter().count()).unwrap_or(usize::MAX).max(MOST_KINDS);
    let fits: BTreeMap<ClassId, bool> =
        kinds.into_iter().take(most).filter_map(|id| Some((id, fits_somewhere(cache, cache.classes().get(id)?)))).collect();
    let stays = |(at, uid): &(usize, &Uid)| *at < first || class(cache, uid).and_then(|id| fits.get(&id)).copied().unwrap_or(true);
    members.iter().enumerate().filter(stays).map(|(_, uid)| uid.clone()).collect()
}

fn fits_somewhere(cache: &Cache, class: &Class) -> bool {
    cache.nodes().ids().filter_map(|id| cache.node(id)).any(|node| {
        cache.accounting().ledger().fits_without_our_pods(&node.facts.name, &class.request)
            && lasting_refusal(&class.constraints, &BTreeSet::new(), &node).is_none()
    })
}
