//! The status of queues next to another writer: Volcano's queue controller (`--queue-status=obey`), or the scheduler of another release.

use serde_json::json;

use crate::api::quantities::RawQuantity;
use crate::api::queue::QueueStatus;
use crate::api::{PodFacts, QueueFacts, Uid};
use crate::cycle::testing::{group, node, pod, queue, running};
use crate::runtime::flags::QueueStatusBy;
use crate::scheduler::command::{self, Command};
use crate::scheduler::event::{Change, Event, Report, Subject, WriteOutcome};
use crate::scheduler::kinds::{Pods, Queues};
use crate::scheduler::state::State;
use crate::scheduler::testing::{at, binds, leading, state, written};

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
        state.apply(Event::of::<Queues>(Change::Apply(team("Open"))), at(100));
        assert_eq!(binds(&state.tick(at(100))), 1, "opened again after {closed}");
    }
    for open in ["Open", "Unknown", ""] {
        assert_eq!(binds(&beside_volcano(team(open)).tick(at(0))), 1, "{open}");
    }
}

#[test]
fn a_podgroup_whose_pods_have_scheduling_gates_counts_as_inqueue_while_its_queue_is_open() {
    let pods = vec![PodFacts { gated: true, ..pod("ns", "p", "g", &[("cpu", 1)]) }];
    let groups = vec![group("ns", "g", 1, "team")];
    let mut state = leading(state(), vec![node("n", &[("cpu", 4)])], pods, groups, vec![queue("team", Some("root"), &[])]);
    let mut counts = |is_closed, millis| {
        state.apply(
            Event::of::<Queues>(Change::Apply(QueueFacts { closed_by_hand: is_closed, ..queue("team", Some("root"), &[]) })),
            at(millis),
        );
        let _cycle = state.tick(at(millis));
        let status = crate::scheduler::dialect::queue::status(&crate::cycle::queue_status::report(&state.scheduling, "team"));
        (status.inqueue, status.pending)
    };
    assert_eq!(counts(false, 0), (Some(1), None));
    assert_eq!(counts(true, 1_000), (None, Some(1)));
    assert_eq!(counts(false, 2_000), (Some(1), None));
}

#[test]
fn the_annotation_is_ignored_with_a_fault() {
    let faults = ["spec.capability.cpu", "spec"].map(|place| crate::api::Fault::new(place, "x", "why")).into();
    let facts = QueueFacts { closed_by_hand: true, faults, ..team("Open") };
    let obeying = facts.obeying();
    assert!(!obeying.closed_by_hand);
    let places: Vec<_> = obeying.faults.iter().map(|fault| &*fault.place).collect();
    assert_eq!(places, ["spec.capability.cpu", crate::api::names::QUEUE_DESIRED_STATE, "spec"]);
    assert!(obeying.faults[1].to_string().contains("--queue-status=obey"), "{:?}", obeying.faults);
    assert_eq!(team("Open").obeying().faults, vec![]);
}

#[test]
fn only_allocated_is_written_in_the_status() {
    let mut state = beside_volcano(team("Closing"));
    assert_eq!(patches(&mut state), Vec::<serde_json::Value>::new(), "state and counts belong to Volcano's controller");
    state.apply(Event::of::<Pods>(Change::Apply(running(pod("ns", "p", "g", &[("cpu", 1)]), "n"))), at(10_000));
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

/// Returns the queue `team` as another release wrote it.
fn foreign() -> QueueFacts {
    let allocated = [("cpu".to_owned(), RawQuantity::Text("7".to_owned()))].into();
    let status = QueueStatus { state: Some("Open".to_owned()), allocated: Some(allocated), ..QueueStatus::default() };
    QueueFacts { status, ..queue("team", Some("root"), &[]) }
}

/// Runs a tick at each of these seconds and returns the seconds in which `team` was written. The other release writes over each write at once.
fn contested(state: &mut State, seconds: std::ops::Range<u64>, outcome: &WriteOutcome) -> Vec<u64> {
    let mut times = Vec::new();
    for second in seconds {
        for subject in state.tick(at(second * 1000)).iter().filter_map(crate::scheduler::state::subject) {
            if matches!(&subject, Subject::Queue(name) if &**name == "team") {
                times.push(second);
                state.learn(Report::Written(subject, outcome.clone()), at(second * 1000));
                state.apply(Event::of::<Queues>(Change::Apply(foreign())), at(second * 1000 + 100));
            } else {
                state.learn(Report::Written(subject, written("2")), at(second * 1000));
            }
        }
    }
    times
}

fn contested_queue(by: QueueStatusBy) -> State {
    let mut state =
        leading(state().with_queue_status(by), vec![node("n", &[("cpu", 4)])], vec![], vec![group("ns", "g", 1, "team")], vec![foreign()]);
    let _cycle = state.tick(at(0));
    state
}

#[test]
fn two_releases_that_write_one_queue_answer_each_other_once_a_minute() {
    for by in [QueueStatusBy::Own, QueueStatusBy::Obey] {
        let mut state = contested_queue(by);
        let times = contested(&mut state, 1..300, &written("2"));
        assert_eq!(times, [1, 61, 121, 181, 241], "{by:?}");
    }
}

#[test]
fn an_own_change_of_a_contested_queue_is_written_at_once() {
    for by in [QueueStatusBy::Own, QueueStatusBy::Obey] {
        let mut state = contested_queue(by);
        assert_eq!(contested(&mut state, 1..10, &written("2")), [1], "{by:?}");
        state.apply(Event::of::<Pods>(Change::Apply(running(pod("ns", "p", "g", &[("cpu", 1)]), "n"))), at(10_000));
        let _cycle = state.tick(at(10_000));
        assert_eq!(contested(&mut state, 11..80, &written("2")), [11, 71], "{by:?}");
    }
}

#[test]
fn a_failed_write_and_a_queue_that_is_created_again_do_not_wait_for_the_minute() {
    let mut state = contested_queue(QueueStatusBy::Own);
    let failed = contested(&mut state, 1..10, &WriteOutcome::Failed("unavailable"));
    assert_eq!(failed, [1, 2, 3, 5, 9], "only the back-off delays it");
    assert_eq!(contested(&mut state, 17..30, &written("2")), [17]);
    state.apply(
        Event::of::<Queues>(Change::Apply(QueueFacts { uid: Uid::from("another"), ..queue("team", Some("root"), &[]) })),
        at(30_000),
    );
    let _cycle = state.tick(at(30_000));
    assert_eq!(contested(&mut state, 31..40, &written("2")), [31, 33], "the second write is to the queue with the first UID again");
}
