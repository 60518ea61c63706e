//! Does a binding by S leave its node and its queues within their limits (checks 3 and 4)?
//!
//! Judged once for each binding, in the state of the cluster at exactly its resourceVersion. A scheduler can only act on what it has seen, so what
//! *others* changed within the last moments (an allocatable, a capability, a parent, a pod bound or resized by someone else) is taken in the version
//! that is kindest to it; what it bound itself counts at once, in the tree that is in force then and in all later ones: what it bound after a change of the tree it may have
//! decided on by that tree. Usage is never forgiven in the other direction: what a pod gave back counts from when it did.

use super::amounts::{Amounts, show};
use super::world::World;

/// Check 3: the dimension in which the pod's node is over its allocatable, in words; `from` is where forgiveness begins, in milliseconds.
pub fn over_node(world: &World, uid: &str, from: i64) -> Option<String> {
    let pod = world.pod(uid)?;
    let node = pod.node.as_deref()?;
    for (dimension, _) in pod.requests.iter().filter(|(_, asked)| *asked > 0) {
        let versions = world.nodes.get(node).into_iter().flat_map(|track| track.since(from)).flatten();
        let allocatable = versions.map(|allocatable| allocatable.get(dimension)).max().unwrap_or(0);
        let there = world.on_node.get(node).into_iter().flatten();
        let used = there.fold(0_i128, |sum, other| sum.saturating_add(world.held_since(other, dimension, from)));
        if used > allocatable {
            return Some(format!("its binding brings node {node} to {} {dimension} of {}", show(used), show(allocatable)));
        }
    }
    None
}

/// Check 4: the queue of the pod's path that is over its capability, in words, if it is so in every tree that was in force since `from`.
pub fn over_queue(world: &World, uid: &str, from: i64) -> Option<String> {
    let queue = world.pods.get(uid)?.queue.as_deref()?;
    let asked = &world.pod(uid)?.requests;
    let mut worst = None;
    for tree in trees(world, from) {
        if world.queues.get(queue).and_then(|track| track.as_of(tree)).is_none() {
            // A tree without the pod's queue excuses nothing.
            continue;
        }
        let over =
            over_in_tree(world, queue, asked, tree, None).and_then(|_| over_in_tree(world, queue, asked, tree, Some(Seen { uid, from })));
        worst.get_or_insert(over?);
    }
    worst
}

/// Usage as it was to be seen when a pod was bound.
#[derive(Clone, Copy)]
struct Seen<'a> {
    /// The pod.
    uid: &'a str,
    /// Since when others' changes are forgiven.
    from: i64,
}

/// The queue that a binding wrote down, where it is one that the pod's group did not name in all that time.
pub fn wrong_queue(world: &World, uid: &str, from: i64) -> Option<String> {
    let pod = world.pod(uid)?;
    let written = pod.queue.as_deref()?;
    // Moments in which the group was not there say nothing about its queue.
    let queues: Vec<&str> = world.groups.get(&pod.group)?.since(from).flatten().map(|group| group.queue.as_str()).collect();
    let first = queues.first()?;
    (!queues.contains(&written)).then(|| format!("its binding was charged to queue {written}, its group names {first}"))
}

/// The trees that were in force since a time, the present one first: of each the last resourceVersion at which it was.
fn trees(world: &World, from: i64) -> Vec<u64> {
    let first = world.tree_changes.iter().rposition(|(_, at)| *at <= from).unwrap_or(0);
    let changes = world.tree_changes.get(first..).unwrap_or_default();
    let replaced = changes.iter().skip(1).map(|(version, _)| version.saturating_sub(1));
    // With the present first, the usual case (all is well now) is decided at once.
    let mut trees: Vec<u64> = replaced.chain(changes.last().map(|_| u64::MAX)).collect();
    trees.reverse();
    trees
}

/// The first queue of the path that is over, in the tree of one resourceVersion. With what was to be seen, the rest is forgiven, which needs a recount.
fn over_in_tree(world: &World, queue: &str, asked: &Amounts, version: u64, seen: Option<Seen<'_>>) -> Option<String> {
    let dimensions: Vec<&str> = asked.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name).collect();
    for ancestor in world.path(queue, version) {
        let Some(limits) = world.queues.get(&ancestor).and_then(|track| track.as_of(version)).map(|queue| &queue.capability) else {
            continue;
        };
        for dimension in &dimensions {
            let Some(limit) = limits.limit(dimension) else { continue };
            let used = match seen {
                None => held(world, &ancestor, dimension, version),
                Some(seen) => held_since(world, &ancestor, dimension, version, seen),
            };
            if used > limit {
                return Some(format!(
                    "its binding (queue {queue}) brings queue {ancestor} to {} {dimension} of {}",
                    show(used),
                    show(limit)
                ));
            }
        }
    }
    None
}

/// What a queue's subtree holds in one dimension, as the tree was at a resourceVersion.
fn held(world: &World, ancestor: &str, dimension: &str, version: u64) -> i128 {
    let below = world.held.iter().filter(|(_, held)| held.get(dimension) != 0).filter(|(name, _)| is_under(world, name, ancestor, version));
    below.fold(0, |sum, (_, held)| sum.saturating_add(held.get(dimension)))
}

/// The same, from the pods, without what others raised meanwhile, and without what S bound after this tree was replaced.
fn held_since(world: &World, ancestor: &str, dimension: &str, version: u64, seen: Seen<'_>) -> i128 {
    let counts = |uid: &str| uid == seen.uid || !world.bound_by_us_after(uid, version);
    let charged = world.pods.iter().filter_map(|(uid, pod)| Some((uid, pod.queue.as_deref()?)));
    let below = charged.filter(|(uid, queue)| is_under(world, queue, ancestor, version) && counts(uid));
    below.fold(0, |sum, (uid, _)| sum.saturating_add(world.held_since(uid, dimension, seen.from)))
}

fn is_under(world: &World, queue: &str, ancestor: &str, version: u64) -> bool {
    world.path(queue, version).iter().any(|name| name == ancestor)
}

/// What a queue's subtree holds now, in every dimension.
pub fn subtree(world: &World, ancestor: &str) -> Amounts {
    let mut sum = Amounts::default();
    for held in world.held.iter().filter(|(name, _)| is_under(world, name, ancestor, u64::MAX)).map(|(_, held)| held) {
        sum.add(held);
    }
    sum
}
