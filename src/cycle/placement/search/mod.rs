//! What is tried where the members of a gang find no nodes in their own order?
//!
//! Always before a pod is preempted, and each only where the one before it found nothing:
//!
//! 1. each topology [domain](domains) with room for all members, where they require each other beside them;
//! 2. a few other [`orders`], with the best node and with the fullest;
//! 3. all choices of a node for each member, within a bound ([`by_kind`]): members that are [alike](kinds) and nodes that [look
//!    alike](nodes) are tried once.
//!
//! Where not all members are needed and some belong to subgroups, [`choices`] of subgroups are tried so, one after the other.
//!
//! For members that are all alike and that no other pod matters to, nothing is tried: where they are not placed in one order, they are in none.
//! docs/scheduling.md says what the search finds, and shows a gang that it misses.

mod by_kind;
mod choices;
mod domains;
mod kinds;
mod nodes;
mod orders;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::class::{ClassId, Classes};
use super::node_set::NodeSet;
use super::parts::Parts;
use super::placer::{Attempt, Placer, Places, Pod};

/// Places as many of the pods as are needed, or none and returns none. Their own order was tried.
pub(super) fn place(placer: &mut Placer<'_>, attempt: &Attempt<'_>) -> Option<Places> {
    if are_all_needed(attempt) {
        // Then it does not matter what belongs together.
        let pods: Vec<Pod<'_>> = attempt.pods.iter().map(|pod| Pod { task: None, subgroup: None, ..*pod }).collect();
        let needed = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        return in_other_ways(placer, &Attempt { pods: &pods, needed, parts: &[], ..*attempt });
    }
    if attempt.pods.iter().any(|pod| pod.subgroup.is_some()) { choices::place(placer, attempt) } else { in_other_ways(placer, attempt) }
}

fn in_other_ways(placer: &mut Placer<'_>, attempt: &Attempt<'_>) -> Option<Places> {
    if !may_help(attempt.pods, placer.classes) {
        return None;
    }
    in_one_domain(placer, attempt).or_else(|| in_other_orders(placer, attempt)).or_else(|| by_kind::place(placer, attempt))
}

/// Returns whether the members may find nodes though they did not in their own order.
fn may_help(pods: &[Pod<'_>], classes: &Classes) -> bool {
    let Some(first) = pods.first().map(|pod| pod.class) else { return false };
    let has_terms = |id: ClassId| classes.get(id).is_some_and(|class| !class.terms.is_empty());
    // A pod with a given node goes there in any order.
    pods.len() > 1
        && pods.iter().all(|pod| pod.node.is_none())
        && (pods.iter().any(|pod| pod.class != first) || first.is_some_and(has_terms))
}

/// Returns whether every pod is needed.
fn are_all_needed(attempt: &Attempt<'_>) -> bool {
    usize::try_from(Parts::new(attempt.needed, attempt.parts).missing()).is_ok_and(|needed| needed >= attempt.pods.len())
}

/// Places pods that require each other beside them: in each domain that has room for all of them, the one with the least room first. The
/// first pod alone would choose a domain by its best node.
fn in_one_domain(placer: &mut Placer<'_>, attempt: &Attempt<'_>) -> Option<Places> {
    let classes = placer.classes;
    let first = attempt.pods.iter().filter_map(|pod| pod.class);
    let id = first.into_iter().find(|id| classes.get(*id).is_some_and(|class| class.terms.affinity.is_some()))?;
    let others = attempt.pods.iter().filter(|pod| pod.class != Some(id)).count();
    let wanted = usize::try_from(attempt.needed).unwrap_or(usize::MAX).saturating_sub(others).max(1);
    for domain in domains::with_room(placer, id, wanted) {
        if placer.is_spent() {
            break;
        }
        let mut pods = attempt.pods.to_vec();
        pods.iter_mut().filter(|pod| pod.class == Some(id)).for_each(|pod| pod.within = Some(&domain));
        if let Ok(places) = placer.place_in_order(&Attempt { pods: &pods, ..*attempt }) {
            return Some(places);
        }
    }
    None
}

fn in_other_orders(placer: &mut Placer<'_>, attempt: &Attempt<'_>) -> Option<Places> {
    let all = are_all_needed(attempt);
    let takers = takers(placer, attempt.pods);
    for order in orders::others(attempt.pods, !all, &takers, placer.strategy) {
        if placer.is_spent() {
            break;
        }
        let usual = std::mem::replace(&mut placer.strategy, order.strategy);
        let placed = placer.place_in_order(&Attempt { pods: &order.pods, ..*attempt });
        placer.strategy = usual;
        if let Ok(places) = placed {
            return Some(places);
        }
    }
    None
}

/// Returns how many nodes take each kind of these pods; nothing where there are too many kinds to ask.
fn takers<'a>(placer: &mut Placer<'_>, pods: &[Pod<'a>]) -> orders::Takers<'a> {
    let kinds: BTreeMap<_, Option<&NodeSet>> = pods.iter().filter_map(|pod| Some((pod.kind()?, pod.within))).collect();
    if kinds.len() > orders::MOST_KINDS {
        return BTreeMap::new();
    }
    let snapshot = placer.trial.snapshot(placer.strategy, &placer.barred);
    let (classes, finder) = (placer.classes, &mut *placer.finder);
    let of = |((id, set), within)| Some(((id, set), finder.takers(id, classes.get(id)?, within, snapshot)));
    kinds.into_iter().filter_map(of).collect()
}
