//! What other pods mean to a preemption: ports, affinity, anti-affinity and spread.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::api::PodFacts;
use crate::api::pod_terms::PodTerms;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::other_pods::{asks, beside, foreign, key, none, of, runs, spread, with_port};
use crate::cycle::testing::steps::{bound, empty_state, message};
use crate::cycle::testing::worlds::{self, HOST, Pods, Tasks, ZONE, before, check, exists, members, zoned};
use crate::cycle::testing::{PEACEFUL, POLICY, group, keeps_away, running};
use crate::cycle::*;

/// The pod is bound when these are gone.
fn is_bound_without(state: &mut SchedulingState, victims: &[String]) {
    victims.iter().for_each(|name| state.delete_pod(&format!("ns/{name}").as_str().into()));
    assert_eq!(bound(&run(state, &POLICY, Duration::ZERO)).len(), 1, "{}", message(state, "g"));
}

/// Zone `a` with `n0`, zone `b` with `n1`.
fn two_zones() -> SchedulingState {
    let mut state = empty_state();
    [zoned("n0", "a", 8), zoned("n1", "b", 8)].into_iter().for_each(|node| state.apply_node(node));
    state
}

#[test]
fn a_pod_is_preempted_for_its_host_port() {
    let mut state = two_zones();
    runs(&mut state, 0, of("bystander", "x", 1, &none()), "n0");
    runs(&mut state, 1, of("has-port", "x", 1, &with_port()), "n0");
    runs(&mut state, 20, of("too-high", "x", 1, &with_port()), "n1");
    let (_, victims) = asks(&mut state, of("g-0", "g", 1, &with_port()));
    assert_eq!(victims, ["has-port"], "{}", message(&state, "g"));
    is_bound_without(&mut state, &victims);
}

#[test]
fn pods_are_preempted_that_skew_the_spread() {
    let mut state = two_zones();
    runs(&mut state, 0, of("bystander", "y", 1, &none()), "n0");
    runs(&mut state, 1, of("x0", "x", 1, &none()), "n0");
    runs(&mut state, 1, of("x1", "x", 1, &none()), "n0");
    state.apply_pod(foreign(running(of("full", "y", 8, &none()), "n1")));
    let (_, victims) = asks(&mut state, of("g-0", "x", 1, &spread("x")));
    assert_eq!(victims, ["x0", "x1"], "{}", message(&state, "g"));
    is_bound_without(&mut state, &victims);
    // Pods of others skew it alone.
    let mut state = two_zones();
    runs(&mut state, 1, of("x0", "x", 1, &none()), "n0");
    state.apply_pod(foreign(running(of("skews", "x", 1, &none()), "n0")));
    state.apply_pod(foreign(running(of("full", "y", 8, &none()), "n1")));
    assert_eq!(asks(&mut state, of("g-0", "x", 1, &spread("x"))), (0, vec![]));
}

#[test]
fn a_spread_holds_whichever_of_the_nominated_pods_come() {
    let mut state = two_zones();
    for node in ["n0", "n1"] {
        let nominated = PodFacts { nominated_node: Some(node.into()), priority: 10, ..foreign(of(node, "x", 1, &none())) };
        state.apply_pod(nominated);
    }
    // If one of them comes and the other does not, a third one beside it is too many.
    assert_eq!(asks(&mut state, of("g-0", "x", 1, &spread("x"))), (0, vec![]));
    state.delete_pod(&"ns/n1".into());
    assert_eq!(bound(&run(&mut state, &POLICY, Duration::ZERO)), [("g-0", "n1")], "{}", message(&state, "g"));
}

#[test]
fn a_pod_is_preempted_that_keeps_others_away_or_must_be_kept_away_from() {
    let away = keeps_away("ns", ("app", "db"), ZONE);
    for (theirs, ours) in
        [(of("in-the-way", "db", 1, &none()), of("g-0", "g", 1, &away)), (of("in-the-way", "x", 1, &away), of("g-0", "db", 1, &none()))]
    {
        let mut state = two_zones();
        state.apply_node(zoned("n2", "a", 8));
        runs(&mut state, 0, of("bystander", "x", 1, &none()), "n0");
        // It is on another node of the zone.
        runs(&mut state, 1, theirs, "n2");
        state.apply_pod(foreign(running(of("full", "y", 8, &none()), "n1")));
        let (_, victims) = asks(&mut state, ours);
        assert_eq!(victims, ["in-the-way"], "{}", message(&state, "g"));
        is_bound_without(&mut state, &victims);
    }
}

/// Without all candidates the gang has no node, and without one of them it has.
#[test]
fn a_pod_is_preempted_where_more_victims_would_be_worse() {
    let mut state = empty_state();
    [("n0", "a", 8), ("n1", "b", 8), ("n2", "c", 8)].into_iter().for_each(|(name, zone, cpu)| state.apply_node(zoned(name, zone, cpu)));
    let mut only = zoned("n3", "a", 4);
    only.labels.insert("only".into(), "this".into());
    state.apply_node(only);
    state.apply_pod(foreign(running(of("theirs", "x", 1, &none()), "n0")));
    runs(&mut state, 0, of("x1", "x", 1, &none()), "n1");
    runs(&mut state, 0, of("x2", "x", 1, &none()), "n2");
    runs(&mut state, 1, of("fills", "y", 4, &none()), "n3");
    let mut terms = PodTerms::clone(&spread("x"));
    terms.spread[0].honors_node_affinity = false;
    let mut asking = of("g-0", "x", 4, &Arc::new(terms));
    asking.constraints.node_selector.insert("only".into(), "this".into());
    let (_, victims) = asks(&mut state, asking);
    assert_eq!(victims, ["fills"], "{}", message(&state, "g"));
    is_bound_without(&mut state, &victims);
    // One of two pods must go, and one must stay.
    let mut state = empty_state();
    state.apply_node(zoned("n0", "a", 4));
    runs(&mut state, 0, of("db0", "db", 2, &none()), "n0");
    runs(&mut state, 1, of("db1", "db", 2, &none()), "n0");
    let (_, victims) = asks(&mut state, of("g-0", "g", 2, &beside("db", HOST)));
    assert_eq!(victims, ["db0"], "{}", message(&state, "g"));
    is_bound_without(&mut state, &victims);
}

#[test]
fn a_pod_that_must_be_beside_the_gang_is_not_preempted_for_it() {
    let mut state = empty_state();
    state.apply_node(zoned("n0", "a", 4));
    runs(&mut state, 0, of("required", "db", 2, &none()), "n0");
    runs(&mut state, 5, of("bystander", "x", 2, &none()), "n0");
    let (_, victims) = asks(&mut state, of("g-0", "g", 2, &beside("db", HOST)));
    assert_eq!(victims, ["bystander"], "{}", message(&state, "g"));
    is_bound_without(&mut state, &victims);
    // Where only the required pod could make room, none is preempted.
    let mut state = empty_state();
    state.apply_node(zoned("n0", "a", 4));
    runs(&mut state, 0, of("required", "db", 4, &none()), "n0");
    assert_eq!(asks(&mut state, of("g-0", "g", 2, &beside("db", HOST))), (0, vec![]));
    // Nor where the required pod is nowhere.
    let mut state = empty_state();
    state.apply_node(zoned("n0", "a", 4));
    runs(&mut state, 0, of("runs", "x", 4, &none()), "n0");
    assert_eq!(asks(&mut state, of("g-0", "g", 2, &beside("db", HOST))), (0, vec![]));
}

/// Our pods of a lower priority, of these kinds, on these nodes.
fn victims() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..3_u8, 0..4_u8), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(1_000) })]
    #[test]
    fn pods_are_preempted_for_a_gang_if_that_helps_and_never_for_nothing(world in worlds::world(), victims in victims()) {
        let mut state = worlds::state(&world, Tasks::default());
        let mut pods: Vec<(String, (usize, u8))> = Vec::new();
        for (at, (of, node)) in victims.iter().enumerate().filter(|(_, (_, node))| usize::from(*node) < world.0.len()) {
            let facts = worlds::facts(&world.1, *of, &format!("v-{at}"));
            state.apply_group(group("ns", &format!("v{at}"), 1, "default"));
            state.apply_pod(PodFacts { priority: -1, group: key(&format!("v{at}")), ..running(facts, &format!("n{node}")) });
            pods.push((format!("v-{at}"), (usize::from(*node), *of)));
        }
        let with = |stays: &dyn Fn(&str) -> bool| {
            let mut all: Pods = before(&world);
            pods.iter().filter(|(name, _)| stays(name)).for_each(|(_, place)| *all.entry(*place).or_default() += 1);
            all
        };
        let could = |stays: &dyn Fn(&str) -> bool| exists(&world, &mut with(stays), members(&world), world.3, Tasks::default(), &mut BTreeSet::new());
        let plan = run(&mut state, &POLICY, Duration::ZERO);
        let gone: BTreeSet<String> = plan.evictions.iter().flat_map(|eviction| &eviction.victims).map(|victim| victim.name.to_string()).collect();
        let needed = world.3 as usize;
        prop_assert_eq!(plan.binds.len() >= needed, could(&|_| true), "{}", message(&state, "g"));
        // Not every choice of members is tried.
        if plan.binds.len() < needed && gone.is_empty() && needed == world.2.len() {
            for some in 0..1_u32 << pods.len() {
                let stays = |name: &str| pods.iter().position(|(known, _)| known == name).is_none_or(|at| some >> at & 1 == 0);
                prop_assert!(!could(&stays), "without {some:b}: {}", message(&state, "g"));
            }
        }
        if plan.binds.len() >= needed {
            prop_assert!(gone.is_empty() || plan.binds.len() < world.2.len());
            return check(&world, with(&|_| true), &plan.binds);
        }
        // Each of them is needed. Where other members may do, these may need more victims than others would.
        for name in gone.iter().filter(|_| needed == world.2.len()) {
            prop_assert!(!could(&|other| other == name || !gone.contains(other)), "{name} of {gone:?}");
        }
        if !gone.is_empty() {
            gone.iter().for_each(|name| state.delete_pod(&format!("ns/{name}").as_str().into()));
            let plan = run(&mut state, &PEACEFUL, Duration::ZERO);
            prop_assert!(plan.binds.len() >= needed, "{}", message(&state, "g"));
            check(&world, with(&|name| !gone.contains(name)), &plan.binds)?;
        }
    }
}
