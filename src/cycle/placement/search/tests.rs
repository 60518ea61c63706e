//! Whatever can be placed is placed: the search against every choice of nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::by_kind::MOST_MEMBERS;
use crate::api::label_selector::LabelSelector;
use crate::api::pod_terms::{HostPort, PodTerms};
use crate::api::{GroupFacts, PodFacts, SubGroupPolicyFacts};
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::plan::Bind;
use crate::cycle::policy::Policy;
use crate::cycle::run;
use crate::cycle::testing::steps::{empty_state, message};
use crate::cycle::testing::worlds::{HOST, Tasks, World, ZONE, before, check, exists, facts, fill, members, state, term, world, zoned};
use crate::cycle::testing::{PEACEFUL, POLICY, group, node, pod, running};

/// Runs a cycle with nodes of these free cpu and a gang of members that ask for these cpu, all of them needed or `needed`.
fn placed(free: &[i64], members: &[i64], needed: Option<u32>) -> usize {
    let mut state = empty_state();
    free.iter().enumerate().for_each(|(at, cpu)| state.apply_node(zoned(&format!("n{at}"), "a", *cpu)));
    state.apply_group(group("ns", "g", needed.unwrap_or(u32::try_from(members.len()).unwrap()), "default"));
    members.iter().enumerate().for_each(|(at, cpu)| state.apply_pod(pod("ns", &format!("g-{at:03}"), "g", &[("cpu", *cpu)])));
    run(&mut state, &PEACEFUL, Duration::ZERO).binds.len()
}

#[test]
fn what_no_order_places_is_placed() {
    assert_eq!(placed(&[6, 4], &[3, 3, 2, 2], None), 4);
    assert_eq!(placed(&[8, 6], &[4, 4, 3, 3], None), 4);
    assert_eq!(placed(&[8, 5], &[4, 4, 3, 2], None), 4);
    assert_eq!(placed(&[8, 6], &[5, 3, 2, 2, 2], None), 5);
    assert_eq!(placed(&[6, 4, 0], &[3, 2, 3, 2, 9], Some(4)), 4);
    // And what does not fit is not.
    assert_eq!(placed(&[5, 5], &[4, 4, 2], None), 0);
}

/// In their own order the helpers take both nodes, in every retry.
#[test]
fn a_worker_that_needs_a_whole_node_gets_it_though_helpers_with_a_device_each_come_first() {
    const GPU: &str = "nvidia.com/gpu";
    let mut state = empty_state();
    ["n0", "n1"].into_iter().for_each(|name| state.apply_node(node(name, &[("cpu", 64), (GPU, 8)])));
    state.apply_group(group("ns", "g", 3, "default"));
    for (name, gpus) in [("g-0", 1), ("g-1", 1), ("g-2", 8)] {
        state.apply_pod(pod("ns", name, "g", &[("cpu", 1), (GPU, gpus)]));
    }
    let plan = run(&mut state, &Policy { placement: NodeStrategy::Spread, ..PEACEFUL }, Duration::ZERO);
    assert_eq!(plan.binds.len(), 3, "{}", message(&state, "g"));
    let node_of = |name: &str| plan.binds.iter().find(|bind| &*bind.name == name).map(|bind| &*bind.node);
    assert_eq!(node_of("g-0"), node_of("g-1"));
    assert_ne!(node_of("g-0"), node_of("g-2"));
}

/// docs/scheduling.md shows it.
#[test]
fn a_gang_beyond_the_bound_is_missed() {
    let pairs = MOST_MEMBERS / 4;
    let gang = |pairs: usize| placed(&[6, 4].repeat(pairs), &[3, 3, 2, 2].repeat(pairs), None);
    assert_eq!((gang(pairs), gang(pairs + 1)), (MOST_MEMBERS, 0));
}

#[test]
fn members_that_are_alike_but_for_labels_that_another_member_asks_for_are_told_apart() {
    let mut state = empty_state();
    // The member `b` asks for `x` in its zone, where only one of the other two fits beside it.
    [zoned("n0", "a", 2), zoned("n1", "b", 4)].into_iter().for_each(|node| state.apply_node(node));
    state.apply_group(group("ns", "g", 3, "default"));
    for (name, label) in [("g-0", "y"), ("g-1", "x")] {
        let mut facts = pod("ns", name, "g", &[("cpu", 2)]);
        facts.labels.insert("app".into(), label.into());
        state.apply_pod(facts);
    }
    let mut facts = pod("ns", "g-2", "g", &[("cpu", 2)]);
    facts.constraints.node_selector.insert(ZONE.into(), "b".into());
    facts.terms = Arc::new(PodTerms { affinity: vec![term("x", ZONE)], ..PodTerms::default() });
    state.apply_pod(facts);
    let plan = run(&mut state, &PEACEFUL, Duration::ZERO);
    assert_eq!(plan.binds.len(), 3, "{}", message(&state, "g"));
    assert!(plan.binds.iter().any(|bind| &*bind.name == "g-1" && &*bind.node == "n1"));
}

/// Nodes in zones, as many as are given with so much cpu each, and a gang of members that require their zone: how many find nodes.
fn placed_in_one_zone(zones: &[(usize, i64)], members: usize, terms: PodTerms) -> usize {
    let mut state = empty_state();
    for (zone, (nodes, cpu)) in zones.iter().enumerate() {
        (0..*nodes).for_each(|at| state.apply_node(zoned(&format!("n-{zone}-{at}"), &format!("z{zone}"), *cpu)));
    }
    state.apply_group(group("ns", "g", u32::try_from(members).unwrap(), "default"));
    let terms = Arc::new(PodTerms { affinity: vec![term("x", ZONE)], ..terms });
    for at in 0..members {
        let mut facts = pod("ns", &format!("g-{at:03}"), "g", &[("cpu", 1)]);
        facts.labels.insert("app".into(), "x".into());
        state.apply_pod(PodFacts { terms: Arc::clone(&terms), ..facts });
    }
    run(&mut state, &PEACEFUL, Duration::ZERO).binds.len()
}

/// The emptiest nodes, the fullest ones, and the zones with the least cpu have too few nodes.
#[test]
fn members_that_take_a_node_each_find_the_zone_with_enough_nodes() {
    const MEMBERS: usize = MOST_MEMBERS + 6;
    let few: Vec<(usize, i64)> = (0..20).map(|at| (1, if at % 2 == 0 { 71 } else { 1_000 })).collect();
    let enough = (MEMBERS, 100);
    let zones: Vec<(usize, i64)> = few.iter().copied().chain([enough]).collect();
    let apart = || PodTerms { anti_affinity: vec![term("x", HOST)], ..PodTerms::default() };
    let port = HostPort { port: 80, protocol: "TCP".into(), address: None };
    let with_port = || PodTerms { host_ports: [port.clone()].into(), ..PodTerms::default() };
    for terms in [apart(), with_port()] {
        assert_eq!(placed_in_one_zone(&zones, MEMBERS, terms.clone()), MEMBERS);
        assert_eq!(placed_in_one_zone(&few, MEMBERS, terms), 0);
    }
}

#[test]
fn no_pod_is_preempted_for_a_gang_that_fits_in_another_way() {
    let mut state = empty_state();
    [zoned("n0", "a", 9), zoned("n1", "a", 4)].into_iter().for_each(|node| state.apply_node(node));
    state.apply_group(group("ns", "runs", 1, "default"));
    state.apply_pod(PodFacts { priority: -5, ..running(pod("ns", "runs-0", "runs", &[("cpu", 3)]), "n0") });
    state.apply_group(group("ns", "g", 4, "default"));
    [3, 3, 2, 2].iter().enumerate().for_each(|(at, cpu)| state.apply_pod(pod("ns", &format!("g-{at}"), "g", &[("cpu", *cpu)])));
    let plan = run(&mut state, &POLICY, Duration::ZERO);
    assert_eq!((plan.binds.len(), plan.evictions.len()), (4, 0), "{}", message(&state, "g"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(1_500) })]
    #[test]
    fn a_gang_is_placed_if_and_only_if_there_are_nodes_for_it(world in world()) {
        let tasks = Tasks::default();
        let mut state = state(&world, tasks);
        let plan = run(&mut state, &PEACEFUL, Duration::ZERO);
        let found = plan.binds.len() >= world.3 as usize;
        let exists = exists(&world, &mut before(&world), members(&world), world.3, tasks, &mut BTreeSet::new());
        prop_assert_eq!(found, exists, "{}", message(&state, "g"));
        check(&world, before(&world), &plan.binds)?;
    }

    #[test]
    fn so_is_one_that_needs_some_members_of_each_task(
        world in world(), less in 0..3_u32, of in [0..2_usize, 0..2, 0..2], needed in [0..3_i64, 0..3],
    ) {
        let (mut world, mut tasks) = (world, Tasks { of, needed });
        let members = members(&world);
        for at in 0..2 {
            let of_task: i64 = (0..3).filter(|kind| of[*kind] == at).map(|kind| members[kind]).sum();
            tasks.needed[at] = tasks.needed[at].min(of_task);
        }
        let least = u32::try_from(tasks.needed.iter().sum::<i64>()).unwrap();
        world.3 = world.3.saturating_sub(less).max(least).max(1);
        let mut state = state(&world, tasks);
        let plan = run(&mut state, &PEACEFUL, Duration::ZERO);
        let found = plan.binds.len() >= world.3 as usize;
        let exists = exists(&world, &mut before(&world), members, world.3, tasks, &mut BTreeSet::new());
        prop_assert_eq!(found, exists, "{}", message(&state, "g"));
        check(&world, before(&world), &plan.binds)?;
        let bound_of = |task: usize| {
            let is_of_it = |bind: &&Bind| of[usize::from(world.2[usize::from(bind.name.as_bytes()[2] - b'0')])] == task;
            plan.binds.iter().filter(is_of_it).count() as i64
        };
        prop_assert!(plan.binds.is_empty() || (0..2).all(|task| bound_of(task) >= tasks.needed[task]), "{:?}", plan.binds);
    }

    #[test]
    fn a_gang_of_parts_is_placed_whole_if_just_enough_whole_parts_find_nodes(
        world in world(), parts in prop::collection::vec(0..4_usize, 6), least in 0..6_u32, needed in 0..3_usize,
    ) {
        let mut state = empty_state();
        let whole = whole_parts(&world, &parts);
        let policy = SubGroupPolicyFacts {
            name: String::new(), selector: LabelSelector::everything(), keys: vec!["part".to_owned()], size: 2, needed: needed as u32,
        };
        prop_assume!(needed > 0 || least > 0);
        fill(&mut state, &world);
        state.apply_group(GroupFacts { sub_groups: vec![policy], ..group("ns", "g", least, "default") });
        for (at, of) in world.2.iter().enumerate() {
            let mut facts = facts(&world.1, *of, &format!("g-{at}"));
            if parts[at] > 0 {
                facts.labels.insert("part".to_owned(), parts[at].to_string());
            }
            state.apply_pod(facts);
        }
        let plan = run(&mut state, &PEACEFUL, Duration::ZERO);
        let number = |bind: &Bind| usize::from(bind.name.as_bytes()[2] - b'0');
        // What is placed together: a whole part, or a member of none.
        let alone = (0..world.2.len()).filter(|member| parts[*member] == 0).map(|member| vec![member]);
        let together: Vec<Vec<usize>> = whole.iter().cloned().chain(alone).collect();
        let is_enough = |chosen: u32| {
            let of = |at: &usize| chosen >> at & 1 == 1;
            let members: usize = (0..together.len()).filter(of).map(|at| together[at].len()).sum();
            members >= least as usize && (0..whole.len()).filter(of).count() >= needed
        };
        let exists = (0..1_u32 << together.len()).any(|chosen| {
            let is_least = (0..together.len()).all(|at| chosen >> at & 1 == 0 || !is_enough(chosen & !(1 << at)));
            let mut by_kind = [0; 3];
            let members: Vec<usize> = (0..together.len()).filter(|at| chosen >> at & 1 == 1).flat_map(|at| together[at].clone()).collect();
            members.iter().for_each(|member| by_kind[usize::from(world.2[*member])] += 1);
            is_enough(chosen) && is_least
                && exists(&world, &mut before(&world), by_kind, members.len() as u32, Tasks::default(), &mut BTreeSet::new())
        });
        let message = message(&state, "g");
        prop_assert!(!exists || !plan.binds.is_empty(), "{}", message);
        check(&world, before(&world), &plan.binds)?;
        let bound: BTreeSet<usize> = plan.binds.iter().map(number).collect();
        for part in 1..4 {
            let of_part = bound.iter().filter(|member| parts[**member] == part).count();
            prop_assert!(of_part != 1, "half of part {part}: {bound:?}");
        }
        let whole = whole.iter().filter(|members| members.iter().all(|member| bound.contains(member))).count();
        prop_assert!(bound.is_empty() || bound.len() >= least as usize && whole >= needed, "{bound:?}");
    }
}

/// The members of each part that has two, the first two of them. What it has beyond that is not placed with the gang.
fn whole_parts(world: &World, parts: &[usize]) -> Vec<Vec<usize>> {
    let members = |part: usize| (0..world.2.len()).filter(|member| parts[*member] == part).take(2).collect::<Vec<_>>();
    (1..4).map(members).filter(|members| members.len() == 2).collect()
}
