//! Which PodGroups are admitted, what do they reserve, and for how long, as small scenarios (A2 to A6).

use super::cache::Phase;
use super::state::SchedulingState;
use super::testing::{POLICY, amounts, group, limits, node, pod, queue, running};
use super::tests::{bound, empty_state, gang, message, phase};
use super::*;
use crate::api::Uid;
use crate::api::podgroup::PodGroupStatus;
use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, PodFacts, QueueFacts};
use crate::resources::Amount;

fn at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

fn reserved(state: &SchedulingState, queue: &str) -> Amount {
    state.cache().accounting().quota().queue(queue).reserved.get("cpu")
}

fn cpus(count: i64) -> Amount {
    Amount::from_units(count)
}

/// `a` and `b` below `team`, which may use 8 cpu, on nodes of 4.
fn team() -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(queue("team", None, &[("cpu", 8)]));
    state.apply_queue(queue("a", Some("team"), &[]));
    state.apply_queue(queue("b", Some("team"), &[]));
    for name in ["n1", "n2", "n3"] {
        state.apply_node(node(name, &[("cpu", 4)]));
    }
    state
}

#[test]
fn a2_a_podgroup_without_nodes_reserves_its_minimum_in_its_queue_and_all_above() {
    let mut state = team();
    gang(&mut state, "big", 1, "a", 1, &[("cpu", 6)]);
    gang(&mut state, "small", 3, "b", 3, &[("cpu", 1)]);
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(["a", "b", "team", "root"].map(|queue| reserved(&state, queue)), [6, 0, 6, 6].map(cpus));
    assert_eq!((phase(&state, "big"), phase(&state, "small")), (Phase::Inqueue, Phase::Pending));
    assert_eq!(message(&state, "small"), "queue \"team\" is over its quota: cpu requested 3, used 0, reserved 6, capability 8");
    gang(&mut state, "smaller", 2, "b", 2, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 1)).len(), 2, "beside what is reserved there is room for two");
}

#[test]
fn a4_a_gang_is_placed_into_its_own_reservation_and_nothing_counts_twice() {
    let mut state = team();
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), ..group("ns", "g", 2, "a") });
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!((reserved(&state, "team"), phase(&state, "g")), (cpus(8), Phase::Inqueue));
    for index in 0..2 {
        state.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 3)]));
    }
    gang(&mut state, "other", 1, "b", 1, &[("cpu", 2)]);
    assert_eq!(bound(&at(&mut state, 1)).len(), 3, "what it asked for beyond its members is free once it has its places");
    assert_eq!(reserved(&state, "team"), cpus(0));
}

#[test]
fn a4_an_earlier_refused_podgroup_gets_what_a_placed_gang_did_not_use() {
    let mut state = empty_state();
    state.apply_queue(queue("team", None, &[("cpu", 10)]));
    state.apply_queue(QueueFacts { priority: 1, ..queue("first", Some("team"), &[]) });
    state.apply_queue(queue("then", Some("team"), &[]));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), ..group("ns", "g", 1, "then") });
    state.apply_pod(pod("ns", "g-0", "g", &[("cpu", 4)]));
    gang(&mut state, "s", 1, "first", 1, &[("cpu", 4)]);
    state.delete_group(&GroupKey::new("ns", "s"));
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(8));
    state.apply_group(group("ns", "s", 1, "first"));
    state.apply_node(node("n", &[("cpu", 10)]));
    assert_eq!(bound(&at(&mut state, 1)), [("g-0", "n")]);
    assert_eq!(bound(&at(&mut state, 1)), [("s-0", "n")]);
}

#[test]
fn a5_a_podgroup_with_pods_that_are_created_after_admission_is_admitted_again_after_its_back_off() {
    let mut state = team();
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 6)])), ..group("ns", "g", 1, "a") });
    let mut phases = Vec::new();
    let mut now = 0;
    for _ in 0..4 {
        let _plan = at(&mut state, now);
        let _rest = at(&mut state, now);
        phases.push((now, phase(&state, "g")));
        now = state.next_attempt().map_or(u64::MAX, |at| at.as_secs());
    }
    use Phase::{Inqueue, Pending};
    assert_eq!(phases, [(0, Inqueue), (30, Pending), (60, Inqueue), (90, Pending)]);
}

#[test]
fn a4_another_scheduler_binds_a_member_and_the_reservation_shrinks_by_it() {
    let mut state = team();
    gang(&mut state, "g", 2, "a", 2, &[("cpu", 4)]);
    state.delete_node("n2");
    state.delete_node("n3");
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(8));
    state.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 4)]), "n1"));
    assert_eq!(reserved(&state, "team"), cpus(4));
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(4));
    assert!(at(&mut state, 1_000).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(4), "a gang of which a part runs keeps what it needs to be finished");
    state.apply_node(node("n2", &[("cpu", 4)]));
    assert_eq!(bound(&at(&mut state, 1_001)), [("g-1", "n2")]);
    assert_eq!(reserved(&state, "team"), cpus(0));
}

#[test]
fn a4_the_charge_of_a_refused_bind_stays_reserved_for_its_gang() {
    let mut state = team();
    gang(&mut state, "g", 2, "a", 2, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    gang(&mut state, "late", 1, "b", 1, &[("cpu", 1)]);
    state.confirm(&Uid::from("ns/g-0"));
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(9));
    assert_eq!(reserved(&state, "team"), cpus(4));
    assert!(at(&mut state, 1).binds.is_empty(), "no PodGroup takes what the gang is about to use");
    assert!(message(&state, "late").contains("queue \"team\" is over its quota"));
    assert_eq!(bound(&at(&mut state, 9)).len(), 1);
    assert_eq!(reserved(&state, "team"), cpus(0));
}

#[test]
fn q5_a_hopeless_podgroup_keeps_others_out_until_its_admission_timeout_and_then_less_and_less() {
    let mut state = team();
    gang(&mut state, "hopeless", 1, "a", 1, &[("cpu", 8)]);
    gang(&mut state, "small", 1, "b", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(30)));
    assert!(at(&mut state, 30).binds.is_empty());
    assert_eq!((phase(&state, "hopeless"), state.next_attempt()), (Phase::Pending, Some(Duration::ZERO)), "others have their turn at once");
    assert_eq!(bound(&at(&mut state, 30)), [("small-0", "n1")]);
    assert!(message(&state, "hopeless").contains("Insufficient cpu") || message(&state, "hopeless").contains("is over its quota"));
    // It backs off for as long; room that is gained meanwhile may place it, and it reserves nothing.
    state.delete_pod(&Uid::from("ns/small-0"));
    assert!(at(&mut state, 59).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(0));
    state.apply_node(node("n4", &[("cpu", 4)]));
    assert!(at(&mut state, 60).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(8), "after the rest, something having been gained, it is admitted again");
    assert!(at(&mut state, 90).binds.is_empty());
    state.apply_node(node("n5", &[("cpu", 4)]));
    assert!(at(&mut state, 149).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(0), "the second rest is twice as long");
    state.apply_node(node("big", &[("cpu", 8)]));
    assert_eq!(bound(&at(&mut state, 149)), [("hopeless-0", "big")], "it may be placed while it rests");
    assert_eq!(state.cache().groups()[&GroupKey::new("ns", "hopeless")].admission.backoff.times, 0);
}

#[test]
fn a5_a_finished_deleted_or_changed_podgroup_reserves_nothing() {
    let mut state = team();
    let asks = |cpu, queue| GroupFacts { min_resources: Some(amounts(&[("cpu", cpu)])), ..group("ns", "g", 1, queue) };
    state.apply_group(asks(6, "a"));
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "a"), cpus(6));
    state.apply_group(asks(5, "a"));
    assert_eq!(reserved(&state, "a"), cpus(0));
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "a"), cpus(5));
    state.apply_group(asks(5, "b"));
    let _plan = at(&mut state, 0);
    assert_eq!(["a", "b"].map(|queue| reserved(&state, queue)), [0, 5].map(cpus));
    let completed = PodGroupStatus { phase: Some("Completed".into()), ..PodGroupStatus::default() };
    state.apply_group(GroupFacts { status: completed, ..asks(5, "b") });
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "b"), cpus(0), "L10: its pods are gone, and so is what it needed");
    state.apply_group(asks(5, "b"));
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "b"), cpus(5));
    state.delete_group(&GroupKey::new("ns", "g"));
    assert_eq!(reserved(&state, "root"), cpus(0));
}

#[test]
fn a_closed_queue_revokes_the_reservations_of_its_podgroups() {
    let mut state = team();
    gang(&mut state, "g", 1, "a", 1, &[("cpu", 6)]);
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "a"), cpus(6));
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("a", Some("team"), &[]) });
    let _plan = at(&mut state, 0);
    assert_eq!(
        (reserved(&state, "a"), phase(&state, "g"), message(&state, "g")),
        (cpus(0), Phase::Pending, "queue \"a\" is closed".into())
    );
}

#[test]
fn q6_beside_a_borrower_a_queue_within_its_share_is_admitted_and_no_queue_borrows_more() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 10)]));
    state.apply_queue(queue("team", None, &[("cpu", 10)]));
    for name in ["a", "b"] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5)]), ..queue(name, Some("team"), &[]) });
    }
    gang(&mut state, "borrows", 1, "a", 11, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 10);
    gang(&mut state, "owed", 5, "b", 5, &[("cpu", 1)]);
    gang(&mut state, "greedy", 6, "b", 6, &[("cpu", 1)]);
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!((phase(&state, "owed"), reserved(&state, "b")), (Phase::Inqueue, cpus(5)));
    assert_eq!(phase(&state, "greedy"), Phase::Pending, "more than its share is not owed to it");
    state.delete_pod(&Uid::from("ns/borrows-0"));
    assert!(at(&mut state, 2).binds.is_empty(), "what the borrower gives back it does not get again");
    for index in 1..5 {
        state.delete_pod(&Uid::from(format!("ns/borrows-{index}").as_str()));
    }
    assert_eq!(bound(&at(&mut state, 3)).len(), 5);
    assert_eq!(phase(&state, "owed"), Phase::Running);
}

#[test]
fn q11_in_a_fifo_queue_no_podgroup_passes_the_first_unless_it_can_never_fit() {
    for strategy in [DequeueStrategy::Fifo, DequeueStrategy::Traverse] {
        let fifo = strategy == DequeueStrategy::Fifo;
        let mut state = empty_state();
        state.apply_node(node("n1", &[("cpu", 4)]));
        state.apply_node(node("n2", &[("cpu", 4)]));
        state.apply_queue(QueueFacts { dequeue_strategy: strategy, ..queue("q", None, &[("cpu", 6)]) });
        gang(&mut state, "runs", 1, "q", 1, &[("cpu", 3)]);
        assert_eq!(bound(&at(&mut state, 0)).len(), 1);
        gang(&mut state, "big", 1, "q", 1, &[("cpu", 4)]);
        gang(&mut state, "small", 1, "q", 1, &[("cpu", 1)]);
        assert_eq!(bound(&at(&mut state, 1)).len(), usize::from(!fifo));
        if fifo {
            assert_eq!(message(&state, "small"), "the queue is fifo, and PodGroup ns/big comes first");
            // A new PodGroup comes alone and waits behind it, too.
            gang(&mut state, "tiny", 1, "q", 1, &[]);
            assert!(at(&mut state, 2).binds.is_empty());
            assert_eq!(message(&state, "tiny"), "the queue is fifo, and PodGroup ns/big comes first");
        }
        gang(&mut state, "impossible", 1, "q", 1, &[("cpu", 7)]);
        let first = PodFacts { created: k8s_openapi::jiff::Timestamp::MIN, ..pod("ns", "impossible-0", "impossible", &[("cpu", 7)]) };
        state.apply_pod(first);
        state.delete_pod(&Uid::from("ns/big-0"));
        state.delete_group(&GroupKey::new("ns", "big"));
        let rest = bound(&at(&mut state, 3)).len();
        assert_eq!(rest, if fifo { 2 } else { 0 }, "no PodGroup waits for one that can never fit");
    }
}

#[test]
fn a5_a_closed_queue_revokes_the_reservations_of_podgroups_without_enough_pods() {
    let mut state = team();
    let asks = |name: &str| GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", name, 2, "a") };
    state.apply_group(asks("idle"));
    state.apply_group(asks("incomplete"));
    state.apply_pod(pod("ns", "incomplete-0", "incomplete", &[("cpu", 1)]));
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "a"), cpus(6));
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("a", Some("team"), &[]) });
    let _plan = at(&mut state, 1);
    assert_eq!((reserved(&state, "a"), phase(&state, "idle"), phase(&state, "incomplete")), (cpus(0), Phase::Pending, Phase::Pending));
}

#[test]
fn a5_a_changed_request_does_not_extend_the_admission_timeout() {
    let mut state = team();
    let asks = |cpu| GroupFacts { min_resources: Some(amounts(&[("cpu", cpu)])), ..group("ns", "g", 1, "a") };
    state.apply_group(asks(6));
    let _plan = at(&mut state, 0);
    state.apply_group(asks(5));
    let _plan = at(&mut state, 20);
    assert_eq!((reserved(&state, "a"), state.next_attempt()), (cpus(5), Some(Duration::from_secs(30))));
    state.apply_group(asks(4));
    let _plan = at(&mut state, 30);
    assert_eq!((reserved(&state, "a"), phase(&state, "g")), (cpus(0), Phase::Pending));
    // A PodGroup that its queue refuses in between keeps no other out, and starts anew.
    let mut state = team();
    state.apply_group(asks(6));
    let _plan = at(&mut state, 0);
    state.apply_group(asks(9));
    let _plan = at(&mut state, 20);
    assert_eq!(phase(&state, "g"), Phase::Pending);
    state.apply_group(asks(6));
    let _plan = at(&mut state, 40);
    assert_eq!((reserved(&state, "a"), state.next_attempt()), (cpus(6), Some(Duration::from_secs(70))));
}

#[test]
fn a6_the_next_podgroup_of_a_fifo_queue_has_its_turn_when_the_first_is_lost_in_one_batch() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, ..queue("q", None, &[]) });
    gang(&mut state, "big", 1, "q", 1, &[("cpu", 3)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    // Of the same priority the minimum of `small` would come first.
    state.apply_pod(PodFacts { priority: 1, ..pod("ns", "big-1", "big", &[("cpu", 4)]) });
    gang(&mut state, "small", 1, "q", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 1).binds.is_empty());
    // One of its members runs on.
    state.delete_pod(&Uid::from("ns/big-1"));
    state.delete_group(&GroupKey::new("ns", "big"));
    assert_eq!(bound(&at(&mut state, 2)), [("small-0", "n")]);
}

#[test]
fn a5_a_gang_that_is_held_back_by_gates_reserves_nothing() {
    let mut state = team();
    let gated = |index: usize, gated| PodFacts { gated, ..pod("ns", &format!("gated-{index}"), "gated", &[("cpu", 1)]) };
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "gated", 4, "a") });
    (0..4).for_each(|index| state.apply_pod(gated(index, index < 3)));
    assert_eq!(at(&mut state, 0).binds.len(), 0);
    assert_eq!((reserved(&state, "team"), phase(&state, "gated")), (Amount::ZERO, Phase::Pending));
    assert_eq!(message(&state, "gated"), "the gang needs 4 members, 1 are ready, and 3 more are held back by scheduling gates");
    (0..4).for_each(|index| state.apply_pod(gated(index, false)));
    assert_eq!(at(&mut state, 1).binds.len(), 4);
}

#[test]
fn a5_a_finished_podgroup_reserves_nothing_though_pods_of_it_wait() {
    let mut state = team();
    let status = PodGroupStatus { phase: Some("Completed".to_owned()), ..PodGroupStatus::default() };
    state.apply_group(GroupFacts { status, min_resources: Some(amounts(&[("cpu", 6)])), ..group("ns", "over", 1, "a") });
    state.apply_pod(pod("ns", "over-0", "over", &[("cpu", 5)]));
    for seconds in 0..2 {
        assert!(at(&mut state, seconds).binds.is_empty(), "no node has so much");
        assert_eq!(reserved(&state, "a"), Amount::ZERO);
    }
}

/// An elastic PodGroup: a minimum of two, as its object says it, and so many members of 1 cpu.
fn elastic(state: &mut SchedulingState, name: &str, members: usize) {
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", name, 2, "default") });
    (0..members).for_each(|index| state.apply_pod(pod("ns", &format!("{name}-{index:02}"), name, &[("cpu", 1)])));
}

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
    let waits = "queue \"root\": the room that is left is reserved for the minimum of other PodGroups: cpu requested 1, used 14, reserved 2, available to queues in the cluster 16";
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
    assert!(at(&mut state, 63).binds.is_empty(), "what it has lost is reserved for it again");
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

#[test]
fn a6_a_first_that_no_node_could_ever_take_does_not_hold_its_fifo_queue() {
    let fits = |asks: &[(&str, i64)], min: u32, zone: bool| {
        let mut state = empty_state();
        (1..=3).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 8)])));
        state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, ..queue("q", None, &[]) });
        gang(&mut state, "runs", 3, "q", 3, &[("cpu", 4)]);
        assert_eq!(bound(&at(&mut state, 0)).len(), 3);
        state.apply_group(group("ns", "first", min, "q"));
        for index in 0..min {
            let mut facts = PodFacts { priority: 9, preempts: false, ..pod("ns", &format!("first-{index}"), "first", asks) };
            if zone {
                facts.constraints.node_selector.insert("zone".to_owned(), "nowhere".to_owned());
            }
            state.apply_pod(facts);
        }
        gang(&mut state, "small", 1, "q", 1, &[("cpu", 1)]);
        let passes = !at(&mut state, 1).binds.is_empty();
        (state, passes)
    };
    assert!(!fits(&[("cpu", 8)], 3, false).1, "it could be placed on empty nodes");
    assert!(fits(&[("cpu", 5)], 4, false).1, "three nodes take three of its four members, though 20 cpu are less than 24");
    assert!(fits(&[("cpu", 9)], 1, false).1, "no node is so large");
    assert!(fits(&[("cpu", 1)], 1, true).1, "no node has the label");
    // A cordon ends: it is no reason to be passed. A larger node makes it the first again.
    let (mut state, passes) = fits(&[("cpu", 9)], 1, false);
    assert!(passes);
    gang(&mut state, "next", 1, "q", 1, &[("cpu", 4)]);
    let mut large = node("large", &[("cpu", 9)]);
    large.unschedulable = true;
    state.apply_node(large);
    assert!(at(&mut state, 2).binds.is_empty());
    assert_eq!(message(&state, "next"), "the queue is fifo, and PodGroup ns/first comes first");
}

#[test]
fn a_gang_that_requests_more_than_all_nodes_offer_says_so() {
    let mut state = empty_state();
    (1..=3).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 8)])));
    gang(&mut state, "huge", 4, "default", 4, &[("cpu", 7)]);
    assert!(at(&mut state, 0).binds.is_empty());
    let says = "3 of 4 members find a place; for huge-3: 0/3 nodes are available: 3 Insufficient cpu; cpu: requested 7, most free 1; the gang requests cpu 28 together, and all nodes offer 24";
    assert_eq!(message(&state, "huge"), says);
    state.apply_node(node("n4", &[("cpu", 8)]));
    assert_eq!(at(&mut state, 1).binds.len(), 4);
}

#[test]
fn a5_a_back_off_ends_when_a_member_disappears_below_the_minimum() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 2)]));
    elastic(&mut state, "g", 2);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "g", 3, "default") });
    state.apply_pod(pod("ns", "g-02", "g", &[("cpu", 1)]));
    assert!(at(&mut state, 0).binds.is_empty());
    assert!(at(&mut state, 30).binds.is_empty());
    assert_eq!((phase(&state, "g"), reserved(&state, "root")), (Phase::Pending, cpus(0)));
    // As training-operator does it: it replaces no pod while the PodGroup is Pending.
    state.delete_pod(&Uid::from("ns/g-00"));
    state.apply_node(node("n2", &[("cpu", 2)]));
    assert!(at(&mut state, 31).binds.is_empty());
    assert_eq!(phase(&state, "g"), Phase::Inqueue);
    state.apply_pod(pod("ns", "g-03", "g", &[("cpu", 1)]));
    assert_eq!(at(&mut state, 32).binds.len(), 3);
    // One of another PodGroup that is not lacking ends nothing.
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1)]));
    gang(&mut state, "g", 2, "default", 3, &[("cpu", 1)]);
    let _plan = (at(&mut state, 0), at(&mut state, 30));
    state.delete_pod(&Uid::from("ns/g-0"));
    let _plan = at(&mut state, 31);
    assert_eq!((phase(&state, "g"), state.next_attempt()), (Phase::Pending, Some(Duration::from_secs(60))));
}

#[test]
fn a5_a_back_off_without_members_ends_when_the_nodes_have_room_that_they_had_not() {
    for (first, is_admitted) in [(1, true), (4, false)] {
        let mut state = empty_state();
        state.apply_node(node("n", &[("cpu", first)]));
        state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "g", 3, "default") });
        let _plan = (at(&mut state, 0), at(&mut state, 30), at(&mut state, 30));
        assert_eq!((phase(&state, "g"), state.next_attempt()), (Phase::Pending, Some(Duration::from_secs(60))));
        state.apply_node(node("small", &[("cpu", 1)]));
        let _plan = at(&mut state, 31);
        assert_eq!(phase(&state, "g"), Phase::Pending, "not enough, or the room was there before");
        state.apply_node(node("large", &[("cpu", 2)]));
        let _plan = at(&mut state, 32);
        assert_eq!(phase(&state, "g") == Phase::Inqueue, is_admitted);
    }
}

#[test]
fn a6_a_podgroup_without_members_holds_no_fifo_queue_during_its_admission_back_off() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9)]));
    state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, ..queue("q", None, &[("cpu", 4)]) });
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "a", 1, "q") });
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "q"), cpus(3));
    assert!(at(&mut state, 30).binds.is_empty());
    gang(&mut state, "b", 1, "q", 1, &[("cpu", 2)]);
    assert_eq!(bound(&at(&mut state, 31)).len(), 1, "nothing is reserved during the back-off");
    gang(&mut state, "c", 1, "q", 1, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 32)), [("c-0", "n")], "the quota refuses the first, which waits for no room now");
    state.delete_pod(&Uid::from("ns/c-0"));
    gang(&mut state, "d", 1, "q", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 60).binds.is_empty());
    assert_eq!(message(&state, "d"), "the queue is fifo, and PodGroup ns/a comes first");
}

#[test]
fn a4_what_a_gang_reserved_beyond_its_members_is_free_when_another_scheduler_has_bound_them() {
    let mut state = team();
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), ..group("ns", "g", 2, "a") });
    gang(&mut state, "other", 1, "b", 1, &[("cpu", 2)]);
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(8));
    for (name, on) in [("g-0", "n1"), ("g-1", "n2")] {
        state.apply_pod(running(pod("ns", name, "g", &[("cpu", 3)]), on));
    }
    assert_eq!(reserved(&state, "team"), cpus(0));
    assert_eq!(bound(&at(&mut state, 1)).len(), 1, "{}", message(&state, "other"));
}

#[test]
fn a4_a_refused_bind_of_a_further_member_reserves_nothing() {
    let mut state = team();
    gang(&mut state, "g", 1, "a", 2, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    state.confirm(&Uid::from("ns/g-0"));
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(9));
    assert_eq!(reserved(&state, "team"), cpus(0), "its gang is satisfied");
    gang(&mut state, "other", 1, "b", 1, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 1)).len(), 1, "{}", message(&state, "other"));
}

#[test]
fn the_request_of_a_podgroup_and_every_amount_for_which_its_queue_refuses_it_are_listed() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9), ("memory", 9)]));
    state.apply_queue(queue("q", None, &[("cpu", 3), ("memory", 3)]));
    gang(&mut state, "g", 2, "q", 2, &[("cpu", 2), ("memory", 2)]);
    let key = GroupKey::new("ns", "g");
    let short = |state: &SchedulingState| {
        let all = super::admission::admit::shortages(state.cache(), &key);
        all.into_iter().filter_map(|short| short.resource).collect::<Vec<_>>()
    };
    assert!(at(&mut state, 0).binds.is_empty());
    let asked = amounts(&[("cpu", 4), ("memory", 4), ("pods", 2)]);
    assert_eq!((super::admission::admit::requested(state.cache(), &key), short(&state)), (asked, vec!["cpu".into(), "memory".into()]));
    state.apply_queue(queue("q", None, &[]));
    state.apply_node(node("n", &[("cpu", 3), ("memory", 9)]));
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(short(&state), Vec::<String>::new(), "it waits for nodes");
}
