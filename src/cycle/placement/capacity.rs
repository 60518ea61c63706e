//! How many pods of a class could a node take, if no pod were there, and how many more can it take now?
//!
//! If no pod were there: an upper bound for what can ever be placed on the nodes that exist (A6). A cordon, and a taint that Kubernetes
//! sets by itself (a node that is not ready), end sooner or later, so neither counts.

use std::collections::BTreeSet;

use crate::accounting::NodeView;
use crate::api::NodeFacts;
use crate::api::pod_facts::Constraints;
use crate::cycle::explain::Reason;
use crate::resources::Resources;

use super::filter::{NodeState, lasting_refusal};

/// The taints that Kubernetes sets and removes by itself.
const OF_KUBERNETES: &str = "node.kubernetes.io/";

/// Returns how many pods with this request and these constraints the empty node takes.
#[must_use]
pub fn pods_if_empty(request: &Resources, constraints: &Constraints, barred: &BTreeSet<String>, node: &NodeState<'_>) -> usize {
    if refuses_always(constraints, barred, node) {
        return 0;
    }
    let times = request.iter().filter(|(_, asked)| asked.is_positive()).map(|(dimension, asked)| {
        let times = node.accounting.allocatable.get(dimension).nanos().checked_div(asked.nanos()).unwrap_or(0);
        usize::try_from(times).unwrap_or(if times > 0 { usize::MAX } else { 0 })
    });
    times.min().unwrap_or(usize::MAX)
}

/// Returns how many more pods with this request the node has room for; `usize::MAX` where nothing is requested.
#[must_use]
pub fn pods_now(request: &Resources, node: NodeView<'_>) -> usize {
    let times = request.iter().filter(|(_, asked)| asked.is_positive()).map(|(dimension, asked)| {
        let free = node.allocatable.get(dimension).minus(node.used.get(dimension)).nanos().max(0);
        free.checked_div(asked.nanos()).map_or(0, |times| usize::try_from(times).unwrap_or(usize::MAX))
    });
    times.min().unwrap_or(usize::MAX)
}

/// How many more pods of one class several nodes take together, where these keep each other off some topology domains: one pod for each such domain.
#[derive(Debug)]
pub struct Room {
    pods: usize,
    /// By topology key: the domains with room, and the room on nodes that belong to none.
    apart: Vec<(BTreeSet<usize>, usize)>,
}

impl Room {
    /// Returns the room of no node, for pods that keep each other off the domains of so many topology keys.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        Self { pods: 0, apart: vec![(BTreeSet::new(), 0); keys] }
    }

    /// Adds a node with room for these pods, and its domain by each topology key.
    pub fn add(&mut self, pods: usize, domains: impl Iterator<Item = Option<usize>>) {
        self.pods = self.pods.saturating_add(pods);
        for ((with_room, of_none), domain) in self.apart.iter_mut().zip(domains).filter(|_| pods > 0) {
            match domain {
                Some(domain) => _ = with_room.insert(domain),
                None => *of_none = of_none.saturating_add(pods),
            }
        }
    }

    /// Returns for how many pods there is room; at most so many.
    #[must_use]
    pub fn pods(&self) -> usize {
        let apart = self.apart.iter().map(|(with_room, of_none)| with_room.len().saturating_add(*of_none));
        apart.min().unwrap_or(usize::MAX).min(self.pods)
    }
}

fn refuses_always(constraints: &Constraints, barred: &BTreeSet<String>, node: &NodeState<'_>) -> bool {
    let Some(no) = lasting_refusal(constraints, barred, node) else { return false };
    let passes = match &no.reason {
        Reason::Unschedulable => true,
        Reason::Taint(taint) => taint.key.starts_with(OF_KUBERNETES),
        Reason::NodeGroup { .. }
        | Reason::NodeSelector
        | Reason::NodeAffinity
        | Reason::NotNamed
        | Reason::NamesConflict
        | Reason::HostPorts
        | Reason::ClaimInUse
        | Reason::VolumeLimit
        | Reason::VolumeNodeAffinity
        | Reason::NoVolume
        | Reason::NotEnoughStorage
        | Reason::VolumeZone
        | Reason::DeclaredFeature { .. }
        | Reason::Lacks(_)
        | Reason::TopologySpread { .. }
        | Reason::TopologySpreadLabel { .. }
        | Reason::PodAffinity { .. }
        | Reason::PodAntiAffinity { .. }
        | Reason::ExistingAntiAffinity { .. } => false,
    };
    if !passes {
        return true;
    }
    let mut facts = NodeFacts::clone(node.facts);
    facts.unschedulable = false;
    facts.taints.retain(|taint| !taint.key.starts_with(OF_KUBERNETES));
    lasting_refusal(constraints, barred, &NodeState { id: node.id, facts: &facts, accounting: node.accounting }).is_some()
}
