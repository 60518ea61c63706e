//! What a gang keeps when it loses a member, as small scenarios (A8).

use std::time::Duration;

use crate::api::pod_facts::PodPhase;
use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, GroupKey, PodFacts, QueueFacts, Uid};
use crate::cycle::cache::Change;
use crate::cycle::holds::Kind;
use crate::cycle::next_member::next_member;
use crate::cycle::plan::Plan;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, gang, message};
use crate::cycle::testing::{POLICY, amounts, group, node, pod, queue, running};
use crate::resources::Amount;

fn at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

fn kept_places(state: &SchedulingState) -> usize {
    state.holds.of_kind(Kind::LostMember).count()
}

fn uid(name: &str) -> Uid {
    Uid::from(format!("ns/{name}").as_str())
}

fn seen(plan: &Plan, state: &mut SchedulingState) {
    for bind in &plan.binds {
        let facts = PodFacts::clone(&state.cache().pods()[&bind.uid].facts);
        state.apply_pod(PodFacts { charged_queue: Some(bind.queue.to_string()), ..running(facts, &bind.node) });
    }
}

/// Three nodes of 1 cpu with a gang of three, and a rival of one pod that waits. The queue is large, or its nodes are.
fn full(of_queue: bool) -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(queue("q", None, if of_queue { &[("cpu", 3)] } else { &[] }));
    for name in ["n1", "n2", "n3"] {
        state.apply_node(node(name, &[("cpu", if of_queue { 8 } else { 1 })]));
    }
    gang(&mut state, "g", 3, "q", 3, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 3);
    seen(&plan, &mut state);
    gang(&mut state, "rival", 1, "q", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 1).binds.is_empty());
    state
}

fn node_of(state: &SchedulingState, name: &str) -> String {
    state.cache().pods()[&uid(name)].facts.node.as_deref().unwrap_or_default().to_owned()
}

#[test]
fn a8_a_gang_that_has_lost_a_member_keeps_its_place_for_the_pod_that_replaces_it() {
    for of_queue in [false, true] {
        let mut state = full(of_queue);
        let lost = node_of(&state, "g-0");
        state.delete_pod(&uid("g-0"));
        assert!(at(&mut state, 2).binds.is_empty(), "{of_queue}");
        assert_eq!(state.nominated_on(&lost).map(|kept| kept.get("cpu")), Some(Amount::from_units(1)));
        assert_eq!(message(&state, "g"), "the gang needs 3 members, 2 exist");
        state.apply_pod(pod("ns", "g-3", "g", &[("cpu", 1)]));
        let plan = at(&mut state, 3);
        assert_eq!(plan.binds.iter().map(|bind| &*bind.name).collect::<Vec<_>>(), ["g-3"]);
        assert!(of_queue || *plan.binds[0].node == *lost);
        assert_eq!(state.nominated_on(&lost), None);
        assert!(at(&mut state, 4).binds.is_empty());
    }
}

#[test]
fn a8_a_lost_place_is_kept_for_the_admission_timeout_and_no_longer() {
    for of_queue in [false, true] {
        let mut state = full(of_queue);
        state.delete_pod(&uid("g-0"));
        assert!(at(&mut state, 2).binds.is_empty());
        assert!(at(&mut state, 31).binds.is_empty());
        let binds = at(&mut state, 32).binds.len() + at(&mut state, 32).binds.len();
        assert_eq!(binds, 1, "{of_queue}: {}", message(&state, "rival"));
        assert!(state.holds.is_empty());
    }
}

#[test]
fn a8_a_report_about_the_nodes_leaves_out_the_places_of_the_gang_itself() {
    let mut state = full(false);
    state.delete_pod(&uid("g-0"));
    assert!(at(&mut state, 2).binds.is_empty());
    state.apply_pod(pod("ns", "g-3", "g", &[("cpu", 1)]));
    assert!(next_member(&mut state, &POLICY, &GroupKey::new("ns", "g")).is_none());
    assert!(next_member(&mut state, &POLICY, &GroupKey::new("ns", "rival")).is_some());
}

#[test]
fn a8_each_place_is_kept_for_its_own_time() {
    for of_queue in [false, true] {
        let mut state = full(of_queue);
        state.apply_pod(pod("ns", "rival-1", "rival", &[("cpu", 1)]));
        for (lost, when) in [("g-0", 2), ("g-1", 12)] {
            state.delete_pod(&uid(lost));
            assert!(at(&mut state, when).binds.is_empty());
        }
        let binds = at(&mut state, 32).binds.len() + at(&mut state, 33).binds.len();
        assert_eq!(binds, 1, "{of_queue}: {}", message(&state, "rival"));
        let binds = at(&mut state, 42).binds.len() + at(&mut state, 43).binds.len();
        assert_eq!(binds, 1, "{of_queue}: {}", message(&state, "rival"));
    }
}

#[test]
fn a8_a_gang_keeps_nothing_when_it_is_smaller_gone_over_or_its_member_succeeded() {
    let smaller = |state: &mut SchedulingState| state.apply_group(group("ns", "g", 2, "q"));
    let gone = |state: &mut SchedulingState| {
        for name in ["g-1", "g-2"] {
            state.delete_pod(&uid(name));
        }
    };
    let deleted = |state: &mut SchedulingState| state.delete_group(&GroupKey::new("ns", "g"));
    let asks_otherwise = |state: &mut SchedulingState| {
        state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", "g", 3, "q") });
    };
    type End = fn(&mut SchedulingState);
    let ends: [(&str, End); 4] = [("smaller", smaller), ("gone", gone), ("deleted", deleted), ("asks otherwise", asks_otherwise)];
    for (name, end) in ends {
        let mut state = full(false);
        state.delete_pod(&uid("g-0"));
        assert!(at(&mut state, 2).binds.is_empty());
        end(&mut state);
        assert_eq!(bound(&at(&mut state, 3)).len(), 1, "{name}");
    }
    for (phase, is_kept) in [(PodPhase::Succeeded, false), (PodPhase::Failed, true)] {
        let mut state = full(false);
        let facts = PodFacts::clone(&state.cache().pods()[&uid("g-0")].facts);
        state.apply_pod(PodFacts { phase, ..facts.clone() });
        assert_eq!(at(&mut state, 2).binds.is_empty(), is_kept);
        // The pod that failed is deleted later.
        state.delete_pod(&uid("g-0"));
        assert!(at(&mut state, 3).binds.is_empty());
    }
}

#[test]
fn a8_the_place_of_a_pod_that_was_evicted_for_another_goes_to_that_one() {
    let mut state = full(false);
    state.apply_group(group("ns", "high", 1, "q"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "high-0", "high", &[("cpu", 1)]) });
    let victims: Vec<Uid> =
        at(&mut state, 2).evictions.into_iter().flat_map(|eviction| eviction.victims).map(|victim| victim.uid).collect();
    assert_eq!(victims.len(), 3, "a gang goes whole");
    let mut binds = Vec::new();
    for (second, victim) in victims.iter().enumerate() {
        state.delete_pod(victim);
        binds.extend(at(&mut state, 3 + second as u64).binds);
    }
    assert!(binds.iter().any(|bind| &*bind.name == "high-0"), "{binds:?}");
    assert!(kept_places(&state) == 0);
}

/// A pod of high priority needs the room of a terminating member and of a victim. What is nominated for it comes before the kept place of the member.
#[test]
fn a8_a_lost_place_is_not_kept_where_a_nomination_counts_on_its_room() {
    for of_queue in [false, true] {
        let mut state = empty_state();
        state.apply_queue(queue("q", None, if of_queue { &[("cpu", 3)] } else { &[] }));
        state.apply_node(node("n", &[("cpu", if of_queue { 8 } else { 2 })]));
        state.apply_node(node("m", &[("cpu", 1)]));
        state.apply_group(group("ns", "g", 2, "q"));
        state.apply_group(group("ns", "low", 1, "q"));
        let member = running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n");
        state.apply_pod(member.clone());
        state.apply_pod(running(pod("ns", "g-1", "g", &[("cpu", 1)]), "m"));
        state.apply_pod(PodFacts { priority: -1, ..running(pod("ns", "low-0", "low", &[("cpu", 1)]), "n") });
        assert!(at(&mut state, 0).binds.is_empty());
        state.apply_pod(PodFacts { deleting: true, ..member });
        state.apply_group(group("ns", "high", 1, "q"));
        state.apply_pod(PodFacts { priority: 9, ..pod("ns", "high-0", "high", &[("cpu", 2)]) });
        let plan = at(&mut state, 1);
        let victims: Vec<&str> = plan.evictions.iter().flat_map(|eviction| &eviction.victims).map(|victim| &*victim.name).collect();
        assert_eq!(victims, ["low-0"], "{of_queue}: {}", message(&state, "high"));
        state.delete_pod(&uid("g-0"));
        assert!(at(&mut state, 2).binds.is_empty());
        assert!(kept_places(&state) == 0);
        state.delete_pod(&uid("low-0"));
        assert_eq!(bound(&at(&mut state, 3)), [("high-0", "n")], "{of_queue}: {}", message(&state, "high"));
    }
}

#[test]
fn a8_a_lost_place_is_kept_only_where_its_request_fits_again() {
    type Change = fn(&mut SchedulingState);
    let same: Change = |_| {};
    let smaller_queue: Change = |state| state.apply_queue(queue("q", None, &[("cpu", 2)]));
    let closed: Change = |state| state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[("cpu", 3)]) });
    let smaller_node: Change = |state| state.apply_node(node(&node_of(state, "g-0"), &[("cpu", 0)]));
    let node_gone: Change = |state| state.delete_node(&node_of(state, "g-0"));
    let changes = [(same, true, 1), (smaller_queue, true, 0), (closed, true, 0), (smaller_node, false, 0), (node_gone, false, 1)];
    for (at, (change, of_queue, kept)) in changes.into_iter().enumerate() {
        let mut state = full(of_queue);
        change(&mut state);
        let reserved = |state: &SchedulingState| state.cache().accounting().quota().queue("q").reserved.get("cpu");
        let by_others = reserved(&state);
        state.delete_pod(&uid("g-0"));
        let for_it = reserved(&state).minus(by_others);
        assert_eq!((kept_places(&state), for_it), (kept, Amount::from_units(i64::try_from(kept).unwrap())), "change {at}");
    }
}

/// The node is overcommitted by what is nominated until the victim is gone. Then there is room for both.
#[test]
fn a8_a_lost_place_is_kept_beside_a_nomination_that_does_not_count_on_it() {
    let mut state = full(false);
    state.apply_node(node("n4", &[("cpu", 1)]));
    state.apply_node(node("n1", &[("cpu", 2)]));
    let created = k8s_openapi::jiff::Timestamp::from_second(9).unwrap();
    state.apply_pod(PodFacts { priority: -1, created, ..running(pod("ns", "low-0", "rival", &[("cpu", 1)]), "n1") });
    state.apply_pod(PodFacts { priority: 9, ..running(pod("ns", "rival-0", "rival", &[("cpu", 1)]), "n4") });
    state.apply_group(group("ns", "high", 1, "q"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "high-0", "high", &[("cpu", 1)]) });
    assert_eq!(at(&mut state, 2).evictions.len(), 1, "{}", message(&state, "high"));
    let lost = ["g-0", "g-1", "g-2"].into_iter().find(|name| node_of(&state, name) == "n1").unwrap();
    state.delete_pod(&uid(lost));
    assert_eq!(kept_places(&state), 1);
    state.delete_pod(&uid("low-0"));
    assert_eq!(bound(&at(&mut state, 3)), [("high-0", "n1")], "{}", message(&state, "high"));
}

/// A gang of three, one of them a chief, with one worker more. The chief is lost, and then the gang still has three members.
#[test]
fn a8_the_place_of_the_only_member_of_a_task_is_kept_though_the_number_of_members_is_enough() {
    let mut state = empty_state();
    ["n1", "n2", "n3", "n4"].into_iter().for_each(|name| state.apply_node(node(name, &[("cpu", 1)])));
    let tasks = [("chief".to_owned(), 1), ("worker".to_owned(), 2)].into();
    state.apply_group(GroupFacts { min_task_member: tasks, ..group("ns", "g", 3, "default") });
    let of = |name: &str, task: &str| PodFacts { task: Some(task.to_owned()), ..pod("ns", name, "g", &[("cpu", 1)]) };
    state.apply_pod(running(of("chief-0", "chief"), "n1"));
    for (name, node) in [("worker-0", "n2"), ("worker-1", "n3"), ("worker-2", "n4")] {
        state.apply_pod(running(of(name, "worker"), node));
    }
    gang(&mut state, "rival", 1, "default", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 0).binds.is_empty());
    state.delete_pod(&uid("chief-0"));
    assert!(at(&mut state, 1).binds.is_empty(), "the place of the chief is kept");
    state.apply_pod(of("chief-1", "chief"));
    assert_eq!(bound(&at(&mut state, 2)), [("chief-1", "n1")]);
    state.delete_pod(&uid("worker-2"));
    assert_eq!(bound(&at(&mut state, 3)), [("rival-0", "n4")], "the gang needs two workers only");
}

#[test]
fn a5_a_failed_member_is_gone_once_and_not_again_with_each_of_its_updates() {
    let mut state = full(false);
    let failed = PodFacts { phase: PodPhase::Failed, ..PodFacts::clone(&state.cache().pods()[&uid("g-0")].facts) };
    let gone = |state: &mut SchedulingState, facts: &PodFacts| {
        state.cache.apply_pod(facts.clone());
        state.cache.take_changes().iter().filter(|change| matches!(change, Change::MemberGone(_))).count()
    };
    assert_eq!(gone(&mut state, &failed), 1);
    assert_eq!(gone(&mut state, &PodFacts { labels: [("app".to_owned(), "x".to_owned())].into(), ..failed.clone() }), 0);
    // A pod that a new process sees for the first time has failed as well.
    assert_eq!(gone(&mut empty_state(), &failed), 1);
}

#[test]
fn a8_in_a_fifo_queue_a_gang_without_a_member_keeps_what_it_has_behind_the_first() {
    let mut state = full(true);
    state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, ..queue("q", None, &[("cpu", 3)]) });
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "rival-0", "rival", &[("cpu", 1)]) });
    state.apply_group(GroupFacts { preemptable: false, ..group("ns", "g", 3, "q") });
    assert!(at(&mut state, 2).binds.is_empty());
    state.delete_pod(&uid("g-0"));
    for second in 3..6 {
        assert!(at(&mut state, second).binds.is_empty(), "{second}");
    }
    state.apply_pod(pod("ns", "g-3", "g", &[("cpu", 1)]));
    assert_eq!(at(&mut state, 6).binds.iter().map(|bind| &*bind.name).collect::<Vec<_>>(), ["g-3"]);
}

/// The standby of [`full`]: it sees the same events, and no cycle runs.
fn standby() -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(queue("q", None, &[("cpu", 3)]));
    for name in ["n1", "n2", "n3"] {
        state.apply_node(node(name, &[("cpu", 1)]));
    }
    gang(&mut state, "g", 3, "q", 3, &[("cpu", 1)]);
    gang(&mut state, "rival", 1, "q", 1, &[("cpu", 1)]);
    for (name, node) in [("g-0", "n1"), ("g-1", "n2"), ("g-2", "n3")] {
        state.apply_pod(running(pod("ns", name, "g", &[("cpu", 1)]), node));
    }
    state
}

fn stand_by(state: &mut SchedulingState, seconds: u64) {
    state.stand_by(Duration::from_secs(seconds), POLICY.admission_timeout);
    assert!(state.cache().accounting().audit().is_clean());
}

fn reserved(state: &SchedulingState) -> Amount {
    state.cache().accounting().quota().queue("q").reserved.get("cpu")
}

#[test]
fn a8_the_next_leader_keeps_the_place_that_was_lost_while_it_stood_by() {
    let mut state = standby();
    state.delete_pod(&uid("g-0"));
    stand_by(&mut state, 10);
    assert_eq!((reserved(&state), kept_places(&state)), (Amount::from_units(1), 1));
    // It leads.
    state.read_nominations();
    assert!(at(&mut state, 20).binds.is_empty(), "the rival waits");
    state.apply_pod(pod("ns", "g-3", "g", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut state, 21)), [("g-3", "n1")]);
}

#[test]
fn a8_a_standby_keeps_a_lost_place_for_the_admission_timeout_and_no_longer() {
    let mut state = standby();
    state.delete_pod(&uid("g-0"));
    stand_by(&mut state, 10);
    stand_by(&mut state, 39);
    assert_eq!((reserved(&state), kept_places(&state)), (Amount::from_units(1), 1));
    stand_by(&mut state, 40);
    assert_eq!(reserved(&state), Amount::ZERO);
    assert!(state.holds.is_empty());
    assert!(state.cache().accounting().ledger().nodes().any(|node| node.used.is_zero()));
    assert_eq!(bound(&at(&mut state, 41)), [("rival-0", "n1")]);
}

/// The standby cannot tell a victim from any other lost member. The nomination of the earlier leader shows it.
#[test]
fn a8_the_next_leader_makes_a_nomination_again_before_it_keeps_the_places_of_its_victims() {
    let mut state = standby();
    state.delete_pod(&uid("rival-0"));
    state.apply_group(group("ns", "high", 3, "q"));
    for (name, node) in [("high-0", "n1"), ("high-1", "n2"), ("high-2", "n3")] {
        let facts = PodFacts { priority: 9, nominated_node: Some(node.into()), ..pod("ns", name, "high", &[("cpu", 1)]) };
        state.apply_pod(facts);
    }
    for name in ["g-1", "g-2"] {
        let facts = PodFacts::clone(&state.cache().pods()[&uid(name)].facts);
        state.apply_pod(PodFacts { deleting: true, ..facts });
    }
    stand_by(&mut state, 1);
    state.delete_pod(&uid("g-0"));
    stand_by(&mut state, 2);
    state.read_nominations();
    let plan = at(&mut state, 3);
    assert_eq!(plan.nominated_again, [GroupKey::new("ns", "high")], "{}", message(&state, "high"));
    assert!(plan.binds.is_empty() && plan.evictions.is_empty() && kept_places(&state) == 0);
    ["g-1", "g-2"].into_iter().for_each(|name| state.delete_pod(&uid(name)));
    assert_eq!(at(&mut state, 4).binds.len(), 3, "{}", message(&state, "high"));
}

/// A nomination elsewhere ends no kept place, and does not make its time longer.
#[test]
fn a8_the_next_leader_keeps_a_lost_place_beside_a_nomination_for_the_rest_of_its_time() {
    let mut state = standby();
    state.apply_queue(queue("q", None, &[]));
    state.apply_node(node("n4", &[("cpu", 1)]));
    state.delete_pod(&uid("g-0"));
    stand_by(&mut state, 10);
    state.apply_group(group("ns", "high", 1, "q"));
    state.apply_pod(PodFacts { priority: 9, nominated_node: Some("n4".into()), ..pod("ns", "high-0", "high", &[("cpu", 1)]) });
    state.read_nominations();
    assert_eq!(bound(&at(&mut state, 20)), [("high-0", "n4")]);
    assert!(at(&mut state, 39).binds.is_empty());
    let binds = [at(&mut state, 40), at(&mut state, 50)].iter().flat_map(bound_nodes).collect::<Vec<_>>();
    assert_eq!(binds, ["n1"], "{}", message(&state, "rival"));
}

fn bound_nodes(plan: &Plan) -> Vec<String> {
    plan.binds.iter().map(|bind| bind.node.to_string()).collect()
}
