//! Chooses the members of a gang that are left out of a preemption.
//!
//! Placing skips a member without a node where another can replace it ([`placer`](crate::cycle::placement::placer)). A preemption does the
//! same: otherwise one pod that fits nowhere would keep all the others from what their queue can reclaim. First, members that no node would
//! take without our pods are left out; pods of other schedulers are never victims. Then, where a search could not place a member, members
//! of the same class are left out from there on, as long as the others are enough, those of each task included.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{GroupKey, Uid};

use crate::cycle::cache::Cache;
use crate::cycle::cache::gang::Gang;
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

/// Searches for what the gang needs of these members. Returns the outcome, that of the first search where none succeeds.
pub(super) fn search(
    state: &mut SchedulingState,
    key: &GroupKey,
    members: &[Uid],
    gang: &Gang,
    mut find: impl FnMut(&mut SchedulingState, &[Uid]) -> Option<Result<Preemption, NotPreempted>>,
) -> Option<Result<Preemption, NotPreempted>> {
    let are_all_needed = usize::try_from(gang.needed).is_ok_and(|needed| needed >= members.len());
    let mut left = if are_all_needed { members.to_vec() } else { that_fit_somewhere(&state.cache, members) };
    if first_of(&state.cache, key, &left, gang).is_none() {
        left = members.to_vec();
    }
    let mut answer = None;
    for _ in 0..=MOST_KINDS {
        let Some(some) = first_of(&state.cache, key, &left, gang) else { break };
        let why = match find(state, &some)? {
            Ok(preemption) => return Some(Ok(preemption)),
            Err(why) => why,
        };
        let misfit = why.placed_before().and_then(|at| some.get(at));
        answer.get_or_insert(Err(why));
        let Some((misfit, kind)) = misfit.and_then(|uid| Some((uid, class(&state.cache, uid)?))) else { break };
        let mut is_before = true;
        left.retain(|uid| {
            is_before &= uid != misfit;
            is_before || class(&state.cache, uid) != Some(kind)
        });
    }
    answer
}

/// Returns the first of these members that are enough for the gang; none where they are too few.
fn first_of(cache: &Cache, key: &GroupKey, members: &[Uid], gang: &Gang) -> Option<Vec<Uid>> {
    let (first, _, are_enough) =
        gang.choose(cache.groups().get(key)?, members.to_vec(), |uid| cache.pods().get(uid).map(|member| &*member.facts));
    are_enough.then_some(first)
}

fn class(cache: &Cache, uid: &Uid) -> Option<ClassId> {
    cache.pods().get(uid)?.class
}

/// Returns the members that some node would take without our pods.
fn that_fit_somewhere(cache: &Cache, members: &[Uid]) -> Vec<Uid> {
    let kinds: BTreeSet<ClassId> = members.iter().filter_map(|uid| class(cache, uid)).collect();
    if kinds.len() < 2 {
        return members.to_vec();
    }
    let most = MOST_LOOKS.checked_div(cache.nodes().iter().count()).unwrap_or(usize::MAX).max(MOST_KINDS);
    let fits: BTreeMap<ClassId, bool> =
        kinds.into_iter().take(most).filter_map(|id| Some((id, fits_somewhere(cache, cache.classes().get(id)?)))).collect();
    let fits = |uid: &&Uid| class(cache, uid).and_then(|id| fits.get(&id)).copied().unwrap_or(true);
    members.iter().filter(fits).cloned().collect()
}

fn fits_somewhere(cache: &Cache, class: &Class) -> bool {
    cache.nodes().ids().filter_map(|id| cache.node(id)).any(|node| {
        cache.accounting().ledger().fits_without_our_pods(&node.facts.name, &class.request)
            && lasting_refusal(&class.constraints, &BTreeSet::new(), &node).is_none()
    })
}
