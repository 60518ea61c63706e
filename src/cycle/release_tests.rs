//! When a partially bound gang is evicted, and when never, as small scenarios.

use super::plan::{Eviction, EvictionCause};
use super::preemption_tests::{at, confirm};
use super::state::SchedulingState;
use super::testing::{POLICY, amounts, class, group, node, pod, queue, running};
use super::tests::{bound, gang, message, world};
use super::*;
use crate::api::podgroup::{PodGroupCondition, PodGroupStatus};
use crate::api::{GroupFacts, PodFacts};
use k8s_openapi::jiff::Timestamp;

/// Three of four are bound, and the node of the fourth is gone.
fn partially_bound() -> SchedulingState {
    let mut world = world();
    for name in ["n1", "n2", "n3", "n4"] {
        world.apply_node(node(name, &[("cpu", 1)]));
    }
    gang(&mut world, "g", 4, "default", 4, &[("cpu", 1)]);
    let plan = at(&mut world, 0);
    assert_eq!(plan.binds.len(), 4);
    world.delete_node("n4");
    for bind in &plan.binds {
        if &*bind.node == "n4" {
            world.refuse_bind(&bind.uid, "not_found", Duration::ZERO, |_| Duration::from_secs(1));
        } else {
            world.confirm(&bind.uid);
        }
    }
    world
}

/// Returns the evictions of partial gangs in all cycles between these times.
fn released(world: &mut SchedulingState, policy: &Policy, from: u64, seconds: u64) -> Vec<(u64, Eviction)> {
    let mut released = Vec::new();
    let mut now = Duration::from_secs(from);
    while let Some(next) = world.next_attempt().filter(|next| *next <= Duration::from_secs(seconds)) {
        now = now.max(next);
        let plan = run(world, policy, now);
        assert!(plan.evictions.iter().all(|eviction| eviction.cause == EvictionCause::Release), "{plan:?}");
        released.extend(plan.evictions.into_iter().map(|eviction| (now.as_secs(), eviction)));
        assert!(world.cache().accounting().audit().is_clean());
    }
    released
}

#[test]
fn a_partially_bound_gang_is_evicted_when_the_rest_finds_no_nodes_for_the_whole_time() {
    let mut world = partially_bound();
    let released = released(&mut world, &POLICY, 0, 1_000);
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
    released[2].1.victims.iter().for_each(|victim| world.delete_pod(&victim.uid));
    (5..8).for_each(|index| world.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 1)])));
    assert!(at(&mut world, 1_001).binds.is_empty());
    world.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut world, 1_002)).len(), 4);
}

/// Whether the rest finds nodes or not: a node with refused binds does not help.
#[test]
fn a_gang_with_one_bind_refused_for_the_whole_time_is_evicted_and_a_complete_gang_is_not() {
    for becomes_whole in [None, Some(200_u64)] {
        let mut world = partially_bound();
        world.apply_node(node("n4", &[("cpu", 1)]));
        let (mut now, mut released) = (Duration::ZERO, Vec::new());
        while let Some(next) = world.next_attempt().filter(|next| *next <= Duration::from_secs(1_000)) {
            now = now.max(next);
            let plan = run(&mut world, &POLICY, now);
            for bind in &plan.binds {
                if becomes_whole.is_some_and(|at| at <= now.as_secs()) {
                    world.confirm(&bind.uid);
                } else {
                    world.refuse_bind(&bind.uid, "forbidden", now, |_| Duration::from_secs(7));
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
    let mut world = partially_bound();
    assert_eq!(released(&mut world, &POLICY, 0, 300).len(), 0);
    world.apply_node(node("n4", &[("cpu", 1)]));
    let plan = at(&mut world, 300);
    assert_eq!(bound(&plan).len(), 1);
    confirm(&mut world, &plan);
    let _plan = at(&mut world, 301);
    // A member is lost, its replacement has no node, and a user raises the minimum.
    world.delete_pod(&plan.binds[0].uid);
    world.delete_node("n4");
    world.apply_group(group("ns", "g", 5, "default"));
    (5..7).for_each(|index| world.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 1)])));
    assert_eq!(released(&mut world, &POLICY, 302, 10_000).len(), 0);
}

#[test]
fn a_gang_that_waits_for_its_own_members_or_has_no_timeout_is_never_evicted() {
    let mut world = partially_bound();
    assert_eq!(released(&mut world, &Policy { release: Duration::ZERO, ..POLICY }, 0, 10_000).len(), 0);
    let mut world = partially_bound();
    assert_eq!(released(&mut world, &Policy { evictions: false, ..POLICY }, 0, 10_000).len(), 0);
    let mut world = partially_bound();
    let waiting = world.cache().groups()[&GroupKey::new("ns", "g")].waiting.first().unwrap().clone();
    world.delete_pod(&waiting);
    // Nor where its queue is full besides.
    world.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "g", 4, "default") });
    world.apply_queue(queue("default", None, &[("cpu", 3)]));
    assert_eq!(released(&mut world, &POLICY, 0, 10_000).len(), 0);
    assert!(message(&world, "g").contains("is over its quota"), "{}", message(&world, "g"));
}

#[test]
fn a_new_process_knows_from_the_status_whether_a_gang_had_its_nodes() {
    for had in [false, true] {
        let mut world = world();
        world.apply_node(node("n1", &[("cpu", 1)]));
        let condition = PodGroupCondition { kind: Some("Scheduled".into()), status: Some("False".into()), ..PodGroupCondition::default() };
        let status = PodGroupStatus { conditions: had.then(|| vec![condition]), ..PodGroupStatus::default() };
        world.apply_group(GroupFacts { status, ..group("ns", "g", 2, "default") });
        world.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n1"));
        world.apply_pod(pod("ns", "g-1", "g", &[("cpu", 1)]));
        assert_eq!(released(&mut world, &POLICY, 0, 301).len(), usize::from(!had));
    }
}

#[test]
fn a_gang_that_became_complete_meanwhile_is_not_evicted() {
    let mut world = partially_bound();
    let released = released(&mut world, &POLICY, 0, 301);
    assert_eq!(released.len(), 1);
    assert!(world.take_withdrawn().is_empty());
    world.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut world, 302)).len(), 1);
    assert_eq!(world.take_withdrawn(), [released[0].1.nomination]);
    // Nor is a number withdrawn that is over.
    let mut world = partially_bound();
    let released = self::released(&mut world, &POLICY, 0, 301);
    world.refuse_eviction(&GroupKey::new("ns", "g"), released[0].1.nomination, "disruption_budget");
    world.apply_node(node("n4", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut world, 302)).len(), 1);
    assert!(world.take_withdrawn().is_empty());
}

#[test]
fn the_time_begins_again_after_it_waited_for_something_else() {
    let mut world = partially_bound();
    assert_eq!(released(&mut world, &POLICY, 0, 100).len(), 0);
    // For an hour a member is missing.
    let waiting = world.cache().groups()[&GroupKey::new("ns", "g")].waiting.first().unwrap().clone();
    world.delete_pod(&waiting);
    let _plan = at(&mut world, 100);
    world.apply_pod(pod("ns", "g-9", "g", &[("cpu", 1)]));
    let released = released(&mut world, &POLICY, 3_600, 4_000);
    assert_eq!(released.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3_900]);
}

#[test]
fn the_time_begins_again_when_a_bind_is_refused_after_it_waited_for_something_else() {
    let mut world = partially_bound();
    let _plan = at(&mut world, 0);
    assert_eq!(released(&mut world, &POLICY, 0, 100).len(), 0);
    let waiting = world.cache().groups()[&GroupKey::new("ns", "g")].waiting.first().unwrap().clone();
    world.delete_pod(&waiting);
    let _plan = at(&mut world, 100);
    world.apply_node(node("n4", &[("cpu", 1)]));
    world.apply_pod(pod("ns", "g-9", "g", &[("cpu", 1)]));
    let plan = at(&mut world, 3_600);
    assert_eq!(bound(&plan), [("g-9", "n4")]);
    world.refuse_bind(&plan.binds[0].uid, "forbidden", Duration::from_secs(3_600), |_| Duration::from_secs(1_000));
    let released = released(&mut world, &POLICY, 3_600, 4_000);
    assert_eq!(released.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3_900]);
}

#[test]
fn no_member_is_evicted_where_a_budget_protects_one_of_them() {
    for allowed in [2, 3] {
        let mut world = partially_bound();
        let node_of = |member: &super::cache::Member| Some((PodFacts::clone(&member.facts), member.assumed.as_ref()?.node.to_string()));
        let placed: Vec<_> = world.cache().pods().values().filter_map(node_of).collect();
        assert_eq!(placed.len(), 3);
        placed.into_iter().for_each(|(facts, node)| world.apply_pod(running(facts, &node)));
        let key = crate::api::BudgetKey::new("ns", "all");
        let selector = Some(crate::api::podgroup::Selector::default());
        world.apply_budget(crate::api::BudgetFacts { key, selector, allowed, frees_unready: false });
        assert_eq!(released(&mut world, &POLICY, 0, 1_000).len(), if allowed == 3 { 3 } else { 0 }, "{allowed}");
    }
}

#[test]
fn a_podgroup_that_is_younger_than_its_running_members_was_recreated_and_its_status_tells_nothing() {
    for (age, lets_go) in [(0, 1), (60, 1), (61, 0)] {
        let mut world = world();
        world.apply_node(node("n1", &[("cpu", 1)]));
        let created = Timestamp::from_second(age).unwrap();
        world.apply_group(GroupFacts { created, ..group("ns", "g", 2, "default") });
        world.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n1"));
        world.apply_pod(pod("ns", "g-1", "g", &[("cpu", 1)]));
        assert_eq!(released(&mut world, &POLICY, 0, 301).len(), lets_go, "{age}");
    }
}

#[test]
fn a_gang_that_waits_for_a_member_of_a_task_is_not_evicted() {
    let mut world = world();
    world.apply_node(node("n1", &[("cpu", 2)]));
    let tasks = [("ps".to_owned(), 1), ("worker".to_owned(), 1)].into();
    let min_resources = Some(amounts(&[("cpu", 2)]));
    world.apply_group(GroupFacts { min_task_member: tasks, min_resources, ..group("ns", "g", 2, "default") });
    world.apply_queue(queue("default", None, &[("cpu", 1)]));
    let of_task = |name: &str, task: &str| PodFacts { task: Some(task.into()), ..pod("ns", name, "g", &[("cpu", 1)]) };
    world.apply_pod(running(of_task("g-0", "worker"), "n1"));
    world.apply_pod(of_task("g-1", "worker"));
    assert_eq!(released(&mut world, &POLICY, 0, 1_000).len(), 0);
    // With a member for it, that member finds no node.
    world.apply_pod(of_task("g-2", "ps"));
    assert_eq!(released(&mut world, &POLICY, 1_000, 1_301).len(), 1);
}

/// A gang of two that has its nodes, with a third member that finds none.
fn had_its_nodes() -> SchedulingState {
    let mut world = world();
    world.apply_node(node("n1", &[("cpu", 2)]));
    // The queues may use more together.
    world.apply_node(crate::api::NodeFacts { unschedulable: true, ..node("cordoned", &[("cpu", 9)]) });
    gang(&mut world, "g", 2, "default", 2, &[("cpu", 1)]);
    let plan = at(&mut world, 0);
    assert_eq!(plan.binds.len(), 2);
    confirm(&mut world, &plan);
    let _plan = at(&mut world, 1);
    world.apply_pod(pod("ns", "g-9", "g", &[("cpu", 1)]));
    world
}

fn holds(world: &SchedulingState) -> bool {
    !world.cache().reserved(&world.cache().groups()[&GroupKey::new("ns", "g")]).is_zero()
}

#[test]
fn a_gang_that_had_its_nodes_and_requests_more_reserves_no_longer_than_any_other() {
    let mut world = had_its_nodes();
    world.apply_group(group("ns", "g", 3, "default"));
    let _plan = at(&mut world, 2);
    assert!(holds(&world), "{}", message(&world, "g"));
    let _plan = at(&mut world, 2 + POLICY.admission_timeout.as_secs());
    assert!(!holds(&world));
}

#[test]
fn a_gang_that_had_its_nodes_and_lost_one_is_finished_first_though_it_requests_more() {
    for min_member in [2, 3] {
        let mut world = had_its_nodes();
        world.apply_pod(pod("ns", "g-8", "g", &[("cpu", 1)]));
        world.apply_group(group("ns", "g", min_member, "default"));
        let lost = world.cache().pods().keys().next().cloned().unwrap();
        world.delete_pod(&lost);
        world.delete_node("n1");
        let _plan = at(&mut world, 2);
        assert!(holds(&world), "{}", message(&world, "g"));
        let _plan = at(&mut world, 2 + POLICY.admission_timeout.as_secs());
        assert!(holds(&world), "a part of it waits for the rest");
    }
}

#[test]
fn a_partially_bound_addition_to_a_placed_gang_is_finished_first() {
    let mut world = had_its_nodes();
    world.apply_pod(pod("ns", "g-8", "g", &[("cpu", 1)]));
    world.apply_node(node("n2", &[("cpu", 2)]));
    world.apply_group(group("ns", "g", 4, "default"));
    let plan = at(&mut world, 2);
    assert_eq!(plan.binds.len(), 2);
    world.confirm(&plan.binds[0].uid);
    world.apply_node(node("n2", &[("cpu", 1)]));
    world.refuse_bind(&plan.binds[1].uid, "conflict", Duration::from_secs(2), |_| Duration::from_secs(1));
    for seconds in [4, 40, 400] {
        assert_eq!(at(&mut world, seconds).binds.len(), 0);
        assert!(holds(&world), "{seconds}: {}", message(&world, "g"));
    }
}

#[test]
fn a_gang_that_had_its_nodes_and_requests_more_passes_no_podgroup_in_a_fifo_queue() {
    for loses in [false, true] {
        let mut world = had_its_nodes();
        let dequeue_strategy = crate::api::queue::DequeueStrategy::Fifo;
        world.apply_queue(crate::api::QueueFacts { dequeue_strategy, ..queue("default", None, &[]) });
        world.apply_node(node("n2", &[("cpu", 3)]));
        // The first waits for four.
        world.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "first", 1, "default") });
        world.apply_priority_class(class("high", 10));
        world.apply_pod(pod("ns", "first-0", "first", &[("cpu", 4)]));
        if loses {
            let lost = world.cache().pods().keys().find(|uid| uid.contains("/g-")).cloned().unwrap();
            world.delete_pod(&lost);
        } else {
            world.apply_group(group("ns", "g", 3, "default"));
        }
        assert_eq!(at(&mut world, 2).binds.len(), usize::from(loses), "{loses}");
    }
}
