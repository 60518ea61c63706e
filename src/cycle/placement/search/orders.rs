//! In which other orders are the members of a gang tried?
//!
//! Members go to nodes one after another, each to the node that is best for it, so an early member may take the only place of a later one.
//! Each of these orders is tried, and then once more with the fullest node as the best:
//!
//! 1. the members that the fewest nodes take come first, of these the largest: one with a node selector before one that any node takes, one
//!    with eight devices before one with one;
//! 2. the smallest come first, where not every member is needed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::cycle::explain::Reason;
use crate::cycle::placement::Strategy;
use crate::cycle::placement::class::ClassId;
use crate::cycle::placement::placer::Pod;
use crate::resources::{Amount, ResourceName};

/// The most kinds of members for which it is counted how many nodes take them. With more, only the sizes order the members.
pub(super) const MOST_KINDS: usize = 16;

/// How many nodes take each kind of members ([`Pod::kind`]).
pub(super) type Takers<'a> = BTreeMap<(ClassId, Option<&'a Reason>), usize>;

/// One way to try a gang: its members in an order, and which node is the best.
#[derive(Debug)]
pub(super) struct Order<'a> {
    pub(super) pods: Vec<Pod<'a>>,
    pub(super) strategy: Strategy,
}

/// Returns the other orders. `takers` says how many nodes take a kind; `some_are_left` that not all members are needed. Then those of the
/// parts come before the others, which cannot stand in for them.
pub(super) fn others<'a>(pods: &[Pod<'a>], some_are_left: bool, takers: &Takers<'a>, strategy: Strategy) -> Vec<Order<'a>> {
    let scarce = |pod: &Pod<'a>| pod.kind().and_then(|kind| takers.get(&kind)).copied().unwrap_or(usize::MAX);
    let is_later = |pod: &Pod<'a>| some_are_left && pod.task.is_none();
    let hardest = sorted(pods, |pod| (is_later(pod), scarce(pod), Reverse(size(pod))));
    let smallest = || sorted(pods, |pod| (is_later(pod), Reverse(scarce(pod)), size(pod)));
    let mut orders = vec![hardest];
    orders.extend(some_are_left.then(smallest));
    let strategies = [strategy, Strategy::Pack];
    let strategies = if strategy == Strategy::Pack { &strategies[1..] } else { &strategies[..] };
    let all = strategies.iter().flat_map(|strategy| orders.iter().map(|pods| Order { pods: pods.clone(), strategy: *strategy }));
    all.collect()
}

/// Sorts the members. Equal ones stay in their order.
fn sorted<'a, K: Ord>(pods: &[Pod<'a>], key: impl Fn(&Pod<'a>) -> K) -> Vec<Pod<'a>> {
    let mut sorted = pods.to_vec();
    sorted.sort_by_key(key);
    sorted
}

/// The request of a pod, devices before other resources, so that of two pods the one with more devices is the larger.
pub(super) fn size(pod: &Pod<'_>) -> Vec<(Reverse<bool>, Amount, ResourceName)> {
    let mut size: Vec<_> = pod.facts.request.iter().map(|(name, amount)| (Reverse(!name.is_device()), amount, name.clone())).collect();
    size.sort_by(|one, other| other.cmp(one));
    size
}
