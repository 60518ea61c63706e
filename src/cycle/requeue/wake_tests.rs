//! Which PodGroups does a change of a node wake, by what their members require of other pods?

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Requeue;
use super::wake::woken;
use crate::api::node::Taint;
use crate::api::pod_terms::{HostPort, PodPreferences, PodTerms, SpreadConstraint};
use crate::api::{NodeFacts, PodFacts};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::empty_state;
use crate::cycle::testing::worlds::{HOST, ZONE, app, term, zoned};
use crate::cycle::testing::{PEACEFUL, group, pod, running};
use crate::resources::Amount;

/// A node in zone `a` that takes no pod, so that its own room wakes none.
fn full() -> NodeFacts {
    NodeFacts {
        labels: [(ZONE, "a"), (HOST, "n0"), ("team", "x")].map(|(key, value)| (key.into(), value.into())).into(),
        ..zoned("n0", "a", 0)
    }
}

/// Beside it a node with room in zone `b`, and on that what refuses each of these PodGroups. Their members differ, so nodes are not looked
/// at before they are woken.
fn waiting() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(full());
    state.apply_node(zoned("n1", "b", 8));
    let port = BTreeSet::from([HostPort { port: 80, protocol: "TCP".into(), address: None }]);
    let spread = SpreadConstraint {
        pods: app("s"),
        topology_key: ZONE.into(),
        max_skew: 1,
        min_domains: 1,
        honors_node_affinity: true,
        honors_taints: false,
    };
    // As the terms of `beside` and `spread`, but none of these refuses a node.
    let prefers = PodPreferences { others: vec![(1, term("x", ZONE))], spread: vec![spread.clone()], ..PodPreferences::default() };
    let none = PodTerms::default;
    for (label, terms) in [
        ("s", none()),
        ("y", none()),
        ("keeps", PodTerms { anti_affinity: vec![term("k", ZONE)], ..none() }),
        ("port", PodTerms { host_ports: port.clone(), ..none() }),
    ] {
        let mut facts = running(pod("ns", label, "theirs", &[]), "n1");
        facts.labels.insert("app".into(), label.into());
        state.apply_pod(PodFacts { scheduler: "another".into(), names_group: false, terms: Arc::new(terms), ..facts });
    }
    for (name, label, terms) in [
        ("beside", "w", PodTerms { affinity: vec![term("x", ZONE)], ..none() }),
        ("apart", "w", PodTerms { anti_affinity: vec![term("y", HOST)], ..none() }),
        ("kept", "k", none()),
        ("spread", "s", PodTerms { spread: vec![spread.clone()], ..none() }),
        ("selects", "s", PodTerms { spread: vec![spread], ..none() }),
        ("port", "w", PodTerms { host_ports: port, ..none() }),
        ("large", "w", none()),
        ("prefers", "w", PodTerms { preferences: Some(Arc::new(prefers)), ..none() }),
    ] {
        let (terms, more) = (Arc::new(terms), if ["large", "prefers"].contains(&name) { 8 } else { 0 });
        state.apply_group(group("ns", name, 2, "default"));
        for cpu in [1, 2] {
            let mut facts = pod("ns", &format!("{name}-{cpu}"), name, &[("cpu", cpu + more)]);
            facts.labels.insert("app".into(), label.into());
            if name == "selects" {
                facts.constraints.node_selector.insert(ZONE.into(), "b".into());
                facts.constraints.node_selector.insert("team".into(), "x".into());
            }
            state.apply_pod(PodFacts { terms: Arc::clone(&terms), ..facts });
        }
    }
    let plan = crate::cycle::run(&mut state, &PEACEFUL, Duration::ZERO);
    assert_eq!((plan.binds.len(), plan.tried.len()), (0, 8));
    state
}

#[test]
fn a_change_of_a_node_wakes_the_podgroups_that_it_may_help() {
    let with = |key: &str, value: &str| {
        let mut facts = full();
        facts.labels.insert(key.to_owned(), value.to_owned());
        facts
    };
    let without = |key: &str| {
        let mut facts = full();
        facts.labels.remove(key);
        facts
    };
    let tainted = NodeFacts { taints: vec![Taint { key: "t".into(), value: None, effect: "NoSchedule".into() }], ..full() };
    let beside = zoned("n2", "c", 0);
    let cordoned = NodeFacts { unschedulable: true, ..full() };
    let larger = NodeFacts { allocatable: full().allocatable.with("gpu", Amount::from_units(1)), ..full() };
    let all: &[&str] = &["apart", "beside", "kept", "large", "port", "prefers", "selects", "spread"];
    let cases: [(&str, NodeFacts, &[&str]); 10] = [
        ("the same", full(), &[]),
        ("a cordon", cordoned, &[]),
        // A queue may have refused one of the members, which differ.
        ("more for the queues", larger, all),
        // The nodes that count for its spread are those that it selects.
        ("a label that no term names", with("other", "x"), &["selects"]),
        ("a label that is selected by", with("team", "y"), &["selects"]),
        ("another zone", with(ZONE, "c"), &["beside", "kept", "selects", "spread"]),
        ("no zone", without(ZONE), &["beside", "kept", "selects", "spread"]),
        ("another host", with(HOST, "n9"), &["apart", "selects"]),
        ("a taint", tainted, &["apart", "beside", "kept", "port", "selects", "spread"]),
        ("a new node", beside, all),
    ];
    for (what, node, expected) in cases {
        let mut state = waiting();
        state.apply_node(node);
        let Requeue { changes, parked, .. } = &mut state.requeue;
        let woken = woken(changes, parked, &state.cache);
        let names: BTreeSet<&str> = woken.iter().map(|key| key.name.as_ref()).collect();
        assert_eq!(names, expected.iter().copied().collect(), "{what}");
    }
}
