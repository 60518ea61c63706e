//! Small random clusters for tests, and what can be placed there: every choice is tried, by the meaning of each constraint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::api::label_selector::LabelSelector;
use crate::api::pod_terms::{AffinityTerm, HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::api::{GroupFacts, NodeFacts, PodFacts};
use crate::cycle::plan::Bind;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::empty_state;
use crate::cycle::testing::{group, node, pod, running};

pub(in crate::cycle) const ZONE: &str = "zone";
pub(in crate::cycle) const HOST: &str = "host";

pub(in crate::cycle) fn zoned(name: &str, zone: &str, cpu: i64) -> NodeFacts {
    let mut facts = node(name, &[("cpu", cpu)]);
    facts.labels.extend([(ZONE.to_owned(), zone.to_owned()), (HOST.to_owned(), name.to_owned())]);
    facts
}

pub(in crate::cycle) fn app(app: &str) -> PodSelector {
    PodSelector { namespaces: ["ns".into()].into(), namespace_selector: LabelSelector::Nothing, labels: LabelSelector::label("app", app) }
}

pub(in crate::cycle) fn term(of: &str, key: &str) -> AffinityTerm {
    AffinityTerm { pods: app(of), topology_key: key.into() }
}

/// Members that are alike.
#[derive(Clone, Debug)]
pub(in crate::cycle) struct Kind {
    pub(super) cpu: i64,
    zone: Option<u8>,
    /// Another kind, or its own, that it keeps away from its node or its zone.
    away: Option<(u8, bool)>,
    /// The kind that must be in its zone.
    pub(super) beside: Option<u8>,
    pub(super) is_spread: bool,
    has_port: bool,
}

/// Nodes with their zone and free cpu, kinds, the kind of each member, and how many are needed. Of the first kind a pod runs on a node,
/// where one is named.
pub(in crate::cycle) type World = (Vec<(u8, i64)>, Vec<Kind>, Vec<u8>, u32, Option<u8>);

pub(in crate::cycle) fn world() -> impl Strategy<Value = World> {
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

pub(in crate::cycle) fn facts(kinds: &[Kind], of: u8, name: &str) -> PodFacts {
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
        ..PodTerms::default()
    });
    facts
}

/// By node and kind: the number of pods. What a placement is judged by, whatever pods they are.
pub(in crate::cycle) type Pods = BTreeMap<(usize, u8), i64>;

/// Whether the node takes a pod of the kind beside these, by the meaning of each constraint.
pub(in crate::cycle) fn takes((nodes, kinds, ..): &World, pods: &Pods, of: u8, at: usize) -> bool {
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

/// The tasks of a gang: that of each kind, and how many members of each of the two are needed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cycle) struct Tasks {
    pub(in crate::cycle) of: [usize; 3],
    pub(in crate::cycle) needed: [i64; 2],
}

/// Whether some of the members left, as many as are needed and of each task as many as are needed, find nodes in any order.
pub(in crate::cycle) fn exists(
    world: &World,
    pods: &mut Pods,
    left: [i64; 3],
    needed: u32,
    tasks: Tasks,
    seen: &mut BTreeSet<Pods>,
) -> bool {
    if needed == 0 {
        return tasks.needed.iter().all(|needed| *needed <= 0);
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
            let mut after = tasks;
            after.needed[tasks.of[usize::from(of)]] -= 1;
            if exists(world, pods, less, needed - 1, after, seen) {
                return true;
            }
            *pods.entry((at, of)).or_default() -= 1;
            pods.retain(|_, count| *count > 0);
        }
    }
    false
}

/// Adds the nodes, and the pod that runs.
pub(in crate::cycle) fn fill(state: &mut SchedulingState, (nodes, kinds, _, _, runs): &World) {
    nodes.iter().enumerate().for_each(|(at, (zone, cpu))| state.apply_node(zoned(&format!("n{at}"), &format!("z{zone}"), *cpu)));
    if let Some(at) = runs {
        let facts = running(facts(kinds, 0, "other"), &format!("n{at}"));
        state.apply_pod(PodFacts { scheduler: "other".into(), names_group: false, ..facts });
    }
}

/// The cluster with the gang `g`, which waits.
pub(in crate::cycle) fn state(world: &World, tasks: Tasks) -> SchedulingState {
    let (_, kinds, members, needed, _) = world;
    let mut state = empty_state();
    fill(&mut state, world);
    let names = ["a", "b"].map(str::to_owned);
    let minimum = |at: usize| u32::try_from(tasks.needed[at]).ok().filter(|needed| *needed > 0);
    let min_task_member = (0..2).filter_map(|at| Some((names[at].clone(), minimum(at)?))).collect();
    state.apply_group(GroupFacts { min_task_member, ..group("ns", "g", *needed, "default") });
    for (at, of) in members.iter().enumerate() {
        let task = Some(names[tasks.of[usize::from(*of)]].clone());
        state.apply_pod(PodFacts { task, ..facts(kinds, *of, &format!("g-{at}")) });
    }
    state
}

/// How many members of each kind there are.
pub(in crate::cycle) fn members(world: &World) -> [i64; 3] {
    let mut members = [0; 3];
    world.2.iter().for_each(|of| members[usize::from(*of)] += 1);
    members
}

/// The pod that runs before.
pub(in crate::cycle) fn before(world: &World) -> Pods {
    world.4.map(|at| ((usize::from(at), 0), 1)).into_iter().collect()
}

/// Checks that each of these bindings is right at its moment.
pub(in crate::cycle) fn check(world: &World, mut pods: Pods, binds: &[Bind]) -> Result<(), TestCaseError> {
    for bind in binds {
        let of = world.2[usize::from(bind.name.as_bytes()[2] - b'0')];
        let at = usize::from(bind.node.as_bytes()[1] - b'0');
        prop_assert!(takes(world, &pods, of, at), "{} on {}", bind.name, bind.node);
        *pods.entry((at, of)).or_default() += 1;
    }
    Ok(())
}
