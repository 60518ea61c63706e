//! Who may see what is served over HTTP?
//!
//! Whom the API server knows and allows, as for kube-rbac-proxy and for Kubernetes' own components: the bearer token is asked about by a TokenReview, and
//! then, by a SubjectAccessReview, whether that user may `get` the path (a rule with `nonResourceURLs`). What was answered is kept for a short time
//! ([`super::access_cache`]).
//!
//! ```text
//!   no token, or nobody's ──▶ 401     the user may not ──▶ 403     too many strangers at once ──▶ 429
//!   the API server does not answer, or does not let us ask ──▶ 503     allowed ──▶ the answer
//! ```
//!
//! **Architecture invariant:** nothing but a fresh "allowed" of the API server opens a path. **Architecture invariant:** no token is kept or logged; its
//! SHA-256 is kept, and not logged.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};

use super::access_cache::{Cache, Key, Leave, Verdict};
use super::call::{CallError, Caller};
use super::clock;

/// The limit of one review. Two of them fit into the time that an answer over HTTP has.
const REVIEW: Duration = Duration::from_secs(2);

/// Asks about those who ask. Cheap to clone; all clones know the same.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    server: OnceLock<(Client, Caller)>,
    cache: Mutex<Cache>,
    /// One question at a time, so that who comes twice at once is asked about once.
    asking: tokio::sync::Mutex<()>,
    /// The trouble that was logged last: one line for each change.
    said: Mutex<Option<&'static str>>,
}

impl Access {
    /// Nobody can be asked yet, so nobody is let in.
    #[expect(clippy::new_without_default, reason = "one is made for a program and connected later; a default would hide that")]
    pub fn new() -> Self {
        let (server, cache) = (OnceLock::new(), Mutex::new(Cache::new()));
        Self(Arc::new(Inner { server, cache, asking: tokio::sync::Mutex::new(()), said: Mutex::new(None) }))
    }

    /// From now on the API server is asked. A second call changes nothing. `caller` must send also while this process does not lead.
    pub fn connect(&self, client: Client, caller: &Caller) {
        let _twice = self.0.server.set((client, caller.clone().within(REVIEW)));
    }

    /// Lets a request through, or answers it.
    pub(super) async fn guard(self, path: &'static str, request: Request, next: Next) -> Response {
        let Some(token) = bearer(request.headers()) else {
            return refused(StatusCode::UNAUTHORIZED, "Unauthorized\n".to_owned());
        };
        match self.verdict(token, path).await {
            Ok(Verdict::Allowed) => next.run(request).await,
            Ok(Verdict::Unknown) => refused(StatusCode::UNAUTHORIZED, "Unauthorized\n".to_owned()),
            Ok(Verdict::Forbidden(user)) => {
                refused(StatusCode::FORBIDDEN, format!("Forbidden (user={user}, verb=get, path={path}, as a nonResourceURL)\n"))
            }
            Err(Unanswered::TooMany) => {
                refused(StatusCode::TOO_MANY_REQUESTS, "too many tokens that nobody asked about before; try again in a second\n".to_owned())
            }
            Err(Unanswered::Away) => {
                refused(StatusCode::SERVICE_UNAVAILABLE, "the API server cannot be asked who you are and what you may see\n".to_owned())
            }
        }
    }

    async fn verdict(&self, token: &str, path: &'static str) -> Result<Verdict, Unanswered> {
        let key = key(token, path);
        if let Some(known) = self.cache().known(&key, clock::monotonic()) {
            return Ok(known);
        }
        let Some((client, caller)) = self.0.server.get() else { return Err(Unanswered::Away) };
        let _one_at_a_time = self.0.asking.lock().await;
        // Somebody may have asked the same while we waited.
        if let Some(known) = self.cache().known(&key, clock::monotonic()) {
            return Ok(known);
        }
        match self.cache().leave(&key, clock::monotonic()) {
            Leave::Granted => {}
            Leave::TooMany => return Err(Unanswered::TooMany),
            Leave::Unanswered => return Err(Unanswered::Away),
        }
        let answer = ask(client, caller, token, path).await;
        self.cache().learn(key, answer.as_ref().ok(), clock::monotonic());
        self.say(answer.as_ref().err());
        answer.map_err(|_said| Unanswered::Away)
    }

    fn say(&self, trouble: Option<&CallError>) {
        let kind = trouble.map(CallError::kind);
        let mut said = self.0.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said == kind {
            return;
        }
        *said = kind;
        match trouble {
            None => tracing::info!("the API server says again who may see /metrics"),
            Some(error @ CallError::Forbidden(_)) => tracing::error!(
                %error,
                "nobody can be let in to /metrics: give this ServiceAccount the right to create tokenreviews and subjectaccessreviews (ClusterRole system:auth-delegator)"
            ),
            Some(error) => tracing::warn!(%error, "nobody new can be let in to /metrics until the API server answers"),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is no verdict.
enum Unanswered {
    TooMany,
    Away,
}

fn refused(code: StatusCode, text: String) -> Response {
    let mut response = (code, text).into_response();
    if code == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    response
}

/// `Authorization: Bearer TOKEN`; the word in any case, as HTTP has it.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn key(token: &str, path: &'static str) -> Key {
    let mut short = [0; 32];
    // Both have 32 bytes; zip needs no proof of it.
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    short.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    (short, path)
}

async fn ask(client: &Client, caller: &Caller, token: &str, path: &str) -> Result<Verdict, CallError> {
    let review = TokenReview { spec: TokenReviewSpec { token: token.to_owned(), audiences: None }, ..TokenReview::default() };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let parameters = PostParams::default();
    let status = caller.once("create", "tokenreviews", reviews.create(&parameters, &review)).await?.status.unwrap_or_default();
    let user = match status.user {
        Some(user) if status.authenticated == Some(true) => user,
        Some(_) | None => return Ok(Verdict::Unknown),
    };
    let name = user.username.clone().unwrap_or_default();
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review = may_get(user, path);
    let status = caller.once("create", "subjectaccessreviews", reviews.create(&parameters, &review)).await?.status.unwrap_or_default();
    let denied = status.denied == Some(true);
    Ok(if status.allowed && !denied { Verdict::Allowed } else { Verdict::Forbidden(name) })
}

/// A HEAD is asked about as a GET: it shows less.
fn may_get(user: UserInfo, path: &str) -> SubjectAccessReview {
    let what = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        non_resource_attributes: Some(what),
        resource_attributes: None,
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

#[cfg(test)]
#[path = "access_tests.rs"]
pub(super) mod tests;
