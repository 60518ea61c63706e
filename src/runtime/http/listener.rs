//! Accepts connections to the HTTP server, and limits their number and their time.
//!
//! There are at most [`CONNECTIONS`], and a request under way is not ended for another connection ([`super::connections`]). A connection must
//! transfer something every [`IDLE`], and complete the headers of a request within [`HEADERS`] and [`HEADER_BYTES`]. The TLS handshake runs in the
//! connection's own task, so a slow one delays no other connection.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connections::{Activity, Connections};
use crate::runtime::clock;
use crate::runtime::shutdown::Shutdown;

/// How many connections are open at a time. Prometheus, the probes of two kubelets and a person with curl are a handful.
pub(super) const CONNECTIONS: usize = 64;

/// After how many new connections the others have a turn: a quarter of those that are open.
const TURN: usize = CONNECTIONS / 4;

/// How long a connection may transfer nothing. Above the usual scrape interval of 15 s, so that a scraper
/// keeps its connection.
const IDLE: Duration = Duration::from_secs(20);

/// The time limit of a request's headers, counted from the connect or from the previous answer. Not shorter than [`IDLE`], for the same reason.
const HEADERS: Duration = Duration::from_secs(20);

/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The limit of a request's headers. The largest token of a Kubernetes cluster has a few thousand bytes.
const HEADER_BYTES: usize = 32 * 1024;

/// The address of the client of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// Answers on every connection until `stop`; then closes the idle connections and completes the requests in progress.
pub(super) async fn serve(mut listener: TcpListener, tls: Option<TlsAcceptor>, app: Router, stop: Shutdown) {
    let mut tasks = JoinSet::new();
    let mut open = Connections::new(CONNECTIONS);
    let mut accepted: usize = 0;
    while let Some((stream, address)) = stop.unless(Listener::accept(&mut listener)).await {
        while tasks.try_join_next().is_some() {}
        accepted = accepted.wrapping_add(1);
        if accepted.is_multiple_of(TURN) {
            // The tasks of the connections get their turns: a request that has arrived is seen, and its connection is not taken for a silent one.
            tokio::task::yield_now().await;
        }
        if !open.make_room(address.ip(), clock::monotonic()) {
            continue;
        }
        let (idle, activity) = (Box::pin(tokio::time::sleep(IDLE)), Activity::default());
        let stream = IdleTimeout { stream, idle, activity: activity.clone() };
        let peer = Peer(address.ip());
        open.add(peer.0, activity.clone(), tasks.spawn(connection(stream, peer, tls.clone(), app.clone(), activity, stop.clone())));
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// Serves one connection. Its errors are the client's and are not reported.
async fn connection(stream: IdleTimeout, peer: Peer, tls: Option<TlsAcceptor>, app: Router, activity: Activity, stop: Shutdown) {
    match tls {
        None => requests(stream, peer, app, activity, stop).await,
        Some(tls) => {
            if let Some(Ok(Ok(stream))) = stop.unless(timeout(HANDSHAKE, tls.accept(stream))).await {
                requests(stream, peer, app, activity, stop).await;
            }
        }
    }
}

pub(super) async fn requests<S>(stream: S, peer: Peer, app: Router, activity: Activity, stop: Shutdown)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADER_BYTES);
    let app = TowerToHyperService::new(app);
    let counted = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        let request_under_way = activity.request(clock::monotonic());
        let answer = app.call(request);
        async move { answer.await.map(|answer| answer.map(|body| request_under_way.until_sent(body))) }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), counted));
    if stop.unless(connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ended = connection.await;
    }
}

/// A connection that ends when the client transfers nothing for [`IDLE`] while we wait for it.
struct IdleTimeout {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    activity: Activity,
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.received();
        }
        self.check_idle(read, context)
    }
}

impl AsyncWrite for IdleTimeout {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.sent(written.is_ready());
        self.check_idle(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
