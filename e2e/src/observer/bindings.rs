//! Checks whether a binding by the scheduler leaves its node and its queues within their limits (checks 3 and 4).
//!
//! Each binding is judged once, in the state of the cluster at the resourceVersion of the binding.
//!
//! * The scheduler can only act on what it has seen. For recent changes by *other* clients (an allocatable, a capability, a parent, a pod
//!   that another client bound or resized) the check uses the recent version that is best for the scheduler.
//! * A pod that the scheduler bound itself counts at once. Only a change of the tree that concerns a queue above the pod can excuse that such pods
//!   exceed the capability; `queue_usage.rs` says when.
//! * With several schedulers in one cluster, each of them is another client for the others, and a queue counts the pods of one scheduler.
//! * Usage that a pod released counts as released from that moment, not earlier.

use super::amounts::{Amounts, show};
use super::facts::Release;
use super::queue_usage::{Excess, QueueUsage};
use super::state::{ClusterState, Track};

/// The present tree, among the trees that [`trees`] returns.
const PRESENT: u64 = u64::MAX;

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
    let pod = state.pod(uid)?;
    let release = pod.served?;
    let dimensions: Vec<&str> = pod.requests.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name).collect();
    let exists = |tree| state.queues.get(queue).is_some_and(|track| track.as_of(tree).is_some());
    if exists(PRESENT) && !is_full(state, release, queue, &dimensions) {
        return None;
    }
    let mut usage = QueueUsage::new(state, release, uid, dimensions, from);
    let mut first = None;
    for tree in trees(state, from) {
        usage.go_back_to(tree);
        // A tree without the pod's queue cannot excuse the binding.
        if exists(tree) {
            first.get_or_insert(usage.excess(queue)?);
        }
    }
    let Excess { queue: ancestor, dimension, used, capability } = first?;
    Some(format!(
        "queue {ancestor} exceeds its capability with this binding (charged to queue {queue}): {dimension} used {}, capability {}",
        show(used),
        show(capability)
    ))
}

/// Returns whether a queue of the path exceeds its capability in the present tree, where nothing is forgiven. Usually none does, which is
/// quickly found.
fn is_full(state: &ClusterState, release: Release, queue: &str, dimensions: &[&str]) -> bool {
    state.path(queue, PRESENT).iter().any(|ancestor| {
        let Some(limits) = state.queues.get(ancestor).and_then(Track::now).map(|queue| &queue.capability) else { return false };
        let limit = |dimension: &str| limits.limit(dimension).is_some_and(|limit| held(state, release, ancestor, dimension) > limit);
        dimensions.iter().any(|dimension| limit(dimension))
    })
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
    let mut trees: Vec<u64> = replaced.chain(changes.last().map(|_| PRESENT)).collect();
    trees.reverse();
    trees
}

/// Returns the present usage of a queue's subtree in one dimension by pods of one scheduler.
fn held(state: &ClusterState, release: Release, ancestor: &str, dimension: &str) -> i128 {
    let used = state.held.iter().filter(|((of, _), held)| *of == release && held.get(dimension) != 0);
    let below = used.filter(|((_, name), _)| is_under(state, name, ancestor));
    below.fold(0, |sum, (_, held)| sum.saturating_add(held.get(dimension)))
}

fn is_under(state: &ClusterState, queue: &str, ancestor: &str) -> bool {
    state.path(queue, PRESENT).iter().any(|name| name == ancestor)
}

/// Returns the present usage of a queue's subtree by all schedulers, in every dimension.
pub fn subtree(state: &ClusterState, ancestor: &str) -> Amounts {
    let mut sum = Amounts::default();
    for held in state.held.iter().filter(|((_, name), _)| is_under(state, name, ancestor)).map(|(_, held)| held) {
        sum.add(held);
    }
    sum
}
