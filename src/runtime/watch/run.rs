//! Keeps a list and the watches after it going, whatever the server does.
//!
//! `mod.rs` draws this loop, and is its front door.

use std::time::Duration;

use futures::StreamExt;
use kube::api::WatchParams;
use kube::core::{Request, Resource, WatchEvent as Wire};
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::age::WatchAge;
use super::decode::Decoded;
use super::freshness::{Death, Freshness};
use super::newest::{Newest, Taken};
use super::outage::Outage;
use super::relist::{Asked, MAY_HAVE_GONE_BACK, WENT_BACK};
use super::{Outlet, WatchConfig, WatchEvent};
use crate::runtime::call::{CallError, call};
use crate::runtime::clock;
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::rbac_warnings::{ADVICE, is_permission_missing};
use crate::runtime::readiness::Listed;

/// A watch that lived for less proves nothing: the next one waits. This limits how often a server that
/// closes every watch at once is asked.
const PROVED: Duration = Duration::from_secs(1);

/// After this many refused attempts in a row to open a watch, the resourceVersion itself is suspect, and the list is read
/// again.
const REFUSALS: u32 = 3;

/// Why a watch ended.
enum End {
    /// The server or a time limit ended it: continue from the last resourceVersion.
    Closed,
    /// The resourceVersion is of no use any more: list again.
    Lost(CallError),
    /// The watch could not be opened, or it broke.
    Failed(CallError),
    /// It was open and delivered nothing new for too long: list again. Its server, or something before it, lost it; or its server is cut
    /// off from etcd; or the resourceVersion lies in the future of a restored etcd. A server opens such a watch, and says nothing before
    /// the etcd has reached that version.
    Dead(Death),
    /// It could be opened again only after an outage: list again (`outage`).
    Away,
    /// The receiver of the events is gone.
    Unwanted,
}

/// The watch of one kind.
pub(super) struct Watch {
    pub(super) client: Client,
    pub(super) request: Request,
    pub(super) metadata_only: bool,
    pub(super) config: WatchConfig,
    pub(super) listed: Listed,
    pub(super) metrics: WatchMetrics,
    pub(super) age: WatchAge,
    /// Failed attempts in a row.
    pub(super) failures: u32,
    /// Lists in a row with a watch that could not start because the server had forgotten the resourceVersion. They do not count as
    /// failures: a restarted server forgets every version, and its outage is no reason to delay the new list.
    pub(super) lists_lost: u32,
    /// The last logged trouble that is not over: the request (list, watch) and the kind of the error.
    pub(super) trouble: Option<(&'static str, &'static str)>,
    pub(super) newest: Newest,
    pub(super) outage: Outage,
    /// The requests that were taken in.
    pub(super) seen: Asked,
    /// Whether the cluster went back since the last complete list.
    pub(super) back: bool,
    pub(super) freshness: Freshness,
}

impl Watch {
    /// Runs until the receiver of the events is gone.
    pub(super) async fn run<K, F, E>(&mut self, mut outlet: Outlet<K, F, E>)
    where
        K: Resource + Clone + DeserializeOwned + Send + 'static,
        F: Send,
        E: Send,
    {
        let relist = self.config.relist.clone();
        loop {
            let asked = relist.asked();
            self.take_in(asked);
            let wanted = tokio::select! {
                biased;
                // Whatever is under way shows, or waits to show, an older state than the requested one.
                () = relist.above(asked.generation) => {
                    self.metrics.end(self.config.resource, "requested");
                    true
                }
                wanted = self.round(&mut outlet) => wanted,
            };
            if !wanted {
                return;
            }
        }
    }

    /// Takes in what is requested of the next list.
    fn take_in(&mut self, asked: Asked) {
        if asked.went_back > self.seen.went_back {
            if asked.certain > self.seen.certain {
                self.newest.restart(asked.floor);
            }
            self.outage.forget();
            self.back = true;
            self.trouble = Some(("list", "went_back"));
            self.listed.trouble(Some("the cluster went back to an earlier state; its objects are listed again".to_owned()));
        } else if asked.generation > self.seen.generation {
            self.newest.raise_floor(asked.floor);
        }
        self.seen = asked;
    }

    /// Lists, and then watches until a new list is needed (true) or the receiver is gone (false).
    async fn round<K, F, E>(&mut self, outlet: &mut Outlet<K, F, E>) -> bool
    where
        K: Resource + Clone + DeserializeOwned + Send + 'static,
        F: Send,
        E: Send,
    {
        let (sent, requested) = (clock::monotonic(), clock::through_suspension());
        let (objects, bad, version) = match self.list(outlet).await {
            Ok(listed) => listed,
            Err(error) => {
                self.newest.failed();
                self.outage.failed(&error, sent);
                self.failed("list", &error).await;
                return true;
            }
        };
        self.outage.answered(clock::monotonic());
        if self.config.never_back {
            let was_older = self.newest.has_refused();
            match self.newest.take(&version, clock::monotonic()) {
                // A restored cluster reaches in time the versions that were seen before.
                Ok(Taken::Newer) if was_older && self.outage.interrupted() && !self.back => {
                    tracing::warn!(resource = self.config.resource, version, "{MAY_HAVE_GONE_BACK}");
                    self.config.relist.doubt();
                    return true;
                }
                Ok(Taken::Newer) => {}
                Ok(Taken::Back) => {
                    tracing::warn!(resource = self.config.resource, version, "all lists are older: {WENT_BACK}");
                    // The other kinds went back with this one, and only together do their lists show a state.
                    self.config.relist.went_back(version.parse().unwrap_or(0));
                    return true;
                }
                Err(seen) => {
                    let text = format!("the list has resourceVersion {version}, but {seen} was seen before: this API server is behind");
                    self.failed("list", &CallError::Other(text)).await;
                    return true;
                }
            }
        } else if self.newest.accept(&version) == Taken::Back {
            if self.outage.interrupted() {
                tracing::warn!(resource = self.config.resource, version, "the list is older: {WENT_BACK}");
                self.config.relist.went_back(version.parse().unwrap_or(0));
                return true;
            }
            // Without an outage it is an API server that is behind.
            self.back = true;
        }
        self.outage.forget();
        self.metrics.list(self.config.resource, "ok");
        let as_of = self.freshness.listed(&version, requested, clock::through_suspension());
        self.age.is_known_up_to(as_of);
        let (generation, back) = (self.seen.generation, self.back);
        if !outlet.send(WatchEvent::Reset { objects, bad, generation, back, as_of }).await {
            return false;
        }
        self.back = false;
        self.recovered("list");
        self.listed.complete();
        self.follow(version, outlet).await
    }

    /// Watches from `version`, again and again, until a new list is needed (true) or the receiver is gone (false).
    async fn follow<K, F, E>(&mut self, mut version: String, outlet: &mut Outlet<K, F, E>) -> bool
    where
        K: Resource + Clone + DeserializeOwned + Send + 'static,
        F: Send,
        E: Send,
    {
        let mut refusals = 0;
        loop {
            let began = clock::monotonic();
            let end = match self.watch_once(&mut version, outlet).await {
                // Watches that are opened again and again, each before its first bookmark, say no more than one that is silent.
                end @ (End::Closed | End::Failed(_)) => self.death().map_or(end, End::Dead),
                end @ (End::Lost(_) | End::Dead(_) | End::Away | End::Unwanted) => end,
            };
            if lived(began) >= PROVED {
                self.failures = 0;
                self.lists_lost = 0;
                refusals = 0;
            }
            match end {
                End::Unwanted => return false,
                End::Closed => {
                    self.metrics.end(self.config.resource, "closed");
                    if lived(began) < PROVED {
                        self.failures = self.failures.saturating_add(1);
                        tokio::time::sleep(self.config.backoff.delay(self.failures)).await;
                    }
                }
                End::Lost(error) => {
                    // A version that is too old is the normal end of a long pause and no trouble.
                    if !matches!(error, CallError::Expired(_)) {
                        self.report("watch", error.kind(), &error);
                    }
                    self.metrics.end(self.config.resource, error.kind());
                    self.failures = 0;
                    self.lists_lost = self.lists_lost.saturating_add(1);
                    tokio::time::sleep(self.config.backoff.delay(self.lists_lost)).await;
                    return true;
                }
                End::Dead(death) => {
                    let (text, why) = death.words(self.config.silent);
                    self.report("watch", why, &CallError::Other(text));
                    self.metrics.end(self.config.resource, why);
                    self.outage.silent();
                    return true;
                }
                End::Away => {
                    self.metrics.end(self.config.resource, "away");
                    return true;
                }
                End::Failed(error) => {
                    let refused = !matches!(error, CallError::Unavailable(_));
                    refusals += u32::from(refused);
                    self.failed("watch", &error).await;
                    if refusals >= REFUSALS {
                        return true;
                    }
                }
            }
        }
    }

    /// Sends one watch request and reads it to its end. `version` follows the events.
    async fn watch_once<K, F, E>(&mut self, version: &mut String, outlet: &mut Outlet<K, F, E>) -> End
    where
        K: Resource + Clone + DeserializeOwned + Send + 'static,
        F: Send,
        E: Send,
    {
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: u32::try_from(self.config.idle.as_secs()).ok(),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = if self.metadata_only { self.request.watch_metadata(&params, version) } else { self.request.watch(&params, version) };
        let sent = clock::monotonic();
        let opened = call(self.config.limit, async {
            let request = request.map_err(Error::BuildRequest)?;
            self.client.request_events::<Decoded<K>>(request).await
        });
        let stream = match opened.await {
            Ok(stream) => stream,
            Err(error @ (CallError::Expired(_) | CallError::NotFound(_))) => {
                return End::Lost(error);
            }
            Err(error) => {
                self.outage.failed(&error, sent);
                return End::Failed(error);
            }
        };
        if self.outage.answered(clock::monotonic()) {
            return End::Away;
        }
        self.recovered("watch");
        self.freshness.opened(self.config.idle, clock::through_suspension());
        futures::pin_mut!(stream);
        // The question for the version of the kind; dropping it aborts it.
        let mut asked = JoinSet::new();
        loop {
            let event = tokio::select! {
                biased;
                () = clock::until_through_suspension(Some(self.freshness.dies_at(self.config.silent))) => {
                    let progress = self.freshness.progress(clock::through_suspension());
                    if !self.tell(progress, outlet).await {
                        return End::Unwanted;
                    }
                    match self.death() {
                        Some(death) => return End::Dead(death),
                        None => continue,
                    }
                }
                () = clock::until_through_suspension(self.freshness.asks_at()) => {
                    self.freshness.asked();
                    if let Ok(question) = self.version_of_kind() {
                        asked.spawn(question);
                    }
                    continue;
                }
                Some(Ok(Some((version, sent)))) = asked.join_next() => {
                    let progress = self.freshness.answered(&version, sent, clock::through_suspension());
                    if !self.tell(progress, outlet).await {
                        return End::Unwanted;
                    }
                    continue;
                }
                event = stream.next() => event,
            };
            let event = match event {
                None => return End::Closed,
                // A line that is no event would come again from the same version.
                Some(Err(error @ Error::SerdeError(_))) => return End::Lost(error.into()),
                Some(Err(error)) => return End::Failed(error.into()),
                Some(Ok(event)) => event,
            };
            let (decoded, kind) = match event {
                Wire::Added(decoded) => (decoded, "added"),
                Wire::Modified(decoded) => (decoded, "modified"),
                Wire::Deleted(decoded) => (decoded, "deleted"),
                Wire::Bookmark(bookmark) => {
                    *version = bookmark.metadata.resource_version;
                    self.newest.reached(version);
                    let progress = self.freshness.bookmark(version, clock::through_suspension());
                    if !self.tell(progress, outlet).await {
                        return End::Unwanted;
                    }
                    continue;
                }
                Wire::Error(status) => {
                    let error = CallError::from_status(&status);
                    return if matches!(error, CallError::Expired(_)) { End::Lost(error) } else { End::Failed(error) };
                }
            };
            let Some(now_at) = decoded.version().filter(|v| !v.is_empty()) else {
                let text = "an event without resourceVersion".to_owned();
                return End::Lost(CallError::Other(text));
            };
            now_at.clone_into(version);
            self.metrics.event(self.config.resource, kind);
            self.newest.reached(version);
            let progress = self.freshness.event(version, clock::through_suspension());
            let gone = kind == "deleted";
            let event = match decoded {
                Decoded::Good(object) if gone => WatchEvent::Delete((outlet.keep)(object)),
                Decoded::Good(object) => WatchEvent::Apply((outlet.keep)(object)),
                Decoded::Bad(mut bad) => {
                    self.metrics.bad(self.config.resource, 1);
                    bad.deleted = gone;
                    WatchEvent::Bad(bad)
                }
            };
            if !outlet.send(event).await || !self.tell(progress, outlet).await {
                return End::Unwanted;
            }
        }
    }

    /// Tells the receiver up to when everything is known, if that is news. False when the receiver is gone.
    async fn tell<K, F, E>(&self, progress: Option<Instant>, outlet: &mut Outlet<K, F, E>) -> bool {
        let Some(as_of) = progress else { return true };
        self.age.is_known_up_to(as_of);
        outlet.send(WatchEvent::UpToDate(as_of)).await
    }

    fn death(&self) -> Option<Death> {
        self.freshness.death(self.config.silent, clock::through_suspension())
    }

    /// Reports the trouble and waits before the next attempt.
    async fn failed(&mut self, what: &'static str, error: &CallError) {
        if what == "list" {
            self.metrics.list(self.config.resource, error.kind());
        } else {
            self.metrics.end(self.config.resource, error.kind());
        }
        self.report(what, error.kind(), error);
        self.failures = self.failures.saturating_add(1);
        let asked = error.retry_after().unwrap_or_default();
        tokio::time::sleep(self.config.backoff.delay(self.failures).max(asked)).await;
    }

    /// Logs a trouble when it is another than before: an outage of an hour is one line.
    fn report(&mut self, what: &'static str, kind: &'static str, error: &CallError) {
        self.listed.trouble(Some(error.to_string()));
        if self.trouble.replace((what, kind)) != Some((what, kind)) {
            let resource = self.config.resource;
            if is_permission_missing(error) {
                tracing::warn!(resource, %error, "cannot {what}; retrying until it works; {ADVICE}");
            } else {
                tracing::warn!(resource, %error, "cannot {what}; retrying until it works");
            }
        }
    }

    /// Reports that this request works again. A list that works says nothing about the watch.
    fn recovered(&mut self, what: &'static str) {
        if self.trouble.is_some_and(|(in_what, _)| in_what == what) {
            self.trouble = None;
            self.listed.trouble(None);
            tracing::info!(resource = self.config.resource, "the {what} works again");
        }
    }
}

fn lived(since: Instant) -> Duration {
    clock::monotonic().saturating_duration_since(since)
}
