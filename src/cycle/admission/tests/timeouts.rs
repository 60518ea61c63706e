//! When does an admission end, and when is the PodGroup admitted again?

use super::{at, cpus, elastic, reserved, team};
use crate::api::podgroup::PodGroupStatus;
use crate::api::{GroupFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::cache::Phase;
use crate::cycle::testing::steps::{bound, empty_state, gang, message, phase};
use crate::cycle::testing::{amounts, group, node, pod, queue};
use crate::cycle::*;
use crate::resources::Amount;

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
    assert_eq!(reserved(&state, "b"), cpus(0), "its pods are gone, and so is what it needed");
    state.apply_group(asks(5, "b"));
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "b"), cpus(0), "only a new member begins it anew");
    state.apply_pod(pod("ns", "g-0", "g", &[("cpu", 9)]));
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state, "b"), cpus(0));
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
fn a5_a_gang_that_is_held_back_by_gates_is_admitted_and_reserves_nothing() {
    let mut state = team();
    let gated = |index: usize, gated| PodFacts { gated, ..pod("ns", &format!("gated-{index}"), "gated", &[("cpu", 1)]) };
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "gated", 4, "a") });
    for with_gates in [4, 3] {
        (0..4).for_each(|index| state.apply_pod(gated(index, index < with_gates)));
        for (is_closed, wanted) in [(false, Phase::Inqueue), (true, Phase::Pending), (false, Phase::Inqueue)] {
            state.apply_queue(QueueFacts { closed_by_hand: is_closed, ..queue("team", None, &[("cpu", 8)]) });
            assert_eq!(at(&mut state, 0).binds.len(), 0);
            assert_eq!((reserved(&state, "team"), phase(&state, "gated")), (Amount::ZERO, wanted), "{with_gates} with gates");
        }
    }
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
