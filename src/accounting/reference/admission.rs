//! What a PodGroup asks for, and whether it is admitted (A1–A4).

use super::cluster::{Amounts, Cluster, Group, asked_in, larger, less, plus};
use super::limits::{Refusal, fits, lacking};
use super::shares::share;
use super::tree::{children, deleted_below, parent, spec, taken, up_to_below, used, walk};

/// The answer to a PodGroup that asks for admission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Admitted by A2.
    Admitted,
    /// Admitted by A3.
    ByReclaim,
    /// Refused by F4.
    Refused(Refusal),
    /// There is no such PodGroup, or it has neither live members nor an explicit demand.
    Nothing,
}

/// Returns the members of a PodGroup: its pods that are charged and not terminating.
pub(super) fn live_members(cluster: &Cluster, group: &str) -> Vec<String> {
    let live = cluster.pods.iter().filter(|(_, pod)| pod.group.as_deref() == Some(group) && !pod.terminating);
    live.map(|(uid, _)| uid.clone()).collect()
}

/// Returns the requests of the members that are needed now, so that minMember are placed.
pub(super) fn needed(cluster: &Cluster, group: &str) -> Vec<Amounts> {
    let Some(spec) = cluster.groups.get(group) else {
        return Vec::new();
    };
    let missing = spec.min_member.saturating_sub(live_members(cluster, group).len());
    spec.asks.iter().take(missing).cloned().collect()
}

/// A1: returns `spec.minResources` by the names that pods use. Of two keys for the same resource the larger counts.
pub(super) fn as_requests(min_resources: &Amounts) -> Amounts {
    let mut requests = Amounts::new();
    for (key, amount) in min_resources {
        let name = match key.as_str() {
            "count/pods" => "pods",
            key if key.starts_with("limits.") => continue,
            key => key.strip_prefix("requests.").unwrap_or(key),
        };
        requests = larger(&requests, &Amounts::from([(name.to_owned(), *amount)]));
    }
    requests
}

/// A1: returns what a PodGroup asks for at its admission.
pub(super) fn asks(cluster: &Cluster, group: &str) -> Amounts {
    let Some(spec) = cluster.groups.get(group) else {
        return Amounts::new();
    };
    let needed = needed(cluster, group);
    let missing = spec.min_member.saturating_sub(live_members(cluster, group).len());
    // Where too few exist, none is needed now.
    let of_members = if needed.len() < missing { Amounts::new() } else { sum(&needed) };
    let Some(min_resources) = &spec.min_resources else { return of_members };
    let live = live_members(cluster, group);
    let charged: Vec<Amounts> = live.iter().filter_map(|uid| cluster.pods.get(uid)).map(|pod| pod.amounts.clone()).collect();
    larger(&of_members, &less(&as_requests(min_resources), &sum(&charged)))
}

/// S1: returns what a PodGroup wants beyond its reservation: its request by A1, or all its waiting members where that is more.
pub(super) fn wanted(cluster: &Cluster, group: &str) -> Amounts {
    let all: Amounts = cluster.groups.get(group).map(|spec| sum(&spec.asks)).unwrap_or_default();
    let reserved = cluster.reservations.get(group).map(|held| held.amounts.clone()).unwrap_or_default();
    less(&larger(&asks(cluster, group), &all), &reserved)
}

pub(super) fn sum(amounts: &[Amounts]) -> Amounts {
    amounts.iter().fold(Amounts::new(), |sum, one| plus(&sum, one))
}

/// Decides the admission by A2 and A3; the PodGroup's own reservation is left out (A4).
pub(super) fn admit(cluster: &Cluster, group: &str) -> Verdict {
    let has_members = |spec: &Group| !spec.asks.is_empty() || !live_members(cluster, group).is_empty();
    let Some(spec) = cluster.groups.get(group).filter(|spec| has_members(spec) || spec.min_resources.is_some()) else {
        return Verdict::Nothing;
    };
    let asked = asks(cluster, group);
    let without = cluster.without_reservation(group);
    match fits(&without, &spec.queue, &asked) {
        Ok(()) => Verdict::Admitted,
        Err(_) if can_reclaim(&without, &spec.queue, &asked) => Verdict::ByReclaim,
        Err(refusal) => Verdict::Refused(refusal),
    }
}

/// A3: whether reclaim can free what is lacking, at every queue where it is lacking.
pub(super) fn can_reclaim(cluster: &Cluster, queue: &str, asked: &Amounts) -> bool {
    let amounts_only = fits(cluster, queue, asked).err().is_some_and(|refusal| refusal.dimension.is_some());
    let refusing = walk(cluster, queue).into_iter().filter(|above| !lacking(cluster, above, queue, asked).is_empty());
    amounts_only && refusing.collect::<Vec<_>>().iter().all(|above| can_reclaim_at(cluster, above, queue, asked))
}

/// A3, for one queue that refuses.
fn can_reclaim_at(cluster: &Cluster, refusing: &str, queue: &str, asked: &Amounts) -> bool {
    let way = up_to_below(cluster, queue, refusing);
    let within_share = |queue: &&str| {
        asked_in(asked).all(|(dimension, asked)| taken(cluster, queue, dimension) + asked <= share(cluster, queue, dimension))
    };
    let enough_is_borrowed = lacking(cluster, refusing, queue, asked)
        .iter()
        .all(|(dimension, _, lack)| borrowed_below(cluster, refusing, queue, dimension) >= *lack);
    way.iter().all(within_share) && enough_is_borrowed
}

/// A3: returns by how much the reclaimable queues that branch off the way below `refusing` are over their shares.
fn borrowed_below(cluster: &Cluster, refusing: &str, queue: &str, dimension: &str) -> i128 {
    let way = up_to_below(cluster, queue, refusing);
    let forks = way.iter().filter_map(|queue| parent(cluster, queue));
    let branches = forks.flat_map(|fork| [children(cluster, fork), deleted_below(cluster, fork)].concat());
    let branches = branches.filter(|branch| !way.contains(branch));
    let reclaimable = branches.filter(|branch| spec(cluster, branch).reclaimable);
    reclaimable.map(|branch| (used(cluster, branch, dimension) - share(cluster, branch, dimension)).max(0)).sum()
}
