//! Lists one kind of object, and reports its changes.
//!
//! It sends a list (paged, from a quorum), then a watch from where the list ended, for ever:
//!
//! ```text
//!          ┌────── back-off ◄───── failed ─────┐
//!          ▼                                   │
//!        list ──── all pages ──► Reset ──►  watch ──► Apply, Delete, Bad …
//!          ▲                                 │   ▲
//!          └─ too old, unreadable, silent, ─┘   └── closed: opened again from where it stood
//!             after an outage
//! ```
//!
//! A request of [`Relist`] leads to a new list from every place of this picture.
//!
//! kube's own `watcher` does the same, except for behaviour that was measured to cause trouble:
//! * it opens a watch that closes at once again without any delay;
//! * it puts no limit on a list;
//! * it logs a refusal at every attempt;
//! * one object that cannot be decoded ends the list;
//! * a list that is older than the events seen so far takes its reader back in time (`newest`).
//!
//! This watch is no reflector: it keeps nothing but the resourceVersion. No answer of the server ends it. It ends at `stop`, or when the
//! receiver of the events is gone.

mod age;
mod decode;
mod freshness;
mod list;
mod newest;
mod outage;
mod relist;
mod run;
mod timeline;

use std::time::Duration;

use kube::api::Api;
use kube::core::{Request, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::runtime::clock;
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::readiness::Listed;
use crate::runtime::shutdown::Shutdown;

pub(super) use age::{WatchAge, WatchAges};
pub use decode::BadObject;
use freshness::Freshness;
use newest::Newest;
use outage::Outage;
use relist::Asked;
pub use relist::Relist;
pub(super) use relist::WENT_BACK;
use run::Watch;

/// An event of a watch, with the part of each object that the receiver keeps. The order of the events is the server's.
#[derive(Clone, Debug)]
pub enum WatchEvent<F> {
    /// All objects of a complete list: an object in neither vector is gone. It comes first, and
    /// again whenever events may have been missed.
    Reset {
        /// The objects that could be decoded.
        objects: Vec<F>,
        /// The objects that exist and could not be decoded.
        bad: Vec<BadObject>,
        /// The generation of [`WatchConfig::relist`] that was current when the list began.
        generation: u64,
        /// Whether the cluster went back since the list before, or may have: its etcd was restored from a backup. What was learned from
        /// newer versions is void. With [`WatchConfig::never_back`] false it may also be an API server that is behind.
        back: bool,
        /// The objects are at least as new as this time, by [`clock::through_suspension`].
        as_of: Instant,
    },
    /// Everything that happened before this time, by [`clock::through_suspension`], has been delivered. It comes about once a minute when
    /// nothing happens.
    UpToDate(Instant),
    /// An object is new or has changed.
    Apply(F),
    /// An object was deleted; this is its last state.
    Delete(F),
    /// An object is new, changed or (with [`BadObject::deleted`]) deleted, and could not be decoded.
    Bad(BadObject),
}

/// The objects to watch, and the limits of the requests.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// The resource as RBAC names it ("pods"): the label of the metrics, and a field of the log.
    pub resource: &'static str,
    /// Only objects with these labels; `None` means all.
    pub label_selector: Option<String>,
    /// Only objects with these fields; `None` means all.
    pub field_selector: Option<String>,
    /// Objects per page of a list: 500, as client-go has it.
    pub page_size: u32,
    /// The server ends the watch after this time. 200 s is below the idle timeouts of the usual load balancers.
    pub idle: Duration,
    /// A watch that has delivered nothing newer than this is dead, and the list is read again.
    pub silent: Duration,
    /// Time limit for one page of a list, and for the first byte of a watch.
    pub limit: Duration,
    /// The wait between attempts that fail.
    pub backoff: Backoff,
    /// Whether a list is refused when it is older than what is known of the cluster (`newest`). A reader needs this when it decides by
    /// these events alone. The controller does not: it reads again before each step that cannot be undone, so an older list is no danger
    /// and lets it start sooner.
    pub never_back: bool,
    /// Requests of new lists. The watches of a program share one.
    pub relist: Relist,
}

/// How old a watch may become. An API server sends a bookmark at least once a minute to each watch (kube-apiserver's `bookmarkFrequency`,
/// and up to 1.25 s for its timer), also when nothing happens. The bookmark itself is up to 7 s old (`freshness`), so a healthy watch is at
/// most 68.3 s old. 75 s are that and a margin for a busy server (at a load of 20 on two cores it was less than 1 s late), and leave 15 s of
/// the 90 s after which a change must be seen for the list that follows.
const SILENT: Duration = Duration::from_secs(75);

impl WatchConfig {
    /// Makes a watch of everything of one resource, with the defaults that the fields name and at most 15 s between attempts.
    pub fn new(resource: &'static str) -> Self {
        Self {
            resource,
            label_selector: None,
            field_selector: None,
            page_size: 500,
            idle: Duration::from_secs(200),
            silent: SILENT,
            limit: Duration::from_secs(30),
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(15)),
            never_back: false,
            relist: Relist::new(),
        }
    }
}

/// Lists and watches until `stop` or until the receiver is gone. Waits while the channel is full: the server then holds the events.
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
    let age = metrics.watch(config.resource);
    let freshness = Freshness::new(config.relist.timeline().clone(), clock::through_suspension());
    let mut watch = Watch {
        request: Request::new(url),
        metadata_only: K::metadata_api(),
        client: api.into_client(),
        config,
        listed,
        metrics,
        age,
        failures: 0,
        lists_lost: 0,
        trouble: None,
        newest: Newest::default(),
        outage: Outage::default(),
        freshness,
        seen: Asked::default(),
        back: false,
    };
    let unwanted = outlet.events.clone();
    // Cut off at any point: nothing here writes.
    tokio::select! {
        () = stop.triggered() => {}
        () = unwanted.closed() => {}
        () = watch.run(outlet) => {}
    }
}

/// Converts the events of one kind and sends them to the receiver.
pub struct Outlet<K, F, E> {
    events: mpsc::Sender<E>,
    keep: Box<dyn Fn(K) -> F + Send>,
    wrap: Box<dyn Fn(WatchEvent<F>) -> E + Send>,
}

impl<K, F, E> Outlet<K, F, E> {
    /// Makes an outlet. `keep` reduces an object to its kept part as soon as it is decoded, so at most one page of a long list is in memory
    /// as it was sent. `wrap` turns an event into the receiver's type. Both run in the task of the watch: many kinds can share one channel,
    /// and decoding does not delay the receiver.
    pub fn new(
        events: mpsc::Sender<E>,
        keep: impl Fn(K) -> F + Send + 'static,
        wrap: impl Fn(WatchEvent<F>) -> E + Send + 'static,
    ) -> Self {
        Self { events, keep: Box::new(keep), wrap: Box::new(wrap) }
    }

    /// Sends an event. False when the receiver is gone.
    async fn send(&mut self, event: WatchEvent<F>) -> bool {
        let event = (self.wrap)(event);
        self.events.send(event).await.is_ok()
    }
}

#[cfg(test)]
mod tests;
