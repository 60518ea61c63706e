//! Keeps a list and the watches after it going, whatever the server does.
//!
//! This is the loop drawn in [`super::watch`]; its front door is there.

use std::time::Duration;

use futures::StreamExt;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Resource, WatchEvent as Wire};
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::call::{CallError, call};
use super::clock;
use super::metrics::WatchMetrics;
use super::rbac_warnings::{ADVICE, is_permission_missing};
use super::readiness::Listed;
use super::relist::{Asked, MAY_HAVE_GONE_BACK, WENT_BACK};
use super::watch::{Outlet, WatchConfig, WatchEvent};
use super::watch_age::WatchAge;
use super::watch_decode::{BadObject, Decoded, Page};
use super::watch_newest::{Newest, Taken};
use super::watch_outage::Outage;

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
    /// It was open and said nothing for too long: list again. Its server, or something before it, lost it; or the resourceVersion lies in the future of a
    /// restored etcd. A server opens such a watch, and says nothing before the etcd has reached that version.
    Silent,
    /// It could be opened again only after an outage: list again (`watch_outage`).
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
    /// Lists in a row with a watch that could not start because the server had forgotten the resourceVersion. They do not count as failures: a restarted
    /// server forgets every version, and its outage is no reason to delay the new list.
    pub(super) lists_lost: u32,
    /// The last logged trouble that is not over: the request (list, watch) and the kind of the error.
    pub(super) trouble: Option<(&'static str, &'static str)>,
    pub(super) newest: Newest,
    pub(super) outage: Outage,
    /// The requests that were taken in.
    pub(super) seen: Asked,
    /// Whether the cluster went back since the last complete list.
    pub(super) back: bool,
    /// When the API server was heard of last: with a complete list, an event or a bookmark.
    pub(super) heard: Instant,
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
        let sent = clock::monotonic();
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
        self.record_heard();
        let (generation, back) = (self.seen.generation, self.back);
        if !outlet.send(WatchEvent::Reset { objects, bad, generation, back }).await {
            return false;
        }
        self.back = false;
        self.recovered("list");
        self.listed.complete();
        self.follow(version, outlet).await
    }

    /// Reads every page of one list, and returns its objects and the version to watch from.
    async fn list<K, F, E>(&self, outlet: &mut Outlet<K, F, E>) -> Result<(Vec<F>, Vec<BadObject>, String), CallError>
    where
        K: Resource + Clone + DeserializeOwned,
    {
        let mut params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: Some(self.config.page_size),
            ..ListParams::default()
        };
        let (mut objects, mut bad) = (Vec::new(), Vec::new());
        // The request of the next page; dropping the list aborts it.
        let mut asked = JoinSet::new();
        asked.spawn(self.page(&params)?);
        let version = loop {
            let Some(answer) = asked.join_next().await else { return Err(CallError::Other("no page was requested".to_owned())) };
            let mut page = answer.map_err(|error| CallError::Other(error.to_string()))??;
            let version = page.metadata.resource_version.take();
            params.continue_token = page.metadata.continue_.take().filter(|token| !token.is_empty());
            // The server makes the next page while this one is decoded.
            if params.continue_token.is_some() {
                asked.spawn(self.page(&params)?);
            }
            for object in page.objects() {
                match object.map_err(Error::SerdeError)? {
                    Decoded::Good(object) => objects.push((outlet.keep)(object)),
                    Decoded::Bad(object) => bad.push(object),
                }
            }
            if params.continue_token.is_none() {
                break version.unwrap_or_default();
            }
        };
        if version.is_empty() {
            return Err(CallError::Other("a list without resourceVersion".to_owned()));
        }
        let bad_count = u64::try_from(bad.len()).unwrap_or(u64::MAX);
        self.metrics.bad(self.config.resource, bad_count);
        Ok((objects, bad, version))
    }

    /// Sends the request of one page of a list.
    fn page(&self, params: &ListParams) -> Result<impl Future<Output = Result<Page, CallError>> + Send + use<>, CallError> {
        let request = if self.metadata_only { self.request.list_metadata(params) } else { self.request.list(params) };
        let (request, client, limit) = (request.map_err(Error::BuildRequest)?, self.client.clone(), self.config.limit);
        Ok(async move { call(limit, client.request(request)).await })
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
                End::Closed | End::Failed(_) if lived(self.heard) >= self.config.silent => End::Silent,
                end @ (End::Closed | End::Failed(_) | End::Lost(_) | End::Silent | End::Away | End::Unwanted) => end,
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
                End::Silent => {
                    let text = format!("no event and no bookmark for {:?}: the watch is dead", self.config.silent);
                    self.report("watch", "silent", &CallError::Other(text));
                    self.metrics.end(self.config.resource, "silent");
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
        futures::pin_mut!(stream);
        loop {
            let event = match tokio::time::timeout_at(self.heard + self.config.silent, stream.next()).await {
                Err(_elapsed) => return End::Silent,
                Ok(None) => return End::Closed,
                // A line that is no event would come again from the same version.
                Ok(Some(Err(error @ Error::SerdeError(_)))) => return End::Lost(error.into()),
                Ok(Some(Err(error))) => return End::Failed(error.into()),
                Ok(Some(Ok(event))) => event,
            };
            let (decoded, kind) = match event {
                Wire::Added(decoded) => (decoded, "added"),
                Wire::Modified(decoded) => (decoded, "modified"),
                Wire::Deleted(decoded) => (decoded, "deleted"),
                Wire::Bookmark(bookmark) => {
                    *version = bookmark.metadata.resource_version;
                    self.record_heard();
                    self.newest.reached(version);
                    if !outlet.send(WatchEvent::UpToDate).await {
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
            self.record_heard();
            self.newest.reached(version);
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
            if !outlet.send(event).await {
                return End::Unwanted;
            }
        }
    }

    /// Records that the API server was heard of about this kind.
    fn record_heard(&mut self) {
        self.heard = clock::monotonic();
        self.age.heard();
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
