//! The score of a node for a pod: the node with the smallest score is the best.
//!
//! Scores are compared field by field, so the order of the fields *is* the policy. No two nodes are equal:
//!
//! 1. **nodes that are wanted for others come last**: a node with fewer kinds of devices (extended resources, names with a `/`) that some
//!    pod requests and this one does not, and fewer `PreferNoSchedule` taints that it does not tolerate;
//! 2. **the fullness of the node afterwards** and **the images that it has**, two to one: by default a pod that requests a device goes
//!    where the fewest of that device are left, any other pod to the emptiest node. `--placement spread` and `pack` say one of both for all
//!    pods. The measure is the fullest of the resources that the pod requests;
//! 3. **the images**, where pods are packed: there they decide among equally full nodes only, because a whole node that stays free is worth
//!    more than the pull of an image that is saved once;
//! 4. **an order that has nothing to do with names** ([`order`]), because names tell zones and racks, and equal nodes by name are all of one zone.
//!
//! Spread is the default for two reasons. Most pods of a cluster belong to services, and the failure of a node should stop few of them. It is also
//! what kube-scheduler does by default. Devices are packed, because gangs need whole nodes of them.
//!
//! A kind of device of which a node offers more than a hundred times the request (`kvm`) is no bottleneck, and no reason to pack.

use std::sync::Arc;

use crate::cycle::placement::Strategy;
use crate::resources::{Amount, ResourceName};

use super::filter::{NodeState, Query, avoided};
use super::snapshot::Snapshot;

/// The score of a node for a pod; the smallest is the best.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    rank: Rank,
    /// The place among equal nodes.
    order: u64,
    /// The name of the node.
    name: Arc<str>,
}

/// The figures of a node for a pod; the smallest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The number of kinds of devices on the node that other pods request, and of taints that keep the pod away where it has a choice.
    pub(super) wasted: u32,
    /// What the pod costs there, and half of what the node lacks of the points for its images where pods are spread.
    pub(super) cost: u32,
    /// What the node lacks of the points for the images of the pod, where pods are packed.
    lacking: u32,
}

/// What the figures follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Figures {
    pub(super) wasted: u32,
    pub(super) cost: Cost,
    /// What the node lacks of the points for the images of the pod, of [`WHOLE`].
    pub(super) lacking: u32,
}

/// What a pod costs on a node, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cost {
    /// The used part of the node afterwards: pods are spread.
    Used(u32),
    /// The idle part of the node afterwards: pods are packed.
    Idle(u32),
}

impl Cost {
    /// Returns the figure.
    pub(super) const fn millionths(self) -> u32 {
        match self {
            Self::Used(cost) | Self::Idle(cost) => cost,
        }
    }
}

impl Figures {
    /// Returns by what nodes are compared.
    pub(super) const fn rank(self) -> Rank {
        let Self { wasted, cost, lacking } = self;
        match cost {
            Cost::Used(cost) => Rank { wasted, cost: cost.saturating_add(lacking >> 1), lacking: 0 },
            Cost::Idle(cost) => Rank { wasted, cost, lacking },
        }
    }
}

impl Score {
    /// Makes a score from figures that are known already.
    pub(super) fn new(rank: Rank, name: Arc<str>) -> Self {
        Self { rank, order: order(&name), name }
    }

    /// Returns the number of kinds of devices on the node that other pods request, and of taints that keep the pod away where it has a choice.
    pub(super) const fn wasted(&self) -> u32 {
        self.rank.wasted
    }

    /// Returns what orders equal nodes.
    pub(super) const fn order(&self) -> (u64, &Arc<str>) {
        (self.order, &self.name)
    }
}

/// The value of a full node: fullness is measured in millionths.
pub(super) const WHOLE: u32 = 1_000_000;

/// A device is scarce on a node that offers at most so many times the request.
const MANY: i128 = 100;

/// Returns the score of a node that can take the pod.
#[must_use]
pub fn score(query: &Query<'_>, node: &NodeState<'_>, snapshot: Snapshot<'_>) -> Score {
    Score::new(figures(query, node, snapshot).rank(), Arc::clone(&node.facts.name))
}

/// Returns the figures of a node that can take the pod.
pub(super) fn figures(query: &Query<'_>, node: &NodeState<'_>, snapshot: Snapshot<'_>) -> Figures {
    let offers = node.accounting.allocatable;
    let wanted = snapshot.placed.wanted_devices();
    let wasted = offers.iter().filter(|(name, _)| wanted.contains(*name) && query.request.get(name).is_zero()).count();
    let wasted = u32::try_from(wasted).unwrap_or(u32::MAX).saturating_add(avoided(query.constraints, node.facts));
    let full = |(name, asked): (&ResourceName, Amount)| share(node.accounting.used.get(name).plus(asked), offers.get(name));
    let scarce = |(name, asked): &(&ResourceName, Amount)| name.is_device() && is_scarce(*asked, offers.get(name));
    let of_devices = query.request.iter().filter(scarce).map(full).max();
    let cost = cost(snapshot.strategy, query.request.iter().map(full).max().unwrap_or(0), of_devices);
    Figures { wasted, cost, lacking: query.images.map_or(0, |images| images.lacking(node.id)) }
}

/// Returns the cost of a node from the fullest of all requested resources, and from that of the scarce devices among them.
pub(super) const fn cost(strategy: Strategy, fullness: u32, of_devices: Option<u32>) -> Cost {
    match (strategy, of_devices) {
        (Strategy::Spread, _) | (Strategy::Auto, None) => Cost::Used(fullness),
        (Strategy::Pack, _) => Cost::Idle(WHOLE.saturating_sub(fullness)),
        (Strategy::Auto, Some(fullness)) => Cost::Idle(WHOLE.saturating_sub(fullness)),
    }
}

/// Returns whether a device is a bottleneck of a node with so many of them.
pub(super) fn is_scarce(asked: Amount, offered: Amount) -> bool {
    offered.nanos() <= asked.nanos().saturating_mul(MANY)
}

/// Returns the place of a node among equal nodes, by its name: always the same, and no two names that are alike are near each other.
///
/// One order serves all classes: where the first pod has gone, the node is no longer equal to the others. FNV-1a, mixed as in SplitMix64.
/// The start value is arbitrary; with this one the nodes of the tests (`n1`, `n2`, …) come in the order of their names.
pub(super) fn order(name: &str) -> u64 {
    let start: u64 = 622_084;
    let hash = name.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Returns `used / whole` in millionths, rounded down, at most [`WHOLE`]; [`WHOLE`] if `whole` is 0.
fn share(used: Amount, whole: Amount) -> u32 {
    // The largest amount that can be read is about 10²⁸ nano-units, so a million times that is far below the limit of about 10³⁸.
    let parts = used.nanos().max(0).saturating_mul(i128::from(WHOLE)).checked_div(whole.nanos().max(0));
    parts.map_or(WHOLE, |parts| u32::try_from(parts).unwrap_or(WHOLE).min(WHOLE))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::accounting::{Ledger, NodeView};
    use crate::api::NodeFacts;
    use crate::api::node::Taint;
    use crate::api::pod::Toleration;
    use crate::api::pod_facts::Constraints;
    use crate::cycle::placement::nodes::{NodeId, Nodes};
    use crate::cycle::placement::topology::placed::PlacedPods;
    use crate::cycle::placement::topology::verdict::Verdict;
    use crate::cycle::testing::{amounts, node, pod};

    const GPU: &str = "nvidia.com/gpu";

    /// The score for a pod with this request, where some pods have requested GPUs.
    fn of(strategy: Strategy, request: &[(&str, i64)], facts: &NodeFacts, used: &[(&str, i64)]) -> Score {
        let mut placed = PlacedPods::default();
        placed.learn(&pod("ns", "p", "g", &[(GPU, 1)]));
        placed.set_offers(&facts.name, Some(&facts.allocatable));
        let (nodes, ledger, barred) = (Nodes::default(), Ledger::new(), BTreeSet::new());
        let (request, used, verdict) = (amounts(request), amounts(used), Verdict::default());
        let bears = |key: &str| Toleration { key: Some(key.into()), operator: Some("Exists".into()), ..Toleration::default() };
        let constraints = Constraints { tolerations: vec![bears("borne")], ..Constraints::default() };
        let query = Query { request: &request, constraints: &constraints, verdict: &verdict, barred: &barred, images: None };
        let accounting = NodeView { name: &facts.name, allocatable: &facts.allocatable, used: &used };
        let snapshot = Snapshot { nodes: &nodes, ledger: &ledger, placed: &placed, strategy, barred: &barred };
        score(&query, &NodeState { id: NodeId::first(), facts, accounting }, snapshot)
    }

    #[test]
    fn spread_takes_the_emptiest_and_pack_the_fullest() {
        let empty = |strategy| of(strategy, &[("cpu", 1)], &node("a", &[("cpu", 4)]), &[]);
        let half = |strategy| of(strategy, &[("cpu", 1)], &node("b", &[("cpu", 4)]), &[("cpu", 2)]);
        assert!(empty(Strategy::Spread) < half(Strategy::Spread));
        assert!(empty(Strategy::Auto) < half(Strategy::Auto));
        assert!(half(Strategy::Pack) < empty(Strategy::Pack));
    }

    #[test]
    fn by_default_a_pod_with_devices_goes_where_the_fewest_of_them_are_left() {
        let asks = [("cpu", 1), (GPU, 1)];
        let of = |strategy, used: &[(&str, i64)]| of(strategy, &asks, &node("a", &[("cpu", 64), (GPU, 8)]), used);
        let (full_of_cpu, full_of_gpus) = ([("cpu", 60)], [("cpu", 6), (GPU, 6)]);
        assert!(of(Strategy::Auto, &full_of_gpus) < of(Strategy::Auto, &full_of_cpu));
        assert!(of(Strategy::Spread, &full_of_gpus) < of(Strategy::Spread, &full_of_cpu), "the fuller resource counts");
        assert!(of(Strategy::Pack, &full_of_cpu) < of(Strategy::Pack, &full_of_gpus));
        assert!(of(Strategy::Auto, &full_of_gpus) < of(Strategy::Auto, &[]));
        assert!(of(Strategy::Spread, &[]) < of(Strategy::Spread, &full_of_gpus));
    }

    #[test]
    fn a_device_that_is_plentiful_is_no_reason_to_pack() {
        let vm = |used: &[(&str, i64)]| {
            let node = node("a", &[("cpu", 64), ("devices.kubevirt.io/kvm", 1_000)]);
            of(Strategy::Auto, &[("cpu", 2), ("devices.kubevirt.io/kvm", 1)], &node, used)
        };
        assert!(vm(&[]) < vm(&[("cpu", 32), ("devices.kubevirt.io/kvm", 16)]));
    }

    #[test]
    fn a_node_without_devices_that_others_request_and_without_taints_comes_first() {
        let of = |facts: &NodeFacts| of(Strategy::Spread, &[("cpu", 1)], facts, &[("cpu", 1)]);
        let plain = of(&node("plain", &[("cpu", 4)]));
        assert!(plain < of(&node("device", &[("cpu", 400), (GPU, 8)])));
        assert!(plain > of(&node("kvm", &[("cpu", 400), ("devices.kubevirt.io/kvm", 1_000)])), "no pod requests it");
        let tainted = |key: &str| {
            let taint = Taint { key: key.into(), value: None, effect: "PreferNoSchedule".into() };
            of(&NodeFacts { soft_taints: vec![taint], ..node("tainted", &[("cpu", 400)]) })
        };
        assert!(plain < tainted("k"));
        assert!(plain > tainted("borne"));
    }

    #[test]
    fn the_order_of_equal_nodes_takes_the_zones_in_turn() {
        let mut names: Vec<String> = ["a", "b", "c"].iter().flat_map(|zone| (0..100).map(move |n| format!("node-{zone}-{n:03}"))).collect();
        names.sort_by_key(|name| order(name));
        let first: Vec<usize> =
            ["-a-", "-b-", "-c-"].iter().map(|zone| names.iter().take(60).filter(|name| name.contains(zone)).count()).collect();
        assert!(first.iter().all(|count| (10..=30).contains(count)), "of the first 60 nodes in each zone: {first:?}");
        let distinct: BTreeSet<u64> = names.iter().map(|name| order(name)).collect();
        assert_eq!(distinct.len(), names.len());
    }
}
