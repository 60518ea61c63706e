//! The nominations of an earlier leader, made again by the next one (R7).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::accounting::Stage;
use crate::api::{GroupKey, NodeFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::cache::Member;
use crate::cycle::plan::Plan;
use crate::cycle::policy::Policy;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, message};
use crate::cycle::testing::{PEACEFUL, POLICY, amounts, group, node, nominated_node, pod, queue, running, taken_over};

fn at(state: &mut SchedulingState, policy: &Policy, seconds: u64) -> Plan {
    let plan = run(state, policy, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

fn key(name: &str) -> GroupKey {
    GroupKey::new("ns", name)
}

fn uid(name: &str) -> Uid {
    Uid::from(format!("ns/{name}").as_str())
}

fn change(state: &mut SchedulingState, name: &str, change: impl Fn(&mut PodFacts)) {
    let mut facts = PodFacts::clone(&state.cache().pods()[&uid(name)].facts);
    change(&mut facts);
    state.apply_pod(facts);
}

/// The pods that are bound, with their nodes, and the pods that are evicted.
fn decided(plan: &Plan) -> (Vec<(&str, &str)>, Vec<&str>) {
    (bound(plan), plan.evictions.iter().flat_map(|eviction| &eviction.victims).map(|victim| &*victim.name).collect())
}

/// The nodes that are nominated for members of the PodGroup, by member.
fn nominated(state: &SchedulingState, name: &str) -> Vec<(String, String)> {
    let members = state.cache().pods().iter().filter(|(_, member)| *member.facts.group.name == *name);
    members.filter_map(|(_, member)| Some((member.facts.name.to_string(), nominated_node(member)?.to_string()))).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(pod, node)| ((*pod).to_owned(), (*node).to_owned())).collect()
}

/// `low` runs on n1, which it fills, and `other` on n2. `rival` is older than all others that wait, has the priority of `g`, and preempts
/// never. The gang `g` has the victims `low-0` and `low-1`, which are leaving.
fn preempting() -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(queue("q", None, &[]));
    for (name, cpu) in [("n1", 4), ("n2", 2)] {
        state.apply_node(node(name, &[("cpu", cpu)]));
    }
    for (name, min) in [("low", 2), ("other", 1), ("rival", 1), ("g", 2)] {
        state.apply_group(group("ns", name, min, "q"));
    }
    for (name, of, on) in [("low-0", "low", "n1"), ("low-1", "low", "n1"), ("other-0", "other", "n2")] {
        state.apply_pod(PodFacts { charged_queue: Some("q".to_owned()), ..running(pod("ns", name, of, &[("cpu", 2)]), on) });
    }
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(60);
    state.apply_pod(PodFacts { priority: 10, preempts: false, ..pod("ns", "rival-0", "rival", &[("cpu", 2)]) });
    for name in ["g-0", "g-1"] {
        state.apply_pod(PodFacts { priority: 10, created, ..pod("ns", name, "g", &[("cpu", 2)]) });
    }
    let plan = at(&mut state, &POLICY, 0);
    assert_eq!(decided(&plan), (vec![], vec!["low-1", "low-0"]));
    ["low-0", "low-1"].iter().for_each(|name| change(&mut state, name, |facts| facts.deleting = true));
    assert_eq!(decided(&at(&mut state, &POLICY, 1)), (vec![], vec![]));
    state
}

/// The next leader, to which the members name their nominated nodes.
fn next(state: &SchedulingState) -> SchedulingState {
    taken_over(state, nominated_node)
}

#[test]
fn the_next_leader_nominates_again_evicts_nobody_and_a_rival_gets_nothing_of_the_room() {
    let before = preempting();
    let mut state = next(&before);
    let plan = at(&mut state, &POLICY, 0);
    assert_eq!((bound(&plan), plan.evictions.len(), &*plan.nominated_again), (vec![], 0, &[key("g")][..]));
    assert_eq!(nominated(&state, "g"), pairs(&[("g-0", "n1"), ("g-1", "n1")]));
    // The conditions stay as they are.
    assert_eq!(message(&state, "g"), message(&before, "g"));
    assert_eq!(
        message(&state, "g"),
        "preempting 2 pods of queue \"q\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)"
    );
    state.delete_pod(&uid("low-0"));
    assert_eq!(decided(&at(&mut state, &POLICY, 1)), (vec![], vec![]));
    state.delete_pod(&uid("low-1"));
    let plan = at(&mut state, &POLICY, 2);
    assert_eq!((bound(&plan), plan.evictions.len()), (vec![("g-0", "n1"), ("g-1", "n1")], 0));
}

#[test]
fn without_names_the_nomination_is_given_up_and_the_rival_comes_first() {
    let mut state = taken_over(&preempting(), |_| None);
    assert_eq!(at(&mut state, &POLICY, 0).nominated_again, []);
    state.delete_pod(&uid("low-0"));
    assert_eq!(bound(&at(&mut state, &POLICY, 1)), [("rival-0", "n1")]);
}

#[test]
fn a_gang_whose_victims_ended_before_the_takeover_is_bound_in_the_first_cycle() {
    let mut before = preempting();
    ["low-0", "low-1"].iter().for_each(|name| before.delete_pod(&uid(name)));
    let mut state = next(&before);
    let plan = at(&mut state, &POLICY, 0);
    assert_eq!((bound(&plan), plan.evictions.len()), (vec![("g-0", "n1"), ("g-1", "n1")], 0));
}

#[test]
fn the_time_of_the_nomination_begins_anew_and_ends() {
    let mut state = next(&preempting());
    let _first = at(&mut state, &PEACEFUL, 100);
    // The grace period is 30 s, and the margin 60 s.
    assert!(at(&mut state, &PEACEFUL, 189).binds.is_empty() && state.nominated(&key("g")).is_some());
    let _late = at(&mut state, &PEACEFUL, 190);
    assert!(state.nominated(&key("g")).is_none() && state.nominated_on("n1").is_none());
}

#[test]
fn names_are_read_in_the_first_cycle_only() {
    let mut state = taken_over(&preempting(), |_| None);
    let _first = at(&mut state, &PEACEFUL, 0);
    ["g-0", "g-1"].iter().for_each(|name| change(&mut state, name, |facts| facts.nominated_node = Some(Arc::from("n1"))));
    let plan = at(&mut state, &PEACEFUL, 1);
    assert_eq!((plan.nominated_again, state.nominated_on("n1")), (vec![], None));
    assert!(state.nominated(&key("g")).is_none());
}

#[test]
fn a_member_without_a_name_goes_where_there_is_room_for_it() {
    // The leader was killed when it had written to one member of two.
    for (name, on) in [("g-0", "n1"), ("g-1", "n1")] {
        let mut state = taken_over(&preempting(), |member| (*member.facts.name == *name).then(|| Arc::from(on)));
        let plan = at(&mut state, &POLICY, 0);
        assert_eq!((plan.nominated_again, plan.evictions), (vec![key("g")], vec![]), "{name}");
        assert_eq!(nominated(&state, "g"), pairs(&[("g-0", "n1"), ("g-1", "n1")]), "{name}");
    }
}

#[test]
fn names_that_do_not_hold_are_given_up_as_a_whole() {
    type Change = fn(&mut SchedulingState);
    let all: [(&str, Change); 9] = [
        ("no such node", |state| change(state, "g-1", |facts| facts.nominated_node = Some(Arc::from("../../n1")))),
        ("a full node without leaving pods", |state| change(state, "g-1", |facts| facts.nominated_node = Some(Arc::from("n2")))),
        ("a cordoned node", |state| state.apply_node(NodeFacts { unschedulable: true, ..node("n1", &[("cpu", 4)]) })),
        ("a smaller node", |state| state.apply_node(node("n1", &[("cpu", 3)]))),
        ("another pod in the room", |state| state.apply_pod(running(pod("ns", "late", "late", &[("cpu", 1)]), "n1"))),
        ("a larger request", |state| change(state, "g-0", |facts| facts.request = amounts(&[("cpu", 3), ("pods", 1)]))),
        ("a larger gang", |state| state.apply_group(group("ns", "g", 3, "q"))),
        ("a closed queue", |state| state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) })),
        ("a smaller queue", |state| state.apply_queue(queue("q", None, &[("cpu", 5)]))),
    ];
    for (what, change) in all {
        let mut state = next(&preempting());
        change(&mut state);
        let plan = at(&mut state, &PEACEFUL, 0);
        assert_eq!((plan.nominated_again, plan.binds), (vec![], vec![]), "{what}");
        assert!(state.nominated(&key("g")).is_none() && state.nominated_on("n1").is_none() && state.nominated_on("n2").is_none(), "{what}");
        let accounting = state.cache().accounting();
        assert!(accounting.pods().all(|(_, pod)| pod.stage != Stage::Nominated), "{what}");
        // It waits as any other, without a back-off.
        assert_eq!(state.cache().groups()[&key("g")].retry.failures, 0, "{what}");
    }
}

#[test]
fn two_podgroups_that_name_the_same_room_are_nominated_by_their_rank_as_far_as_it_goes() {
    let before = preempting();
    // The pods of the rival name the room as well.
    let mut state = taken_over(&before, |_: &Member| Some(Arc::from("n1")));
    let plan = at(&mut state, &PEACEFUL, 0);
    assert_eq!(plan.nominated_again, [key("rival")], "it is the older one");
    assert_eq!(state.nominated_on("n1"), Some(amounts(&[("cpu", 2), ("pods", 1)])));
    let mut state = taken_over(&before, |_: &Member| Some(Arc::from("n1")));
    change(&mut state, "rival-0", |facts| facts.priority = 9);
    let plan = at(&mut state, &PEACEFUL, 0);
    assert_eq!((plan.nominated_again, state.nominated_on("n1")), (vec![key("g")], Some(amounts(&[("cpu", 4), ("pods", 2)]))));
}

#[test]
fn a_name_where_there_is_room_holds_nothing_because_it_is_bound_at_once() {
    let mut state = taken_over(&preempting(), |member| (*member.facts.name == *"rival-0").then(|| Arc::from("n3")));
    state.apply_node(node("n3", &[("cpu", 3)]));
    let plan = at(&mut state, &PEACEFUL, 0);
    assert_eq!((bound(&plan), state.nominated_on("n3")), (vec![("rival-0", "n3")], None));
}

#[test]
fn a_nomination_that_waits_for_quota_alone_is_made_again_on_a_node_without_leaving_pods() {
    let mut state = empty_state();
    state.apply_queue(queue("q", None, &[("cpu", 4)]));
    for name in ["n1", "n2"] {
        state.apply_node(node(name, &[("cpu", 4)]));
    }
    for (name, min) in [("low", 1), ("rival", 1), ("g", 1)] {
        state.apply_group(group("ns", name, min, "q"));
    }
    state.apply_pod(running(pod("ns", "low-0", "low", &[("cpu", 4)]), "n1"));
    state.apply_pod(PodFacts { priority: 10, preempts: false, ..pod("ns", "rival-0", "rival", &[("cpu", 1)]) });
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(60);
    state.apply_pod(PodFacts { priority: 10, created, ..pod("ns", "g-0", "g", &[("cpu", 4)]) });
    assert_eq!(at(&mut state, &POLICY, 0).evictions.len(), 1);
    change(&mut state, "low-0", |facts| facts.deleting = true);
    let (before, said) = (nominated(&state, "g"), message(&state, "g"));
    let mut state = taken_over(&state, |member| nominated_node(member).map(|_| Arc::from("n2")));
    let plan = at(&mut state, &POLICY, 1);
    assert_eq!((plan.nominated_again, plan.evictions, plan.binds), (vec![key("g")], vec![], vec![]));
    assert_eq!((before.len(), nominated(&state, "g"), message(&state, "g")), (1, pairs(&[("g-0", "n2")]), said));
    state.delete_pod(&uid("low-0"));
    assert_eq!(bound(&at(&mut state, &POLICY, 2)), [("g-0", "n2")]);
}

#[test]
fn pods_of_other_schedulers_that_leave_make_room_as_well() {
    let mut state = preempting();
    for name in ["low-0", "low-1"] {
        state.delete_pod(&uid(name));
        let theirs = PodFacts {
            scheduler: Arc::from("another"),
            names_group: false,
            deleting: true,
            ..pod("ns", &format!("f-{name}"), "f", &[("cpu", 2)])
        };
        state.apply_pod(running(theirs, "n1"));
    }
    let mut state = taken_over(&state, |member| (*member.facts.group.name == *"g").then(|| Arc::from("n1")));
    assert_eq!(at(&mut state, &POLICY, 0).nominated_again, [key("g")]);
    assert_eq!(
        message(&state, "g"),
        "waiting for terminating pods; their places are nominated for this PodGroup (Insufficient cpu on nodes)"
    );
}

#[test]
fn further_members_of_a_podgroup_with_its_minimum_are_nominated_again() {
    let mut state = preempting();
    state.apply_node(node("n4", &[("cpu", 1)]));
    state.apply_group(group("ns", "g", 1, "q"));
    state.apply_pod(running(pod("ns", "g-9", "g", &[("cpu", 1)]), "n4"));
    let mut state = taken_over(&state, |member| (*member.facts.name == *"g-1").then(|| Arc::from("n1")));
    assert_eq!(at(&mut state, &PEACEFUL, 0).nominated_again, [key("g")]);
    assert_eq!(nominated(&state, "g"), pairs(&[("g-1", "n1")]));
}
