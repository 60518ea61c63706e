//! Scenarios of nominations.

use super::*;
use crate::accounting::Placement;
use crate::api::pod_facts::PodPhase;
use crate::cycle::cache::Phase;
use crate::cycle::plan::Plan;
use crate::cycle::plan::{Eviction, EvictionCause};
use crate::cycle::run;
use crate::cycle::testing::steps::{bound, empty_state, gang, message, phase};
use crate::cycle::testing::{PEACEFUL, amounts, group, limits, node, pod, queue, running};

fn cycle(state: &mut SchedulingState, now: u64) -> Plan {
    run(state, &PEACEFUL, Duration::from_secs(now))
}

fn key(name: &str) -> GroupKey {
    GroupKey::new("ns", name)
}

fn place(name: &str, node: &str, cpu: i64) -> Placement {
    let resources = amounts(&[("cpu", cpu), ("pods", 1)]);
    Placement { uid: format!("ns/{name}").as_str().into(), node: node.into(), queue: "mine".into(), resources }
}

/// Two nodes of 4 cpus full of `v-0` and `v-1` of the queue `theirs`, and the gang `g` of two that requests 3 each in the queue `mine`.
fn full() -> SchedulingState {
    let mut state = empty_state();
    for name in ["mine", "theirs"] {
        state.apply_queue(queue(name, None, &[]));
    }
    for index in 0..2 {
        state.apply_node(node(&format!("n{index}"), &[("cpu", 4)]));
        state.apply_pod(running(pod("ns", &format!("v-{index}"), "v", &[("cpu", 4)]), &format!("n{index}")));
    }
    state.apply_group(group("ns", "v", 1, "theirs"));
    gang(&mut state, "g", 2, "mine", 2, &[("cpu", 3)]);
    assert!(cycle(&mut state, 0).binds.is_empty());
    state
}

fn nominate(state: &mut SchedulingState, until: u64) -> Option<Eviction> {
    let (places, victims) = ([place("g-0", "n0", 3), place("g-1", "n1", 3)], ["ns/v-0".into(), "ns/v-1".into()]);
    state.nominate(&key("g"), &places, &victims, EvictionCause::Reclaim, Duration::from_secs(until))
}

fn nominated() -> SchedulingState {
    let mut state = full();
    assert!(nominate(&mut state, 90).is_some());
    assert!(cycle(&mut state, 0).binds.is_empty());
    state
}

/// It waits again, backs off, and has no nomination.
fn assert_withdrawn(state: &mut SchedulingState, why: &str, now: u64) {
    assert!(cycle(state, now).binds.is_empty(), "{why}");
    assert!(state.nominated(&key("g")).is_none(), "{why}");
    assert!(state.cache().accounting().pods().all(|(_, pod)| pod.stage != crate::accounting::Stage::Nominated), "{why}");
    let group = &state.cache().groups()[&key("g")];
    let step = crate::cycle::explain::Step::Preemption;
    assert_eq!((group.retry.failures, group.retry.step, group.retry.why.as_str()), (1, step, why));
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(now + 1)), "{why}");
    assert_eq!(state.take_withdrawn().len(), 1, "{why}");
    assert!(state.cache().accounting().audit().is_clean());
}

#[test]
fn the_room_of_victims_is_kept_for_the_gang_and_bound_when_the_last_victim_is_gone() {
    let mut state = full();
    let eviction = nominate(&mut state, 90).unwrap();
    assert_eq!((&eviction.group, &*eviction.queue, &*eviction.group_uid), (&key("g"), "mine", "ns/g/group"));
    let victims: Vec<_> = eviction.victims.iter().map(|victim| (&*victim.name, &*victim.queue, &*victim.group.name)).collect();
    assert_eq!(victims, [("v-1", "theirs", "v"), ("v-0", "theirs", "v")], "the oldest goes last");
    assert!(state.holds.is_victim(&Uid::from("ns/v-0")));
    gang(&mut state, "other", 1, "mine", 1, &[("cpu", 1)]);
    assert!(cycle(&mut state, 0).binds.is_empty());
    assert_eq!(
        (message(&state, "g"), phase(&state, "g")),
        (
            "preempting 2 pods of queue \"theirs\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)".to_owned(),
            Phase::Inqueue
        )
    );
    assert_eq!((state.cache().groups()[&key("g")].counts.placed, state.cache().waiting_pods()), (0, 1));
    assert_eq!(state.nominated_on("n0"), Some(amounts(&[("cpu", 3), ("pods", 1)])));
    // The first victim is gone: no other pod takes its room, and the gang waits for the second.
    state.delete_pod(&"ns/v-0".into());
    let plan = cycle(&mut state, 1);
    assert_eq!(bound(&plan), [("other-0", "n0")], "what is not nominated is free");
    state.delete_pod(&"ns/other-0".into());
    let last = PodFacts { phase: PodPhase::Succeeded, ..running(pod("ns", "v-1", "v", &[("cpu", 4)]), "n1") };
    state.apply_pod(last);
    assert!(state.has_work(Duration::from_secs(1)));
    assert_eq!(bound(&cycle(&mut state, 1)), [("g-0", "n0"), ("g-1", "n1")]);
    assert_eq!((message(&state, "g"), phase(&state, "g"), state.nominated_on("n0")), (String::new(), Phase::Running, None));
    assert!(!state.holds.is_victim(&Uid::from("ns/v-0")) && state.next_attempt().is_none());
    assert!(state.cache().accounting().audit().is_clean());
}

#[test]
fn the_deadline_of_a_nomination_is_the_longest_grace_period_within_a_limit_and_a_margin() {
    let mut state = full();
    let victims: [Uid; 2] = ["ns/v-0".into(), "ns/v-1".into()];
    let deadline =
        |state: &SchedulingState| state.holds.deadline(&state.cache, &[place("g-0", "n0", 3)], &victims, Duration::from_secs(7)).as_secs();
    assert_eq!(deadline(&state), 7 + 30 + 60);
    for (seconds, is) in [(0, 97), (300, 367), (u64::MAX, 667)] {
        let grace = Duration::from_secs(seconds);
        state.apply_pod(PodFacts { grace, ..running(pod("ns", "v-0", "v", &[("cpu", 4)]), "n0") });
        assert_eq!(deadline(&state), is);
    }
    let leaves = |name: &str, node: &str, queue: &str| PodFacts {
        deleting: true,
        grace: Duration::from_secs(90),
        scheduler: "other".into(),
        ..running(pod("ns", name, queue, &[("cpu", 1)]), node)
    };
    state.apply_pod(PodFacts { grace: Duration::ZERO, ..running(pod("ns", "v-0", "v", &[("cpu", 4)]), "n0") });
    state.apply_pod(leaves("elsewhere", "n2", "other"));
    assert_eq!(deadline(&state), 97, "no nomination counts on that pod");
    state.apply_pod(leaves("there", "n0", "other"));
    assert_eq!(deadline(&state), 157, "it is leaving from a node of the nomination");
}

#[test]
fn at_its_deadline_the_whole_nomination_is_withdrawn() {
    let mut state = nominated();
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(90)));
    state.delete_pod(&"ns/v-0".into());
    assert!(cycle(&mut state, 89).binds.is_empty());
    assert!(!state.has_work(Duration::from_secs(89)) && state.has_work(Duration::from_secs(90)));
    assert_withdrawn(&mut state, "timeout", 90);
    // It may preempt again after its back-off.
    assert!(cycle(&mut state, 91).tried.contains(&key("g")));
    assert!(nominate(&mut state, 200).is_some());
}

#[test]
fn a_refused_eviction_withdraws_its_own_nomination_and_no_later_one() {
    let mut state = nominated();
    state.refuse_eviction(&key("g"), 7, "disruption_budget");
    assert!(state.nominated(&key("g")).is_some(), "that was another nomination");
    state.refuse_eviction(&key("g"), 1, "disruption_budget");
    assert_withdrawn(&mut state, "disruption_budget", 5);
}

#[test]
fn any_change_of_the_gang_withdraws_the_nomination_as_a_whole() {
    type Change = fn(&mut SchedulingState);
    let changes: [(&str, Change); 9] = [
        ("pod_gone", |state| state.delete_pod(&"ns/g-1".into())),
        ("pod_changed", |state| state.apply_pod(PodFacts { deleting: true, ..pod("ns", "g-1", "g", &[("cpu", 3)]) })),
        ("pod_changed", |state| state.apply_pod(PodFacts { gated: true, ..pod("ns", "g-1", "g", &[("cpu", 3)]) })),
        ("pod_changed", |state| state.apply_pod(pod("ns", "g-1", "g", &[("cpu", 4)]))),
        ("pod_changed", |state| state.apply_pod(running(pod("ns", "g-1", "g", &[("cpu", 3)]), "elsewhere"))),
        ("group_changed", |state| state.apply_group(group("ns", "g", 1, "mine"))),
        ("node", |state| state.delete_node("n1")),
        ("node", |state| state.apply_node(crate::api::NodeFacts { unschedulable: true, ..node("n1", &[("cpu", 4)]) })),
        ("queue", |state| state.apply_queue(crate::api::QueueFacts { closed_by_hand: true, ..queue("mine", None, &[]) })),
    ];
    for (why, change) in changes {
        let mut state = nominated();
        change(&mut state);
        assert_withdrawn(&mut state, why, 5);
    }
    let mut state = nominated();
    state.delete_group(&key("g"));
    assert!(cycle(&mut state, 5).binds.is_empty() && state.nominated(&key("g")).is_none());
    assert!(state.cache().accounting().pod(&"ns/g-0".into()).is_none());
}

#[test]
fn a_change_that_does_not_concern_the_gang_keeps_the_nomination() {
    let mut state = nominated();
    let status = crate::api::podgroup::PodGroupStatus { phase: Some("Inqueue".into()), ..Default::default() };
    state.apply_group(GroupFacts { status, resource_version: "9".into(), ..group("ns", "g", 2, "mine") });
    let condition = crate::api::pod::PodCondition { kind: "PodScheduled".into(), ..Default::default() };
    state.apply_pod(PodFacts { scheduled_condition: Some(condition), ..pod("ns", "g-0", "g", &[("cpu", 3)]) });
    state.apply_node(node("n0", &[("cpu", 5)]));
    state.apply_queue(queue("theirs", None, &[("cpu", 9)]));
    assert!(cycle(&mut state, 1).binds.is_empty());
    assert!(state.nominated(&key("g")).is_some());
    assert_eq!(
        message(&state, "g"),
        "preempting 2 pods of queue \"theirs\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)"
    );
}

#[test]
fn a_gang_that_lost_a_running_member_has_too_little_nominated() {
    let mut state = full();
    state.apply_group(group("ns", "g", 3, "mine"));
    state.apply_node(node("n2", &[("cpu", 1)]));
    state.apply_pod(running(pod("ns", "g-9", "g", &[("cpu", 1)]), "n2"));
    assert!(cycle(&mut state, 0).binds.is_empty());
    assert!(nominate(&mut state, 90).is_some());
    assert!(cycle(&mut state, 0).binds.is_empty() && state.nominated(&key("g")).is_some());
    state.delete_pod(&"ns/g-9".into());
    assert_withdrawn(&mut state, "gang_changed", 5);
}

#[test]
fn a_running_pod_in_the_room_ends_the_nomination_and_a_terminating_pod_is_waited_for() {
    for leaving in [false, true] {
        let mut state = nominated();
        let late = PodFacts { deleting: leaving, ..running(pod("ns", "late", "v", &[("cpu", 2)]), "n0") };
        state.apply_pod(late);
        for name in ["v-0", "v-1"] {
            state.delete_pod(&format!("ns/{name}").as_str().into());
        }
        if !leaving {
            assert_withdrawn(&mut state, "no_room", 5);
            continue;
        }
        assert!(cycle(&mut state, 5).binds.is_empty() && state.nominated(&key("g")).is_some());
        state.delete_pod(&"ns/late".into());
        assert_eq!(cycle(&mut state, 6).binds.len(), 2);
    }
}

#[test]
fn a_lowered_ceiling_ends_the_nomination() {
    let mut state = nominated();
    state.apply_queue(queue("mine", None, &[("cpu", 5)]));
    assert!(cycle(&mut state, 1).binds.is_empty() && state.nominated(&key("g")).is_some(), "it may be up again by then");
    for name in ["v-0", "v-1"] {
        state.delete_pod(&format!("ns/{name}").as_str().into());
    }
    assert_withdrawn(&mut state, "no_room", 5);
}

#[test]
fn a_podgroup_that_is_not_preemptable_gets_no_more_than_its_entitlement() {
    let mut state = full();
    for (name, deserved) in [("mine", 5), ("theirs", 3)] {
        state.apply_queue(crate::api::QueueFacts { deserved: limits(&[("cpu", deserved)]), ..queue(name, None, &[]) });
    }
    state.apply_group(GroupFacts { preemptable: false, ..group("ns", "g", 2, "mine") });
    assert!(cycle(&mut state, 0).binds.is_empty());
    assert!(nominate(&mut state, 90).is_some());
    for name in ["v-0", "v-1"] {
        state.delete_pod(&format!("ns/{name}").as_str().into());
    }
    assert_withdrawn(&mut state, "no_room", 5);
}

#[test]
fn two_nominations_on_one_node_do_not_block_each_other() {
    let mut state = full();
    state.apply_pod(running(pod("ns", "v-0", "v", &[("cpu", 2)]), "n0"));
    state.apply_pod(running(pod("ns", "v-2", "v", &[("cpu", 2)]), "n0"));
    for name in ["a", "b"] {
        gang(&mut state, name, 1, "mine", 1, &[("cpu", 2)]);
    }
    let mut take = |name: &str, victim: &str| {
        let (places, until) = ([place(&format!("{name}-0"), "n0", 2)], Duration::from_secs(90));
        state.nominate(&key(name), &places, &[format!("ns/{victim}").as_str().into()], EvictionCause::Preemption, until)
    };
    assert!(take("a", "v-0").is_some() && take("b", "v-2").is_some());
    state.delete_pod(&"ns/v-2".into());
    assert_eq!(bound(&cycle(&mut state, 1)), [("b-0", "n0")]);
    state.delete_pod(&"ns/v-0".into());
    assert_eq!(bound(&cycle(&mut state, 2)), [("a-0", "n0")]);
    assert!(state.cache().accounting().audit().is_clean());
}

#[test]
fn only_waiting_pods_are_nominated_once_and_only_running_pods_are_evicted() {
    let mut state = full();
    let (places, until) = ([place("g-0", "n0", 3)], Duration::from_secs(90));
    let take = |state: &mut SchedulingState, places: &[Placement], victims: &[&str]| {
        let victims: Vec<Uid> = victims.iter().map(|name| Uid::from(format!("ns/{name}").as_str())).collect();
        state.nominate(&key("g"), places, &victims, EvictionCause::Reclaim, until)
    };
    assert_eq!(take(&mut state, &[], &["v-0"]), None);
    assert_eq!(take(&mut state, &[place("v-0", "n1", 4)], &["v-1"]), None, "it runs");
    assert_eq!(take(&mut state, &[place("g-0", "n0", 3), place("g-0", "n1", 3)], &["v-0"]), None, "the same twice");
    state.apply_group(group("ns", "g", 1, "mine"));
    state.apply_pod(PodFacts { deleting: true, ..running(pod("ns", "v-0", "v", &[("cpu", 4)]), "n0") });
    let eviction = take(&mut state, &places, &["v-0", "v-1", "nobody"]).unwrap();
    assert_eq!(eviction.victims.iter().map(|victim| &*victim.name).collect::<Vec<_>>(), ["v-1"]);
    assert_eq!(take(&mut state, &[place("g-1", "n1", 3)], &["v-1"]), None, "something is nominated for it already");
    state.delete_pod(&"ns/v-1".into());
    assert!(cycle(&mut state, 1).binds.is_empty(), "it waits for the terminating pod, too");
    state.delete_pod(&"ns/v-0".into());
    let plan = cycle(&mut state, 1);
    assert_eq!(bound(&plan), [("g-0", "n0"), ("g-1", "n1")], "its further member is placed like any other");
}

#[test]
fn a_nomination_is_enough_while_its_places_are_those_of_the_tasks_that_lack_members() {
    let of_task = |name: &str, task: &str| PodFacts { task: Some(task.into()), ..pod("ns", name, "g", &[("cpu", 3)]) };
    let both = [place("g-0", "n0", 3), place("g-1", "n1", 3)];
    for places in [&both[..1], &both] {
        let mut state = full();
        state.apply_node(node("n2", &[("cpu", 3)]));
        state.apply_group(GroupFacts { min_task_member: [("head".into(), 1), ("worker".into(), 1)].into(), ..group("ns", "g", 2, "mine") });
        state.apply_pod(running(of_task("g-9", "head"), "n2"));
        ["g-0", "g-1"].into_iter().for_each(|name| state.apply_pod(of_task(name, "worker")));
        let victims = ["ns/v-0".into(), "ns/v-1".into()];
        assert!(state.nominate(&key("g"), places, &victims, EvictionCause::Reclaim, Duration::from_secs(90)).is_some());
        assert!(cycle(&mut state, 0).binds.is_empty() && state.nominated(&key("g")).is_some(), "one worker is missing");
        if places.len() == 2 {
            state.delete_pod(&"ns/g-9".into());
            assert_withdrawn(&mut state, "gang_changed", 5);
        }
    }
}
