//! A new leader decides only after its takeover: the state, without a cluster, a task or a clock.

use super::command::Command;
use super::event::{Change, Event, Fenced, Report};
use super::kinds::{Groups, Nodes, Pods, Queues};
use super::state::State;
use super::takeover::{FenceAnswer, Handover};
use super::testing::{at, binds, listed, nothing_else, state};
use crate::api::PodFacts;
use crate::cycle::testing::{group, node, pod, queue, running};

/// Delivers all lists, those that a new leader requests in this generation.
fn lists(state: &mut State, pods: Vec<PodFacts>, generation: u64) {
    state.apply(Event::of::<Nodes>(listed(vec![node("n", &[("cpu", 1)])], generation)), at(0));
    state.apply(Event::of::<Groups>(listed(["a", "b"].map(|name| group("ns", name, 1, "default")).into(), generation)), at(0));
    state.apply(Event::of::<Queues>(listed(vec![queue("root", None, &[]), queue("default", Some("root"), &[])], generation)), at(0));
    nothing_else(generation).for_each(|event| state.apply(event, at(0)));
    state.apply(Event::of::<Pods>(listed(pods, generation)), at(0));
}

fn waits(name: &str) -> PodFacts {
    pod("ns", name, name, &[("cpu", 1)])
}

/// Returns the pods that the commands fence, by name.
fn fenced(commands: &[Command]) -> Vec<&str> {
    commands.iter().filter_map(|command| if let Command::Fence { name, .. } = command { Some(&**name) } else { None }).collect()
}

fn answer(state: &mut State, name: &str, answer: FenceAnswer, resource_version: u64) {
    let uid = format!("ns/{name}").as_str().into();
    state.learn(Report::Fenced(Fenced { uid, answer, resource_version }), at(10));
}

#[test]
fn a_view_from_before_the_lease_was_won_decides_nothing() {
    for handover in [Handover::Clean, Handover::Unclean] {
        let mut state = state();
        // The watch is behind: another leader has bound a.
        lists(&mut state, vec![waits("a"), waits("b")], 0);
        state.lead(handover, 1, at(0));
        assert_eq!(state.tick(at(0)), [], "{handover:?}");
        assert_eq!(state.next(at(0).since_start), None);
        lists(&mut state, vec![running(waits("a"), "n"), waits("b")], 1);
        let commands = state.tick(at(0));
        assert_eq!((binds(&commands), fenced(&commands)), (0, if handover == Handover::Clean { vec![] } else { vec!["b"] }));
        assert_eq!(state.decides(), handover == Handover::Clean);
    }
}

#[test]
fn nothing_is_decided_before_each_pod_is_fenced_and_the_binding_has_the_version_after_the_fence() {
    let mut state = state();
    let others = [
        PodFacts { gated: true, ..waits("gated") },
        PodFacts { deleting: true, ..waits("leaves") },
        running(waits("runs"), "elsewhere"),
        PodFacts { scheduler: "another".into(), ..waits("foreign") },
    ];
    lists(&mut state, [waits("a"), waits("b")].into_iter().chain(others).collect(), 0);
    state.lead(Handover::Unclean, 0, at(0));
    assert_eq!(fenced(&state.tick(at(0))), ["a", "b"]);
    assert_eq!(state.tick(at(5)), [], "once");
    answer(&mut state, "b", FenceAnswer::Gone, 0);
    assert_eq!(state.tick(at(10)), []);
    answer(&mut state, "a", FenceAnswer::Fenced, 70);
    let bound: Vec<_> =
        state.tick(at(10)).into_iter().filter_map(|command| if let Command::Bind(bind) = command { Some(bind) } else { None }).collect();
    assert_eq!(bound.iter().map(|bind| (&*bind.name, bind.resource_version)).collect::<Vec<_>>(), [("a", 70)]);
}

#[test]
fn a_binding_of_the_leader_before_that_took_effect_is_seen_before_anything_is_decided() {
    let mut state = state();
    lists(&mut state, vec![waits("a"), waits("b")], 0);
    state.lead(Handover::Unclean, 0, at(0));
    assert_eq!(fenced(&state.tick(at(0))), ["a", "b"]);
    answer(&mut state, "a", FenceAnswer::Landed, 70);
    answer(&mut state, "b", FenceAnswer::Fenced, 71);
    assert_eq!(state.tick(at(10)), [], "the watch has not shown the node of a");
    state.apply(Event::of::<Pods>(Change::Apply(running(waits("a"), "n"))), at(20));
    assert_eq!((binds(&state.tick(at(20))), state.decides()), (0, true), "the node is full");
    state.apply(Event::of::<Pods>(Change::Delete("ns/a".into())), at(30));
    assert_eq!(binds(&state.tick(at(30))), 1);
}

#[test]
fn a_pod_that_the_watch_shows_before_the_answer_is_not_waited_for() {
    let mut state = state();
    lists(&mut state, vec![waits("a"), waits("b")], 0);
    state.lead(Handover::Unclean, 0, at(0));
    assert_eq!(fenced(&state.tick(at(0))), ["a", "b"]);
    state.apply(Event::of::<Pods>(Change::Apply(running(waits("a"), "n"))), at(5));
    state.apply(Event::of::<Pods>(Change::Delete("ns/b".into())), at(5));
    answer(&mut state, "a", FenceAnswer::Landed, 70);
    assert!(!state.decides());
    answer(&mut state, "b", FenceAnswer::Landed, 70);
    assert!(state.decides());
}

#[test]
fn a_fence_of_a_pod_that_was_fenced_before_moves_no_time_of_transition() {
    let mut state = state();
    lists(&mut state, vec![waits("a"), PodFacts { fenced: true, ..waits("b") }], 0);
    state.lead(Handover::Unclean, 0, at(0));
    let commands = state.tick(at(0));
    let moves = commands.iter().filter_map(|command| if let Command::Fence { since, .. } = command { Some(since.is_some()) } else { None });
    assert_eq!(moves.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn after_the_cluster_went_back_the_pods_are_fenced_again() {
    let mut state = state();
    lists(&mut state, vec![waits("a"), waits("b")], 0);
    state.lead(Handover::Unclean, 0, at(0));
    assert_eq!(fenced(&state.tick(at(0))), ["a", "b"]);
    answer(&mut state, "a", FenceAnswer::Landed, 70);
    assert_eq!(state.tick(at(10)), []);
    // The restored pod has no node, and the watch never shows one.
    let restored =
        Change::Reset { all: vec![waits("a"), waits("b")], unreadable: Vec::new(), generation: 1, back: true, as_of: at(20).since_start };
    state.apply(Event::of::<Pods>(restored), at(20));
    assert_eq!(fenced(&state.tick(at(20))), ["a", "b"]);
    answer(&mut state, "a", FenceAnswer::Fenced, 30);
    answer(&mut state, "b", FenceAnswer::Fenced, 31);
    assert!(state.decides());
}
