//! Who may hold a connection to the HTTP server, and for how long?
//!
//! A fixed number of connections, each of which must say something every [`IDLE`]; the server itself has no limit on
//! how slowly a request may arrive. Whoever comes when all are taken waits in the kernel's backlog.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use super::clock;

/// Prometheus, two kubelets' probes and a person with curl are a handful.
const CONNECTIONS: usize = 64;

/// Longer than nothing said for this time is not waited for. Above the usual scrape interval of 15 s, so that a scraper
/// keeps its connection.
const IDLE: Duration = Duration::from_secs(20);

/// A TCP listener with these limits.
pub(super) struct Limited {
    inner: TcpListener,
    free: Arc<Semaphore>,
}

impl Limited {
    pub(super) fn new(inner: TcpListener) -> Self {
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        Self { inner, free }
    }
}

impl Listener for Limited {
    type Io = Patient;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Patient, SocketAddr) {
        // The semaphore is never closed, so there always is a permit in the end.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.inner).await;
        let idle = Box::pin(tokio::time::sleep(IDLE));
        let io = Patient { stream, idle, _permit: permit };
        (io, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// A connection that ends when the other side says nothing for [`IDLE`] while we wait for it.
pub(super) struct Patient {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    /// Given back when the connection ends.
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.idle.as_mut().reset(clock::monotonic() + IDLE);
            return read;
        }
        let over = self.idle.as_mut().poll(context);
        over.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
