//! Runs the loop of the controller: observe, snapshot, decide, act, learn.
//!
//! One task owns the cache, the memory of every PodGroup and the queue of keys. There is no lock, and no other task decides.
//!
//! 1. An event of a watch changes the cache and adds the affected keys to the queue.
//! 2. A key from the queue starts an [`Attempt`]. At most one step of a key is under way.
//! 3. A task of the pool carries out the step and returns the answer.
//! 4. The loop learns from the answer and decides again, until the decision is [`Step::Wait`].

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{GroupKey, Uid};
use crate::backoff::Backoff;
use crate::lifecycle::{Answer, CacheChange, Members, Situation, Step, Version, Warning, decide, warnings};
use crate::runtime::clock;
use crate::runtime::lanes::Slots;
use crate::runtime::leader::Leadership;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::watch::WatchEvent;
use crate::runtime::watchdog::Watchdog;
use crate::runtime::workqueue::WorkQueue;

use super::act::Actor;
use super::group_state::{Attempt, GroupState, MemberWait, log_answer};
use super::metrics::ControllerMetrics;
use super::observed::{GroupSnapshot, Observation, Observed, PodRef};

/// The most steps of one attempt. Create, read, amend and the three steps of retirement are six. More means that another writer changes the PodGroup
/// all the time, and the key waits for its back-off.
const MAX_STEPS_PER_ATTEMPT: u8 = 8;

/// The result of one task of the pool.
enum TaskResult {
    /// The step was carried out. `known` is the version of the PodGroup that the step was decided on; `None` if there was none.
    Step { attempt: Box<Attempt>, step: Box<Step>, known: Option<Version>, answer: Box<Answer> },
    /// The Events for these warnings were sent. `written` is true if every one of them is done.
    EventsWritten { attempt: Box<Attempt>, warnings: BTreeSet<Warning>, written: bool },
    /// The pods `tried` were to be annotated with their PodGroup. `stamped` are the UIDs of those that succeeded.
    PodsStamped { attempt: Box<Attempt>, tried: Vec<PodRef>, stamped: Vec<Uid> },
}

/// The settings of the reconciler, from the flags.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The number of steps that are carried out at the same time.
    pub workers: usize,
    /// Whether pods without the group-name annotation get it (`--annotate-pods`).
    pub annotate_pods: bool,
}

/// Owns the whole state of the controller and runs its loop.
pub struct Reconciler {
    observed: Observed,
    states: HashMap<GroupKey, GroupState>,
    queue: WorkQueue<GroupKey>,
    pool: JoinSet<TaskResult>,
    actor: Arc<Actor>,
    settings: Settings,
    metrics: ControllerMetrics,
    started: bool,
}

impl Reconciler {
    /// Returns a reconciler with an empty cache.
    #[must_use]
    pub fn new(schedulers: &[String], actor: Actor, settings: Settings, metrics: ControllerMetrics) -> Self {
        Self {
            observed: Observed::new(schedulers),
            states: HashMap::new(),
            queue: WorkQueue::with_lanes(
                Backoff::new(Duration::from_millis(50), Duration::from_secs(30)),
                Slots::of(settings.workers),
                |key: &GroupKey| Arc::clone(&key.namespace),
            ),
            pool: JoinSet::new(),
            actor: Arc::new(actor),
            settings,
            metrics,
            started: false,
        }
    }

    /// Runs until shutdown. Writes only while this process leads, and only after every list is complete.
    pub async fn run(mut self, mut events: mpsc::Receiver<Observation>, leadership: Leadership, watchdog: Watchdog, stop: Shutdown) {
        let mut leading = false;
        let mut election = leadership.clone();
        loop {
            watchdog.progress();
            self.start_if_ready(leading);
            let room = self.started && self.pool.len() < self.settings.workers;
            tokio::select! {
                biased;
                () = stop.triggered() => break,
                Some(result) = self.pool.join_next(), if !self.pool.is_empty() => {
                    match result {
                        Ok(result) => self.learn(result, &leadership),
                        Err(error) => tracing::error!(%error, "a reconcile task panicked; its PodGroup is retried after a back-off"),
                    }
                }
                observation = events.recv() => match observation {
                    Some(observation) => self.observe(observation),
                    None => break,
                },
                acquired = election.acquired(), if !leading => {
                    // The election ended and this process does not lead: it will never write.
                    if acquired.is_none() {
                        break;
                    }
                    leading = true;
                }
                () = watchdog.probed() => {}
                work = self.queue.next(), if room => self.take_next_step(Box::new(Attempt::new(work)), &leadership),
            }
            self.metrics.queue_depth(self.queue.len());
        }
        // A write that is under way may succeed or not. The next leader reads the result.
        self.pool.shutdown().await;
    }

    /// Updates the cache with one observation and enqueues the affected PodGroups.
    fn observe(&mut self, observation: Observation) {
        let relisted = matches!(&observation, Observation::Group(WatchEvent::Reset { .. }));
        if matches!(&observation, Observation::WentBack(_)) {
            self.started = false;
        }
        if matches!(&observation, Observation::WentBack(_) | Observation::Group(WatchEvent::Reset { back: true, .. })) {
            self.states.values_mut().for_each(|state| state.memory.observe(CacheChange::WentBack));
        }
        for affected in self.observed.take(observation) {
            let key = affected.key().clone();
            if !key.is_generated() {
                continue;
            }
            if let Some(state) = self.states.get_mut(&key) {
                let change = affected.cache_change();
                if change == CacheChange::Member {
                    state.member_wait = MemberWait::default();
                }
                state.memory.observe(change);
            }
            if self.started {
                self.enqueue(key);
            }
        }
        if relisted {
            self.recheck_unlisted_groups();
        }
    }

    /// Enqueues every known key as soon as every list is complete and this process leads, and again when the cluster went back. Before that
    /// the queue stays empty: a process that never leads would otherwise remember every key that ever existed.
    fn start_if_ready(&mut self, leading: bool) {
        if self.started || !leading || !self.observed.is_complete() {
            return;
        }
        self.started = true;
        let keys = self.observed.keys();
        tracing::info!(groups = keys.len(), "every list is complete and this process leads; starting");
        for key in keys {
            self.enqueue(key);
        }
    }

    /// Adds a PodGroup to the queue. If the PodGroup is missing, its creation time is measured from now.
    fn enqueue(&mut self, key: GroupKey) {
        if self.observed.group(&key).is_none() {
            self.states.entry(key.clone()).or_default().missing_since.get_or_insert_with(clock::monotonic);
        }
        self.queue.add(key);
    }

    /// Enqueues the remembered PodGroups that a new complete list does not contain. Such a PodGroup may have been created and deleted
    /// between two lists, and then no event says so.
    fn recheck_unlisted_groups(&mut self) {
        let observed = &self.observed;
        for (key, state, present) in self.states.iter_mut().map(|(key, state)| (key, state, observed.group(key).is_some())) {
            state.memory.observe(CacheChange::Relisted { present });
            if !present {
                self.queue.add(key.clone());
            }
        }
    }

    /// Decides the next step of this attempt. Starts a task for it, or ends the attempt.
    fn take_next_step(&mut self, mut attempt: Box<Attempt>, leadership: &Leadership) {
        if attempt.steps >= MAX_STEPS_PER_ATTEMPT || !leadership.is_leading() || !self.started {
            attempt.failing = true;
            attempt.finish();
            return;
        }
        let key = attempt.key.clone();
        let snapshot = self.observed.snapshot(&key);
        let state = self.states.entry(key.clone()).or_default();
        let situation = Situation {
            owner: snapshot.owner.known(),
            members: snapshot.members,
            cached: snapshot.cached.as_ref(),
            pods_elsewhere: snapshot.pods_elsewhere,
            memory: &state.memory,
        };
        let step = decide(&situation);
        if let Some(left) = state.retirement_delay(&step, snapshot.awaits_webhook_pods, clock::monotonic()) {
            attempt.requeue_after(left);
            return;
        }
        if let Some(left) = state.refusal_delay(&step, clock::monotonic()) {
            attempt.requeue_after(left);
            return;
        }
        let existing = state.memory.freshest(snapshot.cached.as_ref()).cloned();
        attempt.again = state.recreation_delay(&key, &step, existing.as_ref(), clock::monotonic());
        if attempt.again.is_some() {
            self.conclude(attempt, &snapshot);
            return;
        }
        if step == Step::Wait {
            state.refusal = None;
            state.missing_since = None;
            self.conclude(attempt, &snapshot);
            return;
        }
        attempt.steps = attempt.steps.saturating_add(1);
        let known = existing.map(|existing| existing.version().clone());
        let actor = Arc::clone(&self.actor);
        self.pool.spawn(async move {
            let answer = Box::new(actor.carry_out(&key, &step, snapshot.selector.as_deref()).await);
            TaskResult::Step { attempt, step: Box::new(step), known, answer }
        });
    }

    /// Ends an attempt when the PodGroup needs no write now, or cannot be written now.
    ///
    /// What is left to do, in this order: write Events for new warnings, annotate pods, and forget the PodGroup if nothing is left of it.
    fn conclude(&mut self, attempt: Box<Attempt>, snapshot: &GroupSnapshot) {
        let key = attempt.key.clone();
        let state = self.states.entry(key.clone()).or_default();
        // Where another release serves that name, there is a PodGroup.
        let is_there = state.memory.freshest(snapshot.cached.as_ref()).is_some();
        let misnamed = snapshot.misnamed.as_ref().filter(|_| !is_there);
        let misnamed_due = state.misnamed_delay(misnamed.is_some(), clock::monotonic());
        let existing = state.memory.freshest(snapshot.cached.as_ref());
        let found: BTreeSet<Warning> = snapshot
            .owner
            .desired()
            .into_iter()
            .flat_map(|desired| {
                let refused = state.refusal_to_report(clock::monotonic());
                warnings(desired, existing, refused, state.recreations.to_report(clock::monotonic()))
            })
            .chain(misnamed.filter(|_| misnamed_due.is_some_and(|left| left.is_zero())).map(|(warning, _)| warning.clone()))
            .collect();
        let new: Vec<Warning> = found.difference(&state.reported).cloned().collect();
        let actor = Arc::clone(&self.actor);
        if !new.is_empty() {
            let slip = snapshot.misnamed.clone();
            self.pool.spawn(async move {
                let mut written = true;
                for warning in &new {
                    written &= match slip.as_ref().filter(|(of_name, _)| of_name == warning) {
                        Some((_, scheduler)) => actor.write_event_of_slip(warning, scheduler).await,
                        None => actor.write_event(warning).await,
                    };
                }
                TaskResult::EventsWritten { attempt, warnings: found, written }
            });
            return;
        }
        let existing_is_none = existing.is_none();
        state.reported = found;
        let unnamed: Vec<PodRef> = snapshot.unstamped.iter().chain(snapshot.mislabelled.iter().map(|(pod, _)| pod)).cloned().collect();
        let to_stamp = if self.settings.annotate_pods && !attempt.failing { state.pods_to_stamp(&unnamed) } else { Vec::new() };
        let elsewhere: HashMap<Uid, GroupKey> = snapshot.mislabelled.iter().map(|(pod, named)| (pod.uid.clone(), named.clone())).collect();
        if !to_stamp.is_empty() {
            self.pool.spawn(async move {
                let mut stamped = Vec::new();
                for pod in &to_stamp {
                    let written = match elsewhere.get(&pod.uid) {
                        Some(named) => actor.label(pod, named).await,
                        None => actor.stamp(pod, &key).await,
                    };
                    if written {
                        stamped.push(pod.uid.clone());
                    }
                }
                TaskResult::PodsStamped { attempt, tried: to_stamp, stamped }
            });
            return;
        }
        if let Some(wait) = state.member_delay(clock::monotonic()) {
            attempt.requeue_after(wait);
            return;
        }
        if let Some(wait) = misnamed_due.filter(|left| !left.is_zero()) {
            attempt.requeue_after(wait);
            return;
        }
        let is_told = snapshot.misnamed.is_some();
        if snapshot.owner.desired().is_none()
            && existing_is_none
            && snapshot.cached.is_none()
            && snapshot.members == Members::None
            && !is_told
        {
            self.states.remove(&key);
        }
        attempt.finish();
    }

    /// Learns from the result of a task and goes on with its attempt.
    fn learn(&mut self, result: TaskResult, leadership: &Leadership) {
        match result {
            TaskResult::Step { mut attempt, step, known, answer } => {
                let key = attempt.key.clone();
                log_answer(&key, &step, &answer);
                self.metrics.step(&step, &answer);
                let state = self.states.entry(key.clone()).or_default();
                state.log_refused_delete(&key, &step, &answer);
                if let (Step::Create(_), Answer::Exists(existing)) = (&*step, &*answer) {
                    // The watch may have shown its deletion already. The next decision then does not see it.
                    state.recreations.seen(Some(existing));
                    if let Some(since) = state.missing_since.take() {
                        self.metrics.created(clock::monotonic().saturating_duration_since(since));
                    }
                }
                state.memory.learn(known.as_ref(), &answer);
                match *answer {
                    Answer::Exists(_) | Answer::Gone(_) => {
                        if *step != Step::Read {
                            state.refusal = None;
                        }
                        self.take_next_step(attempt, leadership);
                    }
                    Answer::Absent | Answer::MembersListed { .. } | Answer::Stale => self.take_next_step(attempt, leadership),
                    Answer::Unknown => {
                        attempt.failing = true;
                        attempt.finish();
                    }
                    Answer::Later(wait) => attempt.requeue_after(wait),
                    Answer::Refused(why) => {
                        state.record_refusal(&step, why, clock::monotonic());
                        attempt.failing = true;
                        let snapshot = self.observed.snapshot(&key);
                        self.conclude(attempt, &snapshot);
                    }
                }
            }
            TaskResult::EventsWritten { mut attempt, warnings, written } => {
                if written {
                    self.states.entry(attempt.key.clone()).or_default().reported = warnings;
                }
                attempt.failing |= !written;
                if attempt.failing {
                    attempt.finish();
                } else {
                    self.take_next_step(attempt, leadership);
                }
            }
            TaskResult::PodsStamped { mut attempt, tried, stamped } => {
                let failed = stamped.len() < tried.len();
                self.states.entry(attempt.key.clone()).or_default().record_stamps(&tried, stamped);
                if failed {
                    attempt.failing = true;
                    attempt.finish();
                } else {
                    self.take_next_step(attempt, leadership);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "reconciler_tests.rs"]
mod tests;
