//! The verdict is the same as one by the rules as they are written, over the list of all pods, after random events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::api::label_selector::{LabelSelector, Requirement, ValueRequirement};
use crate::api::pod_terms::{AffinityTerm, HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::api::{NodeFacts, PodFacts, Uid};
use crate::cycle::explain::Reason;
use crate::cycle::placement::nodes::Nodes;
use crate::cycle::placement::topology::class_terms::ClassTerms;
use crate::cycle::placement::topology::domains::Domains;
use crate::cycle::placement::topology::place::Place;
use crate::cycle::placement::topology::placed::PlacedPods;
use crate::cycle::placement::topology::verdict::{Facts, Verdict};
use crate::cycle::testing;
use crate::cycle::testing::node;

const NODES: u8 = 6;
const PODS: u8 = 8;
const NAMESPACES: [&str; 2] = ["x", "y"];
const KEYS: [&str; 3] = ["host", "zone", "rack"];

/// A pod of the test.
#[derive(Clone, Debug)]
struct TestPod {
    namespace: usize,
    labels: BTreeMap<String, String>,
    terms: PodTerms,
    leaving: bool,
    node: Option<u8>,
    /// Whether the node is nominated for it.
    nominated: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// A pod comes or changes.
    Pod(u8, TestPod),
    PodGone(u8),
    Moved(u8, Option<u8>),
    /// A node comes, with or without zone and rack, or changes.
    Node(u8, Option<u8>, Option<u8>),
    NodeGone(u8),
    Namespace(usize, Option<bool>),
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let value = || prop::option::of(0..2_u8);
    (value(), value()).prop_map(|(app, tier)| {
        let label = |key: &str, value: Option<u8>| value.map(|value| (key.to_owned(), value.to_string()));
        label("app", app).into_iter().chain(label("tier", tier)).collect()
    })
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    let values = || prop::collection::btree_set((0..2_u8).prop_map(|value| value.to_string()), 1..3);
    let value = prop_oneof![
        3 => values().prop_map(ValueRequirement::In),
        1 => values().prop_map(ValueRequirement::NotIn),
        1 => Just(ValueRequirement::Exists),
        1 => Just(ValueRequirement::DoesNotExist),
    ];
    let requirement = (prop_oneof![Just("app"), Just("tier")], value).prop_map(|(key, value)| Requirement { key: key.into(), value });
    prop_oneof![
        8 => prop::collection::btree_set(requirement, 0..3).prop_map(LabelSelector::Requirements),
        1 => Just(LabelSelector::Nothing),
    ]
}

/// The labels of namespaces have the key `team` or not.
fn pods() -> impl Strategy<Value = PodSelector> {
    let team = |value| LabelSelector::Requirements([Requirement { key: "team".into(), value }].into());
    let of_namespaces = prop_oneof![
        3 => Just(LabelSelector::Nothing),
        1 => Just(LabelSelector::everything()),
        1 => Just(team(ValueRequirement::Exists)),
        1 => Just(team(ValueRequirement::DoesNotExist)),
    ];
    let names = prop::collection::btree_set((0..NAMESPACES.len()).prop_map(|at| Arc::from(NAMESPACES[at])), 0..3);
    (names, of_namespaces, selector()).prop_map(|(namespaces, namespace_selector, labels)| PodSelector {
        namespaces,
        namespace_selector,
        labels,
    })
}

fn key() -> impl Strategy<Value = Arc<str>> {
    (0..KEYS.len()).prop_map(|at| Arc::from(KEYS[at]))
}

fn terms() -> impl Strategy<Value = PodTerms> {
    let term = || (pods(), key()).prop_map(|(pods, topology_key)| AffinityTerm { pods, topology_key });
    let spread = (selector(), key(), 1..3_u32, 1..4_u32).prop_map(|(labels, topology_key, max_skew, min_domains)| SpreadConstraint {
        pods: PodSelector { labels, ..PodSelector::default() },
        topology_key,
        max_skew,
        min_domains,
        honors_node_affinity: true,
        honors_taints: false,
    });
    let port = (1..3_u16, prop::bool::weighted(0.8), prop::option::of(0..2_u8)).prop_map(|(port, tcp, address)| HostPort {
        port,
        protocol: Arc::from(if tcp { "TCP" } else { "UDP" }),
        address: address.map(|last| Arc::from(format!("10.0.0.{last}"))),
    });
    let ports = prop::collection::btree_set(port, 0..2);
    (prop::collection::vec(term(), 0..3), prop::collection::vec(term(), 0..3), prop::collection::vec(spread, 0..3), ports).prop_map(
        |(affinity, anti_affinity, spread, host_ports)| PodTerms { affinity, anti_affinity, spread, host_ports, ..PodTerms::default() },
    )
}

fn test_pod() -> impl Strategy<Value = TestPod> {
    (0..NAMESPACES.len(), labels(), terms(), any::<bool>(), prop::option::of(0..NODES), prop::bool::weighted(0.2)).prop_map(
        |(namespace, labels, mut terms, leaving, node, nominated)| {
            // A spread constraint counts in the namespace of its pod.
            terms.spread.iter_mut().for_each(|spread| spread.pods.namespaces = [Arc::from(NAMESPACES[namespace])].into());
            // A nomination ends when its pod terminates.
            TestPod { namespace, labels, terms, leaving: leaving && !nominated, node, nominated }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..PODS, test_pod()).prop_map(|(at, pod)| Step::Pod(at, pod)),
        1 => (0..PODS).prop_map(Step::PodGone),
        3 => (0..PODS, prop::option::of(0..NODES)).prop_map(|(at, node)| Step::Moved(at, node)),
        4 => (0..NODES, prop::option::of(0..3_u8), prop::option::of(0..2_u8)).prop_map(|(at, zone, rack)| Step::Node(at, zone, rack)),
        1 => (0..NODES).prop_map(Step::NodeGone),
        1 => (0..NAMESPACES.len(), prop::option::of(any::<bool>())).prop_map(|(at, team)| Step::Namespace(at, team)),
    ]
}

fn name(at: u8) -> Arc<str> {
    Arc::from(format!("n{at}"))
}

fn facts(uid: &Uid, pod: &TestPod) -> PodFacts {
    PodFacts {
        uid: uid.clone(),
        labels: pod.labels.clone(),
        terms: Arc::new(pod.terms.clone()),
        deleting: pod.leaving,
        ..testing::pod(NAMESPACES[pod.namespace], "p", "g", &[])
    }
}

/// The cluster as lists.
#[derive(Clone, Default)]
struct Lists {
    nodes: BTreeMap<u8, NodeFacts>,
    pods: BTreeMap<u8, TestPod>,
    namespaces: BTreeMap<usize, BTreeMap<String, String>>,
}

impl Lists {
    fn selects(&self, selector: &PodSelector, pod: &TestPod) -> bool {
        let none = BTreeMap::new();
        selector.matches(NAMESPACES[pod.namespace], self.namespaces.get(&pod.namespace).unwrap_or(&none), &pod.labels)
    }

    /// The pods on nodes that exist.
    fn placed(&self) -> impl Iterator<Item = (&TestPod, &NodeFacts)> {
        self.pods.values().filter_map(|pod| Some((pod, self.nodes.get(&pod.node?)?)))
    }

    /// The same cluster with the nominated pods of only these nodes.
    fn with_nominated_on(&self, is_on: impl Fn(&NodeFacts) -> bool) -> Self {
        let mut other = self.clone();
        let stays = |pod: &TestPod| !pod.nominated || pod.node.and_then(|node| self.nodes.get(&node)).is_some_and(&is_on);
        other.pods.retain(|_, pod| stays(pod));
        other
    }

    /// Why the node refuses the pod, in each of the clusters that may come of it: all nominated pods come, or none. For spread, also only
    /// those in the domain come.
    fn refusals(&self, pod: &TestPod, node: &NodeFacts) -> BTreeSet<Option<Reason>> {
        let spread = TestPod { terms: PodTerms { spread: pod.terms.spread.clone(), ..PodTerms::default() }, ..pod.clone() };
        let in_domain =
            |key: &str| self.with_nominated_on(|other| other.labels.get(key).is_some_and(|value| node.labels.get(key) == Some(value)));
        let skewed = KEYS.iter().filter_map(|key| in_domain(key).refusal(&spread, node)).map(Some);
        [self.refusal(pod, node), self.with_nominated_on(|_| false).refusal(pod, node)].into_iter().chain(skewed).collect()
    }

    /// Why the node refuses the pod, by the texts of kube-scheduler's plugins.
    fn refusal(&self, pod: &TestPod, node: &NodeFacts) -> Option<Reason> {
        let here = self.placed().filter(|(_, at)| at.name == node.name).flat_map(|(other, _)| &other.terms.host_ports);
        let mut pairs = here.flat_map(|taken| pod.terms.host_ports.iter().map(move |asked| (taken, asked)));
        let any_address = |taken: &HostPort, asked: &HostPort| taken.address.is_none() || asked.address.is_none();
        if pairs.any(|(taken, asked)| {
            (taken.port, &taken.protocol) == (asked.port, &asked.protocol) && (any_address(taken, asked) || taken.address == asked.address)
        }) {
            return Some(Reason::HostPorts);
        }
        let label = |node: &NodeFacts, key: &str| node.labels.get(key).cloned();
        let spread = &pod.terms.spread;
        let has_all = |node: &NodeFacts| spread.iter().all(|one| node.labels.contains_key(&*one.topology_key));
        for one in spread {
            let topology_key = one.topology_key.to_string();
            let Some(here) = label(node, &topology_key) else { return Some(Reason::TopologySpreadLabel { topology_key }) };
            let mut counts: BTreeMap<String, u32> = BTreeMap::new();
            for other in self.nodes.values().filter(|other| has_all(other)) {
                counts.entry(label(other, &topology_key).unwrap()).or_default();
            }
            let counted = |other: &TestPod| !one.pods.labels.is_everything() && !other.leaving && self.selects(&one.pods, other);
            for (_, at) in self.placed().filter(|(other, at)| counted(other) && has_all(at)) {
                *counts.entry(label(at, &topology_key).unwrap()).or_default() += 1;
            }
            let least = if counts.len() < one.min_domains as usize { 0 } else { *counts.values().min().unwrap() };
            let own = u32::from(self.selects(&one.pods, pod));
            if counts.get(&here).copied().unwrap_or(0) + own > least + one.max_skew {
                return Some(Reason::TopologySpread { topology_key });
            }
        }
        let matches_all = |other: &TestPod| pod.terms.affinity.iter().all(|term| self.selects(&term.pods, other));
        let with = |key: &str, value: &str| self.placed().any(|(other, at)| matches_all(other) && label(at, key).as_deref() == Some(value));
        let any = pod
            .terms
            .affinity
            .iter()
            .any(|term| self.placed().any(|(other, at)| matches_all(other) && at.labels.contains_key(&*term.topology_key)));
        let may_be_first = !any && matches_all(pod);
        for term in &pod.terms.affinity {
            let topology_key = term.topology_key.to_string();
            let holds = label(node, &topology_key).is_some_and(|here| may_be_first || with(&topology_key, &here));
            if !holds {
                return Some(Reason::PodAffinity { topology_key });
            }
        }
        let same = |key: &str, at: &NodeFacts| label(node, key).is_some() && label(node, key) == label(at, key);
        for term in &pod.terms.anti_affinity {
            if self.placed().any(|(other, at)| self.selects(&term.pods, other) && same(&term.topology_key, at)) {
                return Some(Reason::PodAntiAffinity { topology_key: term.topology_key.to_string() });
            }
        }
        let against = self.placed().flat_map(|(other, at)| other.terms.anti_affinity.iter().map(move |term| (term, at)));
        let closed: BTreeSet<&str> = against
            .filter(|(term, at)| self.selects(&term.pods, pod) && same(&term.topology_key, at))
            .map(|(term, _)| &*term.topology_key)
            .collect();
        closed.first().map(|key| Reason::ExistingAntiAffinity { topology_key: (*key).to_owned() })
    }
}

/// Both, driven by the same steps.
#[derive(Default)]
struct Both {
    lists: Lists,
    nodes: Nodes,
    placed: PlacedPods,
    domains: Domains,
}

impl Both {
    fn apply(&mut self, step: Step) {
        let uid = |at: u8| Uid::from(format!("pod-{at}").as_str());
        match step {
            Step::Pod(at, pod) => {
                self.placed.learn(&facts(&uid(at), &pod));
                match pod.node {
                    Some(node) => self.placed.put(&uid(at), Place { node: name(node), is_nominated: pod.nominated }),
                    None => _ = self.placed.take(&uid(at)),
                }
                self.lists.pods.insert(at, pod);
            }
            Step::PodGone(at) => {
                self.placed.forget(&uid(at));
                self.lists.pods.remove(&at);
            }
            Step::Moved(at, node) => {
                let Some(pod) = self.lists.pods.get_mut(&at) else { return };
                (pod.node, pod.nominated) = (node, false);
                match node {
                    Some(node) => self.placed.put(&uid(at), Place { node: name(node), is_nominated: false }),
                    None => _ = self.placed.take(&uid(at)),
                }
            }
            Step::Node(at, zone, rack) => {
                let mut facts = node(&name(at), &[("cpu", 1)]);
                let labels = [("host", Some(at)), ("zone", zone), ("rack", rack)];
                facts.labels = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_string()))).collect();
                self.nodes.upsert(facts.clone());
                self.placed.set_node(&name(at), self.nodes.id(&name(at)));
                self.lists.nodes.insert(at, facts);
            }
            Step::NodeGone(at) => {
                self.nodes.remove(&name(at));
                self.placed.set_node(&name(at), None);
                self.lists.nodes.remove(&at);
            }
            Step::Namespace(at, team) => {
                let labels = team.map(|team| team.then(|| ("team".to_owned(), "a".to_owned())).into_iter().collect());
                self.placed.set_namespace(NAMESPACES[at], labels.clone());
                match labels {
                    Some(labels) => _ = self.lists.namespaces.insert(at, labels),
                    None => _ = self.lists.namespaces.remove(&at),
                }
            }
        }
    }

    /// Compares the verdicts about a pod that comes.
    fn compare(&mut self, pod: &TestPod) -> Result<(), TestCaseError> {
        let uid = Uid::from("asking");
        self.placed.learn(&facts(&uid, &TestPod { leaving: false, ..pod.clone() }));
        let set = self.placed.set_of(&uid).unwrap();
        let terms = ClassTerms::join(&pod.terms, None, set, &mut self.placed);
        let facts = Facts { nodes: &self.nodes, placed: &self.placed, domains: &mut self.domains };
        let verdict = Verdict::of(&terms, &vec![None; terms.spread.len()], facts);
        for facts in self.lists.nodes.values() {
            let id = self.nodes.id(&facts.name).unwrap();
            // Which of several pods that are there is named first is of no interest.
            let plain = |mut reason: Reason| {
                if let Reason::ExistingAntiAffinity { topology_key } = &mut reason {
                    topology_key.clear();
                }
                reason
            };
            let found = if verdict.has_port_taken(id) { Some(Reason::HostPorts) } else { verdict.refusal(id).cloned() };
            let found = found.map(plain);
            let by_the_rules: BTreeSet<Option<Reason>> =
                self.lists.refusals(pod, facts).into_iter().map(|reason| reason.map(plain)).collect();
            // The node must take the pod whichever of the nominated pods come. Which of several reasons is named is of no interest.
            match by_the_rules.first().filter(|_| by_the_rules.len() == 1) {
                Some(one) => prop_assert_eq!(&found, one, "on {} for {:?}", facts.name, pod),
                None => prop_assert!(found.is_some(), "on {} for {:?}: {:?}", facts.name, pod, by_the_rules),
            }
        }
        terms.leave(&mut self.placed);
        self.placed.forget(&uid);
        Ok(())
    }
}

proptest! {
    #![proptest_config(crate::random_tests::config(400))]

    #[test]
    fn property_the_verdict_is_that_of_the_rules(steps in prop::collection::vec(step(), 1..60), asking in prop::collection::vec(test_pod(), 1..4)) {
        let mut both = Both::default();
        for step in steps {
            both.apply(step);
            for pod in &asking {
                both.compare(pod)?;
            }
        }
        let everything: Vec<Step> = (0..PODS).map(Step::PodGone).chain((0..NODES).map(Step::NodeGone)).collect();
        everything.into_iter().for_each(|step| both.apply(step));
        prop_assert!(both.placed.is_empty(), "{:?}", both.placed);
    }
}
