//! Which PodGroup of a fifo queue has its turn?

use super::{at, cpus, reserved};
use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::testing::steps::{bound, empty_state, gang, message};
use crate::cycle::testing::{amounts, group, node, pod, queue};
use crate::cycle::*;

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
fn a6_a_podgroup_without_members_holds_no_fifo_queue() {
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
    assert_eq!(bound(&at(&mut state, 60)), [("d-0", "n")], "one without a member comes after those that have one");
}
