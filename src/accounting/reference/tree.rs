//! The tree of queues: which are broken or closed, and what counts where (T1, T2, O1).

use std::sync::LazyLock;

use super::cluster::{Cluster, Queue, amount};
use super::limits::guarantee;

const ROOT: &str = "root";
/// T1b: with more queues than this above it, `root` included, a queue is broken.
const DEEPEST: usize = 64;

/// Whether the queue exists (T1: `root` and `default` always do).
pub(super) fn exists(cluster: &Cluster, queue: &str) -> bool {
    queue == ROOT || queue == "default" || cluster.queues.contains_key(queue)
}

static UNSET: LazyLock<Queue> = LazyLock::new(Queue::default);

/// Returns the fields of the queue's object; the defaults, if there is none.
pub(super) fn spec<'a>(cluster: &'a Cluster, queue: &str) -> &'a Queue {
    cluster.queues.get(queue).unwrap_or(&UNSET)
}

/// T1: returns the queue directly above; `None` for `root` and for a queue that does not exist.
pub(super) fn parent<'a>(cluster: &'a Cluster, queue: &str) -> Option<&'a str> {
    if queue == ROOT || !exists(cluster, queue) {
        return None;
    }
    Some(spec(cluster, queue).parent.as_deref().filter(|parent| !parent.is_empty()).unwrap_or(ROOT))
}

/// Returns the existing queues that name this one as their parent, by name.
pub(super) fn children<'a>(cluster: &'a Cluster, queue: &str) -> Vec<&'a str> {
    names(cluster).into_iter().filter(|name| parent(cluster, name) == Some(queue)).collect()
}

/// Returns the existing queues, by name.
pub(super) fn names(cluster: &Cluster) -> Vec<&str> {
    let mut names: Vec<&str> = cluster.queues.keys().map(String::as_str).chain([ROOT, "default"]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// T1: pods go to leaves only; `root` is never one.
pub(super) fn is_leaf(cluster: &Cluster, queue: &str) -> bool {
    queue != ROOT && children(cluster, queue).is_empty()
}

/// T3: returns the queue directly above, of a deleted queue the one below which it keeps its place.
fn above<'a>(cluster: &'a Cluster, queue: &str) -> Option<&'a str> {
    parent(cluster, queue).or_else(|| cluster.former.get(queue).map(|former| former.parent.as_str()))
}

/// Returns the deleted queues that keep their place directly below this one.
pub(super) fn deleted_below<'a>(cluster: &'a Cluster, queue: &str) -> Vec<&'a str> {
    cluster.former.iter().filter(|(_, former)| former.parent == queue).map(|(name, _)| name.as_str()).collect()
}

/// T2, T3: returns the queues in which a charge to this one counts: itself, all above it whether they exist or not, each once, and `root`.
pub(super) fn walk<'a>(cluster: &'a Cluster, queue: &'a str) -> Vec<&'a str> {
    way(queue, |queue| above(cluster, queue))
}

/// T1b: the same up to the first queue that does not exist.
fn walk_existing<'a>(cluster: &'a Cluster, queue: &'a str) -> Vec<&'a str> {
    way(queue, |queue| parent(cluster, queue))
}

fn way<'a>(queue: &'a str, next: impl Fn(&str) -> Option<&'a str>) -> Vec<&'a str> {
    let mut walk = Vec::new();
    let mut at = Some(queue);
    while let Some(queue) = at.filter(|queue| *queue != ROOT && !walk.contains(queue)) {
        at = next(queue);
        walk.push(queue);
    }
    walk.push(ROOT);
    walk
}

/// Whether a queue exists and its way up leads to `root` through existing queues.
pub(super) fn is_below_root(cluster: &Cluster, queue: &str) -> bool {
    let walk = walk_existing(cluster, queue);
    let last = walk.iter().rev().nth(1);
    walk.iter().all(|queue| exists(cluster, queue)) && last.is_none_or(|last| parent(cluster, last) == Some(ROOT))
}

/// T1b, of the queue itself; the fault may also be in a queue above it, see [`broken`].
pub(super) fn is_broken_itself(cluster: &Cluster, queue: &str) -> bool {
    let no_parent = parent(cluster, queue).is_some_and(|parent| !exists(cluster, parent));
    let below_itself = parent(cluster, queue).is_some_and(|parent| walk_existing(cluster, parent).contains(&queue));
    let above = walk_existing(cluster, queue).len() - 1;
    !exists(cluster, queue) || no_parent || below_itself || above > DEEPEST || guarantees_too_much(cluster, queue)
}

/// T1b: whether the guarantees of the children exceed its own, where that is stated. `root` guarantees what exists (F2).
fn guarantees_too_much(cluster: &Cluster, queue: &str) -> bool {
    queue != ROOT
        && is_below_root(cluster, queue)
        && spec(cluster, queue).guarantee.iter().any(|(dimension, own)| {
            let promised: i128 = children(cluster, queue).iter().map(|child| guarantee(cluster, child, dimension)).sum();
            promised > *own
        })
}

/// T1b: returns the nearest broken queue from this one up, itself included; a queue takes new pods only if there is none.
pub(super) fn broken<'a>(cluster: &'a Cluster, queue: &'a str) -> Option<&'a str> {
    walk(cluster, queue).into_iter().find(|queue| is_broken_itself(cluster, queue))
}

/// O1: returns the nearest queue from this one up that is closed by hand; if there is one, the queue is closed.
pub(super) fn closed_by<'a>(cluster: &'a Cluster, queue: &'a str) -> Option<&'a str> {
    walk(cluster, queue).into_iter().find(|queue| spec(cluster, queue).closed_by_hand)
}

/// O1: returns `status.state`.
pub(super) fn state(cluster: &Cluster, queue: &str) -> &'static str {
    let charged = cluster.pods.values().any(|pod| walk(cluster, &pod.queue).contains(&queue));
    match (closed_by(cluster, queue), charged) {
        (None, _) => "Open",
        (Some(_), true) => "Closing",
        (Some(_), false) => "Closed",
    }
}

/// T2: returns the charges of the pods in the queue and below it.
pub(super) fn used(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    let counts = |charged: &str| walk(cluster, charged).contains(&queue);
    cluster.pods.values().filter(|pod| counts(&pod.queue)).map(|pod| amount(&pod.amounts, dimension)).sum()
}

/// T2: returns the reservations of the PodGroups in the queue and below it.
pub(super) fn reserved(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    let counts = |charged: &str| walk(cluster, charged).contains(&queue);
    cluster
        .reservations
        .values()
        .filter(|reservation| counts(&reservation.queue))
        .map(|reservation| amount(&reservation.amounts, dimension))
        .sum()
}

/// T2: returns the sum of both.
pub(super) fn taken(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    used(cluster, queue, dimension) + reserved(cluster, queue, dimension)
}

/// Returns what is taken in the queue and in none of its children: its own charges, and for `root` also the charges to
/// queues that are not below it.
pub(super) fn own(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    taken(cluster, queue, dimension) - children(cluster, queue).iter().map(|child| taken(cluster, child, dimension)).sum::<i128>()
}

/// Returns the lowest queue that is above both or is one of them.
pub(super) fn common_ancestor<'a>(cluster: &'a Cluster, a: &'a str, b: &'a str) -> &'a str {
    let above_b = walk(cluster, b);
    walk(cluster, a).into_iter().find(|queue| above_b.contains(queue)).unwrap_or(ROOT)
}

/// Returns the queues from one up to just below another.
pub(super) fn up_to_below<'a>(cluster: &'a Cluster, queue: &'a str, ancestor: &str) -> Vec<&'a str> {
    walk(cluster, queue).into_iter().take_while(|queue| *queue != ancestor).collect()
}

/// T1b, T2: at most 64 queues may be above one, `root` included. A queue with one more takes nothing, and counts all the way up.
#[test]
fn a_queue_with_more_than_64_above_it_is_broken_but_still_counts() {
    let mut chain = String::from("total cpu:9\nqueue q1\n");
    for at in 2..=65 {
        chain += &format!("queue q{at} parent=q{}\n", at - 1);
    }
    let cluster = super::scenario::cluster(&(chain + "pod deep in q65 cpu:1\n"));
    assert_eq!(broken(&cluster, "q64"), None);
    assert_eq!(broken(&cluster, "q65"), Some("q65"));
    assert_eq!(used(&cluster, "q1", "cpu"), 1_000_000_000);
    assert_eq!(common_ancestor(&cluster, "q65", "q3"), "q3");
}
