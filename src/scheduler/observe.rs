//! The watches. Each turns objects into facts in its own task and sends them as events to the owner of the state.

use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::runtime::metrics::WatchMetrics;
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::Readiness;
use crate::runtime::watch::{Outlet, Relist, WatchConfig, WatchEvent, watch_into};

use super::event::{Change, Event};
use super::kinds::{KINDS, Key as _, WatchedKind};

/// Starts the watches, which send to `events` and list again when `relist` asks for it. `begin` is the start of the program, on the clock
/// that runs while the machine is suspended.
pub fn start(
    program: &mut Program,
    client: &Client,
    readiness: &Readiness,
    metrics: &WatchMetrics,
    relist: &Relist,
    events: &mpsc::Sender<Event>,
    begin: Instant,
) {
    let (asked, back) = (relist.clone(), events.clone());
    program.spawn(Stage::Work, "watch for a restored etcd", |stop| async move {
        let forward = async {
            let mut known = 0;
            loop {
                known = asked.back_after(known).await;
                if back.send(Event::WentBack(known)).await.is_err() {
                    return;
                }
            }
        };
        stop.unless(forward).await;
        Ok::<(), String>(())
    });
    let mut watches = Watches { program, client, readiness, metrics, relist, events, begin };
    KINDS.iter().for_each(|row| (row.watch)(&mut watches));
}

/// What the watches of all kinds have in common.
pub(super) struct Watches<'a> {
    program: &'a mut Program,
    client: &'a Client,
    readiness: &'a Readiness,
    metrics: &'a WatchMetrics,
    relist: &'a Relist,
    events: &'a mpsc::Sender<Event>,
    begin: Instant,
}

impl Watches<'_> {
    /// Starts the watch of a kind. Those of storage always run, too: whether a claim can be used must be known when the first pod with one comes.
    pub(super) fn start<W: WatchedKind>(&mut self) {
        let (resource, begin) = (W::KIND.resource(), self.begin);
        let (api, listed) = (Api::<W::Object>::all(self.client.clone()), self.readiness.expect(resource));
        let wrap = move |event| Event::of::<W>(change::<W>(event, begin));
        let (metrics, outlet) = (self.metrics.clone(), Outlet::new(self.events.clone(), W::facts, wrap));
        let config = WatchConfig { never_back: true, relist: self.relist.clone(), ..WatchConfig::new(resource) };
        self.program.spawn(Stage::Work, resource, move |stop| async move {
            watch_into(api, config, listed, metrics, outlet, stop).await;
            Ok::<(), String>(())
        });
    }
}

fn change<W: WatchedKind>(event: WatchEvent<W::Facts>, begin: Instant) -> Change<W::Facts, W::Key> {
    let since_begin = |time: Instant| time.saturating_duration_since(begin);
    match event {
        WatchEvent::Reset { objects, bad, generation, back, as_of } => {
            let unreadable = bad.into_iter().map(W::Key::of_bad).collect();
            Change::Reset { all: objects, unreadable, generation, back, as_of: since_begin(as_of) }
        }
        WatchEvent::UpToDate(as_of) => Change::UpToDate(since_begin(as_of)),
        WatchEvent::Apply(facts) => Change::Apply(facts),
        WatchEvent::Delete(facts) => Change::Delete(W::key(&facts)),
        WatchEvent::Bad(bad) if bad.deleted => Change::Delete(W::Key::of_bad(bad)),
        WatchEvent::Bad(bad) => Change::Unreadable(W::Key::of_bad(bad)),
    }
}
