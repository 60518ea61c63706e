//! The requests of one eviction, their order and the meaning of the answers, against a scripted API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kube::Client;
use serde_json::json;

use super::super::super::command::Command;
use super::super::Dispatcher;
use super::*;
use crate::api::GroupKey;
use crate::cycle::plan::EvictionCause;
use crate::runtime::call::Caller;
use crate::runtime::leader::Leadership;
use crate::runtime::metrics::{self, RequestMetrics};

type Answer = (u16, Value);

/// The answer to an eviction, by pod name, dry run and number of the request.
type Script = dyn Fn(&str, bool, u32) -> Answer + Send + Sync;

/// The requests in order, with their bodies.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, Value)>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(line, _)| line.clone()).collect()
    }

    fn body(&self, line: &str) -> Value {
        self.0.lock().unwrap().iter().find(|(said, _)| said == line).unwrap().1.clone()
    }

    fn took(&self, line: &str) -> usize {
        self.lines().iter().filter(|said| *said == line).count()
    }
}

fn ok() -> Answer {
    (201, json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }))
}

fn failure(code: u16, reason: &str, message: &str, cause: Option<&str>) -> Answer {
    let causes: Vec<Value> = cause.into_iter().map(|cause| json!({ "reason": cause, "message": "why" })).collect();
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": message,
        "code": code, "details": { "causes": causes } });
    (code, status)
}

fn budget() -> Answer {
    failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", Some("DisruptionBudget"))
}

fn two_budgets() -> Value {
    failure(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", None).1
}

async fn serve(request: Request, script: Arc<Script>, pod: Value, log: Log) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let dry_run = request.uri().query().is_some_and(|query| query.contains("dryRun=All"));
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let (line, answer) = match (&method, parts.as_slice()) {
        (&Method::POST, [.., "pods", name, "eviction"]) => {
            let line = format!("{} {name}", if dry_run { "dry" } else { "evict" });
            let answer = script(name, dry_run, u32::try_from(log.took(&line)).unwrap());
            (line, answer)
        }
        (&Method::PATCH, [.., "pods", name, "status"]) => (format!("status {name}"), (200, json!({ "metadata": { "name": name } }))),
        (&Method::GET, [.., "pods", name]) => {
            let missing = failure(404, "NotFound", "not found", None);
            (format!("get {name}"), if pod.is_null() { missing } else { (200, pod) })
        }
        (&Method::POST, [.., "events"]) => (format!("event {}", body["involvedObject"]["name"].as_str().unwrap()), (201, body.clone())),
        other => panic!("{other:?}"),
    };
    log.0.lock().unwrap().push((line, body));
    (StatusCode::from_u16(answer.0).unwrap(), answer.1.to_string()).into_response()
}

fn dispatcher(pod: Value, script: impl Fn(&str, bool, u32) -> Answer + Send + Sync + 'static) -> (Dispatcher, Log) {
    let (log, script): (Log, Arc<Script>) = (Log::default(), Arc::new(script));
    let seen = log.clone();
    let app = Router::new().fallback(move |request: Request| serve(request, Arc::clone(&script), pod.clone(), seen.clone()));
    let registry = metrics::registry().unwrap();
    let caller = Caller::new(Duration::from_secs(10), RequestMetrics::new(&registry).unwrap());
    (Dispatcher::new(Client::new(app, "ns"), caller, Leadership::always(), 1), log)
}

fn command(names: &[&str]) -> Command {
    let victim = |name: &&str| Victim {
        uid: format!("uid-{name}").as_str().into(),
        namespace: "ns".into(),
        name: (*name).into(),
        queue: "theirs".into(),
        group: GroupKey::new("ns", "v"),
    };
    let eviction = Eviction {
        nomination: 7,
        group: GroupKey::new("ns", "g"),
        group_uid: "g".into(),
        queue: "mine".into(),
        cause: EvictionCause::Reclaim,
        victims: names.iter().map(victim).collect(),
    };
    Command::Evict { eviction, now: Timestamp::UNIX_EPOCH }
}

/// Evicts the pods and returns the reason of a refusal, the number of evicted pods and the number of pods that had left before.
async fn take(dispatcher: &mut Dispatcher, names: &[&str]) -> (Option<&'static str>, u32, u32) {
    dispatcher.send(vec![command(names)]);
    let report = dispatcher.next().await;
    if let Report::Evicted(progress) = report {
        return (None, progress.evicted, progress.gone);
    }
    let Report::NotEvicted(progress, reason) = &report else { panic!("{report:?}") };
    assert_eq!((&progress.group, progress.nomination), (&GroupKey::new("ns", "g"), 7));
    (Some(reason), progress.evicted, progress.gone)
}

#[tokio::test(start_paused = true)]
async fn all_evictions_are_tried_as_a_dry_run_first_and_each_evicted_pod_gets_the_condition() {
    let (mut to, log) = dispatcher(Value::Null, |_, _, _| ok());
    assert_eq!(take(&mut to, &["a", "b"]).await, (None, 2, 0));
    assert_eq!(log.lines(), ["dry a", "dry b", "evict a", "evict b", "status a", "event a", "status b", "event b"]);
    for line in ["dry a", "evict a"] {
        assert_eq!(log.body(line)["deleteOptions"]["preconditions"]["uid"], "uid-a");
        assert_eq!((&log.body(line)["apiVersion"], &log.body(line)["metadata"]["name"]), (&json!("policy/v1"), &json!("a")));
    }
    let condition = &log.body("status b")["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("DisruptionTarget"), &json!("True")));
    assert_eq!(condition["reason"], "PreemptionByScheduler");
    let message = "podgroup-scheduler: reclaimed for PodGroup ns/g: queue mine is below its share";
    assert_eq!((&condition["message"], &log.body("event b")["message"]), (&json!(message), &json!(message)));
    assert_eq!((&log.body("event b")["reason"], &log.body("status b")["metadata"]["uid"]), (&json!("Reclaimed"), &json!("uid-b")));
}

#[tokio::test(start_paused = true)]
async fn r6_if_one_eviction_would_be_refused_no_pod_is_evicted() {
    let refusals: [(Answer, &str); 5] = [
        (budget(), "disruption_budget"),
        ((201, two_budgets()), "disruption_budget"),
        ((500, two_budgets()), "disruption_budget"),
        (failure(403, "Forbidden", "no", None), "forbidden"),
        (failure(422, "Invalid", "no", None), "invalid"),
    ];
    for (refusal, reason) in refusals {
        let (mut to, log) = dispatcher(Value::Null, move |name, _, _| if name == "b" { refusal.clone() } else { ok() });
        assert_eq!(take(&mut to, &["a", "b", "c"]).await, (Some(reason), 0, 0));
        assert_eq!(log.lines(), ["dry a", "dry b"], "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn r6_after_a_refused_eviction_the_remaining_pods_are_not_evicted() {
    let (mut to, log) = dispatcher(Value::Null, |name, dry_run, _| if name == "b" && !dry_run { budget() } else { ok() });
    assert_eq!(take(&mut to, &["a", "b", "c"]).await, (Some("disruption_budget"), 1, 0));
    assert_eq!(log.lines(), ["dry a", "dry b", "dry c", "evict a", "evict b", "status a", "event a"]);
}

#[tokio::test(start_paused = true)]
async fn the_report_names_the_pod_whose_eviction_was_refused() {
    for midway in [false, true] {
        let (mut to, _log) =
            dispatcher(Value::Null, move |name, dry_run, _| if name == "b" && dry_run != midway { budget() } else { ok() });
        to.send(vec![command(&["a", "b", "c"])]);
        let Report::NotEvicted(progress, _) = to.next().await else { panic!("b would stay") };
        assert_eq!(progress.refused_pod, Some("uid-b".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_evicted_partial_gang_gets_an_event_and_so_do_its_members() {
    let (mut to, log) = dispatcher(Value::Null, |_, _, _| ok());
    let Command::Evict { eviction, now } = command(&["a"]) else { panic!("no eviction") };
    to.send(vec![Command::Evict { eviction: Eviction { cause: EvictionCause::Release, ..eviction }, now }]);
    assert!(matches!(to.next().await, Report::Evicted(progress) if progress.evicted == 1));
    assert_eq!(log.lines(), ["dry a", "evict a", "event g", "status a", "event a"]);
    for line in ["event g", "event a"] {
        assert_eq!(log.body(line)["reason"], "EvictedPartialGang");
    }
    let message =
        "evicted 1 bound member(s) of the partial gang: the other members could not be placed in time; the whole PodGroup waits again";
    assert_eq!(log.body("event g")["message"], message);
}

#[tokio::test(start_paused = true)]
async fn a5_an_eviction_without_an_answer_is_retried() {
    let troubles: [Answer; 5] = [
        failure(500, "InternalError", "etcd", None),
        failure(504, "Timeout", "late", None),
        failure(429, "TooManyRequests", "later", None),
        (503, Value::Null),
        (418, json!("what nobody understands")),
    ];
    for trouble in troubles {
        let (mut to, log) = dispatcher(Value::Null, move |_, dry_run, nth| if !dry_run && nth < 2 { trouble.clone() } else { ok() });
        assert_eq!(take(&mut to, &["a"]).await, (None, 1, 0));
        assert_eq!(log.lines(), ["dry a", "evict a", "evict a", "evict a", "status a", "event a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_retries_of_an_eviction_end() {
    let began = clock::monotonic();
    let (mut to, log) = dispatcher(Value::Null, |name, _, _| if name == "b" { failure(503, "", "", None) } else { ok() });
    assert_eq!(take(&mut to, &["a", "b"]).await, (Some("unavailable"), 0, 0));
    let took = clock::monotonic() - began;
    assert!(took > LIMIT / 2 && took <= LIMIT, "{took:?}");
    assert!((5..20).contains(&log.took("dry b")));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_victim_is_no_obstacle_and_a_new_pod_of_its_name_is_not_evicted() {
    let pod = |uid: &str, deleted: Option<&str>| json!({ "metadata": { "name": "a", "uid": uid, "deletionTimestamp": deleted } });
    let missing = || failure(404, "NotFound", "no", None);
    let conflict = || failure(409, "Conflict", "the UID in the precondition does not match", None);
    let leaving = Some("2026-01-01T00:00:00Z");
    for (answer, pod, ends) in [
        (missing(), Value::Null, (None, 0, 1)),
        (conflict(), pod("another", None), (None, 0, 1)),
        (conflict(), pod("uid-a", leaving), (None, 1, 0)),
        (conflict(), pod("uid-a", None), (Some("conflict"), 0, 0)),
        (missing(), pod("uid-a", None), (Some("conflict"), 0, 0)),
    ] {
        let (mut to, log) = dispatcher(pod.clone(), move |_, _, _| answer.clone());
        assert_eq!(take(&mut to, &["a"]).await, ends, "{pod}");
        assert_eq!(log.took("evict a") > 0, ends.0.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_evicted_for_a_withdrawn_nomination() {
    let (mut to, log) = dispatcher(Value::Null, |_, _, _| failure(503, "", "", None));
    to.send(vec![command(&["a"])]);
    let cut = tokio::time::timeout(Duration::from_secs(1), to.next()).await;
    assert!(cut.is_err() && log.took("dry a") > 1, "it is under way");
    to.send(vec![Command::StopEvictions { nomination: 8 }]);
    assert!(tokio::time::timeout(Duration::from_secs(1), to.next()).await.is_err(), "that was another one");
    let sent = log.took("dry a");
    to.send(vec![Command::StopEvictions { nomination: 7 }]);
    assert!(
        matches!(to.next().await, Report::NotEvicted(progress, "withdrawn") if progress.evicted == 0 && progress.refused_pod.is_none())
    );
    assert_eq!(log.took("dry a"), sent);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_evictions_under_way_is_bounded() {
    let (mut to, log) = dispatcher(Value::Null, |_, _, _| ok());
    let names = ["a", "b", "c", "d", "e", "f"];
    let numbered = |(at, name): (usize, &&str)| {
        let Command::Evict { eviction, now } = command(&[name]) else { panic!("no eviction") };
        Command::Evict { eviction: Eviction { nomination: u64::try_from(at).unwrap(), ..eviction }, now }
    };
    to.send(names.iter().enumerate().map(numbered).collect());
    to.send(vec![Command::StopEvictions { nomination: 5 }]);
    let mut ended = BTreeMap::new();
    for _ in 0..5 {
        let Report::Evicted(progress) = to.next().await else { panic!("one was refused") };
        ended.insert(progress.nomination, progress.evicted);
    }
    assert_eq!(ended, (0..5).map(|at| (at, 1)).collect());
    assert_eq!(log.took("dry f"), 0, "what had not begun does not begin");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_on_the_evictions_of_one_namespace_delays_no_other_namespace() {
    let (mut to, _) =
        dispatcher(Value::Null, |name, _, _| if name == "hangs" { failure(500, "InternalError", "timeout", None) } else { ok() });
    let began = clock::monotonic();
    let eviction = |nomination: u64, name: &str, namespace: &str| {
        let Command::Evict { mut eviction, now } = command(&[name]) else { panic!("no eviction") };
        eviction.nomination = nomination;
        eviction.victims.iter_mut().for_each(|victim| victim.namespace = namespace.into());
        Command::Evict { eviction, now }
    };
    to.send((0..20).map(|nomination| eviction(nomination, "hangs", "slow")).collect());
    to.send(vec![eviction(20, "goes", "other")]);
    let first = to.next().await;
    assert!(matches!(&first, Report::Evicted(progress) if progress.nomination == 20), "{first:?}");
    assert!(clock::monotonic() - began < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_ends_with_a_request_without_an_answer_has_an_unknown_outcome() {
    for runs in [true, false] {
        let pod = if runs { json!({ "metadata": { "name": "a", "uid": "uid-a" }, "spec": {} }) } else { Value::Null };
        let unavailable = failure(503, "ServiceUnavailable", "no", None);
        let (mut to, log) = dispatcher(pod, move |_, dry_run, _| if dry_run { ok() } else { unavailable.clone() });
        to.send(vec![command(&["a"])]);
        assert!(tokio::time::timeout(Duration::from_secs(1), to.next()).await.is_err());
        assert!(log.took("evict a") > 0);
        to.stop();
        let report = to.next().await;
        let unanswered = matches!(&report, Report::NotEvicted(progress, _) if progress.unanswered);
        assert_eq!((unanswered, to.unknown_outcomes()), (runs, usize::from(runs)), "{report:?}");
        tokio::time::advance(Duration::from_secs(91)).await;
        assert_eq!(to.unknown_outcomes(), 0, "no API server carries it out any more");
    }
}
