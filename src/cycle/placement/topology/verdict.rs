//! Which nodes refuse a pod for the sake of other pods?
//!
//! The semantics of kube-scheduler 1.36 (`plugins/podtopologyspread/filtering.go`, `plugins/interpodaffinity/filtering.go`), in its order:
//! spread, affinity, anti-affinity of the pod, anti-affinity of the pods that are there. Each is worked out for all nodes at once, from the
//! counts of pods on each node, so the time is that of reading every node a few times, however many pods there are.

use std::sync::Arc;

use crate::cycle::explain::Reason;
use crate::cycle::placement::node_set::NodeSet;
use crate::cycle::placement::nodes::{NodeId, Nodes};

use crate::cycle::placement::volumes::supply::Missing;

use super::class_terms::{Affinity, ClassTerms};
use super::domains::{Domains, KeyDomains};
use super::on_nodes::Count;
use super::placed::{PlacedPods, TermId};
use super::spread;

/// For each node, why it refuses pods of a class for the sake of other pods.
#[derive(Debug, Default)]
pub struct Verdict {
    /// By the index of the node: 0 where it does not refuse, or one more than the index of the reason.
    of: Vec<u16>,
    reasons: Vec<Reason>,
    /// By the index of the node: whether a pod there has a host port that the class asks for. Empty where it asks for none.
    ports_taken: Vec<bool>,
    /// Whether a pod uses a claim of the class that only one pod at a time may use: every node refuses.
    claim_in_use: bool,
    /// By the index of the node: whether it would have more volumes of a driver than it takes. Empty where the class has no volume with a limit.
    volumes_exceed: Vec<bool>,
    /// By the index of the node: why it has no volume for a claim of the class; none where it has one for each. Empty where all claims have volumes.
    missing: Vec<Option<Missing>>,
    /// The set of nodes to which the pods are restricted; none where any node will do.
    within: Option<NodeSet>,
}

/// The nodes that count for each spread constraint of a class, by the index of the node; none where all nodes count.
pub type Counting = Vec<Option<Arc<[bool]>>>;

/// What a verdict is worked out from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The nodes.
    pub nodes: &'a Nodes,
    /// The pods on them.
    pub placed: &'a PlacedPods,
    /// Their topology domains.
    pub domains: &'a mut Domains,
}

impl Verdict {
    /// Works out which nodes refuse pods of the class. `counting` has one entry for each of its spread constraints.
    #[must_use]
    pub fn of(terms: &ClassTerms, counting: &Counting, mut facts: Facts<'_>) -> Self {
        let mut verdict = Self::default();
        if terms.is_empty() {
            return verdict;
        }
        verdict.of = vec![0; facts.nodes.ids().count()];
        verdict.take_ports(terms, &facts);
        verdict.take_volumes(terms, &facts);
        spread::refuse(&terms.spread, counting, &mut facts, &mut verdict);
        if let Some(affinity) = &terms.affinity {
            verdict.refuse_affinity(affinity, &mut facts);
        }
        for term in &terms.anti_affinity {
            let matched: Vec<NodeId> = facts.placed.matched(term.0).map(|(node, _)| node).collect();
            verdict.refuse_domains_of(term, &matched, |topology_key| Reason::PodAntiAffinity { topology_key }, &mut facts);
        }
        for term in &terms.kept_away_by {
            let owners: Vec<NodeId> = facts.placed.owners(term).collect();
            verdict.refuse_domains_of(term, &owners, |topology_key| Reason::ExistingAntiAffinity { topology_key }, &mut facts);
        }
        verdict
    }

    /// Returns the verdict that this node refuses for this reason, has a port and a claim taken, and exceeds a limit of volumes.
    #[cfg(test)]
    pub(in crate::cycle::placement) fn refusing(node: NodeId, reason: Reason) -> Self {
        let mut verdict = Self {
            of: vec![0; node.index().saturating_add(1)],
            ports_taken: vec![true; node.index().saturating_add(1)],
            claim_in_use: true,
            volumes_exceed: vec![true; node.index().saturating_add(1)],
            missing: vec![Some(Missing::Volume); node.index().saturating_add(1)],
            ..Self::default()
        };
        let number = verdict.reason(reason);
        verdict.refuse(node, number);
        verdict
    }

    /// Returns the same verdict where no port is taken.
    #[cfg(test)]
    pub(in crate::cycle::placement) fn without_ports(self) -> Self {
        Self { ports_taken: Vec::new(), ..self }
    }

    /// Restricts the pods to a set of nodes: all others refuse. `None` changes nothing.
    #[must_use]
    pub fn within(self, set: Option<&NodeSet>) -> Self {
        Self { within: set.cloned().or(self.within), ..self }
    }

    /// Returns why the node refuses as it is not in the set of the pods; none where it does not for that.
    #[must_use]
    pub fn outside(&self, node: NodeId) -> Option<&Reason> {
        self.within.as_ref().filter(|set| !set.contains(node)).map(NodeSet::outside)
    }

    /// Returns why the node refuses; none where it does not.
    #[must_use]
    pub fn refusal(&self, node: NodeId) -> Option<&Reason> {
        let number = self.of.get(node.index()).copied()?;
        self.reasons.get(usize::from(number.checked_sub(1)?))
    }

    /// Returns whether no node refuses.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.reasons.is_empty()
            && self.ports_taken.is_empty()
            && !self.claim_in_use
            && self.volumes_exceed.is_empty()
            && self.missing.is_empty()
            && self.within.is_none()
    }

    /// Returns whether a pod on the node has a host port that the pod asks for.
    #[must_use]
    pub fn has_port_taken(&self, node: NodeId) -> bool {
        self.ports_taken.get(node.index()).copied().unwrap_or(false)
    }

    /// Returns whether a pod uses a claim that only one pod at a time may use.
    #[must_use]
    pub const fn has_claim_in_use(&self) -> bool {
        self.claim_in_use
    }

    /// Returns whether attach limits matter.
    #[must_use]
    pub const fn has_volume_limits(&self) -> bool {
        !self.volumes_exceed.is_empty()
    }

    /// Returns whether the node would have more volumes of a driver than it takes.
    #[must_use]
    pub fn exceeds_volume_limit(&self, node: NodeId) -> bool {
        self.volumes_exceed.get(node.index()).copied().unwrap_or(false)
    }

    /// Returns whether the node refuses for the sake of the claims and volumes of other pods.
    #[must_use]
    pub fn refuses_volumes(&self, node: NodeId) -> bool {
        self.claim_in_use || self.exceeds_volume_limit(node) || self.lacks_volume(node).is_some()
    }

    /// Returns whether claims of the class have no volume, so that a node may have none for them.
    #[must_use]
    pub const fn may_lack_volumes(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Returns why the node has no volume for a claim of the class; none where it has one for each.
    #[must_use]
    pub fn lacks_volume(&self, node: NodeId) -> Option<Missing> {
        self.missing.get(node.index()).copied().flatten()
    }

    /// Returns whether the node refuses.
    #[must_use]
    pub fn refuses(&self, node: NodeId) -> bool {
        self.of.get(node.index()).is_some_and(|number| *number != 0)
            || self.has_port_taken(node)
            || self.refuses_volumes(node)
            || self.outside(node).is_some()
    }

    fn take_volumes(&mut self, terms: &ClassTerms, facts: &Facts<'_>) {
        let Some(volumes) = &terms.volumes else { return };
        let known = facts.placed.volumes();
        self.claim_in_use = volumes.for_one_pod.iter().any(|claim| known.is_used(claim));
        if !volumes.unbound.is_empty() {
            let supply = known.supply(&volumes.unbound);
            self.missing = vec![None; self.of.len()];
            for (id, node) in facts.nodes.ids().filter_map(|id| Some((id, facts.nodes.get(id)?))) {
                if let Some(slot) = self.missing.get_mut(id.index()) {
                    *slot = supply.on(node).err();
                }
            }
        }
        if volumes.limited.is_empty() {
            return;
        }
        self.volumes_exceed = vec![false; self.of.len()];
        for node in facts.nodes.ids().filter_map(|id| Some((id, facts.nodes.get(id)?))) {
            let (id, node) = node;
            let Some(csi) = node.csi.as_ref().filter(|csi| !csi.limits.is_empty()) else { continue };
            if let Some(slot) = self.volumes_exceed.get_mut(id.index()) {
                *slot = known.exceeds_limit(&node.name, &csi.limits, &volumes.limited);
            }
        }
    }

    fn take_ports(&mut self, terms: &ClassTerms, facts: &Facts<'_>) {
        if !terms.host_ports.is_empty() {
            self.ports_taken = vec![false; self.of.len()];
        }
        for node in terms.host_ports.iter().flat_map(|port| facts.placed.with_port(port)) {
            if let Some(slot) = self.ports_taken.get_mut(node.index()) {
                *slot = true;
            }
        }
    }

    /// Adds a reason. Returns its number for [`refuse`](Self::refuse).
    pub(super) fn reason(&mut self, reason: Reason) -> u16 {
        self.reasons.push(reason);
        u16::try_from(self.reasons.len()).unwrap_or(u16::MAX)
    }

    /// The node refuses for this reason, unless it does for an earlier one.
    pub(super) fn refuse(&mut self, node: NodeId, reason: u16) {
        if let Some(number) = self.of.get_mut(node.index()).filter(|number| **number == 0) {
            *number = reason;
        }
    }

    /// Every domain must have a pod that all terms select. Where no such pod is in any domain, a pod that is selected itself may be the
    /// first. Both must hold with the nominated pods and without them, because they may never come.
    fn refuse_affinity(&mut self, affinity: &Affinity, facts: &mut Facts<'_>) {
        self.refuse_affinity_with(affinity, |count| count.pods > 0, facts);
        if facts.placed.matched(affinity.selector).any(|(_, count)| count.nominated > 0) {
            self.refuse_affinity_with(affinity, |count| count.without_nominated().pods > 0, facts);
        }
    }

    fn refuse_affinity_with(&mut self, affinity: &Affinity, counts: impl Fn(Count) -> bool, facts: &mut Facts<'_>) {
        let keys: Vec<Arc<KeyDomains>> = affinity.topology_keys.iter().map(|key| facts.domains.of(key, facts.nodes)).collect();
        let mut found: Vec<Vec<bool>> = keys.iter().map(|domains| vec![false; domains.len()]).collect();
        for (node, _) in facts.placed.matched(affinity.selector).filter(|(_, count)| counts(*count)) {
            for (domains, found) in keys.iter().zip(&mut found) {
                if let Some(slot) = domains.get(node).and_then(|domain| found.get_mut(domain)) {
                    *slot = true;
                }
            }
        }
        let none = found.iter().flatten().all(|found| !found);
        let may_be_first = none && affinity.matches_itself;
        let reasons: Vec<u16> =
            affinity.topology_keys.iter().map(|key| self.reason(Reason::PodAffinity { topology_key: key.to_string() })).collect();
        for node in facts.nodes.ids() {
            let misses = |(domains, found): (&Arc<KeyDomains>, &Vec<bool>)| match domains.get(node) {
                None => true,
                Some(domain) => !may_be_first && !found.get(domain).copied().unwrap_or(false),
            };
            if let Some(reason) = keys.iter().zip(&found).position(misses).and_then(|at| reasons.get(at)) {
                self.refuse(node, *reason);
            }
        }
    }

    /// The domains of these nodes refuse.
    fn refuse_domains_of(&mut self, term: &TermId, at: &[NodeId], reason: impl Fn(String) -> Reason, facts: &mut Facts<'_>) {
        if at.is_empty() {
            return;
        }
        let domains = facts.domains.of(&term.1, facts.nodes);
        if domains.is_empty() {
            return;
        }
        let mut closed = vec![false; domains.len()];
        for domain in at.iter().filter_map(|node| domains.get(*node)) {
            if let Some(slot) = closed.get_mut(domain) {
                *slot = true;
            }
        }
        if !closed.contains(&true) {
            return;
        }
        let reason = self.reason(reason(term.1.to_string()));
        for node in facts.nodes.ids() {
            if domains.get(node).and_then(|domain| closed.get(domain)).copied().unwrap_or(false) {
                self.refuse(node, reason);
            }
        }
    }
}
