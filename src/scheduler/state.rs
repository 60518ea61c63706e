//! What does the scheduler know, and what is to be done now? The one owner of all state.
//!
//! No task, no channel, no lock and no clock: events go in by [`State::apply`] and [`State::learn`], time comes as an argument, and
//! [`State::tick`] answers with the writes that are due. Everything that is decided is decided there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::Uid;
use crate::cycle::world::World;
use crate::cycle::{self, status};
use crate::runtime::backoff::Backoff;
use crate::runtime::flags::Placement;

use super::command::{Command, MADE};
use super::event::{Change, Event, Report, Subject, Told};
use super::metrics::Metrics;
use super::overcommit::Overcommit;
use super::said::Said;

/// How patiently a group is tried again whose bind was refused.
const BIND_BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// A recount costs as much as there are pods, so it is made no more often than this.
const AUDIT_EVERY: Duration = Duration::from_secs(60);

/// The moment at which something is decided, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For what people read.
    pub wall: Timestamp,
    /// For how long something is to last; since the program began.
    pub since_start: Duration,
}

/// The kinds whose lists must be complete before anything is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Nodes,
    Pods,
    Groups,
    Queues,
    PriorityClasses,
}

/// How many kinds there are.
const KINDS: usize = 5;

/// All that the scheduler knows.
#[derive(Debug)]
pub struct State {
    pub(super) world: World,
    pub(super) said: Said,
    policy: Placement,
    complete: BTreeSet<Kind>,
    leading: bool,
    /// When each bind that is under way was decided.
    binding: BTreeMap<Uid, Duration>,
    overcommit: Overcommit,
    audited: Option<Duration>,
    pub(super) metrics: Metrics,
}

impl State {
    /// Knows nothing yet; serves the pods of these schedulers.
    #[must_use]
    pub fn new(schedulers: impl IntoIterator<Item = String>, policy: Placement, metrics: Metrics) -> Self {
        Self {
            world: World::new(schedulers),
            said: Said::new(),
            policy,
            complete: BTreeSet::new(),
            leading: false,
            binding: BTreeMap::new(),
            overcommit: Overcommit::default(),
            audited: None,
            metrics,
        }
    }

    /// From now on it is us who decide.
    pub fn lead(&mut self, now: Now) {
        self.leading = true;
        self.make_queues(now);
    }

    /// Whether anything may be decided: the lists are complete, and it is us.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.leading && self.complete.len() == KINDS
    }

    /// Takes in what happened in the cluster. Questions are answered at once.
    pub fn apply(&mut self, event: Event, now: Now) {
        match event {
            Event::Nodes(change) => self.apply_nodes(change),
            Event::Pods(change) => self.apply_pods(change),
            Event::Groups(change) => self.apply_groups(change),
            Event::Queues(change) => self.apply_queues(change, now),
            Event::PriorityClasses(change) => self.apply_priority_classes(change),
            Event::Ask(question, reply) => {
                // Who asked may have gone away meanwhile.
                let _gone = reply.send(super::debug::answer(self, question));
            }
        }
    }

    fn apply_nodes(&mut self, change: Change<crate::api::NodeFacts, Arc<str>>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|node| Arc::clone(&node.name)).chain(unreadable).collect();
                let gone: Vec<_> = self.world.nodes().iter().map(|node| Arc::clone(&node.name)).filter(|name| !there.contains(name)).collect();
                gone.iter().for_each(|name| self.world.delete_node(name));
                all.into_iter().for_each(|node| self.world.apply_node(node));
                self.complete.insert(Kind::Nodes);
            }
            Change::Apply(node) => self.world.apply_node(node),
            Change::Delete(name) => self.world.delete_node(&name),
            Change::Unreadable(_) => self.metrics.unreadable.inc(),
        }
    }

    fn apply_pods(&mut self, change: Change<crate::api::PodFacts, Uid>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|pod| pod.uid.clone()).chain(unreadable).collect();
                let gone: Vec<_> = self.world.pod_uids().filter(|uid| !there.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.delete_pod(uid));
                all.into_iter().for_each(|pod| self.apply_pod(pod));
                self.complete.insert(Kind::Pods);
            }
            Change::Apply(pod) => self.apply_pod(pod),
            Change::Delete(uid) => self.delete_pod(&uid),
            Change::Unreadable(_) => self.metrics.unreadable.inc(),
        }
    }

    fn apply_pod(&mut self, pod: crate::api::PodFacts) {
        self.said.pod_seen(&pod.uid);
        self.world.apply_pod(pod);
    }

    fn delete_pod(&mut self, uid: &Uid) {
        self.said.pod_gone(uid);
        self.world.delete_pod(uid);
    }

    fn apply_groups(&mut self, change: Change<crate::api::GroupFacts, crate::api::GroupKey>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|group| group.key.clone()).chain(unreadable).collect();
                let known = self.world.groups().iter().filter(|(_, group)| group.facts.is_some()).map(|(key, _)| key);
                let gone: Vec<_> = known.filter(|key| !there.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.delete_group(key));
                all.into_iter().for_each(|group| self.apply_group(group));
                self.complete.insert(Kind::Groups);
            }
            Change::Apply(group) => self.apply_group(group),
            Change::Delete(key) => self.delete_group(&key),
            Change::Unreadable(_) => self.metrics.unreadable.inc(),
        }
    }

    fn apply_group(&mut self, group: crate::api::GroupFacts) {
        self.said.group_seen(&group);
        self.world.apply_group(group);
    }

    fn delete_group(&mut self, key: &crate::api::GroupKey) {
        self.said.group_gone(key);
        self.world.delete_group(key);
    }

    fn apply_queues(&mut self, change: Change<crate::api::QueueFacts, Arc<str>>, now: Now) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|queue| Arc::from(queue.name.as_str())).chain(unreadable).collect();
                let gone: Vec<_> = self.world.queues().keys().filter(|name| !there.contains(*name)).cloned().collect();
                gone.iter().for_each(|name| self.delete_queue(name));
                all.into_iter().for_each(|queue| self.apply_queue(queue));
                self.complete.insert(Kind::Queues);
            }
            Change::Apply(queue) => self.apply_queue(queue),
            Change::Delete(name) => self.delete_queue(&name),
            Change::Unreadable(_) => self.metrics.unreadable.inc(),
        }
        self.make_queues(now);
    }

    fn apply_queue(&mut self, queue: crate::api::QueueFacts) {
        self.said.queue_seen(&queue.name);
        self.world.apply_queue(queue);
    }

    fn delete_queue(&mut self, name: &Arc<str>) {
        self.said.queue_gone(name);
        self.world.delete_queue(name);
    }

    fn apply_priority_classes(&mut self, change: Change<(String, i32), String>) {
        match change {
            Change::Reset { all, unreadable } => {
                let there: BTreeSet<_> = all.iter().map(|(name, _)| name.clone()).chain(unreadable).collect();
                let gone: Vec<_> = self.world.priority_class_names().filter(|name| !there.contains(*name)).cloned().collect();
                gone.iter().for_each(|name| self.world.delete_priority_class(name));
                all.into_iter().for_each(|(name, value)| self.world.apply_priority_class(&name, value));
                self.complete.insert(Kind::PriorityClasses);
            }
            Change::Apply((name, value)) => self.world.apply_priority_class(&name, value),
            Change::Delete(name) => self.world.delete_priority_class(&name),
            Change::Unreadable(_) => self.metrics.unreadable.inc(),
        }
    }

    /// Takes in how a write ended.
    pub fn learn(&mut self, report: Report, now: Now) {
        match report {
            Report::Bound(uid) => {
                let began = self.binding.remove(&uid);
                self.metrics.bound(began.map(|began| now.since_start.saturating_sub(began)));
                self.world.confirm(&uid);
            }
            Report::NotBound(uid, why) => {
                self.binding.remove(&uid);
                self.metrics.not_bound(why);
                tracing::warn!(pod = %uid, why, "not bound");
                self.world.refuse_bind(&uid, why, now.since_start, |failures| BIND_BACKOFF.delay(failures));
            }
            Report::Told(subject, told) => {
                if let Told::Failed(why) = told {
                    tracing::debug!(?subject, why, "not told");
                }
                self.said.done(&subject, &told, now.since_start);
            }
        }
    }

    /// Whether [`tick`](Self::tick) would run a cycle now.
    #[must_use]
    pub fn has_work(&self, now: Now) -> bool {
        self.decides() && self.world.has_work(now.since_start)
    }

    /// Decides, if anything is to be decided, and says what is to be written now.
    pub fn tick(&mut self, now: Now) -> Vec<Command> {
        self.watch_overcommit();
        if !self.decides() {
            return Vec::new();
        }
        let mut commands = Vec::new();
        if self.world.has_work(now.since_start) {
            let plan = cycle::run(&mut self.world, self.policy, now.since_start);
            for key in &plan.looked_at {
                let phase = self.world.groups().get(key).and_then(|group| Some(status::phase(group, group.facts.as_ref()?)));
                self.world.file(key, phase);
                self.said.group_changed(key, &self.world, now.since_start);
            }
            for bind in plan.binds {
                self.binding.insert(bind.uid.clone(), now.since_start);
                commands.push(Command::Bind(bind));
            }
            self.metrics.pending_groups.set(count(self.world.backlog().len()));
        }
        let dirty = self.world.take_dirty();
        dirty.queues.iter().for_each(|queue| self.said.queue_changed(queue, now.since_start));
        dirty.pods.iter().for_each(|uid| self.said.pod_changed(uid, &self.world, now.since_start));
        self.metrics.pending_pods.set(count(self.world.waiting_pods()));
        self.said.due(&self.world, now, &mut commands);
        self.audit_sometimes(now.since_start);
        commands
    }

    /// When [`tick`](Self::tick) is to be called again although nothing happens; none when nothing is waited for.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        if !self.decides() {
            return None;
        }
        self.world.next_retry().into_iter().chain(self.said.next()).min()
    }

    fn make_queues(&mut self, now: Now) {
        if !self.decides() {
            return;
        }
        for name in MADE.into_iter().filter(|name| !self.world.queues().contains_key(*name)) {
            self.said.queue_changed(&Arc::from(name), now.since_start);
        }
    }

    fn watch_overcommit(&mut self) {
        let changes = self.overcommit.look(self.world.nodes(), self.world.books().ledger());
        for (name, over) in changes {
            match over {
                Some(over) => tracing::warn!(node = %name, over = %over, "overcommitted: takes no pod that asks for these"),
                None => tracing::info!(node = %name, "not overcommitted any more"),
            }
        }
        self.metrics.overcommitted_nodes.set(count(self.overcommit.len()));
    }

    fn audit_sometimes(&mut self, now: Duration) {
        if self.audited.is_some_and(|last| now.saturating_sub(last) < AUDIT_EVERY) {
            return;
        }
        self.audited = Some(now);
        let report = self.world.books().audit();
        self.metrics.audit_differences.set(count(report.differences.len()));
        if !report.is_clean() {
            tracing::error!(differences = ?report.differences, "the books do not agree with a recount");
        }
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The subject of a command, under which its end is reported; binds are reported by their pod.
#[must_use]
pub fn subject(command: &Command) -> Option<Subject> {
    match command {
        Command::Bind(_) => None,
        Command::Group { key, .. } => Some(Subject::Group(key.clone())),
        Command::Queue { name, .. } | Command::MakeQueue { name } => Some(Subject::Queue(Arc::clone(name))),
        Command::Pod { uid, .. } => Some(Subject::Pod(uid.clone())),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
