//! The node table and the shortlists have the same results as a check of every node, after random changes and for random requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::accounting::Ledger;
use crate::api::images::{NodeImage, PodImages};
use crate::api::node::Taint;
use crate::api::pod::Toleration;
use crate::api::pod_terms::PodTerms;
use crate::api::{NodeFacts, PodFacts, Uid};
use crate::cycle::explain::Reason;
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::placement::class::Classes;
use crate::cycle::placement::filter::Query;
use crate::cycle::placement::finder::{Asks, MOST_LISTS, NodeFinder, each_node, fitting_of_each, tally_of_each};
use crate::cycle::placement::images::KnownPoints;
use crate::cycle::placement::node_set::NodeSet;
use crate::cycle::placement::node_table::NodeTable;
use crate::cycle::placement::nodes::{NodeId, Nodes};
use crate::cycle::placement::score::Score;
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::placement::topology::place::Place;
use crate::cycle::placement::topology::placed::PlacedPods;
use crate::cycle::placement::topology::verdict::Verdict;
use crate::cycle::placement::weigh::ZONE;
use crate::cycle::testing::{node, pod};
use crate::resources::{Amount, Resources};

/// A change of a node, or a request of a pod.
#[derive(Clone, Debug)]
enum Step {
    /// It offers so much cpu, so many devices, is of a zone, and is tainted or cordoned.
    Node(u8, i64, i64, bool, u8),
    Gone(u8),
    /// So much more is used on it.
    Charged(u8, u8, i64, i64),
    Released(u8),
    /// It has these images, one for each bit.
    Images(u8, u8),
    /// Cpu, devices, further resources, a zone wanted, taints borne, and a node that is tried last.
    Asks(i64, i64, u8, bool, bool, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let any_node = 0..7_u8;
    prop_oneof![
        (any_node.clone(), 0..40_i64, 0..3_i64, any::<bool>(), 0..6_u8)
            .prop_map(|(n, cpu, gpus, zone, odd)| Step::Node(n, cpu, gpus, zone, odd)),
        any_node.clone().prop_map(Step::Gone),
        (0..20_u8, any_node.clone(), 0..13_i64, 0..2_i64).prop_map(|(p, n, cpu, gpus)| Step::Charged(p, n, cpu, gpus)),
        (0..20_u8, any_node, 0..13_i64, Just(0)).prop_map(|(p, n, cpu, gpus)| Step::Charged(p, n, cpu, gpus)),
        (0..20_u8).prop_map(Step::Released),
        (0..7_u8, 0..8_u8).prop_map(|(n, images)| Step::Images(n, images)),
        (0..15_i64, 0..2_i64, 0..12_u8, any::<bool>(), any::<bool>(), prop::option::of(0..7_u8))
            .prop_map(|(cpu, gpus, further, zone, bears, last)| Step::Asks(cpu, gpus, further, zone, bears, last)),
        (0..15_i64, 0..2_i64, any::<bool>()).prop_map(|(cpu, gpus, zone)| Step::Asks(cpu, gpus, 0, zone, false, None)),
        // The same question again and again, which a shortlist answers.
        Just(Step::Asks(2, 0, 0, false, false, None)),
        Just(Step::Asks(2, 0, 0, false, false, None)),
        Just(Step::Asks(2, 0, 0, false, false, None)),
        Just(Step::Asks(1, 1, 0, false, false, None)),
        Just(Step::Asks(1, 1, 0, false, false, None)),
    ]
}

/// Thirds of a unit, so that divisions leave remainders.
fn thirds(number: i64) -> Amount {
    Amount::from_nanos(i128::from(number) * 1_000_000_007 / 3)
}

fn facts(n: u8, cpu: i64, gpus: i64, zone: bool, odd: u8) -> NodeFacts {
    let mut facts = node(&format!("n{n}"), &[]);
    // 0 is not stored, and what is beyond all measure must be right as well.
    let cpu = if odd == 5 { Amount::MAX } else { thirds(cpu) };
    facts.allocatable = facts
        .allocatable
        .with("cpu", cpu)
        .with("x.y/gpu", Amount::from_units(gpus))
        .with("x.y/nic", Amount::from_units(i64::from(odd == 3)));
    facts.labels.insert("zone".into(), if zone { "a" } else { "b" }.into());
    facts.labels.insert(ZONE.into(), if zone { "a" } else { "b" }.into());
    facts.unschedulable = odd == 1;
    facts.taints.extend((odd == 2).then(|| Taint { key: "k".into(), value: None, effect: "NoSchedule".into() }));
    facts.soft_taints.extend((odd == 4).then(|| Taint { key: "k".into(), value: None, effect: "PreferNoSchedule".into() }));
    facts
}

fn asks(cpu: i64, gpus: i64, further: u8, zone: bool, bears: bool) -> PodFacts {
    let mut asks = pod("ns", "p", "g", &[]);
    asks.request = asks.request.with("cpu", thirds(cpu)).with("x.y/gpu", Amount::from_units(gpus));
    for number in 0..further {
        asks.request.set(format!("x.y/further-{number}"), Amount::from_units(1));
    }
    if zone {
        asks.constraints.node_selector.insert("zone".into(), "a".into());
    }
    if bears {
        asks.constraints.tolerations.push(Toleration { operator: Some("Exists".into()), ..Toleration::default() });
    }
    asks
}

/// The UID of the controller of all replicas.
const CONTROLLER: &str = "controller";

/// A pod that is spread by default with all others of these.
fn replica(p: u8) -> PodFacts {
    let mut replica = pod("ns", &p.to_string(), "replicas", &[]);
    replica.terms = Arc::new(PodTerms { replica_of: Some(Uid::from(CONTROLLER)), ..PodTerms::default() });
    replica
}

/// The node for one replica more among the best nodes, by the replicas on each node.
fn for_replica(every: &[(Score, NodeId)], last: &BTreeSet<NodeId>, nodes: &Nodes, on: &BTreeMap<u8, u8>) -> Option<NodeId> {
    let zone = |id: NodeId| nodes.get(id).and_then(|facts| facts.labels.get(ZONE)).cloned();
    let pods = |(score, id): &&(Score, NodeId)| {
        let at = || on.values().filter_map(|n| nodes.id(&format!("n{n}")));
        let in_zone = at().filter(|other| zone(*other) == zone(*id)).count();
        (score.wasted(), at().filter(|other| other == id).count(), if zone(*id).is_some() { in_zone } else { 0 })
    };
    every.iter().take(32).filter(|(_, id)| !last.contains(id)).min_by_key(pods).map(|(_, id)| *id)
}

/// The names and sizes of all images; each is above and below what counts, by the number of nodes that have it.
const IMAGES: [(&str, u64); 3] = [("a:1", 60 << 20), ("b:1", 2_000 << 20), ("c:1", 300 << 20)];

fn images_of(bits: u8) -> Vec<NodeImage> {
    let all = IMAGES.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
    all.map(|(_, (name, size))| NodeImage { name: Arc::from(*name), size: *size }).collect()
}

/// What each node lacks of all points for a pod that needs two of the images, by the rule and for each node anew.
fn lacking(nodes: &Nodes, has: &BTreeMap<u8, u8>) -> BTreeMap<NodeId, u32> {
    let there: Vec<u8> = (0..7).filter(|n| nodes.id(&format!("n{n}")).is_some()).collect();
    let bits = |n: &u8| has.get(n).copied().unwrap_or(0);
    let size = |at: usize| IMAGES[at].1 * there.iter().filter(|n| bits(n) & (1 << at) != 0).count() as u64 / there.len() as u64;
    let lacks = |n: &u8| {
        let sum: u64 = [0, 1].into_iter().filter(|at| bits(n) & (1 << at) != 0).map(size).sum();
        let (least, most) = (23 << 20, 2 * (1_000 << 20));
        let points = (sum.clamp(least, most) - least) * 1_000_000 / (most - least);
        (nodes.id(&format!("n{n}")).unwrap(), 1_000_000 - u32::try_from(points).unwrap())
    };
    there.iter().map(lacks).collect()
}

proptest! {
    #![proptest_config(crate::random_tests::config(512))]

    #[test]
    fn the_finder_says_what_asking_every_node_says(steps in prop::collection::vec(step(), 1..80), strategy in 0..3_u8) {
        let (mut nodes, mut ledger, mut placed, mut classes) =
            (Nodes::default(), Ledger::new(), PlacedPods::default(), Classes::default());
        // Of one the shortlists are as long as there are nodes or not, of one there are none.
        let mut finders = [1, 2, 3, 1_000].map(|users| (users, NodeFinder::default()));
        // The images of each node.
        let mut has: BTreeMap<u8, u8> = BTreeMap::new();
        let needed = Arc::new(PodImages { containers: 2, names: IMAGES[..2].iter().map(|(name, _)| Arc::from(*name)).collect() });
        let mut known = KnownPoints::default();
        // The node of each replica.
        let mut on: BTreeMap<u8, u8> = BTreeMap::new();
        let controller = Uid::from(CONTROLLER);
        // It remembers how full the nodes were for the last request.
        let mut kept = NodeTable::default();
        let strategy = [NodeStrategy::Auto, NodeStrategy::Spread, NodeStrategy::Pack][usize::from(strategy)];
        let all = (0..7_u8).map(|n| Step::Node(n, 20 + i64::from(n), 0, true, 0));
        for step in all.chain(steps) {
            match step {
                Step::Node(n, cpu, gpus, zone, odd) => {
                    let facts = facts(n, cpu, gpus, zone, odd);
                    ledger.node_upsert(&facts.name, facts.allocatable.clone());
                    let name = Arc::clone(&facts.name);
                    placed.set_offers(&name, Some(&facts.allocatable));
                    nodes.upsert(facts);
                    placed.set_node(&name, nodes.id(&name));
                }
                Step::Gone(n) => {
                    placed.set_node(&Arc::from(format!("n{n}")), None);
                    placed.set_offers(&Arc::from(format!("n{n}")), None);
                    ledger.node_delete(&format!("n{n}"));
                    nodes.remove(&format!("n{n}"));
                    has.remove(&n);
                }
                Step::Images(n, images) => {
                    if nodes.id(&format!("n{n}")).is_some() {
                        nodes.set_images(&format!("n{n}"), &images_of(images));
                        has.insert(n, images);
                    }
                }
                Step::Charged(p, n, cpu, gpus) => {
                    let uid = Uid::from(p.to_string());
                    if let Some(old) = ledger.charge_of(&uid).and_then(|(node, _)| node.map(str::to_owned)) {
                        nodes.touch_name(&old);
                    }
                    let used = Resources::new().with("cpu", thirds(cpu)).with("x.y/gpu", Amount::from_units(gpus)).with("pods", Amount::from_units(1));
                    ledger.charge(&uid, Some(&format!("n{n}")), used, false);
                    nodes.touch_name(&format!("n{n}"));
                    placed.learn(&replica(p));
                    placed.put(&replica(p).uid, Place::on(&format!("n{n}")));
                    on.insert(p, n);
                }
                Step::Released(p) => {
                    placed.forget(&replica(p).uid);
                    on.remove(&p);
                    let uid = Uid::from(p.to_string());
                    if let Some(old) = ledger.charge_of(&uid).and_then(|(node, _)| node.map(str::to_owned)) {
                        ledger.release(&uid);
                        nodes.touch_name(&old);
                    }
                }
                Step::Asks(cpu, gpus, further, zone, bears, last) => {
                    let pod = asks(cpu, gpus, further, zone, bears);
                    placed.learn(&pod);
                    let id = classes.join(&pod, &mut placed);
                    let class = classes.get(id).unwrap();
                    let none = BTreeSet::new();
                    let snapshot = Snapshot { nodes: &nodes, ledger: &ledger, placed: &placed, strategy, barred: &none };
                    let last: BTreeSet<_> = last.and_then(|n| nodes.id(&format!("n{n}"))).into_iter().collect();
                    let points = known.of(&needed, &nodes);
                    let lacking = lacking(&nodes, &has);
                    match &points {
                        Some(points) => lacking.iter().for_each(|(id, lacking)| assert_eq!(points.lacking(*id), *lacking)),
                        None => prop_assert!(lacking.values().all(|one| Some(one) == lacking.values().next()), "{:?}", lacking),
                    }
                    let set = NodeSet::new(Reason::NodeSelector, nodes.ids().filter(|id| id.index() % 2 == 0));
                    for (images, within) in [(None, None), (Some(&needed), None), (None, Some(&set))] {
                        let verdict = Verdict::default().within(within);
                        let query = Query { images: points.as_deref().filter(|_| images.is_some()), ..Query::of(class, &verdict, snapshot) };
                        let every = each_node(&query, &BTreeSet::new(), usize::MAX, snapshot);
                        let best = every.iter().find(|(_, id)| !last.contains(id)).or(every.first());
                        let truth = best.map(|(_, id)| *id).ok_or_else(|| Arc::new(tally_of_each(&query, snapshot)));
                        for (users, finder) in &mut finders {
                            let asks = Asks { id, class, users: *users, replica_of: None, images, within };
                            prop_assert_eq!(finder.best(asks.clone(), &last, snapshot), truth.clone(), "{} users", users);
                            let of_replica = for_replica(&every, &last, &nodes, &on).map_or_else(|| truth.clone(), Ok);
                            let of_replica = if on.values().any(|n| nodes.id(&format!("n{n}")).is_some()) { of_replica } else { truth.clone() };
                            let asks = Asks { replica_of: Some(&controller), ..asks };
                            prop_assert_eq!(finder.best(asks, &last, snapshot), of_replica, "a replica, {} users", users);
                        }
                        if kept.prepare(&class.request, snapshot) {
                            prop_assert_eq!(kept.fitting(&query, &last, snapshot), fitting_of_each(&query, &last, snapshot));
                        }
                        let mut table = NodeTable::default();
                        if table.prepare(&class.request, snapshot) {
                            prop_assert_eq!(table.scan(&query, &BTreeSet::new(), usize::MAX, snapshot), every);
                            prop_assert_eq!(table.tally(&query, snapshot), tally_of_each(&query, snapshot));
                            prop_assert_eq!(table.fitting(&query, &last, snapshot), fitting_of_each(&query, &last, snapshot));
                            // The same where a node refuses for the sake of other pods, and where the pod is restricted to some nodes.
                            let reason = || Reason::PodAffinity { topology_key: "zone".to_owned() };
                            let refusing = last.iter().flat_map(|node| {
                                let verdict = || Verdict::refusing(*node, reason());
                                [verdict(), verdict().without_ports(), verdict().without_ports().within(Some(&set))]
                            });
                            for verdict in refusing.chain([Verdict::default().within(Some(&set))]) {
                                let query = Query { verdict: &verdict, ..query };
                                let every = each_node(&query, &BTreeSet::new(), usize::MAX, snapshot);
                                prop_assert_eq!(table.takers(&query, snapshot), every.len());
                                prop_assert_eq!(table.scan(&query, &BTreeSet::new(), usize::MAX, snapshot), every);
                                prop_assert_eq!(table.tally(&query, snapshot), tally_of_each(&query, snapshot));
                                prop_assert_eq!(table.fitting(&query, &BTreeSet::new(), snapshot), fitting_of_each(&query, &BTreeSet::new(), snapshot));
                            }
                        } else {
                            let beyond = nodes.iter().any(|node| node.allocatable.get("cpu") == Amount::MAX);
                            prop_assert!(further > 4 || beyond, "the table answers where it can");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn however_many_classes_there_are_the_shortlists_are_bounded() {
    let (mut nodes, mut ledger, mut placed, mut classes) = (Nodes::default(), Ledger::new(), PlacedPods::default(), Classes::default());
    let facts = node("n", &[("cpu", 1_000_000)]);
    ledger.node_upsert(&facts.name, facts.allocatable.clone());
    nodes.upsert(facts);
    let none = BTreeSet::new();
    let mut finder = NodeFinder::default();
    for cpu in 1..=i64::try_from(MOST_LISTS + 5).unwrap() {
        let id = classes.join(&pod("ns", "p", "g", &[("cpu", cpu)]), &mut placed);
        let snapshot = Snapshot { nodes: &nodes, ledger: &ledger, placed: &placed, strategy: NodeStrategy::Spread, barred: &none };
        let asks = |users| Asks { id, class: classes.get(id).unwrap(), users, replica_of: None, images: None, within: None };
        assert!(finder.best(asks(1), &BTreeSet::new(), snapshot).is_ok(), "a pod that is alone in its class leaves nothing behind");
        assert!(finder.best(asks(2), &BTreeSet::new(), snapshot).is_ok());
    }
    assert_eq!(finder.lists(), 5, "when there were too many, all were forgotten");
}
