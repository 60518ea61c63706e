//! What does a pod require of the other pods on its node and in its topology domain, and which nodes does it prefer?
//!
//! Facts of `affinity.podAffinity`, `affinity.podAntiAffinity` and `topologySpreadConstraints`. The API server has merged `matchLabelKeys` and
//! `mismatchLabelKeys` of affinity terms into their selectors when the pod was created, so they are not read here; those of spread constraints are
//! merged again, as kube-scheduler does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fault::Fault;
use super::label_selector::LabelSelector;
use super::pod::{ContainerPort, NodeSelectorTerm, PodAffinityTerm, PodSpec, PreferredPods, TopologySpread};
use super::uid::Uid;
use super::volumes::{ClaimKey, PodClaim};

/// Pods that are selected by their namespace and their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSelector {
    /// The names of their namespaces, besides those that `namespace_selector` matches.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Matches the labels of their namespaces.
    pub namespace_selector: LabelSelector,
    /// Matches the labels of the pods.
    pub labels: LabelSelector,
}

/// A term of affinity or anti-affinity: pods, and the domains in which they are looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffinityTerm {
    /// The pods.
    pub pods: PodSelector,
    /// Nodes with the same value of this label are one domain.
    pub topology_key: Arc<str>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpreadConstraint {
    /// The pods that are counted, in the namespace of the pod.
    pub pods: PodSelector,
    /// Nodes with the same value of this label are one domain.
    pub topology_key: Arc<str>,
    /// By how much the count of a domain may exceed the least count of all domains.
    pub max_skew: u32,
    /// With fewer domains than this the least count is 0.
    pub min_domains: u32,
    /// Whether only nodes count that the pod's node selector and node affinity match.
    pub honors_node_affinity: bool,
    /// Whether only nodes count whose taints the pod tolerates.
    pub honors_taints: bool,
}

/// What a pod requires of the other pods in its domains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerms {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// For each term, a pod that all terms select must be in the domain.
    pub affinity: Vec<AffinityTerm>,
    /// For each term, no selected pod may be in the domain. It also keeps later pods away that it selects.
    pub anti_affinity: Vec<AffinityTerm>,
    /// The spread constraints with `DoNotSchedule`.
    pub spread: Vec<SpreadConstraint>,
    /// The host ports, which no other pod on the node may have.
    pub host_ports: BTreeSet<HostPort>,
    /// The preferences; none where there is none.
    pub preferences: Option<Arc<PodPreferences>>,
    /// Its claims.
    pub claims: Vec<PodClaim>,
    /// The controller whose pods are spread over nodes and zones though they do not say so, as the replicas of a service are; none where
    /// they are not.
    pub replica_of: Option<Uid>,
}

/// The nodes that a pod prefers among those that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodPreferences {
    /// Terms for nodes, each with its weight.
    pub node_affinity: Vec<(i32, NodeSelectorTerm)>,
    /// Pods that should be in the domain, each with its weight; the weight is negative for pods that should not be there.
    pub others: Vec<(i32, AffinityTerm)>,
    /// The spread constraints with `ScheduleAnyway`.
    pub spread: Vec<SpreadConstraint>,
}

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The number of the port.
    pub port: u16,
    /// The protocol.
    pub protocol: Arc<str>,
    /// The address of the node; none means all addresses.
    pub address: Option<Arc<str>>,
}

impl PodSelector {
    /// Returns whether a pod with these labels in a namespace with these labels is selected.
    #[must_use]
    pub fn matches(&self, namespace: &str, of_namespace: &BTreeMap<String, String>, of_pod: &BTreeMap<String, String>) -> bool {
        (self.namespaces.contains(namespace) || self.namespace_selector.matches(of_namespace)) && self.labels.matches(of_pod)
    }

    /// Returns whether only pods of this namespace are selected.
    #[must_use]
    pub fn is_within(&self, namespace: &str) -> bool {
        self.namespace_selector == LabelSelector::Nothing && self.namespaces.iter().all(|name| **name == *namespace)
    }

    /// Selects all pods, or all pods of this namespace.
    #[must_use]
    pub fn everything(namespace: &Arc<str>, within: bool) -> Self {
        let (namespaces, namespace_selector) =
            if within { ([Arc::clone(namespace)].into(), LabelSelector::Nothing) } else { (BTreeSet::new(), LabelSelector::everything()) };
        Self { namespaces, namespace_selector, labels: LabelSelector::everything() }
    }

    /// Returns the number of its requirements and values, and of the namespaces beyond the first.
    fn size(&self) -> usize {
        let names = self.namespaces.len().saturating_sub(1);
        self.labels.size().saturating_add(self.namespace_selector.size()).saturating_add(names)
    }

    /// Returns whether the labels of namespaces matter.
    #[must_use]
    pub const fn reads_namespace_labels(&self) -> bool {
        matches!(self.namespace_selector, LabelSelector::Requirements(_))
    }
}

/// The most requirements, label values and named namespaces in all selectors of one pod. A pod with more is not placed: each selector is
/// compared with the labels of each pod.
const LARGEST: usize = 1_000;

/// The most terms of one pod: affinity, anti-affinity and spread constraints, required and preferred, and preferences for nodes. A pod with
/// more is not placed: each term is worked out for each node.
pub const MOST_TERMS: usize = 100;

impl Default for PodTerms {
    fn default() -> Self {
        Self {
            namespace: Arc::from(""),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            spread: Vec::new(),
            host_ports: BTreeSet::new(),
            preferences: None,
            claims: Vec::new(),
            replica_of: None,
        }
    }
}

impl PodTerms {
    /// Returns whether the pod requires nothing of other pods.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.spread.is_empty() && self.host_ports.is_empty()
    }

    /// Returns the namespace and name of one of its claims.
    #[must_use]
    pub fn key_of(&self, claim: &PodClaim) -> ClaimKey {
        ClaimKey { namespace: Arc::clone(&self.namespace), name: Arc::clone(&claim.name) }
    }

    /// Returns whether the labels of namespaces matter to a term.
    #[must_use]
    pub fn reads_namespace_labels(&self) -> bool {
        self.affinity.iter().chain(&self.anti_affinity).any(|term| term.pods.reads_namespace_labels())
    }

    /// Reads the terms of a pod in this namespace with these labels. What cannot be read becomes a fault. A term of anti-affinity that
    /// cannot be read keeps away all pods in its reach, because the pod may be on a node all the same.
    #[must_use]
    pub fn of(spec: &PodSpec, namespace: &str, labels: &BTreeMap<String, String>, faults: &mut Vec<Fault>) -> Self {
        let affinity = spec.affinity.as_ref();
        let required =
            affinity.and_then(|all| all.pod_affinity.as_ref()).map(|all| &all.required_during_scheduling_ignored_during_execution);
        let anti =
            affinity.and_then(|all| all.pod_anti_affinity.as_ref()).map(|all| &all.required_during_scheduling_ignored_during_execution);
        let mut read = |place: &str, term: &PodAffinityTerm| {
            affinity_term(term, namespace).map_err(|error| faults.push(Fault::new(place, &error, "is no label selector"))).ok()
        };
        let affinity = required.into_iter().flatten().filter_map(|term| read("spec.affinity.podAffinity", term)).collect();
        let anti = anti.into_iter().flatten();
        let anti_affinity =
            anti.map(|term| read("spec.affinity.podAntiAffinity", term).unwrap_or_else(|| widest(term, namespace))).collect();
        let (mut spread, mut soft) = (Vec::new(), Vec::new());
        for constraint in &spec.topology_spread_constraints {
            let all = match constraint.when_unsatisfiable.as_str() {
                "DoNotSchedule" => &mut spread,
                "ScheduleAnyway" => &mut soft,
                other => {
                    let place = "spec.topologySpreadConstraints.whenUnsatisfiable";
                    faults.push(Fault::new(place, other, "is neither DoNotSchedule nor ScheduleAnyway"));
                    continue;
                }
            };
            match spread_constraint(constraint, namespace, labels) {
                Ok(read) => all.push(read),
                Err(error) => faults.push(Fault::new("spec.topologySpreadConstraints", &error, "is no label selector")),
            }
        }
        let preferences = preferences(spec, namespace, soft, faults);
        let terms = Self {
            namespace: Arc::from(namespace),
            affinity,
            anti_affinity,
            spread,
            host_ports: host_ports(spec),
            preferences,
            claims: Vec::new(),
            replica_of: None,
        };
        match terms.excess() {
            Some(fault) => {
                faults.push(fault);
                terms.widened()
            }
            None => terms,
        }
    }

    /// Returns what there is too much of; none where the terms are within the bounds.
    fn excess(&self) -> Option<Fault> {
        let preferred_nodes = self.preferences.as_ref().map_or(0, |own| own.node_affinity.len());
        let count = self.selectors().count().saturating_add(preferred_nodes);
        let size = self.selectors().map(PodSelector::size).fold(0, usize::saturating_add);
        let fault = |found: usize, why: String| Some(Fault::new("spec.affinity", &found.to_string(), why));
        if count > MOST_TERMS {
            return fault(count, format!("is more than {MOST_TERMS} terms of affinity, anti-affinity and spread"));
        }
        if size > LARGEST {
            return fault(size, format!("is more than {LARGEST} requirements and values in selectors"));
        }
        None
    }

    /// Returns what counts of a pod with terms beyond the bounds that is on a node all the same: it keeps away all pods in reach of its
    /// anti-affinity, in the domains of at most [`MOST_TERMS`] topology keys.
    fn widened(self) -> Self {
        let mut within: BTreeMap<Arc<str>, bool> = BTreeMap::new();
        for AffinityTerm { pods, topology_key } in self.anti_affinity.iter().filter(|term| term.pods.labels != LabelSelector::Nothing) {
            *within.entry(Arc::clone(topology_key)).or_insert(true) &= pods.is_within(&self.namespace);
        }
        let term = |(topology_key, within)| AffinityTerm { pods: PodSelector::everything(&self.namespace, within), topology_key };
        let anti_affinity = within.into_iter().take(MOST_TERMS).map(term).collect();
        Self { affinity: Vec::new(), anti_affinity, spread: Vec::new(), preferences: None, ..self }
    }

    /// Returns what affinity and spread count, in the order in which it is given numbers: what all terms of affinity select together, and
    /// each spread constraint.
    pub fn counted(&self) -> impl Iterator<Item = Cow<'_, [PodSelector]>> {
        let affinity = (!self.affinity.is_empty()).then(|| Cow::Owned(self.affinity.iter().map(|term| term.pods.clone()).collect()));
        affinity.into_iter().chain(self.spread.iter().map(|constraint| Cow::Borrowed(std::slice::from_ref(&constraint.pods))))
    }

    /// Returns all that must hold: what is counted, and after that what each term of anti-affinity selects.
    pub fn required(&self) -> impl Iterator<Item = Cow<'_, [PodSelector]>> {
        self.counted().chain(self.anti_affinity.iter().map(|term| Cow::Borrowed(std::slice::from_ref(&term.pods))))
    }

    /// Returns the selectors of all terms and preferences.
    fn selectors(&self) -> impl Iterator<Item = &PodSelector> {
        let preferred = self.preferences.iter().flat_map(|own| own.others.iter().map(|(_, term)| term));
        let terms = self.affinity.iter().chain(&self.anti_affinity).chain(preferred).map(|term| &term.pods);
        let soft = self.preferences.iter().flat_map(|own| &own.spread);
        terms.chain(self.spread.iter().chain(soft).map(|constraint| &constraint.pods))
    }
}

/// Reads the preferences. What cannot be read becomes a fault.
fn preferences(spec: &PodSpec, namespace: &str, spread: Vec<SpreadConstraint>, faults: &mut Vec<Fault>) -> Option<Arc<PodPreferences>> {
    let affinity = spec.affinity.as_ref();
    let nodes = affinity.and_then(|all| all.node_affinity.as_ref()).map(|all| &all.preferred_during_scheduling_ignored_during_execution);
    let node_affinity = nodes.into_iter().flatten().map(|nodes| (nodes.weight, nodes.preference.clone())).collect();
    let mut others = Vec::new();
    let mut read = |place: &str, all: Option<&Vec<PreferredPods>>, sign: i32| {
        for pods in all.into_iter().flatten() {
            match affinity_term(&pods.pod_affinity_term, namespace) {
                Ok(term) => others.push((pods.weight.saturating_mul(sign), term)),
                Err(error) => faults.push(Fault::new(place, &error, "is no label selector")),
            }
        }
    };
    let preferred = affinity.and_then(|all| all.pod_affinity.as_ref()).map(|all| &all.preferred_during_scheduling_ignored_during_execution);
    read("spec.affinity.podAffinity", preferred, 1);
    let avoided =
        affinity.and_then(|all| all.pod_anti_affinity.as_ref()).map(|all| &all.preferred_during_scheduling_ignored_during_execution);
    read("spec.affinity.podAntiAffinity", avoided, -1);
    let preferences = PodPreferences { node_affinity, others, spread };
    (preferences != PodPreferences::default()).then(|| Arc::new(preferences))
}

/// Returns the host ports of the containers and the sidecars. A plain init container has ended when the others run.
fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let sidecars = spec.init_containers.iter().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = sidecars.chain(&spec.containers).flat_map(|container| &container.ports);
    let port = |port: &ContainerPort| {
        let number = u16::try_from(port.host_port?).ok().filter(|number| *number > 0)?;
        let address = port.host_ip.as_deref().filter(|address| !matches!(*address, "" | "0.0.0.0")).map(Arc::from);
        Some(HostPort { port: number, protocol: Arc::from(port.protocol.as_deref().unwrap_or("TCP")), address })
    };
    ports.filter_map(port).collect()
}

fn affinity_term(term: &PodAffinityTerm, namespace: &str) -> Result<AffinityTerm, String> {
    let namespaces: BTreeSet<Arc<str>> = if term.namespaces.is_empty() && term.namespace_selector.is_none() {
        [Arc::from(namespace)].into()
    } else {
        term.namespaces.iter().map(|name| Arc::from(name.as_str())).collect()
    };
    let namespace_selector = LabelSelector::of(term.namespace_selector.as_ref())?;
    let labels = LabelSelector::of(term.label_selector.as_ref())?;
    Ok(AffinityTerm { pods: PodSelector { namespaces, namespace_selector, labels }, topology_key: Arc::from(term.topology_key.as_str()) })
}

/// Returns the term with all pods in its reach, whatever its selectors are.
fn widest(term: &PodAffinityTerm, namespace: &str) -> AffinityTerm {
    let within = term.namespace_selector.is_none() && term.namespaces.iter().all(|name| name == namespace);
    AffinityTerm { pods: PodSelector::everything(&Arc::from(namespace), within), topology_key: Arc::from(term.topology_key.as_str()) }
}

fn spread_constraint(spread: &TopologySpread, namespace: &str, labels: &BTreeMap<String, String>) -> Result<SpreadConstraint, String> {
    let mut selector = LabelSelector::of(spread.label_selector.as_ref())?;
    for key in &spread.match_label_keys {
        if let Some(value) = labels.get(key) {
            selector.require(key, value);
        }
    }
    let positive = |number: i32| u32::try_from(number).unwrap_or(0);
    let honors = |policy: &Option<String>, default: bool| policy.as_deref().map_or(default, |policy| policy == "Honor");
    Ok(SpreadConstraint {
        pods: PodSelector { namespaces: [Arc::from(namespace)].into(), namespace_selector: LabelSelector::Nothing, labels: selector },
        topology_key: Arc::from(spread.topology_key.as_str()),
        max_skew: positive(spread.max_skew),
        min_domains: spread.min_domains.map_or(1, positive),
        honors_node_affinity: honors(&spread.node_affinity_policy, true),
        honors_taints: honors(&spread.node_taints_policy, false),
    })
}

#[cfg(test)]
#[path = "pod_terms_tests.rs"]
mod tests;
