//! Decides whether a client may read a path of the HTTP server.
//!
//! The API server authenticates and authorizes the client, as for kube-rbac-proxy and for the components of Kubernetes:
//! * a TokenReview says which user the bearer token belongs to;
//! * a SubjectAccessReview says whether that user may `get` the path (a rule with `nonResourceURLs`).
//!
//! Answers are cached for a short time ([`super::access_cache`]).
//!
//! ```text
//!   no token, or an invalid one ──▶ 401     the user may not ──▶ 403     too many unknown tokens at once ──▶ 429
//!   the API server does not answer, or refuses the reviews ──▶ 503     allowed ──▶ the answer
//! ```
//!
//! **Architecture invariant:** only a fresh "allowed" of the API server opens a path. **Architecture invariant:** no token is kept or logged. Its
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

use super::access_cache::{Cache, Key, Permission, Verdict};
use crate::runtime::call::{CallError, Caller};
use crate::runtime::clock;

/// The time limit of one review. Two of them fit into the time limit of an answer over HTTP.
const REVIEW: Duration = Duration::from_secs(2);

/// Authenticates and authorizes the clients of the HTTP server. Cheap to clone; all clones share one cache.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    server: OnceLock<(Client, Caller)>,
    cache: Mutex<Cache>,
    /// Held while a review is sent: two requests with the same token cause one review.
    one_review: tokio::sync::Mutex<()>,
    /// The kind of the last logged error: one log line for each change.
    logged: Mutex<Option<&'static str>>,
}

impl Access {
    /// Makes an `Access` that knows no API server yet, and therefore lets no client in.
    #[expect(clippy::new_without_default, reason = "a program makes one and connects it later; a default would hide that")]
    pub fn new() -> Self {
        let (server, cache) = (OnceLock::new(), Mutex::new(Cache::new()));
        Self(Arc::new(Inner { server, cache, one_review: tokio::sync::Mutex::new(()), logged: Mutex::new(None) }))
    }

    /// Sets the API server that is asked from now on. A second call changes nothing. `caller` must send requests also while this process is
    /// not the leader.
    pub fn connect(&self, client: Client, caller: &Caller) {
        let _twice = self.0.server.set((client, caller.clone().within(REVIEW)));
    }

    /// Passes an authorized request on to `next`, or answers it with a refusal.
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
                refused(StatusCode::TOO_MANY_REQUESTS, "too many unknown tokens at once; try again in a second\n".to_owned())
            }
            Err(Unanswered::Unavailable) => refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "the API server cannot be asked to authenticate and authorize this request\n".to_owned(),
            ),
        }
    }

    async fn verdict(&self, token: &str, path: &'static str) -> Result<Verdict, Unanswered> {
        let key = key(token, path);
        if let Some(known) = self.cache().known(&key, clock::monotonic()) {
            return Ok(known);
        }
        let Some((client, caller)) = self.0.server.get() else { return Err(Unanswered::Unavailable) };
        let _one_at_a_time = self.0.one_review.lock().await;
        // Another request may have asked the same while this one waited for the lock.
        if let Some(known) = self.cache().known(&key, clock::monotonic()) {
            return Ok(known);
        }
        match self.cache().may_review(&key, clock::monotonic()) {
            Permission::Granted => {}
            Permission::TooMany => return Err(Unanswered::TooMany),
            Permission::Unanswered => return Err(Unanswered::Unavailable),
        }
        let answer = ask(client, caller, token, path).await;
        self.cache().learn(key, answer.as_ref().ok(), clock::monotonic());
        self.log_change(answer.as_ref().err());
        answer.map_err(|_logged| Unanswered::Unavailable)
    }

    fn log_change(&self, trouble: Option<&CallError>) {
        let kind = trouble.map(CallError::kind);
        let mut logged = self.0.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if *logged == kind {
            return;
        }
        *logged = kind;
        match trouble {
            None => tracing::info!("the API server authorizes clients of /metrics again"),
            Some(error @ CallError::Forbidden(_)) => tracing::error!(
                %error,
                "clients of /metrics cannot be authorized: this ServiceAccount needs the permission to create tokenreviews and subjectaccessreviews (ClusterRole system:auth-delegator)"
            ),
            Some(error) => tracing::warn!(%error, "new clients of /metrics are refused until the API server answers"),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reasons for which there is no verdict.
enum Unanswered {
    TooMany,
    Unavailable,
}

fn refused(code: StatusCode, text: String) -> Response {
    let mut response = (code, text).into_response();
    if code == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    response
}

/// Returns the token of `Authorization: Bearer TOKEN`. The scheme is matched in any case, as HTTP requires.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn key(token: &str, path: &'static str) -> Key {
    let mut short = [0; 32];
    // Both have 32 bytes, so `zip` needs no check of the lengths.
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

/// A HEAD request is authorized as a GET: it shows less.
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
