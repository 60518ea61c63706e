//! How does one binding end, and what if nobody says?
//!
//! ```text
//!            a yes, or a no                                        it is bound, or somewhere else, or gone
//!  sent ─┬──────────────────▶ (known)     after PATIENCE: look ─┬──────────────────────────────────────────▶ (known)
//!    ▲   │                                      ▲               │ it waits, and nothing that was sent can land any more
//!    │   ╰── no answer: it rests ───────────────╯               ├──────────────────────────────────────────▶ (known: not bound)
//!    │                │                                         │ it waits
//!    ╰────────────────┴─────────────────────────────────────────╯
//! ```
//!
//! A binding whose outcome is unknown (no answer, 5xx) is sent again **to the same node** until an answer is known: a first attempt that lands late then meets its own result,
//! and never takes room that was meanwhile given to somebody else. It is given up only where a look at the pod says so: all that was sent was answered with a no that passes (a
//! webhook that is down, flow control), or it is so long ago that no API server carries it out any more. While the API server answers nothing, the look fails too, and nothing
//! is given up. So it is one that answers everything but this binding: then nothing is sent for a while, so that the look at its end tells the truth.

use std::time::Duration;

use kube::api::{Api, PostParams};
use serde_json::Value;

use crate::api::{Pod, PodGroup};
use crate::backoff::Backoff;
use crate::cycle::plan::Bind;
use crate::runtime::call::CallError;
use crate::runtime::clock;

use super::super::command;
use super::super::event::Report;
use super::turns::Try;
use super::{Destination, Done};

/// How patiently it is sent again.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// How long it is only sent again; after that it is looked first, and told.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// So long after it was sent an API server has carried a request out or dropped it: its `--request-timeout` is a minute.
const LATEST: Duration = Duration::from_secs(90);

/// How often it is sent in vain while everything else is answered.
const ALONE: u32 = 3;

/// What the pod itself says.
enum Place {
    /// It is on the node that was meant.
    Bound,
    /// It is on another one.
    Elsewhere,
    /// It has none.
    Waits,
    /// It is not there any more, or is another one.
    Gone,
}

impl Destination {
    /// Sends it once, or looks what became of it.
    pub(super) async fn bind(&self, mut tried: Try) -> Done {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &tried.bind.namespace);
        let bind = &tried.bind;
        let not_bound = |why| Done::Known(Report::NotBound(bind.uid.clone(), why));
        if tried.failures == 0
            && let Some(why) = self.outdated(bind).await
        {
            return not_bound(why);
        }
        if !self.leadership.is_leading() {
            return not_bound("not_leading");
        }
        if let Some((since, why)) = tried.since
            && clock::monotonic().saturating_duration_since(since) >= PATIENCE
        {
            match self.look(&pods, bind).await {
                Some(Place::Waits) => {}
                Some(place) => return known(bind, &place),
                None => {
                    (tried.failures, tried.alone) = (tried.failures.saturating_add(1), 0);
                    let rest = BACKOFF.delay(tried.failures);
                    return Done::Open(Box::new(tried), rest);
                }
            }
            let closes = tried.open.map(|at| (at + LATEST).saturating_duration_since(clock::monotonic())).unwrap_or_default();
            // Once more first: what kept it from being answered may be over, as when nothing was answered.
            if tried.alone > 0 && closes.is_zero() {
                tracing::warn!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, why, "the binding was refused all the time");
                return not_bound(why);
            }
            if tried.alone >= ALONE {
                return Done::Open(Box::new(tried), closes);
            }
            tried.alone = tried.alone.saturating_add(1);
        }
        self.send(&pods, tried).await
    }

    async fn send(&self, pods: &Api<Pod>, mut tried: Try) -> Done {
        let bind = &tried.bind;
        let (params, body) = (PostParams::default(), command::binding(bind));
        let request = pods.create_subresource::<Value, Value>("binding", &bind.name, &params, &body);
        let error = match self.caller.once("create", "pods/binding", request).await {
            Ok(_) => return Done::Known(Report::Bound(bind.uid.clone())),
            Err(error) => error,
        };
        // A conflict may be our own first attempt, and so may be what an unknown outcome has left behind.
        if matches!(error, CallError::Conflict(_)) {
            if let Some(place) = self.look(pods, bind).await {
                return known(bind, &place);
            }
        } else if !error.outcome_unknown() && !error.is_transient() {
            tracing::warn!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, %error, "the binding was refused");
            return Done::Known(Report::NotBound(bind.uid.clone(), error.kind()));
        }
        // Nothing else names the webhook, and somebody has to mend it.
        if tried.failures == 0 && matches!(error, CallError::Webhook(_)) {
            tracing::warn!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, %error, "the binding waits for a webhook");
        } else if tried.failures == 0 {
            tracing::debug!(pod = %bind.name, namespace = %bind.namespace, node = %bind.node, %error, "the binding was not answered");
        }
        tried.fail(error.kind(), error.outcome_unknown());
        let rest = BACKOFF.delay(tried.failures).max(error.retry_after().unwrap_or_default());
        Done::Open(Box::new(tried), rest)
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

    /// Where the pod is; none where nobody says.
    async fn look(&self, pods: &Api<Pod>, bind: &Bind) -> Option<Place> {
        let pod = match self.caller.read("get", "pods", || pods.get(&bind.name)).await {
            Ok(pod) => pod,
            Err(CallError::NotFound(_)) => return Some(Place::Gone),
            Err(_) => return None,
        };
        if pod.metadata.uid.as_deref() != Some(&*bind.uid) {
            return Some(Place::Gone);
        }
        Some(match pod.spec.node_name.as_deref().filter(|node| !node.is_empty()) {
            Some(node) if *node == *bind.node => Place::Bound,
            Some(_) => Place::Elsewhere,
            None => Place::Waits,
        })
    }
}

/// What a look says of a binding that cannot land any more.
fn known(bind: &Bind, place: &Place) -> Done {
    let uid = bind.uid.clone();
    Done::Known(match place {
        Place::Bound => Report::Bound(uid),
        Place::Elsewhere | Place::Waits => Report::NotBound(uid, "conflict"),
        Place::Gone => Report::NotBound(uid, "not_found"),
    })
}

impl Try {
    /// It was sent and not answered, for a reason of a bounded set.
    pub(super) fn fail(&mut self, why: &'static str, outcome_unknown: bool) {
        let now = clock::monotonic();
        self.failures = self.failures.saturating_add(1);
        self.since = Some((self.since.map_or(now, |(since, _)| since), why));
        if outcome_unknown {
            self.open = Some(now);
        }
    }

    /// What is to be told now, once: that nobody says whether it is bound.
    pub(super) fn news(&mut self) -> Option<Report> {
        let (since, why) = self.since?;
        if self.told || self.open.is_none() || clock::monotonic().saturating_duration_since(since) < PATIENCE {
            return None;
        }
        self.told = true;
        Some(Report::Unanswered(self.bind.uid.clone(), why))
    }
}

#[cfg(test)]
#[path = "bind_tests.rs"]
mod tests;
