//! An API server in memory, which answers as the real one does: resourceVersions, UIDs, preconditions, 404, 409, 429, watches with bookmarks.
//!
//! ```text
//!  program ─▶ kube::Client ─▶ request ─▶ orders (late, lost, 409 …) ─▶ carry_out ─▶ store ─▶ watches ─▶ programs
//! ```
//!
//! A request has a task of its own, so it is carried out also if its sender is gone, as on a real connection. It takes [`ON_THE_WAY`] to
//! the server, so that the watch events of one request and the answer to it come in an order that a real server has too.
//!
//! What it does not have: defaults and schemas, admission policies, rights, apiserver replicas that are behind. The cases on the real
//! control plane have those.

pub mod carry_out;
pub mod kinds;
pub mod orders;
pub mod patch;
pub mod refusal;
pub mod request;
pub mod selector;
pub mod store;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tower::service_fn;

use carry_out::{carry_out, list_at};
use orders::{Answer, Orders};
use refusal::Refusal;
use request::Request;
use store::Store;

/// How long a request is on its way to the server.
const ON_THE_WAY: Duration = Duration::from_millis(1);

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, anyhow::Error>;

type Response = http::Response<Body>;

/// A request that the server has received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The program that sent it.
    pub sender: Arc<str>,
    /// Its words, as [`Request::action`] returns them.
    pub action: String,
    /// The name of its object; empty for a list and a watch.
    pub subject: String,
    /// Whether it changes an object, if it is carried out. Leases are left out.
    pub writes: bool,
    /// The code of the answer; 0 while there is none.
    pub code: u16,
}

/// How many more writes of a program arrive before it is cut off.
type Cuts = BTreeMap<Arc<str>, usize>;

/// What the server knows.
pub struct Inside {
    /// The objects.
    pub store: Store,
    /// The ordered answers.
    pub orders: Orders,
    /// All requests so far.
    pub received: Vec<Received>,
    /// The programs that are cut off, or will be.
    cuts: Cuts,
    tasks: JoinSet<()>,
}

/// The API server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inside: Arc<Mutex<Inside>>,
    /// Tells the simulated controllers that an object changed.
    pub changed: Arc<Notify>,
}

impl Server {
    /// Makes a server without objects, at this time of the wall clock.
    #[must_use]
    pub fn new(wall: Timestamp) -> Self {
        let inside =
            Inside { store: Store::new(wall), orders: Orders::default(), received: Vec::new(), cuts: Cuts::new(), tasks: JoinSet::new() };
        Self { inside: Arc::new(Mutex::new(inside)), changed: Arc::new(Notify::new()) }
    }

    /// Locks what the server knows. Never hold it across an await.
    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes objects, and wakes what watches them.
    pub fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let result = change(&mut self.inside().store);
        self.changed.notify_one();
        result
    }

    /// Returns a client for a program of this name.
    #[must_use]
    pub fn client(&self, sender: &str) -> Client {
        let (server, sender): (Self, Arc<str>) = (self.clone(), Arc::from(sender));
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let (server, sender) = (server.clone(), Arc::clone(&sender));
            async move { server.serve(sender, request).await }
        });
        Client::new(service, "default")
    }

    async fn serve(self, sender: Arc<str>, request: http::Request<kube::client::Body>) -> anyhow::Result<Response> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|error| anyhow!("{error}"))?.to_bytes();
        let Some(request) = Request::read(&parts, &body) else { return Ok(refused(&Refusal::not_found(parts.uri.path()))) };
        self.begin(sender, request).await.map_err(|_| anyhow!("connection closed"))?
    }

    /// Starts the task of a request, and returns where its answer comes.
    fn begin(&self, sender: Arc<str>, request: Request) -> oneshot::Receiver<anyhow::Result<Response>> {
        let (reply, answer) = oneshot::channel();
        let server = self.clone();
        let mut inside = self.inside();
        while inside.tasks.try_join_next().is_some() {}
        inside.tasks.spawn(async move {
            let answer = server.answer(sender, request).await;
            // The sender may have stopped waiting.
            let _gone = reply.send(answer);
        });
        answer
    }

    async fn answer(&self, sender: Arc<str>, request: Request) -> anyhow::Result<Response> {
        tokio::time::sleep(ON_THE_WAY).await;
        let (number, ordered) = self.receive(&sender, &request);
        let answer = self.answer_as(&sender, ordered, request).await;
        if let (Ok(answer), Some(received)) = (&answer, self.inside().received.get_mut(number)) {
            received.code = answer.status().as_u16();
        }
        answer
    }

    /// Records a request, and returns its number with the answer that is ordered for it.
    fn receive(&self, sender: &Arc<str>, request: &Request) -> (usize, Answer) {
        let mut inside = self.inside();
        let is_cut_off = match inside.cuts.get_mut(sender) {
            Some(0) => true,
            Some(left) => {
                *left -= usize::from(request.counts_as_write());
                false
            }
            None => false,
        };
        if is_cut_off {
            return (usize::MAX, Answer::Unreachable);
        }
        let (action, subject, writes) = (request.counted_as(), request.subject().to_owned(), request.counts_as_write());
        inside.received.push(Received { sender: Arc::clone(sender), action, subject, writes, code: 0 });
        let ordered = inside.orders.take(sender, request).unwrap_or(Answer::Usual);
        (inside.received.len() - 1, ordered)
    }

    /// Lets so many more writes of the program arrive, without those of its lease, and then nothing any more.
    pub fn cut(&self, sender: &str, after_writes: usize) {
        let mut inside = self.inside();
        inside.cuts.insert(Arc::from(sender), after_writes);
        if after_writes == 0 {
            inside.store.end_watches_of(sender);
        }
    }

    /// Lets everything of the program arrive again.
    pub fn mend(&self, sender: &str) {
        self.inside().cuts.remove(sender);
    }

    async fn answer_as(&self, sender: &str, ordered: Answer, request: Request) -> anyhow::Result<Response> {
        match ordered {
            Answer::Usual => Ok(self.carry_out(sender, request)),
            Answer::Code(code) => Ok(refused(&Refusal::ordered(code))),
            Answer::Late(time) => {
                tokio::time::sleep(time).await;
                Ok(self.carry_out(sender, request))
            }
            Answer::Slow(time) => {
                let answer = self.carry_out(sender, request);
                tokio::time::sleep(time).await;
                Ok(answer)
            }
            Answer::Lost => {
                self.carry_out(sender, request);
                Err(anyhow!("connection reset by peer"))
            }
            Answer::Never => {
                self.carry_out(sender, request);
                std::future::pending().await
            }
            Answer::Unreachable => Err(anyhow!("connection refused")),
            Answer::Hangs(time) => {
                tokio::time::sleep(time).await;
                Ok(refused(&Refusal::ordered(500)))
            }
            Answer::Old(version) => Ok(response(200, &list_at(&self.inside().store, &request, version))),
        }
    }

    fn carry_out(&self, sender: &str, request: Request) -> Response {
        if request.verb == "watch" {
            return watch::open(self, sender, &request);
        }
        let answer = self.write(|store| carry_out(store, &request));
        match answer {
            Ok((code, body)) => response(code, &body),
            Err(refusal) => refused(&refusal),
        }
    }
}

fn refused(refusal: &Refusal) -> Response {
    response(refusal.code, &refusal.status())
}

fn response(code: u16, body: &Value) -> Response {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    with_body(code, UnsyncBoxBody::new(body))
}

fn with_body(code: u16, body: Body) -> Response {
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
