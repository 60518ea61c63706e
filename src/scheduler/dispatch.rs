//! The dispatcher: sends the writes of the scheduler to the API server. Only this module and its parts [`bind`], [`evict`] and [`fence`] write.
//!
//! * The numbers of binds and of other writes under way are bounded.
//! * Binds are sent first, in the order of [`bind_queue`].
//! * The dispatcher decides nothing. It reports the outcome of each write once, also after a panic.

mod bind;
pub mod bind_outcome;
mod bind_queue;
mod evict;
mod eviction_queue;
mod fence;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::Value;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use crate::api::names::SCHEDULER;
use crate::api::{Pod, PodGroup, Queue};
use crate::runtime::call::{CallError, Caller};
use crate::runtime::clock;
use crate::runtime::leader::Leadership;

use super::command::{self, Command};
use super::event::{EvictionProgress, Report, Subject, WriteOutcome};
use super::state::subject;
use bind_queue::{BindAttempt, BindQueue, LaneQueue};
use eviction_queue::EvictionQueue;
use fence::FenceAttempt;

/// The outcome of a write that panicked, and the delay of its binding.
const PANICKED: &str = "panicked";
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// The reason: too many evictions wait already.
const TOO_MANY: &str = "too_many_waiting";

/// Sends commands to the API server.
#[derive(Debug)]
pub struct Dispatcher {
    to: Destination,
    binds: BindQueue,
    /// The pods to be fenced. No pod is bound meanwhile, so they have as many slots.
    fences: LaneQueue<FenceAttempt>,
    /// The evictions (one for each nomination) that wait for a slot, and the slots.
    evictions: EvictionQueue,
    /// The evictions under way, by nomination, each with its stop signal.
    evicting: BTreeMap<u64, Arc<AtomicBool>>,
    /// Evictions that ended with a request without an answer: until when it may take effect.
    unanswered: Vec<Instant>,
    running: JoinSet<Done>,
    /// The job of each running task, so that a panic can be reported.
    jobs: HashMap<Id, Job>,
}

/// One write under way.
#[derive(Debug)]
enum Job {
    Bind(Box<BindAttempt>),
    Fence(Box<FenceAttempt>),
    Evict(EvictionProgress),
    Write(Subject),
}

/// The end of a job.
#[derive(Debug)]
enum Done {
    Known(Report),
    /// The binding must be sent again after this delay.
    Open(Box<BindAttempt>, Duration),
    /// The pod must be fenced again after this delay.
    NotFenced(Box<FenceAttempt>, Duration),
}

impl Done {
    fn report(self) -> Option<Report> {
        match self {
            Self::Known(report) => Some(report),
            Self::Open(..) | Self::NotFenced(..) => None,
        }
    }
}

/// The client and the lease that writes need.
#[derive(Clone)]
struct Destination {
    client: Client,
    caller: Caller,
    leadership: Leadership,
    /// Whether each pod that is bound gets an Event.
    scheduled_events: bool,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Creates a dispatcher with at most `concurrency` binds under way. The state bounds the other writes.
    #[must_use]
    pub fn new(client: Client, caller: Caller, leadership: Leadership, concurrency: u16) -> Self {
        let to = Destination { client, caller, leadership, scheduled_events: false };
        Self {
            to,
            binds: BindQueue::new(usize::from(concurrency)),
            fences: LaneQueue::new(usize::from(concurrency)),
            evictions: EvictionQueue::default(),
            evicting: BTreeMap::new(),
            unanswered: Vec::new(),
            running: JoinSet::new(),
            jobs: HashMap::new(),
        }
    }

    /// Sets whether each pod that is bound gets an Event `Scheduled`. It is created in the slot of the binding.
    #[must_use]
    pub const fn with_scheduled_events(mut self, scheduled_events: bool) -> Self {
        self.to.scheduled_events = scheduled_events;
        self
    }

    /// Starts or queues the commands.
    pub fn send(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Bind(bind) => self.binds.push(bind, clock::monotonic()),
                Command::Fence { namespace, name, uid, now } => {
                    let began = clock::monotonic();
                    self.fences.add(FenceAttempt { namespace, name, uid, now, began, failures: 0, in_lane: false }, began);
                }
                Command::Evict { eviction, now } => {
                    if let Some(eviction) = self.evictions.push(eviction, now) {
                        let progress = EvictionProgress::none(&eviction);
                        let report = Report::NotEvicted(progress.clone(), TOO_MANY);
                        self.run(Job::Evict(progress), std::future::ready(Done::Known(report)));
                    }
                }
                Command::StopEvictions { nomination } => self.stop_evictions(nomination),
                Command::Group { .. }
                | Command::Queue { .. }
                | Command::QueueEvent { .. }
                | Command::MakeQueue { .. }
                | Command::Pod { .. }
                | Command::PodEvent { .. } => {
                    let Some(subject) = subject(&command) else { continue };
                    let (to, about) = (self.to.clone(), subject.clone());
                    self.run(Job::Write(subject), async move { Done::Known(Report::Written(about, to.write_status(command).await)) });
                }
            }
        }
        self.start();
    }

    fn start(&mut self) {
        while let Some(attempt) = self.binds.take(clock::monotonic()) {
            let (to, job) = (self.to.clone(), Job::Bind(Box::new(attempt.clone())));
            self.run(job, async move { to.bind_and_tell(attempt).await });
        }
        while let Some(attempt) = self.fences.take(clock::monotonic()) {
            let (to, job) = (self.to.clone(), Job::Fence(Box::new(attempt.clone())));
            self.run(job, async move { to.fence(attempt).await });
        }
        while let Some((eviction, now)) = self.evictions.take(clock::monotonic()) {
            let (to, stop) = (self.to.clone(), Arc::<AtomicBool>::default());
            self.evicting.insert(eviction.nomination, Arc::clone(&stop));
            let progress = EvictionProgress::none(&eviction);
            self.run(Job::Evict(progress), async move { Done::Known(to.evict(eviction, now, &stop).await) });
        }
    }

    fn run(&mut self, job: Job, write: impl Future<Output = Done> + Send + 'static) {
        let id = self.running.spawn(write).id();
        self.jobs.insert(id, job);
    }

    /// Stops the evictions for this nomination.
    fn stop_evictions(&mut self, nomination: u64) {
        self.evictions.withdraw(nomination);
        if let Some(stop) = self.evicting.get(&nomination) {
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// Begins the end: what was not sent yet is dropped, and no further victim is evicted.
    pub fn stop(&mut self) {
        self.binds.drop_without_effect();
        self.fences.drop_without_effect();
        self.evictions.drop_waiting();
        self.evicting.values().for_each(|stop| stop.store(true, Ordering::Relaxed));
    }

    /// Returns the number of bindings and evictions that were sent and have no known outcome, after [`stop`](Self::stop).
    #[must_use]
    pub fn unknown_outcomes(&self) -> usize {
        let now = clock::monotonic();
        let unanswered = self.unanswered.iter().filter(|until| **until > now).count();
        self.binds.unknown_outcomes().saturating_add(self.evicting.len()).saturating_add(unanswered)
    }

    /// Waits for the next report.
    pub async fn next(&mut self) -> Report {
        loop {
            let rested = self.binds.next().into_iter().chain(self.fences.next()).min();
            let ended = tokio::select! {
                biased;
                Some(ended) = self.running.join_next_with_id() => ended,
                () = clock::until(rested) => {
                    self.start();
                    continue;
                }
            };
            let (id, done) = match ended {
                Ok((id, done)) => (id, Some(done)),
                Err(error) => {
                    // The job is known: its slot becomes free, and its outcome is reported.
                    tracing::error!(%error, "a write panicked");
                    (error.id(), None)
                }
            };
            let Some(job) = self.jobs.remove(&id) else { continue };
            let report = self.ended(&job, done);
            self.start();
            if let Some(report) = report {
                return report;
            }
        }
    }

    /// Returns the report of a job that ended; `done` is `None` after a panic.
    fn ended(&mut self, job: &Job, done: Option<Done>) -> Option<Report> {
        match (job, done) {
            (Job::Bind(taken), Some(Done::Known(report))) => {
                self.binds.ended(taken);
                Some(report)
            }
            (Job::Bind(taken), Some(Done::Open(mut attempt, rest))) => {
                let news = attempt.news();
                self.binds.rests(taken, *attempt, clock::monotonic() + rest);
                news
            }
            // The request may have been carried out.
            (Job::Bind(taken), Some(Done::NotFenced(..)) | None) => {
                let mut attempt = taken.clone();
                attempt.fail(PANICKED, true);
                self.ended(job, Some(Done::Open(attempt, AFTER_PANIC)))
            }
            (Job::Fence(taken), Some(Done::Known(report))) => {
                self.fences.ended(taken);
                Some(report)
            }
            (Job::Fence(taken), Some(Done::NotFenced(attempt, rest))) => {
                self.fences.rests(taken, *attempt, clock::monotonic() + rest);
                None
            }
            (Job::Fence(taken), _) => {
                let attempt = FenceAttempt { failures: taken.failures.saturating_add(1), ..(**taken).clone() };
                self.ended(job, Some(Done::NotFenced(Box::new(attempt), AFTER_PANIC)))
            }
            (Job::Evict(progress), done) => {
                self.evicting.remove(&progress.nomination);
                self.evictions.ended(progress.nomination, clock::monotonic());
                let panicked = || Report::NotEvicted(EvictionProgress { unanswered: true, ..progress.clone() }, PANICKED);
                let report = done.and_then(Done::report).unwrap_or_else(panicked);
                if let Report::NotEvicted(EvictionProgress { unanswered: true, .. }, _) = &report {
                    let now = clock::monotonic();
                    self.unanswered.retain(|until| *until > now);
                    self.unanswered.push(now + bind::LATEST);
                }
                Some(report)
            }
            (Job::Write(subject), done) => {
                Some(done.and_then(Done::report).unwrap_or_else(|| Report::Written(subject.clone(), WriteOutcome::Failed(PANICKED))))
            }
        }
    }
}

impl Destination {
    /// Binds the pod, and creates its Event where that is asked for.
    async fn bind_and_tell(&self, attempt: BindAttempt) -> Done {
        let bind = self.scheduled_events.then(|| attempt.bind.clone());
        let done = self.bind(attempt).await;
        if let (Done::Known(Report::Bound(_)), Some(bind)) = (&done, bind) {
            self.event(command::scheduled_event(&bind, clock::now()), &bind.namespace).await;
        }
        done
    }

    async fn write_status(&self, command: Command) -> WriteOutcome {
        let subject = subject(&command);
        let answer = if self.leadership.is_leading() { self.write(command).await } else { Err(CallError::Other("not leading".to_owned())) };
        if let Err(error) = &answer {
            tracing::debug!(?subject, %error, "the object could not be written");
        }
        write_outcome(answer)
    }

    /// Writes the object and returns its new resourceVersion.
    async fn write(&self, command: Command) -> Result<String, CallError> {
        let params = patched();
        match command {
            Command::Bind(_) | Command::Evict { .. } | Command::StopEvictions { .. } | Command::Fence { .. } => Ok(String::new()),
            Command::Group { key, uid, status, event, now } => {
                let groups = Api::<PodGroup>::namespaced(self.client.clone(), &key.namespace);
                let body = Patch::Merge(command::group_patch(&uid, &status));
                let version = version(&self.caller.once("patch", "podgroups", groups.patch(&key.name, &params, &body)).await?);
                if let Some((reason, message)) = event {
                    self.event(command::event(&key, &uid, &reason, &message, now), &key.namespace).await;
                }
                Ok(version)
            }
            Command::Queue { name, status, gone, by } => {
                let queues = Api::<Queue>::all(self.client.clone());
                let body = Patch::Merge(command::queue_patch(&status, &gone, by));
                Ok(version(&self.caller.once("patch", "queues/status", queues.patch_status(&name, &params, &body)).await?))
            }
            Command::QueueEvent { name, uid, message, now } => {
                self.event(command::queue_event(&name, &uid, &message, now), command::CLUSTER_EVENTS).await;
                Ok(String::new())
            }
            Command::MakeQueue { name } => {
                // As a dynamic object, because the slim type does not carry its own kind, which a creation must name.
                let queues = Api::<DynamicObject>::all_with(self.client.clone(), &ApiResource::erase::<Queue>(&()));
                let body = serde_json::from_value(command::new_queue(&name)).map_err(|error| CallError::Other(error.to_string()))?;
                tracing::info!(queue = %name, "creating the missing queue");
                Ok(version(&self.caller.once("create", "queues", queues.create(&created(), &body)).await?))
            }
            Command::PodEvent { namespace, name, uid, message, now } => {
                self.event(command::pod_event(&namespace, &name, &uid, &message, now), &namespace).await;
                Ok(String::new())
            }
            Command::Pod { namespace, name, uid, condition, nominated, since } => {
                let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
                let body = Patch::Strategic(command::pod_patch(&uid, &condition, &nominated, since));
                Ok(version(&self.caller.once("patch", "pods/status", pods.patch_status(&name, &params, &body)).await?))
            }
        }
    }

    /// Sends an Event. A failure is only logged, because the condition has the same content.
    async fn event(&self, body: Value, namespace: &str) {
        let events = Api::<k8s_openapi::api::core::v1::Event>::namespaced(self.client.clone(), namespace);
        let Ok(body) = serde_json::from_value(body) else { return };
        if let Err(error) = self.caller.once("create", "events", events.create(&created(), &body)).await {
            tracing::debug!(%error, "the Event could not be written");
        }
    }
}

/// Converts the answer of the API server to an outcome. A conflict is a failure, so the write is retried.
fn write_outcome(answer: Result<String, CallError>) -> WriteOutcome {
    match answer {
        Ok(resource_version) => WriteOutcome::Written { resource_version },
        Err(CallError::NotFound(_) | CallError::AlreadyExists(_)) => WriteOutcome::Gone,
        Err(error) => WriteOutcome::Failed(error.kind()),
    }
}

/// Returns parameters with our field manager.
fn created() -> PostParams {
    PostParams { field_manager: Some(SCHEDULER.to_owned()), ..PostParams::default() }
}

fn patched() -> PatchParams {
    PatchParams { field_manager: Some(SCHEDULER.to_owned()), ..PatchParams::default() }
}

fn version<K: Resource>(object: &K) -> String {
    object.resource_version().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_object_ends_its_status_writes() {
        let text = String::new;
        let outcome = |error| write_outcome(Err(error));
        assert_eq!(outcome(CallError::NotFound(text())), WriteOutcome::Gone);
        assert_eq!(outcome(CallError::AlreadyExists(text())), WriteOutcome::Gone, "another client has created the queue");
        // Found in a fault test: after one conflict the status of a queue stayed wrong.
        assert_eq!(outcome(CallError::Conflict(text())), WriteOutcome::Failed("conflict"));
        assert_eq!(outcome(CallError::Unavailable(text())), WriteOutcome::Failed("unavailable"));
    }
}
