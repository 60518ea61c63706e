//! Whatever can be placed is placed: the search against every choice of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::by_kind::MOST_MEMBERS;
use crate::api::label_selector::LabelSelector;
use crate::api::pod_terms::{AffinityTerm, HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::api::{NodeFacts, PodFacts};
use crate::cycle::plan::Plan;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{PEACEFUL, POLICY, group, node, pod, running};
use crate::cycle::tests::{empty_state, message};

const ZONE: &str = "zone";
const HOST: &str = "host";

fn zoned(name: &str, zone: &str, cpu: i64) -> NodeFacts {
    let mut facts = node(name, &[("cpu", cpu)]);
    facts.labels.extend([(ZONE.to_owned(), zone.to_owned()), (HOST.to_owned(), name.to_owned())]);
    facts
}

fn app(app: &str) -> PodSelector {
    PodSelector { namespaces: ["ns".into()].into(), namespace_selector: LabelSelector::Nothing, labels: LabelSelector::label("app", app) }
}

fn term(of: &str, key: &str) -> AffinityTerm {
    AffinityTerm { pods: app(of), topology_key: key.into() }
}

/// Runs a cycle with nodes of these free cpu and a gang of members that ask for these cpu, all of them needed or `needed`.
fn placed(free: &[i64], members: &[i64], needed: Option<u32>) -> usize {
    let mut state = empty_state();
    free.iter().enumerate().for_each(|(at, cpu)| state.apply_node(zoned(&format!("n{at}"), "a", *cpu)));
    state.apply_group(group("ns", "g", needed.unwrap_or(u32::try_from(members.len()).unwrap()), "default"));
    members.iter().enumerate().for_each(|(at, cpu)| state.apply_pod(pod("ns", &format!("g-{at:03}"), "g", &[("cpu", *cpu)])));
    run(&mut state, &PEACEFUL, std::time::Duration::ZERO).binds.len()
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
    let plan = run(&mut state, &PEACEFUL, std::time::Duration::ZERO);
    assert_eq!(plan.binds.len(), 3, "{}", message(&state, "g"));
    assert!(plan.binds.iter().any(|bind| &*bind.name == "g-1" && &*bind.node == "n1"));
}

#[test]
fn no_pod_is_preempted_for_a_gang_that_fits_in_another_way() {
    let mut state = empty_state();
    [zoned("n0", "a", 9), zoned("n1", "a", 4)].into_iter().for_each(|node| state.apply_node(node));
    state.apply_group(group("ns", "runs", 1, "default"));
    state.apply_pod(PodFacts { priority: -5, ..running(pod("ns", "runs-0", "runs", &[("cpu", 3)]), "n0") });
    state.apply_group(group("ns", "g", 4, "default"));
    [3, 3, 2, 2].iter().enumerate().for_each(|(at, cpu)| state.apply_pod(pod("ns", &format!("g-{at}"), "g", &[("cpu", *cpu)])));
    let plan = run(&mut state, &POLICY, std::time::Duration::ZERO);
    assert_eq!((plan.binds.len(), plan.evictions.len()), (4, 0), "{}", message(&state, "g"));
}

/// Members that are alike.
#[derive(Clone, Debug)]
struct Kind {
    cpu: i64,
    zone: Option<u8>,
    /// Another kind, or its own, that it keeps away from its node or its zone.
    away: Option<(u8, bool)>,
    /// The kind that must be in its zone.
    beside: Option<u8>,
    is_spread: bool,
    has_port: bool,
}

/// Nodes with their zone and free cpu, kinds, the kind of each member, and how many are needed. Of the first kind a pod runs on a node, where one is named.
type World = (Vec<(u8, i64)>, Vec<Kind>, Vec<u8>, u32, Option<u8>);

fn world() -> impl Strategy<Value = World> {
    let rarely = || prop::bool::weighted(0.2);
    let away = prop::option::weighted(0.25, (0..3_u8, any::<bool>()));
    let kind = (1..5_i64, prop::option::weighted(0.2, 0..2_u8), away, prop::option::weighted(0.2, 0..3_u8), rarely(), rarely())
        .prop_map(|(cpu, zone, away, beside, is_spread, has_port)| Kind { cpu, zone, away, beside, is_spread, has_port });
    // Few sizes, so that nodes look alike.
    let nodes = prop::collection::vec((0..2_u8, prop::sample::select(&[2_i64, 4, 4, 6, 7][..])), 1..5);
    let members = prop::collection::vec(0..3_u8, 2..6);
    let world = (nodes, prop::collection::vec(kind, 3), rarely(), members, 0..3_u32, prop::option::weighted(0.3, 0..3_u8));
    world.prop_map(|(nodes, mut kinds, alike, members, less, runs)| {
        if alike {
            // But for their labels.
            kinds[2] = kinds[1].clone();
        }
        let needed = u32::try_from(members.len()).unwrap();
        let needed = if less == 2 { needed - 1 } else { needed };
        let runs = runs.filter(|at| usize::from(*at) < nodes.len());
        (nodes, kinds, members, needed, runs)
    })
}

fn facts(kinds: &[Kind], of: u8, name: &str) -> PodFacts {
    let kind = &kinds[usize::from(of)];
    let mut facts = pod("ns", name, "g", &[("cpu", kind.cpu)]);
    facts.labels.insert("app".into(), format!("k{of}"));
    facts.constraints.node_selector.extend(kind.zone.map(|zone| (ZONE.to_owned(), format!("z{zone}"))));
    let away = kind.away.map(|(of, zone)| term(&format!("k{of}"), if zone { ZONE } else { HOST }));
    let spread = kind.is_spread.then(|| SpreadConstraint {
        pods: app(&format!("k{of}")),
        topology_key: ZONE.into(),
        max_skew: 1,
        min_domains: 1,
        honors_node_affinity: true,
        honors_taints: false,
    });
    let port = kind.has_port.then(|| HostPort { port: 80, protocol: "TCP".into(), address: None });
    facts.terms = Arc::new(PodTerms {
        affinity: kind.beside.map(|of| term(&format!("k{of}"), ZONE)).into_iter().collect(),
        anti_affinity: away.into_iter().collect(),
        spread: spread.into_iter().collect(),
        host_ports: port.into_iter().collect(),
    });
    facts
}

/// By node and kind: the number of pods. What a placement is judged by, whatever pods they are.
type Pods = BTreeMap<(usize, u8), i64>;

/// Whether the node takes a pod of the kind beside these, by the meaning of each constraint.
fn takes((nodes, kinds, ..): &World, pods: &Pods, of: u8, at: usize) -> bool {
    let kind = |of: u8| &kinds[usize::from(of)];
    let zone = nodes[at].0;
    let used: i64 = pods.iter().filter(|((on, _), _)| *on == at).map(|((_, of), count)| kind(*of).cpu * count).sum();
    let there = || pods.iter().filter(|(_, count)| **count > 0).map(|(place, _)| *place);
    let meets = |zoned: bool, on: usize| if zoned { nodes[on].0 == zone } else { on == at };
    let keeps_away = |of: u8, other: u8, on: usize| kind(of).away.is_some_and(|(against, zoned)| against == other && meets(zoned, on));
    let beside = kind(of).beside.is_none_or(|other| {
        let first = there().all(|(_, known)| known != other) && other == of;
        first || there().any(|(on, known)| known == other && nodes[on].0 == zone)
    });
    let counts = |in_zone: u8| -> i64 {
        pods.iter().filter(|((on, known), _)| nodes[*on].0 == in_zone && *known == of).map(|(_, count)| count).sum()
    };
    let zones: BTreeSet<u8> = nodes.iter().map(|(zone, _)| *zone).filter(|zone| kind(of).zone.is_none_or(|only| only == *zone)).collect();
    used + kind(of).cpu <= nodes[at].1
        && kind(of).zone.is_none_or(|only| only == zone)
        && there().all(|(on, other)| !keeps_away(of, other, on) && !keeps_away(other, of, on))
        && !(kind(of).has_port && there().any(|(on, other)| on == at && kind(other).has_port))
        && beside
        && (!kind(of).is_spread || counts(zone) + 1 - zones.iter().map(|zone| counts(*zone)).min().unwrap_or(0) <= 1)
}

/// Whether some of the members left, as many as are needed, find nodes in any order.
fn exists(world: &World, pods: &mut Pods, left: [i64; 3], needed: u32, seen: &mut BTreeSet<Pods>) -> bool {
    if needed == 0 {
        return true;
    }
    if !seen.insert(pods.clone()) {
        return false;
    }
    for of in (0..3_u8).filter(|of| left[usize::from(*of)] > 0) {
        for at in 0..world.0.len() {
            if !takes(world, pods, of, at) {
                continue;
            }
            *pods.entry((at, of)).or_default() += 1;
            let mut less = left;
            less[usize::from(of)] -= 1;
            if exists(world, pods, less, needed - 1, seen) {
                return true;
            }
            *pods.entry((at, of)).or_default() -= 1;
            pods.retain(|_, count| *count > 0);
        }
    }
    false
}

fn play(world: &World) -> (Plan, SchedulingState) {
    let (nodes, kinds, members, needed, runs) = world;
    let mut state = empty_state();
    nodes.iter().enumerate().for_each(|(at, (zone, cpu))| state.apply_node(zoned(&format!("n{at}"), &format!("z{zone}"), *cpu)));
    if let Some(at) = runs {
        let facts = running(facts(kinds, 0, "other"), &format!("n{at}"));
        state.apply_pod(PodFacts { scheduler: "other".into(), names_group: false, ..facts });
    }
    state.apply_group(group("ns", "g", *needed, "default"));
    members.iter().enumerate().for_each(|(at, of)| state.apply_pod(facts(kinds, *of, &format!("g-{at}"))));
    (run(&mut state, &PEACEFUL, std::time::Duration::ZERO), state)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(1_500) })]
    #[test]
    fn a_gang_is_placed_if_and_only_if_there_are_nodes_for_it(world in world()) {
        let mut left = [0; 3];
        world.2.iter().for_each(|of| left[usize::from(*of)] += 1);
        let running: Pods = world.4.map(|at| ((usize::from(at), 0), 1)).into_iter().collect();
        let (plan, state) = play(&world);
        let found = plan.binds.len() >= world.3 as usize;
        prop_assert_eq!(found, exists(&world, &mut running.clone(), left, world.3, &mut BTreeSet::new()), "{}", message(&state, "g"));
        // Each binding is right at its moment.
        let mut pods = running;
        for bind in &plan.binds {
            let of = world.2[usize::from(bind.name.as_bytes()[2] - b'0')];
            let at = usize::from(bind.node.as_bytes()[1] - b'0');
            prop_assert!(takes(&world, &pods, of, at), "{} on {}", bind.name, bind.node);
            *pods.entry((at, of)).or_default() += 1;
        }
    }
}
