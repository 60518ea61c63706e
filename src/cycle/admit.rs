//! May a group's minimum come in? (A1 to A4)
//!
//! `Pending → Inqueue`. Asked is what `spec.minResources` says less what its members are charged already (nothing counts twice), or, where it
//! says nothing, what the members ask for that are needed now. The one function that answers is the quota's (F6), without what the group itself has reserved; where
//! it refuses for amounts alone, those may be owed (A3). Who is admitted and finds no places reserves what it asked for ([`World::reserve`]).

use std::sync::Arc;

use crate::accounting::QueueRefusal;
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::resources::Resources;
use crate::rules::{Rule, holds};

use super::explain::{Explanation, Refusal};
use super::gang;
use super::world::World;

/// Whether the group's minimum may come in: then all that it comes to, with what its members are charged already.
///
/// # Errors
///
/// The queue that is broken or closed, or the nearest ceiling and its first dimension that is in the way.
pub(super) fn admit(world: &mut World, key: &GroupKey, needed: &[Uid]) -> Result<Resources, Refusal> {
    let Some((facts, asked, mut minimum)) = asks(world, key, needed) else { return Ok(Resources::new()) };
    let Some(group) = world.groups.get(key) else { return Ok(minimum) };
    let reserved = world.reserved(group);
    // What is reserved already is not asked for again, but a queue may have been closed since.
    let asked = if reserved.covers(&asked) { Resources::new() } else { asked };
    minimum.add(if asked.is_zero() { reserved } else { &asked });
    let fits = match group.reservation.clone().filter(|_| !asked.is_zero() && holds(Rule::A4Own)) {
        None => world.books.fits_queue(&facts.queue, &asked),
        Some(holds) => {
            let mut trial = world.books.trial();
            trial.reserve(&holds, &facts.queue, &Resources::new());
            trial.books().fits_queue(&facts.queue, &asked)
        }
    };
    let owed = match fits {
        Ok(()) if asked.is_zero() => return Ok(minimum),
        Ok(()) => false,
        Err(QueueRefusal::Ceiling(_)) if !holds(Rule::A2) => false,
        Err(QueueRefusal::Ceiling(_)) if holds(Rule::A3) && is_owed(world, key, &facts.queue, &asked) => true,
        Err(refusal) => return Err(refusal.into()),
    };
    if let Some(group) = world.groups.get_mut(key) {
        group.within_entitlement = owed;
    }
    Ok(minimum)
}

/// What the group asks for (A1), and what its members are charged.
fn asks(world: &World, key: &GroupKey, needed: &[Uid]) -> Option<(Arc<GroupFacts>, Resources, Resources)> {
    let group = world.groups.get(key)?;
    let facts = group.facts.clone()?;
    let mut asked = Resources::new();
    match &facts.min_resources {
        Some(minimum) => {
            asked = minimum.clone();
            if holds(Rule::A1Charged) {
                asked.sub(&group.charged);
            }
            asked = asked.without_negative();
        }
        None if !holds(Rule::A1Needed) => asked.add(&group.asked),
        None => needed.iter().filter_map(|uid| world.pods.get(uid)).for_each(|member| asked.add(&member.facts.request)),
    }
    Some((facts, asked, group.charged.clone()))
}

/// What the group asks for now (A1); nothing where its members are not all there and it states no minResources.
#[must_use]
pub fn requested(world: &World, key: &GroupKey) -> Resources {
    let Some(group) = world.groups.get(key) else { return Resources::new() };
    let gang = group.facts.as_ref().and_then(|facts| gang::resolve(world, group, facts).ok());
    let members = gang.map(|gang| (gang::in_order(world, group, &gang), gang.needed.max(1)));
    let needed = members.iter().flat_map(|(members, needed)| members.iter().take(usize::try_from(*needed).unwrap_or(usize::MAX)));
    let needed: Vec<Uid> = needed.cloned().collect();
    asks(world, key, &needed).map(|(_, asked, _)| asked).unwrap_or_default()
}

/// Every amount for which the queues refuse the group now, where that is why it waits; else none.
#[must_use]
pub fn shortages(world: &World, key: &GroupKey) -> Vec<Explanation> {
    let group = world.groups.get(key).filter(|group| group.refusal.as_ref().is_some_and(|refusal| refusal.code().is_of_quota()));
    let Some(facts) = group.and_then(|group| group.facts.as_ref()) else { return Vec::new() };
    let ceilings = world.books.quota().refusals(&facts.queue, &requested(world, key));
    ceilings.into_iter().map(|ceiling| Explanation::of(&Refusal::Ceiling(ceiling))).collect()
}

/// A3.
fn is_owed(world: &mut World, key: &GroupKey, queue: &str, asked: &Resources) -> bool {
    world.share_out();
    let Some(holds) = world.groups.get(key).map(|group| group.reservation.clone()) else { return false };
    let World { books, .. } = world;
    let mut trial = books.trial();
    if let Some(holds) = holds {
        trial.reserve(&holds, queue, &Resources::new());
    }
    let quota = trial.books().quota();
    world.shares.as_ref().is_some_and(|shares| quota.can_reclaim(queue, asked, shares))
}

/// What a group asks for that has its turn, at least: what keeps it from ever being placed if it is too much.
pub(super) fn least(world: &World, key: &GroupKey, members: &[Uid], needed: u32) -> Resources {
    let count = usize::try_from(needed.max(1)).unwrap_or(usize::MAX);
    let mut least = asks(world, key, members.get(..count).unwrap_or(members)).map(|(_, asked, _)| asked).unwrap_or_default();
    // A minResources may say less than the members ask for: so many of the smallest need at least this.
    let mut requests = members.iter().filter_map(|uid| world.pods.get(uid)).map(|member| &member.facts.request);
    if let Some(mut smallest) = requests.next().cloned() {
        requests.for_each(|request| smallest.min_each(request));
        let mut needs = Resources::new();
        (0..count.min(members.len())).for_each(|_| needs.add(&smallest));
        least.max_each(&needs);
    }
    least
}
