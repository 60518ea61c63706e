//! Fences of pods, against a scripted API server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kube::Client;
use serde_json::{Value, json};

use super::super::super::command::Command;
use super::super::Dispatcher;
use super::*;
use crate::runtime::call::Caller;
use crate::runtime::leader::Leadership;
use crate::runtime::metrics::{self, RequestMetrics};

/// The most requests at the same time, so far, and now.
#[derive(Clone, Default)]
struct Load(Arc<(AtomicUsize, AtomicUsize)>);

/// One request, until it is answered or cut off.
struct UnderWay(Load);

impl Load {
    fn under_way(&self) -> UnderWay {
        let now = self.0.1.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.0.fetch_max(now, Ordering::Relaxed);
        UnderWay(self.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.1.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve(request: Request, load: Load) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = to_bytes(request.into_body(), 65_536).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let _under_way = load.under_way();
    let answer = answer(&method, &path, &body).await;
    (StatusCode::from_u16(answer.0).unwrap(), answer.1.to_string()).into_response()
}

async fn answer(method: &Method, path: &str, body: &Value) -> (u16, Value) {
    let parts: Vec<&str> = path.split('/').collect();
    let failure = |code: u16| (code, json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no" }));
    let pod =
        |uid: &str, node: Option<&str>| (200, json!({ "metadata": { "uid": uid, "resourceVersion": "70" }, "spec": { "nodeName": node } }));
    match (method, parts.as_slice()) {
        (&Method::PATCH, [.., namespace, "pods", name, "status"]) => {
            let condition = &body["status"]["conditions"][0];
            assert_eq!(
                (&condition["type"], &body["metadata"]["uid"]),
                (&"podgroup.dev/LeaderChanged".into(), &format!("{namespace}/{name}").into())
            );
            assert!(condition["message"].as_str().unwrap().contains(" leads now"), "{condition}");
            match (*namespace, *name) {
                ("blocked", _) => failure(403),
                ("slow", _) => std::future::pending().await,
                (_, "gone") => failure(404),
                (_, "replaced") => failure(422),
                (_, "contended") => failure(409),
                (_, "bound") => pod("ns/bound", Some("n")),
                (_, name) => pod(name, None),
            }
        }
        (&Method::GET, [.., "pods", "replaced"]) => pod("another", None),
        (&Method::GET, [.., "blocked", "pods", "gone"]) => failure(404),
        (&Method::GET, [.., "blocked", "pods", "bound"]) => pod("blocked/bound", Some("n")),
        (&Method::GET, [.., namespace, "pods", name]) => pod(&format!("{namespace}/{name}"), None),
        other => panic!("{other:?}"),
    }
}

fn dispatcher(concurrency: u16) -> (Dispatcher, Load) {
    let load = Load::default();
    let seen = load.clone();
    let app = Router::new().fallback(move |request: Request| serve(request, seen.clone()));
    let caller = Caller::new(Duration::from_secs(10), RequestMetrics::new(&metrics::registry().unwrap()).unwrap());
    (Dispatcher::new(Client::new(app, "ns"), caller, Leadership::always(), concurrency), load)
}

fn fence(namespace: &str, name: &str) -> Command {
    let uid = Uid::from(format!("{namespace}/{name}"));
    Command::Fence { namespace: namespace.into(), name: name.into(), uid, since: Some(Timestamp::UNIX_EPOCH) }
}

/// Returns the answers for so many pods, each with the seconds that it took.
async fn answers(to: &mut Dispatcher, count: usize) -> BTreeMap<String, (FenceAnswer, u64, u64)> {
    let began = clock::monotonic();
    let mut answers = BTreeMap::new();
    while answers.len() < count {
        let report = tokio::time::timeout(Duration::from_secs(3600), to.next()).await.expect("it is stuck");
        let Report::Fenced(fenced) = report else { panic!("{report:?}") };
        let took = clock::monotonic().saturating_duration_since(began).as_secs();
        assert!(answers.insert(fenced.uid.to_string(), (fenced.answer, fenced.resource_version, took)).is_none(), "twice");
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn the_answer_says_what_became_of_the_pod() {
    let (mut to, _load) = dispatcher(4);
    to.send(["p", "bound", "gone", "replaced"].map(|name| fence("ns", name)).into());
    let found = answers(&mut to, 4).await;
    let wanted = [
        ("bound", (FenceAnswer::Landed, 70, 0)),
        ("gone", (FenceAnswer::Gone, 0, 0)),
        ("p", (FenceAnswer::Fenced, 70, 0)),
        ("replaced", (FenceAnswer::Gone, 0, 0)),
    ];
    assert_eq!(found, wanted.map(|(name, answer)| (format!("ns/{name}"), answer)).into());
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_fenced_delay_no_others_and_are_let_be_after_a_while() {
    let (mut to, load) = dispatcher(8);
    let each = |namespace: &'static str, count: usize| (0..count).map(move |name| fence(namespace, &name.to_string()));
    to.send(each("blocked", 50).chain(each("slow", 50)).chain(each("fine", 50)).chain([fence("ns", "contended")]).collect());
    for (uid, (answer, _, took)) in answers(&mut to, 151).await {
        if uid.starts_with("fine/") {
            // The slow namespace has all slots for one time limit at most.
            assert_eq!((answer, took <= 10), (FenceAnswer::Fenced, true), "{uid} {took}");
        } else {
            assert_eq!((answer, took), (FenceAnswer::GivenUp, 90), "{uid} {took}");
        }
    }
    assert_eq!(load.0.0.load(Ordering::Relaxed), 8, "as many at once as bindings");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_fenced_is_read_before_it_is_let_be() {
    let (mut to, _load) = dispatcher(4);
    to.send(["p", "bound", "gone", "replaced"].map(|name| fence("blocked", name)).into());
    let found: Vec<(String, FenceAnswer)> = answers(&mut to, 4).await.into_iter().map(|(uid, (answer, ..))| (uid, answer)).collect();
    let wanted =
        [("bound", FenceAnswer::Landed), ("gone", FenceAnswer::Gone), ("p", FenceAnswer::GivenUp), ("replaced", FenceAnswer::Gone)];
    assert_eq!(found, wanted.map(|(name, answer)| (format!("blocked/{name}"), answer)));
}
