//! The units of eviction: pods that are evicted together, and the order in which units are tried (R4, R5).

use std::cmp::Reverse;

use k8s_openapi::jiff::Timestamp;

use crate::api::Uid;

use super::MOST_UNITS;
use super::candidates::{Candidate, Gang, LiveSubgroup};

/// The pods that are evicted at once: one pod, all of a subgroup, or all of a gang.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// The pods, as indices into the candidates.
    pub(super) pods: Vec<usize>,
    /// The gang that is evicted whole; none for a single pod and for a subgroup.
    pub(super) gang: Option<usize>,
    /// Its place in the order; the smallest is tried first.
    pub(super) rank: Rank,
}

/// Lower priority, then fewer pods, then younger, then UID, so that the order is total.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: i32,
    size: usize,
    created: Reverse<Timestamp>,
    uid: Uid,
}

/// Returns all units, in the order in which they are tried.
pub(super) fn units(candidates: &[Candidate], gangs: &[Gang]) -> Vec<Unit> {
    let single = |(at, pod): (usize, &Candidate)| Unit {
        pods: vec![at],
        gang: None,
        rank: Rank { priority: pod.priority, size: 1, created: Reverse(pod.created), uid: pod.uid.clone() },
    };
    let may_be_single =
        |(_, pod): &(usize, &Candidate)| pod.gang.and_then(|gang| gangs.get(gang)).is_none_or(|gang| gang.may_go_alone(pod));
    let mut units: Vec<Unit> = candidates.iter().enumerate().filter(may_be_single).map(single).collect();
    units.extend(gangs.iter().enumerate().filter_map(|(at, gang)| whole(candidates, at, gang)));
    units.extend(gangs.iter().flat_map(|gang| subgroups(candidates, gang)));
    units.sort_by(|a, b| a.rank.cmp(&b.rank));
    units.truncate(MOST_UNITS);
    units
}

/// Returns the unit of a whole gang, if each of its live members is a candidate. It has the highest priority of its members and the age of
/// the oldest.
fn whole(candidates: &[Candidate], at: usize, gang: &Gang) -> Option<Unit> {
    if u32::try_from(gang.members.len()).ok() != Some(gang.live) {
        return None;
    }
    Some(Unit { pods: gang.members.clone(), gang: Some(at), rank: rank(candidates, &gang.members)? })
}

/// Returns the units of whole subgroups, if each of their live members is a candidate. The one with the member on which the others depend goes
/// with all of them only.
fn subgroups(candidates: &[Candidate], gang: &Gang) -> Vec<Unit> {
    let mut members = vec![Vec::new(); gang.subgroups.len()];
    for at in &gang.members {
        let of = candidates.get(*at).and_then(|pod| members.get_mut(pod.subgroup?));
        of.into_iter().for_each(|members| members.push(*at));
    }
    let is_leader = |at: &usize| candidates.get(*at).is_some_and(|pod| gang.leader.as_ref() == Some(&pod.uid));
    let unit = |(subgroup, pods): (&LiveSubgroup, Vec<usize>)| {
        let is_whole = subgroup.size > 0 && subgroup.is_whole(0) && u32::try_from(pods.len()).ok() == Some(subgroup.live);
        (is_whole && !pods.iter().any(is_leader)).then_some(())?;
        let rank = rank(candidates, &pods)?;
        Some(Unit { pods, gang: None, rank })
    };
    gang.subgroups.iter().zip(members).filter_map(unit).collect()
}

/// Returns the rank of pods that go together.
fn rank(candidates: &[Candidate], pods: &[usize]) -> Option<Rank> {
    let members = || pods.iter().filter_map(|at| candidates.get(*at));
    let oldest = members().min_by(|a, b| a.created.cmp(&b.created).then_with(|| a.uid.cmp(&b.uid)))?;
    let priority = members().map(|pod| pod.priority).max()?;
    Some(Rank { priority, size: pods.len(), created: Reverse(oldest.created), uid: oldest.uid.clone() })
}
