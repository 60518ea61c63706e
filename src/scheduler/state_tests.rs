//! What does the owner of the state decide, without a cluster, a task or a clock, and what becomes of places that it keeps until others are gone?

use super::*;
use crate::api::GroupKey;
use crate::cycle::testing::{group, node, pod, running};
use crate::scheduler::event::Change;
use crate::scheduler::testing::{at, binds, group_status, ready, reset, stands, state};

#[test]
fn nothing_is_decided_before_all_lists_are_complete_and_the_lease_is_ours() {
    let mut state = state();
    state.lead(at(0));
    state.apply(Event::Nodes(reset(vec![node("n", &[("cpu", 4)])])), at(0));
    state.apply(Event::Groups(reset(vec![group("ns", "g", 1, "default")])), at(0));
    state.apply(Event::Queues(reset(Vec::new())), at(0));
    state.apply(Event::Pods(Change::Apply(pod("ns", "p", "g", &[("cpu", 1)]))), at(0));
    state.apply(Event::PriorityClasses(reset(Vec::new())), at(0));
    state.apply(Event::Budgets(reset(Vec::new())), at(0));
    assert!(state.tick(at(1000)).is_empty());
    assert_eq!(state.next(), None);
    state.apply(Event::Pods(reset(vec![pod("ns", "p", "g", &[("cpu", 1)])])), at(1000));
    state.leading = false;
    assert!(state.tick(at(2000)).is_empty());
    state.lead(at(3000));
    assert_eq!(binds(&state.tick(at(3000))), 1);
}

#[test]
fn the_queues_root_and_default_are_made_where_they_are_missing() {
    let mut state = ready(Vec::new(), Vec::new(), Vec::new());
    state.apply(Event::Queues(reset(Vec::new())), at(1000));
    let made: Vec<_> = state.tick(at(2000)).into_iter().filter(|command| matches!(command, Command::MakeQueue { .. })).collect();
    assert_eq!(made.len(), 2);
}

#[test]
fn what_a_new_list_does_not_show_is_gone_unless_it_could_not_be_read() {
    let pods = ["a", "b", "c"].map(|name| running(pod("ns", name, "g", &[("cpu", 1)]), "n"));
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods.to_vec(), vec![group("ns", "g", 1, "default")]);
    state.apply(Event::Pods(Change::Reset { all: vec![pods[0].clone()], unreadable: vec![pods[1].uid.clone()] }), at(0));
    state.apply(Event::Pods(Change::Unreadable(pods[1].uid.clone())), at(0));
    assert_eq!((state.world.books().pods().count(), state.metrics.unreadable.get()), (2, 2));
    assert!(state.world.books().audit().is_clean());
}

/// A node of 4 cpus full of `v`, for which `g` waits: the places of `g` are kept for it as if a cycle had found out.
fn nominated() -> State {
    let pods = vec![running(pod("ns", "v", "v", &[("cpu", 4)]), "n"), pod("ns", "a", "g", &[("cpu", 3)])];
    let groups = vec![group("ns", "g", 1, "default"), group("ns", "v", 1, "default")];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, groups);
    let _cycle = state.tick(at(0));
    nominate(&mut state);
    state
}

fn nominate(state: &mut State) {
    let resources = state.world.pods()[&Uid::from("ns/a")].facts.request.clone();
    let place = crate::accounting::Placement { uid: "ns/a".into(), node: "n".into(), queue: "default".into(), resources };
    let (key, until) = (GroupKey::new("ns", "g"), Duration::from_secs(90));
    let cause = crate::cycle::plan::EvictionCause::Preemption;
    assert!(state.world.nominate(&key, &[place], &["ns/v".into()], cause, until).is_some());
}

fn taken() -> crate::scheduler::event::Taken {
    crate::scheduler::event::Taken { group: GroupKey::new("ns", "g"), nomination: 1, evicted: 2, gone: 1, stays: None }
}

#[test]
fn what_is_kept_for_a_gang_overcommits_no_node_and_is_shown_by_itself() {
    let mut state = nominated();
    let _cycle = state.tick(at(100));
    assert_eq!(state.metrics.overcommitted_nodes.get(), 0);
    let ledger = crate::scheduler::debug::answer(&state, crate::scheduler::event::Question::Ledger);
    let shown = &ledger["nodes"][0];
    assert_eq!((&shown["used"]["cpu"], &shown["nominated"]["cpu"]), (&"4".into(), &"3".into()));
    assert_eq!((shown["overcommitted"].as_object().unwrap().len(), &shown["pods"]), (0, &1.into()));
    // The same in the queue and above it, wherever it is said: in its status, in the metric, and here.
    let queues = crate::scheduler::debug::answer(&state, crate::scheduler::event::Question::Queues);
    for name in ["default", "root"] {
        let shown = queues["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).unwrap();
        assert_eq!((&shown["used"]["cpu"], &shown["nominated"]["cpu"]), (&"4".into(), &"3".into()), "{name}");
        let status = crate::cycle::queue_status::status(&state.world, name).allocated.unwrap();
        assert_eq!(status["cpu"], crate::api::quantities::RawQuantity::Text("4".into()), "{name}");
        let frozen = frozen::freeze(&state);
        let amount = |of| frozen.amounts[&(of, name.to_owned(), "cpu".to_owned())];
        assert_eq!(amount(frozen::Of::Allocated), crate::resources::Amount::from_units(4), "{name}");
    }
    let told = [state.tick(at(300)), state.tick(at(2500))].concat();
    assert_eq!(group_status(&told).unwrap().phase.as_deref(), Some("Inqueue"));
    let message = |command: &Command| match command {
        Command::Group { event: Some((_, message)), .. } => Some(message.clone()),
        Command::Pod { condition, .. } => condition.message.clone(),
        Command::Bind(_)
        | Command::Evict { .. }
        | Command::Desist { .. }
        | Command::Group { .. }
        | Command::Queue { .. }
        | Command::QueueEvent { .. }
        | Command::MakeQueue { .. } => None,
    };
    let said: Vec<_> = told.iter().filter_map(message).collect();
    assert_eq!(
        said,
        ["WaitingForPreemption: preempting 1 pod of queue \"default\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)";
            2],
        "on the group, and on the pod that waits"
    );
    // A pod that is there and too big is another matter.
    state.apply(Event::Pods(Change::Apply(running(pod("ns", "w", "v", &[("cpu", 1)]), "n"))), at(400));
    let _cycle = state.tick(at(400));
    assert_eq!(state.metrics.overcommitted_nodes.get(), 1);
}

#[test]
fn a_refused_eviction_ends_the_nomination_and_one_that_was_sent_waits_for_the_pods() {
    let mut state = nominated();
    let _cycle = state.tick(at(100));
    assert_eq!(state.next().map(|at| at > Duration::from_millis(100)), Some(true));
    state.learn(Report::Evicted(taken()), at(200));
    let key = GroupKey::new("ns", "g");
    assert!(state.world.nominated(&key).is_some());
    state.learn(Report::NotEvicted(taken(), "disruption_budget"), at(300));
    assert!(state.world.nominated(&key).is_none());
    let commands = state.tick(at(300));
    assert!(commands.contains(&Command::Desist { nomination: 1 }));
    assert_eq!((state.metrics.evictions("evicted"), state.metrics.evictions("gone")), (4, 2));
    assert_eq!(state.metrics.evictions("disruption_budget"), 1);
    assert!(state.tick(at(301)).iter().all(|command| !matches!(command, Command::Desist { .. })), "it is told once");
}

#[test]
fn the_wait_for_victims_wakes_the_loop_when_its_time_is_over() {
    let mut state = nominated();
    let _cycle = state.tick(at(100));
    for millis in [300, 2500, 12_500] {
        for command in state.tick(at(millis)) {
            if let Some(subject) = subject(&command) {
                state.learn(Report::Told(subject, stands("2")), at(millis));
            }
        }
    }
    assert_eq!(state.next(), Some(Duration::from_secs(90)));
    assert!(state.has_work(at(90_000)) && !state.has_work(at(89_999)));
}

#[test]
fn a_pod_that_was_told_why_it_waits_is_told_when_others_leave_for_it() {
    let pods = vec![running(pod("ns", "v", "v", &[("cpu", 4)]), "n"), pod("ns", "a", "g", &[("cpu", 3)])];
    let groups = vec![group("ns", "g", 1, "default"), group("ns", "v", 1, "default")];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, groups);
    let told = |state: &mut State, millis: u64| -> Vec<String> {
        let mut messages = Vec::new();
        for command in state.tick(at(millis)) {
            if let Some(subject) = subject(&command) {
                state.learn(Report::Told(subject, stands("2")), at(millis));
            }
            if let Command::Pod { condition, .. } = command {
                messages.extend(condition.message);
            }
        }
        messages
    };
    let _cycle = told(&mut state, 0);
    assert_eq!(told(&mut state, 2500), ["InsufficientResources: 0/1 nodes are available: 1 Insufficient cpu (requested 3, most free 0)"]);
    nominate(&mut state);
    let _cycle = told(&mut state, 3000);
    assert_eq!(
        told(&mut state, 13_000),
        [
            "WaitingForPreemption: preempting 1 pod of queue \"default\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)"
        ]
    );
}
