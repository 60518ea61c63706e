//! A waiting PodGroup preempts again when its possible victims change (R2, R4, R2c, R6, R1b), and is tried again when topology domains change.

use crate::api::Uid;
use crate::api::label_selector::LabelSelector;
use crate::api::{BudgetFacts, BudgetKey, GroupFacts, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::requeue::preemption_retries_tests::being_bound;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::other_pods::{of, spread};
use crate::cycle::testing::steps::{at, borrowed, bound, cycle, empty_state, gang, message};
use crate::cycle::testing::worlds::zoned;
use crate::cycle::testing::{PEACEFUL, POLICY, class, group, limits, node, pod, queue, running};
use crate::cycle::*;

/// Runs cycles until there is nothing to do before this time. Returns the number of evictions.
fn until(state: &mut SchedulingState, seconds: u64) -> usize {
    let end = Duration::from_secs(seconds);
    let mut now = Duration::from_secs(seconds - 3);
    let mut went = 0;
    while let Some(next) = state.next_attempt().filter(|next| *next < end) {
        now = now.max(next);
        went += run(state, &POLICY, now).evictions.iter().map(|eviction| eviction.victims.len()).sum::<usize>();
        assert!(state.cache().accounting().audit().is_clean());
    }
    went
}

fn change_pod(state: &mut SchedulingState, name: &str, change: impl Fn(PodFacts) -> PodFacts) {
    let facts = PodFacts::clone(&state.cache().pods()[&Uid::from(format!("ns/{name}").as_str())].facts);
    state.apply_pod(change(facts));
}

fn change_all(state: &mut SchedulingState, change: impl Fn(PodFacts) -> PodFacts + Copy) {
    (0..10).for_each(|index| change_pod(state, &format!("borrows-{index}"), change));
}

/// `b` can reclaim, but there are no candidates until this change.
fn helps(before: impl Fn(&mut SchedulingState), change: impl Fn(&mut SchedulingState)) {
    let mut state = borrowed();
    before(&mut state);
    gang(&mut state, "owed", 1, "b", 1, &[("cpu", 1)]);
    assert_eq!(until(&mut state, 4), 0, "{}", message(&state, "owed"));
    assert_eq!(until(&mut state, 8), 0, "idle");
    change(&mut state);
    assert!(until(&mut state, 12) > 0, "no preemption was attempted: {}", message(&state, "owed"));
}

#[test]
fn a_pod_that_may_be_preempted_now() {
    let keep = |preemptable| move |facts| PodFacts { preemptable, ..facts };
    helps(|state| change_all(state, keep(false)), |state| change_pod(state, "borrows-3", keep(true)));
}

#[test]
fn a_podgroup_with_pods_that_may_be_preempted_now() {
    let says =
        |preemptable| move |state: &mut SchedulingState| state.apply_group(GroupFacts { preemptable, ..group("ns", "borrows", 1, "a") });
    helps(says(false), says(true));
}

#[test]
fn a_gang_that_needs_fewer() {
    // One member is protected, so the gang cannot be evicted whole.
    let says = |min| move |state: &mut SchedulingState| state.apply_group(group("ns", "borrows", min, "a"));
    let before = |state: &mut SchedulingState| {
        says(10)(state);
        change_pod(state, "borrows-3", |facts| PodFacts { preemptable: false, ..facts });
    };
    helps(before, says(9));
}

#[test]
fn a_group_of_a_lower_class_now() {
    let says = |class: Option<&'static str>| {
        move |state: &mut SchedulingState| {
            state.apply_group(GroupFacts { priority_class: class.map(Into::into), ..group("ns", "borrows", 1, "a") })
        }
    };
    let before = |state: &mut SchedulingState| {
        state.apply_priority_class(class("high", 5));
        says(Some("high"))(state);
    };
    helps(before, says(None));
}

#[test]
fn a_group_that_is_gone_with_its_class() {
    let before = |state: &mut SchedulingState| {
        state.apply_priority_class(class("high", 5));
        state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "borrows", 1, "a") });
    };
    helps(before, |state| state.delete_group(&GroupKey::new("ns", "borrows")));
}

#[test]
fn a_pod_that_its_budget_guards_no_more() {
    let budget =
        BudgetFacts { key: BudgetKey::new("ns", "b"), selector: LabelSelector::label("app", "x"), allowed: 0, frees_unready: false };
    let label = |value: &'static str| move |facts| PodFacts { labels: [("app".to_owned(), value.to_owned())].into(), ..facts };
    let before = |state: &mut SchedulingState| {
        change_all(state, label("x"));
        state.apply_budget(budget.clone());
    };
    helps(before, |state| change_pod(state, "borrows-3", label("y")));
}

#[test]
fn a_pod_that_moved_to_another_podgroup() {
    let before = |state: &mut SchedulingState| {
        state.apply_group(group("ns", "borrows", 10, "a"));
        change_pod(state, "borrows-3", |facts| PodFacts { preemptable: false, ..facts });
    };
    helps(before, |state| change_pod(state, "borrows-4", |facts| PodFacts { group: GroupKey::new("ns", "none"), ..facts }));
}

#[test]
fn a_pod_of_another_task_now() {
    let chief = || Some("chief".to_owned());
    let before = |state: &mut SchedulingState| {
        state.apply_group(GroupFacts { min_task_member: [("chief".to_owned(), 9)].into(), ..group("ns", "borrows", 9, "a") });
        (0..9).for_each(|index| change_pod(state, &format!("borrows-{index}"), |facts| PodFacts { task: chief(), ..facts }));
        change_pod(state, "borrows-9", |facts| PodFacts { preemptable: false, ..facts });
    };
    helps(before, |state| change_pod(state, "borrows-9", |facts| PodFacts { task: chief(), ..facts }));
}

#[test]
fn a_pod_whose_bind_is_over_though_it_was_seen_before_the_answer_said_no() {
    let (mut state, plan) = being_bound();
    assert_eq!(until(&mut state, 4), 0);
    for bind in &plan.binds {
        let facts = PodFacts::clone(&state.cache().pods()[&bind.uid].facts);
        state.apply_pod(PodFacts { charged_queue: Some(bind.queue.to_string()), ..running(facts, &bind.node) });
        state.refuse_bind(&bind.uid, "conflict", Duration::from_secs(5), |_| Duration::from_secs(1));
    }
    assert_eq!(until(&mut state, 8), 1, "{}", message(&state, "owed"));
}

#[test]
fn a_queue_that_borrows_by_what_is_placed_where_nothing_else_happens() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 2)]));
    state.apply_node(node("n2", &[("cpu", 1), ("memory", 1)]));
    // In the cluster as a whole there is room for both (A7), and on no node for what is owed.
    state.apply_node(node("n3", &[("cpu", 1)]));
    for (name, deserved) in [("a", 1), ("b", 2)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), ..queue(name, None, &[]) });
    }
    state.apply_group(group("ns", "borrows", 1, "a"));
    // The oldest member goes only with all others.
    let younger = k8s_openapi::jiff::Timestamp::from_second(9).unwrap();
    state.apply_pod(PodFacts { created: younger, ..running(pod("ns", "borrows-0", "borrows", &[("cpu", 1)]), "n1") });
    state.apply_pod(pod("ns", "borrows-1", "borrows", &[("cpu", 1), ("memory", 1)]));
    let plan = at(&mut state, 0);
    state.refuse_bind(&plan.binds[0].uid, "test", Duration::ZERO, |_| Duration::from_secs(6));
    gang(&mut state, "owed", 1, "b", 1, &[("cpu", 2)]);
    assert_eq!(until(&mut state, 4), 0);
    assert_eq!(until(&mut state, 8), 1, "its bind is tried again: {}", message(&state, "owed"));
}

#[test]
fn r2c_what_asks_with_the_priority_of_another_is_not_taken_back_and_forth_for_ever() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 2)]));
    let of = |name: &str, group: &str, cpu, priority| PodFacts { priority, ..pod("ns", name, group, &[("cpu", cpu)]) };
    state.apply_group(group("ns", "mixed", 0, "default"));
    state.apply_group(group("ns", "middle", 0, "default"));
    state.apply_pod(running(of("middle-0", "middle", 2, 1), "n"));
    // The large one fits no node, and the small one has a lower priority than the running pods.
    state.apply_pod(of("mixed-0", "mixed", 3, 2));
    state.apply_pod(of("mixed-1", "mixed", 1, 0));
    assert_eq!(until(&mut state, 4), 0, "{}", message(&state, "mixed"));
    state.apply_pod(of("mixed-2", "mixed", 1, 2));
    assert_eq!(until(&mut state, 8), 1, "its own priority is enough");
}

#[test]
fn a_podgroup_that_gets_a_higher_class_preempts_though_none_could_before() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1)]));
    state.apply_group(group("ns", "runs", 1, "default"));
    state.apply_pod(running(pod("ns", "runs-0", "runs", &[("cpu", 1)]), "n"));
    gang(&mut state, "g", 1, "default", 1, &[("cpu", 1)]);
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "g", 1, "default") });
    assert_eq!(until(&mut state, 4), 0, "{}", message(&state, "g"));
    state.apply_priority_class(class("high", 1_000));
    assert_eq!(until(&mut state, 8), 1, "{}", message(&state, "g"));
}

/// Zone `a` with a node of 4 cpu, zone `b` with a node that has no room. Of two pods that are spread over the zones the first one is in
/// zone `a`, and the second one waits.
fn spread_over_a_full_zone() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(zoned("a1", "a", 4));
    state.apply_node(zoned("b1", "b", 0));
    for name in ["w-0", "w-1"] {
        state.apply_group(group("ns", name, 1, "default"));
        state.apply_pod(of(name, "web", 1, &spread("web")));
    }
    assert_eq!(bound(&cycle(&mut state)), [("w-0", "a1")]);
    assert!(bound(&cycle(&mut state)).is_empty());
    state
}

#[test]
fn a_domain_that_goes_helps_a_pod_that_was_spread_over_it() {
    let mut state = spread_over_a_full_zone();
    // Without zone b zone a is the only one.
    state.delete_node("b1");
    assert_eq!(bound(&cycle(&mut state)), [("w-1", "a1")]);
}

#[test]
fn a_node_that_comes_with_its_pods_helps_one_that_needs_a_second_domain() {
    let mut state = empty_state();
    state.apply_node(zoned("a1", "a", 4));
    let mut terms = (*spread("web")).clone();
    terms.spread[0].min_domains = 2;
    let terms = Arc::new(terms);
    for name in ["w-0", "w-1"] {
        state.apply_group(group("ns", name, 1, "default"));
        state.apply_pod(of(name, "web", 1, &terms));
    }
    assert_eq!(bound(&cycle(&mut state)), [("w-0", "a1")]);
    state.apply_pod(running(of("w-2", "web", 1, &terms), "b1"));
    assert!(bound(&cycle(&mut state)).is_empty());
    // That pod fills the node, so no further one goes there. Now each of two zones has one pod.
    state.apply_node(zoned("b1", "b", 1));
    assert_eq!(bound(&cycle(&mut state)), [("w-1", "a1")], "{}", message(&state, "w-1"));
}

#[test]
fn a_node_that_takes_no_pod_helps_one_that_was_spread_over_its_zone_when_it_leaves_the_zone() {
    type Event = fn(&mut SchedulingState);
    let events: [Event; 2] =
        [|state| state.apply_node(zoned("b1", "a", 0)), |state| state.apply_node(NodeFacts { labels: [].into(), ..zoned("b1", "b", 0) })];
    for event in events {
        let mut state = spread_over_a_full_zone();
        event(&mut state);
        let plan = run(&mut state, &PEACEFUL, Duration::ZERO);
        assert_eq!(bound(&plan), [("w-1", "a1")], "{}", message(&state, "w-1"));
    }
}
