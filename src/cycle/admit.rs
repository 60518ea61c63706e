//! Is a PodGroup admitted? (A1 to A4)
//!
//! `Pending → Inqueue`. The request is `spec.minResources` less the charges of its members (nothing counts twice). Without it the request
//! is that of the members that are needed now. The quota alone decides (F6), without the reservation of the PodGroup itself. Where it
//! refuses for amounts alone, the PodGroup may be able to reclaim them (A3). An admitted PodGroup without nodes reserves its request
//! ([`World::reserve`]).

use std::sync::Arc;

use crate::accounting::QueueRefusal;
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::resources::Resources;

use super::explain::{Explanation, Refusal};
use super::gang;
use super::world::World;

/// Decides on the admission. Returns the whole minimum, with the charges of the members.
///
/// # Errors
///
/// The queue that is broken or closed, or the nearest ceiling that is exceeded, with its first resource.
pub(super) fn admit(world: &mut World, key: &GroupKey, needed: &[Uid]) -> Result<Resources, Refusal> {
    let Some((facts, asked, mut minimum)) = request_of(world, key, needed) else { return Ok(Resources::new()) };
    let Some(group) = world.groups.get(key) else { return Ok(minimum) };
    let reserved = world.reserved(group);
    // A reservation is not requested again, but a queue may have been closed since.
    let asked = if reserved.covers(&asked) { Resources::new() } else { asked };
    minimum.add(if asked.is_zero() { reserved } else { &asked });
    let fits = match group.reservation.clone().filter(|_| !asked.is_zero()) {
        None => world.books.fits_queue(&facts.queue, &asked),
        Some(reservation) => {
            let mut trial = world.books.trial();
            trial.reserve(&reservation, &facts.queue, &Resources::new());
            trial.books().fits_queue(&facts.queue, &asked)
        }
    };
    let within_entitlement = match fits {
        Ok(()) if asked.is_zero() => return Ok(minimum),
        Ok(()) => false,
        Err(QueueRefusal::Ceiling(_)) if can_reclaim(world, key, &facts.queue, &asked) => true,
        Err(refusal) => return Err(refusal.into()),
    };
    if let Some(group) = world.groups.get_mut(key) {
        group.within_entitlement = within_entitlement;
    }
    Ok(minimum)
}

/// Returns the facts of the PodGroup, its request (A1) and the charges of its members.
fn request_of(world: &World, key: &GroupKey, needed: &[Uid]) -> Option<(Arc<GroupFacts>, Resources, Resources)> {
    let group = world.groups.get(key)?;
    let facts = group.facts.clone()?;
    let mut asked = Resources::new();
    match &facts.min_resources {
        Some(minimum) => {
            asked = minimum.clone();
            asked.sub(&group.charged);
            asked = asked.without_negative();
        }
        None => needed.iter().filter_map(|uid| world.pods.get(uid)).for_each(|member| asked.add(&member.facts.request)),
    }
    Some((facts, asked, group.charged.clone()))
}

/// Returns the request of the PodGroup now (A1); empty where members are missing and it states no minResources.
#[must_use]
pub fn requested(world: &World, key: &GroupKey) -> Resources {
    let Some(group) = world.groups.get(key) else { return Resources::new() };
    let gang = group.facts.as_ref().and_then(|facts| gang::resolve(world, group, facts).ok());
    let members = gang.map(|gang| (gang::in_order(world, group, &gang), gang.needed.max(1)));
    let needed = members.iter().flat_map(|(members, needed)| members.iter().take(usize::try_from(*needed).unwrap_or(usize::MAX)));
    let needed: Vec<Uid> = needed.cloned().collect();
    request_of(world, key, &needed).map(|(_, asked, _)| asked).unwrap_or_default()
}

/// Returns every amount for which the queues refuse the PodGroup now; empty where it waits for another reason.
#[must_use]
pub fn shortages(world: &World, key: &GroupKey) -> Vec<Explanation> {
    let group = world.groups.get(key).filter(|group| group.refusal.as_ref().is_some_and(|refusal| refusal.code().is_of_quota()));
    let Some(facts) = group.and_then(|group| group.facts.as_ref()) else { return Vec::new() };
    let ceilings = world.books.quota().refusals(&facts.queue, &requested(world, key));
    ceilings.into_iter().map(|ceiling| Explanation::of(&Refusal::Ceiling(ceiling))).collect()
}

/// Whether the queue can reclaim the request (A3).
fn can_reclaim(world: &mut World, key: &GroupKey, queue: &str, asked: &Resources) -> bool {
    world.share_out();
    let Some(reservation) = world.groups.get(key).map(|group| group.reservation.clone()) else { return false };
    let World { books, .. } = world;
    let mut trial = books.trial();
    if let Some(reservation) = reservation {
        trial.reserve(&reservation, queue, &Resources::new());
    }
    let quota = trial.books().quota();
    world.shares.as_ref().is_some_and(|shares| quota.can_reclaim(queue, asked, shares))
}

/// Returns the least that the PodGroup requests in its turn. If that is too much, it can never be placed.
pub(super) fn least(world: &World, key: &GroupKey, members: &[Uid], needed: u32) -> Resources {
    let count = usize::try_from(needed.max(1)).unwrap_or(usize::MAX);
    let mut least = request_of(world, key, members.get(..count).unwrap_or(members)).map(|(_, asked, _)| asked).unwrap_or_default();
    // A minResources may be lower than the requests of the members. So many members of the smallest request need at least this.
    let mut requests = members.iter().filter_map(|uid| world.pods.get(uid)).map(|member| &member.facts.request);
    if let Some(mut smallest) = requests.next().cloned() {
        requests.for_each(|request| smallest.min_each(request));
        let mut needs = Resources::new();
        (0..count.min(members.len())).for_each(|_| needs.add(&smallest));
        least.max_each(&needs);
    }
    least
}
