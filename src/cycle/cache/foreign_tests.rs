//! What pods outside our queues use is not there to be guaranteed or shared (N2), as small scenarios.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupFacts, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{at, bound, confirm, empty_state, gang, message, names};
use crate::cycle::testing::{group, limits, node, pod, queue, running};

/// A pod of another scheduler on the node.
fn foreign(name: &str, node: &str, cpu: i64) -> PodFacts {
    PodFacts { scheduler: Arc::from("another"), names_group: false, ..running(pod("ns", name, "theirs", &[("cpu", cpu)]), node) }
}

/// Two nodes of 16 cpu, of which another scheduler uses so many on the second and all on the first.
fn mostly_taken(cpu: i64) -> SchedulingState {
    let mut state = empty_state();
    for name in ["n1", "n2"] {
        state.apply_node(node(name, &[("cpu", 16)]));
    }
    state.apply_pod(foreign("f1", "n1", 16));
    state.apply_pod(foreign("f2", "n2", cpu));
    state
}

#[test]
fn a_queue_does_not_take_the_last_cores_that_another_is_guaranteed() {
    let mut state = mostly_taken(14);
    state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 2)]), ..queue("queue1", None, &[]) });
    state.apply_queue(queue("queue2", None, &[]));
    gang(&mut state, "borrows", 1, "queue2", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 0).binds.is_empty());
    assert!(message(&state, "borrows").contains("unused guarantees 2"), "{}", message(&state, "borrows"));
    gang(&mut state, "entitled", 2, "queue1", 2, &[("cpu", 1)]);
    assert_eq!(at(&mut state, 1).binds.len(), 2);
    // The other scheduler gives a core back: the next cycle notices by itself.
    state.apply_pod(foreign("f2", "n2", 13));
    assert_eq!(at(&mut state, 2).binds.len(), 1);
}

#[test]
fn two_queues_that_hold_all_that_others_leave_give_a_third_one_its_share() {
    let mut state = mostly_taken(12);
    for name in ["a", "b", "c"] {
        state.apply_queue(queue(name, None, &[]));
    }
    for name in ["a", "b"] {
        gang(&mut state, name, 1, name, 2, &[("cpu", 1)]);
    }
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 4);
    confirm(&mut state, &plan);
    gang(&mut state, "c", 1, "c", 1, &[("cpu", 1)]);
    let plan = at(&mut state, 1);
    let [eviction] = plan.evictions.as_slice() else { panic!("{plan:?}: {}", message(&state, "c")) };
    assert_eq!(names(eviction).len(), 1);
    state.delete_pod(&eviction.victims[0].uid.clone());
    assert_eq!(at(&mut state, 2).binds.len(), 1);
}

#[test]
fn more_use_by_others_evicts_nothing_until_a_podgroup_waits_and_then_reclaims() {
    let mut state = mostly_taken(0);
    for name in ["a", "b"] {
        state.apply_queue(queue(name, None, &[]));
    }
    gang(&mut state, "borrows", 1, "a", 6, &[("cpu", 1)]);
    gang(&mut state, "small", 1, "b", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 8);
    confirm(&mut state, &plan);
    // All that is left is used by others, and then more than there is: both queues are over their shares.
    for (second, cpu) in [(1, 8), (200, 14), (400, 20)] {
        state.apply_pod(foreign("f3", "n2", cpu));
        let plan = at(&mut state, second);
        assert!(plan.evictions.is_empty() && plan.binds.is_empty(), "with {cpu} of others: {plan:?}");
    }
    assert!(state.cache().shares_now().over("a", state.cache().accounting().quota().used("a")).next().is_some());
    // A PodGroup waits: what its queue uses is within its share as soon as others leave enough.
    state.apply_pod(foreign("f3", "n2", 8));
    gang(&mut state, "waits", 1, "b", 1, &[("cpu", 1)]);
    let plan = at(&mut state, 600);
    assert_eq!(plan.evictions.iter().map(|eviction| eviction.victims.len()).sum::<usize>(), 1, "{plan:?}");
    assert!(plan.evictions[0].victims.iter().all(|victim| &*victim.queue == "a"));
}

/// The victim is gone before the foreign pod, on another node, on which the nomination counts as well: the total is larger without it.
#[test]
fn a_nomination_waits_for_a_terminating_pod_of_others_that_leaves_more_to_the_queues() {
    for preemptable in [true, false] {
        let mut state = empty_state();
        state.apply_node(node("n1", &[("cpu", 6)]));
        state.apply_node(NodeFacts { unschedulable: true, ..node("n2", &[("cpu", 4)]) });
        let guarantee = if preemptable { limits(&[("cpu", 4)]) } else { limits(&[]) };
        for (name, guarantee) in [("other", guarantee), ("q", limits(&[]))] {
            state.apply_queue(QueueFacts { guarantee, deserved: limits(&[("cpu", 4), ("pods", 50)]), ..queue(name, None, &[]) });
        }
        state.apply_group(group("ns", "low", 1, "q"));
        state.apply_pod(PodFacts { priority: -1, ..running(pod("ns", "low-0", "low", &[("cpu", 6)]), "n1") });
        state.apply_pod(PodFacts { deleting: true, ..foreign("f", "n2", 4) });
        state.apply_group(GroupFacts { preemptable, ..group("ns", "high", 1, "q") });
        state.apply_pod(PodFacts { priority: 9, ..pod("ns", "high-0", "high", &[("cpu", 4)]) });
        assert_eq!(at(&mut state, 0).evictions.len(), 1, "{preemptable}: {}", message(&state, "high"));
        state.delete_pod(&"ns/low-0".into());
        assert!(at(&mut state, 1).binds.is_empty());
        state.delete_pod(&"ns/f".into());
        assert!(state.has_work(Duration::from_secs(1)));
        assert_eq!(bound(&at(&mut state, 1)), [("high-0", "n1")], "{preemptable}: {}", message(&state, "high"));
    }
}

/// Runs cycles until there is nothing to do before this time. Returns the number of evictions and of binds.
fn until(state: &mut SchedulingState, seconds: u64) -> [usize; 2] {
    let mut went = [0; 2];
    while let Some(next) = state.next_attempt().filter(|next| *next < Duration::from_secs(seconds)) {
        let plan = crate::cycle::run(state, &crate::cycle::testing::POLICY, next.max(Duration::from_secs(seconds - 3)));
        went[0] += plan.evictions.iter().map(|eviction| eviction.victims.len()).sum::<usize>();
        went[1] += plan.binds.len();
    }
    went
}

#[test]
fn a_pod_of_others_that_makes_shares_smaller_lets_a_podgroup_reclaim_though_nothing_else_happens() {
    let mut state = empty_state();
    for name in ["a", "b"] {
        state.apply_queue(queue(name, None, &[]));
    }
    // Two cores are free in pieces, and no queue is over its share.
    state.apply_group(group("ns", "runs", 1, "a"));
    for (node_name, pods) in [("n1", ["r1", "r2", "r3"]), ("n2", ["r4", "r5", "r6"])] {
        state.apply_node(node(node_name, &[("cpu", 4)]));
        pods.into_iter().for_each(|name| state.apply_pod(running(pod("ns", name, "runs", &[("cpu", 1)]), node_name)));
    }
    gang(&mut state, "waits", 1, "b", 1, &[("cpu", 2)]);
    assert_eq!(until(&mut state, 4), [0, 0], "{}", message(&state, "waits"));
    state.apply_pod(foreign("f", "n1", 1));
    assert_eq!(until(&mut state, 8), [1, 0], "{}", message(&state, "waits"));
}

/// The guarantees of `a` and `b` exceed what is left to the queues, so that of `a` is cut: it may not even use what is guaranteed below the
/// capability of `team`.
#[test]
fn a_pod_of_others_that_ends_lets_a_queue_use_the_rest_of_its_guarantee_below_a_full_parent() {
    let mut state = empty_state();
    state.apply_queue(queue("team", None, &[("cpu", 10)]));
    for (name, guarantee, priority) in [("a", 5, 0), ("b", 5, 1), ("c", 0, 0)] {
        state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", guarantee)]), priority, ..queue(name, Some("team"), &[]) });
    }
    state.apply_node(node("n1", &[("cpu", 7)]));
    state.apply_node(node("n2", &[("cpu", 3)]));
    state.apply_pod(foreign("f", "n2", 3));
    state.apply_group(group("ns", "runs", 1, "c"));
    state.apply_pod(running(pod("ns", "runs-0", "runs", &[("cpu", 4)]), "n1"));
    gang(&mut state, "waits", 1, "a", 1, &[("cpu", 3)]);
    assert_eq!(until(&mut state, 4), [0, 0]);
    assert!(message(&state, "waits").contains("queue \"team\""), "{}", message(&state, "waits"));
    state.delete_pod(&"ns/f".into());
    assert_eq!(until(&mut state, 8), [0, 1], "{}", message(&state, "waits"));
}
