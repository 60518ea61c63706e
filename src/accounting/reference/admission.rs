//! What does a group ask for, and is it admitted (A1–A4)?

use super::cluster::{Amounts, Cluster, Group, asked_in, larger, less, plus};
use super::limits::{Refusal, fits, lacking};
use super::shares::share;
use super::tree::{children, parent, said, taken, up_to_below, used, walk};

/// What is said to a group that wants to be admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// A2.
    Admitted,
    /// A3.
    ByRight,
    /// By F6.
    Refused(Refusal),
    /// There is no such group, or it has neither live members nor an explicit demand.
    Nothing,
}

/// The pods of a group that count as its members: charged, and not on their way out.
pub(super) fn live_members(cluster: &Cluster, group: &str) -> Vec<String> {
    let live = cluster.pods.iter().filter(|(_, pod)| pod.group.as_deref() == Some(group) && !pod.terminating);
    live.map(|(uid, _)| uid.clone()).collect()
}

/// The asks of the members that are needed now: so many that minMember are placed.
pub(super) fn needed(cluster: &Cluster, group: &str) -> Vec<Amounts> {
    let Some(said) = cluster.groups.get(group) else {
        return Vec::new();
    };
    let missing = said.min_member.saturating_sub(live_members(cluster, group).len());
    said.asks.iter().take(missing).cloned().collect()
}

/// A1: `spec.minResources` by the names that pods have. Of two keys for the same thing the larger counts.
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

/// A1: what a group asks for when it wants to be admitted.
pub(super) fn asks(cluster: &Cluster, group: &str) -> Amounts {
    let Some(said) = cluster.groups.get(group) else {
        return Amounts::new();
    };
    let Some(min_resources) = &said.min_resources else {
        return sum(&needed(cluster, group));
    };
    let live = live_members(cluster, group);
    let charged: Vec<Amounts> = live.iter().filter_map(|uid| cluster.pods.get(uid)).map(|pod| pod.amounts.clone()).collect();
    less(&as_requests(min_resources), &sum(&charged))
}

/// S1: what a group waits for beyond what it has reserved: what it asks for by A1, or all its waiting members where that is more.
pub(super) fn wanted(cluster: &Cluster, group: &str) -> Amounts {
    let all: Amounts = cluster.groups.get(group).map(|said| sum(&said.asks)).unwrap_or_default();
    let reserved = cluster.reservations.get(group).map(|held| held.amounts.clone()).unwrap_or_default();
    less(&larger(&asks(cluster, group), &all), &reserved)
}

pub(super) fn sum(amounts: &[Amounts]) -> Amounts {
    amounts.iter().fold(Amounts::new(), |sum, one| plus(&sum, one))
}

/// A2 and A3; A4: the group's own reservation is left out.
pub(super) fn admit(cluster: &Cluster, group: &str) -> Verdict {
    let has_members = |said: &Group| !said.asks.is_empty() || !live_members(cluster, group).is_empty();
    let Some(said) = cluster.groups.get(group).filter(|said| has_members(said) || said.min_resources.is_some()) else {
        return Verdict::Nothing;
    };
    let asked = asks(cluster, group);
    let without = cluster.without_reservation(group);
    match fits(&without, &said.queue, &asked) {
        Ok(()) => Verdict::Admitted,
        Err(_) if is_by_right(&without, &said.queue, &asked) => Verdict::ByRight,
        Err(refusal) => Verdict::Refused(refusal),
    }
}

/// A3: whether reclaim could bring back what is lacking, wherever it is lacking.
pub(super) fn is_by_right(cluster: &Cluster, queue: &str, asked: &Amounts) -> bool {
    let amounts_only = fits(cluster, queue, asked).err().is_some_and(|refusal| refusal.dimension.is_some());
    let refusing = walk(cluster, queue).into_iter().filter(|above| !lacking(cluster, above, queue, asked).is_empty());
    amounts_only && refusing.collect::<Vec<_>>().iter().all(|above| is_owed(cluster, above, queue, asked))
}

/// A3, for one queue that refuses.
fn is_owed(cluster: &Cluster, refusing: &str, queue: &str, asked: &Amounts) -> bool {
    let way = up_to_below(cluster, queue, refusing);
    let within_share = |queue: &String| {
        asked_in(asked).all(|(dimension, asked)| taken(cluster, queue, dimension) + asked <= share(cluster, queue, dimension))
    };
    let enough_is_borrowed = lacking(cluster, refusing, queue, asked)
        .iter()
        .all(|(dimension, _, lack)| borrowed_below(cluster, refusing, queue, dimension) >= *lack);
    way.iter().all(within_share) && enough_is_borrowed
}

/// A3: by how much the reclaimable queues that branch off the way below `refusing` are over their shares.
fn borrowed_below(cluster: &Cluster, refusing: &str, queue: &str, dimension: &str) -> i128 {
    let way = up_to_below(cluster, queue, refusing);
    let forks = way.iter().filter_map(|queue| parent(cluster, queue));
    let branches = forks.flat_map(|fork| children(cluster, &fork)).filter(|branch| !way.contains(branch));
    let reclaimable = branches.filter(|branch| said(cluster, branch).reclaimable);
    reclaimable.map(|branch| (used(cluster, &branch, dimension) - share(cluster, &branch, dimension)).max(0)).sum()
}
