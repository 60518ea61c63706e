//! Which nodes refuse a pod for its spread constraints?
//!
//! For each constraint: the pods that it counts, in each domain, of the nodes that count. A node refuses where its domain would have more
//! than `maxSkew` pods above the least domain. A node counts where it has the topology keys of *all* constraints of the pod, and where the
//! policies of the constraint let it. Terminating pods do not count. An empty selector counts no pod, but a pod counts itself then, as in
//! kube-scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cycle::explain::Reason;
use crate::cycle::placement::nodes::{NodeId, Nodes};

use super::class_terms::Spread;
use super::domains::KeyDomains;
use super::verdict::{Counting, Facts, Verdict};

/// The nodes that count for a constraint.
struct Counted {
    /// By the index of the node.
    nodes: Vec<bool>,
    /// Whether all nodes do.
    all: bool,
}

/// Adds the nodes that refuse for the spread constraints.
pub(super) fn refuse(constraints: &[Spread], counting: &Counting, facts: &mut Facts<'_>, verdict: &mut Verdict) {
    if constraints.is_empty() {
        return;
    }
    let keys: Vec<Arc<KeyDomains>> =
        constraints.iter().map(|spread| facts.domains.of(&spread.constraint.topology_key, facts.nodes)).collect();
    let has_all_keys = has_all(&keys, facts.nodes);
    // Constraints with the same policies share the nodes that count, and most have the same.
    let mut by_policy: BTreeMap<Option<*const [bool]>, Counted> = BTreeMap::new();
    for (at, (spread, domains)) in constraints.iter().zip(&keys).enumerate() {
        let policy = counting.get(at).and_then(Option::as_ref);
        let counted =
            by_policy.entry(policy.map(Arc::as_ptr)).or_insert_with(|| Counted::new(&has_all_keys, policy.map(|policy| &**policy)));
        let open = open_domains(spread, domains, counted, facts);
        if domains.is_everywhere() && open.iter().all(|open| *open) {
            continue;
        }
        let topology_key = spread.constraint.topology_key.to_string();
        let missing = verdict.reason(Reason::TopologySpreadLabel { topology_key: topology_key.clone() });
        let skewed = verdict.reason(Reason::TopologySpread { topology_key });
        let mut takes = false;
        for node in facts.nodes.ids() {
            match domains.get(node) {
                None => verdict.refuse(node, missing),
                Some(domain) if !open.get(domain).copied().unwrap_or(false) => verdict.refuse(node, skewed),
                Some(_) => takes = true,
            }
        }
        if !takes {
            // The first reason of each node is known, and further constraints change nothing.
            return;
        }
    }
}

/// Returns for each node, by its index, whether it has all these topology keys.
pub(in crate::cycle::placement) fn has_all(keys: &[Arc<KeyDomains>], nodes: &Nodes) -> Vec<bool> {
    let mut has_all = vec![true; nodes.ids().count()];
    for domains in keys.iter().filter(|domains| !domains.is_everywhere()) {
        if domains.is_empty() {
            return vec![false; has_all.len()];
        }
        has_all.iter_mut().zip(domains.by_node()).for_each(|(has, domain)| *has &= domain.is_some());
    }
    has_all
}

impl Counted {
    fn new(has_all_keys: &[bool], policy: Option<&[bool]>) -> Self {
        let mut nodes = has_all_keys.to_vec();
        policy.into_iter().for_each(|policy| nodes.iter_mut().zip(policy).for_each(|(counts, allows)| *counts &= allows));
        let all = nodes.iter().all(|counts| *counts);
        Self { nodes, all }
    }

    fn has(&self, node: NodeId) -> bool {
        self.nodes.get(node.index()).copied().unwrap_or(false)
    }
}

/// Returns for each domain whether it may have one pod more, whichever of the nominated pods come.
fn open_domains(spread: &Spread, domains: &KeyDomains, counted: &Counted, facts: &Facts<'_>) -> Vec<bool> {
    let mut exists = vec![counted.all; domains.len()];
    if !counted.all {
        for (domain, _) in domains.by_node().iter().zip(&counted.nodes).filter(|(_, counts)| **counts) {
            if let Some(slot) = domain.and_then(|domain| exists.get_mut(domain as usize)) {
                *slot = true;
            }
        }
    }
    let (mut with, mut without) = (vec![0_u32; domains.len()], vec![0_u32; domains.len()]);
    if !spread.constraint.pods.labels.is_everything() {
        for (node, count) in facts.placed.matched(spread.selector).filter(|(node, _)| counted.has(*node)) {
            for (pods, number) in [(&mut with, count.staying()), (&mut without, count.without_nominated().staying())] {
                if let Some(slot) = domains.get(node).and_then(|domain| pods.get_mut(domain)) {
                    *slot = slot.saturating_add(number);
                }
            }
        }
    }
    // The skew is the largest where those come that are nominated in the domain itself, and no others.
    let existing = || without.iter().enumerate().zip(&exists).filter(|(_, exists)| **exists).map(|((domain, pods), _)| (*pods, domain));
    let enough = existing().count() >= spread.constraint.min_domains.max(1) as usize;
    let first = existing().min();
    let second = existing().filter(|least| Some(*least) != first).min();
    let is_open = |(domain, pods): (usize, &u32)| {
        let others = first.filter(|(_, least)| *least != domain).or(second).map(|(pods, _)| pods);
        let own = exists.get(domain).is_some_and(|exists| *exists).then_some(*pods);
        let least = if enough { others.into_iter().chain(own).min().unwrap_or(0) } else { 0 };
        pods.saturating_add(u32::from(spread.matches_itself)) <= least.saturating_add(spread.constraint.max_skew)
    };
    with.iter().enumerate().map(is_open).collect()
}
