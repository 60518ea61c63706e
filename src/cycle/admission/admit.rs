//! Decides whether a PodGroup is admitted (A1 to A4).
//!
//! `Pending → Inqueue`. The request is that of the members that are needed now, and at least `spec.minResources` less the charges of its
//! members (nothing counts twice). The minResources that podgroup-controller wrote count only while those members do not exist. The quota
//! alone decides (F4), without the reservation of the PodGroup itself. Where it refuses for amounts alone, the PodGroup may be able to
//! reclaim them (A3). An admitted PodGroup without nodes reserves its request ([`reserve`](super::reservation::reserve)). One that lacks
//! members reserves nothing where it would have to reclaim: no pod is preempted for members that do not exist, and others would preempt pods
//! to have room beside the reservation.
//!
//! Where the installer asks for it ([`Policy::admit_within_nodes`](crate::cycle::policy::Policy)), the request must fit in what the nodes
//! offer as well (A2).

use std::sync::Arc;

use crate::accounting::{Ceiling, QueueRefusal, Quota};
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::resources::Resources;

use crate::cycle::cache::reservation::Rest;
use crate::cycle::cache::{self, Cache, gang, members};
use crate::cycle::explain::{Explanation, Refusal};

/// What an admitted PodGroup may reserve.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Admitted {
    /// The whole minimum, with the charges of the members.
    pub(in crate::cycle) minimum: Resources,
    /// Whether there is room for it only within the entitlement of the queue (A3).
    pub(in crate::cycle) within_entitlement: bool,
    /// Where its members are lacking and there is room only within the entitlement: the ceiling that refuses it. It reserves nothing more
    /// before that has room. Else none.
    pub(in crate::cycle) unreserved: Option<Ceiling>,
}

/// Returns why the PodGroup cannot be placed or admitted as it is, whatever is free.
pub(in crate::cycle) fn unusable(cache: &Cache, facts: &GroupFacts) -> Option<Refusal> {
    // A PodGroup without a waiting pod is not admitted either: none of its pods could ever use its reservation.
    if let Some(fault) = facts.faults.first() {
        return Some(Refusal::Faulty(fault.clone()));
    }
    if facts.network_topology {
        return Some(Refusal::NetworkTopology);
    }
    let quota = cache.accounting().quota();
    if let Err(fault) = quota.path(&facts.queue) {
        return Some(Refusal::Queue(fault));
    }
    if let Some(queue) = quota.closed_by(&facts.queue) {
        return Some(Refusal::Closed { queue });
    }
    let (queue, field) = cache.node_groups(&facts.queue)?;
    Some(Refusal::NodeGroups { queue, field })
}

/// Decides on the admission.
///
/// # Errors
///
/// The queue that is broken or closed, or the nearest ceiling that is exceeded, with its first resource; with `within_nodes` also what the
/// nodes lack.
pub(in crate::cycle) fn admit(cache: &mut Cache, key: &GroupKey, needed: &[Uid], within_nodes: bool) -> Result<Admitted, Refusal> {
    let Some((facts, asked, mut minimum)) = request_of(cache, key, needed) else { return Ok(Admitted::default()) };
    let Some(group) = cache.groups().get(key) else { return Ok(Admitted::default()) };
    let reserved = cache.reserved(group);
    let within_entitlement = group.admission.within_entitlement;
    // A reservation is not requested again, but a queue may have been closed since.
    if reserved.covers(&asked) {
        minimum.add(reserved);
        cache.accounting().fits_queue(&facts.queue, &Resources::new())?;
        return Ok(Admitted { minimum, within_entitlement, unreserved: None });
    }
    minimum.add(&asked);
    let lacks_members = needed.is_empty();
    // It stays as it was admitted until its members come.
    let stays = lacks_members && group.admission.unreserved.is_some();
    let own = group.admission.reservation.clone();
    let mut trial = cache.trial();
    own.iter().for_each(|reservation| trial.release_reservation(reservation));
    let fits = trial.accounting().fits_queue(&facts.queue, &asked);
    let there = if within_nodes { trial.accounting().quota().within_nodes(&asked) } else { Ok(()) };
    drop(trial);
    match fits {
        Ok(()) if let Err(ceiling) = there => match stays {
            true => Ok(Admitted { minimum, within_entitlement: true, unreserved: Some(ceiling) }),
            false => Err(Refusal::Ceiling(ceiling)),
        },
        Ok(()) => Ok(Admitted { minimum, within_entitlement: false, unreserved: None }),
        Err(QueueRefusal::Ceiling(ceiling)) if stays || can_reclaim(cache, own.as_deref(), &facts.queue, asked, lacks_members) => {
            Ok(Admitted { minimum, within_entitlement: true, unreserved: Some(ceiling).filter(|_| lacks_members) })
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// Returns the facts of the PodGroup, its request (A1) and the charges of its members.
fn request_of(cache: &Cache, key: &GroupKey, needed: &[Uid]) -> Option<(Arc<GroupFacts>, Resources, Resources)> {
    let group = cache.groups().get(key)?;
    let facts = group.facts.clone()?;
    let mut asked = cache::request_of(cache.pods(), needed);
    // The members know best what they request. What podgroup-controller wrote is an estimate from their template. Where it had its minimum,
    // what a user states beyond is the rest, which is reserved once (A4). One that needs no member asks for nothing.
    let begins = (group.admission.rest == Rest::Owed || !gang::had_its_places(group, &facts)) && !gang::is_satisfied(group, &facts);
    if let Some(minimum) = facts.min_resources.as_ref().filter(|_| begins && (needed.is_empty() || !facts.managed)) {
        let mut stated = minimum.clone();
        stated.sub(&group.charged);
        asked.max_each(&stated.without_negative());
    }
    Some((facts, asked, group.charged.clone()))
}

/// Returns what the PodGroup asks for beyond the requests of these members, which are all that it needs now (A1).
pub(in crate::cycle) fn beyond(cache: &Cache, key: &GroupKey, needed: &[Uid]) -> Resources {
    let Some((_, mut asked, _)) = request_of(cache, key, needed) else { return Resources::new() };
    asked.sub(&cache::request_of(cache.pods(), needed));
    asked
}

/// Returns the request of the PodGroup now (A1); empty where members are missing and it states no minResources.
#[must_use]
pub fn requested(cache: &Cache, key: &GroupKey) -> Resources {
    let Some(group) = cache.groups().get(key) else { return Resources::new() };
    let gang = group.facts.as_ref().and_then(|facts| gang::resolve(cache, group, facts).ok());
    let members = gang.map(|gang| (members::in_order(cache, group, &gang), gang.needed.max(1)));
    let needed = members.iter().flat_map(|(members, needed)| members.iter().take(usize::try_from(*needed).unwrap_or(usize::MAX)));
    let needed: Vec<Uid> = needed.cloned().collect();
    request_of(cache, key, &needed).map(|(_, asked, _)| asked).unwrap_or_default()
}

/// Returns every amount for which the queues refuse the PodGroup now; empty where it waits for another reason. The reservation of the
/// PodGroup is left out: it is not requested again. For that, `copy` gets a copy of the quota of the cache, unless it has one; give the
/// next call the same.
#[must_use]
pub fn shortages(cache: &Cache, key: &GroupKey, copy: &mut Option<Quota>) -> Vec<Explanation> {
    let group = cache.groups().get(key).filter(|group| group.refusal.as_ref().is_some_and(|refusal| refusal.code().is_of_quota()));
    let Some((group, facts)) = group.and_then(|group| Some((group, group.facts.as_ref()?))) else { return Vec::new() };
    let (quota, asked) = (cache.accounting().quota(), requested(cache, key));
    let reservation = group.admission.reservation.as_deref();
    let ceilings = match reservation.and_then(|name| Some((name, quota.reservation_of(name)?))) {
        None => quota.refusals(&facts.queue, &asked),
        Some((name, (queue, amounts))) => {
            let copy = copy.get_or_insert_with(|| quota.clone());
            copy.unreserve(name);
            let ceilings = copy.refusals(&facts.queue, &asked);
            copy.reserve(name, queue, amounts.clone());
            ceilings
        }
    };
    ceilings.into_iter().map(|ceiling| Explanation::of(&Refusal::Ceiling(ceiling))).collect()
}

/// Whether the queue can reclaim the request (A3), its own reservation left out of account. Where members are lacking, what others of the
/// queue were so admitted for comes before it, in the dimensions that it asks for.
fn can_reclaim(cache: &mut Cache, own: Option<&str>, queue: &str, mut asked: Resources, lacks_members: bool) -> bool {
    if lacks_members {
        let others = cache.unreserved_in(queue);
        for (dimension, amount) in asked.clone().iter() {
            asked.set(dimension.clone(), amount.plus(others.get(dimension)));
        }
    }
    cache.share_out();
    let (mut trial, shares) = cache.trial_and_shares();
    own.into_iter().for_each(|reservation| trial.release_reservation(reservation));
    let quota = trial.accounting().quota();
    shares.is_some_and(|shares| quota.can_reclaim(queue, &asked, shares))
}

/// Returns the least that the PodGroup requests in its turn. If that is too much, it can never be placed.
pub(in crate::cycle) fn least(cache: &Cache, key: &GroupKey, members: &[Uid], needed: u32) -> Resources {
    let count = usize::try_from(needed.max(1)).unwrap_or(usize::MAX);
    let mut least = request_of(cache, key, members.get(..count).unwrap_or(members)).map(|(_, asked, _)| asked).unwrap_or_default();
    // A minResources may be lower than the requests of the members. So many members of the smallest request need at least this.
    let mut requests = members.iter().filter_map(|uid| cache.pods().get(uid)).map(|member| &member.facts.request);
    if let Some(mut smallest) = requests.next().cloned() {
        requests.for_each(|request| smallest.min_each(request));
        let mut needs = Resources::new();
        (0..count.min(members.len())).for_each(|_| needs.add(&smallest));
        least.max_each(&needs);
    }
    least
}
