//! How did one request to the API server end, and may it be sent again?
//!
//! The client has no time limit of its own and, as this project builds it, never repeats a request: both are decided
//! here, for each request. A write that timed out has an unknown outcome (the API server can apply a request after it
//! has answered 504), so nothing here ever repeats one; [`Caller::read`] repeats reads.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use serde_json::Value;
use thiserror::Error;

use super::backoff::Backoff;
use super::clock;
use super::leader::Leadership;
use super::metrics::RequestMetrics;
use super::rights::{ADVICE, Rights};

/// How much of a server's message is kept: enough for every sentence that the API server writes, short of a list of
/// a thousand field errors.
const MESSAGE_LIMIT: usize = 600;

/// How the API server begins to say that two disruption budgets guard a pod, which nothing but its words tells apart from trouble of its own.
const TWO_BUDGETS: &str = "This pod has more than one PodDisruptionBudget";

/// How it begins to say that an admission webhook gave it no answer, which likewise has no reason of its own.
const WEBHOOK: &str = "Internal error occurred: failed calling webhook";

/// Why a request did not succeed. Text is for people; decide on the variant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// 404: the object, or its whole kind, is not there.
    #[error("not found: {0}")]
    NotFound(String),
    /// 409: what the caller knew (UID, resourceVersion) is old.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 409 with its own reason: an object of that name is there.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 400, 405, 413, 415 or 422: the request itself is wrong; the same one fails again.
    #[error("invalid: {0}")]
    Invalid(String),
    /// 403: RBAC, a quota or an admission plugin said no.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// 403 because the namespace is going away: nothing can be created there any more.
    #[error("namespace is terminating: {0}")]
    NamespaceTerminating(String),
    /// 401: the credentials are not (or no longer) accepted.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// 410: the resourceVersion or the continue token is too old; list again.
    #[error("expired: {0}")]
    Expired(String),
    /// A disruption budget keeps the pod (429 with that cause), or two of them make it impossible to ask (500): it is no matter of time alone.
    #[error("disruption budget: {0}")]
    DisruptionBudget(String),
    /// 429: the server wants it later. The wait is what the server asked for, if it did, at
    /// most [`MAX_RETRY_AFTER`].
    #[error("too many requests: {message}")]
    TooManyRequests {
        /// The least wait that the server asked for; `None` when it named none.
        retry_after: Option<Duration>,
        /// What the server said.
        message: String,
    },
    /// 500: an admission webhook that must be asked could not be. That is done before anything is stored, so **a write was not done**.
    #[error("a webhook is unavailable: {0}")]
    Webhook(String),
    /// Our own limit passed, or the server answered 504: **a write may have been done, or may still be**.
    #[error("timed out: {0}")]
    Timeout(String),
    /// No connection, a connection that broke, or 500, 502, 503: a write may have been done.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Anything else, for example an answer that could not be read. A write may have been done.
    #[error("{0}")]
    Other(String),
}

/// The longest wait that a server can make us promise.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

impl CallError {
    /// The name of the variant, one of a bounded set, for a metric's label and for "is it the same trouble as before".
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

    /// Whether a write that ended so may have been applied, or may still be.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Unavailable(_) | Self::Other(_))
    }

    /// Whether the same request may well succeed a little later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Webhook(_) | Self::Timeout(_) | Self::Unavailable(_) | Self::TooManyRequests { .. })
    }

    /// The least wait that the server asked for, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::TooManyRequests { retry_after, .. } = self { *retry_after } else { None }
    }

    /// What the body of a successful answer says all the same: the API server sends some refusals of an eviction as a Status with 201 around it.
    /// None where it is no failure.
    pub fn inside(body: &Value) -> Option<Self> {
        if body.get("status").and_then(Value::as_str) != Some("Failure") {
            return None;
        }
        let error = |error: serde_json::Error| Self::Other(bounded(&error.to_string()));
        Some(serde_json::from_value::<Status>(body.clone()).map_or_else(error, |status| Self::from_status(&status)))
    }

    /// What a status object from the server means.
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

/// An error with its causes: "client error (Connect)" alone helps nobody.
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

/// One line of at most [`MESSAGE_LIMIT`] characters.
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
    /// Sends only while it says so; `None` sends always.
    leadership: Option<Leadership>,
    metrics: RequestMetrics,
    rights: Arc<Rights>,
}

/// How often and how patiently a read is repeated: 4 times in all, with 0.1, 0.2 and 0.4 s between.
const READ_ATTEMPTS: u32 = 4;
const READ_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

impl Caller {
    /// A caller whose every request ends within `limit`.
    pub fn new(limit: Duration, metrics: RequestMetrics) -> Self {
        Self { limit, leadership: None, metrics, rights: Arc::default() }
    }

    /// The same, with a limit of at most `limit`.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// The same, which sends only while `leadership` has the lease, and waits for no answer until the lease can be another's: what it sent is over
    /// by then, or cut off with an unknown outcome.
    pub fn while_leading(mut self, leadership: Leadership) -> Self {
        self.leadership = Some(leadership);
        self
    }

    /// The time limit of one request.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Sends one request, once. `verb` and `resource` are metric labels and come from a bounded set ("patch",
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
            && self.rights.is_news(verb, resource, error, began)
        {
            tracing::warn!(verb, resource, %error, "refused, and tried again; all else goes on; {ADVICE}");
        }
        answer
    }

    /// Sends a read, and sends it again while the error is transient, 4 times in all and never before the server's own
    /// `Retry-After`. `make` makes one request each time. Not for writes.
    ///
    /// # Errors
    /// The last attempt's.
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
