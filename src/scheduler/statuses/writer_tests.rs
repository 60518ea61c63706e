//! The number of status writes when many objects wait and the amounts change all the time.

use std::collections::BTreeMap;

use super::*;
use crate::api::pod::PodCondition;
use crate::api::podgroup::PodGroupStatus;
use crate::cycle::testing::{group, node, pod, queue};
use crate::scheduler::event::{Change, Event, Report};
use crate::scheduler::kinds::{Nodes, Queues};
use crate::scheduler::state::State;
use crate::scheduler::testing::{at, ready};

const WAIT: usize = 300;

/// The wall clock moves as well. The pods were created at its 0.
fn now(millis: u64) -> Now {
    let now = at(millis);
    Now { wall: now.wall + now.since_start, ..now }
}

/// The statuses of the waiting objects in the cluster, and the number of writes.
struct Cluster {
    state: State,
    millis: u64,
    groups: BTreeMap<GroupKey, PodGroupStatus>,
    pods: BTreeMap<Uid, PodCondition>,
    writes: usize,
    /// The Events about pods, with their messages.
    events: Vec<(Uid, String)>,
    /// Whether the API server refuses every write.
    fails: bool,
}

impl Cluster {
    /// Creates PodGroups of one pod that requests more than the only node of 4 CPUs has.
    fn new() -> Self {
        let name = |index: usize| format!("w{index:03}");
        let pods = (0..WAIT).map(|index| pod("ns", &name(index), &name(index), &[("cpu", 5)])).collect();
        let groups = (0..WAIT).map(|index| group("ns", &name(index), 1, "default")).collect();
        let state = ready(vec![node("n", &[("cpu", 4)])], pods, groups);
        Self { state, millis: 0, groups: BTreeMap::new(), pods: BTreeMap::new(), writes: 0, events: Vec::new(), fails: false }
    }

    /// Creates the same cluster with many objects in the write throttle.
    fn in_line() -> Self {
        let mut cluster = Self::new();
        cluster.pass(3);
        for cpus in [1, 2, 3] {
            cluster.uses(cpus);
            cluster.pass(1);
        }
        assert!(cluster.state.status_writer.throttle.remembered() > 100);
        cluster
    }

    /// Answers every write at once for some seconds, and returns the number of writes.
    fn pass(&mut self, seconds: u64) -> usize {
        let (before, end) = (self.writes, self.millis + seconds * 1000);
        while self.millis < end {
            self.millis += 10;
            loop {
                let commands = self.state.tick(now(self.millis));
                if commands.is_empty() {
                    break;
                }
                commands.into_iter().for_each(|command| self.write(command));
            }
        }
        self.writes - before
    }

    fn write(&mut self, command: Command) {
        let subject = crate::scheduler::state::subject(&command);
        match command {
            Command::Group { key, status, .. } => {
                self.writes += 1;
                if !self.fails {
                    self.groups.insert(key, status);
                }
            }
            Command::Pod { uid, condition, .. } => {
                self.writes += 1;
                if !self.fails {
                    self.pods.insert(uid, condition);
                }
            }
            Command::Bind(bind) => self.state.learn(Report::Bound(bind.uid), now(self.millis)),
            Command::Volume(_) | Command::Fence { .. } | Command::Evict { .. } | Command::StopEvictions { .. } => panic!("{subject:?}"),
            Command::PodEvent { uid, message, .. } => {
                if !self.fails {
                    self.events.push((uid, message));
                }
            }
            Command::Queue { .. } | Command::QueueEvent { .. } | Command::MisnamedPod { .. } | Command::MakeQueue { .. } => {}
        }
        let outcome = if self.fails { WriteOutcome::Failed("unavailable") } else { WriteOutcome::Written { resource_version: "9".into() } };
        subject.into_iter().for_each(|subject| self.state.learn(Report::Written(subject, outcome.clone()), now(self.millis)));
    }

    /// Reduces the 4 CPUs of the node, so that the free amount changes.
    fn uses(&mut self, cpus: i64) {
        self.state.apply(Event::of::<Nodes>(Change::Apply(node("n", &[("cpu", 4 - cpus)]))), now(self.millis));
    }

    fn all_say(&self, words: &str) -> bool {
        let of_group = |status: &PodGroupStatus| status.conditions.as_ref()?.first()?.message.clone();
        let groups = self.groups.values().filter(|status| of_group(status).is_some_and(|text| text.contains(words))).count();
        let pods = self.pods.values().filter(|pod| pod.message.as_ref().is_some_and(|text| text.contains(words))).count();
        (groups, pods) == (WAIT, WAIT)
    }
}

#[test]
fn changed_amounts_are_written_at_a_bounded_rate_and_a_new_reason_at_once() {
    let mut cluster = Cluster::new();
    // The first condition needs no budget.
    assert_eq!(cluster.pass(3), 2 * WAIT);
    assert!(cluster.all_say("most free 4"));
    cluster.uses(1);
    let first = cluster.pass(1);
    assert!((20..=21).contains(&first), "{first}");
    let mut churn = 0;
    for second in 0..60 {
        cluster.uses(1 + second % 3);
        churn += cluster.pass(1);
    }
    // At its turn, a condition may be correct again.
    assert!((6..=13).contains(&churn), "{churn}");
    // After the last change, all conditions become correct, and then nothing is written.
    cluster.uses(2);
    cluster.pass(2 * 5 * u64::try_from(WAIT).unwrap());
    assert!(cluster.all_say("most free 2"));
    assert_eq!(cluster.state.status_writer.throttle.remembered(), 0);
}

#[test]
fn a_new_reason_is_not_throttled_even_after_a_failed_write() {
    let mut cluster = Cluster::in_line();
    let closed = crate::api::QueueFacts { closed_by_hand: true, ..queue("default", Some("root"), &[]) };
    cluster.state.apply(Event::of::<Queues>(Change::Apply(closed)), now(cluster.millis));
    cluster.fails = true;
    cluster.pass(12);
    assert!(!cluster.all_say("closed"));
    cluster.fails = false;
    // The back-off after these failures, and a moment.
    cluster.pass(20);
    assert!(cluster.all_say("closed"), "{:?}", cluster.pods.values().next());
    assert_eq!(cluster.state.status_writer.throttle.remembered(), 0);
}

#[test]
fn a_placed_podgroup_does_not_delay_the_others() {
    let mut cluster = Cluster::in_line();
    for name in ["a", "b", "c"] {
        cluster.state.apply(Event::of::<Nodes>(Change::Apply(node(name, &[("cpu", 600)]))), now(cluster.millis));
    }
    // Their members start, and the start is written after a moment.
    cluster.pass(3);
    assert_eq!(cluster.state.status_writer.throttle.remembered(), 0);
}

#[test]
fn a_waiting_pod_has_an_event_for_each_new_cause_at_a_bounded_rate() {
    let mut cluster = Cluster::new();
    cluster.pass(3);
    // Conditions are complete; Events go on at their rate, in the order of the pods.
    assert!(cluster.all_say("most free 4"));
    let first = cluster.events.len();
    assert!((100..=121).contains(&first), "{first}");
    cluster.pass(20);
    let all: std::collections::BTreeSet<Uid> = cluster.events.iter().map(|(uid, _)| uid.clone()).collect();
    assert_eq!((cluster.events.len(), all.len()), (WAIT, WAIT));
    assert!(cluster.events.iter().all(|(_, message)| message.contains("Insufficient cpu")));
    // Other amounts are no news.
    cluster.uses(1);
    cluster.pass(30);
    assert_eq!(cluster.events.len(), WAIT);
    let closed = crate::api::QueueFacts { closed_by_hand: true, ..queue("default", Some("root"), &[]) };
    cluster.state.apply(Event::of::<Queues>(Change::Apply(closed)), now(cluster.millis));
    cluster.pass(40);
    assert_eq!(cluster.events.len(), 2 * WAIT);
    assert!(cluster.events.iter().skip(WAIT).all(|(_, message)| message.contains("closed")));
}

#[test]
fn an_event_that_failed_is_sent_again() {
    let mut cluster = Cluster::new();
    cluster.fails = true;
    cluster.pass(10);
    cluster.fails = false;
    cluster.pass(40);
    let all: std::collections::BTreeSet<Uid> = cluster.events.iter().map(|(uid, _)| uid.clone()).collect();
    assert_eq!((cluster.events.len(), all.len()), (WAIT, WAIT));
}

/// The API server deletes an Event after an hour.
#[test]
fn a_pod_that_waits_for_hours_has_its_event_again_before_the_last_one_ends() {
    const REPEAT: u64 = 50 * 60 * 1000;
    let mut cluster = Cluster::new();
    cluster.pass(30);
    assert_eq!(cluster.events.len(), WAIT);
    for time in 1..3 {
        cluster.millis = time * REPEAT - 20_000;
        let before = cluster.events.len();
        assert_eq!((cluster.pass(19), cluster.events.len()), (0, before));
        cluster.pass(30);
        assert_eq!(cluster.events.len(), before + WAIT);
    }
    // A change that goes back at once costs no Event, and does not end the repetition.
    for closed_by_hand in [true, false] {
        let queue = crate::api::QueueFacts { closed_by_hand, ..queue("default", Some("root"), &[]) };
        cluster.state.apply(Event::of::<Queues>(Change::Apply(queue)), now(cluster.millis));
    }
    cluster.pass(30);
    assert_eq!(cluster.events.len(), 3 * WAIT);
    cluster.millis = 3 * REPEAT;
    cluster.pass(30);
    assert_eq!(cluster.events.len(), 4 * WAIT);
}

#[test]
fn a_pod_that_is_placed_or_gone_before_its_turn_has_no_event() {
    let mut cluster = Cluster::new();
    cluster.pass(3);
    let before = cluster.events.len();
    for name in ["a", "b", "c"] {
        cluster.state.apply(Event::of::<Nodes>(Change::Apply(node(name, &[("cpu", 600)]))), now(cluster.millis));
    }
    cluster.pass(20);
    assert_eq!(cluster.events.len(), before);
    assert_eq!(cluster.state.status_writer.pods.remembered_events(), 0);
}

/// After a restart each pod has its condition, and had its Event.
#[test]
fn a_new_leader_repeats_no_event() {
    let says = |pod: &mut crate::api::PodFacts| {
        pod.scheduled_condition = Some(PodCondition {
            kind: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("Unschedulable".to_owned()),
            message: Some("older amounts".to_owned()),
        });
    };
    let mut waits = pod("ns", "w", "w", &[("cpu", 5)]);
    says(&mut waits);
    waits.created -= Duration::from_secs(40 * 60);
    let state = ready(vec![node("n", &[("cpu", 4)])], vec![waits], vec![group("ns", "w", 1, "default")]);
    let mut cluster =
        Cluster { state, millis: 0, groups: BTreeMap::new(), pods: BTreeMap::new(), writes: 0, events: Vec::new(), fails: false };
    cluster.pass(20);
    assert_eq!((cluster.pods.len(), cluster.events.as_slice()), (1, [].as_slice()));
    // It repeats the Event when the former leader would have done so.
    cluster.millis = 10 * 60 * 1000 - 1_000;
    assert_eq!((cluster.pass(1), cluster.events.len()), (0, 0));
    cluster.pass(1);
    assert_eq!(cluster.events.len(), 1);
}
