//! Bindings without an answer, and the other bindings meanwhile, against a scripted API server.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kube::Client;
use serde_json::json;
use tokio::time::Instant;

use super::super::super::command::Command;
use super::super::super::event::{Subject, WriteOutcome};
use super::super::{Dispatcher, bind_queue};
use super::*;
use crate::api::Uid;
use crate::runtime::call::Caller;
use crate::runtime::leader::{LeaderConfig, Leadership, elect};
use crate::runtime::metrics::{self, RequestMetrics};

/// The answer to a request, by namespace, pod name and number of the request.
type Script = dyn Fn(&str, &str, usize) -> Answer + Send + Sync;

#[derive(Clone, Copy)]
enum Answer {
    Yes,
    /// The error of the API server when a webhook does not answer.
    Webhook,
    /// An error with an unknown outcome.
    Unavailable,
    /// A refusal for ever.
    Forbidden,
    /// No request is answered, reads included.
    Down,
    Panic,
}

/// The requests, with their times.
type Log = Arc<Mutex<Vec<(String, Instant)>>>;

fn failure(code: u16, message: &str) -> Response {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code });
    (StatusCode::from_u16(code).unwrap(), body.to_string()).into_response()
}

fn serve(request: &Request, script: &Script, log: &Log) -> Response {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').collect();
    let count = |line: &str| {
        let mut log = log.lock().unwrap();
        log.push((line.to_owned(), clock::monotonic()));
        log.len() - 1
    };
    let (namespace, name, answer) = match (request.method(), parts.as_slice()) {
        (&Method::POST, [.., namespace, "pods", name, "binding"]) => {
            (*namespace, *name, script(namespace, name, count(&format!("bind {namespace}/{name}"))))
        }
        (&Method::GET, [.., namespace, "pods", name]) => {
            let down = matches!(script(namespace, name, count(&format!("get {namespace}/{name}"))), Answer::Down);
            (*namespace, *name, if down { Answer::Down } else { Answer::Yes })
        }
        (&Method::POST, [.., namespace, "events"]) => (*namespace, "", script(namespace, "", count(&format!("event {namespace}")))),
        other => panic!("{other:?}"),
    };
    match answer {
        Answer::Yes => {
            (StatusCode::OK, json!({ "metadata": { "name": name, "uid": format!("{namespace}/{name}") }, "spec": {} }).to_string())
                .into_response()
        }
        Answer::Webhook => failure(500, "Internal error occurred: failed calling webhook \"x.example.com\": connection refused"),
        Answer::Unavailable | Answer::Down => failure(503, "no"),
        Answer::Forbidden => failure(403, "no"),
        Answer::Panic => panic!("a bug"),
    }
}

fn dispatcher(concurrency: u16, script: impl Fn(&str, &str, usize) -> Answer + Send + Sync + 'static) -> (Dispatcher, Log) {
    let (log, script): (Log, Arc<Script>) = (Log::default(), Arc::new(script));
    let seen = Arc::clone(&log);
    let app = Router::new().fallback(move |request: Request| {
        let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
        async move { serve(&request, &*script, &seen) }
    });
    let registry = metrics::registry().unwrap();
    let caller = Caller::new(Duration::from_secs(10), RequestMetrics::new(&registry).unwrap());
    (Dispatcher::new(Client::new(app, "ns"), caller, Leadership::always(), concurrency), log)
}

fn bind(namespace: &str, name: &str) -> Command {
    Command::Bind(bind_queue::tests::bind(namespace, name))
}

/// Returns the pod and the outcome of the next report. Every decision holds.
async fn next(dispatcher: &mut Dispatcher) -> (Uid, &'static str) {
    next_while(dispatcher, |_| true).await
}

/// Returns the pod and the outcome of the next report. A decision holds as `holds` says.
async fn next_while(dispatcher: &mut Dispatcher, holds: impl Fn(&Bind) -> bool) -> (Uid, &'static str) {
    let report = loop {
        let report = tokio::time::timeout(Duration::from_secs(3600), dispatcher.next()).await.expect("it is stuck");
        let Report::SendAgain(bind, reply) = report else { break report };
        reply.send(holds(&bind)).unwrap();
    };
    bind_queue::tests::outcome(report)
}

fn since(began: Instant) -> u64 {
    clock::monotonic().saturating_duration_since(began).as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_down_delays_no_other_namespace_and_is_a_refusal_after_a_while() {
    let (mut to, log) = dispatcher(4, |namespace, _, _| if namespace == "blocked" { Answer::Webhook } else { Answer::Yes });
    let began = clock::monotonic();
    to.send((0..40).map(|name| bind("blocked", &name.to_string())).collect());
    to.send((0..10).map(|name| bind("fine", &name.to_string())).collect());
    for _ in 0..10 {
        let (uid, what) = next(&mut to).await;
        assert_eq!((uid.starts_with("fine/"), what), (true, "bound"), "{uid}");
    }
    assert_eq!(since(began), 0, "they waited");
    for _ in 0..40 {
        let (uid, what) = next(&mut to).await;
        assert_eq!((uid.starts_with("blocked/"), what), (true, "webhook_unavailable"), "{uid}");
        assert!((15..60).contains(&since(began)), "{}", since(began));
    }
    let last = |name: usize| {
        let log = log.lock().unwrap();
        log.iter().rev().find(|(line, _)| line.ends_with(&format!(" blocked/{name}"))).unwrap().0.clone()
    };
    assert!((0..40).all(|name| last(name).starts_with("get")), "each was looked at first");
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_has_an_event_only_where_that_is_asked_for() {
    for (asked, wanted) in [(false, vec!["bind fine/p", "bind refused/p"]), (true, vec!["bind fine/p", "event fine", "bind refused/p"])] {
        let (to, log) = dispatcher(1, |namespace, _, _| if namespace == "refused" { Answer::Forbidden } else { Answer::Yes });
        let mut to = to.with_scheduled_events(asked);
        to.send(vec![bind("fine", "p"), bind("refused", "p")]);
        let outcomes = [next(&mut to).await.1, next(&mut to).await.1];
        assert_eq!(outcomes, ["bound", "forbidden"]);
        let lines: Vec<String> = log.lock().unwrap().iter().map(|(line, _)| line.clone()).collect();
        assert_eq!(lines, wanted, "asked for: {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_reported_and_the_binding_is_abandoned_only_when_it_cannot_take_effect() {
    let (mut to, log) = dispatcher(1, |_, _, _| Answer::Unavailable);
    let began = clock::monotonic();
    to.send(vec![bind("ns", "p")]);
    assert_eq!(next(&mut to).await, ("ns/p".into(), "unanswered"));
    assert!((15..25).contains(&since(began)), "{}", since(began));
    assert_eq!(next(&mut to).await, ("ns/p".into(), "unavailable"));
    let log = log.lock().unwrap();
    let sent = log.iter().filter(|(line, _)| line == "bind ns/p").map(|(_, at)| *at).next_back().unwrap();
    assert!(clock::monotonic().saturating_duration_since(sent) >= LATEST);
    assert_eq!(log.last().unwrap().0, "get ns/p");
    assert!(since(began) < 180, "{}", since(began));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_no_binding_that_an_earlier_request_can_still_do() {
    let (mut to, log) = dispatcher(1, |_, _, count| if count == 0 { Answer::Unavailable } else { Answer::Forbidden });
    let began = clock::monotonic();
    to.send(vec![bind("ns", "p")]);
    assert_eq!(next(&mut to).await, ("ns/p".into(), "unanswered"));
    assert_eq!(next(&mut to).await, ("ns/p".into(), "forbidden"));
    assert!((LATEST.as_secs()..120).contains(&since(began)), "{}", since(began));
    assert_eq!(log.lock().unwrap().last().unwrap().0, "get ns/p");
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_answers_nothing_no_binding_is_abandoned() {
    let up = clock::monotonic() + Duration::from_secs(600);
    let (mut to, _log) = dispatcher(2, move |_, _, _| if clock::monotonic() < up { Answer::Down } else { Answer::Yes });
    let names: Vec<String> = (0..5).map(|name| name.to_string()).collect();
    to.send(names.iter().map(|name| bind("ns", name)).collect());
    let mut reports = Vec::new();
    while reports.iter().filter(|(_, what)| *what == "bound").count() < 5 {
        reports.push(next(&mut to).await);
    }
    assert!(reports.iter().all(|(_, what)| ["bound", "unanswered"].contains(what)), "{reports:?}");
    assert_eq!(reports.iter().filter(|(_, what)| *what == "unanswered").count(), 5, "each is told once: {reports:?}");
    assert!(clock::monotonic().saturating_duration_since(up) < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_panic_loses_no_slot_and_no_decision() {
    let (mut to, _log) = dispatcher(1, |_, name, count| if name == "p" && count == 0 { Answer::Panic } else { Answer::Yes });
    to.send(vec![bind("ns", "p"), bind("other", "q")]);
    assert_eq!(next(&mut to).await, ("other/q".into(), "bound"));
    assert_eq!(next(&mut to).await, ("ns/p".into(), "bound"));
    // A request that the mock does not know makes the write panic.
    to.send(vec![Command::MakeQueue { name: "root".into() }]);
    let Report::Written(subject, told) = to.next().await else { panic!("another report") };
    assert_eq!((subject, told), (Subject::Queue("root".into()), WriteOutcome::Failed("panicked")));
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_a_binding_whose_request_may_take_effect_keeps_its_room() {
    let (to, log) = dispatcher(1, |_, _, _| Answer::Yes);
    let config = LeaderConfig {
        namespace: "ns".to_owned(),
        name: "p".to_owned(),
        identity: "me".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    // No task runs the elector, so this process does not lead.
    let (waits, _elector) = elect(Api::namespaced(to.to.client.clone(), "ns"), to.to.caller.clone(), config);
    let to = Destination { leadership: waits, ..to.to };
    let mut queue = bind_queue::BindQueue::new(1);
    queue.push(bind_queue::tests::bind("ns", "a"), clock::monotonic());
    let mut attempt = queue.take(clock::monotonic()).unwrap();
    assert!(matches!(to.bind(attempt.clone()).await, Done::Known(Report::NotBound(_, "not_leading"))), "nothing was sent");
    attempt.fail("unavailable", true);
    assert!(matches!(to.bind(attempt.clone()).await, Done::Open(..)));
    tokio::time::advance(RETRY_ONLY).await;
    assert!(matches!(to.bind(attempt).await, Done::Open(..)));
    assert_eq!(log.lock().unwrap().len(), 0, "it sends nothing");
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_not_sent_again_when_its_decision_does_not_hold_any_more() {
    let (mut to, log) = dispatcher(1, |_, _, count| if count == 0 { Answer::Unavailable } else { Answer::Yes });
    let began = clock::monotonic();
    to.send(vec![bind("ns", "p")]);
    let mut reports = Vec::new();
    while reports.last().is_none_or(|(_, what)| *what == "unanswered") {
        reports.push(next_while(&mut to, |_| false).await);
    }
    assert_eq!(reports, [("ns/p".into(), "unanswered"), ("ns/p".into(), NO_LONGER_FITS)]);
    // The request may take effect until then.
    assert!((LATEST.as_secs()..LATEST.as_secs() + 10).contains(&since(began)), "{}", since(began));
    let log = log.lock().unwrap();
    assert_eq!(log.iter().filter(|(line, _)| line == "bind ns/p").count(), 1, "{log:?}");
    assert_eq!(log.last().unwrap().0, "get ns/p");
}

#[tokio::test(start_paused = true)]
async fn a_binding_whose_decision_holds_again_is_sent() {
    let (mut to, log) = dispatcher(1, |_, _, count| if count == 0 { Answer::Unavailable } else { Answer::Yes });
    let began = clock::monotonic();
    to.send(vec![bind("ns", "p")]);
    let holds = |_: &Bind| since(began) >= 10;
    assert_eq!(next_while(&mut to, holds).await, ("ns/p".into(), "bound"));
    assert_eq!(log.lock().unwrap().iter().filter(|(line, _)| line == "bind ns/p").count(), 2);
    assert!((10..16).contains(&since(began)), "{}", since(began));
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_was_refused_for_the_moment_or_waited_in_a_lane_ends_at_once_when_its_decision_does_not_hold() {
    let (mut to, log) = dispatcher(1, |_, _, _| Answer::Webhook);
    let began = clock::monotonic();
    to.send((0..3).map(|name| bind("ns", &name.to_string())).collect());
    for _ in 0..3 {
        assert_eq!(next_while(&mut to, |_| false).await.1, NO_LONGER_FITS);
    }
    assert!(since(began) < 2, "{}", since(began));
    assert_eq!(log.lock().unwrap().iter().filter(|(line, _)| line.starts_with("bind")).count(), 1, "two were never sent");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_does_not_hold_gives_no_slot_to_others_for_longer_than_a_read() {
    let (mut to, _log) = dispatcher(1, |namespace, _, _| if namespace == "old" { Answer::Unavailable } else { Answer::Yes });
    let began = clock::monotonic();
    to.send(vec![bind("old", "p"), bind("new", "p")]);
    assert_eq!(next_while(&mut to, |_| false).await, ("new/p".into(), "bound"));
    assert_eq!(since(began), 0);
}
