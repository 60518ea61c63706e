//! When a partially bound gang is evicted, and when never, as small scenarios.

use crate::api::podgroup::{PodGroupCondition, PodGroupStatus};
use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, PodFacts, QueueFacts};
use crate::cycle::plan::{Eviction, EvictionCause};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{at, bound, confirm, empty_state, gang, message};
use crate::cycle::testing::{POLICY, amounts, class, group, node, pod, queue, running};
use crate::cycle::*;
use k8s_openapi::jiff::Timestamp;

/// Three of four are bound, and the node of the fourth is gone.
fn partially_bound() -> SchedulingState {
    let mut state = empty_state();
    for name in ["n1", "n2", "n3", "n4"] {
        state.apply_node(node(name, &[("cpu", 1)]));
    }
    gang(&mut state, "g", 4, "default", 4, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 4);
    state.delete_node("n4");
    for bind in &plan.binds {
        if &*bind.node == "n4" {
            state.refuse_bind(&bind.uid, "not_found", Duration::ZERO, |_| Duration::from_secs(1));
        } else {
            state.confirm(&bind.uid);
        }
    }
    state
}

/// Returns the evictions of partial gangs in all cycles between these times.
fn released(state: &mut SchedulingState, policy: &Policy, from: u64, seconds: u64) -> Vec<(u64, Eviction)> {
    let mut released = Vec::new();
    let mut now = Duration::from_secs(from);
    while let Some(next) = state.next_attempt().filter(|next| *next <= Duration::from_secs(seconds)) {
        now = now.max(next);
        let plan = run(state, policy, now);
        assert!(plan.evictions.iter().all(|eviction| eviction.cause == EvictionCause::Release), "{plan:?}");
        released.extend(plan.evictions.into_iter().map(|eviction| (now.as_secs(), eviction)));
        assert!(state.cache().accounting().audit().is_clean());
    }
    released
}

#[test]
fn a_partially_bound_gang_is_evicted_when_the_rest_finds_no_nodes_for_the_whole_time() {
    let mut state = partially_bound();
    let released = released(&mut state, &POLICY, 0, 1_000);
    let names: Vec<_> = released.iter().map(|(at, eviction)| (*at, eviction.victims.iter().map(|pod| &*pod.name).collect())).collect();
    let all = vec!["g-0", "g-1", "g-2"];
    assert_eq!(names, [(301, all.clone()), (601, all.clone()), (901, all)], "a refused eviction is tried again after the same time");
    for (_, eviction) in &released {
        assert_eq!((&*eviction.group.name, &*eviction.group_uid, &*eviction.queue), ("g", "ns/g/group", "default"));
    }
    let mut numbers: Vec<_> = released.iter().map(|(_, eviction)| eviction.nomination).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
    // It is evicted, and waits as a whole.
    released[2].1.victims.iter().for_each(|victim| state.delete_pod(&victim.uid));
    (5..8).for_each(|index| state.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 1)])));
    assert!(at(&mut state, 1_001).binds.is_empty());
    state.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut state, 1_002)).len(), 4);
}

/// Whether the rest finds nodes or not: a node with refused binds does not help.
#[test]
fn a_gang_with_one_bind_refused_for_the_whole_time_is_evicted_and_a_complete_gang_is_not() {
    for becomes_whole in [None, Some(200_u64)] {
        let mut state = partially_bound();
        state.apply_node(node("n4", &[("cpu", 1)]));
        let (mut now, mut released) = (Duration::ZERO, Vec::new());
        while let Some(next) = state.next_attempt().filter(|next| *next <= Duration::from_secs(1_000)) {
            now = now.max(next);
            let plan = run(&mut state, &POLICY, now);
            for bind in &plan.binds {
                if becomes_whole.is_some_and(|at| at <= now.as_secs()) {
                    state.confirm(&bind.uid);
                } else {
                    state.refuse_bind(&bind.uid, "forbidden", now, |_| Duration::from_secs(7));
                }
            }
            released.extend(plan.evictions.iter().map(|eviction| (now.as_secs(), eviction.cause, eviction.victims.len())));
        }
        let all = [300, 600, 900].map(|at| (at, EvictionCause::Release, 3));
        assert_eq!(released, if becomes_whole.is_none() { &all[..] } else { &[] });
    }
}

#[test]
fn it_is_finished_where_the_rest_finds_nodes_in_time_and_then_it_is_never_evicted() {
    let mut state = partially_bound();
    assert_eq!(released(&mut state, &POLICY, 0, 300).len(), 0);
    state.apply_node(node("n4", &[("cpu", 1)]));
    let plan = at(&mut state, 300);
    assert_eq!(bound(&plan).len(), 1);
    confirm(&mut state, &plan);
    let _plan = at(&mut state, 301);
    // A member is lost, its replacement has no node, and a user raises the minimum.
    state.delete_pod(&plan.binds[0].uid);
    state.delete_node("n4");
    state.apply_group(group("ns", "g", 5, "default"));
    (5..7).for_each(|index| state.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 1)])));
    assert_eq!(released(&mut state, &POLICY, 302, 10_000).len(), 0);
}

#[test]
fn a_gang_that_waits_for_its_own_members_or_has_no_timeout_is_never_evicted() {
    let mut state = partially_bound();
    assert_eq!(released(&mut state, &Policy { release: Duration::ZERO, ..POLICY }, 0, 10_000).len(), 0);
    let mut state = partially_bound();
    assert_eq!(released(&mut state, &Policy { evictions: false, ..POLICY }, 0, 10_000).len(), 0);
    let mut state = partially_bound();
    let waiting = state.cache().groups()[&GroupKey::new("ns", "g")].waiting.first().unwrap().clone();
    state.delete_pod(&waiting);
    // Nor where its queue is full besides.
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "g", 4, "default") });
    state.apply_queue(queue("default", None, &[("cpu", 3)]));
    assert_eq!(released(&mut state, &POLICY, 0, 10_000).len(), 0);
    assert!(message(&state, "g").contains("is over its quota"), "{}", message(&state, "g"));
}

#[test]
fn a_new_process_knows_from_the_status_whether_a_gang_had_its_nodes() {
    for had in [false, true] {
        let mut state = empty_state();
        state.apply_node(node("n1", &[("cpu", 1)]));
        let condition = PodGroupCondition { kind: Some("Scheduled".into()), status: Some("False".into()), ..PodGroupCondition::default() };
        let status = PodGroupStatus { conditions: had.then(|| vec![condition]), ..PodGroupStatus::default() };
        state.apply_group(GroupFacts { status, ..group("ns", "g", 2, "default") });
        state.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n1"));
        state.apply_pod(pod("ns", "g-1", "g", &[("cpu", 1)]));
        assert_eq!(released(&mut state, &POLICY, 0, 301).len(), usize::from(!had));
    }
}

#[test]
fn a_gang_that_became_complete_meanwhile_is_not_evicted() {
    let mut state = partially_bound();
    let released = released(&mut state, &POLICY, 0, 301);
    assert_eq!(released.len(), 1);
    assert!(state.take_withdrawn().is_empty());
    state.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut state, 302)).len(), 1);
    assert_eq!(state.take_withdrawn(), [released[0].1.nomination]);
    // Nor is a number withdrawn that is over.
    let mut state = partially_bound();
    let released = self::released(&mut state, &POLICY, 0, 301);
    state.refuse_eviction(&GroupKey::new("ns", "g"), released[0].1.nomination, "disruption_budget");
    state.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut state, 302)).len(), 1);
    assert!(state.take_withdrawn().is_empty());
}

#[test]
fn the_time_begins_again_after_it_waited_for_something_else() {
    let mut state = partially_bound();
    assert_eq!(released(&mut state, &POLICY, 0, 100).len(), 0);
    // For an hour a member is missing.
    let waiting = state.cache().groups()[&GroupKey::new("ns", "g")].waiting.first().unwrap().clone();
    state.delete_pod(&waiting);
    let _plan = at(&mut state, 100);
    state.apply_pod(pod("ns", "g-9", "g", &[("cpu", 1)]));
    let released = released(&mut state, &POLICY, 3_600, 4_000);
    assert_eq!(released.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3_900]);
}

#[test]
fn the_time_begins_again_when_a_bind_is_refused_after_it_waited_for_something_else() {
    let mut state = partially_bound();
    let _plan = at(&mut state, 0);
    assert_eq!(released(&mut state, &POLICY, 0, 100).len(), 0);
    let waiting = state.cache().groups()[&GroupKey::new("ns", "g")].waiting.first().unwrap().clone();
    state.delete_pod(&waiting);
    let _plan = at(&mut state, 100);
    state.apply_node(node("n4", &[("cpu", 1)]));
    state.apply_pod(pod("ns", "g-9", "g", &[("cpu", 1)]));
    let plan = at(&mut state, 3_600);
    assert_eq!(bound(&plan), [("g-9", "n4")]);
    state.refuse_bind(&plan.binds[0].uid, "forbidden", Duration::from_secs(3_600), |_| Duration::from_secs(1_000));
    let released = released(&mut state, &POLICY, 3_600, 4_000);
    assert_eq!(released.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3_900]);
}

#[test]
fn no_member_is_evicted_where_a_budget_protects_one_of_them() {
    for allowed in [2, 3] {
        let mut state = partially_bound();
        let node_of =
            |member: &crate::cycle::cache::Member| Some((PodFacts::clone(&member.facts), member.assumed.as_ref()?.node.to_string()));
        let placed: Vec<_> = state.cache().pods().values().filter_map(node_of).collect();
        assert_eq!(placed.len(), 3);
        placed.into_iter().for_each(|(facts, node)| state.apply_pod(running(facts, &node)));
        let key = crate::api::BudgetKey::new("ns", "all");
        let selector = crate::api::label_selector::LabelSelector::everything();
        state.apply_budget(crate::api::BudgetFacts { key, selector, allowed, frees_unready: false });
        assert_eq!(released(&mut state, &POLICY, 0, 1_000).len(), if allowed == 3 { 3 } else { 0 }, "{allowed}");
    }
}

#[test]
fn a_podgroup_that_is_younger_than_its_running_members_was_recreated_and_its_status_tells_nothing() {
    for (age, lets_go) in [(0, 1), (60, 1), (61, 0)] {
        let mut state = empty_state();
        state.apply_node(node("n1", &[("cpu", 1)]));
        let created = Timestamp::from_second(age).unwrap();
        state.apply_group(GroupFacts { created, ..group("ns", "g", 2, "default") });
        state.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n1"));
        state.apply_pod(pod("ns", "g-1", "g", &[("cpu", 1)]));
        assert_eq!(released(&mut state, &POLICY, 0, 301).len(), lets_go, "{age}");
    }
}

#[test]
fn a_gang_that_waits_for_a_member_of_a_task_is_not_evicted() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 2)]));
    let tasks = [("ps".to_owned(), 1), ("worker".to_owned(), 1)].into();
    let min_resources = Some(amounts(&[("cpu", 2)]));
    state.apply_group(GroupFacts { min_task_member: tasks, min_resources, ..group("ns", "g", 2, "default") });
    state.apply_queue(queue("default", None, &[("cpu", 1)]));
    let of_task = |name: &str, task: &str| PodFacts { task: Some(task.into()), ..pod("ns", name, "g", &[("cpu", 1)]) };
    state.apply_pod(running(of_task("g-0", "worker"), "n1"));
    state.apply_pod(of_task("g-1", "worker"));
    assert_eq!(released(&mut state, &POLICY, 0, 1_000).len(), 0);
    // With a member for it, that member finds no node.
    state.apply_pod(of_task("g-2", "ps"));
    assert_eq!(released(&mut state, &POLICY, 1_000, 1_301).len(), 1);
}

/// A gang of two that has its nodes, with a third member that finds none.
fn had_its_nodes() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 2)]));
    // The queues may use more together.
    state.apply_node(crate::api::NodeFacts { unschedulable: true, ..node("cordoned", &[("cpu", 9)]) });
    gang(&mut state, "g", 2, "default", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 2);
    confirm(&mut state, &plan);
    let _plan = at(&mut state, 1);
    state.apply_pod(pod("ns", "g-9", "g", &[("cpu", 1)]));
    state
}

fn holds(state: &SchedulingState) -> bool {
    !state.cache().reserved(&state.cache().groups()[&GroupKey::new("ns", "g")]).is_zero()
}

#[test]
fn a_gang_that_had_its_nodes_and_requests_more_reserves_no_longer_than_any_other() {
    let mut state = had_its_nodes();
    state.apply_group(group("ns", "g", 3, "default"));
    let _plan = at(&mut state, 2);
    assert!(holds(&state), "{}", message(&state, "g"));
    let _plan = at(&mut state, 2 + POLICY.admission_timeout.as_secs());
    assert!(!holds(&state));
}

#[test]
fn a_gang_that_had_its_nodes_and_lost_one_is_finished_first_though_it_requests_more() {
    for min_member in [2, 3] {
        let mut state = had_its_nodes();
        state.apply_pod(pod("ns", "g-8", "g", &[("cpu", 1)]));
        state.apply_group(group("ns", "g", min_member, "default"));
        let lost = state.cache().pods().keys().next().cloned().unwrap();
        state.delete_pod(&lost);
        state.delete_node("n1");
        let _plan = at(&mut state, 2);
        assert!(holds(&state), "{}", message(&state, "g"));
        let _plan = at(&mut state, 2 + POLICY.admission_timeout.as_secs());
        assert!(holds(&state), "a part of it waits for the rest");
    }
}

#[test]
fn a_partially_bound_addition_to_a_placed_gang_is_finished_first() {
    let mut state = had_its_nodes();
    state.apply_pod(pod("ns", "g-8", "g", &[("cpu", 1)]));
    state.apply_node(node("n2", &[("cpu", 2)]));
    state.apply_group(group("ns", "g", 4, "default"));
    let plan = at(&mut state, 2);
    assert_eq!(plan.binds.len(), 2);
    state.confirm(&plan.binds[0].uid);
    state.apply_node(node("n2", &[("cpu", 1)]));
    state.refuse_bind(&plan.binds[1].uid, "conflict", Duration::from_secs(2), |_| Duration::from_secs(1));
    for seconds in [4, 40, 400] {
        assert_eq!(at(&mut state, seconds).binds.len(), 0);
        assert!(holds(&state), "{seconds}: {}", message(&state, "g"));
    }
}

#[test]
fn a_gang_that_had_its_nodes_and_requests_more_passes_no_podgroup_in_a_fifo_queue() {
    for loses in [false, true] {
        let mut state = had_its_nodes();
        let dequeue_strategy = crate::api::queue::DequeueStrategy::Fifo;
        state.apply_queue(crate::api::QueueFacts { dequeue_strategy, ..queue("default", None, &[]) });
        state.apply_node(node("n2", &[("cpu", 3)]));
        // The first waits for four.
        state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "first", 1, "default") });
        state.apply_priority_class(class("high", 10));
        state.apply_pod(pod("ns", "first-0", "first", &[("cpu", 4)]));
        if loses {
            let lost = state.cache().pods().keys().find(|uid| uid.contains("/g-")).cloned().unwrap();
            state.delete_pod(&lost);
        } else {
            state.apply_group(group("ns", "g", 3, "default"));
        }
        assert_eq!(at(&mut state, 2).binds.len(), usize::from(loses), "{loses}");
    }
}

#[test]
fn a6_a_partially_bound_gang_that_finds_no_room_is_not_named_as_the_first_of_its_fifo_queue() {
    let mut state = empty_state();
    state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, ..queue("q", None, &[]) });
    state.apply_node(node("n", &[("cpu", 1)]));
    for name in ["first", "part", "then"] {
        state.apply_group(GroupFacts { preemptable: false, ..group("ns", name, if name == "part" { 2 } else { 1 }, "q") });
        state.apply_pod(PodFacts { priority: if name == "first" { 9 } else { 0 }, ..pod("ns", &format!("{name}-1"), name, &[("cpu", 1)]) });
    }
    state.apply_pod(running(pod("ns", "part-0", "part", &[("cpu", 1)]), "n"));
    assert!(run(&mut state, &POLICY, Duration::ZERO).binds.is_empty());
    assert_eq!(message(&state, "then"), "the queue is fifo, and PodGroup ns/first comes first");
}
