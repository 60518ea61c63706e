//! The statuses, conditions and Events of PodGroups, pods and queues, and when they are written.

use crate::api::pod_facts::PodPhase;
use crate::api::podgroup::PodGroupStatus;
use crate::api::unsupported::Unsupported;
use crate::api::{Fault, GroupFacts, GroupKey, PodFacts, QueueFacts, Uid};
use crate::cycle::testing::{group, node, pod, queue, running};
use crate::resources::Amount;
use crate::scheduler::command::Command;
use crate::scheduler::event::{Change, Event, Report, Subject, WriteOutcome};
use crate::scheduler::kinds::{Groups, Nodes, Pods, Queues};
use crate::scheduler::state::{Now, State, subject};
use crate::scheduler::testing::{at, binds, group_status, ready, written};

/// Runs a tick, and answers the writes that are not to PodGroups.
fn answered(state: &mut State, millis: u64) -> Vec<Command> {
    let commands = state.tick(at(millis));
    for subject in commands.iter().filter_map(subject).filter(|subject| !matches!(subject, Subject::Group(_))) {
        state.learn(Report::Written(subject, written("2")), at(millis));
    }
    commands
}

#[test]
fn unknown_fields_of_a_podgroup_are_told_once_beside_why_it_waits() {
    let unknown = Some(Fault::new("spec", "minMembers", "no such field"));
    let misspelt = GroupFacts { unknown, ..group("ns", "g", 1, "default") };
    let mut state = ready(vec![node("n", &[("cpu", 1)])], vec![pod("ns", "a", "g", &[("cpu", 3)])], vec![misspelt.clone()]);
    let told = |commands: Vec<Command>| {
        let events =
            commands.into_iter().filter_map(|command| if let Command::Group { events, .. } = command { Some(events) } else { None });
        events.flatten().map(|(reason, _)| reason).collect::<Vec<_>>()
    };
    answered(&mut state, 0);
    let first = answered(&mut state, 200);
    let status = group_status(&first).unwrap().clone();
    assert_eq!(told(first), ["UnknownField", "Unschedulable"]);
    state.learn(Report::Written(Subject::Group(GroupKey::new("ns", "g")), written("7")), at(210));
    state.apply(Event::of::<Groups>(Change::Apply(GroupFacts { status, resource_version: "7".into(), ..misspelt })), at(220));
    state.apply(Event::of::<Nodes>(Change::Apply(node("m", &[("cpu", 4)]))), at(5000));
    let mut writes = answered(&mut state, 5000);
    state.learn(Report::Bound("ns/a".into()), at(5100));
    writes.extend((0..20).flat_map(|turn| answered(&mut state, 5200 + turn * 200)));
    assert!(binds(&writes) == 1 && group_status(&writes).is_some());
    assert_eq!(told(writes), [""; 0]);
}

#[test]
fn another_message_does_not_move_the_time_of_a_condition() {
    let mut state = ready(vec![node("n", &[("cpu", 1)])], vec![pod("ns", "a", "g", &[("cpu", 3)])], vec![group("ns", "g", 1, "default")]);
    // Ticks until a status with the condition Unschedulable is written, and returns the condition.
    let mut condition_at = |change: Option<Event>, second: u64| {
        if let Some(change) = change {
            state.apply(change, at(second * 1000));
        }
        let wall = k8s_openapi::jiff::Timestamp::from_second(second.cast_signed()).unwrap();
        let condition = (0..50).find_map(|turn| {
            let now = Now { wall, ..at(second * 1000 + turn * 100) };
            let commands = state.tick(now);
            let (status, version) = (group_status(&commands)?.clone(), (second * 1000 + turn).to_string());
            state.learn(Report::Written(Subject::Group(GroupKey::new("ns", "g")), written(&version)), now);
            let seen = GroupFacts { status: status.clone(), resource_version: version, ..group("ns", "g", 1, "default") };
            state.apply(Event::of::<Groups>(Change::Apply(seen)), now);
            status.conditions?.into_iter().find(|each| each.kind.as_deref() == Some("Unschedulable"))
        });
        let condition = condition.unwrap_or_else(|| panic!("no condition in the seconds from {second} on"));
        (condition.status.unwrap(), condition.message.unwrap_or_default(), condition.last_transition_time.unwrap())
    };
    let few = condition_at(None, 1);
    let none = condition_at(Some(Event::of::<Nodes>(Change::Delete("n".into()))), 10);
    assert_eq!([&*few.0, &*none.0], ["True", "True"]);
    assert_ne!(few.1, none.1, "another message");
    assert_eq!([&*few.2, &*none.2], ["1970-01-01T00:00:01Z"; 2]);
}

#[test]
fn the_status_of_a_waiting_gang_is_written_once_until_it_changes() {
    let pods = vec![pod("ns", "a", "g", &[("cpu", 3)]), pod("ns", "b", "g", &[("cpu", 3)])];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, vec![group("ns", "g", 2, "default")]);
    assert_eq!(binds(&answered(&mut state, 0)), 0);
    let commands = answered(&mut state, 200);
    let status = group_status(&commands).unwrap().clone();
    assert_eq!(status.phase.as_deref(), Some("Inqueue"));
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!((condition.kind.as_deref(), condition.reason.as_deref()), (Some("Unschedulable"), Some("NotEnoughResources")));
    assert!(matches!(&commands[0], Command::Group { events, .. } if events.len() == 1));
    // An older version comes while the write is under way.
    let older = GroupFacts { resource_version: "5".into(), ..group("ns", "g", 2, "default") };
    state.apply(Event::of::<Groups>(Change::Apply(older)), at(205));
    state.learn(Report::Written(Subject::Group(GroupKey::new("ns", "g")), written("7")), at(210));
    // The watch shows an older version first, and then our own write. Neither causes a write.
    for version in ["6", "7"] {
        let stand = if version == "7" { status.clone() } else { PodGroupStatus::default() };
        let shown = GroupFacts { resource_version: version.into(), status: stand, ..group("ns", "g", 2, "default") };
        state.apply(Event::of::<Groups>(Change::Apply(shown)), at(2000));
        assert!(group_status(&answered(&mut state, 2000)).is_none());
        assert!(group_status(&answered(&mut state, 9000)).is_none());
    }
    // The gang is placed, and the condition becomes False.
    state.apply(Event::of::<Nodes>(Change::Apply(node("n", &[("cpu", 6)]))), at(10_000));
    assert_eq!(binds(&answered(&mut state, 10_000)), 2);
    for name in ["ns/a", "ns/b"] {
        assert!(group_status(&answered(&mut state, 10_500)).is_none(), "no status is written while binds are under way");
        state.learn(Report::Bound(name.into()), at(10_500));
    }
    let _merged = answered(&mut state, 11_000);
    let commands = answered(&mut state, 12_000);
    let writes: Vec<_> = _merged.iter().chain(&commands).cloned().collect();
    let status = group_status(&writes).unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let of = |kind: &str| status.conditions.iter().flatten().find(|condition| condition.kind.as_deref() == Some(kind)).unwrap();
    assert_eq!(of("Unschedulable").status.as_deref(), Some("False"));
    assert_eq!(of("Scheduled").status.as_deref(), Some("True"));
}

/// Runs ticks, in which the watch shows each written status of the PodGroup; returns these statuses.
fn settle(state: &mut State, from: u64, until: u64) -> Vec<PodGroupStatus> {
    let mut writes = Vec::new();
    for millis in (from..until).step_by(250) {
        let Some(status) = group_status(&answered(state, millis)).cloned() else { continue };
        let version = (100 + millis).to_string();
        state.learn(Report::Written(Subject::Group(GroupKey::new("ns", "g")), written(&version)), at(millis));
        let shown = GroupFacts { resource_version: version.as_str().into(), status: status.clone(), ..group("ns", "g", 2, "default") };
        state.apply(Event::of::<Groups>(Change::Apply(shown)), at(millis));
        writes.push(status);
    }
    writes
}

#[test]
fn a_podgroup_that_waited_and_lost_its_pods_waits_for_pods_and_one_write_says_so() {
    let of = |writes: &[PodGroupStatus]| {
        let conditions = writes.last().unwrap().conditions.clone().unwrap();
        let texts = conditions.iter().map(|condition| [&condition.kind, &condition.status, &condition.reason, &condition.message]);
        (writes.len(), texts.map(|texts| texts.map(|text| text.clone().unwrap_or_default()).join(" | ")).collect::<Vec<_>>())
    };
    let pods = ["a", "b"].map(|name| pod("ns", name, "g", &[("cpu", 3)]));
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods.into(), vec![group("ns", "g", 2, "default")]);
    let (writes, texts) = of(&settle(&mut state, 0, 5_000));
    assert!(writes == 1 && texts[0].starts_with("Unschedulable | True | NotEnoughResources | "), "{texts:?}");
    for name in ["ns/a", "ns/b"] {
        state.apply(Event::of::<Pods>(Change::Delete(Uid::from(name))), at(5_000));
    }
    let wanted = [
        "Unschedulable | True | NotEnoughTasks | NotEnoughPods: the gang needs 2 members, 0 exist",
        "podgroup.dev/Waiting | True | NotEnoughPods | ",
    ];
    assert_eq!(of(&settle(&mut state, 5_000, 6_500)), (1, wanted.map(str::to_owned).to_vec()));
    assert_eq!(settle(&mut state, 6_500, 25_000), []);
    // New pods wait for nodes again.
    for name in ["c", "d"] {
        state.apply(Event::of::<Pods>(Change::Apply(pod("ns", name, "g", &[("cpu", 3)]))), at(25_000));
    }
    let (_, texts) = of(&settle(&mut state, 25_000, 29_000));
    assert!(texts[0].starts_with("Unschedulable | True | NotEnoughResources | "), "{texts:?}");
}

/// A suspended JobSet deletes its pods, and its PodGroup remains.
#[test]
fn a_podgroup_without_pods_is_not_scheduled_any_more_and_one_write_says_so() {
    let of = |writes: &[PodGroupStatus]| {
        let last = writes.last().unwrap().clone();
        let mut found = last.conditions.into_iter().flatten().filter(|condition| condition.kind.as_deref() == Some("Scheduled"));
        (writes.len(), last.phase.unwrap(), found.next().map(|condition| (condition.status.unwrap(), condition.reason.unwrap())))
    };
    let condition = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    let pods: Vec<_> = ["a", "b"].map(|name| running(pod("ns", name, "g", &[]), "n")).into();
    let mut state = ready(vec![node("n", &[])], pods, vec![group("ns", "g", 2, "default")]);
    assert_eq!(of(&settle(&mut state, 0, 5_000)), (1, "Running".to_owned(), condition("True", "Scheduled")));
    for name in ["ns/a", "ns/b"] {
        state.apply(Event::of::<Pods>(Change::Delete(Uid::from(name))), at(5_000));
    }
    assert_eq!(of(&settle(&mut state, 5_000, 6_500)), (1, "Pending".to_owned(), condition("False", "NotEnoughTasks")));
    assert_eq!(settle(&mut state, 6_500, 45_000), []);
    // A PodGroup that never had its nodes says nothing about that.
    let mut state = ready(vec![node("n", &[])], Vec::new(), vec![group("ns", "g", 2, "default")]);
    assert_eq!(of(&settle(&mut state, 0, 45_000)), (1, "Inqueue".to_owned(), None));
}

#[test]
fn missing_members_are_not_reported_while_they_are_being_created() {
    let mut state = ready(Vec::new(), Vec::new(), vec![group("ns", "g", 2, "default")]);
    let _cycle = state.tick(at(0));
    state.apply(Event::of::<Pods>(Change::Apply(pod("ns", "a", "g", &[("cpu", 1)]))), at(100));
    let _cycle = state.tick(at(100));
    assert!(group_status(&state.tick(at(200))).is_none());
    let commands = state.tick(at(2200));
    let condition = &group_status(&commands).unwrap().conditions.as_ref().unwrap()[0];
    assert_eq!(condition.message.as_deref(), Some("NotEnoughPods: the gang needs 2 members, 1 exist"));
}

#[test]
fn a_status_of_another_writer_is_corrected_but_completed_stays() {
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
    // The phase Completed stays, because no new member came.
    assert_eq!(phases, ["Completed", "Inqueue"]);
}

/// The case of a Job with a TTL shorter than the interval between two writes.
#[test]
fn l10_a_podgroup_is_completed_even_if_its_members_are_deleted_before_the_status_is_written() {
    let runs = |name: &str| running(pod("ns", name, "g", &[]), "n");
    for (again, another, wanted) in [(false, false, "Completed"), (false, true, "Pending"), (true, false, "Inqueue")] {
        let mut state = ready(vec![node("n", &[])], vec![runs("a"), runs("b")], vec![group("ns", "g", 2, "default")]);
        let phase = |millis, state: &mut State| {
            let commands: Vec<_> = [millis, millis + 150].into_iter().flat_map(|millis| state.tick(at(millis))).collect();
            group_status(&commands).and_then(|status| status.phase.clone())
        };
        assert_eq!(phase(2_000, &mut state).as_deref(), Some("Running"));
        let subject = Subject::Group(GroupKey::new("ns", "g"));
        state.learn(Report::Written(subject, written("2")), at(2_200));
        for name in ["a", "b"] {
            state.apply(Event::of::<Pods>(Change::Apply(PodFacts { phase: PodPhase::Succeeded, ..runs(name) })), at(2_300));
        }
        let _cycle = state.tick(at(2_350));
        for name in ["a", "b"] {
            state.apply(Event::of::<Pods>(Change::Delete(Uid::from(format!("ns/{name}").as_str()))), at(2_400));
        }
        if another {
            state.apply(Event::of::<Pods>(Change::Apply(pod("ns", "c", "g", &[]))), at(2_410));
            state.apply(Event::of::<Pods>(Change::Delete(Uid::from("ns/c"))), at(2_420));
        }
        if again {
            state.apply(
                Event::of::<Groups>(Change::Apply(GroupFacts { uid: Uid::from("another"), ..group("ns", "g", 2, "default") })),
                at(2_500),
            );
        }
        assert_eq!(phase(4_000, &mut state).as_deref(), Some(wanted), "made again: {again}, another came: {another}");
    }
}

/// A Job replaces a failed pod after a back-off: its PodGroup may have the phase Completed by then.
#[test]
fn a_completed_podgroup_with_a_new_member_is_served_and_runs_again() {
    let done = PodGroupStatus { phase: Some("Completed".into()), ..PodGroupStatus::default() };
    let ended = PodFacts { phase: PodPhase::Succeeded, ..running(pod("ns", "a", "g", &[]), "n") };
    for pods in [vec![ended], Vec::new()] {
        let groups = vec![GroupFacts { status: done.clone(), ..group("ns", "g", 1, "default") }];
        let mut state = ready(vec![node("n", &[("cpu", 1)])], pods, groups);
        assert_eq!(binds(&state.tick(at(0))), 0);
        state.apply(Event::of::<Pods>(Change::Apply(pod("ns", "b", "g", &[("cpu", 1)]))), at(100));
        assert_eq!(binds(&state.tick(at(100))), 1);
        state.apply(Event::of::<Pods>(Change::Apply(running(pod("ns", "b", "g", &[("cpu", 1)]), "n"))), at(200));
        let commands: Vec<_> = [200, 1_500, 2_500].into_iter().flat_map(|millis| state.tick(at(millis))).collect();
        assert_eq!(group_status(&commands).and_then(|status| status.phase.as_deref()), Some("Running"));
    }
}

#[test]
fn a_waiting_pod_gets_its_condition_after_a_delay_and_an_unsupported_pod_at_once() {
    let never = PodFacts { unsupported: vec![Unsupported::Volume], ..pod("ns", "never", "g", &[]) };
    let mut state = ready(Vec::new(), vec![pod("ns", "orphan", "missing", &[]), never], vec![group("ns", "g", 1, "default")]);
    let _cycle = state.tick(at(0));
    let writes = |commands: Vec<Command>| -> Vec<String> {
        let text = |command: Command| {
            let Command::Pod { name, condition, .. } = command else { return None };
            // The reason is the code, which is also the first word of the message. An autoscaler must not act on it.
            let (reason, message) = (condition.reason.unwrap_or_default(), condition.message.unwrap_or_default());
            assert!(message.starts_with(&format!("{reason}: ")), "{reason}, {message}");
            Some(format!("{name}: {message}"))
        };
        commands.into_iter().filter_map(text).collect()
    };
    assert_eq!(
        writes(state.tick(at(500))),
        [
            "never: UnsupportedField: this scheduler cannot honour yet: an attached volume without a claim (awsElasticBlockStore, azureDisk, azureFile, cinder, gcePersistentDisk, iscsi, portworxVolume, rbd, vsphereVolume)"
        ]
    );
    assert_eq!(writes(state.tick(at(2500))), ["orphan: PodGroupNotFound: PodGroup \"missing\" does not exist"]);
    assert!(writes(state.tick(at(60_000))).is_empty());
}

/// Cluster Autoscaler and Karpenter add nodes for pods with the reason `Unschedulable`, and a gang needs nodes for all its members.
#[test]
fn all_members_that_wait_for_nodes_are_unschedulable_and_none_of_a_gang_that_waits_for_quota() {
    let mut pods: Vec<_> = [("a", 1), ("b", 1), ("c", 9)].map(|(name, cpu)| pod("ns", name, "g", &[("cpu", cpu)])).into();
    pods.push(PodFacts { unsupported: vec![Unsupported::Volume], ..pod("ns", "unsupported", "g", &[("cpu", 1)]) });
    pods.push(PodFacts { gated: true, ..pod("ns", "gated", "g", &[("cpu", 1)]) });
    for (queue_of, reason) in [("default", "Unschedulable"), ("small", "QueueQuotaExceeded")] {
        let groups = vec![group("ns", "g", 3, queue_of)];
        let mut state = ready(vec![node("n", &[("cpu", 4)])], pods.clone(), groups);
        state.apply(Event::of::<Queues>(Change::Apply(queue("small", None, &[("cpu", 2)]))), at(0));
        let _cycle = state.tick(at(0));
        let writes: std::collections::BTreeMap<String, String> = [500, 2500]
            .into_iter()
            .flat_map(|millis| {
                let commands = state.tick(at(millis));
                // Each write is answered: the number of writes under way is limited.
                let subjects = commands.iter().filter_map(crate::scheduler::state::subject);
                subjects.for_each(|subject| state.learn(Report::Written(subject, written("2")), at(millis)));
                commands
            })
            .filter_map(|command| {
                let Command::Pod { name, condition, .. } = command else { return None };
                Some((name.to_string(), condition.reason.unwrap_or_default()))
            })
            .collect();
        let wanted = [("a", reason), ("b", reason), ("c", reason), ("unsupported", "UnsupportedField")];
        assert_eq!(writes, wanted.map(|(name, reason)| (name.to_owned(), reason.to_owned())).into());
    }
}

#[test]
fn the_use_of_a_queue_is_written_at_every_level_and_removed_at_the_end() {
    let mut state = ready(vec![node("n", &[("cpu", 4)])], Vec::new(), Vec::new());
    let _settled = (state.tick(at(0)), state.tick(at(500)));
    for name in ["root", "default"] {
        state.learn(Report::Written(Subject::Queue(name.into()), written("2")), at(600));
    }
    state.apply(Event::of::<Pods>(Change::Apply(running(pod("ns", "p", "g", &[("cpu", 1)]), "n"))), at(2000));
    let queues = |commands: Vec<Command>| -> Vec<(String, usize, Vec<String>)> {
        let writes = |command: Command| {
            let Command::Queue { name, status, gone, .. } = command else { return None };
            Some((name.to_string(), status.allocated.map_or(0, |allocated| allocated.len()), gone))
        };
        commands.into_iter().filter_map(writes).collect()
    };
    let _cycle = state.tick(at(2000));
    assert_eq!(queues(state.tick(at(3000))), [("default".to_owned(), 2, vec![]), ("root".to_owned(), 2, vec![])]);
    for name in ["root", "default"] {
        state.learn(Report::Written(Subject::Queue(name.into()), written("3")), at(3000));
    }
    state.apply(Event::of::<Pods>(Change::Delete("ns/p".into())), at(5000));
    let _cycle = state.tick(at(5000));
    let gone = vec!["cpu".to_owned(), "pods".to_owned()];
    assert_eq!(queues(state.tick(at(6000))), [("default".to_owned(), 0, gone.clone()), ("root".to_owned(), 0, gone)]);
}

#[test]
fn an_invalid_queue_gets_one_event_for_each_new_cause() {
    let mut state = ready(vec![node("n", &[("cpu", 4)])], Vec::new(), Vec::new());
    let events = |commands: Vec<Command>| -> Vec<String> {
        let text = |command| {
            let Command::QueueEvent { name, message, .. } = command else { return None };
            Some(format!("{name}: {message}"))
        };
        commands.into_iter().filter_map(text).collect()
    };
    let put = |state: &mut State, facts, millis| {
        state.apply(Event::of::<Queues>(Change::Apply(facts)), at(millis));
        let mut writes = Vec::new();
        // The Event is first, then the status. Each write succeeds.
        for later in [0, 1000, 2000, 3000] {
            writes.extend(events(state.tick(at(millis + later))));
            for name in ["bad", "root", "default"] {
                state.learn(Report::Written(Subject::Queue(name.into()), written("2")), at(millis + later));
            }
        }
        writes
    };
    let lost = queue("bad", Some("nowhere"), &[]);
    assert_eq!(put(&mut state, lost.clone(), 0), ["bad: QueueInvalid: queue \"bad\" names the parent \"nowhere\", which does not exist"]);
    assert!(put(&mut state, QueueFacts { priority: 1, ..lost.clone() }, 5_000).is_empty(), "the cause is the same");
    assert!(put(&mut state, queue("bad", Some("root"), &[]), 10_000).is_empty());
    let fault = Fault::new("spec.capability.cpu", "x", "not a quantity");
    let unreadable = QueueFacts { faults: vec![fault], priority: 2, ..queue("bad", Some("root"), &[]) };
    assert_eq!(put(&mut state, unreadable, 15_000), ["bad: spec.capability.cpu \"x\": not a quantity"]);
    assert_eq!(put(&mut state, lost, 20_000).len(), 1, "the queue was valid in between");
}

#[test]
fn deleted_objects_and_unknown_names_are_forgotten() {
    let mut state = ready(Vec::new(), Vec::new(), Vec::new());
    let writes = |state: &mut State| {
        let commands = (1..4).flat_map(|second| state.tick(at(second * 5_000))).collect::<Vec<_>>();
        for subject in commands.iter().filter_map(subject) {
            state.learn(Report::Written(subject, written("7")), at(16_000));
        }
        state.tick(at(16_000)).len()
    };
    let _first = writes(&mut state);
    let before = state.status_writer.remembered();
    state.apply(Event::of::<Queues>(Change::Apply(queue("short", None, &[]))), at(17_000));
    state.apply(Event::of::<Groups>(Change::Apply(group("ns", "g", 1, "no-such-queue"))), at(17_000));
    state.apply(Event::of::<Pods>(Change::Apply(pod("ns", "p", "g", &[("cpu", 1)]))), at(17_000));
    state.apply(Event::of::<Groups>(Change::Apply(group("ns", "h", 1, "short"))), at(17_000));
    let _told = (0..9).map(|second| state.tick(at(18_000 + second * 1_000)).len()).sum::<usize>();
    assert_ne!(state.status_writer.remembered(), before);
    for name in ["g", "h"] {
        state.apply(Event::of::<Groups>(Change::Delete(GroupKey::new("ns", name))), at(30_000));
    }
    state.apply(Event::of::<Pods>(Change::Delete("ns/p".into())), at(30_000));
    state.apply(Event::of::<Queues>(Change::Delete("short".into())), at(30_000));
    for name in ["g", "h"] {
        state.learn(Report::Written(Subject::Group(GroupKey::new("ns", name)), WriteOutcome::Gone), at(30_000));
    }
    state.learn(Report::Written(Subject::Queue("short".into()), WriteOutcome::Gone), at(30_000));
    for subject in [Subject::Pod("ns/p".into()), Subject::PodEvent("ns/p".into())] {
        state.learn(Report::Written(subject, WriteOutcome::Gone), at(30_000));
    }
    let _rest = (0..9).map(|second| state.tick(at(31_000 + second * 1_000)).len()).sum::<usize>();
    assert_eq!(state.status_writer.remembered(), before);
}

#[test]
fn an_unanswered_binding_is_in_the_status_of_its_podgroup_and_stays_charged() {
    let pods = vec![pod("ns", "a", "g", &[("cpu", 2)]), pod("ns", "b", "g", &[("cpu", 2)])];
    let mut state = ready(vec![node("n", &[("cpu", 4)])], pods, vec![group("ns", "g", 2, "default")]);
    assert_eq!(binds(&state.tick(at(0))), 2);
    state.learn(Report::Bound("ns/a".into()), at(100));
    assert!(group_status(&[state.tick(at(100)), state.tick(at(10_000))].concat()).is_none(), "a bind is under way");
    state.learn(Report::Unanswered("ns/b".into(), "timeout"), at(15_000));
    let writes = [state.tick(at(15_000)), state.tick(at(16_000))].concat();
    let status = group_status(&writes).unwrap();
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!((status.phase.as_deref(), condition.kind.as_deref()), (Some("Inqueue"), Some("Unschedulable")));
    let message = "BindUnanswered: the API server has not answered the bindings of 1 members (timeout); their places stay reserved";
    assert_eq!(condition.message.as_deref(), Some(message));
    // Tools that know Volcano wait for this reason; the condition has the exact one.
    assert!(
        writes.iter().any(
            |command| matches!(command, Command::Group { events, .. } if *events == [("Unschedulable".to_owned(), message.to_owned())])
        )
    );
    assert_eq!((condition.reason.as_deref(), binds(&writes)), (Some("NotEnoughResources"), 0));
    assert_eq!(state.scheduling.cache().accounting().quota().used("default").get("cpu"), Amount::from_units(4));
    state.learn(Report::Written(Subject::Group(GroupKey::new("ns", "g")), written("7")), at(16_100));
    state.learn(Report::Bound("ns/b".into()), at(30_000));
    let writes = [state.tick(at(30_000)), state.tick(at(32_000))].concat();
    assert_eq!(group_status(&writes).unwrap().phase.as_deref(), Some("Running"));
}

#[test]
fn a_gang_whose_members_are_leaving_runs_until_they_are_gone() {
    for count in [1, 2] {
        let names: Vec<String> = (0..count).map(|index| format!("p{index}")).collect();
        let there = |name: &String| running(pod("ns", name, "g", &[("cpu", 1)]), "n");
        let mut state = ready(vec![node("n", &[("cpu", 4)])], names.iter().map(there).collect(), vec![group("ns", "g", count, "default")]);
        let writes = [state.tick(at(0)), state.tick(at(3000))].concat();
        assert_eq!(group_status(&writes).unwrap().phase.as_deref(), Some("Running"));
        state.learn(Report::Written(Subject::Group(GroupKey::new("ns", "g")), written("7")), at(3100));
        state.apply(Event::of::<Pods>(Change::Apply(PodFacts { deleting: true, ..there(&names[0]) })), at(10_000));
        let writes = [state.tick(at(10_000)), state.tick(at(13_000))].concat();
        let status = group_status(&writes).unwrap();
        assert_eq!(status.phase.as_deref(), Some("Running"), "{count}");
        assert!(status.conditions.iter().flatten().all(|condition| condition.kind.as_deref() != Some("Unschedulable")), "{status:?}");
        assert!(writes.iter().all(|command| !matches!(command, Command::Group { events, .. } if !events.is_empty())), "{writes:?}");
        state.learn(Report::Written(Subject::Group(GroupKey::new("ns", "g")), written("8")), at(13_100));
        state.apply(Event::of::<Pods>(Change::Delete(format!("ns/{}", names[0]).as_str().into())), at(20_000));
        let writes = [state.tick(at(20_000)), state.tick(at(23_000))].concat();
        assert_ne!(group_status(&writes).unwrap().phase.as_deref(), Some("Running"), "{count}");
    }
}
