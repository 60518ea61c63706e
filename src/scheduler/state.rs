//! The owner of the scheduler's state: it takes in events and returns the writes that are due.
//!
//! It has no task, channel, lock or clock. [`State::apply`] takes in cluster events, and [`State::learn`] takes in the outcomes of writes.
//! [`State::tick`] makes the decisions and returns the writes that are due. The time is an argument.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::accounting::AuditReport;
use crate::api::{GroupKey, Uid};
use crate::backoff::Backoff;
use crate::cycle::plan::{EvictionCause, Plan};
use crate::cycle::policy::Policy;
use crate::cycle::state::SchedulingState;
use crate::cycle::{self, cache::phase::phase};
use crate::runtime::call::NAMESPACE_TERMINATING;
use crate::runtime::flags::QueueStatusBy;

use super::command::{Command, MADE};
use super::event::{Event, Fenced, Report, Subject, WriteOutcome};
use super::kinds::Kind;
use super::metrics::Metrics;
use super::metrics::queue_snapshot::{self, QueueSnapshot};
use super::overcommit::Overcommit;
use super::slips::Slips;
use super::statuses::StatusWriter;
use super::takeover::{FenceAnswer, Handover, Stage, Takeover};
use super::view::View;

/// The back-off of a PodGroup after a refused bind.
const BIND_BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// The least time between two audits. The cost of an audit grows with the number of pods.
const AUDIT_EVERY: Duration = Duration::from_secs(60);

/// The current time by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, for statuses and Events.
    pub wall: Timestamp,
    /// The time since the start of the program, for durations. It also runs while the machine is suspended.
    pub since_start: Duration,
}

/// A binding under way, as it was decided: the watch may show the pod on its node before the API server's answer is taken in.
#[derive(Debug)]
struct Binding {
    /// When it was decided.
    decided: Duration,
    /// When the pod was created.
    created: Timestamp,
    /// The queue that it is charged to.
    queue: Arc<str>,
}

/// The state of the scheduler.
#[derive(Debug)]
pub struct State {
    pub(super) scheduling: SchedulingState,
    pub(super) status_writer: StatusWriter,
    policy: Policy,
    pub(super) takeover: Takeover,
    pub(super) view: View,
    /// The bindings under way.
    binding: BTreeMap<Uid, Binding>,
    /// The PodGroups for which pods are preempted, each with the time of the first decision.
    preempting: BTreeMap<GroupKey, Duration>,
    overcommit: Overcommit,
    pub(super) slips: Slips,
    audited: Option<Duration>,
    pub(super) metrics: Metrics,
}

impl State {
    /// Creates an empty state that serves the pods of `schedulers`.
    #[must_use]
    pub fn new(schedulers: impl IntoIterator<Item = String>, policy: Policy, metrics: Metrics) -> Self {
        Self {
            scheduling: SchedulingState::new(schedulers),
            status_writer: StatusWriter::new(),
            policy,
            takeover: Takeover::standby(),
            view: View::default(),
            binding: BTreeMap::new(),
            preempting: BTreeMap::new(),
            overcommit: Overcommit::default(),
            slips: Slips::default(),
            audited: None,
            metrics,
        }
    }

    /// Sets which program owns state and counts in the status of queues. Call it before the first event.
    #[must_use]
    pub fn with_queue_status(mut self, by: QueueStatusBy) -> Self {
        self.status_writer.queue_status_by = by;
        self
    }

    /// Marks this replica as the leader. `generation` is that of the lists which were requested after the lease was won.
    pub fn lead(&mut self, handover: Handover, generation: u64, now: Now) {
        let decided = self.decides();
        self.takeover.won(handover, generation);
        self.start_deciding_when_ready(decided, now);
    }

    /// Returns whether the scheduler may decide: this replica leads, and its takeover is complete.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.takeover.is_complete()
    }

    /// Takes in one event. Debug questions are answered at once.
    pub fn apply(&mut self, event: Event, now: Now) {
        self.metrics.unreadable.inc_by(u64::try_from(event.unreadable()).unwrap_or(u64::MAX));
        let decided = self.decides();
        if let Some((kind, as_of)) = event.known() {
            self.view.known(kind, as_of);
        }
        if let Some(generation) = event.went_back()
            && self.view.went_back(generation)
        {
            self.scheduling.doubt_binds();
        }
        match event {
            Event::Changed(change) => change.apply(self, now),
            // Done above.
            Event::WentBack(_) => {}
            Event::Ask(question, reply) => {
                // The client may have closed the request.
                let _gone = reply.send(super::debug::answer(self, question, now.since_start));
            }
            // The request timed out.
            Event::QueueSnapshot(reply) if reply.is_closed() => {}
            Event::QueueSnapshot(reply) => {
                let _gone = reply.send(QueueSnapshot::of(self));
            }
        }
        self.start_deciding_when_ready(decided, now);
    }

    /// Records a complete list of this generation.
    pub(super) fn listed(&mut self, kind: Kind, generation: u64) {
        self.takeover.listed(kind, generation);
        self.view.listed(kind, generation);
    }

    /// Calls [`start_deciding`](Self::start_deciding) when the takeover has just become complete. `decided` is the earlier result of
    /// [`decides`](Self::decides).
    fn start_deciding_when_ready(&mut self, decided: bool, now: Now) {
        if !decided && self.decides() {
            self.start_deciding(now);
        }
    }

    /// Does what follows once the takeover is complete.
    fn start_deciding(&mut self, now: Now) {
        tracing::info!(waiting = self.scheduling.cache().waiting_pods(), "the takeover is complete; deciding");
        self.scheduling.read_nominations();
        self.scheduling.cache().queues().keys().for_each(|queue| self.metrics.waiting_times.queue_known(queue));
        self.make_missing_queues(now);
    }

    /// Creates the queues `root` and `default` if they are missing.
    pub(super) fn make_missing_queues(&mut self, now: Now) {
        for name in MADE.into_iter().filter(|name| !self.scheduling.cache().queues().contains_key(*name)) {
            self.status_writer.queue_changed(&Arc::from(name), now.since_start);
        }
    }

    /// Takes in the outcome of a write.
    pub fn learn(&mut self, report: Report, now: Now) {
        let decided = self.decides();
        match report {
            Report::Fenced(fenced) => self.take_fence(&fenced),
            Report::Bound(uid) => {
                let binding = self.binding.remove(&uid);
                self.metrics.bound(binding.as_ref().map(|binding| now.since_start.saturating_sub(binding.decided)));
                if let Some(binding) = binding {
                    self.record_wait(&binding, now);
                }
                self.scheduling.confirm(&uid);
            }
            Report::NotBound(uid, reason) => {
                self.binding.remove(&uid);
                self.metrics.not_bound(reason);
                tracing::warn!(pod = %uid, reason, "the pod was not bound");
                self.scheduling.refuse_bind(&uid, reason, now.since_start, |failures| BIND_BACKOFF.delay(failures));
            }
            Report::Unanswered(uid, reason) => {
                tracing::warn!(pod = %uid, reason, "the outcome of the binding is unknown");
                self.scheduling.bind_unanswered(&uid, reason);
            }
            Report::SendAgain(bind, reply) => {
                let holds = decided && self.view.check(now.since_start) && self.scheduling.would_bind_again(&bind);
                // The dispatcher may have ended.
                let _ended = reply.send(holds);
            }
            Report::Tied(claim) => {
                tracing::debug!(claim = %claim.name, namespace = %claim.namespace, "the claim is tied to its volume or node")
            }
            Report::NotTied(binding, claim, reason) => self.scheduling.refuse_volume(binding, &claim, reason),
            Report::Evicted(progress) => self.metrics.evicted(&progress),
            Report::NotEvicted(progress, reason) => {
                self.metrics.evicted(&progress);
                self.metrics.not_evicted(reason);
                match &progress.refused_pod {
                    Some(uid) if reason == NAMESPACE_TERMINATING => self.scheduling.back_off_evictions_beside(uid, now.since_start),
                    Some(uid) => self.scheduling.back_off_eviction(uid, now.since_start),
                    None => {}
                }
                self.scheduling.refuse_eviction(&progress.group, progress.nomination, reason);
            }
            Report::Written(subject, outcome) => {
                if let WriteOutcome::Failed(reason) = outcome {
                    tracing::debug!(?subject, reason, "the status was not written");
                }
                // A binding with the version before this write would be refused, and sent twice.
                if let (Subject::Pod(uid), WriteOutcome::Written { resource_version }) = (&subject, &outcome) {
                    self.scheduling.pod_version(uid, resource_version.parse().unwrap_or(0));
                }
                self.status_writer.done(&subject, &outcome, now.since_start);
            }
        }
        self.start_deciding_when_ready(decided, now);
    }

    /// Records how long a pod waited that was just bound. The clock of this machine can be behind that of the API server.
    fn record_wait(&self, binding: &Binding, now: Now) {
        let waited = Duration::try_from(now.wall.duration_since(binding.created)).unwrap_or_default();
        let exists = self.scheduling.cache().queues().contains_key(&binding.queue);
        self.metrics.waiting_times.bound(Some(&binding.queue).filter(|_| exists), waited);
    }

    /// Takes in the outcome of a fence. A pod that turned out to be bound is waited for until the watch shows it.
    fn take_fence(&mut self, fenced: &Fenced) {
        self.takeover.answered(&fenced.uid, fenced.answer);
        let pods = self.scheduling.cache().pods();
        if pods.get(&fenced.uid).is_none_or(|member| member.facts.node.is_some()) {
            self.takeover.shown(&fenced.uid);
        } else if fenced.answer == FenceAnswer::Fenced {
            self.scheduling.pod_version(&fenced.uid, fenced.resource_version);
        }
    }

    /// Returns the fences of all pods of ours that an earlier leader can have sent a binding for, once it is time for them. The API server binds no
    /// pod that is being deleted or has scheduling gates, and the removal of a gate changes the pod.
    fn fences(&mut self, now: Now) -> Vec<Command> {
        if self.takeover.stage() != Stage::Fence {
            return Vec::new();
        }
        let pods = self.scheduling.cache().pods();
        let unbound = pods.values().map(|member| &member.facts);
        let unbound = unbound.filter(|facts| facts.node.is_none() && !facts.deleting && !facts.phase.ended() && !facts.gated);
        let uids = self.takeover.fence(unbound.map(|facts| facts.uid.clone()));
        let fence = |uid: &Uid| {
            let facts = &pods.get(uid)?.facts;
            let (namespace, name) = (Arc::clone(&facts.namespace), Arc::clone(&facts.name));
            Some(Command::Fence { namespace, name, uid: uid.clone(), since: (!facts.fenced).then_some(now.wall) })
        };
        let fences: Vec<Command> = uids.iter().filter_map(fence).collect();
        tracing::info!(
            pods = fences.len(),
            "an earlier leader may have bindings under way; changing each pod that has no node, so that they are refused"
        );
        fences
    }

    /// Returns whether [`tick`](Self::tick) would run a cycle now.
    #[must_use]
    pub fn has_work(&self, now: Now) -> bool {
        self.decides() && self.view.trouble(now.since_start).is_none() && self.scheduling.has_work(now.since_start)
    }

    /// Runs a cycle if there is work, and returns the writes that are due.
    pub fn tick(&mut self, now: Now) -> Vec<Command> {
        self.watch_overcommit();
        let decided = self.decides();
        let mut commands = self.fences(now);
        self.start_deciding_when_ready(decided, now);
        if !self.decides() {
            self.scheduling.stand_by(now.since_start, self.policy.admission_timeout);
            return commands;
        }
        if self.view.check(now.since_start) && self.scheduling.has_work(now.since_start) {
            let plan = cycle::run(&mut self.scheduling, &self.policy, now.since_start);
            for key in &plan.tried {
                let group = self.scheduling.cache().groups().get(key);
                if let Some(cause) = group.filter(|group| group.refusal.is_some()).map(queue_snapshot::cause_of) {
                    self.metrics.refused(cause.code);
                }
                let phase = group.and_then(|group| Some(phase(group, group.facts.as_ref()?)));
                self.scheduling.file(key, phase);
                self.status_writer.group_changed(key, &self.scheduling, now.since_start);
            }
            for group in &plan.nominated_again {
                tracing::info!(%group, "the nomination of an earlier leader is made again: its members name nodes that others are leaving");
            }
            self.time_preemptions(&plan, now.since_start);
            for bind in plan.binds {
                if let Some(pod) = self.scheduling.cache().pods().get(&bind.uid) {
                    let binding = Binding { decided: now.since_start, created: pod.facts.created, queue: Arc::clone(&bind.queue) };
                    self.binding.insert(bind.uid.clone(), binding);
                }
                commands.push(Command::Bind(bind));
            }
            commands.extend(plan.volumes.into_iter().map(Command::Volume));
            let withdrawn = self.scheduling.take_withdrawn().into_iter().map(|nomination| Command::StopEvictions { nomination });
            commands.extend(withdrawn);
            let evictions = plan.evictions.into_iter().filter(|eviction| !eviction.victims.is_empty());
            commands.extend(evictions.map(|eviction| Command::Evict { eviction, now: now.wall }));
            self.metrics.pending_groups.set(count(self.scheduling.backlog().len()));
        }
        let dirty = self.scheduling.take_dirty();
        dirty.queues.iter().for_each(|queue| self.status_writer.queue_changed(queue, now.since_start));
        dirty.groups.iter().for_each(|key| self.status_writer.group_changed(key, &self.scheduling, now.since_start));
        dirty.pods.iter().for_each(|uid| self.status_writer.pod_changed(uid, &self.scheduling, now.since_start));
        self.metrics.pending_pods.set(count(self.scheduling.cache().waiting_pods()));
        self.status_writer.due(&self.scheduling, now, &mut commands);
        commands.extend(self.slips.due(now));
        self.audit_sometimes(now.since_start);
        commands
    }

    /// Records how long it took to preempt for the PodGroups that have nodes now.
    fn time_preemptions(&mut self, plan: &Plan, now: Duration) {
        let preempts = plan.evictions.iter().filter(|eviction| eviction.cause != EvictionCause::Release);
        preempts.for_each(|eviction| _ = self.preempting.entry(eviction.group.clone()).or_insert(now));
        for began in plan.binds.iter().filter_map(|bind| self.preempting.remove(&bind.group)) {
            self.metrics.preempted(now.saturating_sub(began));
        }
        self.preempting.retain(|key, _| self.scheduling.nominated(key).is_some());
    }

    /// Returns when [`tick`](Self::tick) must be called again without an event; `None` if no timer is set.
    #[must_use]
    pub fn next(&self, now: Duration) -> Option<Duration> {
        if !self.decides() {
            return None;
        }
        // On a view that is not good no timer leads to a decision.
        let attempt = self.scheduling.next_attempt().filter(|_| self.view.was_good());
        attempt.into_iter().chain(self.status_writer.next(now)).chain(self.slips.next()).min()
    }

    fn watch_overcommit(&mut self) {
        let changes = self.overcommit.update(&self.scheduling);
        for (name, over) in changes {
            match over {
                Some(over) => {
                    tracing::warn!(node = %name, over = %over, "the node is overcommitted: it takes no pod that requests these resources")
                }
                None => tracing::info!(node = %name, "the node is no longer overcommitted"),
            }
        }
        self.metrics.overcommitted.show(self.overcommit.nodes());
    }

    /// Recounts the accounting and publishes the number of differences.
    pub(super) fn recount(&self) -> AuditReport {
        let report = self.scheduling.cache().accounting().audit();
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
            tracing::error!(differences = ?report.differences, "the audit found differences between the accounting and a recount");
        }
    }
}

/// Converts a count for a gauge.
fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the subject under which the outcome of a command is reported.
///
/// Binds are reported by their pod and evictions by their PodGroup.
#[must_use]
pub fn subject(command: &Command) -> Option<Subject> {
    match command {
        Command::Bind(_) | Command::Volume(_) | Command::Fence { .. } | Command::Evict { .. } | Command::StopEvictions { .. } => None,
        Command::Group { key, .. } => Some(Subject::Group(key.clone())),
        Command::Queue { name, .. } | Command::QueueEvent { name, .. } | Command::MakeQueue { name } => {
            Some(Subject::Queue(Arc::clone(name)))
        }
        Command::Pod { uid, .. } => Some(Subject::Pod(uid.clone())),
        Command::PodEvent { uid, .. } | Command::MisnamedPod { uid, .. } => Some(Subject::PodEvent(uid.clone())),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
