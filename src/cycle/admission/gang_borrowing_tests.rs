//! Whether a gang with a member that is not preemptable may borrow (S3), as small scenarios.

use crate::api::{PodFacts, QueueFacts};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{at, confirm, empty_state, gang, message, names};
use crate::cycle::testing::{group, limits, node, pod, queue};

/// `a` deserves 2 of 6 cpu, and `b` the rest.
fn two_queues() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 6)]));
    for (name, cpu) in [("a", 2), ("b", 4)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", cpu), ("pods", 50)]), ..queue(name, None, &[]) });
    }
    state
}

/// A gang of three members of 1 cpu in `a`, the member with this number not preemptable.
fn gang_with(state: &mut SchedulingState, min: u32, keeps: u32) {
    state.apply_group(group("ns", "g", min, "a"));
    for index in 0..3 {
        state.apply_pod(PodFacts { preemptable: index != keeps, ..pod("ns", &format!("g-{index}"), "g", &[("cpu", 1)]) });
    }
}

#[test]
fn a_gang_does_not_borrow_through_one_member_that_is_not_preemptable() {
    for keeps in 0..3 {
        let mut state = two_queues();
        gang_with(&mut state, 3, keeps);
        assert!(at(&mut state, 0).binds.is_empty(), "g-{keeps} keeps the whole gang");
        let why = "queue \"a\": a non-preemptable PodGroup may not borrow (cpu requested 3, used 0, entitled 2)";
        assert!(message(&state, "g").contains(why), "{}", message(&state, "g"));
        // It may go as a whole now, and borrows.
        state.apply_pod(pod("ns", &format!("g-{keeps}"), "g", &[("cpu", 1)]));
        assert_eq!(at(&mut state, 1).binds.len(), 3);
    }
}

#[test]
fn a_gang_within_the_entitlement_of_its_queue_is_placed_whoever_keeps_its_place() {
    let mut state = two_queues();
    gang_with(&mut state, 2, 0);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 3, "the third goes alone: it borrows");
    confirm(&mut state, &plan);
    // The other queue gets back what was borrowed, and no more.
    gang(&mut state, "owed", 4, "b", 4, &[("cpu", 1)]);
    let plan = at(&mut state, 1);
    let [eviction] = plan.evictions.as_slice() else { panic!("{plan:?}: {}", message(&state, "owed")) };
    assert_eq!(names(eviction).len(), 1);
}

#[test]
fn what_a_gang_still_needs_is_not_borrowed_beside_a_member_that_keeps_its_place() {
    let mut state = two_queues();
    gang_with(&mut state, 2, 0);
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    // Its minimum is raised: a fourth and a fifth member are needed.
    state.apply_group(group("ns", "g", 5, "a"));
    for index in 3..5 {
        state.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 1)]));
    }
    assert!(at(&mut state, 1).binds.is_empty(), "g-0 would keep them");
    assert!(message(&state, "g").contains("may not borrow"), "{}", message(&state, "g"));
}

#[test]
fn another_member_makes_up_for_one_that_may_not_borrow() {
    let mut state = two_queues();
    gang(&mut state, "others", 1, "a", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    gang_with(&mut state, 2, 0);
    let plan = at(&mut state, 1);
    let placed: Vec<_> = plan.binds.iter().map(|bind| &*bind.name).collect();
    assert_eq!(placed, ["g-1", "g-2"], "both borrow, and both go together");
}
