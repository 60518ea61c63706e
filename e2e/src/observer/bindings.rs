//! Checks whether a binding by the scheduler leaves its node and its queues within their limits (checks 3 and 4).
//!
//! Each binding is judged once, in the state of the cluster at the resourceVersion of the binding.
//!
//! * The scheduler can only act on what it has seen. For recent changes by *other* clients (an allocatable, a capability, a parent, a pod that another
//!   client bound or resized) the check uses the recent version that is best for the scheduler.
//! * A pod that the scheduler bound itself counts at once, in the tree of that moment and in all later trees. A pod that it bound after a
//!   change of the tree does not count in the older tree, because the scheduler may have decided with the newer tree.
//! * With several schedulers in one cluster, each of them is another client for the others, and a queue counts the pods of one scheduler.
//! * Usage that a pod released counts as released from that moment, not earlier.

use super::amounts::{Amounts, show};
use super::facts::{PodFact, Release};
use super::state::ClusterState;

/// Check 3: describes the dimension in which the pod's node exceeds its allocatable. Changes by others since `from` (milliseconds) are forgiven.
pub fn over_node(state: &ClusterState, uid: &str, from: i64) -> Option<String> {
    let pod = state.pod(uid)?;
    let (node, release) = (pod.node.as_deref()?, pod.served?);
    for (dimension, _) in pod.requests.iter().filter(|(_, asked)| *asked > 0) {
        let versions = state.nodes.get(node).into_iter().flat_map(|track| track.since(from)).flatten();
        let allocatable = versions.map(|allocatable| allocatable.get(dimension)).max().unwrap_or(0);
        let there = state.on_node.get(node).into_iter().flatten();
        let used = there.fold(0_i128, |sum, other| sum.saturating_add(state.held_since(release, other, dimension, from)));
        if used > allocatable {
            return Some(format!(
                "node {node} exceeds its allocatable with this binding: {dimension} used {}, allocatable {}",
                show(used),
                show(allocatable)
            ));
        }
    }
    None
}

/// Check 4: describes the queue of the pod's path that exceeds its capability. A finding must hold in every tree that was in force since `from`.
pub fn over_queue(state: &ClusterState, uid: &str, from: i64) -> Option<String> {
    let queue = state.pods.get(uid)?.queue.as_deref()?;
    let PodFact { requests: asked, served, .. } = state.pod(uid)?;
    let release = (*served)?;
    let mut worst = None;
    for tree in trees(state, from) {
        if state.queues.get(queue).and_then(|track| track.as_of(tree)).is_none() {
            // A tree without the pod's queue cannot excuse the binding.
            continue;
        }
        let over = over_in_tree(state, release, queue, asked, tree, None)
            .and_then(|_| over_in_tree(state, release, queue, asked, tree, Some(Seen { uid, from })));
        worst.get_or_insert(over?);
    }
    worst
}

/// The usage that the scheduler could see when it bound a pod.
#[derive(Clone, Copy)]
struct Seen<'a> {
    /// The UID of the pod.
    uid: &'a str,
    /// Changes by others since this time are forgiven, in milliseconds.
    from: i64,
}

/// Check 4: describes a binding with a queue annotation that names a queue that the pod's PodGroup has not had since `from`.
pub fn wrong_queue(state: &ClusterState, uid: &str, from: i64) -> Option<String> {
    let pod = state.pod(uid)?;
    let written = pod.queue.as_deref()?;
    // The PodGroup says nothing about its queue while it does not exist.
    let queues: Vec<&str> = state.groups.get(&pod.group)?.since(from).flatten().map(|group| group.queue.as_str()).collect();
    let first = queues.first()?;
    (!queues.contains(&written)).then(|| format!("the binding is charged to queue {written}, but its PodGroup names queue {first}"))
}

/// Returns the trees that were in force since a time, the present tree first. A tree is given by the last resourceVersion at which it was in force.
fn trees(state: &ClusterState, from: i64) -> Vec<u64> {
    let first = state.tree_changes.iter().rposition(|(_, at)| *at <= from).unwrap_or(0);
    let changes = state.tree_changes.get(first..).unwrap_or_default();
    let replaced = changes.iter().skip(1).map(|(version, _)| version.saturating_sub(1));
    // The present tree comes first: usually it shows no problem, and the check ends at once.
    let mut trees: Vec<u64> = replaced.chain(changes.last().map(|_| u64::MAX)).collect();
    trees.reverse();
    trees
}

/// Returns the first queue of the path that exceeds its capability, in the tree of one resourceVersion. With `seen`, changes by others are forgiven,
/// which needs a recount.
fn over_in_tree(
    state: &ClusterState,
    release: Release,
    queue: &str,
    asked: &Amounts,
    version: u64,
    seen: Option<Seen<'_>>,
) -> Option<String> {
    let dimensions: Vec<&str> = asked.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name).collect();
    for ancestor in state.path(queue, version) {
        let Some(limits) = state.queues.get(&ancestor).and_then(|track| track.as_of(version)).map(|queue| &queue.capability) else {
            continue;
        };
        for dimension in &dimensions {
            let Some(limit) = limits.limit(dimension) else { continue };
            let used = match seen {
                None => held(state, release, &ancestor, dimension, version),
                Some(seen) => held_since(state, release, &ancestor, dimension, version, seen),
            };
            if used > limit {
                return Some(format!(
                    "queue {ancestor} exceeds its capability with this binding (charged to queue {queue}): {dimension} used {}, capability {}",
                    show(used),
                    show(limit)
                ));
            }
        }
    }
    None
}

/// Returns the usage of a queue's subtree in one dimension by pods of one scheduler, in the tree of a resourceVersion.
fn held(state: &ClusterState, release: Release, ancestor: &str, dimension: &str, version: u64) -> i128 {
    let used = state.held.iter().filter(|((of, _), held)| *of == release && held.get(dimension) != 0);
    let below = used.filter(|((_, name), _)| is_under(state, name, ancestor, version));
    below.fold(0, |sum, (_, held)| sum.saturating_add(held.get(dimension)))
}

/// Returns the same usage, summed from the pods. Recent increases by others do not count, nor do pods that the scheduler bound after this tree was replaced.
fn held_since(state: &ClusterState, release: Release, ancestor: &str, dimension: &str, version: u64, seen: Seen<'_>) -> i128 {
    let counts = |uid: &str| uid == seen.uid || !state.bound_by_scheduler_after(uid, version);
    let ours = state.pods.iter().filter(|(_, pod)| pod.track.now().is_some_and(|now| now.served == Some(release)));
    let charged = ours.filter_map(|(uid, pod)| Some((uid, pod.queue.as_deref()?)));
    let below = charged.filter(|(uid, queue)| is_under(state, queue, ancestor, version) && counts(uid));
    below.fold(0, |sum, (uid, _)| sum.saturating_add(state.held_since(release, uid, dimension, seen.from)))
}

fn is_under(state: &ClusterState, queue: &str, ancestor: &str, version: u64) -> bool {
    state.path(queue, version).iter().any(|name| name == ancestor)
}

/// Returns the present usage of a queue's subtree by all schedulers, in every dimension.
pub fn subtree(state: &ClusterState, ancestor: &str) -> Amounts {
    let mut sum = Amounts::default();
    for held in state.held.iter().filter(|((_, name), _)| is_under(state, name, ancestor, u64::MAX)).map(|(_, held)| held) {
        sum.add(held);
    }
    sum
}
