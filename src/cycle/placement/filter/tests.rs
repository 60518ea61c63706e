//! Tests of the properties that every predicate has.

use std::sync::Arc;

use super::*;
use crate::api::node::Taint;
use crate::api::pod::{NodeRequirement, NodeSelectorTerm};
use crate::api::volumes::{CsiNodeFacts, PodVolumes, VolumeAffinity, VolumeZone};
use crate::cycle::placement::node_set::NodeSet;
use crate::cycle::testing::{amounts, node};

/// The number of predicates. A new predicate needs a case in each test that has one for every predicate.
pub(in crate::cycle) const COUNT: usize = PREDICATES.len();

#[test]
fn a_predicate_refuses_only_where_it_says_that_it_could() {
    let plain = node("plain", &[("cpu", 4)]);
    let mut small = node("small", &[]);
    let mut cordoned = node("cordoned", &[("cpu", 4)]);
    cordoned.unschedulable = true;
    let mut tainted = node("tainted", &[("cpu", 4)]);
    tainted.taints.push(Taint { key: "k".into(), value: None, effect: "NoSchedule".into() });
    small.labels.insert("zone".into(), "a".into());
    let mut grouped = node("grouped", &[("cpu", 4)]);
    grouped.labels.insert(crate::api::names::NODE_GROUP.into(), "others".into());
    let labels = |zone: &str| [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into();
    let mut zoned = node("zoned", &[("cpu", 4)]);
    zoned.labels = labels("a");
    zoned.csi = Some(Arc::new(CsiNodeFacts { limits: [(Arc::from("d"), 1)].into(), ..CsiNodeFacts::default() }));
    let (nothing, zone_a) =
        (Verdict::default(), Verdict::refusing(NodeId::first(), Reason::PodAffinity { topology_key: "zone".to_owned() }));
    let elsewhere = Verdict::default().within(Some(&NodeSet::new(Reason::NodeSelector, [])));
    let (none, others) = (BTreeSet::new(), BTreeSet::from(["others".to_owned()]));
    let selector = Constraints { node_selector: [("disk".to_owned(), "ssd".to_owned())].into(), ..Constraints::default() };
    let requirement = NodeRequirement { key: "disk".into(), operator: "Exists".into(), values: Vec::new() };
    let term = NodeSelectorTerm { match_expressions: vec![requirement], match_fields: Vec::new() };
    let affinity = Constraints { node_affinity: Some(vec![term]), ..Constraints::default() };
    let name = NodeRequirement { key: "metadata.name".into(), operator: "In".into(), values: vec!["other".into()] };
    let term = NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![name] };
    let named = Constraints { node_affinity: Some(vec![term]), ..Constraints::default() };
    let features = Constraints { node_features: ["RestartAllContainersOnContainerExits"].into(), ..Constraints::default() };
    let nowhere = VolumeAffinity { terms: Some(Arc::from([])), migrated: None };
    let zone = VolumeZone { label: "topology.kubernetes.io/zone", present: "topology.kubernetes.io/zone", values: [Arc::from("b")].into() };
    let volumes = |volumes: PodVolumes| Constraints { volumes: Some(Arc::new(volumes)), ..Constraints::default() };
    let mountable = volumes(PodVolumes { affinity: [nowhere].into(), ..PodVolumes::default() });
    let in_zone_b = volumes(PodVolumes { zones: [zone].into(), ..PodVolumes::default() });
    let mut refused = [false; COUNT];
    for facts in [&plain, &small, &cordoned, &tainted, &grouped, &zoned] {
        let used = Resources::new();
        let node = NodeState {
            id: NodeId::first(),
            facts,
            accounting: NodeView { name: &facts.name, allocatable: &facts.allocatable, used: &used },
        };
        for constraints in [&Constraints::default(), &selector, &affinity, &named, &features, &mountable, &in_zone_b] {
            for (verdict, barred) in [(&nothing, &none), (&zone_a, &none), (&elsewhere, &none), (&nothing, &others)] {
                let request = amounts(&[("cpu", 1)]);
                let query = Query { request: &request, constraints, verdict, barred, images: None };
                for (at, predicate) in PREDICATES.iter().enumerate() {
                    let could = predicate.concerns_node(facts) && predicate.concerns_pod(&query);
                    let refuses = predicate.refuses(&query, &node).is_some();
                    assert!(could || !refuses, "predicate {at} refuses on {}", facts.name);
                    refused[at] |= refuses;
                }
                let asks = Concerns::of_node(facts).meet(Concerns::of_pod(&query)) || query.verdict.refuses(node.id);
                let but_amounts = refusal(&query, &node).filter(|no| !matches!(no.reason, Reason::Lacks(_)));
                assert!(asks || but_amounts.is_none(), "the table would not ask about {}", facts.name);
            }
        }
    }
    assert_eq!(refused, [true; COUNT], "each of them refused somewhere");
}
