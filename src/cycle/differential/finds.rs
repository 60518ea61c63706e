//! Histories in which the differential test showed an error of the cycle, each as a small test.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::plan::Plan;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{POLICY, amounts, group, limits, node, pod, queue, running};
use crate::cycle::tests::{bound, empty_state, gang};
use crate::resources::Amount;

fn at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

fn reserved(state: &SchedulingState) -> Amount {
    state.cache().accounting().quota().queue("q").reserved.get("cpu")
}

fn cpus(count: i64) -> Amount {
    Amount::from_units(count)
}

/// The queue `q`, and so many nodes of 4 cpu.
fn small(nodes: usize, capability: i64, strategy: DequeueStrategy) -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(QueueFacts { dequeue_strategy: strategy, ..queue("q", None, &[("cpu", capability)]) });
    (0..nodes).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    state
}

#[test]
fn a5_what_a_refused_bind_gives_back_is_reserved_also_while_further_members_wait_behind_somebody() {
    let mut state = small(3, 10, DequeueStrategy::Fifo);
    gang(&mut state, "g", 2, "q", 2, &[("cpu", 3)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    state.apply_group(group("ns", "first", 1, "q"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "first-0", "first", &[("cpu", 8)]) });
    state.apply_pod(pod("ns", "g-2", "g", &[("cpu", 3)]));
    assert!(at(&mut state, 1).binds.is_empty());
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::from_secs(1), |_| Duration::from_secs(9));
    assert_eq!(reserved(&state), cpus(3));
}

#[test]
fn a5_a_gang_that_asks_for_more_is_no_half_bound_one_because_a_member_was_written_to() {
    let mut state = small(1, 8, DequeueStrategy::Traverse);
    state.apply_group(group("ns", "g", 2, "q"));
    let runs = |name: &str| PodFacts { charged_queue: Some("q".into()), ..running(pod("ns", name, "g", &[("cpu", 1)]), "n0") };
    ["g-0", "g-1"].iter().for_each(|name| state.apply_pod(runs(name)));
    let _plan = at(&mut state, 0);
    state.apply_group(group("ns", "g", 4, "q"));
    ["g-2", "g-3"].iter().for_each(|name| state.apply_pod(pod("ns", name, "g", &[("cpu", 3)])));
    state.apply_pod(PodFacts { grace: Duration::from_secs(5), ..runs("g-0") });
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), cpus(6));
    let _plan = at(&mut state, 31);
    assert_eq!(reserved(&state), cpus(0), "it lines up like any other, and its patience ends");
}

#[test]
fn a5_a_queue_that_is_closed_takes_back_what_is_reserved_for_a_bind_that_is_tried_again() {
    let mut state = small(1, 8, DequeueStrategy::Traverse);
    gang(&mut state, "g", 1, "q", 1, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    state.refuse_bind(&Uid::from("ns/g-0"), "test", Duration::ZERO, |_| Duration::from_secs(60));
    assert_eq!(reserved(&state), cpus(4));
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) });
    let _plan = at(&mut state, 1);
    assert_eq!(reserved(&state), cpus(0));
}

#[test]
fn p1_queues_take_turns_by_their_shares_also_after_something_was_taken_back() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9)]));
    for name in ["q", "r"] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 10), ("pods", 99)]), ..queue(name, None, &[]) });
    }
    state.apply_pod(PodFacts { charged_queue: Some("r".into()), ..running(pod("ns", "old", "x", &[("cpu", 1)]), "n") });
    gang(&mut state, "rests", 2, "q", 2, &[("cpu", 12)]);
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state), cpus(24));
    // It keeps more than its one member asks for, until its patience is over.
    state.delete_pod(&Uid::from("ns/rests-1"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "rests-0", "rests", &[("cpu", 12)]) });
    for (name, queue) in [("a", "q"), ("b", "q"), ("c", "r")] {
        gang(&mut state, name, 1, queue, 1, &[("cpu", 2)]);
    }
    assert_eq!(bound(&at(&mut state, 30)), [("a-0", "n"), ("c-0", "n"), ("b-0", "n")]);
    assert_eq!(reserved(&state), cpus(0));
}

#[test]
fn a6_nobody_waits_for_a_gang_whose_members_need_more_than_there_is_whatever_its_min_resources_say() {
    let mut state = small(1, 6, DequeueStrategy::Fifo);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1)])), ..group("ns", "a", 2, "q") });
    (0..2).for_each(|at| state.apply_pod(pod("ns", &format!("a-{at}"), "a", &[("cpu", 4)])));
    gang(&mut state, "b", 1, "q", 1, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 0)), [("b-0", "n0")]);
}

/// Its patience is over, and it has nobody to be placed: it took the reservation of who comes after it, and let it have that again, in every other cycle.
#[test]
fn a6_nobody_waits_for_a_group_that_rests_and_has_no_members() {
    let mut state = small(1, 6, DequeueStrategy::Fifo);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1)])), ..group("ns", "empty", 1, "q") });
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state), cpus(1));
    let patience = POLICY.admission_timeout.as_secs();
    let _plan = at(&mut state, patience);
    assert_eq!(reserved(&state), cpus(0));
    state.apply_group(group("ns", "train", 3, "q"));
    let younger = Timestamp::from_second(2_000_000_000).unwrap();
    for after in 1..5 {
        // They are younger, and written to each time.
        for name in ["train-0", "train-1", "train-2"] {
            let member = pod("ns", name, "train", &[("cpu", 2)]);
            state.apply_pod(PodFacts { created: younger, grace: Duration::from_secs(after), ..member });
        }
        assert!(at(&mut state, patience + after).binds.is_empty());
        assert_eq!(reserved(&state), cpus(6));
    }
}

/// It asks for more than there is, so it is refused while anything is kept for another queue; that is over here when the other has what it is guaranteed, though something is still kept
/// for its own.
#[test]
fn f5_who_was_kept_out_for_what_is_kept_for_others_has_another_look_when_that_is_less() {
    let mut state = empty_state();
    (0..2).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    for name in ["p", "q"] {
        state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 3)]), ..queue(name, None, &[]) });
    }
    gang(&mut state, "big", 3, "q", 3, &[("cpu", 4)]);
    let _plan = at(&mut state, 0);
    gang(&mut state, "small", 1, "p", 1, &[("cpu", 3)]);
    assert_eq!(bound(&at(&mut state, 1)).len(), 1);
    assert_eq!(reserved(&state), cpus(0));
    assert!(state.has_work(Duration::from_secs(2)));
    let _plan = at(&mut state, 2);
    assert_eq!(reserved(&state), cpus(12));
    // That took what was kept for its own queue, so whoever else was refused is asked once more.
    let _plan = at(&mut state, 3);
    assert!(!state.has_work(Duration::from_secs(1)));
}

/// There is nobody of it to be bound again: it lacks members, and asks for them as any group does.
#[test]
fn a5_a_group_backs_off_only_while_somebody_of_it_waits() {
    let mut state = small(1, 8, DequeueStrategy::Traverse);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", "g", 1, "q") });
    ["g-0", "g-1"].iter().for_each(|name| state.apply_pod(pod("ns", name, "g", &[("cpu", 1)])));
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(60));
    ["ns/g-0", "ns/g-1"].iter().for_each(|uid| state.delete_pod(&Uid::from(*uid)));
    let _plan = at(&mut state, 1);
    assert_eq!(reserved(&state), cpus(2));
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) });
    let _plan = at(&mut state, 2);
    assert!(state.cache().groups().values().all(|group| !group.is_admitted()), "a queue that is closed admits nobody");
}

/// What it was told about a further member before is no answer to what it asks now: the place that its own member leaves is enough (R4).
#[test]
fn a5_what_is_reserved_by_right_is_kept_for_who_waits_for_a_pod_that_began_to_leave() {
    let mut state = empty_state();
    [("n0", 4), ("n1", 7)].iter().for_each(|(name, cpu)| state.apply_node(node(name, &[("cpu", *cpu)])));
    for (name, cpu) in [("p", 0), ("q", 2)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", cpu), ("pods", 40)]), ..queue(name, None, &[]) });
    }
    state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 1)]), ..queue("r", None, &[]) });
    for (name, node) in [("p-0", "n0"), ("p-1", "n1"), ("p-2", "n1")] {
        state.apply_pod(PodFacts { charged_queue: Some("p".into()), ..running(pod("ns", name, "borrows", &[("cpu", 3)]), node) });
    }
    state.apply_group(group("ns", "g", 1, "q"));
    // Nobody goes for it.
    let member = |name: &str| PodFacts { preempts: false, ..pod("ns", name, "g", &[("cpu", 1)]) };
    let runs = PodFacts { charged_queue: Some("q".into()), ..running(member("g-0"), "n0") };
    state.apply_pod(runs.clone());
    state.apply_pod(member("g-1"));
    assert!(at(&mut state, 0).binds.is_empty());
    state.apply_pod(PodFacts { deleting: true, ..runs });
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), cpus(1));
    state.delete_pod(&Uid::from("ns/g-0"));
    assert_eq!(bound(&at(&mut state, 2)).len(), 1);
}

/// While it was reserved nothing was kept for the queue any more, and whoever came before it in this cycle took what the queue is guaranteed (O2: also while it is closed).
#[test]
fn a5_what_is_reserved_in_a_queue_that_was_closed_is_taken_back_before_anybody_has_a_turn() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    let guaranteed = QueueFacts { guarantee: limits(&[("cpu", 4)]), ..queue("q", None, &[]) };
    state.apply_queue(guaranteed.clone());
    state.apply_queue(queue("other", None, &[]));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "empty", 1, "q") });
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state), cpus(4));
    gang(&mut state, "before", 1, "other", 1, &[("cpu", 4)]);
    state.apply_queue(QueueFacts { closed_by_hand: true, ..guaranteed });
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), cpus(0));
}

/// Its minResources say less than its members ask for, so once it has asked anew it has less reserved than the refused bind gave back; and whoever had its turn before, nobody looked at.
#[test]
fn a5_what_a_group_reserves_no_longer_once_it_has_asked_anew_is_free_for_others() {
    let mut state = empty_state();
    [("n0", 1), ("n1", 4)].iter().for_each(|(name, cpu)| state.apply_node(node(name, &[("cpu", *cpu), ("memory", 1)])));
    state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 1)]), ..queue("p", None, &[]) });
    state.apply_queue(queue("q", None, &[]));
    state.apply_queue(QueueFacts { priority: 1, ..queue("r", None, &[]) });
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("memory", 1)])), ..group("ns", "g", 2, "q") });
    ["g-0", "g-1"].iter().for_each(|name| state.apply_pod(pod("ns", name, "g", &[("cpu", 2)])));
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(5));
    state.apply_group(group("ns", "h", 1, "r"));
    let seen = PodFacts { charged_queue: Some("r".into()), ..running(pod("ns", "h-0", "h", &[("cpu", 1)]), "n0") };
    state.apply_pod(seen);
    state.apply_pod(pod("ns", "h-1", "h", &[("cpu", 1)]));
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), cpus(2));
    assert!(at(&mut state, 5).binds.is_empty());
    assert_eq!(reserved(&state), cpus(0));
    assert_eq!(bound(&at(&mut state, 6)), [("h-1", "n1")]);
}

/// Its last member is leaving, and it asks for the room of the next: it was refused for what is reserved behind it, that was taken back, and it was not among those who were looked at then.
#[test]
fn a6_a_gang_that_has_lost_a_member_has_the_room_that_was_reserved_behind_it() {
    let mut state = empty_state();
    state.apply_node(node("n0", &[("cpu", 3)]));
    state.apply_queue(QueueFacts { capability: limits(&[("cpu", 5)]), ..queue("p", None, &[]) });
    let deserved = limits(&[("cpu", 0), ("memory", 0), ("pods", 0)]);
    state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, deserved, reclaimable: false, ..queue("q", Some("p"), &[]) });
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "a", 3, "q") });
    state.apply_group(group("ns", "b", 1, "q"));
    for name in ["a-0", "a-1", "a-2", "b-0"] {
        state.apply_pod(pod("ns", name, &name[..1], &[("cpu", 1)]));
    }
    assert_eq!(bound(&at(&mut state, 0)).len(), 3);
    assert_eq!(reserved(&state), cpus(1));
    let seen = PodFacts { charged_queue: Some("q".into()), ..running(pod("ns", "a-0", "a", &[("cpu", 1)]), "n0") };
    state.apply_pod(PodFacts { deleting: true, ..seen });
    (0..2).for_each(|_| _ = at(&mut state, 1));
    assert_eq!(reserved(&state), cpus(2), "a asks for 2, and b for what is left: nothing");
    assert!(!state.has_work(Duration::from_secs(1)));
}

/// It rests from the moment at which it was admitted, so its rest ends when its patience would have ended; and nobody was woken then, for that patience was over.
#[test]
fn a5_who_asks_in_vain_when_it_is_admitted_is_asked_again_after_its_rest() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    let deserved = |cpu| limits(&[("cpu", cpu), ("pods", 9)]);
    state.apply_queue(QueueFacts { capability: limits(&[("cpu", 2)]), deserved: deserved(2), ..queue("top", None, &[]) });
    state.apply_queue(QueueFacts { deserved: deserved(0), ..queue("borrows", Some("top"), &[]) });
    state.apply_queue(QueueFacts { deserved: deserved(1), reclaimable: false, ..queue("q", Some("top"), &[]) });
    // Nobody of its priority may send it away.
    let high = PodFacts { priority: 9, charged_queue: Some("borrows".into()), ..pod("ns", "high", "x", &[("cpu", 2)]) };
    state.apply_pod(running(high, "n"));
    gang(&mut state, "g", 1, "q", 1, &[("cpu", 1)]);
    let patience = POLICY.admission_timeout;
    for rest in [patience, patience * 3, patience * 7] {
        let mut cycles = 0;
        while state.has_work(rest - Duration::from_secs(1)) {
            let now = state.next_attempt().unwrap();
            assert!(run(&mut state, &POLICY, now).binds.is_empty());
            cycles += 1;
            assert!(cycles < 20, "it does not come to rest, at {now:?}");
            assert_eq!(reserved(&state), cpus(0), "it is owed, and asks in vain");
        }
        assert_eq!(state.next_attempt(), Some(rest));
        let _plan = at(&mut state, rest.as_secs());
    }
}
