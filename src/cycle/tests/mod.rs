//! What a cycle decides, as small scenarios.

mod fact_order;
mod queues;

use crate::api::Uid;
use crate::api::pod_facts::PodPhase;
use crate::api::unsupported::Unsupported;
use crate::api::{GroupFacts, PodFacts};
use crate::cycle::cache::Phase;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, cycle, empty_state, gang, message, phase};
use crate::cycle::testing::{POLICY, amounts, group, node, pod, queue, running};
use crate::cycle::*;
use crate::resources::Amount;

#[test]
fn a_gang_of_four_waits_for_its_fourth_node_and_is_then_placed_whole() {
    let mut state = empty_state();
    for name in ["n1", "n2", "n3"] {
        state.apply_node(node(name, &[("cpu", 1)]));
    }
    gang(&mut state, "g", 4, "default", 4, &[("cpu", 1)]);
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(
        message(&state, "g"),
        "3 of 4 members find a place; for g-3: 0/3 nodes are available: 3 Insufficient cpu; cpu: requested 1, most free 0; the gang requests cpu 4 together, and all nodes offer 3"
    );
    assert_eq!(phase(&state, "g"), Phase::Inqueue);
    assert!(state.cache().accounting().ledger().nodes().all(|node| node.used.is_zero()));
    state.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "n1"), ("g-1", "n2"), ("g-2", "n3"), ("g-3", "n4")]);
    assert_eq!(phase(&state, "g"), Phase::Running);
    assert!(cycle(&mut state).tried.len() <= 1 && !state.has_work(Duration::ZERO));
}

#[test]
fn a_gang_names_the_member_that_finds_no_node_and_how_many_are_like_it() {
    let mut state = empty_state();
    for name in ["n1", "n2"] {
        state.apply_node(node(name, &[("cpu", 4)]));
    }
    state.apply_group(group("ns", "g", 5, "default"));
    let member = |name: &str, task: &str, cpu| PodFacts { task: Some(task.to_owned()), ..pod("ns", name, "g", &[("cpu", cpu)]) };
    state.apply_pod(member("leader", "leader", 1));
    (1..=4).for_each(|at| state.apply_pod(member(&format!("worker-{at}"), "worker", 3)));
    assert!(cycle(&mut state).binds.is_empty());
    let counts = "0/2 nodes are available: 2 Insufficient cpu; cpu: requested 3, most free 1";
    let says = format!(
        "3 of 5 members find a place; for worker-3 (task worker) and 1 like it: {counts}; the gang requests cpu 13 together, and all nodes offer 8"
    );
    assert_eq!(message(&state, "g"), says);
    // Another try without a cause for other words does not change them.
    let mut again = node("n1", &[("cpu", 4)]);
    again.labels.insert("changed".into(), "yes".into());
    state.apply_node(again);
    assert_eq!(cycle(&mut state).tried.len(), 1);
    assert_eq!(message(&state, "g"), says);
}

#[test]
fn a_node_is_counted_under_every_resource_that_it_lacks() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 1), ("memory", 1)]));
    state.apply_node(node("n2", &[("cpu", 1), ("memory", 8)]));
    gang(&mut state, "g", 1, "default", 1, &[("cpu", 2), ("memory", 4)]);
    assert!(cycle(&mut state).binds.is_empty());
    let counts = "1 Insufficient memory, 2 Insufficient cpu; cpu: requested 2, most free 1; memory: requested 4, most free 1";
    assert_eq!(message(&state, "g"), format!("0/2 nodes are available: {counts}"));
    // A node with a taint is asked every predicate, one without none but the amounts.
    let mut tainted = node("n1", &[("cpu", 1), ("memory", 1)]);
    tainted.taints.push(crate::api::node::Taint { key: "k".into(), value: None, effect: "NoSchedule".into() });
    state.apply_node(tainted);
    let mut tolerant = pod("ns", "t-0", "t", &[("cpu", 2), ("memory", 4)]);
    tolerant.constraints.tolerations =
        vec![crate::api::pod::Toleration { operator: Some("Exists".into()), ..crate::api::pod::Toleration::default() }];
    state.apply_group(group("ns", "t", 1, "default"));
    state.apply_pod(tolerant);
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(message(&state, "t"), format!("0/2 nodes are available: {counts}"));
}

#[test]
fn members_that_run_count_and_failed_ones_do_not() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 8)]));
    state.apply_group(group("ns", "g", 3, "default"));
    state.apply_pod(running(pod("ns", "a", "g", &[("cpu", 1)]), "n"));
    let mut failed = running(pod("ns", "b", "g", &[("cpu", 1)]), "n");
    failed.phase = PodPhase::Failed;
    state.apply_pod(failed);
    state.apply_pod(pod("ns", "c", "g", &[("cpu", 1)]));
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(message(&state, "g"), "the gang needs 3 members, 2 exist");
    assert_eq!(phase(&state, "g"), Phase::Unknown);
    state.apply_pod(pod("ns", "d", "g", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut state)).len(), 2);
}

#[test]
fn beyond_the_minimum_members_are_placed_one_by_one_as_far_as_there_is_room() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 3)]));
    gang(&mut state, "g", 2, "default", 5, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)).len(), 3);
    assert_eq!(phase(&state, "g"), Phase::Running);
    assert_eq!(state.cache().waiting_pods(), 2);
}

#[test]
fn a_minimum_of_zero_is_each_pod_by_itself_and_never_running_without_one() {
    let mut state = empty_state();
    gang(&mut state, "g", 0, "default", 2, &[("cpu", 1)]);
    assert!(cycle(&mut state).binds.is_empty());
    assert_ne!(phase(&state, "g"), Phase::Running);
    state.apply_node(node("n", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut state)), [("g-0", "n")]);
}

#[test]
fn a1_an_overcommitted_node_takes_only_pods_that_do_not_request_the_resource() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 8), ("nvidia.com/gpu", 2)]));
    for index in 0..2 {
        state.apply_pod(running(pod("ns", &format!("r-{index}"), "old", &[("nvidia.com/gpu", 1)]), "n"));
    }
    state.apply_node(node("n", &[("cpu", 8), ("nvidia.com/gpu", 1)]));
    gang(&mut state, "gpu", 1, "default", 1, &[("nvidia.com/gpu", 1)]);
    gang(&mut state, "daemon", 1, "default", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)), [("daemon-0", "n")]);
    state.apply_node(node("n", &[("cpu", 8), ("nvidia.com/gpu", 3)]));
    assert_eq!(bound(&cycle(&mut state)), [("gpu-0", "n")]);
}

#[test]
fn q1_the_second_job_waits_for_the_parents_capability_and_reports_it() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 32)]));
    state.apply_queue(queue("parent", None, &[("cpu", 2)]));
    state.apply_queue(queue("a", Some("parent"), &[]));
    state.apply_queue(queue("b", Some("parent"), &[]));
    gang(&mut state, "j1", 2, "a", 2, &[("cpu", 1)]);
    gang(&mut state, "j2", 2, "b", 2, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)).len(), 2);
    assert_eq!(phase(&state, "j2"), Phase::Pending);
    assert_eq!(message(&state, "j2"), "queue \"parent\" is over its quota: cpu requested 2, used 2, capability 2");
    for index in 0..2 {
        state.delete_pod(&Uid::from(format!("ns/j1-{index}").as_str()));
    }
    assert_eq!(bound(&cycle(&mut state)), [("j2-0", "n"), ("j2-1", "n")]);
}

#[test]
fn a_faulty_object_blocks_only_itself_and_recovers() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 32)]));
    gang(&mut state, "lost", 1, "nowhere", 1, &[("cpu", 1)]);
    gang(&mut state, "top", 1, "root", 1, &[("cpu", 1)]);
    gang(&mut state, "fine", 1, "default", 1, &[("cpu", 1)]);
    state.apply_pod(pod("ns", "orphan", "missing", &[("cpu", 1)]));
    assert_eq!(bound(&cycle(&mut state)), [("fine-0", "n")]);
    assert_eq!(message(&state, "lost"), "queue \"nowhere\" does not exist");
    assert_eq!(message(&state, "top"), "queue \"root\" has queues below it, and pods go to queues that have none");
    assert_eq!(state.cache().pods()[&Uid::from("ns/orphan")].refusal.as_ref().unwrap().to_string(), "PodGroup \"missing\" does not exist");
    state.apply_queue(queue("nowhere", None, &[]));
    state.apply_group(group("ns", "missing", 1, "default"));
    assert_eq!(bound(&cycle(&mut state)).len(), 2);
}

#[test]
fn an_unsupported_pod_is_refused_and_a_gated_pod_is_ignored() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 32)]));
    state.apply_group(group("ns", "g", 1, "default"));
    let mut port = pod("ns", "a", "g", &[("cpu", 1)]);
    port.unsupported = vec![Unsupported::Volume];
    let mut gated = pod("ns", "b", "g", &[("cpu", 1)]);
    gated.gated = true;
    state.apply_pod(port);
    state.apply_pod(gated.clone());
    assert!(cycle(&mut state).binds.is_empty());
    assert!(message(&state, "g").contains("volume"));
    gated.gated = false;
    state.apply_pod(gated);
    assert_eq!(bound(&cycle(&mut state)), [("b", "n")]);
}

/// Found by trying: the PodGroup of a pod with an invalid field said that its quota is exceeded.
#[test]
fn a_pod_that_can_never_be_placed_is_the_reason_though_its_podgroup_exceeds_the_quota_too() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 32)]));
    state.apply_queue(queue("small", None, &[("cpu", 4)]));
    gang(&mut state, "other", 1, "small", 1, &[("cpu", 2)]);
    assert_eq!(cycle(&mut state).binds.len(), 1);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "g", 1, "small") });
    state.apply_pod(PodFacts { unsupported: vec![Unsupported::Volume], ..pod("ns", "a", "g", &[("cpu", 4)]) });
    assert!(cycle(&mut state).binds.is_empty());
    assert!(message(&state, "g").contains("volume"), "{}", message(&state, "g"));
    // It waits for the quota as well.
    state.delete_pod(&Uid::from("ns/other-0"));
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(phase(&state, "g"), Phase::Inqueue);
    state.apply_pod(pod("ns", "a", "g", &[("cpu", 4)]));
    assert_eq!(bound(&cycle(&mut state)), [("a", "n")]);
}

#[test]
fn each_task_has_its_own_minimum() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 3)]));
    let facts =
        GroupFacts { min_task_member: [("master".to_owned(), 1), ("worker".to_owned(), 2)].into(), ..group("ns", "g", 3, "default") };
    state.apply_group(facts);
    let member = |name: &str, task: &str| PodFacts { task: Some(task.into()), ..pod("ns", name, "g", &[("cpu", 1)]) };
    for name in ["a", "b", "c"] {
        state.apply_pod(member(name, "worker"));
    }
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(message(&state, "g"), "the gang needs 1 members of task master, 0 exist");
    state.apply_pod(PodFacts { gated: true, ..member("z", "master") });
    state.apply_pod(PodFacts { gated: true, ..member("y", "worker") });
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(
        message(&state, "g"),
        "the gang needs 1 members of task master, 0 are ready, and 1 more are held back by scheduling gates",
        "those of another task do not count"
    );
    state.apply_pod(member("z", "master"));
    assert_eq!(bound(&cycle(&mut state)).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b", "z"]);
}

#[test]
fn a_refused_bind_waits_and_comes_back_with_the_failed_node_last() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 4)]));
    state.apply_node(node("n2", &[("cpu", 1)]));
    gang(&mut state, "g", 1, "default", 1, &[("cpu", 1)]);
    let plan = cycle(&mut state);
    assert_eq!(bound(&plan), [("g-0", "n1")]);
    let uid = plan.binds[0].uid.clone();
    state.refuse_bind(&uid, "forbidden", Duration::from_secs(1), |_| Duration::from_secs(2));
    assert!(run(&mut state, &POLICY, Duration::from_secs(2)).binds.is_empty());
    assert_eq!(message(&state, "g"), "a binding failed: forbidden (1 in a row); it is retried after a back-off");
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(3)));
    assert_eq!(bound(&run(&mut state, &POLICY, Duration::from_secs(3))), [("g-0", "n2")]);
    assert!(state.cache().accounting().audit().is_clean());
}

#[test]
fn a_pod_that_was_seen_on_a_node_is_not_forgotten_by_a_late_refusal() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 4)]));
    gang(&mut state, "g", 1, "default", 1, &[("cpu", 1)]);
    let plan = cycle(&mut state);
    state.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n1"));
    state.refuse_bind(&plan.binds[0].uid, "timeout", Duration::ZERO, |_| Duration::ZERO);
    assert_eq!(state.cache().accounting().ledger().node("n1").unwrap().used.get("cpu"), Amount::from_units(1));
}

#[test]
fn bound_members_stay_charged_to_their_queue_when_the_podgroup_is_deleted() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    state.apply_queue(queue("q", None, &[]));
    gang(&mut state, "g", 1, "q", 1, &[("cpu", 1)]);
    let _plan = cycle(&mut state);
    state.apply_pod(PodFacts { charged_queue: Some("q".into()), ..running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n") });
    state.delete_group(&GroupKey::new("ns", "g"));
    assert_eq!(state.cache().accounting().quota().queue("q").used.get("cpu"), Amount::from_units(1));
    state.apply_group(group("ns", "g", 1, "default"));
    assert_eq!(state.cache().accounting().quota().queue("q").used.get("cpu"), Amount::from_units(1));
}

#[test]
fn the_higher_priority_and_then_the_emptier_queue_comes_first() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 2)]));
    state.apply_queue(queue("a", None, &[("cpu", 10)]));
    state.apply_queue(queue("b", None, &[("cpu", 10)]));
    state.apply_pod(PodFacts { charged_queue: Some("a".into()), ..running(pod("ns", "old", "x", &[("cpu", 1)]), "n") });
    gang(&mut state, "in-a", 1, "a", 1, &[("cpu", 1)]);
    gang(&mut state, "in-b", 1, "b", 1, &[("cpu", 1)]);
    assert_eq!(bound(&cycle(&mut state)), [("in-b-0", "n")]);
    state.delete_pod(&Uid::from("ns/old"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "late", "in-a", &[("cpu", 1)]) });
    assert_eq!(bound(&cycle(&mut state)), [("late", "n")]);
}

#[test]
fn a_settled_charge_does_not_move_when_a_user_edits_the_annotation() {
    let mut state = SchedulingState::new(["podgroup-scheduler".to_owned()]);
    state.apply_node(node("n", &[("cpu", 8)]));
    state.apply_queue(queue("mine", None, &[("cpu", 2)]));
    state.apply_queue(queue("theirs", None, &[("cpu", 2)]));
    let bound = |queue: Option<&str>| PodFacts { charged_queue: queue.map(Into::into), ..running(pod("ns", "p", "g", &[("cpu", 2)]), "n") };
    for tampered in [Some("theirs"), None, Some("X Y"), Some("mine")] {
        state.apply_pod(bound(Some("mine")));
        state.apply_pod(bound(tampered));
        let used = |queue: &str| state.cache().accounting().quota().queue(queue).used.get("cpu");
        assert_eq!(
            [used("mine"), used("theirs")],
            [crate::resources::Amount::from_units(2), crate::resources::Amount::ZERO],
            "{tampered:?}"
        );
    }
}
