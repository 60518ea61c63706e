//! What does the scheduler write of a queue beside Volcano's queue controller (`--queue-status=obey`), and what does it obey?

use serde_json::json;

use super::command::{self, Command};
use super::event::{Change, Event, Report, Subject, Told};
use super::state::State;
use super::testing::{at, binds, leading, state};
use crate::api::QueueFacts;
use crate::api::queue::QueueStatus;
use crate::cycle::testing::{group, node, pod, queue, running};
use crate::runtime::flags::QueueStatusBy;

/// The queue `team` as Volcano's controller left it: in this state, with one group that waits.
fn team(state: &str) -> QueueFacts {
    let status = QueueStatus { state: Some(state.to_owned()), pending: Some(1), ..QueueStatus::default() };
    QueueFacts { status, ..queue("team", Some("root"), &[]) }
}

fn beside_volcano(team: QueueFacts) -> State {
    let state = state().with_queue_status(QueueStatusBy::Obey);
    let (pods, groups) = (vec![pod("ns", "p", "g", &[("cpu", 1)])], vec![group("ns", "g", 1, "team")]);
    leading(state, vec![node("n", &[("cpu", 4)])], pods, groups, vec![team])
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
        let mut state = beside_volcano(team(closed));
        assert_eq!(binds(&state.tick(at(0))), 0, "{closed}");
        state.apply(Event::Queues(Change::Apply(team("Open"))), at(100));
        assert_eq!(binds(&state.tick(at(100))), 1, "opened again after {closed}");
    }
    for open in ["Open", "Unknown", ""] {
        assert_eq!(binds(&beside_volcano(team(open)).tick(at(0))), 1, "{open}");
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
    let mut state = beside_volcano(team("Closing"));
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
