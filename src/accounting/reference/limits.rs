//! The floors and the held amounts of the queues, and whether an amount fits (F1 to F4).

use std::collections::BTreeMap;

use super::cluster::{Amounts, Cluster, amount, asked_in};
use super::tree::{broken, children, closed_by, is_below_root, is_leaf, own, parent, spec, taken, walk};

/// A refusal (F4): the queue, the dimension if there is one, and the rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) queue: String,
    pub(super) dimension: Option<String>,
    pub(super) rule: &'static str,
}

/// F2: returns the stated guarantee, or the sum of the children's, but no more than the capability; 0 for a queue that is not below `root`.
pub(super) fn guarantee(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    if !is_below_root(cluster, queue) {
        return 0;
    }
    let spec = spec(cluster, queue);
    let of_children = || children(cluster, queue).iter().map(|child| guarantee(cluster, child, dimension)).sum();
    let guarantee = spec.guarantee.get(dimension).copied().unwrap_or_else(of_children);
    spec.capability.get(dimension).map_or(guarantee, |capability| guarantee.min(*capability))
}

/// Returns the limit of `root`: what all nodes leave to our queues (N2), and no more than its own capability.
pub(super) fn all(cluster: &Cluster, dimension: &str) -> i128 {
    let total = amount(&cluster.there_for_queues(), dimension);
    spec(cluster, "root").capability.get(dimension).map_or(total, |capability| total.min(*capability))
}

/// Returns the children of a queue in the order in which they are served: higher priority first, then by name.
pub(super) fn in_order<'a>(cluster: &'a Cluster, queue: &str) -> Vec<&'a str> {
    let mut children = children(cluster, queue);
    children.sort_by_key(|child| (std::cmp::Reverse(spec(cluster, child).priority), *child));
    children
}

/// F2: returns the part of the guarantee that is in force.
pub(super) fn floor(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    if queue == "root" {
        return all(cluster, dimension);
    }
    let Some(parent) = parent(cluster, queue).filter(|_| is_below_root(cluster, queue)) else {
        return 0;
    };
    let mut left = floor(cluster, parent, dimension);
    for child in in_order(cluster, parent) {
        let gets = guarantee(cluster, child, dimension).min(left);
        if child == queue {
            return gets;
        }
        left -= gets;
    }
    0
}

/// F3: returns what the queue takes, together with its unused guarantee.
pub(super) fn held(cluster: &Cluster, queue: &str, dimension: &str) -> i128 {
    if !is_below_root(cluster, queue) {
        return taken(cluster, queue, dimension);
    }
    let in_children: i128 = children(cluster, queue).iter().map(|child| held(cluster, child, dimension)).sum();
    let sum = own(cluster, queue, dimension) + in_children;
    if queue == "root" { sum } else { sum.max(floor(cluster, queue, dimension)) }
}

/// F3: whether pods leave a part of the floors below `root` unfilled, whatever is reserved.
fn has_unfilled(cluster: &Cluster, dimension: &str) -> bool {
    let of_pods = Cluster { reservations: BTreeMap::new(), ..cluster.clone() };
    held(&of_pods, "root", dimension) > taken(&of_pods, "root", dimension)
}

/// F1: returns by how much a charge would exceed the queue's capability.
pub(super) fn above_capability(cluster: &Cluster, queue: &str, dimension: &str, asked: i128) -> Option<i128> {
    let capability = *spec(cluster, queue).capability.get(dimension)?;
    let above = taken(cluster, queue, dimension) + asked - capability;
    (above > 0).then_some(above)
}

/// F3: returns by how much a charge to `charged`, which is this queue or below it, would use the guarantees of other queues here.
pub(super) fn takes_guarantees(cluster: &Cluster, queue: &str, charged: &str, dimension: &str, asked: i128) -> Option<i128> {
    // Without a limit on what is held, it need not be computed.
    if queue != "root" && !spec(cluster, queue).capability.contains_key(dimension) {
        return None;
    }
    // Without guarantees, what is held is what is taken, and that is F1.
    if cluster.queues.values().all(|spec| !spec.guarantee.contains_key(dimension)) {
        return None;
    }
    let after = cluster.with_charge(charged, &Amounts::from([(dimension.to_owned(), asked)]));
    let held_after = held(&after, queue, dimension);
    if held_after <= held(cluster, queue, dimension) {
        return None;
    }
    let mut limits: Vec<i128> = spec(cluster, queue).capability.get(dimension).copied().into_iter().collect();
    if queue == "root" && has_unfilled(&after, dimension) {
        limits.push(amount(&cluster.there_for_queues(), dimension));
    }
    let above = held_after - limits.into_iter().min()?;
    (above > 0).then_some(above)
}

/// F4: checks whether an amount fits. The refusal has the nearest queue that refuses, its first dimension by name, and the rule. A queue that
/// is broken or closed is reported before any amount is checked; in one dimension the ceiling comes before the guarantees.
pub(super) fn fits(cluster: &Cluster, queue: &str, asked: &Amounts) -> Result<(), Refusal> {
    let refused = |queue: &str, rule| Err(Refusal { queue: queue.to_owned(), dimension: None, rule });
    if let Some(broken) = broken(cluster, queue) {
        return refused(broken, "T1b");
    }
    if !is_leaf(cluster, queue) {
        return refused(queue, "T1");
    }
    if let Some(closed) = closed_by(cluster, queue) {
        return refused(closed, "O1");
    }
    for above in walk(cluster, queue) {
        if let Some((dimension, rule, _)) = lacking(cluster, above, queue, asked).into_iter().next() {
            return Err(Refusal { queue: above.to_owned(), dimension: Some(dimension), rule });
        }
    }
    Ok(())
}

/// Returns what one queue on the way up from `charged` lacks for a charge: the dimension, the rule, and how much, by dimension.
pub(super) fn lacking(cluster: &Cluster, queue: &str, charged: &str, asked: &Amounts) -> Vec<(String, &'static str, i128)> {
    let mut lacking = Vec::new();
    for (dimension, asked) in asked_in(asked) {
        let ceiling = above_capability(cluster, queue, dimension, asked).map(|lack| ("F1", lack));
        let guarantee_lack = takes_guarantees(cluster, queue, charged, dimension, asked).map(|lack| ("F3", lack));
        let most = ceiling.iter().chain(&guarantee_lack).map(|(_, lack)| *lack).max();
        if let (Some((rule, _)), Some(most)) = (ceiling.or(guarantee_lack), most) {
            lacking.push((dimension.to_owned(), rule, most));
        }
    }
    lacking
}
