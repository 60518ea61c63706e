//! Which of the nodes that fit does a pod with preferences go to?
//!
//! A preference says "rather here", and several preferences may disagree. So each of them gives every node that fits between 0 and
//! [`WHOLE`] points, relative to the other nodes, and the points are added with weights. The preferences, their points and their weights
//! are those of kube-scheduler 1.36 (`plugins/{tainttoleration,nodeaffinity,interpodaffinity,podtopologyspread}`):
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

use std::collections::BTreeMap;
use std::iter::zip;
use std::sync::Arc;

use super::class::Class;
use super::nodes::NodeId;
use super::score::{Cost, Figures, WHOLE};
use super::topology::class_preferences::ClassPreferences;
use super::topology::class_terms::Spread;
use super::topology::domains::KeyDomains;
use super::topology::on_nodes::{Count, OnNodes};
use super::topology::spread::has_all;
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

/// A pod that is weighed.
#[derive(Clone, Copy)]
pub(super) struct Weighed<'a> {
    pub(super) class: &'a Class,
    /// The nodes that count for each of its spread constraints.
    pub(super) counting: &'a Counting,
    /// How much the class prefers each node for its labels, by the index of the node; empty where it prefers none.
    pub(super) preferred: &'a [i64],
    /// The pods of its controller, if these are spread by default.
    pub(super) siblings: Option<&'a OnNodes>,
}

/// Returns the node with the most points; of equal ones the first.
pub(super) fn best(candidates: &[Candidate], pod: Weighed<'_>, facts: Facts<'_>) -> Option<NodeId> {
    let mut sums: Vec<i64> = vec![0; candidates.len()];
    for Points { kind, of } in points(candidates, pod, facts) {
        // At most [`WHOLE`] from each kind, so no sum wraps.
        zip(&mut sums, of).for_each(|(sum, of)| *sum = sum.wrapping_add(of.wrapping_mul(kind.weight())));
    }
    let most = sums.iter().copied().max()?;
    let lacking = |node: &&Candidate| if matches!(node.figures.cost, Cost::Idle(_)) { node.figures.lacking } else { 0 };
    zip(candidates, &sums).filter(|(_, sum)| **sum == most).map(|(node, _)| node).min_by_key(lacking).map(|node| node.id)
}

/// Returns the points by each kind that may differ between nodes.
pub(super) fn points(candidates: &[Candidate], pod: Weighed<'_>, mut facts: Facts<'_>) -> Vec<Points> {
    let whole = i64::from(WHOLE);
    let mut all = Vec::new();
    let mut add = |kind: Kind, of: Vec<i64>| all.push(Points { kind, of });
    add(Kind::Room, candidates.iter().map(|node| whole.saturating_sub(i64::from(node.figures.cost.millionths()))).collect());
    let most = i64::from(candidates.iter().map(|node| node.figures.wasted).max().unwrap_or(0));
    if most > 0 {
        let fewer = |node: &Candidate| most.saturating_sub(i64::from(node.figures.wasted));
        add(Kind::NotWanted, parts(candidates.iter().map(fewer), most));
    }
    if !pod.preferred.is_empty() {
        let sums = || candidates.iter().map(|node| pod.preferred.get(node.id.index()).copied().unwrap_or(0));
        add(Kind::NodeAffinity, parts(sums(), sums().max().unwrap_or(0)));
    }
    if let Some(preferences) = &pod.class.terms.preferences {
        if !preferences.others.is_empty() || !preferences.wished_by.is_empty() {
            add(Kind::OtherPods, of_other_pods(preferences, candidates, &mut facts));
        }
        if !preferences.spread.is_empty() {
            let counting = pod.counting.get(pod.class.terms.spread.len()..).unwrap_or_default();
            add(Kind::Spread, of_spread(&preferences.spread, counting, candidates, &mut facts));
        }
    }
    if let Some(siblings) = pod.siblings {
        add(Kind::Spread, of_default_spread(siblings, candidates, &mut facts));
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
    let mut keys = BTreeMap::new();
    for (weight, (selector, key)) in &preferences.others {
        add_domains(&mut keys, (key, *weight), facts.placed.matched(*selector), facts.domains.of(key, facts.nodes));
    }
    for wish in &preferences.wished_by {
        let (_, (key, weight)) = wish;
        add_domains(&mut keys, (key, *weight), facts.placed.wishing(wish), facts.domains.of(key, facts.nodes));
    }
    let mut sums: Vec<i64> = vec![0; candidates.len()];
    for (domains, of) in keys.values() {
        for (sum, node) in zip(&mut sums, candidates) {
            let of_domain = domains.get(node.id).and_then(|domain| of.get(domain)).copied().unwrap_or(0);
            *sum = sum.saturating_add(of_domain);
        }
    }
    let (least, most) = (sums.iter().copied().min().unwrap_or(0), sums.iter().copied().max().unwrap_or(0));
    parts(sums.into_iter().map(|sum| sum.saturating_sub(least)), most.saturating_sub(least))
}

/// By topology key: the domains, and the sum of the weights of the pods in each.
type WeightOfDomains<'a> = BTreeMap<&'a Arc<str>, (Arc<KeyDomains>, Vec<i64>)>;

/// Adds the weight to each domain once for each pod in it.
fn add_domains<'a>(
    keys: &mut WeightOfDomains<'a>,
    (key, weight): (&'a Arc<str>, i32),
    pods: impl Iterator<Item = (NodeId, Count)>,
    domains: Arc<KeyDomains>,
) {
    if domains.is_empty() {
        return;
    }
    let (domains, sums) = keys.entry(key).or_insert_with(|| {
        let none = vec![0; domains.len()];
        (domains, none)
    });
    for (node, count) in pods {
        if let Some(sum) = domains.get(node).and_then(|domain| sums.get_mut(domain)) {
            *sum = sum.saturating_add(i64::from(weight).saturating_mul(i64::from(count.pods)));
        }
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
    let has_all_keys = has_all(&keys, facts.nodes);
    let is_set = |of: &[bool], node: NodeId| of.get(node.index()).copied().unwrap_or(false);
    let mut pods: Vec<Option<i64>> = candidates.iter().map(|node| is_set(&has_all_keys, node.id).then_some(0)).collect();
    if pods.iter().all(Option::is_none) {
        return fewest_first(pods);
    }
    for (at, (spread, domains)) in constraints.iter().zip(&keys).enumerate() {
        let policy = counting.get(at).and_then(Option::as_ref);
        let counts = |node: NodeId| is_set(&has_all_keys, node) && policy.is_none_or(|counting| is_set(counting, node));
        let matched =
            facts.placed.matched(spread.selector).filter(|(node, _)| counts(*node) && !spread.constraint.pods.labels.is_everything());
        let in_domains = sum_domains(matched.map(|(node, count)| (node, count.staying())), domains);
        add_spread(&mut pods, &in_domains, spread.constraint.max_skew, 0, candidates, domains);
    }
    fewest_first(pods)
}

/// Points for the default spread of replicas over nodes and zones. A node without a zone counts for itself only.
fn of_default_spread(siblings: &OnNodes, candidates: &[Candidate], facts: &mut Facts<'_>) -> Vec<i64> {
    let zones = facts.domains.of(&Arc::from(ZONE), facts.nodes);
    let weight = spread_weight(candidates.len());
    let mut on_nodes = vec![0; facts.nodes.ids().count()];
    for (node, count) in siblings.iter() {
        if let Some(slot) = on_nodes.get_mut(node.index()) {
            *slot = i64::from(count.staying());
        }
    }
    let of_node = |node: &Candidate| spread_points(on_nodes.get(node.id.index()).copied().unwrap_or(0), weight, DEFAULT_SKEW.0);
    let mut pods: Vec<Option<i64>> = candidates.iter().map(|node| Some(of_node(node))).collect();
    // The nodes without a zone are one more zone where zones are counted, and nowhere else.
    let without_zone = usize::from(candidates.iter().any(|node| zones.get(node.id).is_none()));
    add_spread(&mut pods, &in_zones(siblings, &zones), DEFAULT_SKEW.1, without_zone, candidates, &zones);
    fewest_first(pods)
}

/// Returns the number of pods in each zone.
pub(super) fn in_zones(siblings: &OnNodes, zones: &KeyDomains) -> Vec<i64> {
    sum_domains(siblings.iter().map(|(node, count)| (node, count.staying())), zones)
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
    let points: Vec<i64> = in_domains.iter().map(|pods| spread_points(*pods, weight, max_skew)).collect();
    for (pods, node) in zip(pods, candidates) {
        let Some((sum, domain)) = pods.as_mut().zip(domains.get(node.id)) else { continue };
        *sum = sum.saturating_add(points.get(domain).copied().unwrap_or(0));
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
    if most == 0 {
        return pods.iter().map(|pods| pods.map_or(0, |_| i64::from(WHOLE))).collect();
    }
    // A node without all keys is 0 parts.
    parts(pods.iter().map(|pods| pods.map_or(0, |pods| most.saturating_add(least).saturating_sub(pods))), most)
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

/// Returns each `of / whole` in points; 0 if `whole` is 0.
fn parts(all: impl Iterator<Item = i64>, whole: i64) -> Vec<i64> {
    // Nodes that come one after the other often have the same, and a division takes longer than all else.
    let mut last = (0, 0);
    let part = |of: i64| {
        if of != last.0 {
            last = (of, of.saturating_mul(i64::from(WHOLE)).checked_div(whole).unwrap_or(0));
        }
        last.1
    };
    all.map(part).collect()
}

#[cfg(test)]
#[path = "weigh_tests.rs"]
mod tests;
