//! Which reviews are sent for a token, how often, and what follows from each answer. The API server is simulated; the case `M3` asks a real one.

use super::*;
use crate::runtime::metrics::{self, RequestMetrics};
use axum::Json;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// The simulated API server. Its tokens: `good` (may get /metrics), `poor` (may get nothing), `both` (one authorizer allows, another
/// denies). The tests of the HTTP server use it too.
#[derive(Default)]
pub(in crate::runtime::http) struct FakeServer {
    tokens: AtomicUsize,
    access_reviews: AtomicUsize,
    /// The status code of every answer; 0 answers properly.
    answers_with: AtomicU16,
}

async fn tokens(State(fake_server): State<Arc<FakeServer>>, Json(review): Json<Value>) -> Response {
    fake_server.tokens.fetch_add(1, Ordering::Relaxed);
    let user = match review["spec"]["token"].as_str() {
        Some("good") => {
            json!({"authenticated": true, "user": {"username": "prometheus", "uid": "7", "groups": ["scrapers"], "extra": {"k": ["v"]}}})
        }
        Some("poor") => json!({"authenticated": true, "user": {"username": "eve"}}),
        Some("both") => {
            json!({"authenticated": true, "user": {"username": "both", "uid": "7", "groups": ["scrapers"], "extra": {"k": ["v"]}}})
        }
        // A user without the word "authenticated" is not authenticated.
        Some("odd") => json!({"user": {"username": "prometheus", "groups": ["scrapers"]}}),
        _ => json!({"authenticated": false, "error": "invalid bearer token"}),
    };
    fake_server.answer(json!({"metadata": {}, "spec": {"token": ""}, "status": user}))
}

async fn access_reviews(State(fake_server): State<Arc<FakeServer>>, Json(review): Json<Value>) -> Response {
    fake_server.access_reviews.fetch_add(1, Ordering::Relaxed);
    let spec = &review["spec"];
    let whole = spec["uid"] == "7" && spec["extra"] == json!({"k": ["v"]}) && spec["groups"] == json!(["scrapers"]);
    let wanted = spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
    let denied = spec["user"] == "both";
    let status = json!({"allowed": whole && wanted && (denied || spec["user"] == "prometheus"), "denied": denied});
    fake_server.answer(json!({"metadata": {}, "spec": {}, "status": status}))
}

impl FakeServer {
    fn answer(&self, right: Value) -> Response {
        match self.answers_with.load(Ordering::Relaxed) {
            0 => Json(right).into_response(),
            code => {
                (StatusCode::from_u16(code).unwrap(), Json(json!({"kind": "Status", "status": "Failure", "code": code}))).into_response()
            }
        }
    }

    fn asked(&self) -> (usize, usize) {
        (self.tokens.load(Ordering::Relaxed), self.access_reviews.load(Ordering::Relaxed))
    }
}

pub(in crate::runtime::http) fn fake_server() -> (Arc<FakeServer>, Access) {
    let fake_server = Arc::new(FakeServer::default());
    let app = axum::Router::new()
        .route("/apis/authentication.k8s.io/v1/tokenreviews", post(tokens))
        .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", post(access_reviews))
        .with_state(Arc::clone(&fake_server));
    let metrics = RequestMetrics::new(&metrics::registry().unwrap()).unwrap();
    let access = Access::new();
    access.connect(Client::new(app, "default"), &Caller::new(Duration::from_secs(5), metrics));
    (fake_server, access)
}

/// Returns the verdict as one word.
async fn verdict_of(access: &Access, token: &str, path: &'static str) -> String {
    match access.verdict(token, path).await {
        Ok(Verdict::Allowed) => "allowed".to_owned(),
        Ok(Verdict::Unknown) => "unknown".to_owned(),
        Ok(Verdict::Forbidden(user)) => user,
        Err(Unanswered::Unavailable) => "away".to_owned(),
        Err(Unanswered::TooMany) => "too many".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_reviewed_once_for_each_path_and_again_when_the_verdict_expires() {
    let (fake_server, access) = fake_server();
    for _ in 0..50 {
        assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed");
        assert_eq!(verdict_of(&access, "poor", "/metrics").await, "eve");
        assert_eq!(verdict_of(&access, "bad", "/metrics").await, "unknown");
        assert_eq!(verdict_of(&access, "odd", "/metrics").await, "unknown");
    }
    assert_eq!(fake_server.asked(), (4, 2));
    assert_eq!(verdict_of(&access, "good", "/debug/ledger").await, "prometheus");
    assert_eq!(fake_server.asked(), (5, 3));
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(verdict_of(&access, "poor", "/metrics").await, "eve");
    assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed");
    assert_eq!(fake_server.asked(), (6, 4));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed");
    assert_eq!(fake_server.asked(), (7, 5));
}

#[tokio::test(start_paused = true)]
async fn a_denied_user_is_refused_even_where_another_authorizer_allows() {
    let (_played, access) = fake_server();
    assert_eq!(verdict_of(&access, "both", "/metrics").await, "both");
}

#[tokio::test(start_paused = true)]
async fn many_requests_with_one_token_cause_one_review() {
    let (fake_server, access) = fake_server();
    let mut crowd = JoinSet::new();
    for _ in 0..30 {
        let access = access.clone();
        crowd.spawn(async move { verdict_of(&access, "good", "/metrics").await });
    }
    assert!(crowd.join_all().await.iter().all(|word| word == "allowed"));
    assert_eq!(fake_server.asked(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_bad_tokens_is_not_passed_on_and_good_tokens_still_work() {
    let (fake_server, access) = fake_server();
    assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed");
    let mut too_many = 0;
    for number in 0..500 {
        too_many += usize::from(verdict_of(&access, &format!("bad-{number}"), "/metrics").await == "too many");
    }
    // The good token has used its part of the first twenty.
    assert_eq!((too_many, fake_server.asked()), (481, (20, 1)));
    assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed");
    // The verdict about the good token has expired, and the flood goes on.
    tokio::time::advance(Duration::from_secs(61)).await;
    for number in 0..500 {
        verdict_of(&access, &format!("worse-{number}"), "/metrics").await;
    }
    assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_only_a_freshly_allowed_token_is_let_in() {
    let (fake_server, access) = fake_server();
    for code in [500, 503, 403, 401, 429, 404] {
        fake_server.answers_with.store(code, Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(verdict_of(&access, "good", "/metrics").await, "away", "{code}");
        let before = fake_server.asked();
        assert_eq!(verdict_of(&access, "poor", "/metrics").await, "away", "{code}");
        assert_eq!(fake_server.asked(), before, "no review is sent right after one without an answer");
        fake_server.answers_with.store(0, Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed", "{code}");
        fake_server.answers_with.store(code, Ordering::Relaxed);
        assert_eq!(verdict_of(&access, "good", "/metrics").await, "allowed", "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_and_one_that_is_not_connected_yet_open_nothing() {
    let silent = axum::Router::new().fallback(|| async { std::future::pending::<()>().await });
    let metrics = RequestMetrics::new(&metrics::registry().unwrap()).unwrap();
    let access = Access::new();
    assert_eq!(verdict_of(&access, "good", "/metrics").await, "away");
    access.connect(Client::new(silent, "default"), &Caller::new(Duration::from_secs(300), metrics));
    let began = clock::monotonic();
    assert_eq!(verdict_of(&access, "good", "/metrics").await, "away");
    assert_eq!(clock::monotonic() - began, REVIEW);
}

#[test]
fn a_token_is_read_from_the_authorization_header_only() {
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
