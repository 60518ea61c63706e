//! Relays one open watch line by line and in order, and applies its faults. No event is lost, except at an end that the program can see.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::Uri;
use hyper::body::{Bytes, Frame};
use hyper::http::response::Parts;
use kube::Client;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::carry::Sent;
use super::control::{ActiveMix, Control, Unused};
use super::fault::StreamFault;
use super::request::ApiRequest;
use super::{Body, Broken, answer};
use crate::wait::secs;

/// How often a watch that holds its events back sends a bookmark.
const BOOKMARKS: Duration = secs(1);

/// The part of an event that the proxy reads.
#[derive(Deserialize)]
struct Event {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(rename = "resourceVersion", default)]
    version: String,
}

struct Relay {
    from_server: std::pin::Pin<Box<dyn futures::Stream<Item = Result<Bytes, Broken>> + Send>>,
    sent: Sent,
    api_request: ApiRequest,
    control: Arc<Control>,
    server: Client,
    active_mix: watch::Receiver<ActiveMix>,
    generation: u64,
    /// The beginning of a line collection end has not arrived.
    rest: Vec<u8>,
    /// Events that have not been sent.
    waiting: VecDeque<Bytes>,
    server_ended: bool,
    /// The next fault and its time.
    next: Option<(Instant, StreamFault)>,
    /// The fault of a rule, until it is injected.
    unused: Option<Unused>,
    view: Option<(Parts, Bytes)>,
    hold: Option<Instant>,
    bookmark: Option<Instant>,
    /// The version up to which events were sent, and the types of the objects. The types are not known before the first event.
    sent_version: String,
    types: Option<(String, String)>,
    /// What is still sent before the end.
    last: VecDeque<Result<Bytes, Broken>>,
    over: bool,
}

/// The generation of the mix when the request was decided, and the fault of a rule, which comes first.
pub(super) type First = (u64, Option<(Duration, StreamFault)>, Option<Unused>);

/// Relays the events of a watch. The fault of a rule comes first, then the faults of the mix.
pub(super) fn relay(
    body: kube::client::Body,
    sent: Sent,
    api_request: ApiRequest,
    (generation, first, unused): First,
    control: Arc<Control>,
    server: Client,
) -> Body {
    let mut active_mix = control.active_mix.subscribe();
    // The generation may have changed since the decision.
    active_mix.mark_changed();
    let sent_version = api_request.version.clone();
    let relay = Relay {
        from_server: Box::pin(body.into_data_stream().map(|chunk| chunk.map_err(Broken::other))),
        sent,
        api_request,
        control,
        server,
        active_mix,
        generation,
        rest: Vec::new(),
        waiting: VecDeque::new(),
        server_ended: false,
        next: None,
        unused,
        view: None,
        hold: None,
        bookmark: None,
        sent_version,
        types: None,
        last: VecDeque::new(),
        over: false,
    };
    let events = futures::stream::unfold((relay, Some(first)), |(mut relay, first)| async move {
        if let Some(first) = first {
            let planned = first.or_else(|| relay.control.next_of_stream(&relay.api_request));
            relay.plan(planned).await;
        }
        let piece = relay.next_bytes().await?;
        Some((piece.map(Frame::data), (relay, None)))
    });
    StreamBody::new(events).boxed_unsync()
}

impl Relay {
    /// Returns the next bytes for the program; `None` at the normal end.
    async fn next_bytes(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            if let Some(piece) = self.last.pop_front() {
                return Some(piece);
            }
            if self.over {
                return None;
            }
            if self.next.is_none_or(|(at, _)| at > Instant::now())
                && self.hold.is_none()
                && let Some(event) = self.waiting.pop_front()
            {
                self.record_sent(&event);
                return Some(Ok(event));
            }
            if self.server_ended && self.waiting.is_empty() {
                return None;
            }
            let (next, hold, bookmark) = (self.next.map(|(at, _)| at), self.hold, self.bookmark);
            tokio::select! {
                biased;
                // The sender of this channel lives in `control`, which this struct holds.
                _ = self.active_mix.changed() => self.apply_mix_change().await,
                () = at(hold) => {
                    (self.hold, self.bookmark) = (None, None);
                    self.plan_next().await;
                }
                () = at(next) => self.inject().await,
                () = at(bookmark) => {
                    self.bookmark = Some(Instant::now() + BOOKMARKS);
                    if let Some(types) = &self.types && self.sent.uri.query().is_some_and(|query| query.contains("allowWatchBookmarks=true")) {
                        return Some(Ok(answer::bookmark(types, &self.sent_version)));
                    }
                }
                chunk = self.from_server.next(), if !self.server_ended => match chunk {
                    Some(Ok(chunk)) => self.take_chunk(&chunk),
                    Some(Err(broken)) => {
                        self.over = true;
                        return Some(Err(broken));
                    }
                    None => self.server_ended = true,
                },
            }
        }
    }

    /// Collects whole lines: an event is sent as a whole or not at all.
    fn take_chunk(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            self.waiting.push_back(self.rest.drain(..=end).collect::<Vec<u8>>().into());
        }
    }

    fn record_sent(&mut self, event: &[u8]) {
        let Ok(Event { object }) = serde_json::from_slice::<Event>(event) else { return };
        if !object.metadata.version.is_empty() {
            self.sent_version = object.metadata.version;
        }
        if !object.kind.is_empty() && object.kind != "Status" {
            self.types = Some((object.api_version, object.kind));
        }
    }

    async fn apply_mix_change(&mut self) {
        let active_mix = *self.active_mix.borrow_and_update();
        if active_mix.generation != self.generation {
            self.generation = active_mix.generation;
            (self.next, self.view, self.hold, self.bookmark) = (None, None, None, None);
            self.use_up();
        }
        if self.next.is_none() && self.hold.is_none() {
            self.plan_next().await;
        }
    }

    async fn plan_next(&mut self) {
        let planned = self.control.next_of_stream(&self.api_request);
        self.plan(planned).await;
    }

    /// Plans the next fault. For an old view, the present state is stored now.
    async fn plan(&mut self, planned: Option<(Duration, StreamFault)>) {
        self.next = match planned {
            Some((_, what @ StreamFault::OldView(age))) => match snapshot(self.sent.clone(), &self.server.clone()).await {
                Ok(view) => {
                    self.view = Some(view);
                    Some((Instant::now() + age, what))
                }
                Err(_) => None,
            },
            Some((after, what)) => Some((Instant::now() + after, what)),
            None => None,
        };
    }

    fn use_up(&mut self) {
        if let Some(unused) = self.unused.take() {
            unused.used();
        }
    }

    async fn inject(&mut self) {
        let Some((_, what)) = self.next.take() else { return };
        self.use_up();
        let detail = format!("{what:?} after version {}", self.sent_version);
        // An old view is counted when it is shown, in `carry`.
        if matches!(what, StreamFault::OldView(_)) {
            self.control.ledger.later(what.kind(), &self.api_request, &detail);
        } else {
            self.control.ledger.injected(what.kind(), &self.api_request, &detail);
        }
        match what {
            StreamFault::Close => self.over = true,
            StreamFault::Cut => {
                self.over = true;
                let half = self.waiting.front().map(|event| event.slice(..event.len() / 2));
                self.last.extend(half.map(Ok));
                self.last.push_back(Err(Broken::on_purpose()));
            }
            StreamFault::Expire | StreamFault::Error => {
                self.over = true;
                self.last.push_back(Ok(answer::error_event(what == StreamFault::Expire, &self.api_request)));
            }
            StreamFault::Hold(length) => {
                self.hold = Some(Instant::now() + length);
                self.bookmark = Some(Instant::now());
            }
            StreamFault::Silent(length) => self.hold = Some(Instant::now() + length),
            StreamFault::OldView(_) => {
                self.over = true;
                self.last.push_back(Ok(answer::error_event(true, &self.api_request)));
                if let Some(view) = self.view.take() {
                    self.control.keep_view(&self.api_request, view);
                }
            }
        }
    }
}

/// Lists the present state of the objects of a watch.
async fn snapshot(watch: Sent, server: &Client) -> Result<(Parts, Bytes), Broken> {
    let kept = ["labelSelector=", "fieldSelector="];
    let mut query: Vec<&str> = watch.uri.query().unwrap_or_default().split('&').collect();
    query.retain(|pair| kept.iter().any(|key| pair.starts_with(key)));
    query.push("limit=500");
    let uri: Uri = format!("{}?{}", watch.uri.path(), query.join("&")).parse().map_err(Broken::other)?;
    let (parts, body) = Sent { uri, ..watch }.ask(server).await?;
    if parts.status.is_success() { Ok((parts, body)) } else { Err(Broken::other(parts.status)) }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
