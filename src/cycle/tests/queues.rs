//! What a cycle decides where queues guarantee, close, and contend, as small scenarios.

use crate::api::Uid;
use crate::api::queue::{DequeueStrategy, NodeGroupAffinity};
use crate::api::{GroupFacts, PodFacts, QueueFacts};
use crate::cycle::cache::Phase;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, cycle, empty_state, gang, message, phase};
use crate::cycle::testing::{amounts, group, limits, node, pod, queue, running};
use crate::cycle::*;
use crate::resources::Amount;

#[test]
fn q7_what_is_guaranteed_to_an_idle_queue_stays_free_for_it() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 10)]));
    state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 6)]), ..queue("g1", None, &[]) });
    state.apply_queue(queue("g2", None, &[]));
    for index in 0..10 {
        gang(&mut state, &format!("g2-{index}"), 1, "g2", 1, &[("cpu", 1)]);
    }
    assert_eq!(bound(&cycle(&mut state)).len(), 4);
    assert_eq!(
        message(&state, "g2-9"),
        "queue \"root\" has no room beside the unused guarantees: cpu requested 1, used 4, available to queues in the cluster 10, unused guarantees 6; guaranteed to queue \"g1\" (6)"
    );
    gang(&mut state, "late", 6, "g1", 6, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)).len(), 6, "the whole gang, at once");
    state.apply_queue(queue("g1", None, &[]));
    state.apply_node(node("m", &[("cpu", 10)]));
    assert_eq!(bound(&cycle(&mut state)).len(), 6, "without a guarantee nothing is kept");
    assert!(state.cache().accounting().audit().is_clean());
}

#[test]
fn f3_once_guarantees_are_used_podgroups_that_were_kept_out_are_tried_again() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1)]));
    state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 1)]), ..queue("guaranteed", None, &[]) });
    state.apply_queue(queue("a", None, &[]));
    gang(&mut state, "mixed", 1, "a", 1, &[("cpu", 1)]);
    state.apply_pod(pod("ns", "mixed-none", "mixed", &[]));
    assert!(cycle(&mut state).binds.is_empty());
    assert!(message(&state, "mixed").contains("unused guarantees"));
    gang(&mut state, "entitled", 1, "guaranteed", 1, &[("cpu", 1)]);
    let bound_in = |plans: [Plan; 2]| plans.iter().flat_map(|plan| &plan.binds).map(|bind| bind.name.to_string()).collect::<Vec<_>>();
    let plans = [cycle(&mut state), cycle(&mut state)];
    assert_eq!(bound_in(plans), ["entitled-0", "mixed-none"], "nothing is kept any more, and this one asks for no cpu");
}

#[test]
fn q10_a_closed_queue_binds_no_pod_not_even_best_effort_and_keeps_running_pods() {
    use crate::accounting::QueueState::{Closed, Closing, Open};
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    state.apply_queue(queue("org", None, &[]));
    state.apply_queue(queue("team", Some("org"), &[]));
    gang(&mut state, "old", 1, "team", 1, &[]);
    assert_eq!(bound(&cycle(&mut state)), [("old-0", "n")]);
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("org", None, &[]) });
    let stands = |state: &SchedulingState, queue: &str| queue_status::report(state, queue).state;
    let told = state.take_dirty().queues;
    assert!(told.contains("org") && told.contains("team"), "the state of what is below it changed, too");
    assert_eq!(["root", "org", "team", "default"].map(|queue| stands(&state, queue)), [Open, Closing, Closing, Open]);
    gang(&mut state, "best-effort", 1, "team", 2, &[]);
    state.apply_pod(pod("ns", "more", "old", &[]));
    state.apply_group(group("ns", "empty", 0, "team"));
    assert!(cycle(&mut state).binds.is_empty());
    for name in ["best-effort", "empty"] {
        assert_eq!((message(&state, name), phase(&state, name)), ("queue \"org\" is closed".into(), Phase::Pending));
    }
    assert_eq!(state.cache().pods()[&Uid::from("ns/more")].refusal.as_ref().unwrap().to_string(), "queue \"org\" is closed");
    assert_eq!(phase(&state, "old"), Phase::Running);
    state.delete_pod(&Uid::from("ns/more"));
    state.delete_pod(&Uid::from("ns/best-effort-0"));
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(message(&state, "old"), "", "it has its place and nothing to complain about");
    state.delete_pod(&Uid::from("ns/old-0"));
    assert_eq!(["org", "team"].map(|queue| stands(&state, queue)), [Closed, Closed]);
    state.apply_queue(queue("org", None, &[]));
    assert_eq!(bound(&cycle(&mut state)), [("best-effort-1", "n")]);
    assert_eq!(stands(&state, "team"), Open);
}

#[test]
fn t1b_a_queue_that_is_promised_less_than_its_children_blocks_those_and_heals() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 10)]));
    let promised = |name: &str, parent, cpu| QueueFacts { guarantee: limits(&[("cpu", cpu)]), ..queue(name, parent, &[]) };
    state.apply_queue(promised("org", None, 2));
    state.apply_queue(queue("sibling", Some("org"), &[]));
    assert!(cycle(&mut state).binds.is_empty() && state.take_dirty().queues.contains("sibling"));
    state.apply_queue(promised("team", Some("org"), 3));
    gang(&mut state, "blocked", 1, "team", 1, &[("cpu", 1)]);
    gang(&mut state, "fine", 1, "default", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)), [("fine-0", "n")]);
    assert_eq!(message(&state, "blocked"), "queue \"org\" is guaranteed cpu 2, and the queues below it 3 together");
    assert!(state.take_dirty().queues.contains("sibling"), "it is broken, too, though it did not change");
    state.apply_queue(promised("org", None, 3));
    assert_eq!(bound(&cycle(&mut state)), [("blocked-0", "n")]);
}

#[test]
fn p1_the_queue_that_uses_less_of_its_share_comes_first_and_weights_are_kept_as_places_come() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9)]));
    state.apply_queue(QueueFacts { weight: 2, ..queue("heavy", None, &[]) });
    state.apply_queue(queue("light", None, &[]));
    for index in 0..9 {
        gang(&mut state, &format!("h{index}"), 1, "heavy", 1, &[("cpu", 1)]);
        gang(&mut state, &format!("l{index}"), 1, "light", 1, &[("cpu", 1)]);
    }
    let plan = cycle(&mut state);
    let of_heavy = plan.binds.iter().filter(|bind| &*bind.queue == "heavy").count();
    assert_eq!((of_heavy, plan.binds.len()), (6, 9));
    let share = |state: &SchedulingState, queue: &str| state.cache().shares().map(|shares| shares.of(queue).get("cpu"));
    assert_eq!([share(&state, "heavy"), share(&state, "light")], [6, 3].map(|units| Some(Amount::from_units(units))));
}

#[test]
fn shares_are_worked_out_where_queues_contend_and_kept_until_something_changes() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9)]));
    state.apply_queue(queue("a", None, &[]));
    gang(&mut state, "one", 1, "a", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)), [("one-0", "n")]);
    assert_eq!(state.cache().shares(), None, "no queues contend");
    gang(&mut state, "two", 1, "a", 1, &[("cpu", 1)]);
    gang(&mut state, "three", 1, "default", 1, &[("cpu", 2)]);
    let plan = cycle(&mut state);
    let shares = state.cache().shares().cloned();
    assert_eq!(shares.as_ref().map(|shares| shares.of("default").get("cpu")), Some(Amount::from_units(2)));
    for bind in &plan.binds {
        state.confirm(&bind.uid);
        let facts = PodFacts::clone(&state.cache().pods()[&bind.uid].facts);
        state.apply_pod(PodFacts { charged_queue: Some(bind.queue.to_string()), ..running(facts, &bind.node) });
    }
    assert_eq!(state.cache().shares(), shares.as_ref(), "what was placed is taken as it was asked for");
    // What they would be from scratch.
    state.apply_node(node("m", &[]));
    state.delete_node("m");
    assert_eq!(state.cache().shares(), None);
    state.cache.share_out();
    assert_eq!(state.cache().shares(), shares.as_ref());
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 7)])), ..group("ns", "soon", 1, "a") });
    state.cache.share_out();
    assert_eq!(
        state.cache().shares().map(|shares| shares.of("a").get("cpu")),
        Some(Amount::from_units(7)),
        "2 and 7 are 9, of which default has 2"
    );
    for event in [
        |state: &mut SchedulingState| state.delete_group(&GroupKey::new("ns", "soon")),
        |state: &mut SchedulingState| state.delete_pod(&Uid::from("ns/one-0")),
    ] {
        event(&mut state);
        assert_eq!(state.cache().shares(), None);
        state.cache.share_out();
    }
    assert_eq!(state.cache().shares().map(|shares| shares.of("a").get("cpu")), Some(Amount::from_units(1)));
}

#[test]
fn s1_a_group_waits_for_its_minimum_though_not_all_of_it_is_there_and_then_for_what_it_states_beyond_it() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9)]));
    state.apply_queue(queue("a", None, &[]));
    gang(&mut state, "one", 1, "a", 1, &[("cpu", 1)]);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 5)])), ..group("ns", "one", 1, "a") });
    for (share, binds) in [(5, 1), (5, 0)] {
        state.cache.share_out();
        assert_eq!(state.cache().shares().map(|shares| shares.of("a").get("cpu")), Some(Amount::from_units(share)));
        assert_eq!(cycle(&mut state).binds.len(), binds);
    }
}

#[test]
fn s3_a_podgroup_that_is_not_preemptable_borrows_nothing_and_others_do() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 8)]));
    state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 3), ("pods", 9)]), ..queue("a", None, &[]) });
    state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5), ("pods", 9)]), ..queue("b", None, &[]) });
    state.apply_group(GroupFacts { preemptable: false, ..group("ns", "stays", 1, "a") });
    for index in 0..4 {
        state.apply_pod(pod("ns", &format!("stays-{index}"), "stays", &[("cpu", 1)]));
    }
    assert_eq!(bound(&cycle(&mut state)).len(), 3);
    let why = |state: &SchedulingState, pod: &str| {
        state.cache().pods()[&Uid::from(pod)].refusal.as_ref().map(ToString::to_string).unwrap_or_default()
    };
    assert_eq!(why(&state, "ns/stays-3"), "queue \"a\": a non-preemptable PodGroup may not borrow (cpu requested 1, used 3, entitled 3)");
    // Its pods may say so as well, and a preemptable PodGroup borrows what is unused.
    state.apply_group(group("ns", "goes", 1, "a"));
    state.apply_pod(PodFacts { preemptable: false, ..pod("ns", "goes-0", "goes", &[("cpu", 1)]) });
    state.apply_pod(pod("ns", "goes-1", "goes", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut state)), [("goes-1", "n")]);
}

#[test]
fn a_queue_that_requires_node_groups_keeps_all_below_it_waiting_and_running_pods_stay() {
    let field = "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let asks = |name: &str| QueueFacts { node_groups: Some(field), ..queue(name, None, &[]) };
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 10)]));
    state.apply_queue(queue("above", None, &[]));
    state.apply_queue(queue("q", Some("above"), &[]));
    gang(&mut state, "before", 1, "q", 1, &[("cpu", 1)]);
    gang(&mut state, "elsewhere", 1, "default", 1, &[("cpu", 1)]);
    assert_eq!(cycle(&mut state).binds.len(), 2);
    state.apply_queue(asks("above"));
    gang(&mut state, "after", 1, "q", 1, &[("cpu", 1)]);
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(message(&state, "after"), format!("this scheduler cannot honour yet: {field} of queue \"above\""));
    assert_eq!((phase(&state, "after"), phase(&state, "before"), message(&state, "before").as_str()), (Phase::Pending, Phase::Running, ""));
    state.apply_queue(queue("above", None, &[]));
    assert_eq!(bound(&cycle(&mut state)), [("after-0", "n")]);
}

#[test]
fn a_podgroup_without_pods_reserves_nothing_where_none_could_ever_be_placed() {
    let early = || GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "early", 2, "q") };
    let asks = QueueFacts { node_groups: Some("spec.affinity"), ..queue("above", None, &[]) };
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 10)]));
    state.apply_queue(queue("above", None, &[]));
    state.apply_queue(queue("q", Some("above"), &[]));
    let is = |state: &mut SchedulingState| {
        assert!(cycle(state).binds.is_empty());
        (phase(state, "early"), state.cache().accounting().quota().queue("above").reserved.get("cpu"), message(state, "early"))
    };
    state.apply_group(early());
    let admitted = (Phase::Inqueue, Amount::from_units(4), String::new());
    assert_eq!(is(&mut state), admitted);
    state.apply_queue(asks);
    let refused = |why: &str| (Phase::Pending, Amount::ZERO, format!("this scheduler cannot honour yet{why}"));
    assert_eq!(is(&mut state), refused(": spec.affinity of queue \"above\""), "what was reserved is free again");
    state.apply_queue(queue("above", None, &[]));
    assert_eq!(is(&mut state), admitted);
    state.apply_group(GroupFacts { network_topology: true, ..early() });
    assert_eq!(is(&mut state), refused(": spec.networkTopology with mode hard"));
    state.apply_group(early());
    assert_eq!(is(&mut state), admitted);
}

#[test]
fn nodes_that_are_labelled_for_a_queue_take_its_pods_and_those_below_it_only() {
    let prefers = |name: &str, group: &str| {
        let groups = || [group.to_owned()].into();
        QueueFacts { node_group_affinity: Some(NodeGroupAffinity { own: groups(), allowed: groups() }), ..queue(name, None, &[]) }
    };
    let mut state = empty_state();
    let labelled = |name: &str, group: &str| {
        let mut facts = node(name, &[("cpu", 10)]);
        facts.labels.insert("volcano.sh/nodegroup-name".into(), group.into());
        facts
    };
    state.apply_node(labelled("a1", "a"));
    state.apply_queue(queue("plain", None, &[]));
    gang(&mut state, "before", 1, "plain", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)), [("before-0", "a1")], "a label that no queue names keeps no pod away");
    state.apply_queue(prefers("owner", "a"));
    state.apply_queue(queue("below", Some("owner"), &[]));
    // Enough pods for both ways of searching nodes.
    gang(&mut state, "out", 1, "plain", 40, &[("cpu", 1)]);
    gang(&mut state, "few", 1, "default", 1, &[("cpu", 2)]);
    gang(&mut state, "in", 1, "below", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)), [("in-0", "a1")]);
    for group in ["out", "few"] {
        assert_eq!(
            message(&state, group),
            "0/1 nodes are available: 1 node(s) were reserved for a node group of other queues; node group: a"
        );
    }
    state.apply_node(labelled("b1", "b"));
    state.apply_queue(prefers("another", "b"));
    gang(&mut state, "other", 1, "another", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)), [("other-0", "b1")]);
    state.apply_queue(queue("another", None, &[]));
    let placed = cycle(&mut state);
    assert!(placed.binds.len() > 1 && placed.binds.iter().all(|bind| &*bind.node == "b1"), "no queue names b any more");
    state.delete_queue("owner");
    assert!(cycle(&mut state).binds.iter().any(|bind| &*bind.node == "a1"), "nor a");
}

#[test]
fn a7_a_further_member_that_has_to_leave_room_for_a_new_minimum_is_not_the_first_of_its_fifo_queue_any_more() {
    let mut state = empty_state();
    state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, ..queue("q", None, &[]) });
    state.apply_node(node("n", &[("cpu", 2), ("x.y/d", 1)]));
    gang(&mut state, "behind", 1, "q", 1, &[("cpu", 1)]);
    gang(&mut state, "half", 2, "q", 2, &[("cpu", 1)]);
    for name in ["first-0", "first-1"] {
        state.apply_pod(PodFacts { priority: 9, ..pod("ns", name, "first", &[("cpu", 1), ("x.y/d", 1)]) });
    }
    state.apply_group(group("ns", "first", 0, "q"));
    assert_eq!(bound(&cycle(&mut state)), [("first-0", "n")]);
    assert_eq!(message(&state, "behind"), "the queue is fifo, and PodGroup ns/first comes first");
    // Its partially bound gang reserves the rest of its minimum, after the further member was found to be the first.
    let member = PodFacts::clone(&state.cache().pods()[&Uid::from("ns/half-0")].facts);
    state.apply_pod(PodFacts { charged_queue: Some("q".into()), ..running(member, "n") });
    assert!(cycle(&mut state).binds.is_empty());
    assert!(state.has_work(Duration::ZERO), "the queue has another first PodGroup");
    assert!(cycle(&mut state).binds.is_empty());
    assert!(state.cache().groups()[&GroupKey::new("ns", "behind")].is_admitted());
}
