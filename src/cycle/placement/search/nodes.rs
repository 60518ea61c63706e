//! Which nodes may the members of a gang go to, and which of them look alike?
//!
//! Two nodes look alike where each member finds the same on both: whether the node takes it, how much is free of what the gang requests,
//! and, for terms of affinity, anti-affinity and spread, the same domain, or a domain of its own with the same pods in it. One of them can
//! then stand for the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cycle::placement::capacity::pods_now;
use crate::cycle::placement::filter::{Query, refusal};
use crate::cycle::placement::nodes::NodeId;
use crate::cycle::placement::placer::Placer;
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::placement::topology::domains::KeyDomains;
use crate::cycle::placement::topology::on_nodes::Count;
use crate::cycle::placement::topology::placed::TermId;
use crate::cycle::placement::topology::selection::SelectorId;
use crate::cycle::placement::topology::verdict::Counting;
use crate::resources::{Amount, ResourceName};

use super::kinds::Kind;

/// The nodes to try.
pub(super) struct Spots {
    pub(super) spots: Vec<Spot>,
    /// The nodes that look alike, as places in `spots`. The fullest come first, and the nodes to use last come last.
    pub(super) looks: Vec<Vec<usize>>,
}

/// A node to try.
pub(super) struct Spot {
    pub(super) id: NodeId,
    /// Its place in the looks.
    pub(super) look: usize,
    /// By kind: whether the node takes such a pod, but for affinity and spread, which other members may satisfy.
    pub(super) takes: Arc<[bool]>,
}

/// What makes two nodes alike.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Look {
    is_last: bool,
    free: Vec<Amount>,
    takes: Arc<[bool]>,
    topology: Vec<(u32, u32)>,
}

/// Returns the nodes that take any of the kinds: of those that look alike at most `members`, because no more are ever used. None where a
/// required kind has too few nodes.
pub(super) fn spots(placer: &mut Placer<'_>, kinds: &[Kind<'_>], members: usize) -> Option<Spots> {
    let snapshot = placer.trial.snapshot(placer.strategy, &placer.barred);
    let mut takes: Vec<Vec<bool>> = Vec::new();
    for kind in kinds {
        let verdict = placer.finder.verdict(&kind.class.terms.lasting(), &Counting::new(), snapshot).within(kind.within);
        let (request, constraints) = (&kind.class.request, &kind.class.constraints);
        let query = Query { request, constraints, verdict: &verdict, barred: snapshot.barred, images: None };
        let mut room = 0_usize;
        let taken = snapshot.nodes.ids().map(|id| {
            let node = snapshot.node(id).filter(|node| pods_now(request, node.accounting) > 0 && refusal(&query, node).is_none());
            room = room.saturating_add(node.as_ref().map_or(0, |node| pods_now(request, node.accounting)));
            node.is_some()
        });
        takes.push(taken.collect());
        if room < kind.least {
            return None;
        }
    }
    let topology = Topology::new(placer, kinds);
    let snapshot = placer.trial.snapshot(placer.strategy, &placer.barred);
    let requests = kinds.iter().flat_map(|kind| kind.class.request.iter()).filter(|(_, asked)| asked.is_positive());
    // Devices first, so that a node with few of them counts as full.
    let dimensions: BTreeSet<(bool, &ResourceName)> = requests.map(|(name, _)| (!name.is_device(), name)).collect();
    let mut looks: BTreeMap<Look, Vec<NodeId>> = BTreeMap::new();
    for id in snapshot.nodes.ids() {
        let takes: Arc<[bool]> = takes.iter().map(|takes| takes.get(id.index()).copied().unwrap_or(false)).collect();
        let Some(node) = snapshot.accounting(id).filter(|_| takes.contains(&true)) else { continue };
        let free = dimensions.iter().map(|(_, name)| node.allocatable.get(name).minus(node.used.get(name))).collect();
        let look = Look { is_last: placer.last.contains(&id), free, takes, topology: topology.of(id) };
        let alike = looks.entry(look).or_default();
        if alike.len() < members {
            alike.push(id);
        }
    }
    let mut all = Spots { spots: Vec::new(), looks: Vec::new() };
    for (at, (look, ids)) in looks.into_iter().enumerate() {
        let from = all.spots.len();
        all.spots.extend(ids.into_iter().map(|id| Spot { id, look: at, takes: Arc::clone(&look.takes) }));
        all.looks.push((from..all.spots.len()).collect());
    }
    Some(all)
}

/// The pods and the domains that the terms of the members ask for.
struct Topology {
    domains: Vec<(Arc<KeyDomains>, Vec<u32>)>,
    matched: Vec<BTreeMap<NodeId, Count>>,
    owners: Vec<BTreeSet<NodeId>>,
    counting: Vec<Arc<Counting>>,
}

impl Topology {
    fn new(placer: &mut Placer<'_>, kinds: &[Kind<'_>]) -> Self {
        let terms = || kinds.iter().map(|kind| &kind.class.terms);
        let of_others: BTreeSet<&TermId> = terms().flat_map(|terms| terms.anti_affinity.iter().chain(&terms.kept_away_by)).collect();
        let selectors: BTreeSet<SelectorId> = terms().flat_map(|terms| terms.own().chain(terms.keeping_away())).collect();
        let affinity = terms().flat_map(|terms| &terms.affinity).flat_map(|affinity| &affinity.topology_keys);
        let spread = terms().flat_map(|terms| &terms.spread).map(|spread| &spread.constraint.topology_key);
        let keys: BTreeSet<&Arc<str>> = affinity.chain(spread).chain(of_others.iter().map(|term| &term.1)).collect();
        let snapshot = placer.trial.snapshot(placer.strategy, &placer.barred);
        let Snapshot { nodes, placed, .. } = snapshot;
        let mut with_sizes = |key: &Arc<str>| {
            let domains = placer.finder.domains(key, nodes);
            let mut sizes = vec![0_u32; domains.len()];
            for domain in nodes.ids().filter_map(|id| domains.get(id)) {
                if let Some(size) = sizes.get_mut(domain) {
                    *size = size.saturating_add(1);
                }
            }
            (domains, sizes)
        };
        Self {
            domains: keys.into_iter().map(&mut with_sizes).collect(),
            matched: selectors.into_iter().map(|selector| placed.matched(selector).collect()).collect(),
            owners: of_others.into_iter().map(|term| placed.owners(term).collect()).collect(),
            counting: kinds.iter().map(|kind| placer.finder.counting(kind.id, &kind.class, nodes)).collect(),
        }
    }

    /// Returns what the terms read of the node. A domain of one node is like any other such domain.
    fn of(&self, id: NodeId) -> Vec<(u32, u32)> {
        let domain = |(domains, sizes): &(Arc<KeyDomains>, Vec<u32>)| match domains.get(id) {
            None => (0, 0),
            Some(domain) if sizes.get(domain) == Some(&1) => (1, 0),
            Some(domain) => (2, u32::try_from(domain).unwrap_or(u32::MAX)),
        };
        let matched = self.matched.iter().map(|on| on.get(&id).map_or((0, 0), |count| (count.pods, count.leaving)));
        let nominated = self.matched.iter().map(|on| (on.get(&id).map_or(0, |count| count.nominated), 0));
        let owners = self.owners.iter().map(|on| (u32::from(on.contains(&id)), 0));
        let counts = self.counting.iter().flat_map(|counting| counting.iter().flatten());
        let counting = counts.map(|counts| (u32::from(counts.get(id.index()).copied().unwrap_or(false)), 0));
        self.domains.iter().map(domain).chain(matched).chain(nominated).chain(owners).chain(counting).collect()
    }
}
