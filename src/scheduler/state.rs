//! What does the scheduler know, and what is to be done now? The one owner of all state.
//!
//! No task, no channel, no lock and no clock: events go in by [`State::apply`] and [`State::learn`], time comes as an argument, and
//! [`State::tick`] answers with the writes that are due. Everything that is decided is decided there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::accounting::AuditReport;
use crate::api::Uid;
use crate::cycle::policy::Policy;
use crate::cycle::world::World;
use crate::cycle::{self, status};
use crate::runtime::backoff::Backoff;
use crate::runtime::flags::QueueStatusBy;

use super::command::{Command, MADE};
use super::event::{Event, Report, Subject, Told};
use super::frozen;
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
pub(super) enum Kind {
    Nodes,
    Pods,
    Groups,
    Queues,
    PriorityClasses,
    Budgets,
}

/// How many kinds there are.
const KINDS: usize = 6;

/// All that the scheduler knows.
#[derive(Debug)]
pub struct State {
    pub(super) world: World,
    pub(super) said: Said,
    policy: Policy,
    pub(super) complete: BTreeSet<Kind>,
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
    pub fn new(schedulers: impl IntoIterator<Item = String>, policy: Policy, metrics: Metrics) -> Self {
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

    /// The same, with this rule for the status of queues; it is to be said before anything is taken in.
    #[must_use]
    pub fn with_queue_status(mut self, by: QueueStatusBy) -> Self {
        self.said.queue_status_by = by;
        self
    }

    /// From now on it is us who decide.
    pub fn lead(&mut self, now: Now) {
        let decided = self.decides();
        self.leading = true;
        self.notice_beginning(decided, now);
    }

    /// Whether anything may be decided: the lists are complete, and it is us.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.leading && self.complete.len() == KINDS
    }

    /// Takes in what happened in the cluster. Questions are answered at once.
    pub fn apply(&mut self, event: Event, now: Now) {
        self.metrics.unreadable.inc_by(u64::try_from(event.unreadable()).unwrap_or(u64::MAX));
        let decided = self.decides();
        match event {
            Event::Nodes(change) => self.apply_nodes(change),
            Event::Pods(change) => self.apply_pods(change),
            Event::Groups(change) => self.apply_groups(change),
            Event::Queues(change) => self.apply_queues(change, now),
            Event::PriorityClasses(change) => self.apply_priority_classes(change),
            Event::Budgets(change) => self.apply_budgets(change),
            Event::Ask(question, reply) => {
                // Who asked may have gone away meanwhile.
                let _gone = reply.send(super::debug::answer(self, question));
            }
            // Who asked has given up.
            Event::Freeze(reply) if reply.is_closed() => {}
            Event::Freeze(reply) => {
                let _gone = reply.send(frozen::freeze(self));
            }
        }
        self.notice_beginning(decided, now);
    }

    /// Calls [`begin_deciding`](Self::begin_deciding) if the last list or the lease has just come. `decided` is what [`decides`](Self::decides) said before.
    fn notice_beginning(&mut self, decided: bool, now: Now) {
        if !decided && self.decides() {
            self.begin_deciding(now);
        }
    }

    /// All that follows from "the lists are complete, and this replica leads", whichever of them came last.
    fn begin_deciding(&mut self, now: Now) {
        self.make_missing_queues(now);
    }

    /// Makes `root` and `default` where they are missing.
    pub(super) fn make_missing_queues(&mut self, now: Now) {
        for name in MADE.into_iter().filter(|name| !self.world.queues().contains_key(*name)) {
            self.said.queue_changed(&Arc::from(name), now.since_start);
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
            Report::Unanswered(uid, why) => {
                tracing::warn!(pod = %uid, why, "nobody says whether it is bound");
                self.world.bind_unanswered(&uid, why);
            }
            Report::Evicted(taken) => self.metrics.evicted(&taken),
            Report::NotEvicted(taken, why) => {
                self.metrics.evicted(&taken);
                self.metrics.not_evicted(why);
                taken.stays.iter().for_each(|uid| self.world.back_off_eviction(uid, now.since_start));
                self.world.refuse_eviction(&taken.group, taken.nomination, why);
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
            self.world.stand_by();
            return Vec::new();
        }
        let mut commands = Vec::new();
        if self.world.has_work(now.since_start) {
            let plan = cycle::run(&mut self.world, &self.policy, now.since_start);
            for key in &plan.tried {
                let group = self.world.groups().get(key);
                if let Some(why) = group.filter(|group| group.refusal.is_some()).map(frozen::why) {
                    self.metrics.refused(why.code);
                }
                let phase = group.and_then(|group| Some(status::phase(group, group.facts.as_ref()?)));
                self.world.file(key, phase);
                self.said.group_changed(key, &self.world, now.since_start);
            }
            for bind in plan.binds {
                self.binding.insert(bind.uid.clone(), now.since_start);
                commands.push(Command::Bind(bind));
            }
            let withdrawn = self.world.take_withdrawn().into_iter().map(|nomination| Command::Desist { nomination });
            commands.extend(withdrawn);
            let evictions = plan.evictions.into_iter().filter(|eviction| !eviction.victims.is_empty());
            commands.extend(evictions.map(|eviction| Command::Evict { eviction, now: now.wall }));
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
        self.world.next_attempt().into_iter().chain(self.said.next()).min()
    }

    fn watch_overcommit(&mut self) {
        let changes = self.overcommit.look(&self.world);
        for (name, over) in changes {
            match over {
                Some(over) => tracing::warn!(node = %name, over = %over, "overcommitted: takes no pod that asks for these"),
                None => tracing::info!(node = %name, "not overcommitted any more"),
            }
        }
        self.metrics.overcommitted_nodes.set(count(self.overcommit.len()));
    }

    /// Recounts the books, and shows how much differs.
    pub(super) fn recount(&self) -> AuditReport {
        let report = self.world.books().audit();
        self.metrics.audit_differences.set(count(report.differences.len()));
        report
    }

    fn audit_sometimes(&mut self, now: Duration) {
        if self.audited.is_some_and(|last| now.saturating_sub(last) < AUDIT_EVERY) {
            return;
        }
        self.audited = Some(now);
        let report = self.recount();
        if !report.is_clean() {
            tracing::error!(differences = ?report.differences, "the books do not agree with a recount");
        }
    }
}

/// For a gauge.
fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The subject of a command, under which its end is reported; binds are reported by their pod, evictions by their group.
#[must_use]
pub fn subject(command: &Command) -> Option<Subject> {
    match command {
        Command::Bind(_) | Command::Evict { .. } | Command::Desist { .. } => None,
        Command::Group { key, .. } => Some(Subject::Group(key.clone())),
        Command::Queue { name, .. } | Command::QueueEvent { name, .. } | Command::MakeQueue { name } => {
            Some(Subject::Queue(Arc::clone(name)))
        }
        Command::Pod { uid, .. } => Some(Subject::Pod(uid.clone())),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
