//! What happens to one open watch? Its events go through here line by line, in order, and none is lost but by an end that the program can see.

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
use super::control::{Control, Weather};
use super::fault::StreamFault;
use super::request::Asked;
use super::{Body, Broken, answer};
use crate::wait::secs;

/// How often a watch that holds its events back says that it is alive.
const BOOKMARKS: Duration = secs(1);

/// What the proxy reads of an event.
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
    server_says: std::pin::Pin<Box<dyn futures::Stream<Item = Result<Bytes, Broken>> + Send>>,
    sent: Sent,
    asked: Asked,
    control: Arc<Control>,
    server: Client,
    weather: watch::Receiver<Weather>,
    era: u64,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// Events that are not told yet.
    waiting: VecDeque<Bytes>,
    server_ended: bool,
    /// What is to happen, and when.
    next: Option<(Instant, StreamFault)>,
    view: Option<(Parts, Bytes)>,
    hold: Option<Instant>,
    bookmark: Option<Instant>,
    /// The version up to which everything was told, and of what the events are; the latter is not known before the first one.
    told: String,
    types: Option<(String, String)>,
    /// What is still said before the end.
    last: VecDeque<Result<Bytes, Broken>>,
    over: bool,
}

/// The events of a watch, with what a rule wants `first`, then with what the mix does.
pub(super) fn relay(
    body: kube::client::Body,
    sent: Sent,
    asked: Asked,
    first: Option<(Duration, StreamFault)>,
    control: Arc<Control>,
    server: Client,
) -> Body {
    let weather = control.weather.subscribe();
    let era = weather.borrow().era;
    let told = asked.version.clone();
    let relay = Relay {
        server_says: Box::pin(body.into_data_stream().map(|chunk| chunk.map_err(Broken::other))),
        sent,
        asked,
        control,
        server,
        weather,
        era,
        rest: Vec::new(),
        waiting: VecDeque::new(),
        server_ended: false,
        next: None,
        view: None,
        hold: None,
        bookmark: None,
        told,
        types: None,
        last: VecDeque::new(),
        over: false,
    };
    let events = futures::stream::unfold((relay, Some(first)), |(mut relay, first)| async move {
        if let Some(first) = first {
            let planned = first.or_else(|| relay.control.next_of_stream(&relay.asked));
            relay.plan(planned).await;
        }
        let piece = relay.piece().await?;
        Some((piece.map(Frame::data), (relay, None)))
    });
    StreamBody::new(events).boxed_unsync()
}

impl Relay {
    /// The next bytes for the program; none at the clean end.
    async fn piece(&mut self) -> Option<Result<Bytes, Broken>> {
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
                self.learn(&event);
                return Some(Ok(event));
            }
            if self.server_ended && self.waiting.is_empty() {
                return None;
            }
            let (next, hold, bookmark) = (self.next.map(|(at, _)| at), self.hold, self.bookmark);
            tokio::select! {
                biased;
                // Its sender lives in `control`, which is here.
                _ = self.weather.changed() => self.look_at_the_weather().await,
                () = at(hold) => {
                    (self.hold, self.bookmark) = (None, None);
                    self.plan_next().await;
                }
                () = at(next) => self.happen().await,
                () = at(bookmark) => {
                    self.bookmark = Some(Instant::now() + BOOKMARKS);
                    if let Some(types) = &self.types && self.sent.uri.query().is_some_and(|query| query.contains("allowWatchBookmarks=true")) {
                        return Some(Ok(answer::bookmark(types, &self.told)));
                    }
                }
                chunk = self.server_says.next(), if !self.server_ended => match chunk {
                    Some(Ok(chunk)) => self.take(&chunk),
                    Some(Err(broken)) => {
                        self.over = true;
                        return Some(Err(broken));
                    }
                    None => self.server_ended = true,
                },
            }
        }
    }

    /// Whole lines only: an event is told as a whole or not at all.
    fn take(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            self.waiting.push_back(self.rest.drain(..=end).collect::<Vec<u8>>().into());
        }
    }

    fn learn(&mut self, event: &[u8]) {
        let Ok(Event { object }) = serde_json::from_slice::<Event>(event) else { return };
        if !object.metadata.version.is_empty() {
            self.told = object.metadata.version;
        }
        if !object.kind.is_empty() && object.kind != "Status" {
            self.types = Some((object.api_version, object.kind));
        }
    }

    async fn look_at_the_weather(&mut self) {
        let weather = *self.weather.borrow_and_update();
        if weather.era != self.era {
            self.era = weather.era;
            (self.next, self.view, self.hold, self.bookmark) = (None, None, None, None);
        }
        if self.next.is_none() && self.hold.is_none() {
            self.plan_next().await;
        }
    }

    async fn plan_next(&mut self) {
        let planned = self.control.next_of_stream(&self.asked);
        self.plan(planned).await;
    }

    /// Notes what is to happen. What will be an old view then is the present one now.
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

    async fn happen(&mut self) {
        let Some((_, what)) = self.next.take() else { return };
        let detail = format!("{what:?} after version {}", self.told);
        // An old view is one only when it has been shown.
        if matches!(what, StreamFault::OldView(_)) {
            self.control.ledger.later(what.kind(), &self.asked, &detail);
        } else {
            self.control.ledger.injected(what.kind(), &self.asked, &detail);
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
                self.last.push_back(Ok(answer::error_event(what == StreamFault::Expire, &self.asked)));
            }
            StreamFault::Hold(length) => {
                self.hold = Some(Instant::now() + length);
                self.bookmark = Some(Instant::now());
            }
            StreamFault::OldView(_) => {
                self.over = true;
                self.last.push_back(Ok(answer::error_event(true, &self.asked)));
                if let Some(view) = self.view.take() {
                    self.control.keep_view(&self.asked, view);
                }
            }
        }
    }
}

/// A list of the objects of a watch as of now.
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
