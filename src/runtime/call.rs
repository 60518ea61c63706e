//! Sends one request to the API server: with a time limit, counted, and with its error classified.
//!
//! The client has no time limit of its own and, as this project builds it, never repeats a request. Both are decided
//! here, for each request. A write that timed out has an unknown outcome: the API server can apply a request after it
//! has answered 504. So nothing here repeats a write; [`Caller::read`] repeats reads.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use serde_json::Value;
use thiserror::Error;

use super::clock;
use super::leader::Leadership;
use super::metrics::RequestMetrics;
use super::rbac_warnings::{ADVICE, RbacWarnings};
use crate::backoff::Backoff;

/// How many characters of a server's message are kept: enough for every sentence of the API server, less than a list of
/// a thousand field errors.
const MESSAGE_LIMIT: usize = 600;

/// The beginning of the message for a pod that two disruption budgets cover. Only the text tells it apart from an error of the server itself.
const TWO_BUDGETS: &str = "This pod has more than one PodDisruptionBudget";

/// The beginning of the message for an admission webhook that gave no answer. It has no reason of its own either.
const WEBHOOK: &str = "Internal error occurred: failed calling webhook";

/// Why a request did not succeed. The text is for people; code decides on the variant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// 404: the object, or its whole kind, does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// 409: the UID or the resourceVersion that the caller sent is old.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 409 with its own reason: an object of that name exists.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 400, 405, 413, 415 or 422: the request itself is wrong and would fail again.
    #[error("invalid: {0}")]
    Invalid(String),
    /// 403: RBAC, a quota or an admission plugin refused it.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// 403 because the namespace is being deleted: no object can be created in it any more.
    #[error("namespace is terminating: {0}")]
    NamespaceTerminating(String),
    /// 401: the credentials are not accepted (any more).
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// 410: the resourceVersion or the continue token is too old; list again.
    #[error("expired: {0}")]
    Expired(String),
    /// A disruption budget protects the pod (429 with that cause), or two of them make an eviction impossible (500). Waiting alone may not help.
    #[error("disruption budget: {0}")]
    DisruptionBudget(String),
    /// 429: the server asks for the request later. The wait is the one that the server named, if any, at
    /// most [`MAX_RETRY_AFTER`].
    #[error("too many requests: {message}")]
    TooManyRequests {
        /// The shortest wait that the server asked for; `None` when it named none.
        retry_after: Option<Duration>,
        /// The message of the server.
        message: String,
    },
    /// 500: a required admission webhook did not answer. Webhooks run before anything is stored, so **a write was not done**.
    #[error("a webhook is unavailable: {0}")]
    Webhook(String),
    /// Our time limit passed, or the server answered 504: **a write may have been done, or may still be done**.
    #[error("timed out: {0}")]
    Timeout(String),
    /// No connection, a broken connection, or 500, 502, 503: a write may have been done.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Any other error, for example an answer that could not be read. A write may have been done.
    #[error("{0}")]
    Other(String),
}

/// The [`CallError::kind`] of a request that was refused because the namespace is being deleted.
pub const NAMESPACE_TERMINATING: &str = "namespace_terminating";

/// The longest wait that is accepted from a server.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

impl CallError {
    /// Returns the name of the variant, one of a bounded set: the label of a metric, and the test for "the same error as before".
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::AlreadyExists(_) => "already_exists",
            Self::Invalid(_) => "invalid",
            Self::Forbidden(_) => "forbidden",
            Self::NamespaceTerminating(_) => "namespace_terminating",
            Self::Unauthorized(_) => "unauthorized",
            Self::Expired(_) => "expired",
            Self::DisruptionBudget(_) => "disruption_budget",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::Webhook(_) => "webhook_unavailable",
            Self::Timeout(_) => "timeout",
            Self::Unavailable(_) => "unavailable",
            Self::Other(_) => "other",
        }
    }

    /// Whether a write that ended with this error may have been applied, or may still be.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Unavailable(_) | Self::Other(_))
    }

    /// Whether the same request may succeed a little later although nothing in it changes.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Webhook(_) | Self::Timeout(_) | Self::Unavailable(_) | Self::TooManyRequests { .. })
    }

    /// Returns the shortest wait that the server asked for, if any.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::TooManyRequests { retry_after, .. } = self { *retry_after } else { None }
    }

    /// Returns the error in the body of a successful answer: the API server sends some refusals of an eviction as a Status with code 201 around it.
    /// `None` when the body is no failure.
    pub fn inside(body: &Value) -> Option<Self> {
        if body.get("status").and_then(Value::as_str) != Some("Failure") {
            return None;
        }
        let error = |error: serde_json::Error| Self::Other(bounded(&error.to_string()));
        Some(serde_json::from_value::<Status>(body.clone()).map_or_else(error, |status| Self::from_status(&status)))
    }

    /// Classifies a Status object from the server.
    pub(super) fn from_status(status: &Status) -> Self {
        let message = bounded(if status.message.is_empty() { &status.reason } else { &status.message });
        let details = status.details.as_ref();
        let causes = || details.into_iter().flat_map(|d| &d.causes);
        match status.code {
            400 | 405 | 406 | 413 | 415 | 422 => Self::Invalid(message),
            401 => Self::Unauthorized(message),
            403 if causes().any(|cause| cause.reason == "NamespaceTerminating") => Self::NamespaceTerminating(message),
            403 => Self::Forbidden(message),
            404 => Self::NotFound(message),
            409 if status.is_already_exists() => Self::AlreadyExists(message),
            409 => Self::Conflict(message),
            410 => Self::Expired(message),
            429 if causes().any(|cause| cause.reason == "DisruptionBudget") => Self::DisruptionBudget(message),
            500 if status.message.starts_with(TWO_BUDGETS) => Self::DisruptionBudget(message),
            500 if status.message.starts_with(WEBHOOK) => Self::Webhook(message),
            429 => Self::TooManyRequests {
                retry_after: details
                    .map(|d| d.retry_after_seconds)
                    .filter(|seconds| *seconds > 0)
                    .map(|s| Duration::from_secs(u64::from(s)).min(MAX_RETRY_AFTER)),
                message,
            },
            504 => Self::Timeout(message),
            500 | 502 | 503 => Self::Unavailable(message),
            _ => Self::Other(message),
        }
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            return Self::from_status(status);
        }
        let text = bounded(&chain(&error));
        if matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_)) {
            return Self::Unavailable(text);
        }
        if matches!(error, kube::Error::Auth(_)) {
            return Self::Unauthorized(text);
        }
        Self::Other(text)
    }
}

/// Joins an error with its causes: "client error (Connect)" alone helps no reader.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let line = cause.to_string();
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        next = cause.source();
    }
    text
}

/// Returns the text as one line of at most [`MESSAGE_LIMIT`] characters.
pub(super) fn bounded(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let mut line: String = text.chars().take(MESSAGE_LIMIT).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}

/// Waits for a request, but no longer than `limit`. A request that is cut off has an unknown outcome
/// ([`CallError::Timeout`]).
///
/// # Errors
/// See [`CallError`].
pub async fn call<T>(limit: Duration, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
    tokio::time::timeout(limit, request)
        .await
        .map_or_else(|_elapsed| Err(CallError::Timeout(format!("no answer within {limit:?}"))), |answer| answer.map_err(CallError::from))
}

/// Sends requests with one time limit and counts them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller {
    limit: Duration,
    /// Sends requests only while this leadership lasts; `None` sends always.
    leadership: Option<Leadership>,
    metrics: RequestMetrics,
    rbac_warnings: Arc<RbacWarnings>,
}

/// How often a read is sent: 4 times in all, with 0.1, 0.2 and 0.4 s between.
const READ_ATTEMPTS: u32 = 4;
const READ_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

impl Caller {
    /// Makes a caller. Each of its requests ends within `limit`.
    pub fn new(limit: Duration, metrics: RequestMetrics) -> Self {
        Self { limit, leadership: None, metrics, rbac_warnings: Arc::default() }
    }

    /// Returns the same caller with a limit of at most `limit`.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// Returns the same caller, bound to a lease: it sends only while `leadership` has the lease. It also stops waiting for an answer before another
    /// process can take the lease: by then each request has ended, or is cut off with an unknown outcome.
    pub fn while_leading(mut self, leadership: Leadership) -> Self {
        self.leadership = Some(leadership);
        self
    }

    /// Returns the time limit of one request.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Sends one request once. `verb` and `resource` are metric labels and come from a bounded set ("patch",
    /// "podgroups").
    ///
    /// # Errors
    /// See [`CallError`]; mind [`CallError::outcome_unknown`] for a write.
    pub async fn once<T>(
        &self,
        verb: &'static str,
        resource: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, CallError> {
        let began = clock::monotonic();
        let allowed = match &self.leadership {
            Some(leadership) => leadership.allows(self.limit),
            None => Some(self.limit),
        };
        let answer = match allowed {
            Some(limit) => call(limit, request).await,
            None => Err(CallError::Unavailable("not sent: this process does not hold its lease".to_owned())),
        };
        let outcome = answer.as_ref().map_or_else(CallError::kind, |_| "ok");
        let took = clock::monotonic().saturating_duration_since(began);
        self.metrics.count(verb, resource, outcome, took);
        if let Err(error) = &answer
            && self.rbac_warnings.is_due(verb, resource, error, began)
        {
            tracing::warn!(verb, resource, %error, "forbidden; the request is retried and other work goes on; {ADVICE}");
        }
        answer
    }

    /// Sends a read, and sends it again while the error is transient: 4 times in all, and never before the server's own
    /// `Retry-After`. `make` makes one request each time. Not for writes.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub async fn read<T, F>(&self, verb: &'static str, resource: &'static str, mut make: impl FnMut() -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut failures = 0;
        loop {
            let error = match self.once(verb, resource, make()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            if failures >= READ_ATTEMPTS || !error.is_transient() {
                return Err(error);
            }
            let asked = error.retry_after().unwrap_or_default();
            tokio::time::sleep(READ_BACKOFF.delay(failures).max(asked)).await;
        }
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
