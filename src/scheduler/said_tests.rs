//! How much is written where thousands wait and what they wait for changes all the time?

use std::collections::BTreeMap;

use super::*;
use crate::api::podgroup::PodGroupStatus;
use crate::cycle::testing::{group, node, pod, queue};
use crate::scheduler::event::{Change, Event, Report};
use crate::scheduler::state::State;
use crate::scheduler::testing::{at, ready};

const WAIT: usize = 300;

/// What stands in the cluster of those who wait, and how often it was written.
struct Cluster {
    state: State,
    millis: u64,
    groups: BTreeMap<GroupKey, PodGroupStatus>,
    pods: BTreeMap<Uid, PodCondition>,
    writes: usize,
    /// Whether the API server refuses everything.
    fails: bool,
}

impl Cluster {
    /// Pods that ask for more than there is, each a group of its own, on a node of 4 CPUs.
    fn new() -> Self {
        let name = |index: usize| format!("w{index:03}");
        let pods = (0..WAIT).map(|index| pod("ns", &name(index), &name(index), &[("cpu", 5)])).collect();
        let groups = (0..WAIT).map(|index| group("ns", &name(index), 1, "default")).collect();
        let state = ready(vec![node("n", &[("cpu", 4)])], pods, groups);
        Self { state, millis: 0, groups: BTreeMap::new(), pods: BTreeMap::new(), writes: 0, fails: false }
    }

    /// The same, of whom many wait until it is their turn to be told other numbers.
    fn in_line() -> Self {
        let mut cluster = Self::new();
        cluster.pass(3);
        for cpus in [1, 2, 3] {
            cluster.uses(cpus);
            cluster.pass(1);
        }
        assert!(cluster.state.said.numbers.remembered() > 100);
        cluster
    }

    /// For so many seconds every write is answered at once. How many there were.
    fn pass(&mut self, seconds: u64) -> usize {
        let (before, end) = (self.writes, self.millis + seconds * 1000);
        while self.millis < end {
            self.millis += 10;
            loop {
                let commands = self.state.tick(at(self.millis));
                if commands.is_empty() {
                    break;
                }
                commands.into_iter().for_each(|command| self.write(command));
            }
        }
        self.writes - before
    }

    fn write(&mut self, command: Command) {
        let subject = super::super::state::subject(&command);
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
            Command::Bind(bind) => self.state.learn(Report::Bound(bind.uid), at(self.millis)),
            Command::Evict { .. } | Command::Desist { .. } => panic!("nobody goes"),
            Command::Queue { .. } | Command::QueueEvent { .. } | Command::MakeQueue { .. } => {}
        }
        let told = if self.fails { Told::Failed("unavailable") } else { Told::Stands { resource_version: "9".into() } };
        subject.into_iter().for_each(|subject| self.state.learn(Report::Told(subject, told.clone()), at(self.millis)));
    }

    /// The node offers so much less than 4 CPUs, so what is free there is another.
    fn uses(&mut self, cpus: i64) {
        self.state.apply(Event::Nodes(Change::Apply(node("n", &[("cpu", 4 - cpus)]))), at(self.millis));
    }

    fn all_say(&self, words: &str) -> bool {
        let of_group = |status: &PodGroupStatus| status.conditions.as_ref()?.first()?.message.clone();
        let groups = self.groups.values().filter(|status| of_group(status).is_some_and(|text| text.contains(words))).count();
        let pods = self.pods.values().filter(|pod| pod.message.as_ref().is_some_and(|text| text.contains(words))).count();
        (groups, pods) == (WAIT, WAIT)
    }
}

#[test]
fn where_only_the_numbers_change_all_together_are_written_a_few_times_in_a_second_and_another_reason_at_once() {
    let mut cluster = Cluster::new();
    // What is said for the first time needs no budget.
    assert_eq!(cluster.pass(3), 2 * WAIT);
    assert!(cluster.all_say("most free 4"));
    cluster.uses(1);
    let first = cluster.pass(1);
    assert!((100..=121).contains(&first), "{first}");
    let mut churn = 0;
    for second in 0..60 {
        cluster.uses(1 + second % 3);
        churn += cluster.pass(1);
    }
    // A turn may find that what stands is right again.
    assert!((600..=1201).contains(&churn), "{churn}");
    // Once it is quiet everybody is told what is so, and then nothing is written.
    cluster.uses(2);
    cluster.pass(60);
    assert!(cluster.all_say("most free 2"));
    assert_eq!(cluster.state.said.numbers.remembered(), 0);
}

#[test]
fn another_reason_waits_for_nobody_even_if_it_could_not_be_written_at_first() {
    let mut cluster = Cluster::in_line();
    let closed = crate::api::QueueFacts { closed_by_hand: true, ..queue("default", Some("root"), &[]) };
    cluster.state.apply(Event::Queues(Change::Apply(closed)), at(cluster.millis));
    cluster.fails = true;
    cluster.pass(12);
    assert!(!cluster.all_say("closed"));
    cluster.fails = false;
    // As long as one waits after so many failures, and a moment.
    cluster.pass(20);
    assert!(cluster.all_say("closed"), "{:?}", cluster.pods.values().next());
    assert_eq!(cluster.state.said.numbers.remembered(), 0);
}

#[test]
fn who_has_its_place_stands_in_nobodys_way() {
    let mut cluster = Cluster::in_line();
    for name in ["a", "b", "c"] {
        cluster.state.apply(Event::Nodes(Change::Apply(node(name, &[("cpu", 600)]))), at(cluster.millis));
    }
    // Their members start, which is told after a moment.
    cluster.pass(3);
    assert_eq!(cluster.state.said.numbers.remembered(), 0);
}
