//! The dispatcher: sends the writes of the scheduler to the API server. Only this module and its parts [`bind`], [`evict`], [`fence`],
//! [`volume`] and [`write`] write.
//!
//! * The numbers of binds and of other writes under way are bounded.
//! * Binds are sent first, in the order of [`bind_queue`].
//! * The dispatcher decides nothing. It reports the outcome of each write once, also after a panic. Before it sends a binding again, it
//!   asks the owner of the state whether the decision still holds ([`Report::SendAgain`]).

mod bind;
pub mod bind_outcome;
mod bind_queue;
mod evict;
mod eviction_queue;
mod fence;
mod volume;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use crate::runtime::call::Caller;
use crate::runtime::clock;
use crate::runtime::leader::Leadership;

use super::command::{self, Command};
use super::event::{EvictionProgress, Report, Subject, WriteOutcome};
use super::state::subject;
use bind_queue::{BindAttempt, BindQueue, LaneQueue, Tries};
use eviction_queue::EvictionQueue;
use fence::FenceAttempt;
use volume::VolumeAttempt;

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
    /// The claims to be tied to volumes and nodes. They have as many slots of their own.
    volumes: LaneQueue<VolumeAttempt>,
    /// The evictions (one for each nomination) that wait for a slot, and the slots.
    evictions: EvictionQueue,
    /// The evictions under way, by nomination, each with its stop signal.
    evicting: BTreeMap<u64, Arc<AtomicBool>>,
    /// Evictions that ended with a request without an answer: until when it may take effect.
    unanswered: Vec<Instant>,
    /// The bindings that are to be sent again.
    questions: mpsc::Receiver<Report>,
    running: JoinSet<Done>,
    /// The job of each running task, so that a panic can be reported.
    jobs: HashMap<Id, Job>,
}

/// One write under way.
#[derive(Debug)]
enum Job {
    Bind(Box<BindAttempt>),
    Fence(Box<FenceAttempt>),
    Volume(Box<VolumeAttempt>),
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
    /// The claim must be tied again after this delay.
    NotTied(Box<VolumeAttempt>, Duration),
}

impl Done {
    fn report(self) -> Option<Report> {
        match self {
            Self::Known(report) => Some(report),
            Self::Open(..) | Self::NotFenced(..) | Self::NotTied(..) => None,
        }
    }
}

/// The client and the lease that writes need.
#[derive(Clone)]
struct Destination {
    client: Client,
    caller: Caller,
    leadership: Leadership,
    /// Where a binding that is to be sent again is reported.
    questions: mpsc::Sender<Report>,
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
        let (sender, questions) = mpsc::channel(usize::from(concurrency).max(1));
        let to = Destination { client, caller, leadership, questions: sender, scheduled_events: false };
        Self {
            to,
            binds: BindQueue::new(usize::from(concurrency)),
            fences: LaneQueue::new(usize::from(concurrency)),
            volumes: LaneQueue::new(usize::from(concurrency)),
            evictions: EvictionQueue::default(),
            evicting: BTreeMap::new(),
            unanswered: Vec::new(),
            questions,
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
                Command::Fence { namespace, name, uid, since } => {
                    let began = clock::monotonic();
                    self.fences.add(FenceAttempt { namespace, name, uid, since, began, tries: Tries::default() }, began);
                }
                Command::Volume(write) => self.volumes.add(VolumeAttempt::new(write), clock::monotonic()),
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
                | Command::MisnamedPod { .. }
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
        while let Some(attempt) = self.volumes.take(clock::monotonic()) {
            let (to, job) = (self.to.clone(), Job::Volume(Box::new(attempt.clone())));
            self.run(job, async move { to.tie(attempt).await });
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
        self.volumes.drop_without_effect();
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
            let rested = self.binds.next().into_iter().chain(self.fences.next()).chain(self.volumes.next()).min();
            let ended = tokio::select! {
                biased;
                Some(question) = self.questions.recv() => return question,
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
            (Job::Bind(taken), Some(Done::NotFenced(..) | Done::NotTied(..)) | None) => {
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
                let mut attempt = FenceAttempt::clone(taken);
                attempt.tries.fail();
                self.ended(job, Some(Done::NotFenced(Box::new(attempt), AFTER_PANIC)))
            }
            (Job::Volume(taken), Some(Done::NotTied(attempt, rest))) => {
                self.volumes.rests(taken, *attempt, clock::monotonic() + rest);
                None
            }
            (Job::Volume(taken), done) => {
                self.volumes.ended(taken);
                Some(done.and_then(Done::report).unwrap_or_else(|| taken.failed(PANICKED)))
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
}
