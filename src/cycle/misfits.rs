//! Which members of a gang are left out when it asks for the places of others?
//!
//! Placing skips a member that finds no place where another can make up for it ([`place`](super::place)), so a claim does, too: one pod that fits nowhere would keep all the others from
//! what they are owed. First those are left out that no node would take though nobody were there; then, where a search could not place one, its like from there on. Those that
//! a task needs cannot be made up for.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Uid;

use super::placement::class::{Class, ClassId};
use super::placement::filter::{NodeState, lasting_refusal};
use super::reclaim::{NotTaken, Taking};
use super::world::World;

/// So many kinds of members are left out at most, one search for each.
const MOST_KINDS: usize = 4;
/// So many pairs of a kind and a node are looked at before a search; a few kinds are, however many nodes there are. Of the others it is found out by searching.
const MOST_LOOKS: usize = 20_000;

/// Searches for `count` of these members, of which the first `first` cannot be made up for, and says what came of it: of the first search where none found anybody.
pub(super) fn search(
    world: &mut World,
    members: &[Uid],
    count: usize,
    first: usize,
    mut find: impl FnMut(&mut World, &[Uid]) -> Option<Result<Taking, NotTaken>>,
) -> Option<Result<Taking, NotTaken>> {
    let mut left = if members.len() > count { that_fit_somewhere(world, members, first) } else { members.to_vec() };
    if left.len() < count {
        left = members.to_vec();
    }
    let mut answer = None;
    for _ in 0..=MOST_KINDS {
        let Some(some) = left.get(..count) else { break };
        let why = match find(world, some)? {
            Ok(taking) => return Some(Ok(taking)),
            Err(why) => why,
        };
        let misfit = why.placed_before().filter(|at| *at >= first && left.len() > count);
        answer.get_or_insert(Err(why));
        let Some((at, kind)) = misfit.and_then(|at| Some((at, class(world, left.get(at)?)?))) else { break };
        let mut place = 0_usize;
        left.retain(|uid| {
            place = place.saturating_add(1);
            place <= at || class(world, uid) != Some(kind)
        });
    }
    answer
}

fn class(world: &World, uid: &Uid) -> Option<ClassId> {
    world.pods.get(uid)?.class
}

/// Those that some node would take if nobody were there, and the first ones whatever they ask for.
fn that_fit_somewhere(world: &World, members: &[Uid], first: usize) -> Vec<Uid> {
    let kinds: BTreeSet<ClassId> = members.iter().filter_map(|uid| class(world, uid)).collect();
    if kinds.len() < 2 {
        return members.to_vec();
    }
    let most = MOST_LOOKS.checked_div(world.nodes.iter().count()).unwrap_or(usize::MAX).max(MOST_KINDS);
    let fits: BTreeMap<ClassId, bool> =
        kinds.into_iter().take(most).filter_map(|id| Some((id, fits_somewhere(world, world.classes.get(id)?)))).collect();
    let stays = |(at, uid): &(usize, &Uid)| *at < first || class(world, uid).and_then(|id| fits.get(&id)).copied().unwrap_or(true);
    members.iter().enumerate().filter(stays).map(|(_, uid)| uid.clone()).collect()
}

fn fits_somewhere(world: &World, class: &Class) -> bool {
    world.nodes.iter().any(|facts| {
        let books = world.books.ledger().node(&facts.name);
        books.is_some_and(|books| {
            books.allocatable.covers(&class.request)
                && lasting_refusal(&class.constraints, &BTreeSet::new(), &NodeState { facts, books }).is_none()
        })
    })
}
