//! A deleted queue keeps its place until its pods are gone (T3), as small scenarios.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::PodFacts;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{at, confirm, empty_state, gang, message};
use crate::cycle::testing::{PEACEFUL, amounts, node, pod, queue, running};
use crate::resources::Resources;

/// `a` and `b` share the 4 cpu of `org`; `a` uses 3 of them.
fn shared() -> SchedulingState {
    let mut state = with_queues();
    gang(&mut state, "runs", 1, "a", 3, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.iter().map(|bind| &*bind.path).collect::<Vec<_>>(), ["root/org/a"; 3]);
    confirm(&mut state, &plan);
    state
}

fn with_queues() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 16)]));
    state.apply_queue(queue("org", None, &[("cpu", 4)]));
    for name in ["a", "b"] {
        state.apply_queue(queue(name, Some("org"), &[]));
    }
    state
}

fn used(state: &SchedulingState, queue: &str) -> Resources {
    state.cache().accounting().quota().used(queue).clone().with("pods", crate::resources::Amount::ZERO)
}

/// A pod of a queue that an earlier process bound, created so many seconds after the first.
fn bound(name: &str, path: &str, created: i64) -> PodFacts {
    let charged_queue = path.rsplit('/').next().map(str::to_owned);
    let created = Timestamp::from_second(created).unwrap();
    PodFacts { charged_queue, queue_path: Some(Arc::from(path)), created, ..running(pod("ns", name, "runs", &[("cpu", 1)]), "n") }
}

/// No more than one of two pods of `b` has room below `org`, until a pod of the deleted queue ends.
fn only_one_more_fits(state: &mut SchedulingState) {
    gang(state, "more", 1, "b", 2, &[("cpu", 1)]);
    let plan = crate::cycle::run(state, &PEACEFUL, Duration::from_secs(1));
    assert_eq!(plan.binds.len(), 1, "{}", message(state, "more"));
    confirm(state, &plan);
    gang(state, "late", 1, "a", 1, &[("cpu", 1)]);
    assert!(crate::cycle::run(state, &PEACEFUL, Duration::from_secs(2)).binds.is_empty());
    assert_eq!(message(state, "late"), "queue \"a\" does not exist");
    state.delete_pod(&"ns/runs-0".into());
    assert_eq!(crate::cycle::run(state, &PEACEFUL, Duration::from_secs(3)).binds.len(), 1, "{}", message(state, "more"));
}

#[test]
fn the_pods_of_a_deleted_queue_count_above_it_and_wake_its_siblings_when_they_end() {
    let mut state = shared();
    state.delete_queue("a");
    assert_eq!(used(&state, "org"), amounts(&[("cpu", 3)]));
    only_one_more_fits(&mut state);
    ["ns/runs-1", "ns/runs-2"].into_iter().for_each(|uid| state.delete_pod(&uid.into()));
    assert!(state.take_dirty().queues.contains("org"), "its status changes");
    let _plan = at(&mut state, 4);
    state.apply_pod(running(pod("ns", "by-hand", "late", &[("cpu", 1)]), "n"));
    assert_eq!(used(&state, "org"), amounts(&[("cpu", 2)]), "nothing was left of its place");
}

#[test]
fn the_last_pod_of_a_deleted_queue_wakes_its_siblings_too() {
    let mut state = shared();
    state.delete_queue("a");
    gang(&mut state, "more", 2, "b", 2, &[("cpu", 1)]);
    assert!(crate::cycle::run(&mut state, &PEACEFUL, Duration::from_secs(1)).binds.is_empty());
    let changed =
        PodFacts { request: amounts(&[("cpu", 3), ("pods", 1)]), ..PodFacts::clone(&state.cache().pods()[&"ns/runs-0".into()].facts) };
    ["ns/runs-1", "ns/runs-2"].into_iter().for_each(|uid| state.delete_pod(&uid.into()));
    state.apply_pod(changed);
    assert!(crate::cycle::run(&mut state, &PEACEFUL, Duration::from_secs(2)).binds.is_empty());
    state.delete_pod(&"ns/runs-0".into());
    assert_eq!(crate::cycle::run(&mut state, &PEACEFUL, Duration::from_secs(3)).binds.len(), 2);
}

#[test]
fn a_new_process_reads_the_place_of_a_deleted_queue_from_the_bindings() {
    for queues_first in [true, false] {
        let mut state = if queues_first { with_queues() } else { empty_state() };
        state.delete_queue("a");
        for name in ["runs-0", "runs-1", "runs-2"] {
            state.apply_pod(bound(name, "root/org/a", 0));
        }
        if !queues_first {
            state.apply_node(node("n", &[("cpu", 16)]));
            state.apply_queue(queue("org", None, &[("cpu", 4)]));
            state.apply_queue(queue("b", Some("org"), &[]));
        }
        only_one_more_fits(&mut state);
        // It is made again somewhere else.
        state.apply_queue(queue("a", None, &[]));
        assert_eq!((used(&state, "org"), used(&state, "a")), (amounts(&[("cpu", 2)]), amounts(&[("cpu", 2)])));
    }
}

#[test]
fn where_two_bindings_disagree_the_pod_that_was_created_last_is_believed() {
    let old = bound("old", "root/org/a", 1);
    let young = bound("young", "root/team/a", 2);
    for pods in [[&old, &young], [&young, &old]] {
        let mut state = with_queues();
        state.apply_queue(queue("team", None, &[]));
        state.delete_queue("a");
        pods.into_iter().for_each(|pod| state.apply_pod(pod.clone()));
        assert_eq!((used(&state, "org"), used(&state, "team")), (Resources::new(), amounts(&[("cpu", 2)])));
        assert!(state.cache().accounting().audit().is_clean());
    }
}

#[test]
fn a_path_that_no_binding_writes_says_nothing() {
    let long = format!("root/{}a", "x/".repeat(64));
    for path in ["", "a", "org/a", "root/org/b", "root//a", "/org/a", "root/org/a/", &long] {
        let mut state = with_queues();
        state.delete_queue("a");
        state.apply_pod(PodFacts { charged_queue: Some("a".into()), ..bound("p", path, 0) });
        assert_eq!((used(&state, "org"), used(&state, "a")), (Resources::new(), amounts(&[("cpu", 1)])), "{path}");
    }
}

#[test]
fn an_edited_path_moves_nothing_that_was_seen_before() {
    let mut state = with_queues();
    state.apply_queue(queue("team", None, &[]));
    state.delete_queue("a");
    state.apply_pod(bound("p", "root/org/a", 0));
    state.apply_pod(PodFacts { ready: false, ..bound("p", "root/team/a", 9) });
    assert_eq!((used(&state, "org"), used(&state, "team")), (amounts(&[("cpu", 1)]), Resources::new()));
}
