//! The stream of a watch: events as they happen, a bookmark each minute, an end after the time that the client asked for.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::kinds::Kind;
use super::refusal::Refusal;
use super::request::Request;
use super::selector::Selector;
use super::store::{Change, Progress};
use super::{Response, Server, refused, with_body};

/// How often a watch gets a bookmark (`bookmarkFrequency` of kube-apiserver).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

struct Open {
    server: Server,
    events: mpsc::UnboundedReceiver<Change>,
    progress: Progress,
    kind: &'static Kind,
    bookmark: Instant,
    end: Instant,
}

/// Opens a watch and returns its stream.
pub(super) fn open(server: &Server, sender: &str, request: &Request) -> Response {
    let query = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let selector = Selector { namespace: request.namespace.clone(), labels: query("labelSelector"), fields: query("fieldSelector") };
    let from = query("resourceVersion").parse().unwrap_or(0);
    let opened = server.inside().store.watch(request.kind.plural, sender, selector, from);
    let Some((events, progress)) = opened else { return refused(&Refusal::expired()) };
    let time = Duration::from_secs(query("timeoutSeconds").parse().unwrap_or(300));
    let now = Instant::now();
    let open = Open { server: server.clone(), events, progress, kind: request.kind, bookmark: now + BOOKMARK_EVERY, end: now + time };
    let lines = stream::unfold(open, |mut open| async move { open.next().await.map(|line| (Ok(frame(&line)), open)) });
    with_body(200, UnsyncBoxBody::new(StreamBody::new(lines)))
}

fn frame(line: &Value) -> http_body::Frame<Bytes> {
    http_body::Frame::data(Bytes::from(format!("{line}\n")))
}

impl Open {
    /// Returns the next line; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Value> {
        loop {
            tokio::select! {
                biased;
                change = self.events.recv() => {
                    let change = change?;
                    return Some(json!({ "type": change.happened.event(), "object": change.object }));
                }
                () = tokio::time::sleep_until(self.end) => return None,
                () = tokio::time::sleep_until(self.bookmark) => {
                    self.bookmark += BOOKMARK_EVERY;
                    if let Some(line) = self.progress() {
                        return Some(line);
                    }
                }
            }
        }
    }

    /// Returns the bookmark of now; `None` for a silent watch.
    fn progress(&self) -> Option<Value> {
        let version = self.progress.at(self.server.inside().store.version())?;
        let metadata = json!({ "resourceVersion": version.to_string() });
        let object = json!({ "apiVersion": self.kind.api_version, "kind": self.kind.name, "metadata": metadata });
        Some(json!({ "type": "BOOKMARK", "object": object }))
    }
}
