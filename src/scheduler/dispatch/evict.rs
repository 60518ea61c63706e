//! How do the victims of one taking go? (R9)
//!
//! ```text
//!  ask all, dryRun ── one refused ──▶ nobody goes
//!        │ nobody refused
//!        ▼
//!  evict one by one ── one refused ─▶ the rest stays
//!        │
//!        ▼
//!  say so on each: the condition DisruptionTarget, and an Event
//! ```
//!
//! Only the Eviction API is used, which asks the disruption budgets, and each request names the pod's UID: a pod of the same name that came since
//! is not meant. Its 429 with the cause `DisruptionBudget` is a no; a 429 of flow control, a 5xx and no answer at all are no answer, and the same
//! is asked again for a while: asking twice for a pod that is leaving costs no budget. Where two budgets guard a pod, the API server sends a
//! failure in the body of an answer that says 201.
//!
//! The condition is written afterwards, since the Eviction API writes one of its own (`EvictionByEvictionAPI`) over whatever stands there; and so
//! it never stands on a pod that stayed.

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
use super::super::event::{Report, Taken};
use super::{Destination, created, patched};

/// How patiently the same is asked again that had no answer.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// How long one victim is asked for before that counts as refused.
const LIMIT: Duration = Duration::from_secs(30);

/// We are not the one who decides any more.
const NOT_LEADING: &str = "not_leading";
/// What it was for was taken back.
const WITHDRAWN: &str = "withdrawn";

/// What became of asking for one victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// It goes, or would.
    Goes,
    /// It is not there any more.
    Gone,
    /// It stays; why, of a bounded set.
    Stays(&'static str),
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Goes,
    /// It may be gone, or another pod has its name.
    Look,
    /// It is open; not before so long.
    Open(Duration, &'static str),
    Refused(&'static str),
}

impl Destination {
    /// Carries out one taking, until it is told to stop.
    pub(super) async fn evict(&self, eviction: Eviction, now: Timestamp, stop: &AtomicBool) -> Report {
        let mut taken = Taken { group: eviction.group.clone(), nomination: eviction.nomination, evicted: 0, gone: 0, stays: None };
        for victim in &eviction.victims {
            if let Asked::Stays(why) = self.ask(victim, true, stop).await {
                tracing::info!(group = %eviction.group, pod = %victim.name, namespace = %victim.namespace, why, "nobody is evicted: one would stay");
                taken.stays = refused(victim, why);
                return Report::NotEvicted(taken, why);
            }
        }
        let mut gone = Vec::with_capacity(eviction.victims.len());
        let mut stays = None;
        for victim in &eviction.victims {
            match self.ask(victim, false, stop).await {
                Asked::Goes => gone.push(victim),
                Asked::Gone => taken.gone = taken.gone.saturating_add(1),
                Asked::Stays(why) => {
                    tracing::warn!(group = %eviction.group, pod = %victim.name, namespace = %victim.namespace, why, "not evicted; the rest stays");
                    taken.stays = refused(victim, why);
                    stays = Some(why);
                    break;
                }
            }
        }
        taken.evicted = u32::try_from(gone.len()).unwrap_or(u32::MAX);
        if let Some(event) = command::release_event(&eviction, gone.len(), now) {
            self.event(event, &eviction.group.namespace).await;
        }
        for victim in gone {
            tracing::info!(group = %eviction.group, queue = %eviction.queue, pod = %victim.name, namespace = %victim.namespace, "evicted");
            self.explain(&eviction, victim, now).await;
        }
        match stays {
            Some(why) => Report::NotEvicted(taken, why),
            None => Report::Evicted(taken),
        }
    }

    /// Asks for one victim until there is an answer, within the limit.
    async fn ask(&self, victim: &Victim, dry_run: bool, stop: &AtomicBool) -> Asked {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &victim.namespace);
        let params = PostParams { dry_run, ..created() };
        let (body, began, mut failures) = (command::eviction(victim), clock::monotonic(), 0);
        loop {
            if !self.leadership.is_leading() {
                return Asked::Stays(NOT_LEADING);
            }
            if stop.load(Ordering::Relaxed) {
                return Asked::Stays(WITHDRAWN);
            }
            let request = pods.create_subresource::<Value, Value>("eviction", &victim.name, &params, &body);
            let (wait, why) = match meaning(self.caller.once("create", "pods/eviction", request).await) {
                Meaning::Goes => return Asked::Goes,
                Meaning::Refused(why) => return Asked::Stays(why),
                Meaning::Open(wait, why) => (wait, why),
                Meaning::Look => match self.find(&pods, victim).await {
                    Some(asked) => return asked,
                    None => (Duration::ZERO, "conflict"),
                },
            };
            failures += 1;
            let wait = BACKOFF.delay(failures).max(wait);
            if clock::monotonic().saturating_duration_since(began) + wait > LIMIT {
                return Asked::Stays(why);
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// What the pod itself says; none where that is still open.
    async fn find(&self, pods: &Api<Pod>, victim: &Victim) -> Option<Asked> {
        match self.caller.read("get", "pods", || pods.get(&victim.name)).await {
            Ok(pod) if pod.metadata.uid.as_deref() != Some(&*victim.uid) => Some(Asked::Gone),
            Ok(pod) if pod.metadata.deletion_timestamp.is_some() => Some(Asked::Goes),
            Err(CallError::NotFound(_)) => Some(Asked::Gone),
            Ok(_) | Err(_) => None,
        }
    }

    /// Says on the victim for whom it went. That it cannot be written is no loss that anybody should wait for: often the pod is gone already.
    async fn explain(&self, eviction: &Eviction, victim: &Victim, now: Timestamp) {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &victim.namespace);
        let body = Patch::Strategic(command::disruption_patch(eviction, victim, now));
        if let Err(error) = self.caller.once("patch", "pods/status", pods.patch_status(&victim.name, &patched(), &body)).await {
            tracing::debug!(pod = %victim.name, namespace = %victim.namespace, %error, "the condition DisruptionTarget could not be written");
        }
        self.event(command::victim_event(eviction, victim, now), &victim.namespace).await;
    }
}

/// Who stayed, where that was not our own doing.
fn refused(victim: &Victim, why: &str) -> Option<Uid> {
    (![NOT_LEADING, WITHDRAWN].contains(&why)).then(|| victim.uid.clone())
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
