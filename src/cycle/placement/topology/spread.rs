//! Which nodes refuse a pod for its spread constraints?
//!
//! For each constraint: the pods that it counts, in each domain, of the nodes that count. A node refuses where its domain would have more than `maxSkew`
//! pods above the least domain. A node counts where it has the topology keys of *all* constraints of the pod, and where the policies of the constraint let it.
//! Terminating pods do not count. An empty selector counts no pod, but a pod counts itself then, as in kube-scheduler.

use std::sync::Arc;

use crate::cycle::explain::Reason;
use crate::cycle::placement::nodes::NodeId;

use super::class_terms::Spread;
use super::domains::KeyDomains;
use super::verdict::{Counting, Facts, Verdict};

/// Adds the nodes that refuse for the spread constraints.
pub(super) fn refuse(constraints: &[Spread], counting: &Counting, facts: &mut Facts<'_>, verdict: &mut Verdict) {
    if constraints.is_empty() {
        return;
    }
    let keys: Vec<Arc<KeyDomains>> =
        constraints.iter().map(|spread| facts.domains.of(&spread.constraint.topology_key, facts.nodes)).collect();
    let has_all_keys = |node: NodeId| keys.iter().all(|domains| domains.get(node).is_some());
    for (at, (spread, domains)) in constraints.iter().zip(&keys).enumerate() {
        let policy = counting.get(at).and_then(Option::as_ref);
        let counts =
            |node: NodeId| has_all_keys(node) && policy.is_none_or(|counting| counting.get(node.index()).copied().unwrap_or(false));
        let open = open_domains(spread, domains, counts, facts);
        let topology_key = spread.constraint.topology_key.to_string();
        let missing = verdict.reason(Reason::TopologySpreadLabel { topology_key: topology_key.clone() });
        let skewed = verdict.reason(Reason::TopologySpread { topology_key });
        for node in facts.nodes.ids() {
            match domains.get(node) {
                None => verdict.refuse(node, missing),
                Some(domain) if !open.get(domain).copied().unwrap_or(false) => verdict.refuse(node, skewed),
                Some(_) => {}
            }
        }
    }
}

/// Returns for each domain whether it may have one pod more, with and without the nominated pods.
fn open_domains(spread: &Spread, domains: &KeyDomains, counts: impl Fn(NodeId) -> bool, facts: &Facts<'_>) -> Vec<bool> {
    let mut exists = vec![false; domains.len()];
    for domain in facts.nodes.ids().filter(|node| counts(*node)).filter_map(|node| domains.get(node)) {
        if let Some(slot) = exists.get_mut(domain) {
            *slot = true;
        }
    }
    let (mut with, mut without, mut is_nominated) = (vec![0_u32; domains.len()], vec![0_u32; domains.len()], false);
    if !spread.constraint.pods.labels.is_everything() {
        for (node, count) in facts.placed.matched(spread.selector).filter(|(node, _)| counts(*node)) {
            is_nominated |= count.nominated > 0;
            for (pods, number) in [(&mut with, count.staying()), (&mut without, count.without_nominated().staying())] {
                if let Some(slot) = domains.get(node).and_then(|domain| pods.get_mut(domain)) {
                    *slot = slot.saturating_add(number);
                }
            }
        }
    }
    let open = |pods: &[u32]| -> Vec<bool> {
        let existing = || exists.iter().zip(pods).filter(|(exists, _)| **exists).map(|(_, pods)| *pods);
        let enough = existing().count() >= spread.constraint.min_domains.max(1) as usize;
        let least = if enough { existing().min().unwrap_or(0) } else { 0 };
        let most = least.saturating_add(spread.constraint.max_skew);
        pods.iter().map(|pods| pods.saturating_add(u32::from(spread.matches_itself)) <= most).collect()
    };
    if !is_nominated {
        return open(&with);
    }
    open(&with).into_iter().zip(open(&without)).map(|(with, without)| with && without).collect()
}
