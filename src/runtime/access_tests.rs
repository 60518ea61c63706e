//! What is asked about a token, how often, and what comes of every answer. The API server is played here; the real one is asked in the case `M3`.

use super::super::metrics::{self, RequestMetrics};
use super::*;
use axum::Json;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// Knows the tokens `good` (a user who may get /metrics), `poor` (one who may nothing) and `both` (one whom one authorizer allows it and another denies). Shared with the tests of the HTTP server.
#[derive(Default)]
pub(in super::super) struct Played {
    tokens: AtomicUsize,
    rights: AtomicUsize,
    /// The status of every answer; 0 is the right one.
    answers_with: AtomicU16,
}

async fn tokens(State(played): State<Arc<Played>>, Json(review): Json<Value>) -> Response {
    played.tokens.fetch_add(1, Ordering::Relaxed);
    let user = match review["spec"]["token"].as_str() {
        Some("good") => {
            json!({"authenticated": true, "user": {"username": "prometheus", "uid": "7", "groups": ["scrapers"], "extra": {"k": ["v"]}}})
        }
        Some("poor") => json!({"authenticated": true, "user": {"username": "eve"}}),
        Some("both") => {
            json!({"authenticated": true, "user": {"username": "both", "uid": "7", "groups": ["scrapers"], "extra": {"k": ["v"]}}})
        }
        // A user without the word "authenticated" is nobody.
        Some("odd") => json!({"user": {"username": "prometheus", "groups": ["scrapers"]}}),
        _ => json!({"authenticated": false, "error": "invalid bearer token"}),
    };
    played.answer(json!({"metadata": {}, "spec": {"token": ""}, "status": user}))
}

async fn rights(State(played): State<Arc<Played>>, Json(review): Json<Value>) -> Response {
    played.rights.fetch_add(1, Ordering::Relaxed);
    let spec = &review["spec"];
    let whole = spec["uid"] == "7" && spec["extra"] == json!({"k": ["v"]}) && spec["groups"] == json!(["scrapers"]);
    let wanted = spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
    let denied = spec["user"] == "both";
    let status = json!({"allowed": whole && wanted && (denied || spec["user"] == "prometheus"), "denied": denied});
    played.answer(json!({"metadata": {}, "spec": {}, "status": status}))
}

impl Played {
    fn answer(&self, right: Value) -> Response {
        match self.answers_with.load(Ordering::Relaxed) {
            0 => Json(right).into_response(),
            code => {
                (StatusCode::from_u16(code).unwrap(), Json(json!({"kind": "Status", "status": "Failure", "code": code}))).into_response()
            }
        }
    }

    fn asked(&self) -> (usize, usize) {
        (self.tokens.load(Ordering::Relaxed), self.rights.load(Ordering::Relaxed))
    }
}

pub(in super::super) fn played() -> (Arc<Played>, Access) {
    let played = Arc::new(Played::default());
    let app = axum::Router::new()
        .route("/apis/authentication.k8s.io/v1/tokenreviews", post(tokens))
        .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", post(rights))
        .with_state(Arc::clone(&played));
    let metrics = RequestMetrics::new(&metrics::registry().unwrap()).unwrap();
    let access = Access::new();
    access.connect(Client::new(app, "default"), &Caller::new(Duration::from_secs(5), metrics));
    (played, access)
}

/// The verdict in a word.
async fn says(access: &Access, token: &str, path: &'static str) -> String {
    match access.verdict(token, path).await {
        Ok(Verdict::Allowed) => "allowed".to_owned(),
        Ok(Verdict::Unknown) => "unknown".to_owned(),
        Ok(Verdict::Forbidden(user)) => user,
        Err(Unanswered::Away) => "away".to_owned(),
        Err(Unanswered::TooMany) => "too many".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn each_is_asked_about_once_for_each_path_and_again_when_it_is_old() {
    let (played, access) = played();
    for _ in 0..50 {
        assert_eq!(says(&access, "good", "/metrics").await, "allowed");
        assert_eq!(says(&access, "poor", "/metrics").await, "eve");
        assert_eq!(says(&access, "bad", "/metrics").await, "unknown");
        assert_eq!(says(&access, "odd", "/metrics").await, "unknown");
    }
    assert_eq!(played.asked(), (4, 2));
    assert_eq!(says(&access, "good", "/debug/ledger").await, "prometheus");
    assert_eq!(played.asked(), (5, 3));
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(says(&access, "poor", "/metrics").await, "eve");
    assert_eq!(says(&access, "good", "/metrics").await, "allowed");
    assert_eq!(played.asked(), (6, 4));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(says(&access, "good", "/metrics").await, "allowed");
    assert_eq!(played.asked(), (7, 5));
}

#[tokio::test(start_paused = true)]
async fn who_is_denied_is_not_let_in_whatever_else_is_said() {
    let (_played, access) = played();
    assert_eq!(says(&access, "both", "/metrics").await, "both");
}

#[tokio::test(start_paused = true)]
async fn who_comes_many_times_at_once_is_asked_about_once() {
    let (played, access) = played();
    let mut crowd = JoinSet::new();
    for _ in 0..30 {
        let access = access.clone();
        crowd.spawn(async move { says(&access, "good", "/metrics").await });
    }
    assert!(crowd.join_all().await.iter().all(|word| word == "allowed"));
    assert_eq!(played.asked(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_bad_tokens_is_not_passed_on_and_keeps_no_good_one_out() {
    let (played, access) = played();
    assert_eq!(says(&access, "good", "/metrics").await, "allowed");
    let mut too_many = 0;
    for number in 0..500 {
        too_many += usize::from(says(&access, &format!("bad-{number}"), "/metrics").await == "too many");
    }
    // The good one has taken its part of the first twenty.
    assert_eq!((too_many, played.asked()), (481, (20, 1)));
    assert_eq!(says(&access, "good", "/metrics").await, "allowed");
    // What is known of the good one is old, and the flood goes on.
    tokio::time::advance(Duration::from_secs(61)).await;
    for number in 0..500 {
        says(&access, &format!("worse-{number}"), "/metrics").await;
    }
    assert_eq!(says(&access, "good", "/metrics").await, "allowed");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_nobody_is_let_in_but_who_just_was() {
    let (played, access) = played();
    for code in [500, 503, 403, 401, 429, 404] {
        played.answers_with.store(code, Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(says(&access, "good", "/metrics").await, "away", "{code}");
        let before = played.asked();
        assert_eq!(says(&access, "poor", "/metrics").await, "away", "{code}");
        assert_eq!(played.asked(), before, "a moment after no answer nothing is asked");
        played.answers_with.store(0, Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(says(&access, "good", "/metrics").await, "allowed", "{code}");
        played.answers_with.store(code, Ordering::Relaxed);
        assert_eq!(says(&access, "good", "/metrics").await, "allowed", "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_says_nothing_and_one_that_is_not_known_yet_open_nothing() {
    let silent = axum::Router::new().fallback(|| async { std::future::pending::<()>().await });
    let metrics = RequestMetrics::new(&metrics::registry().unwrap()).unwrap();
    let access = Access::new();
    assert_eq!(says(&access, "good", "/metrics").await, "away");
    access.connect(Client::new(silent, "default"), &Caller::new(Duration::from_secs(300), metrics));
    let began = clock::monotonic();
    assert_eq!(says(&access, "good", "/metrics").await, "away");
    assert_eq!(clock::monotonic() - began, REVIEW);
}

#[test]
fn a_token_is_read_from_its_header_and_from_nothing_else() {
    for (value, token) in [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        ("BEARER  abc ", Some("abc")),
        ("Bearer ", None),
        ("Bearer", None),
        ("Basic YTpi", None),
        ("abc", None),
        ("", None),
    ] {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(bearer(&headers), token, "{value}");
    }
    assert_eq!(bearer(&HeaderMap::new()), None);
    assert_ne!(key("a", "/metrics"), key("b", "/metrics"));
    assert_ne!(key("a", "/metrics").0, [0; 32]);
}
