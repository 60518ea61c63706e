//! Serves health, metrics and debug pages over HTTP.
//!
//! * `/healthz`: whether the loop that owns the state makes progress ([`crate::runtime::watchdog`]).
//! * `/readyz`: whether the lists are complete; the body names the incomplete ones and why.
//! * `/metrics`: the metrics.
//! * Further paths answer in JSON ([`DebugRoute`]). The owner of the state is asked through a channel and has [`ANSWER`] to answer.
//!   So no lock is shared with this server, and no request can delay the work.
//!
//! Debug pages show names and amounts of every namespace. Without `--secure-serving` they are served on the loopback address only: to
//! `kubectl port-forward`, which the API server authorizes, and to processes of the same pod.
//!
//! With `--secure-serving` all paths use TLS ([`tls`]), and `/metrics` and `/debug` require authorization by the API server
//! ([`access`]). Health stays open, because a kubelet has no token.
//!
//! Everything has a limit: connections and their idle time ([`listener`]), requests in progress, the size of a
//! request, the time for an answer. Health requests do not count in the limit of requests: many readers of the metrics must not make the
//! program look unhealthy. No request changes anything.

mod access;
mod access_cache;
mod connections;
mod exposition;
mod listener;
mod tls;

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
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::runtime::readiness::Readiness;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::watchdog::Watchdog;

pub use access::Access;
pub use exposition::{Exposition, Refresh};
use listener::Peer;
pub use tls::{Certificate, CertificateFiles};

/// The time limit of an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How many requests are answered at the same time; more are refused (503).
const REQUESTS: usize = 16;

/// The limit of a request's body, in bytes; no body is read.
const BODY: usize = 4096;

/// Why the server cannot start.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address cannot be used.
    #[error("--http-address {address}: {reason}")]
    Bind {
        /// The address of the flag.
        address: SocketAddr,
        /// The error of the operating system.
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
    /// Makes a path. `answer` runs for each request; `None` becomes 503.
    pub fn new(path: &'static str, answer: impl Fn() -> BoxFuture<'static, Option<serde_json::Value>> + Send + Sync + 'static) -> Self {
        Self { path, answer: Arc::new(answer) }
    }

    /// Returns the path.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the answer to one request; `None` where a client gets 503.
    pub async fn answer(&self) -> Option<serde_json::Value> {
        (self.answer)().await
    }

    /// Makes a path that asks the owner of the state: `question` wraps the reply channel into the owner's own event. The answer is 503 when
    /// the owner's channel stays full or the owner does not answer in time.
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

/// How many connections may wait until they are accepted: Linux' default limit, `net.core.somaxconn`.
const WAITING_CONNECTIONS: u32 = 4096;

/// The parts of `--secure-serving`.
pub struct Secure {
    /// The certificate of the server.
    pub certificate: Certificate,
    /// Authorizes the clients.
    pub access: Access,
}

/// A server that has bound its address and does not answer yet.
pub struct Server {
    listener: TcpListener,
    app: Router,
    address: SocketAddr,
    certificate: Option<Certificate>,
}

impl Server {
    /// Binds the address, so that an address in use ends the program at its start.
    ///
    /// # Errors
    /// [`HttpError::Bind`].
    pub async fn bind(
        address: SocketAddr,
        metrics: Exposition,
        readiness: Readiness,
        watchdog: Watchdog,
        debug: Vec<DebugRoute>,
        secure: Option<Secure>,
    ) -> Result<Self, HttpError> {
        let fault = |reason| HttpError::Bind { address, reason };
        let listener = listen(address).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let (certificate, access) = secure.map(|secure| (secure.certificate, secure.access)).unzip();
        let app = app(metrics, readiness, watchdog, debug, access.as_ref());
        Ok(Self { listener, app, address, certificate })
    }

    /// Returns the address, with the real port when port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop`.
    ///
    /// # Errors
    /// None is known: the listener continues after an error of one connection.
    pub async fn run(self, stop: Shutdown) -> std::io::Result<()> {
        let (tls, reload) = self.certificate.map(Certificate::parts).unzip();
        let serve = listener::serve(self.listener, tls.map(TlsAcceptor::from), self.app, stop.clone());
        let reload_certificate = async {
            if let Some(reload) = reload.flatten() {
                reload.run(&stop).await;
            }
        };
        tokio::join!(serve, reload_certificate);
        Ok(())
    }
}

/// Returns a socket that listens. A connection that finds no place among the waiting ones is retried by its client after a second, which is
/// the timeout of a probe; so as many may wait as Linux allows by default.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As in TcpListener::bind: a program that is started again takes its port at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_CONNECTIONS)
}

fn app(metrics: Exposition, readiness: Readiness, watchdog: Watchdog, debug: Vec<DebugRoute>, access: Option<&Access>) -> Router {
    let mut app = Router::new().route("/metrics", guarded(access, "/metrics", get(move || metrics_text(metrics.clone()))));
    for route in debug {
        app = app.route(
            route.path,
            match access {
                Some(_) => guarded(access, route.path, get(move || json((route.answer)()))),
                None => get(move || json((route.answer)())).layer(middleware::from_fn(local_only)),
            },
        );
    }
    let free = Arc::new(Semaphore::new(REQUESTS));
    let bounded = move |request: Request, next: Next| bounded(Arc::clone(&free), request, next);
    app.layer(middleware::from_fn(bounded))
        .route("/healthz", get(move || healthz(watchdog.clone())))
        .route("/readyz", get(move || readyz(readiness.clone())))
        .layer(DefaultBodyLimit::max(BODY))
}

/// Lets only authorized clients reach `path`. The API server is asked about existing paths only.
fn guarded(access: Option<&Access>, path: &'static str, route: MethodRouter) -> MethodRouter {
    let Some(access) = access.cloned() else { return route };
    route.layer(middleware::from_fn(move |request: Request, next: Next| access.clone().guard(path, request, next)))
}

/// Lets only clients on the loopback address reach a path.
async fn local_only(request: Request, next: Next) -> Response {
    if request.extensions().get::<Peer>().is_some_and(|peer| peer.0.to_canonical().is_loopback()) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "debug pages are served to kubectl port-forward only; --secure-serving serves them to clients with a token\n")
        .into_response()
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

async fn healthz(watchdog: Watchdog) -> (StatusCode, String) {
    match watchdog.probe() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(stalled) => (StatusCode::SERVICE_UNAVAILABLE, format!("the main loop has made no progress for {} s\n", stalled.as_secs())),
    }
}

async fn readyz(readiness: Readiness) -> (StatusCode, String) {
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
        None => (StatusCode::SERVICE_UNAVAILABLE, "the program is not ready to answer\n").into_response(),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod secure_tests;
