//! Judges the evictions by the scheduler (check 9).
//!
//! * A pod is evicted only while a pod of another PodGroup waits for a node.
//! * A pod that is marked as not preemptable is never evicted, nor is one of a PodGroup with that mark.
//! * An eviction takes no queue below its guarantee, unless a PodGroup of that queue waits: within its own queue the priority decides.
//! * After the pod is gone, the scheduler binds a pod of another PodGroup, unless nothing waits any more. Otherwise the eviction was for nothing.
//!
//! A part of a gang that is not satisfied may be evicted at any time: it is released, so that the gang waits as a whole.
//! Disruption budgets are checked in the audit log (`audit`), because only the API server knows what a budget allows.

use std::collections::BTreeMap;

use super::amounts::{Amounts, show};
use super::facts::{Key, PodFact};
use super::state::{ClusterState, Track};

/// What is remembered of evictions.
#[derive(Debug, Default)]
pub struct Evictions {
    /// The evicted pods for which no other pod was bound yet, by UID.
    open: BTreeMap<String, Open>,
    /// When a pod of a PodGroup last waited, for PodGroups of which none waits now.
    waited: BTreeMap<Key, (i64, Option<String>)>,
    /// How many evictions were judged.
    judged: u64,
}

#[derive(Debug)]
struct Open {
    group: Key,
    /// The pods of other PodGroups that waited at the eviction.
    askers: Vec<String>,
}

impl Evictions {
    /// Records that a pod stopped to wait, at a time in milliseconds.
    pub fn waits_no_more(&mut self, state: &ClusterState, pod: &PodFact, at: i64) {
        self.waited.insert(pod.group.clone(), (at, queue_of(state, pod)));
    }

    /// Judges the eviction of a pod, in the state after it, and returns what is wrong with it. Changes by other clients since `from` are forgiven.
    pub fn evicted(&mut self, state: &ClusterState, uid: &str, from: i64) -> Vec<String> {
        let Some(victim) = state.pod(uid) else { return Vec::new() };
        self.judged = self.judged.saturating_add(1);
        let others = |group: &Key| *group != victim.group;
        let askers: Vec<(String, &PodFact)> = waiting(state).filter(|(_, pod)| others(&pod.group)).collect();
        let recently: Vec<_> =
            self.waited.iter().filter(|(group, (at, _))| others(group) && *at > from).map(|(_, (_, queue))| queue).collect();
        let mut wrong = Vec::new();
        if askers.is_empty() && recently.is_empty() {
            wrong.push("evicted, but no pod of another PodGroup waits".to_owned());
        }
        let group = state.groups.get(&victim.group).is_some_and(|group| always(group, from, |group| group.protected));
        if group || state.pods.get(uid).is_some_and(|pod| always(&pod.track, from, |pod| pod.protected)) {
            wrong.push("evicted, but it is marked as not preemptable".to_owned());
        }
        let queues: Vec<String> =
            askers.iter().filter_map(|(_, pod)| queue_of(state, pod)).chain(recently.into_iter().flatten().cloned()).collect();
        wrong.extend(below_guarantee(state, uid, &queues, from));
        if !askers.is_empty() {
            let askers = askers.into_iter().map(|(uid, _)| uid).collect();
            self.open.insert(uid.to_owned(), Open { group: victim.group.clone(), askers });
        }
        wrong
    }

    /// Returns the evicted pods that another pod has been bound for, now that a pod of this PodGroup is bound. They are forgotten.
    pub fn bound(&mut self, group: &Key) -> Vec<String> {
        let used: Vec<String> = self.open.iter().filter(|(_, open)| open.group != *group).map(|(uid, _)| uid.clone()).collect();
        used.iter().for_each(|uid| drop(self.open.remove(uid)));
        used
    }

    /// Returns how many evictions were judged.
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// Returns whether this evicted pod is one for which no pod was bound yet.
    pub fn is_open(&self, uid: &str) -> bool {
        self.open.contains_key(uid)
    }

    /// Returns the evicted pods for which no PodGroup waits any more. They are forgotten.
    pub fn withdrawn(&mut self, state: &ClusterState) -> Vec<String> {
        let waits = |uid: &String| state.pod(uid).is_some_and(|pod| pod.node.is_none() && !pod.terminating && !pod.ended);
        let over: Vec<String> = self.open.iter().filter(|(_, open)| !open.askers.iter().any(waits)).map(|(uid, _)| uid.clone()).collect();
        over.iter().for_each(|uid| drop(self.open.remove(uid)));
        over
    }
}

/// Returns whether every version since a time is so. A time without the object is no excuse: the scheduler evicts nothing that it has not seen.
fn always<T>(track: &Track<T>, from: i64, is: impl Fn(&T) -> bool) -> bool {
    let mut versions = track.since(from).flatten().peekable();
    versions.peek().is_some() && versions.all(is)
}

/// Returns the pods of the schedulers that wait for a node.
fn waiting(state: &ClusterState) -> impl Iterator<Item = (String, &PodFact)> {
    let pods = state.pods.iter().filter_map(|(uid, pod)| Some((uid.clone(), pod.track.now()?)));
    pods.filter(|(_, pod)| pod.waits())
}

fn queue_of(state: &ClusterState, pod: &PodFact) -> Option<String> {
    state.group(&pod.group).map(|group| group.queue.clone())
}

/// Describes the queue that is below its guarantee without this pod. `asking` are the queues of the PodGroups that wait: nothing is said
/// about a queue that one of them is in or below.
fn below_guarantee(state: &ClusterState, uid: &str, asking: &[String], from: i64) -> Option<String> {
    let victim = state.pods.get(uid)?;
    let (release, lost) = (victim.track.now()?.served?, &victim.track.now()?.requests);
    let path_of = |queue: &str| state.path(queue, u64::MAX);
    for queue in path_of(victim.queue.as_deref()?).iter().filter(|queue| *queue != super::facts::ROOT) {
        if asking.iter().any(|asking| path_of(asking).contains(queue)) {
            break;
        }
        let Some(track) = state.queues.get(queue) else { continue };
        let mut stays = Amounts::default();
        let charged = state.pods.values().filter_map(|pod| Some((pod.track.now()?, pod.queue.as_deref()?)));
        for (pod, _) in
            charged.filter(|(pod, of)| pod.served == Some(release) && pod.stays() && !pod.evicted && path_of(of).contains(queue))
        {
            stays.add(&pod.requests);
        }
        // What other clients took away a moment ago was there for the scheduler.
        for departure in state.departures.iter().filter(|departure| departure.at > from) {
            if departure.queue.as_deref().is_some_and(|of| path_of(of).contains(queue)) {
                stays.add(&departure.requests);
            }
        }
        for (dimension, _) in lost.iter().filter(|(_, amount)| *amount > 0) {
            let guarantee = track.since(from).flatten().map(|queue| queue.guarantee.get(dimension)).min().unwrap_or(0);
            if stays.get(dimension) < guarantee && fits_all(state, dimension) {
                return Some(format!(
                    "its eviction takes queue {queue} below its guarantee: {dimension} {} left, guaranteed {}",
                    show(stays.get(dimension)),
                    show(guarantee)
                ));
            }
        }
    }
    None
}

/// Returns whether the guarantees of the queues below root fit into what the nodes have for the schedulers. Otherwise they are cut by priority.
fn fits_all(state: &ClusterState, dimension: &str) -> bool {
    let existing = state.queues.values().filter_map(Track::now);
    let guaranteed =
        existing.filter(|queue| queue.parent.as_deref() == Some(super::facts::ROOT)).map(|queue| queue.guarantee.get(dimension));
    let root = state.queues.get(super::facts::ROOT).and_then(Track::now).and_then(|root| root.capability.limit(dimension));
    let free = state.nodes.iter().filter_map(|(name, track)| Some((name, track.now()?.get(dimension)))).map(|(name, all)| {
        let foreign = state.on_node.get(name).into_iter().flatten().filter_map(|uid| state.pod(uid)).filter(|pod| pod.served.is_none());
        all.saturating_sub(foreign.fold(0, |sum: i128, pod| sum.saturating_add(pod.requests.get(dimension)))).max(0)
    });
    let free = free.fold(0_i128, i128::saturating_add);
    guaranteed.fold(0_i128, i128::saturating_add) <= root.map_or(free, |root| root.min(free))
}
