//! How are the decisions carried out? The only file of the scheduler that writes, but for its parts [`bind`] and [`evict`].
//!
//! A bounded number of binds and of other writes is under way; binds go first, in the order of [`turns`]. It chooses nothing: each write was decided, and how it ended is
//! reported, once, also where it panicked.

mod bind;
mod evict;
mod turns;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::Value;
use tokio::task::{Id, JoinSet};

use crate::api::names::SCHEDULER;
use crate::api::{Pod, PodGroup, Queue};
use crate::cycle::plan::Eviction;
use crate::runtime::call::{CallError, Caller};
use crate::runtime::clock;
use crate::runtime::leader::Leadership;

use super::command::{self, Command};
use super::event::{Report, Subject, Taken, Told};
use super::state::subject;
use turns::{Try, Turns};

/// How many takings are under way at the same time.
const TAKINGS: usize = 4;

/// How a write ended that panicked, and how long a binding rests then.
const PANICKED: &str = "panicked";
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// Carries out commands.
#[derive(Debug)]
pub struct Dispatcher {
    to: Destination,
    binds: Turns,
    /// Takings that wait for their turn.
    takings: VecDeque<(Eviction, Timestamp)>,
    /// Those under way, each with what tells it to stop.
    evicting: BTreeMap<u64, Arc<AtomicBool>>,
    running: JoinSet<Done>,
    /// What each of those is, so that it is known when it panics.
    jobs: HashMap<Id, Job>,
}

/// One write that is under way.
#[derive(Debug)]
enum Job {
    Bind(Box<Try>),
    Evict(Taken),
    Tell(Subject),
}

/// How one ended.
#[derive(Debug)]
enum Done {
    Known(Report),
    /// A binding that is to be sent again after a rest.
    Open(Box<Try>, Duration),
}

impl Done {
    fn report(self) -> Option<Report> {
        match self {
            Self::Known(report) => Some(report),
            Self::Open(..) => None,
        }
    }
}

/// Where it writes.
#[derive(Clone)]
struct Destination {
    client: Client,
    caller: Caller,
    leadership: Leadership,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Sends at most `concurrency` binds at the same time; the other writes are bounded by who decides on them.
    #[must_use]
    pub fn new(client: Client, caller: Caller, leadership: Leadership, concurrency: u16) -> Self {
        let to = Destination { client, caller, leadership };
        Self {
            to,
            binds: Turns::new(usize::from(concurrency)),
            takings: VecDeque::new(),
            evicting: BTreeMap::new(),
            running: JoinSet::new(),
            jobs: HashMap::new(),
        }
    }

    /// Takes commands over.
    pub fn send(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Bind(bind) => self.binds.push(bind, clock::monotonic()),
                Command::Evict { eviction, now } => self.takings.push_back((eviction, now)),
                Command::Desist { nomination } => self.desist(nomination),
                Command::Group { .. }
                | Command::Queue { .. }
                | Command::QueueEvent { .. }
                | Command::MakeQueue { .. }
                | Command::Pod { .. } => {
                    let Some(subject) = subject(&command) else { continue };
                    let (to, about) = (self.to.clone(), subject.clone());
                    self.run(Job::Tell(subject), async move { Done::Known(Report::Told(about, to.tell(command).await)) });
                }
            }
        }
        self.start();
    }

    fn start(&mut self) {
        while let Some(tried) = self.binds.take(clock::monotonic()) {
            let (to, job) = (self.to.clone(), Job::Bind(Box::new(tried.clone())));
            self.run(job, async move { to.bind(tried).await });
        }
        while self.evicting.len() < TAKINGS {
            let Some((eviction, now)) = self.takings.pop_front() else { return };
            let (to, stop) = (self.to.clone(), Arc::<AtomicBool>::default());
            self.evicting.insert(eviction.nomination, Arc::clone(&stop));
            let taken = Taken { group: eviction.group.clone(), nomination: eviction.nomination, evicted: 0, gone: 0, stays: None };
            self.run(Job::Evict(taken), async move { Done::Known(to.evict(eviction, now, &stop).await) });
        }
    }

    fn run(&mut self, job: Job, write: impl Future<Output = Done> + Send + 'static) {
        let id = self.running.spawn(write).id();
        self.jobs.insert(id, job);
    }

    /// Nobody more goes for this nomination.
    fn desist(&mut self, nomination: u64) {
        self.takings.retain(|(eviction, _)| eviction.nomination != nomination);
        if let Some(stop) = self.evicting.get(&nomination) {
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// The next write that ended; waits for ever while there is none.
    pub async fn next(&mut self) -> Report {
        loop {
            let rested = self.binds.next();
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
                    // What it was is not lost with it: its slot is free again, and it is told.
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

    /// What is to be reported of a write that ended, or panicked.
    fn ended(&mut self, job: &Job, done: Option<Done>) -> Option<Report> {
        match (job, done) {
            (Job::Bind(taken), Some(Done::Known(report))) => {
                self.binds.ended(taken);
                Some(report)
            }
            (Job::Bind(taken), Some(Done::Open(mut tried, rest))) => {
                let news = tried.news();
                self.binds.rests(taken, *tried, clock::monotonic() + rest);
                news
            }
            // What was sent may have been done.
            (Job::Bind(taken), None) => {
                let mut tried = taken.clone();
                tried.fail(PANICKED, true);
                self.ended(job, Some(Done::Open(tried, AFTER_PANIC)))
            }
            (Job::Evict(taken), done) => {
                self.evicting.remove(&taken.nomination);
                Some(done.and_then(Done::report).unwrap_or_else(|| Report::NotEvicted(taken.clone(), PANICKED)))
            }
            (Job::Tell(subject), done) => {
                Some(done.and_then(Done::report).unwrap_or_else(|| Report::Told(subject.clone(), Told::Failed(PANICKED))))
            }
        }
    }
}

impl Destination {
    async fn tell(&self, command: Command) -> Told {
        let subject = subject(&command);
        let answer = if self.leadership.is_leading() { self.write(command).await } else { Err(CallError::Other("not leading".to_owned())) };
        if let Err(error) = &answer {
            tracing::debug!(?subject, %error, "could not be written");
        }
        told(answer)
    }

    /// Writes, and says in which version it stands.
    async fn write(&self, command: Command) -> Result<String, CallError> {
        let params = patched();
        match command {
            Command::Bind(_) | Command::Evict { .. } | Command::Desist { .. } => Ok(String::new()),
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
                tracing::info!(queue = %name, "made, because it was missing");
                Ok(version(&self.caller.once("create", "queues", queues.create(&created(), &body)).await?))
            }
            Command::Pod { namespace, name, uid, condition, now } => {
                let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
                let body = Patch::Strategic(command::pod_patch(&uid, &condition, now));
                Ok(version(&self.caller.once("patch", "pods/status", pods.patch_status(&name, &params, &body)).await?))
            }
        }
    }

    /// An Event that cannot be written is no loss that anybody should wait for: the condition says the same.
    async fn event(&self, body: Value, namespace: &str) {
        let events = Api::<k8s_openapi::api::core::v1::Event>::namespaced(self.client.clone(), namespace);
        let Ok(body) = serde_json::from_value(body) else { return };
        if let Err(error) = self.caller.once("create", "events", events.create(&created(), &body)).await {
            tracing::debug!(%error, "an Event could not be written");
        }
    }
}

/// What the end of a write means. A conflict is no end: other writers were quicker, again and again, and what is to be said may still be so.
fn told(answer: Result<String, CallError>) -> Told {
    match answer {
        Ok(resource_version) => Told::Stands { resource_version },
        Err(CallError::NotFound(_) | CallError::AlreadyExists(_)) => Told::Gone,
        Err(error) => Told::Failed(error.kind()),
    }
}

/// Who writes stands in the object's managed fields.
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
    fn only_an_object_that_is_not_there_ends_what_is_to_be_said_of_it() {
        let text = String::new;
        let told = |error| told(Err(error));
        assert_eq!(told(CallError::NotFound(text())), Told::Gone);
        assert_eq!(told(CallError::AlreadyExists(text())), Told::Gone, "somebody else has made the queue");
        // Seen under faults: one conflict, and the status of a queue was wrong for good.
        assert_eq!(told(CallError::Conflict(text())), Told::Failed("conflict"));
        assert_eq!(told(CallError::Unavailable(text())), Told::Failed("unavailable"));
    }
}
