//! Who may hold a connection to the HTTP server, and for how long?
//!
//! At most [`CONNECTIONS`]: the next one ends the oldest, so that whoever holds many and says nothing keeps no probe waiting. Each must move something
//! every [`IDLE`], have said who it is and what it wants within [`HEADERS`], and keep its headers to [`HEADER_BYTES`]. With TLS the handshake is made
//! by the connection's own task: a slow one holds up nobody.

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

/// Prometheus, two kubelets' probes and a person with curl are a handful.
pub(super) const CONNECTIONS: usize = 64;

/// Longer than nothing said for this time is not waited for. Above the usual scrape interval of 15 s, so that a scraper
/// keeps its connection.
const IDLE: Duration = Duration::from_secs(20);

/// From the first moment, or from the answer before, to the end of a request's headers. Not shorter than [`IDLE`], for the same reason.
const HEADERS: Duration = Duration::from_secs(20);

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The largest token that a Kubernetes cluster makes has a few thousand bytes.
const HEADER_BYTES: usize = 32 * 1024;

/// Answers on every connection until `stop`, and ends those that have no request under way then.
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
        oldest_first.push_back(tasks.spawn(connection(Patient { stream, idle }, tls.clone(), app.clone(), stop.clone())));
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// How a connection ends is the other side's matter, and nobody's here.
async fn connection(stream: Patient, tls: Option<TlsAcceptor>, app: Router, stop: Shutdown) {
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

/// A connection that ends when the other side neither says nor takes anything for [`IDLE`] while we wait for it.
struct Patient {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
}

impl Patient {
    fn unless_over<T>(&mut self, moved: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.idle.as_mut().reset(clock::monotonic() + IDLE);
            return moved;
        }
        self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.unless_over(read, context)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unless_over(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
