//! Sends one binding until its outcome is known.
//!
//! ```text
//!            accepted or refused                           the pod is bound, on another node, or deleted
//!  sent ─┬──────────────────▶ (known)      RETRY_ONLY: read ─┬──────────────────────────────────────────▶ (known)
//!    ▲   │                                      ▲            │ the pod waits, and no sent request can take effect
//!    │   ├── no answer: back-off ───────────────╯            ├──────────────────────────────────────────▶ (known: not bound)
//!    │   │            │                                      │ the pod waits
//!    ├───│────────────┴──────────────────────────────────────╯
//!    │   ╰── 409: read ─┬─ the pod is bound, on another node, or deleted ───────────────────────────────▶ (known)
//!    ╰──────────────────╯ the pod waits with another resourceVersion, and this process leads
//! ```
//!
//! A binding with an unknown outcome (no answer, 5xx) is sent again **to the same node** until the outcome is known.
//! So a first request that takes effect late never uses capacity that was given to another pod.
//!
//! Before each further request the owner of the state is asked whether the decision still holds: the node may be cordoned, or full, by now.
//! So it is before the first request of a binding that has waited in a lane. If the decision does not hold, the pod is read. Where a request
//! that was sent may still take effect, the pod is changed: each binding carries its version, so none is accepted any more. Then its
//! PodGroup is tried again. The pod stays charged on the node until then.
//!
//! The binding is abandoned only after a read of the pod, and only in these cases:
//!
//! * All requests were answered with a temporary refusal (a webhook that is down, flow control).
//! * The last request without an answer is so old that no API server carries it out any more. A refusal that comes after it changes nothing.
//!
//! While the API server answers no request, the read fails too, and the binding is not abandoned.
//! If the API server answers all requests but this binding, nothing is sent for [`LATEST`] before the last read, so that this read is final.

use std::time::Duration;

use kube::api::{Api, Patch, PostParams};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::api::pod_facts::resource_version;
use crate::api::{Pod, PodGroup};
use crate::backoff::Backoff;
use crate::cycle::plan::Bind;
use crate::runtime::call::CallError;
use crate::runtime::clock;

use super::super::command;
use super::super::event::Report;
use super::bind_outcome::{
    BindAnswer, NO_LONGER_FITS, NextStep, Place, Requests, after_answer, after_conflict, after_withdrawal, is_newer, without_lease,
};
use super::bind_queue::BindAttempt;
use super::write::patched;
use super::{Destination, Done};

/// The back-off between two requests.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// The time in which the binding is only retried. After it, the pod is read before each retry, and the PodGroup's status reports the binding.
pub(super) const RETRY_ONLY: Duration = Duration::from_secs(15);

/// The time after which the API server has carried out or dropped a request. Its `--request-timeout` is one minute.
pub(super) const LATEST: Duration = Duration::from_secs(90);

/// The limit of requests without success while the API server answers the reads.
const ALONE: u32 = 3;

impl Destination {
    /// Sends the binding once, or reads the pod to find its outcome.
    pub(super) async fn bind(&self, mut attempt: BindAttempt) -> Done {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &attempt.bind.namespace);
        let bind = &attempt.bind;
        if attempt.tries.failures == 0
            && let Some(reason) = self.outdated(bind).await
        {
            return Done::Known(Report::NotBound(bind.uid.clone(), reason));
        }
        if !self.leadership.is_leading() {
            return not_leading(attempt);
        }
        let refused = match attempt.since {
            Some((since, reason)) if clock::monotonic().saturating_duration_since(since) >= RETRY_ONLY => {
                // Computed before the read: a read that begins earlier than this is not final.
                let closes = attempt.open.map(|at| (at + LATEST).saturating_duration_since(clock::monotonic()));
                match self.read_pod(&pods, bind).await {
                    Some(Place::Waits { version }) => attempt.adopt(version),
                    Some(place) => return known(bind, place),
                    None => {
                        attempt.tries.fail();
                        attempt.alone = 0;
                        let rest = BACKOFF.delay(attempt.tries.failures);
                        return Done::Open(Box::new(attempt), rest);
                    }
                }
                // Asked after the read: a version that is sent was known while this process led.
                if !self.leadership.is_leading() {
                    return not_leading(attempt);
                }
                Some((reason, attempt.open.and(closes).unwrap_or_default()))
            }
            Some(_) | None => None,
        };
        if attempt.has_waited() && !self.still_holds(&attempt.bind).await {
            return self.withdraw(&pods, attempt).await;
        }
        if let Some((reason, closes)) = refused {
            let bind = &attempt.bind;
            // The binding is sent once more before it is abandoned, because the cause may be over.
            if attempt.alone > 0 && closes.is_zero() {
                tracing::warn!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, reason, "the binding was refused in every attempt");
                return Done::Known(Report::NotBound(bind.uid.clone(), reason));
            }
            if attempt.alone >= ALONE {
                return Done::Open(Box::new(attempt), closes);
            }
            attempt.alone = attempt.alone.saturating_add(1);
        }
        self.send(&pods, attempt).await
    }

    /// Returns whether the owner of the state would decide the same now.
    async fn still_holds(&self, bind: &Bind) -> bool {
        let (reply, answer) = oneshot::channel();
        let is_asked = self.questions.send(Report::SendAgain(Box::new(bind.clone()), reply)).await.is_ok();
        // Without an owner, nothing is decided any more.
        is_asked && answer.await.unwrap_or(false)
    }

    /// Ends a binding when its decision does not hold any more, if no request of it can take effect; otherwise the pod is read again later.
    async fn withdraw(&self, pods: &Api<Pod>, mut attempt: BindAttempt) -> Done {
        let uid = attempt.bind.uid.clone();
        if attempt.tries.failures == 0 {
            return Done::Known(Report::NotBound(uid, NO_LONGER_FITS));
        }
        // Computed before the read: a read that begins earlier than this is not final.
        let unanswered = attempt.open.is_some_and(|at| clock::monotonic() < at + LATEST);
        let requests = Requests { unanswered, ..attempt.requests() };
        let mut next = after_withdrawal(self.read_pod(pods, &attempt.bind).await, requests);
        if next == NextStep::Void {
            next = after_withdrawal(self.void(pods, &attempt.bind).await, requests);
        }
        match next {
            NextStep::Bound => Done::Known(Report::Bound(uid)),
            NextStep::NotBound(reason) => Done::Known(Report::NotBound(uid, reason)),
            NextStep::Read | NextStep::Send { .. } | NextStep::Void | NextStep::BackOff => {
                attempt.tries.fail();
                let rest = BACKOFF.delay(attempt.tries.failures);
                Done::Open(Box::new(attempt), rest)
            }
        }
    }

    /// Changes the pod, so that each binding that carries its present version is refused. Returns its state then; `None` if that failed.
    async fn void(&self, pods: &Api<Pod>, bind: &Bind) -> Option<Place> {
        let body = Patch::Strategic(command::void_patch(bind, self.leadership.identity()));
        let answer = self.caller.once("patch", "pods/status", pods.patch_status(&bind.name, &patched(), &body)).await;
        answer.ok().map(|pod| place_of(&pod, bind))
    }

    async fn send(&self, pods: &Api<Pod>, mut attempt: BindAttempt) -> Done {
        loop {
            let bind = &attempt.bind;
            let (params, body) = (PostParams::default(), command::binding(bind));
            let request = pods.create_subresource::<Value, Value>("binding", &bind.name, &params, &body);
            let answer = self.caller.once("create", "pods/binding", request).await;
            let next = match after_answer(meaning(&answer), attempt.requests()) {
                NextStep::Read => {
                    attempt.conflicts = attempt.conflicts.saturating_add(1);
                    let place = self.read_pod(pods, &attempt.bind).await;
                    after_conflict(place, attempt.requests(), self.leadership.is_leading())
                }
                next @ (NextStep::Bound | NextStep::NotBound(_) | NextStep::Send { .. } | NextStep::Void | NextStep::BackOff) => next,
            };
            let (bind, report) = (&attempt.bind, |reason| Done::Known(Report::NotBound(attempt.bind.uid.clone(), reason)));
            match (next, answer) {
                (NextStep::Bound, _) => return Done::Known(Report::Bound(bind.uid.clone())),
                (NextStep::Send { version }, _) => {
                    attempt.adopt(version);
                    // No earlier request can take effect on this version.
                    if !self.still_holds(&attempt.bind).await {
                        return Done::Known(Report::NotBound(attempt.bind.uid, NO_LONGER_FITS));
                    }
                }
                (NextStep::NotBound(reason), answer) => {
                    if let Err(error) = answer {
                        tracing::warn!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, %error, "the binding was refused");
                    }
                    return report(reason);
                }
                (NextStep::Read | NextStep::Void | NextStep::BackOff, Err(error)) => return rests(attempt, &error),
                // An accepted binding is bound.
                (NextStep::Read | NextStep::Void | NextStep::BackOff, Ok(_)) => return Done::Known(Report::Bound(bind.uid.clone())),
            }
        }
    }

    /// Returns the reason why the decision is outdated; `None` if it is current.
    ///
    /// The watch may lag, so the PodGroup is read before a further member of a gang is bound (#6010).
    async fn outdated(&self, bind: &Bind) -> Option<&'static str> {
        let minimum = bind.minimum?;
        let groups = Api::<PodGroup>::namespaced(self.client.clone(), &bind.group.namespace);
        match self.caller.read("get", "podgroups", || groups.get(&bind.group.name)).await {
            Ok(group) if group.spec.min_member.and_then(|now| u32::try_from(now).ok()) == Some(minimum) => None,
            Ok(_) | Err(CallError::NotFound(_)) => Some("group_changed"),
            Err(error) => Some(error.kind()),
        }
    }

    /// Reads the pod and returns its state; `None` if the read failed.
    async fn read_pod(&self, pods: &Api<Pod>, bind: &Bind) -> Option<Place> {
        let pod = match self.caller.read("get", "pods", || pods.get(&bind.name)).await {
            Ok(pod) => pod,
            Err(CallError::NotFound(_)) => return Some(Place::Gone),
            Err(_) => return None,
        };
        Some(place_of(&pod, bind))
    }
}

fn place_of(pod: &Pod, bind: &Bind) -> Place {
    if pod.metadata.uid.as_deref() != Some(&*bind.uid) {
        return Place::Gone;
    }
    match pod.spec.node_name.as_deref().filter(|node| !node.is_empty()) {
        Some(node) if *node == *bind.node => Place::Bound,
        Some(_) => Place::Elsewhere,
        None if pod.metadata.deletion_timestamp.is_some() => Place::Ending,
        None => Place::Waits { version: resource_version(&pod.metadata) },
    }
}

/// Returns the meaning of an answer.
fn meaning(answer: &Result<Value, CallError>) -> BindAnswer {
    match answer {
        Ok(_) => BindAnswer::Accepted,
        Err(CallError::Conflict(_)) => BindAnswer::Conflict,
        Err(error) if error.outcome_unknown() || error.is_transient() => BindAnswer::Open,
        Err(error) => BindAnswer::Refused(error.kind()),
    }
}

/// Records a request without a final answer, and returns when the binding is tried again.
fn rests(mut attempt: BindAttempt, error: &CallError) -> Done {
    let bind = &attempt.bind;
    // Only this message names the webhook, which the administrator must repair.
    if attempt.tries.failures == 0 && matches!(error, CallError::Webhook(_)) {
        tracing::warn!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, %error, "the binding waits for a webhook");
    } else if attempt.tries.failures == 0 {
        tracing::debug!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, %error, "the binding was not answered");
    }
    attempt.fail(error.kind(), error.outcome_unknown());
    let rest = BACKOFF.delay(attempt.tries.failures).max(error.retry_after().unwrap_or_default());
    Done::Open(Box::new(attempt), rest)
}

fn not_leading(attempt: BindAttempt) -> Done {
    match without_lease(attempt.requests()) {
        NextStep::NotBound(reason) => Done::Known(Report::NotBound(attempt.bind.uid.clone(), reason)),
        NextStep::Bound | NextStep::Read | NextStep::Send { .. } | NextStep::Void | NextStep::BackOff => {
            let rest = BACKOFF.delay(attempt.tries.failures);
            Done::Open(Box::new(attempt), rest)
        }
    }
}

/// Returns the final report from the state of the pod.
fn known(bind: &Bind, place: Place) -> Done {
    let uid = bind.uid.clone();
    Done::Known(match place {
        Place::Bound => Report::Bound(uid),
        Place::Elsewhere | Place::Ending | Place::Waits { .. } => Report::NotBound(uid, "conflict"),
        Place::Gone => Report::NotBound(uid, "not_found"),
    })
}

impl BindAttempt {
    /// Whether its decision may be old: a request was sent before, or the binding has waited in a lane.
    fn has_waited(&self) -> bool {
        self.tries.failures > 0 || self.tries.from_lane
    }

    fn requests(&self) -> Requests {
        Requests { version: self.bind.resource_version, unanswered: self.open.is_some(), conflicts: self.conflicts }
    }

    /// Takes the version of the pod that was just read. If it is another, no earlier request can take effect any more.
    fn adopt(&mut self, version: u64) {
        if is_newer(version, self.requests()) {
            self.bind.resource_version = version;
            self.open = None;
        }
    }

    /// Records a request without a final answer. The reason is one of a bounded set.
    pub(super) fn fail(&mut self, reason: &'static str, outcome_unknown: bool) {
        let now = clock::monotonic();
        self.tries.fail();
        self.since = Some((self.since.map_or(now, |(since, _)| since), reason));
        if outcome_unknown {
            self.open = Some(now);
        }
    }

    /// Returns the report that the outcome is unknown, once.
    pub(super) fn news(&mut self) -> Option<Report> {
        let (since, reason) = self.since?;
        if self.reported || self.open.is_none() || clock::monotonic().saturating_duration_since(since) < RETRY_ONLY {
            return None;
        }
        self.reported = true;
        Some(Report::Unanswered(self.bind.uid.clone(), reason))
    }
}

#[cfg(test)]
#[path = "bind_conflict_tests.rs"]
mod conflict_tests;
#[cfg(test)]
#[path = "bind_tests.rs"]
mod tests;
