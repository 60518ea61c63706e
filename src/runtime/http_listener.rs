//! Accepts connections to the HTTP server, and limits their number and their time.
//!
//! There are at most [`CONNECTIONS`]: a new one closes the oldest, so a client that holds many idle connections blocks no probe. A connection must
//! transfer something every [`IDLE`], and complete the headers of a request within [`HEADERS`] and [`HEADER_BYTES`]. The TLS handshake runs in the
//! connection's own task, so a slow one delays no other connection.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::clock;
use super::shutdown::Shutdown;

/// How many connections are open at a time. Prometheus, the probes of two kubelets and a person with curl are a handful.
pub(super) const CONNECTIONS: usize = 64;

/// How long a connection may transfer nothing. Above the usual scrape interval of 15 s, so that a scraper
/// keeps its connection.
const IDLE: Duration = Duration::from_secs(20);

/// The time limit of a request's headers, counted from the connect or from the previous answer. Not shorter than [`IDLE`], for the same reason.
const HEADERS: Duration = Duration::from_secs(20);

/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The limit of a request's headers. The largest token of a Kubernetes cluster has a few thousand bytes.
const HEADER_BYTES: usize = 32 * 1024;

/// Answers on every connection until `stop`; then closes the idle connections and completes the requests in progress.
pub(super) async fn serve(mut listener: TcpListener, tls: Option<TlsAcceptor>, app: Router, stop: Shutdown) {
    let mut tasks = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    while let Some((stream, _address)) = stop.unless(Listener::accept(&mut listener)).await {
        while tasks.try_join_next().is_some() {}
        oldest_first.retain(|task| !task.is_finished());
        while oldest_first.len() >= CONNECTIONS {
            oldest_first.pop_front().iter().for_each(AbortHandle::abort);
        }
        let idle = Box::pin(tokio::time::sleep(IDLE));
        oldest_first.push_back(tasks.spawn(connection(IdleTimeout { stream, idle }, tls.clone(), app.clone(), stop.clone())));
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// Serves one connection. Its errors are the client's and are not reported.
async fn connection(stream: IdleTimeout, tls: Option<TlsAcceptor>, app: Router, stop: Shutdown) {
    match tls {
        None => requests(stream, app, stop).await,
        Some(tls) => {
            if let Some(Ok(Ok(stream))) = stop.unless(timeout(HANDSHAKE, tls.accept(stream))).await {
                requests(stream, app, stop).await;
            }
        }
    }
}

pub(super) async fn requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, app: Router, stop: Shutdown) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADER_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)));
    if stop.unless(connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ended = connection.await;
    }
}

/// A connection that ends when the client transfers nothing for [`IDLE`] while we wait for it.
struct IdleTimeout {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
}

impl IdleTimeout {
    fn check_idle<T>(&mut self, moved: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.idle.as_mut().reset(clock::monotonic() + IDLE);
            return moved;
        }
        self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for IdleTimeout {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.check_idle(read, context)
    }
}

impl AsyncWrite for IdleTimeout {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_idle(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
