//! The status writes of other namespaces, while those of one namespace have no answer.

use crate::api::GroupKey;
use crate::cycle::testing::{group, node, pod};
use crate::scheduler::command::Command;
use crate::scheduler::event::{Change, Event, Report, Subject};
use crate::scheduler::kinds::{Groups, Pods};
use crate::scheduler::state::{State, subject};
use crate::scheduler::testing::{at, ready, written};

/// More objects than the scheduler writes at the same time.
const MANY: usize = 40;

/// Creates a PodGroup that no node can take, and its pod.
fn create(state: &mut State, namespace: &str, name: &str, millis: u64) {
    state.apply(Event::of::<Groups>(Change::Apply(group(namespace, name, 1, "default"))), at(millis));
    state.apply(Event::of::<Pods>(Change::Apply(pod(namespace, &format!("{name}-0"), name, &[("cpu", 9)]))), at(millis));
}

/// Returns the subjects that are written until this time. The writes for the namespace `hangs` have no answer.
fn writes(state: &mut State, from: u64, to: u64) -> Vec<Subject> {
    let mut all = Vec::new();
    for millis in (from..to).step_by(10) {
        loop {
            let commands = state.tick(at(millis));
            if commands.is_empty() {
                break;
            }
            for (command, subject) in commands.iter().filter_map(|command| Some((command, subject(command)?))) {
                if namespace(command) != Some("hangs") {
                    state.learn(Report::Written(subject.clone(), written("9")), at(millis));
                }
                all.push(subject);
            }
        }
    }
    all
}

fn namespace(command: &Command) -> Option<&str> {
    match command {
        Command::Group { key, .. } => Some(&key.namespace),
        Command::Pod { namespace, .. } | Command::PodEvent { namespace, .. } => Some(namespace),
        Command::Bind(_)
        | Command::Volume(_)
        | Command::Fence { .. }
        | Command::Evict { .. }
        | Command::StopEvictions { .. }
        | Command::Queue { .. }
        | Command::QueueEvent { .. }
        | Command::MisnamedPod { .. }
        | Command::MakeQueue { .. } => None,
    }
}

/// Returns a state in which many PodGroups of the namespace `hangs` wait, and the writes of 4 s.
fn hanging() -> (State, Vec<Subject>) {
    let mut state = ready(vec![node("n", &[("cpu", 4)])], Vec::new(), Vec::new());
    (0..MANY).for_each(|number| create(&mut state, "hangs", &format!("g{number}"), 0));
    let sent = writes(&mut state, 0, 4_000);
    (state, sent)
}

#[test]
fn a_namespace_without_answers_delays_no_status_of_other_objects() {
    let (mut state, sent) = hanging();
    let of_groups = sent.iter().filter(|subject| matches!(subject, Subject::Group(_))).count();
    assert_eq!(of_groups, 8, "the namespace has a half of the slots");
    assert!(sent.contains(&Subject::Queue("default".into())), "{sent:?}");
    create(&mut state, "works", "g", 4_000);
    let sent = writes(&mut state, 4_000, 7_000);
    let key = GroupKey::new("works", "g");
    for subject in
        [Subject::Group(key), Subject::Queue("default".into()), Subject::Pod("works/g-0".into()), Subject::PodEvent("works/g-0".into())]
    {
        assert!(sent.contains(&subject), "{subject:?} is not among {sent:?}");
    }
}

#[test]
fn a_namespace_that_was_slow_has_one_write_under_way_until_one_is_answered_in_time() {
    let (mut state, sent) = hanging();
    let first: Vec<&Subject> = sent.iter().filter(|subject| matches!(subject, Subject::Group(_))).collect();
    for subject in &first {
        state.learn(Report::Written((*subject).clone(), written("9")), at(10_000));
    }
    let next = writes(&mut state, 10_000, 11_000);
    let [one] = next.as_slice() else { panic!("one write is under way: {next:?}") };
    state.learn(Report::Written(one.clone(), written("9")), at(11_000));
    assert_eq!(writes(&mut state, 11_000, 12_000).len(), 8);
}

#[test]
fn a_write_that_waits_for_a_slot_sets_no_timer() {
    let (mut state, _sent) = hanging();
    let commands = state.tick(at(4_000));
    assert_eq!(commands, []);
    let next = state.next(at(4_000).since_start);
    assert!(next.is_none_or(|next| next > at(4_000).since_start), "{next:?}");
}
