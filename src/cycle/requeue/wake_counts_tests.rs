//! How many PodGroups does one event wake? Counted, since each of them costs a trial on every node.

use crate::api::PodFacts;
use crate::api::label_selector::LabelSelector;
use crate::api::pod_facts::PodPhase;
use crate::api::pod_terms::{AffinityTerm, HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::api::workload::NamespaceLabels;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{cycle, empty_state, gang};
use crate::cycle::testing::worlds::{ZONE, app, term, zoned};
use crate::cycle::testing::{group, limits, node, pod, queue, running};
use crate::cycle::*;
use std::collections::BTreeSet;

/// Twenty nodes of 4 cpu, filled by pods of 1 cpu, and this many PodGroups of `members` in the queue `default` that found no nodes.
fn full(podgroups: u32, members: u32, cpu: impl Fn(u32) -> i64) -> SchedulingState {
    let mut state = empty_state();
    for at in 0..20 {
        state.apply_node(node(&format!("n{at:02}"), &[("cpu", 4)]));
        (0..4).for_each(|pod| state.apply_pod(runs(at, pod)));
    }
    (0..podgroups).for_each(|at| gang(&mut state, &format!("w{at:03}"), members, "default", members, &[("cpu", cpu(at))]));
    assert_eq!(rest(&mut state), (0, podgroups as usize));
    state
}

fn runs(node: u32, number: u32) -> PodFacts {
    running(pod("ns", &format!("r{node}-{number}"), &format!("r{node}-{number}"), &[("cpu", 1)]), &format!("n{node:02}"))
}

/// Runs cycles until nothing is left to do now. Returns the number of bound pods and of the waiting PodGroups that were tried.
fn rest(state: &mut SchedulingState) -> (usize, usize) {
    let (mut bound, mut tried) = (0, BTreeSet::new());
    for _ in 0..1_000 {
        if !state.has_work(Duration::ZERO) {
            return (bound, tried.len());
        }
        let plan = cycle(state);
        bound += plan.binds.len();
        tried.extend(plan.tried.into_iter().filter(|key| key.name.starts_with('w')));
    }
    panic!("the cycles do not come to rest");
}

fn ends(state: &mut SchedulingState, node: u32, number: u32) {
    state.apply_pod(PodFacts { phase: PodPhase::Succeeded, ..runs(node, number) });
}

#[test]
fn a_pod_that_ends_wakes_as_many_podgroups_as_there_is_room_for() {
    let mut state = full(100, 1, |_| 1);
    ends(&mut state, 7, 0);
    assert_eq!(rest(&mut state), (1, 1));
    (0..3).for_each(|number| ends(&mut state, 8, number));
    assert_eq!(rest(&mut state), (3, 3));
}

#[test]
fn a_pod_that_ends_wakes_no_gang_that_needs_more_than_there_is() {
    let mut state = full(100, 8, |_| 1);
    (0..7).for_each(|node| ends(&mut state, node, 0));
    assert_eq!(rest(&mut state), (0, 0));
    ends(&mut state, 7, 0);
    assert_eq!(rest(&mut state), (8, 1));
}

#[test]
fn a_pod_that_ends_wakes_no_podgroup_whose_pods_are_larger() {
    let mut state = full(100, 1, |at| 2 + i64::from(at) % 3);
    ends(&mut state, 7, 0);
    assert_eq!(rest(&mut state), (0, 0));
    ends(&mut state, 7, 1);
    assert_eq!(rest(&mut state), (1, 1));
}

#[test]
fn a_podgroup_that_its_quota_refuses_leaves_the_room_to_the_next_one() {
    let mut state = full(0, 1, |_| 1);
    state.apply_queue(queue("small", None, &[("cpu", 0)]));
    gang(&mut state, "w-first", 1, "default", 1, &[("cpu", 1)]);
    gang(&mut state, "w-second", 1, "default", 1, &[("cpu", 1)]);
    assert_eq!(rest(&mut state).0, 0);
    // The first PodGroup in its line is gone when its turn comes.
    state.apply_group(group("ns", "w-first", 1, "small"));
    ends(&mut state, 7, 0);
    assert_eq!(rest(&mut state).0, 1);
}

#[test]
fn room_in_one_queue_wakes_the_podgroups_that_this_queue_refused_and_that_fit() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 100)]));
    for name in ["a", "b"] {
        state.apply_queue(queue(name, None, &[("cpu", 4)]));
        gang(&mut state, &format!("r-{name}"), 4, name, 4, &[("cpu", 1)]);
    }
    assert_eq!(rest(&mut state).0, 8);
    for (name, cpu) in [("a", 1), ("b", 1), ("b", 3)] {
        (0..10).for_each(|at| gang(&mut state, &format!("w-{name}-{cpu}-{at}"), 1, name, 1, &[("cpu", cpu)]));
    }
    assert_eq!(rest(&mut state).0, 0);
    state.delete_pod(&"ns/r-b-0".into());
    // Ten fit, each by itself; one of them gets it.
    assert_eq!(rest(&mut state), (1, 10));
}

#[test]
fn a_node_that_changed_renews_what_was_said_of_it_a_few_at_a_time() {
    let mut state = full(100, 1, |_| 9);
    state.apply_node(crate::api::NodeFacts { unschedulable: true, ..node("n07", &[("cpu", 4)]) });
    let (mut now, mut tried) = (Duration::ZERO, BTreeSet::new());
    // Long before any admission timeout.
    while let Some(next) = state.next_attempt().filter(|next| *next < Duration::from_secs(9)) {
        now = now.max(next);
        let of_this_cycle = run(&mut state, &crate::cycle::testing::POLICY, now).tried;
        assert!(of_this_cycle.len() <= crate::cycle::requeue::MOST_PREEMPTION_ATTEMPTS);
        tried.extend(of_this_cycle);
    }
    assert_eq!(tried.len(), 100);
    assert!(now >= Duration::from_millis(600));
}

#[test]
fn room_goes_to_the_next_of_equal_rank_where_the_first_may_not_borrow() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 3), ("memory", 9)]));
    for (name, deserved) in [("q", 1), ("other", 2)] {
        state.apply_queue(crate::api::QueueFacts { deserved: limits(&[("cpu", deserved)]), ..queue(name, None, &[]) });
    }
    // Of a high priority, so that no PodGroup may preempt it, and none is tried for that.
    state.apply_group(group("ns", "r", 1, "q"));
    state.apply_pod(PodFacts { priority: 10, ..pod("ns", "r-0", "r", &[("cpu", 1)]) });
    let foreign = |name: &str| PodFacts { scheduler: "another".into(), ..running(pod("ns", name, name, &[("cpu", 1)]), "n") };
    ["f-0", "f-1"].into_iter().for_each(|name| state.apply_pod(foreign(name)));
    assert_eq!(rest(&mut state).0, 1);
    // The first one has used up what its queue is entitled to, the second one may borrow, the third one has a lower priority and another class.
    for (name, preemptable, priority, asks) in
        [("w-1", false, 10, &[("cpu", 1)][..]), ("w-2", true, 10, &[("cpu", 1)]), ("w-3", true, 0, &[("cpu", 1), ("memory", 1)])]
    {
        state.apply_group(crate::api::GroupFacts { preemptable, ..group("ns", name, 1, "q") });
        state.apply_pod(PodFacts { priority, ..pod("ns", &format!("{name}-0"), name, asks) });
    }
    assert_eq!(rest(&mut state).0, 0);
    state.delete_pod(&"ns/f-0".into());
    let plan = run(&mut state, &crate::cycle::testing::PEACEFUL, Duration::ZERO);
    assert_eq!(plan.binds.iter().map(|bind| &*bind.name).collect::<Vec<_>>(), ["w-2-0"]);
}

#[test]
fn a_gang_with_members_that_differ_is_tried_when_a_node_takes_one_of_them() {
    let all = ["cpu", "gpu"];
    for nodes in [[0, 1], [1, 0]] {
        let mut state = empty_state();
        let cordon = |state: &mut SchedulingState, at: usize, unschedulable| {
            state.apply_node(crate::api::NodeFacts { unschedulable, ..node(&format!("n{at}"), &[(all[at], 1)]) });
        };
        (0..2).for_each(|at| cordon(&mut state, at, true));
        state.apply_group(group("ns", "w", 2, "default"));
        (0..2).for_each(|at| state.apply_pod(pod("ns", &format!("w-{at}"), "w", &[(all[at], 1)])));
        // No preemption is retried, which would try the gang for another reason.
        let once = |state: &mut SchedulingState| {
            let plan = run(state, &crate::cycle::testing::PEACEFUL, Duration::ZERO);
            (plan.binds.len(), plan.tried.len())
        };
        assert_eq!(once(&mut state), (0, 1));
        cordon(&mut state, nodes[0], false);
        assert_eq!(once(&mut state), (0, 1), "{nodes:?}");
        cordon(&mut state, nodes[1], false);
        assert_eq!(once(&mut state), (2, 1), "{nodes:?}");
    }
}

/// Two zones of one node. Foreign pods `y`, `s`, `n` (in the namespace `other` of the team `a`), keepers of `k`, and host ports. Each of
/// the PodGroups that wait waits for another thing.
fn choosy() -> SchedulingState {
    let mut state = empty_state();
    [zoned("n0", "a", 4), zoned("n1", "b", 4)].into_iter().for_each(|node| state.apply_node(node));
    state.apply_namespace(NamespaceLabels::new("other", [("team".to_owned(), "a".to_owned())].into()));
    for (at, node) in ["n0", "n1"].into_iter().enumerate() {
        theirs(&mut state, &format!("y{at}"), "y", PodTerms::default(), node);
        theirs(&mut state, &format!("keeps{at}"), "keeps", PodTerms { anti_affinity: vec![term("k", ZONE)], ..PodTerms::default() }, node);
        theirs(&mut state, &format!("port{at}"), "port", PodTerms { host_ports: port(), ..PodTerms::default() }, node);
        let mut facts = running(pod("other", &format!("n{at}"), "theirs", &[]), node);
        facts.labels.insert("app".into(), "n".into());
        state.apply_pod(PodFacts { scheduler: "another".into(), names_group: false, ..facts });
    }
    theirs(&mut state, "s0", "s", PodTerms::default(), "n0");
    let spread = SpreadConstraint {
        pods: app("s"),
        topology_key: ZONE.into(),
        max_skew: 1,
        min_domains: 1,
        honors_node_affinity: false,
        honors_taints: false,
    };
    let team = PodSelector { namespaces: [].into(), namespace_selector: LabelSelector::label("team", "a"), ..app("n") };
    let team = AffinityTerm { pods: team, topology_key: ZONE.into() };
    let none = PodTerms::default;
    for (name, label, terms) in [
        ("w-beside", "w", PodTerms { affinity: vec![term("x", ZONE)], ..none() }),
        ("w-apart", "w", PodTerms { anti_affinity: vec![term("y", ZONE)], ..none() }),
        ("w-kept", "k", none()),
        ("w-spread", "s", PodTerms { spread: vec![spread], ..none() }),
        ("w-port", "w", PodTerms { host_ports: port(), ..none() }),
        ("w-team", "w", PodTerms { anti_affinity: vec![team], ..none() }),
        ("w-large", "w", none()),
    ] {
        state.apply_group(group("ns", name, 1, "default"));
        let mut facts = pod("ns", name, name, &[("cpu", if name == "w-large" { 5 } else { 1 })]);
        facts.labels.insert("app".into(), label.into());
        if name == "w-spread" {
            facts.constraints.node_selector.insert(ZONE.into(), "a".into());
        }
        state.apply_pod(PodFacts { terms: Arc::new(terms), ..facts });
    }
    let plan = run(&mut state, &crate::cycle::testing::PEACEFUL, Duration::ZERO);
    assert_eq!((plan.binds.len(), plan.tried.len()), (0, 7));
    state
}

fn port() -> BTreeSet<HostPort> {
    [HostPort { port: 80, protocol: "TCP".into(), address: None }].into()
}

/// A pod of another scheduler, which requests nothing.
fn theirs(state: &mut SchedulingState, name: &str, label: &str, terms: PodTerms, node: &str) {
    let mut facts = running(pod("ns", name, "theirs", &[]), node);
    facts.labels.insert("app".into(), label.into());
    state.apply_pod(PodFacts { scheduler: "another".into(), names_group: false, terms: Arc::new(terms), ..facts });
}

#[test]
fn a_change_of_other_pods_wakes_the_podgroups_that_it_may_help() {
    type Event = fn(&mut SchedulingState);
    let cases: [(&str, Event, &[&str], &[&str]); 12] = [
        ("a required pod comes", |state| theirs(state, "x", "x", PodTerms::default(), "n0"), &["w-beside"], &["w-beside"]),
        ("a pod that no term selects comes", |state| theirs(state, "z", "z", PodTerms::default(), "n0"), &[], &[]),
        (
            "a pod gets the label that is required",
            |state| theirs(state, "y0", "x", PodTerms::default(), "n0"),
            &["w-apart", "w-beside"],
            &["w-apart", "w-beside"],
        ),
        ("a pod of the least domain comes", |state| theirs(state, "s1", "s", PodTerms::default(), "n1"), &["w-spread"], &["w-spread"]),
        ("a pod in the way leaves", |state| state.delete_pod(&"ns/y0".into()), &["w-apart"], &["w-apart"]),
        ("a keeper leaves", |state| state.delete_pod(&"ns/keeps0".into()), &["w-kept"], &["w-kept"]),
        ("a port is free", |state| state.delete_pod(&"ns/port1".into()), &["w-port"], &["w-port"]),
        ("a pod that skews leaves", |state| state.delete_pod(&"ns/s0".into()), &["w-spread"], &["w-spread"]),
        (
            "a pod that skews terminates",
            |state| {
                let mut facts = running(pod("ns", "s0", "theirs", &[]), "n0");
                facts.labels.insert("app".into(), "s".into());
                state.apply_pod(PodFacts { scheduler: "another".into(), names_group: false, deleting: true, ..facts });
            },
            &["w-spread"],
            &["w-spread"],
        ),
        ("a namespace is of no team", |state| state.apply_namespace(NamespaceLabels::new("other", [].into())), &["w-team"], &["w-team"]),
        (
            "a namespace that no term reads changes",
            |state| state.apply_namespace(NamespaceLabels::new("third", [("team".to_owned(), "a".to_owned())].into())),
            &[],
            &[],
        ),
        (
            "a node is of another zone",
            |state| state.apply_node(zoned("n1", "a", 4)),
            &["w-apart", "w-beside", "w-kept", "w-large", "w-port", "w-spread", "w-team"],
            &["w-spread"],
        ),
    ];
    for (what, event, may, bound) in cases {
        let mut state = choosy();
        event(&mut state);
        let plan = run(&mut state, &crate::cycle::testing::PEACEFUL, Duration::ZERO);
        let tried: BTreeSet<&str> = plan.tried.iter().map(|key| key.name.as_ref()).collect();
        assert_eq!(tried, may.iter().copied().collect(), "{what}");
        assert_eq!(plan.binds.iter().map(|bind| &*bind.name).collect::<BTreeSet<_>>(), bound.iter().copied().collect(), "{what}");
    }
}

/// Found by random histories: it remained parked under the queue that had refused it first, and missed the room in the queue above.
#[test]
fn a_podgroup_that_one_queue_and_then_another_above_it_refuses_is_tried_when_that_has_room() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 20)]));
    for (name, parent, capability) in [("org", "root", 10), ("team", "org", 6), ("other", "org", 10)] {
        state.apply_queue(queue(name, Some(parent), &[("cpu", capability)]));
    }
    gang(&mut state, "runs", 1, "other", 5, &[("cpu", 1)]);
    gang(&mut state, "first", 1, "team", 1, &[("cpu", 1)]);
    assert_eq!(rest(&mut state).0, 6);
    gang(&mut state, "waits", 1, "team", 1, &[("cpu", 6)]);
    assert_eq!(rest(&mut state), (0, 1));
    state.delete_pod(&"ns/first-0".into());
    assert_eq!(rest(&mut state), (0, 1), "its queue has room, the queue above has none");
    state.delete_pod(&"ns/runs-4".into());
    assert_eq!(rest(&mut state), (1, 1));
}
