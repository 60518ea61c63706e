//! Fences one pod: changes it, so that each binding that an earlier leader has sent for it is refused.
//!
//! The write is a condition of our own in the pod's status. It names this start of this process, so it always changes the pod's resourceVersion, and
//! each earlier binding carries an older one. The answer shows whether an earlier binding has taken effect before.
//!
//! A fence without an answer is sent again, in the lane of its namespace. A webhook that refuses the writes of one namespace must not stop
//! the scheduler. So after [`LATEST`], which no request and no wait of a fence outlasts, a pod that could not be fenced is read and let be:
//! no API server carries out an older request then, and the read shows whether one took effect meanwhile. A request that was held back on
//! its way for longer than that is not covered for this pod.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch};
use tokio::time::Instant;

use crate::api::pod_facts::resource_version;
use crate::api::{Pod, Uid};
use crate::backoff::Backoff;
use crate::runtime::call::CallError;
use crate::runtime::clock;

use super::super::command;
use super::super::event::{Fenced, Report};
use super::super::takeover::FenceAnswer;
use super::bind::LATEST;
use super::bind_queue::{Attempt, Tries};
use super::write::patched;
use super::{Destination, Done};

/// The back-off between two requests.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// A pod to be fenced, and its attempts so far.
#[derive(Clone, Debug)]
pub(super) struct FenceAttempt {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: Uid,
    /// The time of the takeover, for the condition; `None` where the pod has it already.
    pub(super) since: Option<Timestamp>,
    /// When the fences began.
    pub(super) began: Instant,
    pub(super) tries: Tries,
}

impl Attempt for FenceAttempt {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn tries(&self) -> &Tries {
        &self.tries
    }

    fn tries_mut(&mut self) -> &mut Tries {
        &mut self.tries
    }
}

impl FenceAttempt {
    /// Returns how long the pod is still to be fenced.
    fn left(&self) -> Duration {
        LATEST.saturating_sub(clock::monotonic().saturating_duration_since(self.began))
    }

    /// Returns the report about this pod.
    pub(super) fn report(&self, answer: FenceAnswer, resource_version: u64) -> Report {
        Report::Fenced(Fenced { uid: self.uid.clone(), answer, resource_version })
    }
}

impl Destination {
    /// Sends the fence once.
    pub(super) async fn fence(&self, attempt: FenceAttempt) -> Done {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &attempt.namespace);
        let left = attempt.left();
        if left.is_zero() && (attempt.tries.failures > 0 || attempt.tries.from_lane) {
            return self.give_up(&pods, attempt).await;
        }
        // A webhook that hangs holds the last request no longer than that.
        let caller = if left.is_zero() { self.caller.clone() } else { self.caller.clone().within(left) };
        let body = Patch::Strategic(command::fence_patch(&attempt.uid, self.leadership.identity(), attempt.since));
        let error = match caller.once("patch", "pods/status", pods.patch_status(&attempt.name, &patched(), &body)).await {
            Ok(pod) => return Done::Known(attempt.answered(&pod)),
            Err(error) => error,
        };
        if matches!(error, CallError::NotFound(_)) {
            return Done::Known(attempt.report(FenceAnswer::Gone, 0));
        }
        // Another pod may have the name. kube-apiserver answers a patch with another UID with 422, because that field is immutable.
        if matches!(error, CallError::Conflict(_) | CallError::Invalid(_))
            && let Ok(pod) = self.caller.read("get", "pods", || pods.get(&attempt.name)).await
            && pod.metadata.uid.as_deref() != Some(&*attempt.uid)
        {
            return Done::Known(attempt.report(FenceAnswer::Gone, 0));
        }
        rests(attempt, &error)
    }

    /// Reads the pod, which no webhook delays, and lets it be. The read begins after the last moment at which an earlier binding can have
    /// taken effect.
    async fn give_up(&self, pods: &Api<Pod>, attempt: FenceAttempt) -> Done {
        let answer = match self.caller.read("get", "pods", || pods.get(&attempt.name)).await {
            Ok(pod) if pod.metadata.uid.as_deref() != Some(&*attempt.uid) => FenceAnswer::Gone,
            Ok(pod) if is_bound(&pod) => FenceAnswer::Landed,
            Ok(_) => FenceAnswer::GivenUp,
            Err(CallError::NotFound(_)) => FenceAnswer::Gone,
            Err(error) => return rests(attempt, &error),
        };
        if answer == FenceAnswer::GivenUp {
            tracing::warn!(
                pod = %attempt.name, namespace = %attempt.namespace,
                "the pod could not be changed after the leader changed: a binding of an earlier leader that is still on its way would be accepted"
            );
        }
        Done::Known(attempt.report(answer, 0))
    }
}

fn rests(mut attempt: FenceAttempt, error: &CallError) -> Done {
    tracing::debug!(pod = %attempt.name, namespace = %attempt.namespace, %error, "the pod could not be fenced");
    attempt.tries.fail();
    let rest = BACKOFF.delay(attempt.tries.failures).max(error.retry_after().unwrap_or_default());
    let left = attempt.left();
    let rest = if left.is_zero() { rest } else { rest.min(left) };
    Done::NotFenced(Box::new(attempt), rest)
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty())
}

impl FenceAttempt {
    fn answered(&self, pod: &Pod) -> Report {
        self.report(if is_bound(pod) { FenceAnswer::Landed } else { FenceAnswer::Fenced }, resource_version(&pod.metadata))
    }
}

#[cfg(test)]
#[path = "fence_tests.rs"]
mod tests;
