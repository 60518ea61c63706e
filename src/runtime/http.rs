//! What can be asked of a running program over HTTP?
//!
//! `/healthz`: the loop that owns the state turns ([`super::pulse`]). `/readyz`: the lists are complete; the body says which are not and why. `/metrics`:
//! the numbers. Further paths answer in JSON ([`DebugRoute`]); who owns the state is asked through a channel and has
//! [`ANSWER`] to answer, so no lock is shared with this server and nothing that is asked here can hold up the work.
//!
//! With `--secure-serving` all of it goes over TLS ([`super::tls`]), and `/metrics` and `/debug` are for those alone whom the API server lets see them
//! ([`super::access`]); health is for everybody, since a kubelet has no token.
//!
//! Everything is bounded: connections and their silence ([`super::http_listener`]), requests under way, the size of a
//! request, the time for an answer. Health takes no part in the limit of requests: a crowd at the metrics must not look like a program that is ill.
//! Nothing here changes anything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use futures::future::BoxFuture;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

use super::access::Access;
use super::exposition::Exposition;
use super::http_listener;
use super::pulse::Pulse;
use super::readiness::Readiness;
use super::shutdown::Shutdown;
use super::tls::Certificate;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// How many requests are answered at a time; more are refused (503).
const REQUESTS: usize = 16;

/// How large a request's body may be; none is read at all.
const BODY: usize = 4096;

/// Why the server cannot run.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address cannot be had.
    #[error("--http-address {address}: {reason}")]
    Bind {
        /// What was asked for.
        address: SocketAddr,
        /// What the operating system says.
        reason: std::io::Error,
    },
}

type Answer = dyn Fn() -> BoxFuture<'static, Option<serde_json::Value>> + Send + Sync;

/// A path that answers in JSON.
#[derive(Clone)]
pub struct DebugRoute {
    path: &'static str,
    answer: Arc<Answer>,
}

impl DebugRoute {
    /// `answer` is run for each request; `None` is 503 (nobody there to answer).
    pub fn new(path: &'static str, answer: impl Fn() -> BoxFuture<'static, Option<serde_json::Value>> + Send + Sync + 'static) -> Self {
        Self { path, answer: Arc::new(answer) }
    }

    /// Asks the owner of the state: `question` wraps the place for the answer into the owner's own event. 503 when the
    /// owner's channel stays full or it does not answer in time.
    pub fn ask<E: Send + 'static>(
        path: &'static str,
        owner: mpsc::Sender<E>,
        question: impl Fn(oneshot::Sender<serde_json::Value>) -> E + Send + Sync + 'static,
    ) -> Self {
        Self::new(path, move || {
            let (reply, answer) = oneshot::channel();
            let (owner, question) = (owner.clone(), question(reply));
            Box::pin(async move {
                owner.send(question).await.ok()?;
                answer.await.ok()
            })
        })
    }
}

/// What `--secure-serving` asks for.
pub struct Secure {
    /// What is shown to clients.
    pub certificate: Certificate,
    /// Who says whether a client may see a path.
    pub access: Access,
}

/// A server that has its address and does not answer yet.
pub struct Server {
    listener: TcpListener,
    app: Router,
    address: SocketAddr,
    certificate: Option<Certificate>,
}

impl Server {
    /// Takes the address, so that one that is taken ends the program at its start.
    ///
    /// # Errors
    /// [`HttpError::Bind`].
    pub async fn bind(
        address: SocketAddr,
        metrics: Exposition,
        readiness: Readiness,
        pulse: Pulse,
        debug: Vec<DebugRoute>,
        secure: Option<Secure>,
    ) -> Result<Self, HttpError> {
        let fault = |reason| HttpError::Bind { address, reason };
        let listener = TcpListener::bind(address).await.map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let (certificate, access) = secure.map(|secure| (secure.certificate, secure.access)).unzip();
        let app = app(metrics, readiness, pulse, debug, access.as_ref());
        Ok(Self { listener, app, address, certificate })
    }

    /// Where it listens, with the real port where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`.
    ///
    /// # Errors
    /// None that is known of: the listener goes on after an error of one connection.
    pub async fn run(self, stop: Shutdown) -> std::io::Result<()> {
        let (tls, reload) = self.certificate.map(Certificate::parts).unzip();
        let serve = http_listener::serve(self.listener, tls.map(TlsAcceptor::from), self.app, stop.clone());
        let look_again = async {
            if let Some(reload) = reload.flatten() {
                reload.run(&stop).await;
            }
        };
        tokio::join!(serve, look_again);
        Ok(())
    }
}

fn app(metrics: Exposition, readiness: Readiness, pulse: Pulse, debug: Vec<DebugRoute>, access: Option<&Access>) -> Router {
    let mut app = Router::new().route("/metrics", guarded(access, "/metrics", get(move || metrics_text(metrics.clone()))));
    for route in debug {
        app = app.route(route.path, guarded(access, route.path, get(move || json((route.answer)()))));
    }
    let free = Arc::new(Semaphore::new(REQUESTS));
    let bounded = move |request: Request, next: Next| bounded(Arc::clone(&free), request, next);
    app.layer(middleware::from_fn(bounded))
        .route("/healthz", get(move || alive(pulse.clone())))
        .route("/readyz", get(move || ready(readiness.clone())))
        .layer(DefaultBodyLimit::max(BODY))
}

/// Only who may see `path` gets to it. Paths that are not there ask nobody, and the API server is asked about no others.
fn guarded(access: Option<&Access>, path: &'static str, route: MethodRouter) -> MethodRouter {
    let Some(access) = access.cloned() else { return route };
    route.layer(middleware::from_fn(move |request: Request, next: Next| access.clone().guard(path, request, next)))
}

async fn bounded(free: Arc<Semaphore>, request: Request, next: Next) -> Response {
    let Ok(_permit) = free.try_acquire() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n").into_response();
    };
    match tokio::time::timeout(ANSWER, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => (StatusCode::SERVICE_UNAVAILABLE, "no answer in time\n").into_response(),
    }
}

async fn alive(pulse: Pulse) -> (StatusCode, String) {
    match pulse.silence() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(silence) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the loop of this program has not turned for {} s\n", silence.as_secs()))
        }
    }
}

async fn ready(readiness: Readiness) -> (StatusCode, String) {
    let code = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, readiness.report())
}

async fn metrics_text(metrics: Exposition) -> Response {
    match metrics.text().await {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn json(answer: BoxFuture<'static, Option<serde_json::Value>>) -> Response {
    match answer.await {
        Some(value) => Json(value).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "nobody is there to answer\n").into_response(),
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "http_secure_tests.rs"]
mod secure_tests;
