//! How each answer of the API server is classified, how long a request waits, and which requests are repeated.

use super::super::metrics;
use super::*;
use kube::core::response::{StatusCause, StatusDetails};

fn api(code: u16, reason: &str) -> kube::Error {
    kube::Error::Api(Status::failure("why", reason).with_code(code).boxed())
}

fn details(seconds: u32, cause: &str) -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: vec![StatusCause { reason: cause.to_owned(), message: String::new(), field: String::new() }],
        retry_after_seconds: seconds,
    }
}

fn caller(limit: Duration) -> (prometheus::Registry, Caller) {
    let registry = metrics::registry().unwrap();
    let metrics = RequestMetrics::new(&registry).unwrap();
    (registry, Caller::new(limit, metrics))
}

#[test]
fn every_status_code_is_classified() {
    for (code, reason, kind) in [
        (400, "BadRequest", "invalid"),
        (401, "Unauthorized", "unauthorized"),
        (403, "Forbidden", "forbidden"),
        (404, "NotFound", "not_found"),
        (409, "Conflict", "conflict"),
        (409, "AlreadyExists", "already_exists"),
        (410, "Expired", "expired"),
        (422, "Invalid", "invalid"),
        (429, "TooManyRequests", "too_many_requests"),
        (500, "InternalError", "unavailable"),
        (502, "", "unavailable"),
        (503, "ServiceUnavailable", "unavailable"),
        (504, "Timeout", "timeout"),
        (418, "", "other"),
    ] {
        assert_eq!(CallError::from(api(code, reason)).kind(), kind, "{code}");
    }
}

#[test]
fn only_an_error_that_leaves_the_server_undecided_has_an_unknown_outcome() {
    for (code, unknown) in [(404, false), (409, false), (422, false), (429, false), (500, true), (504, true)] {
        assert_eq!(CallError::from(api(code, "")).outcome_unknown(), unknown, "{code}");
    }
}

#[test]
fn a_terminating_namespace_differs_from_a_missing_permission() {
    let status = Status::failure("ns is being terminated", "Forbidden").with_code(403).with_details(details(0, "NamespaceTerminating"));
    assert_eq!(CallError::from_status(&status).kind(), NAMESPACE_TERMINATING);
}

#[test]
fn a_disruption_budget_differs_from_flow_control_and_two_of_them_from_a_server_error() {
    let kind = |status: &Status| CallError::from_status(status).kind();
    let of_budget = Status::failure("no", "TooManyRequests").with_code(429).with_details(details(10, "DisruptionBudget"));
    assert_eq!(kind(&of_budget), "disruption_budget");
    assert!(!CallError::from_status(&of_budget).is_transient());
    let of_flow = Status::failure("later", "TooManyRequests").with_code(429).with_details(details(1, ""));
    assert_eq!(kind(&of_flow), "too_many_requests");
    let two = Status::failure("This pod has more than one PodDisruptionBudget, which …", "").with_code(500);
    assert_eq!(kind(&two), "disruption_budget");
    let body = serde_json::json!({ "status": "Failure", "message": two.message, "code": 500 });
    assert_eq!(CallError::inside(&body).map(|error| error.kind()), Some("disruption_budget"));
    assert_eq!(CallError::inside(&serde_json::json!({ "status": "Failure", "code": "?" })).map(|error| error.kind()), Some("other"));
    for fine in
        [serde_json::json!({ "status": "Success" }), serde_json::json!({ "status": { "phase": "Running" } }), serde_json::json!(null)]
    {
        assert_eq!(CallError::inside(&fine), None);
    }
}

#[test]
fn an_unavailable_webhook_differs_from_a_server_error_because_nothing_was_written() {
    let of = |message: &str| CallError::from_status(&Status::failure(message, "InternalError").with_code(500));
    let webhook = of("Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post: connection refused");
    assert_eq!((webhook.kind(), webhook.outcome_unknown(), webhook.is_transient()), ("webhook_unavailable", false, true));
    let own = of("Internal error occurred: etcdserver: request timed out");
    assert_eq!((own.kind(), own.outcome_unknown()), ("unavailable", true));
}

#[test]
fn the_wait_that_a_server_asks_for_is_kept_and_capped() {
    for (asked, wait_seconds) in [(0, None), (3, Some(3)), (3600, Some(30))] {
        let status = Status::failure("later", "TooManyRequests").with_code(429).with_details(details(asked, ""));
        let wait = CallError::from_status(&status).retry_after();
        assert_eq!(wait, wait_seconds.map(Duration::from_secs), "{asked}");
    }
}

#[test]
fn a_message_is_one_line_of_bounded_length() {
    let status = Status::failure(&"ä\n".repeat(4000), "Invalid").with_code(422);
    let text = CallError::from_status(&status).to_string();
    assert!(text.chars().count() < 700 && !text.contains('\n'));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_answers_ends_at_the_limit_with_unknown_outcome() {
    let began = clock::monotonic();
    let (registry, caller) = caller(Duration::from_secs(10));
    let never = std::future::pending::<Result<(), kube::Error>>();
    let error = caller.once("patch", "podgroups", never).await.unwrap_err();
    assert_eq!(error.kind(), "timeout");
    assert!(error.outcome_unknown());
    assert_eq!(clock::monotonic() - began, Duration::from_secs(10));
    let text = metrics::text(&registry).unwrap();
    assert!(text.contains("outcome=\"timeout\",resource=\"podgroups\",verb=\"patch\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_read_is_repeated_while_the_error_is_transient() {
    let (_registry, caller) = caller(Duration::from_secs(10));
    let mut sent = 0;
    let answer = caller
        .read("get", "pods", || {
            sent += 1;
            let failed = sent < 3;
            async move { if failed { Err(api(503, "")) } else { Ok(7) } }
        })
        .await;
    assert_eq!((answer, sent), (Ok(7), 3));
}

#[tokio::test(start_paused = true)]
async fn a_read_gives_up_after_four_attempts_and_at_once_on_a_clear_no() {
    for (code, attempts) in [(503, 4), (403, 1), (404, 1)] {
        let (_registry, caller) = caller(Duration::from_secs(10));
        let mut sent = 0;
        let answer: Result<(), CallError> = caller
            .read("get", "pods", || {
                sent += 1;
                async move { Err(api(code, "")) }
            })
            .await;
        assert!(answer.is_err());
        assert_eq!(sent, attempts, "{code}");
    }
}
