//! Which of the nodes that fit does a pod with preferences go to?
//!
//! A preference says "rather here", and several preferences may disagree. So each of them gives every node that fits between 0 and [`WHOLE`] points, relative to the
//! other nodes, and the points are added with weights. The preferences, their points and their weights are those of kube-scheduler 1.36
//! (`plugins/{tainttoleration,nodeaffinity,interpodaffinity,podtopologyspread}`):
//!
//! | preference | points | weight |
//! |---|---|---|
//! | how empty (or full) the node is, as in [`score`](super::score) | the idle part of the node | 2, for `NodeResourcesFit` and `NodeResourcesBalancedAllocation` |
//! | nodes that are not wanted for other pods | fewer `PreferNoSchedule` taints and devices of others | 3 |
//! | preferred node affinity | the sum of the weights of the terms | 2 |
//! | preferred affinity and anti-affinity, that of the pods that are there, and their required affinity | the sum of the weights | 2 |
//! | spread: `ScheduleAnyway`, or the default for replicas | fewer pods in the domains | 2 |
//! | [images](super::images) that the node has; where pods are packed they only decide among nodes with the same points | the sum of the sizes | 1 |
//!
//! All numbers are whole, so that the result is the same on every machine.

use std::cmp::Reverse;
use std::sync::Arc;

use super::class::Class;
use super::filter::preference;
use super::nodes::NodeId;
use super::score::{Cost, Figures, WHOLE};
use super::topology::class_preferences::ClassPreferences;
use super::topology::class_terms::Spread;
use super::topology::domains::KeyDomains;
use super::topology::on_nodes::{Count, OnNodes};
use super::topology::verdict::{Counting, Facts};

/// The label of nodes that names their zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// By how much nodes and zones may differ before the default spread says so (`maxSkew`), as in kube-scheduler.
const DEFAULT_SKEW: (u32, u32) = (3, 5);

/// A node that takes the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// The figures of its [`Score`](super::score::Score).
    pub(super) figures: Figures,
    pub(super) id: NodeId,
}

/// By what nodes are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// How empty or full the node is.
    Room,
    /// Nodes that are not wanted for other pods.
    NotWanted,
    NodeAffinity,
    OtherPods,
    Spread,
    Images,
}

impl Kind {
    /// Returns how much its points count.
    pub(super) const fn weight(self) -> i64 {
        match self {
            Self::Images => 1,
            Self::Room | Self::NodeAffinity | Self::OtherPods | Self::Spread => 2,
            Self::NotWanted => 3,
        }
    }
}

/// What the candidates have by one kind, in their order.
pub(super) struct Points {
    pub(super) kind: Kind,
    /// From 0 to [`WHOLE`].
    pub(super) of: Vec<i64>,
}

/// Returns the node with the most points; of equal ones the first. `group` are the pods of the PodGroup, if these are spread by default.
pub(super) fn best(
    candidates: &[Candidate],
    class: &Class,
    counting: &Counting,
    group: Option<&OnNodes>,
    facts: Facts<'_>,
) -> Option<NodeId> {
    let mut sums: Vec<i64> = vec![0; candidates.len()];
    for Points { kind, of } in points(candidates, class, counting, group, facts) {
        for (sum, of) in sums.iter_mut().zip(of) {
            *sum = sum.saturating_add(of.saturating_mul(kind.weight()));
        }
    }
    let worth = |(node, sum): &(&Candidate, &i64)| {
        let is_packed = matches!(node.figures.cost, Cost::Idle(_));
        (Reverse(**sum), if is_packed { node.figures.lacking } else { 0 })
    };
    candidates.iter().zip(&sums).min_by_key(worth).map(|(node, _)| node.id)
}

/// Returns the points by each kind that may differ between nodes.
pub(super) fn points(
    candidates: &[Candidate],
    class: &Class,
    counting: &Counting,
    group: Option<&OnNodes>,
    mut facts: Facts<'_>,
) -> Vec<Points> {
    let whole = i64::from(WHOLE);
    let mut all = Vec::new();
    let mut add = |kind: Kind, of: Vec<i64>| all.push(Points { kind, of });
    add(Kind::Room, candidates.iter().map(|node| whole.saturating_sub(i64::from(node.figures.cost.millionths()))).collect());
    let wasted: Vec<i64> = candidates.iter().map(|node| i64::from(node.figures.wasted)).collect();
    let most = wasted.iter().copied().max().unwrap_or(0);
    if most > 0 {
        add(Kind::NotWanted, wasted.iter().map(|wasted| part(most.saturating_sub(*wasted), most)).collect());
    }
    if let Some(preferences) = &class.terms.preferences {
        if !preferences.node_affinity.is_empty() {
            let of = |node: &Candidate| facts.nodes.get(node.id).map_or(0, |node| preference(&preferences.node_affinity, node));
            let sums: Vec<i64> = candidates.iter().map(of).collect();
            let most = sums.iter().copied().max().unwrap_or(0);
            add(Kind::NodeAffinity, sums.into_iter().map(|sum| part(sum, most)).collect());
        }
        if !preferences.others.is_empty() || !preferences.wished_by.is_empty() {
            add(Kind::OtherPods, of_other_pods(preferences, candidates, &mut facts));
        }
        if !preferences.spread.is_empty() {
            let counting = counting.get(class.terms.spread.len()..).unwrap_or_default();
            add(Kind::Spread, of_spread(&preferences.spread, counting, candidates, &mut facts));
        }
    }
    if let Some(group) = group {
        add(Kind::Spread, of_default_spread(group, candidates, &mut facts));
    }
    if candidates.iter().any(|node| node.figures.lacking > 0) {
        add(Kind::Images, candidates.iter().map(|node| of_images(node.figures)).collect());
    }
    all
}

/// Points for the images that are on the node; none where pods are packed.
fn of_images(figures: Figures) -> i64 {
    match figures.cost {
        Cost::Used(_) => i64::from(WHOLE.saturating_sub(figures.lacking)),
        Cost::Idle(_) => 0,
    }
}

/// Points for the pods in the domains, by the pod's preferences and by theirs.
fn of_other_pods(preferences: &ClassPreferences, candidates: &[Candidate], facts: &mut Facts<'_>) -> Vec<i64> {
    let mut sums: Vec<i64> = vec![0; candidates.len()];
    for (weight, (selector, key)) in &preferences.others {
        let pods = facts.placed.matched(*selector);
        add_domains(&mut sums, i64::from(*weight), pods, candidates, &facts.domains.of(key, facts.nodes));
    }
    for wish in &preferences.wished_by {
        let (_, (key, weight)) = wish;
        add_domains(&mut sums, i64::from(*weight), facts.placed.wishing(wish), candidates, &facts.domains.of(key, facts.nodes));
    }
    let (least, most) = (sums.iter().copied().min().unwrap_or(0), sums.iter().copied().max().unwrap_or(0));
    sums.into_iter().map(|sum| part(sum.saturating_sub(least), most.saturating_sub(least))).collect()
}

/// Adds the weight to each node once for each pod in its domain.
fn add_domains(sums: &mut [i64], weight: i64, pods: impl Iterator<Item = (NodeId, Count)>, candidates: &[Candidate], domains: &KeyDomains) {
    let in_domains = sum_domains(pods.map(|(node, count)| (node, count.pods)), domains);
    for (sum, node) in sums.iter_mut().zip(candidates) {
        let pods = domains.get(node.id).and_then(|domain| in_domains.get(domain)).copied().unwrap_or(0);
        *sum = sum.saturating_add(weight.saturating_mul(pods));
    }
}

fn sum_domains(pods: impl Iterator<Item = (NodeId, u32)>, domains: &KeyDomains) -> Vec<i64> {
    let mut sums = vec![0_i64; domains.len()];
    for (node, pods) in pods {
        if let Some(sum) = domains.get(node).and_then(|domain| sums.get_mut(domain)) {
            *sum = sum.saturating_add(i64::from(pods));
        }
    }
    sums
}

/// Points for spread constraints. A node without all topology keys gets none.
fn of_spread(constraints: &[Spread], counting: &[Option<Arc<[bool]>>], candidates: &[Candidate], facts: &mut Facts<'_>) -> Vec<i64> {
    let keys: Vec<Arc<KeyDomains>> =
        constraints.iter().map(|spread| facts.domains.of(&spread.constraint.topology_key, facts.nodes)).collect();
    let has_all_keys = |node: NodeId| keys.iter().all(|domains| domains.get(node).is_some());
    let mut pods: Vec<Option<i64>> = candidates.iter().map(|node| has_all_keys(node.id).then_some(0)).collect();
    for (at, (spread, domains)) in constraints.iter().zip(&keys).enumerate() {
        let policy = counting.get(at).and_then(Option::as_ref);
        let counts =
            |node: NodeId| has_all_keys(node) && policy.is_none_or(|counting| counting.get(node.index()).copied().unwrap_or(false));
        let matched =
            facts.placed.matched(spread.selector).filter(|(node, _)| counts(*node) && !spread.constraint.pods.labels.is_everything());
        let in_domains = sum_domains(matched.map(|(node, count)| (node, count.staying())), domains);
        add_spread(&mut pods, &in_domains, spread.constraint.max_skew, 0, candidates, domains);
    }
    fewest_first(pods)
}

/// Points for the default spread of replicas over nodes and zones. A node without a zone counts for itself only.
fn of_default_spread(group: &OnNodes, candidates: &[Candidate], facts: &mut Facts<'_>) -> Vec<i64> {
    let zones = facts.domains.of(&Arc::from(ZONE), facts.nodes);
    let weight = spread_weight(candidates.len());
    let on_node = |node: &Candidate| Some(spread_points(i64::from(group.get(node.id).staying()), weight, DEFAULT_SKEW.0));
    let mut pods: Vec<Option<i64>> = candidates.iter().map(on_node).collect();
    // The nodes without a zone are one more zone where zones are counted, and nowhere else.
    let without_zone = usize::from(candidates.iter().any(|node| zones.get(node.id).is_none()));
    add_spread(&mut pods, &in_zones(group, &zones), DEFAULT_SKEW.1, without_zone, candidates, &zones);
    fewest_first(pods)
}

/// Returns the number of pods in each zone.
pub(super) fn in_zones(group: &OnNodes, zones: &KeyDomains) -> Vec<i64> {
    sum_domains(group.iter().map(|(node, count)| (node, count.staying())), zones)
}

/// Adds what one constraint counts for each node that has all keys. Domains of which there are many count more; `further` are added to their number.
fn add_spread(pods: &mut [Option<i64>], in_domains: &[i64], max_skew: u32, further: usize, candidates: &[Candidate], domains: &KeyDomains) {
    let mut seen = vec![false; domains.len()];
    for (_, domain) in pods.iter().zip(candidates).filter_map(|(pods, node)| Some((pods.as_ref()?, domains.get(node.id)?))) {
        if let Some(slot) = seen.get_mut(domain) {
            *slot = true;
        }
    }
    let weight = spread_weight(seen.into_iter().filter(|seen| *seen).count().saturating_add(further));
    for (pods, node) in pods.iter_mut().zip(candidates) {
        let Some((sum, domain)) = pods.as_mut().zip(domains.get(node.id)) else { continue };
        *sum = sum.saturating_add(spread_points(in_domains.get(domain).copied().unwrap_or(0), weight, max_skew));
    }
}

fn spread_points(pods: i64, weight: i64, max_skew: u32) -> i64 {
    pods.saturating_mul(weight).saturating_add(i64::from(max_skew).saturating_sub(1).saturating_mul(BILLIONTHS))
}

/// The node with the fewest gets all points; a node without all keys none. As in kube-scheduler what is counted is rounded to whole numbers before.
fn fewest_first(pods: Vec<Option<i64>>) -> Vec<i64> {
    let round = |sum: i64| sum.saturating_add(BILLIONTHS.div_euclid(2)).div_euclid(BILLIONTHS);
    let pods: Vec<Option<i64>> = pods.into_iter().map(|pods| pods.map(round)).collect();
    let known = || pods.iter().flatten().copied();
    let (least, most) = (known().min().unwrap_or(0), known().max().unwrap_or(0));
    let of = |pods: &Option<i64>| match pods {
        None => 0,
        Some(_) if most == 0 => i64::from(WHOLE),
        Some(pods) => part(most.saturating_add(least).saturating_sub(*pods), most),
    };
    pods.iter().map(of).collect()
}

/// The parts of one in which spread is counted.
const BILLIONTHS: i64 = 1_000_000_000;

/// Returns the natural logarithm of the number of domains and 2, in billionths, rounded down.
///
/// The logarithm to the base 2 is found bit by bit: where the square of a number from 1 to 2 reaches 2, the next bit is 1.
fn spread_weight(domains: usize) -> i64 {
    /// The logarithm of 2 in parts of 10¹⁸.
    const LN_2: u128 = 693_147_180_559_945_309;
    /// The bits behind the point: of the number that is squared, and of its logarithm.
    const POINT: u32 = 62;
    const BITS: u32 = 40;
    let number = u64::try_from(domains).unwrap_or(u64::MAX).saturating_add(2);
    let mut log = u128::from(number.ilog2());
    let mut rest = (u128::from(number) << POINT).checked_shr(number.ilog2()).unwrap_or(0);
    for _ in 0..BITS {
        rest = rest.saturating_mul(rest) >> POINT;
        let bit = rest >> (POINT + 1);
        rest = if bit == 1 { rest >> 1 } else { rest };
        log = log.saturating_mul(2).saturating_add(bit);
    }
    let billionths = (log.saturating_mul(LN_2) >> BITS).checked_div(1_000_000_000).unwrap_or(0);
    i64::try_from(billionths).unwrap_or(i64::MAX)
}

/// Returns `of / whole` in points; 0 if `whole` is 0.
fn part(of: i64, whole: i64) -> i64 {
    of.saturating_mul(i64::from(WHOLE)).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
#[path = "weigh_tests.rs"]
mod tests;
