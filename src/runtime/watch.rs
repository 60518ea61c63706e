//! What is there now of one kind of object, and what changed since?
//!
//! A list (paged, from a quorum), then a watch from where the list ended, for ever:
//!
//! ```text
//!          ┌────── back-off ◄───── failed ─────┐
//!          ▼                                   │
//!        list ──── all pages ──► Reset ──►  watch ──► Apply, Delete, Bad …
//!          ▲                                 │   ▲
//!          └── too old, unreadable, refused ─┘   └── closed: opened again from where it stood
//! ```
//!
//! kube's own `watcher` does the same, except for what was measured to hurt: it opens a watch that closes at once again
//! without any delay, puts no limit on a list, logs a refusal at every attempt, and one object that cannot be decoded
//! ends the list, and a list that is older than what was seen takes its reader back in time (`watch_newest`). It is no reflector: it keeps nothing but the
//! resourceVersion.
//!
//! Nothing that the server does ends it; it ends when it is told to, or when nobody takes the events any more.

use std::time::Duration;

use kube::api::Api;
use kube::core::{Request, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::backoff::Backoff;
use super::metrics::WatchMetrics;
use super::readiness::Listed;
use super::shutdown::Shutdown;
pub use super::watch_decode::BadObject;
use super::watch_loop::Watch;
use super::watch_newest::Newest;

/// What a watch says, of what is kept of each object. The order is the server's order.
#[derive(Clone, Debug)]
pub enum WatchEvent<F> {
    /// Everything that is there, from a list that is complete: whatever is in neither vector is gone. Comes first, and
    /// again whenever events may have been missed.
    Reset {
        /// The objects that can be read.
        objects: Vec<F>,
        /// The objects that are there and cannot be read.
        bad: Vec<BadObject>,
    },
    /// An object is new or changed.
    Apply(F),
    /// An object is gone; this is its last state.
    Delete(F),
    /// An object is new, changed or (with [`BadObject::deleted`]) gone, and cannot be read.
    Bad(BadObject),
}

/// What to watch, and how patiently.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// The resource as RBAC names it ("pods"): label of the metrics, word in the log.
    pub resource: &'static str,
    /// Only objects with these labels; `None` is all.
    pub label_selector: Option<String>,
    /// Only objects with these fields; `None` is all.
    pub field_selector: Option<String>,
    /// Objects per page of a list. 500 as client-go has it.
    pub page_size: u32,
    /// The server ends the watch after this time, and we do 5 s later if it does not. 200 s is below the idle time-outs
    /// of the usual load balancers.
    pub idle: Duration,
    /// Time limit for one page of a list, and for the first byte of a watch.
    pub limit: Duration,
    /// Between attempts that fail.
    pub backoff: Backoff,
    /// A list that is older than what was seen is not taken: for who decides by what it has seen alone. Whoever asks again before anything that cannot be undone, as the controller
    /// does, is as right with what is old and sooner at work.
    pub never_back: bool,
}

impl WatchConfig {
    /// Everything of one resource, with the defaults that the fields name; at most 15 s between attempts.
    pub fn new(resource: &'static str) -> Self {
        Self {
            resource,
            label_selector: None,
            field_selector: None,
            page_size: 500,
            idle: Duration::from_secs(200),
            limit: Duration::from_secs(30),
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(15)),
            never_back: false,
        }
    }
}

/// Lists and watches until `stop` or until nobody takes the events any more. Waits while the channel is full: the server then holds the events.
pub async fn watch_into<K, F, E>(
    api: Api<K>,
    config: WatchConfig,
    listed: Listed,
    metrics: WatchMetrics,
    outlet: Outlet<K, F, E>,
    stop: Shutdown,
) where
    K: Resource + Clone + DeserializeOwned + Send + 'static,
    F: Send,
    E: Send,
{
    let url = api.resource_url().to_owned();
    let mut watch = Watch {
        request: Request::new(url),
        metadata_only: K::metadata_api(),
        client: api.into_client(),
        config,
        listed,
        metrics,
        failures: 0,
        lists_lost: 0,
        trouble: None,
        newest: Newest::default(),
    };
    let unwanted = outlet.events.clone();
    // Cut off wherever it stands: nothing here writes.
    tokio::select! {
        () = stop.triggered() => {}
        () = unwanted.closed() => {}
        () = watch.run(outlet) => {}
    }
}

/// Where the events of one kind go, and what becomes of an object before.
pub struct Outlet<K, F, E> {
    events: mpsc::Sender<E>,
    pub(super) keep: Box<dyn Fn(K) -> F + Send>,
    wrap: Box<dyn Fn(WatchEvent<F>) -> E + Send>,
}

impl<K, F, E> Outlet<K, F, E> {
    /// `keep` makes of an object what is kept of it, as soon as it is read, so that of a long list no more than a page is there as it was sent. `wrap` turns an event into what
    /// the receiver wants. Both in the task of the watch, so that many kinds can share one channel and decoding is off the receiver's path.
    pub fn new(
        events: mpsc::Sender<E>,
        keep: impl Fn(K) -> F + Send + 'static,
        wrap: impl Fn(WatchEvent<F>) -> E + Send + 'static,
    ) -> Self {
        Self { events, keep: Box::new(keep), wrap: Box::new(wrap) }
    }

    /// False when nobody takes events any more.
    pub(super) async fn send(&mut self, event: WatchEvent<F>) -> bool {
        let event = (self.wrap)(event);
        self.events.send(event).await.is_ok()
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
