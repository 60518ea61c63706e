//! How are the decisions carried out? The only file of the scheduler that writes, but for its part [`evict`].
//!
//! A bounded number of binds and of other writes is under way; binds go first. It chooses nothing: each write was decided, and how it ended is
//! reported. A binding whose outcome is unknown (no answer, 5xx) is sent again **to the same node** until an answer is known: a first attempt
//! that lands late then meets its own result, and never takes room that was meanwhile given to somebody else.

mod evict;

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::api::names::SCHEDULER;
use crate::api::{Pod, PodGroup, Queue};
use crate::cycle::plan::{Bind, Eviction};
use crate::runtime::backoff::Backoff;
use crate::runtime::call::{CallError, Caller};
use crate::runtime::leader::Leadership;

use super::command::{self, Command};
use super::event::{Report, Subject, Told};
use super::state::subject;

/// How patiently a binding is sent again whose outcome is unknown.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// How many takings are under way at the same time.
const TAKINGS: usize = 4;

/// Carries out commands.
#[derive(Debug)]
pub struct Dispatcher {
    to: Destination,
    concurrency: usize,
    waiting: VecDeque<Bind>,
    binding: usize,
    /// Takings that wait for their turn.
    takings: VecDeque<(Eviction, Timestamp)>,
    /// Those under way, each with what tells it to stop.
    evicting: BTreeMap<u64, Arc<AtomicBool>>,
    running: JoinSet<Report>,
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
            concurrency: usize::from(concurrency),
            waiting: VecDeque::new(),
            binding: 0,
            takings: VecDeque::new(),
            evicting: BTreeMap::new(),
            running: JoinSet::new(),
        }
    }

    /// Takes commands over.
    pub fn send(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Bind(bind) => self.waiting.push_back(bind),
                Command::Evict { eviction, now } => self.takings.push_back((eviction, now)),
                Command::Desist { nomination } => self.desist(nomination),
                Command::Group { .. }
                | Command::Queue { .. }
                | Command::QueueEvent { .. }
                | Command::MakeQueue { .. }
                | Command::Pod { .. } => {
                    let to = self.to.clone();
                    self.running.spawn(async move { to.tell(command).await });
                }
            }
        }
        self.start();
    }

    fn start(&mut self) {
        while self.binding < self.concurrency {
            let Some(bind) = self.waiting.pop_front() else { break };
            self.binding = self.binding.saturating_add(1);
            let to = self.to.clone();
            self.running.spawn(async move { to.bind(bind).await });
        }
        while self.evicting.len() < TAKINGS {
            let Some((eviction, now)) = self.takings.pop_front() else { return };
            let (to, stop) = (self.to.clone(), Arc::<AtomicBool>::default());
            self.evicting.insert(eviction.nomination, Arc::clone(&stop));
            self.running.spawn(async move { to.evict(eviction, now, &stop).await });
        }
    }

    /// Nobody more goes for this nomination.
    fn desist(&mut self, nomination: u64) {
        self.takings.retain(|(eviction, _)| eviction.nomination != nomination);
        if let Some(stop) = self.evicting.get(&nomination) {
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// The next write that ended; waits for ever while none is under way.
    pub async fn next(&mut self) -> Report {
        loop {
            match self.running.join_next().await {
                None => return pending().await,
                // Its report is lost: the watch, or the object's next change, puts it right. It was logged by the panic itself.
                Some(Err(error)) => tracing::error!(%error, "a write panicked"),
                Some(Ok(report)) => {
                    match &report {
                        Report::Bound(_) | Report::NotBound(..) => self.binding = self.binding.saturating_sub(1),
                        Report::Evicted(taken) | Report::NotEvicted(taken, _) => {
                            self.evicting.remove(&taken.nomination);
                        }
                        Report::Told(..) => return report,
                    }
                    self.start();
                    return report;
                }
            }
        }
    }
}

impl Destination {
    async fn bind(&self, bind: Bind) -> Report {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &bind.namespace);
        let body = command::binding(&bind);
        let (params, mut failures) = (PostParams::default(), 0);
        if let Some(why) = self.outdated(&bind).await {
            return Report::NotBound(bind.uid, why);
        }
        loop {
            if !self.leadership.is_leading() {
                return Report::NotBound(bind.uid, "not_leading");
            }
            let request = pods.create_subresource::<Value, Value>("binding", &bind.name, &params, &body);
            let error = match self.caller.once("create", "pods/binding", request).await {
                Ok(_) => return Report::Bound(bind.uid),
                Err(error) => error,
            };
            // A conflict may be our own first attempt, and so may be what an unknown outcome has left behind.
            if matches!(error, CallError::Conflict(_)) {
                if let Some(report) = self.look(&pods, &bind).await {
                    return report;
                }
            } else if !error.outcome_unknown() && !error.is_transient() {
                tracing::warn!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, %error, "the binding was refused");
                return Report::NotBound(bind.uid, error.kind());
            }
            failures += 1;
            tokio::time::sleep(BACKOFF.delay(failures).max(error.retry_after().unwrap_or_default())).await;
        }
    }

    /// Why the decision does not stand any more, as far as its group is concerned: the watch may lag, so the group of one more member of a gang is read before
    /// that is bound (#6010).
    async fn outdated(&self, bind: &Bind) -> Option<&'static str> {
        let minimum = bind.minimum?;
        let groups = Api::<PodGroup>::namespaced(self.client.clone(), &bind.group.namespace);
        match self.caller.read("get", "podgroups", || groups.get(&bind.group.name)).await {
            Ok(group) if group.spec.min_member.and_then(|now| u32::try_from(now).ok()) == Some(minimum) => None,
            Ok(_) | Err(CallError::NotFound(_)) => Some("group_changed"),
            Err(error) => Some(error.kind()),
        }
    }

    /// Where the pod is; none where that is still open.
    async fn look(&self, pods: &Api<Pod>, bind: &Bind) -> Option<Report> {
        let pod = match self.caller.read("get", "pods", || pods.get(&bind.name)).await {
            Ok(pod) => pod,
            Err(CallError::NotFound(_)) => return Some(Report::NotBound(bind.uid.clone(), "not_found")),
            Err(_) => return None,
        };
        if pod.metadata.uid.as_deref() != Some(&*bind.uid) {
            return Some(Report::NotBound(bind.uid.clone(), "not_found"));
        }
        match pod.spec.node_name.as_deref().filter(|node| !node.is_empty()) {
            Some(node) if *node == *bind.node => Some(Report::Bound(bind.uid.clone())),
            _ => Some(Report::NotBound(bind.uid.clone(), "conflict")),
        }
    }

    async fn tell(&self, command: Command) -> Report {
        let subject = subject(&command);
        let answer = if self.leadership.is_leading() { self.write(command).await } else { Err(CallError::Other("not leading".to_owned())) };
        if let Err(error) = &answer {
            tracing::debug!(?subject, %error, "could not be written");
        }
        let told = told(answer);
        // Only binds and evictions have no subject, and they do not come here.
        subject.map_or(Report::Told(Subject::Queue("".into()), Told::Gone), |subject| Report::Told(subject, told))
    }

    /// Writes, and says in which version it stands.
    async fn write(&self, command: Command) -> Result<String, CallError> {
        let params = PatchParams { field_manager: Some(SCHEDULER.to_owned()), ..PatchParams::default() };
        let created = PostParams { field_manager: Some(SCHEDULER.to_owned()), ..PostParams::default() };
        match command {
            Command::Bind(_) | Command::Evict { .. } | Command::Desist { .. } => Ok(String::new()),
            Command::Group { key, uid, status, event, now } => {
                let groups = Api::<PodGroup>::namespaced(self.client.clone(), &key.namespace);
                let body = Patch::Merge(command::group_patch(&uid, &status));
                let version = version(&self.caller.once("patch", "podgroups", groups.patch(&key.name, &params, &body)).await?);
                if let Some((reason, message)) = event {
                    self.event(command::event(&key, &uid, &reason, &message, now), &key.namespace, &created).await;
                }
                Ok(version)
            }
            Command::Queue { name, status, gone, by } => {
                let queues = Api::<Queue>::all(self.client.clone());
                let body = Patch::Merge(command::queue_patch(&status, &gone, by));
                Ok(version(&self.caller.once("patch", "queues/status", queues.patch_status(&name, &params, &body)).await?))
            }
            Command::QueueEvent { name, uid, message, now } => {
                self.event(command::queue_event(&name, &uid, &message, now), command::CLUSTER_EVENTS, &created).await;
                Ok(String::new())
            }
            Command::MakeQueue { name } => {
                // As a dynamic object, because the slim type does not carry its own kind, which a creation must name.
                let queues = Api::<DynamicObject>::all_with(self.client.clone(), &ApiResource::erase::<Queue>(&()));
                let body = serde_json::from_value(command::new_queue(&name)).map_err(|error| CallError::Other(error.to_string()))?;
                tracing::info!(queue = %name, "made, because it was missing");
                Ok(version(&self.caller.once("create", "queues", queues.create(&created, &body)).await?))
            }
            Command::Pod { namespace, name, uid, condition, now } => {
                let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
                let body = Patch::Strategic(command::pod_patch(&uid, &condition, now));
                Ok(version(&self.caller.once("patch", "pods/status", pods.patch_status(&name, &params, &body)).await?))
            }
        }
    }

    /// An Event that cannot be written is no loss that anybody should wait for: the condition says the same.
    async fn event(&self, body: Value, namespace: &str, params: &PostParams) {
        let events = Api::<k8s_openapi::api::core::v1::Event>::namespaced(self.client.clone(), namespace);
        let Ok(body) = serde_json::from_value(body) else { return };
        if let Err(error) = self.caller.once("create", "events", events.create(params, &body)).await {
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
