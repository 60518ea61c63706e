//! Decisions stop on an old view and on a partly restored one, and go on by themselves.

use std::time::Duration;

use super::super::command::Command;
use super::super::debug::answer;
use super::super::event::{Change, Event, Question, Report, WriteOutcome};
use super::super::kinds::{Groups, KINDS, Nodes, Pods, Queues};
use super::super::state::{Now, State};
use super::super::testing::{at, binds, group_status, ready, up_to_date, written};
use crate::api::{GroupFacts, PodFacts};
use crate::cycle::testing::{group, node, pod, queue};

/// Returns a state with a node, and nothing to do.
fn idle() -> State {
    let mut state = ready(vec![node("n", &[("cpu", 4)])], Vec::new(), vec![group("ns", "g", 1, "default")]);
    let _cycle = state.tick(at(0));
    state
}

/// A pod is created: the scheduler has work.
fn create(state: &mut State, name: &str, now: Now) {
    state.apply(Event::of::<Pods>(Change::Apply(pod("ns", name, "g", &[("cpu", 1)]))), now);
}

#[test]
fn no_decision_is_made_on_a_view_that_is_older_than_80_s() {
    for (silent, name) in [
        (0, "nodes"),
        (3, "queues"),
        (7, "persistentvolumeclaims"),
        (10, "csinodes"),
        (11, "volumeattachments"),
        (13, "csistoragecapacities"),
    ] {
        let mut state = idle();
        for (number, row) in KINDS.iter().enumerate() {
            let now = if number == silent { at(10_000) } else { at(60_000) };
            state.apply((row.up_to_date)(now.since_start), at(60_000));
        }
        create(&mut state, "a", at(90_000));
        assert!(state.has_work(at(90_000)));
        assert_eq!(binds(&state.tick(at(90_000))), 1, "{name}: exactly 80 s");
        create(&mut state, "b", at(90_001));
        assert!(!state.has_work(at(90_001)));
        assert_eq!(binds(&state.tick(at(90_001))), 0, "{name}");
        let shown = answer(&state, Question::View, Duration::from_millis(90_001));
        assert_eq!(shown["decides"], false);
        let trouble = shown["trouble"].as_str().unwrap();
        assert!(trouble.starts_with(&format!("the view of {name} is 80 s old (limit 80 s)")), "{trouble}");
        assert_eq!((&shown["ageSeconds"][name], &shown["ageSeconds"]["pods"]), (&80.001.into(), &30.001.into()));
        // No timer of a decision wakes the loop meanwhile: it would turn without end.
        let next = state.next(Duration::from_millis(90_001));
        assert!(next.is_none_or(|next| next > Duration::from_millis(90_001)), "{next:?}");
        state.apply((KINDS[silent].up_to_date)(Duration::from_secs(94)), at(95_000));
        assert_eq!(binds(&state.tick(at(95_000))), 1, "{name}: it goes on by itself");
        assert_eq!(answer(&state, Question::View, Duration::from_secs(95))["decides"], true);
    }
}

/// Pods of other schedulers are known from the view of pods alone: a node may be full of them.
#[test]
fn no_decision_is_made_on_a_view_of_pods_that_is_older_than_80_s() {
    let mut state = idle();
    state.apply(Event::of::<Pods>(Change::Apply(pod("ns", "a", "g", &[("cpu", 5)]))), at(10_000));
    assert_eq!(binds(&state.tick(at(10_000))), 0, "no node has room");
    up_to_date(&mut state, at(90_001));
    state.apply(Event::of::<Pods>(Change::UpToDate(Duration::from_secs(10))), at(90_001));
    state.apply(Event::of::<Nodes>(Change::Apply(node("m", &[("cpu", 8)]))), at(90_001));
    assert_eq!(binds(&state.tick(at(90_001))), 0);
    let shown = answer(&state, Question::View, Duration::from_millis(90_001));
    assert!(shown["trouble"].as_str().unwrap().starts_with("the view of pods is 80 s old"), "{shown}");
    state.apply(Event::of::<Pods>(Change::UpToDate(Duration::from_secs(95))), at(95_000));
    assert_eq!(binds(&state.tick(at(95_000))), 1);
}

/// An API server that is cut off from etcd repeats what it knows, and a watch that is behind shows what happened minutes before.
#[test]
fn an_event_alone_says_nothing_of_the_age_of_a_view() {
    let mut state = idle();
    up_to_date(&mut state, at(20_000));
    state.apply(Event::of::<Nodes>(Change::Apply(node("m", &[("cpu", 1)]))), at(100_000));
    state.apply(Event::of::<Queues>(Change::Unreadable("q".into())), at(100_000));
    create(&mut state, "a", at(100_001));
    assert_eq!(binds(&state.tick(at(100_001))), 0);
    // A complete list says it.
    up_to_date(&mut state, at(100_002));
    state.apply(Event::of::<Queues>(Change::UpToDate(Duration::from_secs(20))), at(100_002));
    assert_eq!(binds(&state.tick(at(100_002))), 0);
    let queues = vec![queue("root", None, &[]), queue("default", Some("root"), &[])];
    state.apply(
        Event::of::<Queues>(Change::Reset {
            all: queues,
            unreadable: Vec::new(),
            generation: 0,
            back: false,
            as_of: Duration::from_secs(99),
        }),
        at(100_003),
    );
    assert_eq!(binds(&state.tick(at(100_003))), 1);
}

/// Delivers the complete list of the kind with this number after the cluster went back.
fn restored(state: &mut State, kind: usize, pods: &[PodFacts], groups: &[GroupFacts], generation: u64) {
    fn list<T: Clone, K>(all: &[T], generation: u64) -> Change<T, K> {
        Change::Reset { all: all.to_vec(), unreadable: Vec::new(), generation, back: true, as_of: Duration::ZERO }
    }
    let queues = [queue("root", None, &[]), queue("default", Some("root"), &[])];
    let event = match kind {
        0 => Event::of::<Nodes>(list(&[node("n", &[("cpu", 4)])], generation)),
        1 => Event::of::<Pods>(list(pods, generation)),
        2 => Event::of::<Groups>(list(groups, generation)),
        3 => Event::of::<Queues>(list(&queues, generation)),
        _ => (KINDS[kind].empty)(generation, true),
    };
    state.apply(event, at(1000));
}

#[test]
fn after_the_cluster_went_back_no_decision_is_made_before_every_kind_is_listed_again() {
    for last in 0..KINDS.len() {
        let mut state = idle();
        state.apply(Event::WentBack(1), at(1000));
        let pods = [pod("ns", "a", "g", &[("cpu", 1)])];
        let groups = [group("ns", "g", 1, "default")];
        create(&mut state, "a", at(1000));
        for kind in (0..KINDS.len()).filter(|kind| *kind != last) {
            restored(&mut state, kind, &pods, &groups, 1);
            assert_eq!(binds(&state.tick(at(1000))), 0, "{kind} is not the last");
        }
        // A list that began before is none of these.
        restored(&mut state, last, &pods, &groups, 0);
        assert_eq!(binds(&state.tick(at(1000))), 0);
        restored(&mut state, last, &pods, &groups, 1);
        assert_eq!(binds(&state.tick(at(1000))), 1);
        assert!(state.scheduling.cache().accounting().audit().is_clean());
    }
}

#[test]
fn a_bind_and_a_status_that_the_restored_cluster_does_not_have_are_made_again() {
    let mut state = idle();
    create(&mut state, "a", at(100));
    assert_eq!(binds(&state.tick(at(100))), 1);
    state.learn(Report::Bound("ns/a".into()), at(110));
    let status = |commands: &[Command]| group_status(commands).cloned();
    let mut writes: Vec<Command> = [200, 2000, 4000, 20_000].into_iter().flat_map(|millis| state.tick(at(millis))).collect();
    let before = status(&writes).expect("the status is written once");
    for subject in writes.drain(..).filter_map(|command| super::super::state::subject(&command)) {
        let outcome: WriteOutcome = written("1400");
        state.learn(Report::Written(subject, outcome), at(20_000));
    }
    assert_eq!(status(&state.tick(at(30_000))), None);
    // The restored pod has no node, the restored PodGroup no status, and both have older versions.
    state.apply(Event::WentBack(1), at(30_000));
    let (pods, groups) = ([pod("ns", "a", "g", &[("cpu", 1)])], [group("ns", "g", 1, "default")]);
    (0..KINDS.len()).for_each(|kind| restored(&mut state, kind, &pods, &groups, 1));
    let commands = state.tick(at(31_000));
    assert_eq!(binds(&commands), 1, "the pod is bound again");
    state.learn(Report::Bound("ns/a".into()), at(31_100));
    let writes: Vec<Command> = [32_000, 34_000, 60_000].into_iter().flat_map(|millis| state.tick(at(millis))).collect();
    assert_eq!(status(&writes).map(|status| status.phase), Some(before.phase));
    assert!(state.scheduling.cache().accounting().audit().is_clean());
}

#[test]
fn a_bind_that_was_confirmed_since_the_cluster_went_back_stays_though_the_list_does_not_show_it() {
    // The order of the report and of the event that says that the cluster went back; the list began before the bind.
    for confirmed_before in [true, false] {
        let mut state = idle();
        create(&mut state, "a", at(100));
        assert_eq!(binds(&state.tick(at(100))), 1);
        if confirmed_before {
            state.learn(Report::Bound("ns/a".into()), at(110));
        }
        state.apply(Event::WentBack(1), at(120));
        if !confirmed_before {
            state.learn(Report::Bound("ns/a".into()), at(130));
        }
        let (pods, groups) = ([pod("ns", "a", "g", &[("cpu", 1)])], [group("ns", "g", 1, "default")]);
        (0..KINDS.len()).for_each(|kind| restored(&mut state, kind, &pods, &groups, 1));
        assert_eq!(binds(&state.tick(at(2000))), usize::from(confirmed_before));
        assert!(state.scheduling.cache().accounting().audit().is_clean());
    }
}

#[test]
fn a_list_that_says_that_the_cluster_went_back_stops_decisions_before_the_event_does() {
    let mut state = idle();
    create(&mut state, "a", at(100));
    restored(&mut state, 0, &[], &[], 1);
    assert_eq!(binds(&state.tick(at(1000))), 0);
}
