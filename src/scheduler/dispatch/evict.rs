//! Evicts the victims of one nomination. (R6)
//!
//! ```text
//!  evict all, dryRun ── one refused ──▶ no pod is evicted
//!        │ none refused
//!        ▼
//!  evict one by one ── one refused ───▶ the rest is not evicted
//!        │
//!        ▼
//!  on each evicted pod: the condition DisruptionTarget, and an Event
//! ```
//!
//! Only the Eviction API is used, because it respects disruption budgets. Each request names the pod's UID, so a new pod of the same name is safe.
//!
//! * A 429 with the cause `DisruptionBudget` is a refusal.
//! * A 429 of flow control, a 5xx or no answer is retried for a while. A second request for a pod that is leaving uses no budget.
//! * If two budgets cover a pod, the API server sends a failure in the body of an answer with the code 201.
//!
//! The condition is written after the eviction, because the Eviction API overwrites it with its own (`EvictionByEvictionAPI`).
//! So a pod that was not evicted never has our condition.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PostParams};
use serde_json::Value;

use crate::api::{Pod, Uid};
use crate::backoff::Backoff;
use crate::cycle::plan::{Eviction, Victim};
use crate::runtime::call::CallError;
use crate::runtime::clock;

use super::super::command;
use super::super::event::{EvictionProgress, Report};
use super::Destination;
use super::write::{created, patched};

/// The back-off after a request without an answer.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// The time limit for the eviction of one victim.
const LIMIT: Duration = Duration::from_secs(30);

/// The reason: this replica no longer leads.
const NOT_LEADING: &str = "not_leading";
/// The reason: the nomination was withdrawn.
const WITHDRAWN: &str = "withdrawn";

/// The outcome of the eviction of one victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The pod leaves, or would leave (dry run).
    Goes,
    /// The pod was deleted.
    Gone,
    /// The eviction was refused, or is not requested any more. The reason is one of a bounded set. `unanswered`: a request has no answer
    /// and may still take effect.
    Stays { reason: &'static str, unanswered: bool },
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Goes,
    /// The pod may be deleted, or another pod has its name: read the pod.
    Look,
    /// There is no final answer: retry after this time.
    Open(Duration, &'static str),
    Refused(&'static str),
}

impl Destination {
    /// Evicts the victims, until `stop` is set.
    pub(super) async fn evict(&self, eviction: Eviction, now: Timestamp, stop: &AtomicBool) -> Report {
        let mut progress = EvictionProgress::none(&eviction);
        for victim in &eviction.victims {
            if let Asked::Stays { reason, .. } = self.ask(victim, true, stop).await {
                tracing::info!(group = %eviction.group, pod = %victim.name, namespace = %victim.namespace, reason, "no pod is evicted, because one eviction would be refused");
                progress.refused_pod = refused(victim, reason);
                return Report::NotEvicted(progress, reason);
            }
        }
        let mut gone = Vec::with_capacity(eviction.victims.len());
        let mut stays = None;
        for victim in &eviction.victims {
            match self.ask(victim, false, stop).await {
                Asked::Goes => gone.push(victim),
                Asked::Gone => progress.gone = progress.gone.saturating_add(1),
                Asked::Stays { reason, unanswered } => {
                    tracing::warn!(group = %eviction.group, pod = %victim.name, namespace = %victim.namespace, reason, "the eviction was refused; the remaining pods are not evicted");
                    progress.refused_pod = refused(victim, reason);
                    progress.unanswered = unanswered;
                    stays = Some(reason);
                    break;
                }
            }
        }
        progress.evicted = u32::try_from(gone.len()).unwrap_or(u32::MAX);
        if let Some(event) = command::release_event(&eviction, gone.len(), now) {
            self.event(event, &eviction.group.namespace).await;
        }
        for victim in gone {
            tracing::info!(group = %eviction.group, queue = %eviction.queue, pod = %victim.name, namespace = %victim.namespace, "evicted the pod");
            self.explain(&eviction, victim, now).await;
        }
        match stays {
            Some(reason) => Report::NotEvicted(progress, reason),
            None => Report::Evicted(progress),
        }
    }

    /// Requests the eviction of one victim until there is an answer, within the limit.
    async fn ask(&self, victim: &Victim, dry_run: bool, stop: &AtomicBool) -> Asked {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &victim.namespace);
        let params = PostParams { dry_run, ..created() };
        let (body, began, mut failures) = (command::eviction(victim), clock::monotonic(), 0);
        let mut unanswered = false;
        loop {
            if !self.leadership.is_leading() {
                return Asked::Stays { reason: NOT_LEADING, unanswered };
            }
            if stop.load(Ordering::Relaxed) {
                // A request without an answer may have taken effect.
                let found = if unanswered { self.find(&pods, victim).await } else { None };
                return found.unwrap_or(Asked::Stays { reason: WITHDRAWN, unanswered });
            }
            let request = pods.create_subresource::<Value, Value>("eviction", &victim.name, &params, &body);
            let answer = self.caller.once("create", "pods/eviction", request).await;
            unanswered |= !dry_run && matches!(&answer, Err(error) if error.outcome_unknown());
            let (wait, reason) = match meaning(answer) {
                Meaning::Goes => return Asked::Goes,
                Meaning::Refused(reason) => return Asked::Stays { reason, unanswered },
                Meaning::Open(wait, reason) => (wait, reason),
                Meaning::Look => match self.find(&pods, victim).await {
                    Some(asked) => return asked,
                    None => (Duration::ZERO, "conflict"),
                },
            };
            failures += 1;
            let wait = BACKOFF.delay(failures).max(wait);
            if clock::monotonic().saturating_duration_since(began) + wait > LIMIT {
                return Asked::Stays { reason, unanswered };
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Reads the pod and returns the outcome; `None` if it is still open.
    async fn find(&self, pods: &Api<Pod>, victim: &Victim) -> Option<Asked> {
        match self.caller.read("get", "pods", || pods.get(&victim.name)).await {
            Ok(pod) if pod.metadata.uid.as_deref() != Some(&*victim.uid) => Some(Asked::Gone),
            Ok(pod) if pod.metadata.deletion_timestamp.is_some() => Some(Asked::Goes),
            Err(CallError::NotFound(_)) => Some(Asked::Gone),
            Ok(_) | Err(_) => None,
        }
    }

    /// Writes the condition and the Event on an evicted pod. A failure is only logged, because the pod is often gone already.
    async fn explain(&self, eviction: &Eviction, victim: &Victim, now: Timestamp) {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &victim.namespace);
        let body = Patch::Strategic(command::disruption_patch(eviction, victim));
        if let Err(error) = self.caller.once("patch", "pods/status", pods.patch_status(&victim.name, &patched(), &body)).await {
            tracing::debug!(pod = %victim.name, namespace = %victim.namespace, %error, "the condition DisruptionTarget could not be written");
        }
        self.event(command::victim_event(eviction, victim, now), &victim.namespace).await;
    }
}

/// Returns the pod that the API server refused to evict; `None` if this program stopped the eviction.
fn refused(victim: &Victim, reason: &str) -> Option<Uid> {
    (![NOT_LEADING, WITHDRAWN].contains(&reason)).then(|| victim.uid.clone())
}

fn meaning(answer: Result<Value, CallError>) -> Meaning {
    let error = match answer.map(|body| CallError::inside(&body)) {
        Ok(None) => return Meaning::Goes,
        Ok(Some(error)) | Err(error) => error,
    };
    if matches!(error, CallError::NotFound(_) | CallError::Conflict(_)) {
        Meaning::Look
    } else if error.outcome_unknown() || error.is_transient() {
        Meaning::Open(error.retry_after().unwrap_or_default(), error.kind())
    } else {
        Meaning::Refused(error.kind())
    }
}

#[cfg(test)]
#[path = "evict_tests.rs"]
mod tests;
