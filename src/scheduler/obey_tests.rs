//! What does the scheduler write of a queue beside Volcano's queue controller (`--queue-status=obey`), and what does it obey?

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::command::{self, Command};
use super::event::{Change, Event, Report, Subject, Told};
use super::metrics::Metrics;
use super::state::{Now, State};
use crate::api::QueueFacts;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::queue::QueueStatus;
use crate::cycle::testing::{POLICY, group, node, pod, queue, running};
use crate::runtime::flags::QueueStatusBy;

fn at(millis: u64) -> Now {
    Now { wall: Timestamp::UNIX_EPOCH, since_start: Duration::from_millis(millis) }
}

fn reset<T, K>(all: Vec<T>) -> Change<T, K> {
    Change::Reset { all, unreadable: Vec::new() }
}

/// The queue `team` as Volcano's controller left it: in this state, with one group that waits.
fn team(state: &str) -> QueueFacts {
    let status = QueueStatus { state: Some(state.to_owned()), pending: Some(1), ..QueueStatus::default() };
    QueueFacts { status, ..queue("team", Some("root"), &[]) }
}

fn leading(team: QueueFacts) -> State {
    let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
    let mut state = State::new([DEFAULT_SCHEDULER.to_owned()], POLICY, metrics).with_queue_status(QueueStatusBy::Obey);
    state.apply(Event::Nodes(reset(vec![node("n", &[("cpu", 4)])])), at(0));
    state.apply(Event::Pods(reset(vec![pod("ns", "p", "g", &[("cpu", 1)])])), at(0));
    state.apply(Event::Groups(reset(vec![group("ns", "g", 1, "team")])), at(0));
    state.apply(Event::Queues(reset(vec![queue("root", None, &[]), queue("default", Some("root"), &[]), team])), at(0));
    state.apply(Event::PriorityClasses(reset(Vec::new())), at(0));
    state.apply(Event::Budgets(reset(Vec::new())), at(0));
    state.lead(at(0));
    state
}

fn binds(commands: &[Command]) -> usize {
    commands.iter().filter(|command| matches!(command, Command::Bind(_))).count()
}

/// The patches of the queue `team` that are due within ten seconds.
fn patches(state: &mut State) -> Vec<serde_json::Value> {
    let mut all = Vec::new();
    for second in 1..10 {
        for command in state.tick(at(second * 1000)) {
            if let Command::Queue { name, status, gone, by } = command {
                if &*name == "team" {
                    all.push(command::queue_patch(&status, &gone, by));
                }
                state.learn(Report::Told(Subject::Queue(name), Told::Stands { resource_version: "2".to_owned() }), at(second * 1000));
            }
        }
    }
    all
}

#[test]
fn a_queue_takes_groups_while_the_other_says_so() {
    for closed in ["Closed", "Closing"] {
        let mut state = leading(team(closed));
        assert_eq!(binds(&state.tick(at(0))), 0, "{closed}");
        state.apply(Event::Queues(Change::Apply(team("Open"))), at(100));
        assert_eq!(binds(&state.tick(at(100))), 1, "opened again after {closed}");
    }
    for open in ["Open", "Unknown", ""] {
        assert_eq!(binds(&leading(team(open)).tick(at(0))), 1, "{open}");
    }
}

#[test]
fn the_annotation_is_not_read_and_that_is_said() {
    let facts = QueueFacts { closed_by_hand: true, ..team("Open") };
    let obeying = facts.obeying();
    assert!(!obeying.closed_by_hand);
    assert!(obeying.faults[0].to_string().contains("--queue-status=obey"), "{:?}", obeying.faults);
    assert_eq!(team("Open").obeying().faults, vec![]);
}

#[test]
fn of_the_status_only_what_is_allocated_is_written() {
    let mut state = leading(team("Closing"));
    assert_eq!(patches(&mut state), Vec::<serde_json::Value>::new(), "state and counts are the other's");
    state.apply(Event::Pods(Change::Apply(running(pod("ns", "p", "g", &[("cpu", 1)]), "n"))), at(10_000));
    let mut told = Vec::new();
    for second in 10..14 {
        for command in state.tick(at(second * 1000)) {
            if let Command::Queue { name, status, gone, by } = command {
                told.push((name.to_string(), command::queue_patch(&status, &gone, by)));
            }
        }
    }
    let allocated = json!({ "status": { "allocated": { "cpu": "1", "pods": "1" } } });
    assert!(told.contains(&("team".to_owned(), allocated)), "{told:?}");
    assert!(told.iter().all(|(_, patch)| patch.pointer("/status/state").is_none()), "{told:?}");
}
