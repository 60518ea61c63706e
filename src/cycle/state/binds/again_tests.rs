//! Which changes keep a binding from being sent again, as small scenarios.

use std::time::Duration;

use crate::api::node::Taint;
use crate::api::{GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::plan::{Bind, Plan};
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{empty_state, gang};
use crate::cycle::testing::{POLICY, amounts, group, keeps_away, node, pod, queue, running};

fn cycle(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

/// Two nodes of 4 cpu and a gang of two with 2 cpu each, which is assumed on one of them.
fn assumed() -> (SchedulingState, Vec<Bind>) {
    let mut state = empty_state();
    state.apply_queue(queue("q", None, &[("cpu", 8)]));
    state.apply_node(node("n", &[("cpu", 4)]));
    gang(&mut state, "g", 2, "q", 2, &[("cpu", 2)]);
    let binds = cycle(&mut state, 0).binds;
    assert_eq!(binds.iter().map(|bind| &*bind.node).collect::<Vec<_>>(), ["n", "n"]);
    state.apply_node(node("other", &[("cpu", 4)]));
    (state, binds)
}

fn foreign(name: &str, node: &str, cpus: i64) -> PodFacts {
    let pod = running(pod("theirs", name, "theirs", &[("cpu", cpus)]), node);
    PodFacts { scheduler: "another".into(), names_group: false, ..pod }
}

/// Returns which bindings would be decided again, after nothing but the question changed.
fn again(state: &mut SchedulingState, binds: &[Bind]) -> Vec<bool> {
    let before = format!("{:?}", state.cache().accounting().pods().collect::<Vec<_>>());
    let answers = binds.iter().map(|bind| state.would_bind_again(bind)).collect();
    assert_eq!(before, format!("{:?}", state.cache().accounting().pods().collect::<Vec<_>>()));
    assert!(state.cache().accounting().audit().is_clean());
    answers
}

#[test]
fn a_binding_is_sent_again_while_nothing_speaks_against_its_node() {
    let (mut state, binds) = assumed();
    assert_eq!(again(&mut state, &binds), [true, true], "the node is full with the pods themselves");
    state.apply_pod(foreign("elsewhere", "other", 4));
    state.apply_queue(queue("q", None, &[("cpu", 4)]));
    state.apply_node(node("n", &[("cpu", 4), ("memory", 1)]));
    assert_eq!(again(&mut state, &binds), [true, true]);
    assert!(cycle(&mut state, 1).binds.is_empty());
    assert_eq!(again(&mut state, &binds), [true, true]);
}

#[test]
fn a_binding_is_not_sent_again_where_a_cycle_would_not_decide_on_it() {
    type Change = fn(&mut SchedulingState);
    let taint = |state: &mut SchedulingState| {
        let taint = Taint { key: "maintenance".into(), value: None, effect: "NoSchedule".into() };
        state.apply_node(NodeFacts { taints: vec![taint], ..node("n", &[("cpu", 4)]) });
    };
    let changes: [(&str, Change); 14] = [
        ("cordoned", |state| state.apply_node(NodeFacts { unschedulable: true, ..node("n", &[("cpu", 4)]) })),
        ("tainted", taint),
        ("gone", |state| state.delete_node("n")),
        ("shrunk", |state| state.apply_node(node("n", &[("cpu", 3)]))),
        ("filled by another scheduler", |state| state.apply_pod(foreign("x", "n", 1))),
        ("the capability is lowered", |state| state.apply_queue(queue("q", None, &[("cpu", 3)]))),
        ("the queue is closed", |state| state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[("cpu", 8)]) })),
        ("the queue is gone", |state| state.delete_queue("q")),
        ("the PodGroup is gone", |state| state.delete_group(&GroupKey::new("ns", "g"))),
        ("the PodGroup is in another queue", |state| state.apply_group(group("ns", "g", 2, "default"))),
        ("the PodGroup is being deleted", |state| state.apply_group(GroupFacts { deleting: true, ..group("ns", "g", 2, "q") })),
        ("the pods are being deleted", |state| {
            for name in ["g-0", "g-1"] {
                state.apply_pod(PodFacts { deleting: true, ..pod("ns", name, "g", &[("cpu", 2)]) });
            }
        }),
        ("the pods are bound", |state| {
            for name in ["g-0", "g-1"] {
                state.apply_pod(running(pod("ns", name, "g", &[("cpu", 2)]), "n"));
            }
        }),
        ("the pods are gone", |state| {
            for name in ["ns/g-0", "ns/g-1"] {
                state.delete_pod(&name.into());
            }
        }),
    ];
    for (name, change) in changes {
        let (mut state, binds) = assumed();
        change(&mut state);
        assert_eq!(again(&mut state, &binds), [false, false], "{name}");
    }
}

#[test]
fn a_binding_of_a_further_member_is_not_sent_again_after_the_minimum_changed() {
    let (mut state, binds) = assumed();
    let further: Vec<Bind> = binds.iter().map(|bind| Bind { minimum: Some(2), ..bind.clone() }).collect();
    assert_eq!(again(&mut state, &further), [true, true]);
    state.apply_group(group("ns", "g", 3, "q"));
    assert_eq!(again(&mut state, &further), [false, false]);
}

#[test]
fn a_binding_is_not_sent_again_beside_a_pod_that_keeps_it_away() {
    let (mut state, binds) = assumed();
    let keeper = PodFacts { terms: keeps_away("ns", ("app", "g"), "zone"), ..foreign("keeper", "other", 1) };
    let labelled = |name: &str| PodFacts { labels: [("app".to_owned(), "g".to_owned())].into(), ..pod("ns", name, "g", &[("cpu", 2)]) };
    ["g-0", "g-1"].into_iter().for_each(|name| state.apply_pod(labelled(name)));
    for name in ["n", "other"] {
        let labels = [("zone".to_owned(), "z".to_owned())].into();
        state.apply_node(NodeFacts { labels, ..node(name, &[("cpu", 4)]) });
    }
    assert_eq!(again(&mut state, &binds), [true, true]);
    state.apply_pod(keeper);
    assert_eq!(again(&mut state, &binds), [false, false]);
}

/// A nomination overcommits the node until its victims are gone. It counts on the pods that are being bound.
#[test]
fn what_is_nominated_for_another_gang_does_not_keep_a_binding_from_being_sent_again() {
    let (mut state, binds) = assumed();
    state.apply_node(node("n", &[("cpu", 6)]));
    state.delete_node("other");
    state.apply_group(group("ns", "low", 1, "q"));
    state.apply_pod(PodFacts { priority: -1, ..running(pod("ns", "low-0", "low", &[("cpu", 2)]), "n") });
    state.apply_group(group("ns", "high", 1, "q"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "high-0", "high", &[("cpu", 2)]) });
    assert_eq!(cycle(&mut state, 1).evictions.len(), 1);
    assert_eq!(state.nominated_on("n"), Some(amounts(&[("cpu", 2), ("pods", 1)])));
    assert_eq!(again(&mut state, &binds), [true, true]);
}
