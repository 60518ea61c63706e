//! Bindings that carry the resourceVersion of their pod, against an API server that checks it, while other programs write to the pod.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kube::Client;
use serde_json::{Value, json};

use super::super::super::command::Command;
use super::super::super::event::Report;
use super::super::{Dispatcher, bind_queue};
use crate::runtime::call::Caller;
use crate::runtime::clock;
use crate::runtime::leader::Leadership;
use crate::runtime::metrics::{self, RequestMetrics};

/// The one pod, its version, and what happens to it.
#[derive(Default)]
struct Server {
    version: u64,
    node: Option<String>,
    deleting: bool,
    /// How many bindings still meet a pod that another program has just written to.
    others: u32,
    /// How many bindings are still lost on their way: 503, and nothing is done.
    lost: u32,
    /// Whether the decision does not hold any more.
    holds_no_more: bool,
    bindings: u32,
    reads: u32,
    /// How often the pod was changed so that bindings are void.
    voided: u32,
}

fn answer(server: &mut Server, method: &Method, body: &Value) -> (u16, Value) {
    let failure = |code: u16| (code, json!({ "kind": "Status", "status": "Failure", "code": code }));
    if method == Method::GET {
        server.reads += 1;
        let deleted = server.deleting.then_some("2026-11-22T00:00:00Z");
        let metadata = json!({ "name": "p", "uid": "ns/p", "resourceVersion": server.version.to_string(), "deletionTimestamp": deleted });
        return (200, json!({ "metadata": metadata, "spec": { "nodeName": server.node } }));
    }
    if method == Method::PATCH {
        server.voided += 1;
        server.version += 1;
        let metadata = json!({ "name": "p", "uid": "ns/p", "resourceVersion": server.version.to_string() });
        return (200, json!({ "metadata": metadata, "spec": { "nodeName": server.node } }));
    }
    server.bindings += 1;
    if server.lost > 0 {
        server.lost -= 1;
        return failure(503);
    }
    if server.others > 0 {
        server.others -= 1;
        server.version += 1;
    }
    if server.node.is_some()
        || server.deleting
        || body["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()) != Some(server.version)
    {
        return failure(409);
    }
    server.version += 1;
    server.node = body["target"]["name"].as_str().map(str::to_owned);
    (201, json!({ "kind": "Status", "status": "Success" }))
}

/// Sends one binding, decided on version 1, to this server. Returns its outcome, and the seconds that it took.
async fn outcome(server: &Arc<Mutex<Server>>) -> (&'static str, u64) {
    let shared = Arc::clone(server);
    let app = Router::new().fallback(move |request: Request| {
        let shared = Arc::clone(&shared);
        async move {
            let method = request.method().clone();
            let body = to_bytes(request.into_body(), 65_536).await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, body) = answer(&mut shared.lock().unwrap(), &method, &body);
            let answer: Response = (StatusCode::from_u16(code).unwrap(), body.to_string()).into_response();
            answer
        }
    });
    let caller = Caller::new(Duration::from_secs(10), RequestMetrics::new(&metrics::registry().unwrap()).unwrap());
    let mut to = Dispatcher::new(Client::new(app, "ns"), caller, Leadership::always(), 1);
    let began = clock::monotonic();
    to.send(vec![Command::Bind(bind_queue::tests::bind("ns", "p"))]);
    let report = loop {
        let report = tokio::time::timeout(Duration::from_secs(3600), to.next()).await.expect("it is stuck");
        let Report::SendAgain(_, reply) = report else { break report };
        reply.send(!server.lock().unwrap().holds_no_more).unwrap();
    };
    let (_, outcome) = bind_queue::tests::outcome(report);
    assert_ne!(outcome, "unanswered");
    (outcome, clock::monotonic().saturating_duration_since(began).as_secs())
}

fn server(version: u64) -> Arc<Mutex<Server>> {
    Arc::new(Mutex::new(Server { version, ..Server::default() }))
}

#[tokio::test(start_paused = true)]
async fn each_409_costs_one_read_and_one_binding_and_a_pod_that_stays_as_it_is_costs_none() {
    for (others, found, sent, reads) in [(0, "bound", 1, 0), (1, "bound", 2, 1), (4, "bound", 5, 4), (99, "conflict", 5, 5)] {
        let server = server(1);
        server.lock().unwrap().others = others;
        assert_eq!(outcome(&server).await, (found, 0), "{others}");
        let server = server.lock().unwrap();
        assert_eq!((server.bindings, server.reads, server.node.is_some()), (sent, reads, found == "bound"), "{others}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changed_since_the_decision_is_bound_with_the_version_that_was_read() {
    let server = server(40);
    assert_eq!(outcome(&server).await, ("bound", 0));
    assert_eq!(server.lock().unwrap().node.as_deref(), Some("n"));
}

#[tokio::test(start_paused = true)]
async fn a_409_that_is_not_about_the_version_is_a_refusal() {
    let server = server(1);
    server.lock().unwrap().deleting = true;
    assert_eq!(outcome(&server).await, ("conflict", 0));
    let server = server.lock().unwrap();
    assert_eq!((server.bindings, server.reads), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_is_void_once_the_pod_has_another_version() {
    let server = server(1);
    (server.lock().unwrap().lost, server.lock().unwrap().others) = (2, 99);
    let (found, took) = outcome(&server).await;
    // Without the version, a request may take effect for 90 s.
    assert_eq!((found, took), ("conflict", 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_409_a_binding_is_not_sent_again_when_its_decision_does_not_hold_any_more() {
    let server = server(40);
    server.lock().unwrap().holds_no_more = true;
    assert_eq!(outcome(&server).await, ("no_longer_fits", 0));
    let server = server.lock().unwrap();
    assert_eq!((server.bindings, server.reads), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_is_made_void_when_its_decision_does_not_hold_any_more() {
    let server = server(1);
    (server.lock().unwrap().lost, server.lock().unwrap().holds_no_more) = (1, true);
    assert_eq!(outcome(&server).await, ("no_longer_fits", 0));
    let server = server.lock().unwrap();
    assert_eq!((server.bindings, server.reads, server.voided, server.node.is_some()), (1, 1, 1, false));
}
