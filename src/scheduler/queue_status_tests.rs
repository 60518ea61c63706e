//! The status of queues next to Volcano's queue controller (`--queue-status=obey`).

use serde_json::json;

use super::command::{self, Command};
use super::event::{Change, Event, Report, Subject, WriteOutcome};
use super::state::State;
use super::testing::{at, binds, leading, state};
use crate::api::QueueFacts;
use crate::api::queue::QueueStatus;
use crate::cycle::testing::{group, node, pod, queue, running};
use crate::runtime::flags::QueueStatusBy;

/// Returns the queue `team` as Volcano's controller wrote it: in this state, with one pending PodGroup.
fn team(state: &str) -> QueueFacts {
    let status = QueueStatus { state: Some(state.to_owned()), pending: Some(1), ..QueueStatus::default() };
    QueueFacts { status, ..queue("team", Some("root"), &[]) }
}

fn beside_volcano(team: QueueFacts) -> State {
    let state = state().with_queue_status(QueueStatusBy::Obey);
    let (pods, groups) = (vec![pod("ns", "p", "g", &[("cpu", 1)])], vec![group("ns", "g", 1, "team")]);
    leading(state, vec![node("n", &[("cpu", 4)])], pods, groups, vec![team])
}

/// Returns the patches of the queue `team` within ten seconds.
fn patches(state: &mut State) -> Vec<serde_json::Value> {
    let mut all = Vec::new();
    for second in 1..10 {
        for command in state.tick(at(second * 1000)) {
            if let Command::Queue { name, status, gone, by } = command {
                if &*name == "team" {
                    all.push(command::queue_patch(&status, &gone, by));
                }
                state.learn(
                    Report::Written(Subject::Queue(name), WriteOutcome::Written { resource_version: "2".to_owned() }),
                    at(second * 1000),
                );
            }
        }
    }
    all
}

#[test]
fn volcanos_state_decides_whether_a_queue_admits_podgroups() {
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
fn the_annotation_is_ignored_with_a_fault() {
    let facts = QueueFacts { closed_by_hand: true, ..team("Open") };
    let obeying = facts.obeying();
    assert!(!obeying.closed_by_hand);
    assert!(obeying.faults[0].to_string().contains("--queue-status=obey"), "{:?}", obeying.faults);
    assert_eq!(team("Open").obeying().faults, vec![]);
}

#[test]
fn only_allocated_is_written_in_the_status() {
    let mut state = beside_volcano(team("Closing"));
    assert_eq!(patches(&mut state), Vec::<serde_json::Value>::new(), "state and counts belong to Volcano's controller");
    state.apply(Event::Pods(Change::Apply(running(pod("ns", "p", "g", &[("cpu", 1)]), "n"))), at(10_000));
    let mut patched = Vec::new();
    for second in 10..14 {
        for command in state.tick(at(second * 1000)) {
            if let Command::Queue { name, status, gone, by } = command {
                patched.push((name.to_string(), command::queue_patch(&status, &gone, by)));
            }
        }
    }
    let allocated = json!({ "status": { "allocated": { "cpu": "1", "pods": "1" } } });
    assert!(patched.contains(&("team".to_owned(), allocated)), "{patched:?}");
    assert!(patched.iter().all(|(_, patch)| patch.pointer("/status/state").is_none()), "{patched:?}");
}
