//! What the owner of the state decides, without a cluster, a task or a clock.

use super::*;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::pod_facts::Unsupported;
use crate::api::podgroup::PodGroupStatus;
use crate::api::{GroupFacts, GroupKey, PodFacts};
use crate::cycle::testing::{POLICY, group, node, pod, queue, running};
use crate::scheduler::event::Change;
use crate::scheduler::testing::{at, leading, reset};

fn state() -> State {
    let registry = prometheus::Registry::new();
    State::new([DEFAULT_SCHEDULER.to_owned()], POLICY, Metrics::new(&registry).unwrap())
}

/// Complete lists with `root` and `default` in them, and the lease.
fn ready(nodes: Vec<crate::api::NodeFacts>, pods: Vec<PodFacts>, groups: Vec<GroupFacts>) -> State {
    leading(state(), nodes, pods, groups, Vec::new())
}

fn binds(commands: &[Command]) -> usize {
    commands.iter().filter(|command| matches!(command, Command::Bind(_))).count()
}

fn group_status(commands: &[Command]) -> Option<&PodGroupStatus> {
    commands.iter().find_map(|command| match command {
        Command::Group { status, .. } => Some(status),
        Command::Bind(_)
        | Command::Evict { .. }
        | Command::Desist { .. }
        | Command::Queue { .. }
        | Command::QueueEvent { .. }
        | Command::MakeQueue { .. }
        | Command::Pod { .. } => None,
    })
}

fn stands(version: &str) -> Told {
    Told::Stands { resource_version: version.into() }
}

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
fn a_gang_that_waits_is_told_once_and_nothing_is_written_again_until_something_changes() {
    let pods = vec![pod("ns", "a", "g", &[("cpu", 3)]), pod("ns", "b", "g", &[("cpu", 3)])];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, vec![group("ns", "g", 2, "default")]);
    assert_eq!(binds(&state.tick(at(0))), 0);
    let commands = state.tick(at(200));
    let status = group_status(&commands).unwrap().clone();
    assert_eq!(status.phase.as_deref(), Some("Inqueue"));
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!((condition.kind.as_deref(), condition.reason.as_deref()), (Some("Unschedulable"), Some("NotEnoughResources")));
    assert!(matches!(&commands[0], Command::Group { event: Some(_), .. }));
    // An older version comes while the write is under way.
    let older = GroupFacts { resource_version: "5".into(), ..group("ns", "g", 2, "default") };
    state.apply(Event::Groups(Change::Apply(older)), at(205));
    state.learn(Report::Told(Subject::Group(GroupKey::new("ns", "g")), stands("7")), at(210));
    // The watch shows an older version first, and then our own write: both cost nothing.
    for version in ["6", "7"] {
        let stand = if version == "7" { status.clone() } else { PodGroupStatus::default() };
        let shown = GroupFacts { resource_version: version.into(), status: stand, ..group("ns", "g", 2, "default") };
        state.apply(Event::Groups(Change::Apply(shown)), at(2000));
        assert!(group_status(&state.tick(at(2000))).is_none());
        assert!(group_status(&state.tick(at(9000))).is_none());
    }
    // There is room: placed, and the condition is over.
    state.apply(Event::Nodes(Change::Apply(node("n", &[("cpu", 6)]))), at(10_000));
    assert_eq!(binds(&state.tick(at(10_000))), 2);
    for name in ["ns/a", "ns/b"] {
        assert!(group_status(&state.tick(at(10_500))).is_none(), "while binds are under way nothing is settled");
        state.learn(Report::Bound(name.into()), at(10_500));
    }
    let _merged = state.tick(at(11_000));
    let commands = state.tick(at(12_000));
    let told: Vec<_> = _merged.iter().chain(&commands).cloned().collect();
    let status = group_status(&told).unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let of = |kind: &str| status.conditions.iter().flatten().find(|condition| condition.kind.as_deref() == Some(kind)).unwrap();
    assert_eq!(of("Unschedulable").status.as_deref(), Some("False"));
    assert_eq!(of("Scheduled").status.as_deref(), Some("True"));
}

#[test]
fn a_gang_whose_members_are_still_being_made_is_not_complained_about() {
    let mut state = ready(Vec::new(), Vec::new(), vec![group("ns", "g", 2, "default")]);
    let _cycle = state.tick(at(0));
    state.apply(Event::Pods(Change::Apply(pod("ns", "a", "g", &[("cpu", 1)]))), at(100));
    let _cycle = state.tick(at(100));
    assert!(group_status(&state.tick(at(200))).is_none());
    let commands = state.tick(at(2200));
    let condition = &group_status(&commands).unwrap().conditions.as_ref().unwrap()[0];
    assert_eq!(condition.message.as_deref(), Some("the gang needs 2 members, 1 exist"));
}

#[test]
fn a_status_that_somebody_else_wrote_is_put_right_but_completed_stays() {
    let wrong = PodGroupStatus { phase: Some("Running".into()), ..PodGroupStatus::default() };
    let done = PodGroupStatus { phase: Some("Completed".into()), ..PodGroupStatus::default() };
    let groups = vec![
        GroupFacts { status: wrong, ..group("ns", "wrong", 1, "default") },
        GroupFacts { status: done, ..group("ns", "done", 1, "default") },
    ];
    let mut state = ready(Vec::new(), Vec::new(), groups);
    let _first = state.tick(at(0));
    let phases: Vec<_> =
        state.tick(at(500)).iter().filter_map(|command| group_status(std::slice::from_ref(command))?.phase.clone()).collect();
    // Nothing is made of Completed but its own condition.
    assert_eq!(phases, ["Completed", "Inqueue"]);
}

#[test]
fn a_pod_that_waits_is_told_why_after_it_has_settled_and_one_that_never_can_at_once() {
    let never = PodFacts { unsupported: vec![Unsupported::HostPort], ..pod("ns", "never", "g", &[]) };
    let mut state = ready(Vec::new(), vec![pod("ns", "orphan", "missing", &[]), never], vec![group("ns", "g", 1, "default")]);
    let _cycle = state.tick(at(0));
    let told = |commands: Vec<Command>| -> Vec<String> {
        let text = |command: Command| match command {
            Command::Pod { name, condition, .. } => {
                // What an autoscaler looks for.
                assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
                Some(format!("{name}: {}", condition.message.unwrap_or_default()))
            }
            Command::Bind(_)
            | Command::Evict { .. }
            | Command::Desist { .. }
            | Command::Group { .. }
            | Command::Queue { .. }
            | Command::QueueEvent { .. }
            | Command::MakeQueue { .. } => None,
        };
        commands.into_iter().filter_map(text).collect()
    };
    assert_eq!(told(state.tick(at(500))), ["never: this scheduler cannot honour yet: spec.containers[].ports[].hostPort"]);
    assert_eq!(told(state.tick(at(2500))), ["orphan: its PodGroup missing does not exist"]);
    assert!(told(state.tick(at(60_000))).is_empty());
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

#[test]
fn what_a_queue_uses_is_told_at_every_level_and_nothing_is_left_when_it_is_over() {
    let mut state = ready(vec![node("n", &[("cpu", 4)])], Vec::new(), Vec::new());
    let _settled = (state.tick(at(0)), state.tick(at(500)));
    for name in ["root", "default"] {
        state.learn(Report::Told(Subject::Queue(name.into()), stands("2")), at(600));
    }
    state.apply(Event::Pods(Change::Apply(running(pod("ns", "p", "g", &[("cpu", 1)]), "n"))), at(2000));
    let queues = |commands: Vec<Command>| -> Vec<(String, usize, Vec<String>)> {
        let told = |command: Command| match command {
            Command::Queue { name, status, gone, .. } => {
                Some((name.to_string(), status.allocated.map_or(0, |allocated| allocated.len()), gone))
            }
            Command::Bind(_)
            | Command::Evict { .. }
            | Command::Desist { .. }
            | Command::Group { .. }
            | Command::QueueEvent { .. }
            | Command::MakeQueue { .. }
            | Command::Pod { .. } => None,
        };
        commands.into_iter().filter_map(told).collect()
    };
    let _cycle = state.tick(at(2000));
    assert_eq!(queues(state.tick(at(3000))), [("default".to_owned(), 2, vec![]), ("root".to_owned(), 2, vec![])]);
    for name in ["root", "default"] {
        state.learn(Report::Told(Subject::Queue(name.into()), stands("3")), at(3000));
    }
    state.apply(Event::Pods(Change::Delete("ns/p".into())), at(5000));
    let _cycle = state.tick(at(5000));
    let gone = vec!["cpu".to_owned(), "pods".to_owned()];
    assert_eq!(queues(state.tick(at(6000))), [("default".to_owned(), 0, gone.clone()), ("root".to_owned(), 0, gone)]);
}

#[test]
fn a_queue_that_cannot_be_used_says_why_in_one_event_for_each_change() {
    let mut state = ready(vec![node("n", &[("cpu", 4)])], Vec::new(), Vec::new());
    let said = |commands: Vec<Command>| -> Vec<String> {
        let events = commands.into_iter().filter_map(|command| match command {
            Command::QueueEvent { name, message, .. } => Some(format!("{name}: {message}")),
            Command::Bind(_)
            | Command::Evict { .. }
            | Command::Desist { .. }
            | Command::Group { .. }
            | Command::Queue { .. }
            | Command::MakeQueue { .. }
            | Command::Pod { .. } => None,
        });
        events.collect()
    };
    let put = |state: &mut State, facts, millis| {
        state.apply(Event::Queues(Change::Apply(facts)), at(millis));
        let mut told = Vec::new();
        // The Event first, then the status; each is answered.
        for later in [0, 1000, 2000, 3000] {
            told.extend(said(state.tick(at(millis + later))));
            for name in ["bad", "root", "default"] {
                state.learn(Report::Told(Subject::Queue(name.into()), stands("2")), at(millis + later));
            }
        }
        told
    };
    let lost = queue("bad", Some("nowhere"), &[]);
    assert_eq!(put(&mut state, lost.clone(), 0), ["bad: queue bad names the parent nowhere, which does not exist"]);
    assert!(put(&mut state, crate::api::QueueFacts { priority: 1, ..lost.clone() }, 5_000).is_empty(), "the same is no news");
    assert!(put(&mut state, queue("bad", Some("root"), &[]), 10_000).is_empty());
    let fault = crate::api::Fault::new("spec.capability.cpu", "x", "not a quantity");
    let unreadable = crate::api::QueueFacts { faults: vec![fault], priority: 2, ..queue("bad", Some("root"), &[]) };
    assert_eq!(put(&mut state, unreadable, 15_000), ["bad: spec.capability.cpu \"x\": not a quantity"]);
    assert_eq!(put(&mut state, lost, 20_000).len(), 1, "after it was well it is news again");
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
    let taking = crate::cycle::plan::Taking::Preemption;
    assert!(state.world.nominate(&key, &[place], &["ns/v".into()], taking, until).is_some());
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
    assert_eq!(said, ["waits for 1 pod of queue default to go: nodes lack cpu"; 2], "on the group, and on the pod that waits");
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
    assert_eq!(told(&mut state, 2500), ["no node takes it: 1/1 nodes: lacks cpu (asked 3, most free 0)"]);
    nominate(&mut state);
    let _cycle = told(&mut state, 3000);
    assert_eq!(told(&mut state, 13_000), ["waits for 1 pod of queue default to go: nodes lack cpu"]);
}

#[test]
fn nothing_is_remembered_of_what_is_gone_or_was_only_named() {
    let mut state = ready(Vec::new(), Vec::new(), Vec::new());
    let told = |state: &mut State| {
        let commands = (1..4).flat_map(|second| state.tick(at(second * 5_000))).collect::<Vec<_>>();
        for subject in commands.iter().filter_map(subject) {
            state.learn(Report::Told(subject, stands("7")), at(16_000));
        }
        state.tick(at(16_000)).len()
    };
    let _first = told(&mut state);
    let before = state.said.remembered();
    state.apply(Event::Queues(Change::Apply(queue("short", None, &[]))), at(17_000));
    state.apply(Event::Groups(Change::Apply(group("ns", "g", 1, "no-such-queue"))), at(17_000));
    state.apply(Event::Pods(Change::Apply(pod("ns", "p", "g", &[("cpu", 1)]))), at(17_000));
    state.apply(Event::Groups(Change::Apply(group("ns", "h", 1, "short"))), at(17_000));
    let _told = (0..9).map(|second| state.tick(at(18_000 + second * 1_000)).len()).sum::<usize>();
    assert_ne!(state.said.remembered(), before);
    for name in ["g", "h"] {
        state.apply(Event::Groups(Change::Delete(GroupKey::new("ns", name))), at(30_000));
    }
    state.apply(Event::Pods(Change::Delete("ns/p".into())), at(30_000));
    state.apply(Event::Queues(Change::Delete("short".into())), at(30_000));
    for name in ["g", "h"] {
        state.learn(Report::Told(Subject::Group(GroupKey::new("ns", name)), Told::Gone), at(30_000));
    }
    state.learn(Report::Told(Subject::Queue("short".into()), Told::Gone), at(30_000));
    state.learn(Report::Told(Subject::Pod("ns/p".into()), Told::Gone), at(30_000));
    let _rest = (0..9).map(|second| state.tick(at(31_000 + second * 1_000)).len()).sum::<usize>();
    assert_eq!(state.said.remembered(), before);
}

#[test]
fn a_binding_that_nobody_answers_is_told_on_its_group_and_stays_charged_until_it_is_known() {
    let pods = vec![pod("ns", "a", "g", &[("cpu", 2)]), pod("ns", "b", "g", &[("cpu", 2)])];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, vec![group("ns", "g", 2, "default")]);
    assert_eq!(binds(&state.tick(at(0))), 2);
    state.learn(Report::Bound("ns/a".into()), at(100));
    assert!(group_status(&[state.tick(at(100)), state.tick(at(10_000))].concat()).is_none(), "a bind is under way");
    state.learn(Report::Unanswered("ns/b".into(), "timeout"), at(15_000));
    let told = [state.tick(at(15_000)), state.tick(at(16_000))].concat();
    let status = group_status(&told).unwrap();
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!((status.phase.as_deref(), condition.kind.as_deref()), (Some("Inqueue"), Some("Unschedulable")));
    let message = "nobody says whether 1 of its members are bound (timeout); their places are kept";
    assert_eq!(condition.message.as_deref(), Some(message));
    // Tools that know Volcano wait for this reason; the condition has the exact one.
    assert!(told.iter().any(
        |command| matches!(command, Command::Group { event: Some((reason, said)), .. } if reason == "Unschedulable" && said == message)
    ));
    assert_eq!((condition.reason.as_deref(), binds(&told)), (Some("NotEnoughResources"), 0));
    assert_eq!(state.world.books().quota().used("default").get("cpu"), crate::resources::Amount::from_units(4));
    state.learn(Report::Told(Subject::Group(GroupKey::new("ns", "g")), stands("7")), at(16_100));
    state.learn(Report::Bound("ns/b".into()), at(30_000));
    let told = [state.tick(at(30_000)), state.tick(at(32_000))].concat();
    assert_eq!(group_status(&told).unwrap().phase.as_deref(), Some("Running"));
}

#[test]
fn a_gang_whose_members_are_leaving_runs_until_they_are_gone() {
    for count in [1, 2] {
        let names: Vec<String> = (0..count).map(|index| format!("p{index}")).collect();
        let there = |name: &String| running(pod("ns", name, "g", &[("cpu", 1)]), "n");
        let mut state = ready(vec![node("n", &[("cpu", 4)])], names.iter().map(there).collect(), vec![group("ns", "g", count, "default")]);
        let told = [state.tick(at(0)), state.tick(at(3000))].concat();
        assert_eq!(group_status(&told).unwrap().phase.as_deref(), Some("Running"));
        state.learn(Report::Told(Subject::Group(GroupKey::new("ns", "g")), stands("7")), at(3100));
        state.apply(Event::Pods(Change::Apply(PodFacts { deleting: true, ..there(&names[0]) })), at(10_000));
        let told = [state.tick(at(10_000)), state.tick(at(13_000))].concat();
        let status = group_status(&told).unwrap();
        assert_eq!(status.phase.as_deref(), Some("Running"), "{count}");
        assert!(status.conditions.iter().flatten().all(|condition| condition.kind.as_deref() != Some("Unschedulable")), "{status:?}");
        assert!(told.iter().all(|command| !matches!(command, Command::Group { event: Some(_), .. })), "{told:?}");
        state.learn(Report::Told(Subject::Group(GroupKey::new("ns", "g")), stands("8")), at(13_100));
        state.apply(Event::Pods(Change::Delete(format!("ns/{}", names[0]).as_str().into())), at(20_000));
        let told = [state.tick(at(20_000)), state.tick(at(23_000))].concat();
        assert_ne!(group_status(&told).unwrap().phase.as_deref(), Some("Running"), "{count}");
    }
}
