//! How do members beyond the minimum leave room for what other PodGroups have reserved?

use super::{at, cpus, elastic, reserved};
use crate::api::{QueueFacts, Uid};
use crate::cycle::cache::Phase;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, gang, message, phase};
use crate::cycle::testing::{POLICY, amounts, group, limits, node, pod, queue, running};
use crate::cycle::*;

fn placed(state: &SchedulingState, name: &str) -> u32 {
    state.cache().groups()[&GroupKey::new("ns", name)].counts.placed
}

/// Four nodes of 4 cpu without any capability, and three elastic PodGroups: two with 16 members each, and one that is admitted before its pods exist.
fn three_elastic() -> SchedulingState {
    let mut state = empty_state();
    (1..=4).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    ["a", "b", "c"].into_iter().for_each(|name| elastic(&mut state, name, 0));
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "root"), cpus(6));
    ["a", "b"].into_iter().for_each(|name| elastic(&mut state, name, 16));
    assert_eq!(at(&mut state, 1).binds.len(), 14);
    state
}

#[test]
fn a7_further_members_leave_room_for_the_minimum_of_an_admitted_podgroup_without_pods() {
    let mut state = three_elastic();
    let waits = "queue \"root\": the room that is left is reserved for the minimum of other PodGroups: cpu requested 1, used 14, reserved 2, available to queues in the cluster 16; reserved by PodGroup ns/c (2)";
    assert_eq!(["a", "b"].map(|name| message(&state, name)), [waits, waits]);
    elastic(&mut state, "c", 16);
    assert_eq!(bound(&at(&mut state, 2)).iter().map(|(pod, _)| *pod).collect::<Vec<_>>(), ["c-00", "c-01"]);
}

#[test]
fn a7_what_is_reserved_in_vain_holds_further_members_back_once_and_no_longer_than_the_first_admission() {
    let mut state = three_elastic();
    assert!(at(&mut state, 2).binds.is_empty());
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(30)));
    let binds = at(&mut state, 30).binds.len() + at(&mut state, 30).binds.len();
    assert_eq!((binds, phase(&state, "c")), (2, Phase::Pending));
    // It is admitted again after its back-off, and the others get what becomes free all the same.
    assert!(at(&mut state, 60).binds.is_empty());
    assert_eq!((phase(&state, "c"), reserved(&state, "root")), (Phase::Inqueue, cpus(2)));
    state.delete_pod(&Uid::from("ns/a-02"));
    assert_eq!(at(&mut state, 61).binds.len(), 1);
    // A PodGroup that had its nodes begins anew.
    elastic(&mut state, "c", 2);
    ["a-03", "a-04"].into_iter().for_each(|name| state.delete_pod(&Uid::from(format!("ns/{name}").as_str())));
    let _others = at(&mut state, 62);
    ["c-00", "c-01"].into_iter().for_each(|name| state.delete_pod(&Uid::from(format!("ns/{name}").as_str())));
    assert_eq!(at(&mut state, 63).binds.len(), 2, "nothing is reserved for members that do not exist");
    elastic(&mut state, "c", 2);
    assert!(at(&mut state, 64).binds.is_empty());
    state.delete_pod(&Uid::from("ns/a-05"));
    assert!(at(&mut state, 65).binds.is_empty(), "what it has lost is reserved for it again");
}

#[test]
fn a7_what_is_reserved_without_an_admission_timeout_holds_further_members_back_for_a_time_all_the_same() {
    let forever = Policy { admission_timeout: Duration::ZERO, ..POLICY };
    let run_at = |state: &mut SchedulingState, seconds| run(state, &forever, Duration::from_secs(seconds)).binds.len();
    let mut state = empty_state();
    (1..=4).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    elastic(&mut state, "c", 0);
    assert_eq!(run_at(&mut state, 0), 0);
    elastic(&mut state, "a", 16);
    assert_eq!(run_at(&mut state, 1), 14);
    assert_eq!((run_at(&mut state, 29), state.next_attempt()), (0, Some(Duration::from_secs(30))));
    assert_eq!(run_at(&mut state, 30) + run_at(&mut state, 30), 2);
    assert_eq!((phase(&state, "c"), reserved(&state, "root")), (Phase::Inqueue, cpus(2)), "its reservation has no end");
}

#[test]
fn a7_podgroups_that_are_seen_together_have_their_minimum_before_one_has_more() {
    let mut state = empty_state();
    (1..=4).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    ["a", "b", "c"].into_iter().for_each(|name| elastic(&mut state, name, 16));
    assert_eq!(at(&mut state, 0).binds.len(), 16);
    assert_eq!(["a", "b", "c"].map(|name| placed(&state, name)), [12, 2, 2]);
}

#[test]
fn a7_a_partially_bound_gang_that_no_node_can_finish_holds_further_members_back_as_long_as_one_admission() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    gang(&mut state, "torn", 2, "default", 2, &[("cpu", 1), ("nvidia.com/gpu", 1)]);
    state.apply_pod(running(pod("ns", "torn-0", "torn", &[("cpu", 1), ("nvidia.com/gpu", 1)]), "n"));
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "root"), cpus(1));
    elastic(&mut state, "a", 4);
    assert_eq!(at(&mut state, 1).binds.len(), 2);
    assert!(at(&mut state, 2).binds.is_empty());
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(30)));
    let binds = at(&mut state, 30).binds.len() + at(&mut state, 30).binds.len();
    assert_eq!((binds, reserved(&state, "root")), (1, cpus(1)), "it keeps what it needs to be finished in its queue");
}

/// Found by trying: an account that may create PodGroups in one queue kept every pod beyond a minimum from starting, in all queues.
#[test]
fn a7_what_another_queue_has_reserved_counts_as_far_as_its_share() {
    let mut state = empty_state();
    (1..=4).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    state.apply_queue(queue("vision", Some("root"), &[]));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1000)])), ..group("ns", "huge", 1, "default") });
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "default"), cpus(1000));
    gang(&mut state, "vic", 1, "vision", 12, &[("cpu", 1)]);
    gang(&mut state, "own", 1, "default", 2, &[("cpu", 1)]);
    // Of the 16, each queue is entitled to 8. Of those of `default`, one is used.
    assert_eq!(at(&mut state, 1).binds.len(), 8 + 1);
    assert!(message(&state, "vic").contains("cpu requested 1, used 9, reserved 7, available"), "{}", message(&state, "vic"));
    assert!(
        message(&state, "own").contains("reserved 1k"),
        "tenants that share a queue share its reservations: {}",
        message(&state, "own")
    );
    assert_eq!(at(&mut state, 30).binds.len() + at(&mut state, 30).binds.len(), 5);
}

/// A full cluster of 16 cpu: `borrow` uses 8 of its 6, `vision` 4 of 6, `default` the rest of its 4, and has reserved 1000.
fn full_beside_a_huge_reservation(of_default: u32) -> SchedulingState {
    let mut state = empty_state();
    (1..=4).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    for (name, deserved) in [("borrow", 6), ("vision", 6), ("default", 4)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), ..queue(name, Some("root"), &[]) });
    }
    for (name, queue, pods) in [("own", "default", of_default), ("vic", "vision", 4), ("bor", "borrow", 12 - of_default)] {
        gang(&mut state, name, 1, queue, pods, &[("cpu", 1)]);
        let binds = at(&mut state, 0).binds;
        binds.iter().for_each(|bind| state.confirm(&bind.uid));
        assert_eq!(binds.len(), usize::try_from(pods).unwrap(), "{name}");
    }
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1000)])), ..group("ns", "huge", 1, "default") });
    let _admitted = at(&mut state, 0);
    assert_eq!(reserved(&state, "default"), cpus(1000));
    gang(&mut state, "vic", 1, "vision", 5, &[("cpu", 1)]);
    state
}

#[test]
fn a7_a_reservation_that_does_not_count_keeps_no_queue_from_reclaiming() {
    let mut state = full_beside_a_huge_reservation(4);
    let plan = at(&mut state, 1);
    assert_eq!(plan.evictions.len(), 1, "{}", message(&state, "vic"));
}

#[test]
fn a7_a_reservation_stops_counting_when_its_queue_uses_its_share() {
    let mut state = full_beside_a_huge_reservation(3);
    assert!(at(&mut state, 1).evictions.is_empty());
    assert!(message(&state, "vic").contains("cpu requested 1, used 16, reserved 1, available"), "{}", message(&state, "vic"));
    state.delete_pod(&Uid::from("ns/bor-8"));
    gang(&mut state, "next", 1, "default", 1, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 2)).iter().map(|(pod, _)| *pod).collect::<Vec<_>>(), ["next-0"]);
    assert_eq!(at(&mut state, 3).evictions.len(), 1, "{}", message(&state, "vic"));
}
