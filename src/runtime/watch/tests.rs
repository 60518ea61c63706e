//! A server that follows a script, and the events that the watch produces. The clock is paused.

use super::*;
use crate::runtime::clock;
use crate::runtime::metrics;
use crate::runtime::readiness::Readiness;
use crate::runtime::shutdown::Trigger;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// One answer of the server.
enum Reply {
    /// A page of a list: version, continue token, objects.
    List(&'static str, &'static str, Vec<Value>),
    /// A watch with these events, which then stays open for this long and closes.
    Watch(Vec<Value>, Duration),
    /// A watch with these events, each after this pause, and then nothing for ever.
    Slowly(Vec<Value>, Duration),
    /// A status with this code.
    Status(u16),
    /// No answer, for ever.
    Silence,
}

const FOREVER: Duration = Duration::from_secs(1_000_000);

fn answer(reply: Reply) -> Response {
    match reply {
        Reply::List(version, more, items) => {
            let metadata = json!({"resourceVersion": version, "continue": more});
            axum::Json(json!({"metadata": metadata, "items": items})).into_response()
        }
        Reply::Watch(events, open) => {
            let lines = stream::iter(events).map(|event| Bytes::from(format!("{event}\n")));
            let end = stream::once(tokio::time::sleep(open)).map(|()| Bytes::new());
            let body = lines.chain(end).map(Ok::<_, std::io::Error>);
            Body::from_stream(body).into_response()
        }
        Reply::Slowly(events, pause) => {
            let lines = stream::iter(events).then(move |event| async move {
                tokio::time::sleep(pause).await;
                Ok::<_, std::io::Error>(Bytes::from(format!("{event}\n")))
            });
            Body::from_stream(lines.chain(stream::pending())).into_response()
        }
        Reply::Status(code) => {
            let status = json!({"kind": "Status", "code": code, "message": "scripted", "reason": ""});
            let code = StatusCode::from_u16(code).unwrap();
            (code, axum::Json(status)).into_response()
        }
        Reply::Silence => unreachable!("handled before"),
    }
}

struct Run {
    events: mpsc::Receiver<String>,
    /// The requests, and when they came.
    asked: Arc<Mutex<Vec<(Instant, String)>>>,
    readiness: Readiness,
    registry: prometheus::Registry,
    relist: Relist,
    /// The answers to questions for the version of the kind, which are no part of the script; without one a question has no answer.
    versions: Arc<Mutex<VecDeque<&'static str>>>,
    _trigger: Trigger,
    tasks: JoinSet<()>,
}

/// Starts a watch of pods against a script, with `never_back`; after the script the server is silent.
fn run(script: Vec<Reply>) -> Run {
    run_as(script, true)
}

fn run_as(script: Vec<Reply>, never_back: bool) -> Run {
    let asked: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
    let (log, script) = (Arc::clone(&asked), Arc::new(Mutex::new(VecDeque::from(script))));
    let versions: Arc<Mutex<VecDeque<&'static str>>> = Arc::default();
    let known = Arc::clone(&versions);
    let app = axum::Router::new().fallback(move |uri: Uri| {
        let at = clock::monotonic();
        let reply = if uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "limit=1")) {
            known.lock().unwrap().pop_front().map(empty)
        } else {
            log.lock().unwrap().push((at, uri.to_string()));
            script.lock().unwrap().pop_front()
        };
        async move {
            match reply {
                None | Some(Reply::Silence) => std::future::pending().await,
                Some(reply) => answer(reply),
            }
        }
    });
    let registry = metrics::registry().unwrap();
    let metrics = WatchMetrics::new(&registry).unwrap();
    let (readiness, (trigger, stop)) = (Readiness::new(), Shutdown::new());
    let listed = readiness.expect("pods");
    let (sender, events) = mpsc::channel(16);
    let mut tasks = JoinSet::new();
    let api: Api<Pod> = Api::all(Client::new(app, "default"));
    let relist = Relist::new();
    let config = WatchConfig { never_back, relist: relist.clone(), ..WatchConfig::new("pods") };
    tasks.spawn(watch_into(api, config, listed, metrics, Outlet::new(sender, |pod: Pod| pod, shown), stop));
    Run { events, asked, readiness, registry, relist, versions, _trigger: trigger, tasks }
}

fn shown(event: WatchEvent<Pod>) -> String {
    let bad_name = |bad: BadObject| format!("{}{}", bad.name, if bad.deleted { " gone" } else { "" });
    match event {
        WatchEvent::Reset { objects, bad, generation, back, .. } => {
            let good: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
            let bad: Vec<String> = bad.into_iter().map(bad_name).collect();
            let requested = if generation > 0 { format!(" generation {generation}") } else { String::new() };
            format!("reset {good:?} bad {bad:?}{requested}{}", if back { " back" } else { "" })
        }
        WatchEvent::UpToDate(_) => "up to date".to_owned(),
        WatchEvent::Apply(pod) => format!("apply {}", pod.name_any()),
        WatchEvent::Delete(pod) => format!("delete {}", pod.name_any()),
        WatchEvent::Bad(bad) => format!("bad {}", bad_name(bad)),
    }
}

fn pod(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version}})
}

fn bad_pod(name: &str, version: &str) -> Value {
    let mut pod = pod(name, version);
    pod["spec"] = json!({"containers": 7});
    pod
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn gone() -> Value {
    event("ERROR", json!({"code": 410, "message": "too old", "reason": "Expired"}))
}

fn empty(version: &'static str) -> Reply {
    Reply::List(version, "", vec![])
}

impl Run {
    async fn next(&mut self) -> String {
        let next = tokio::time::timeout(Duration::from_secs(3600), self.events.recv()).await;
        next.unwrap().unwrap()
    }

    async fn expect(&mut self, all: &[&str]) {
        for expected in all {
            assert_eq!(self.next().await, *expected);
        }
    }

    /// Waits for the n-th request (from 0).
    async fn asked(&self, n: usize) -> (Instant, String) {
        loop {
            if let Some(found) = self.asked.lock().unwrap().get(n) {
                return found.clone();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_one_reset_and_the_watch_goes_on_from_it() {
    let events = vec![
        event("ADDED", pod("c", "11")),
        event("MODIFIED", pod("a", "12")),
        event("DELETED", pod("b", "13")),
        event("BOOKMARK", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "20"}})),
    ];
    let mut run = run(vec![
        Reply::List("10", "more", vec![pod("a", "1")]),
        Reply::List("10", "", vec![pod("b", "2")]),
        Reply::Watch(events, Duration::from_secs(60)),
    ]);
    assert!(!run.readiness.is_ready());
    run.expect(&["reset [\"a\", \"b\"] bad []", "apply c", "apply a", "delete b"]).await;
    assert!(run.readiness.is_ready());
    let (_, list) = run.asked(0).await;
    assert!(list.contains("limit=500") && !list.contains("resourceVersion"), "{list}");
    assert!(run.asked(1).await.1.contains("continue=more"));
    let (opened, watch) = run.asked(2).await;
    assert!(watch.contains("resourceVersion=10") && watch.contains("timeoutSeconds=200"), "{watch}");
    // It lived for a minute, so the next one is opened at once, from the bookmark.
    let (again, watch) = run.asked(3).await;
    assert!(watch.contains("resourceVersion=20"), "{watch}");
    assert!(again - opened < Duration::from_millis(60_100));
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_an_event_of_its_own_and_stops_nothing() {
    let events = vec![event("ADDED", bad_pod("y", "11")), event("DELETED", bad_pod("y", "12")), event("ADDED", pod("b", "13"))];
    let mut run = run(vec![Reply::List("10", "", vec![bad_pod("x", "1"), pod("a", "2")]), Reply::Watch(events, FOREVER)]);
    run.expect(&["reset [\"a\"] bad [\"x\"]", "bad y", "bad y gone", "apply b"]).await;
    let text = metrics::text(&run.registry).unwrap();
    assert!(text.contains("podgroup_watch_bad_objects_total{resource=\"pods\"} 3"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_at_once_is_opened_again_after_growing_waits() {
    let mut script = vec![empty("10")];
    script.extend((0..1000).map(|_| Reply::Watch(vec![], Duration::ZERO)));
    let mut run = run(script);
    run.expect(&["reset [] bad []"]).await;
    let (began, _) = run.asked(1).await;
    tokio::time::sleep_until(began + Duration::from_secs(3)).await;
    // 0.1, 0.2, 0.4, 0.8 s and so on: five in three seconds, where kube's own sends 75.
    assert!(run.count() <= 7, "{}", run.count());
    tokio::time::sleep_until(began + Duration::from_secs(120)).await;
    assert!((10..20).contains(&run.count()), "{}", run.count());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_means_a_new_list_and_a_reset() {
    let mut run = run(vec![
        Reply::List("10", "", vec![pod("a", "1")]),
        Reply::Watch(vec![event("ADDED", pod("b", "11")), gone()], FOREVER),
        Reply::List("90", "", vec![pod("c", "80")]),
        Reply::Status(410),
        Reply::List("95", "", vec![pod("d", "91")]),
    ]);
    run.expect(&["reset [\"a\"] bad []", "apply b", "reset [\"c\"] bad []", "reset [\"d\"] bad []"]).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_server_the_list_is_read_again_at_once() {
    // A restarted API server: first no connection, then "too old" for the last version of the watch.
    let mut script = vec![empty("10")];
    script.extend((0..7).map(|_| Reply::Status(503)));
    script.extend([Reply::Watch(vec![gone()], FOREVER), empty("90")]);
    let mut run = run(script);
    run.expect(&["reset [] bad []", "reset [] bad []"]).await;
    let ((back, _), (listed, uri)) = (run.asked(8).await, run.asked(9).await);
    assert!(!uri.contains("watch"), "{uri}");
    assert!(listed - back <= Duration::from_millis(200), "{:?}", listed - back);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_every_list_at_once_is_asked_after_growing_waits() {
    let script = (0..1000).map(|n| if n % 2 == 0 { empty("10") } else { Reply::Watch(vec![gone()], FOREVER) }).collect();
    let mut run = run(script);
    run.expect(&["reset [] bad []"]).await;
    let (began, _) = run.asked(0).await;
    let taken = async { while run.events.recv().await.is_some() {} };
    let _ = tokio::time::timeout_at(began + Duration::from_secs(120), taken).await;
    assert!((20..40).contains(&run.count()), "{}", run.count());
}

#[tokio::test(start_paused = true)]
async fn a_refusing_or_unavailable_server_is_asked_until_it_answers_and_the_reason_is_reported() {
    for (code, why) in [(403, "forbidden"), (404, "not found"), (503, "unavailable"), (500, "unavailable")] {
        let mut script: Vec<Reply> = (0..12).map(|_| Reply::Status(code)).collect();
        script.push(empty("10"));
        script.push(Reply::Watch(vec![], FOREVER));
        let mut run = run(script);
        run.asked(11).await;
        let report = run.readiness.report();
        assert!(report.starts_with(&format!("pods: waiting ({why}")), "{report}");
        run.expect(&["reset [] bad []"]).await;
        let times: Vec<Instant> = run.asked.lock().unwrap().iter().map(|(at, _)| *at).collect();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= Duration::from_millis(15_100), "{longest:?}");
        assert!(longest >= Duration::from_secs(12), "{longest:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(run.readiness.report(), "pods: complete\n");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_and_a_watch_without_an_answer_are_aborted() {
    let opened = |events| Reply::Watch(events, FOREVER);
    let first = vec![Reply::Silence, empty("10"), Reply::Silence, opened(vec![])];
    let then = vec![empty("10"), opened(vec![event("ADDED", pod("a", "11"))]), empty("12")];
    let mut run = run([first, then].into_iter().flatten().collect());
    // 30 s without an answer are an outage.
    run.expect(&["reset [] bad []", "reset [] bad []", "apply a"]).await;
    let silent_since = clock::monotonic();
    // The connection is dead: nothing comes, not even the promised end.
    run.expect(&["reset [] bad []"]).await;
    let waited = clock::monotonic() - silent_since;
    assert!((Duration::from_secs(75)..Duration::from_secs(76)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_before_each_bookmark_say_nothing_either_and_the_list_is_read_again() {
    // A load balancer ends connections that are idle for 35 s.
    let closed = || Reply::Watch(vec![], Duration::from_secs(35));
    let mut run = run(vec![empty("10"), closed(), closed(), closed(), empty("20")]);
    run.expect(&["reset [] bad []"]).await;
    let began = clock::monotonic();
    run.expect(&["reset [] bad []"]).await;
    let waited = clock::monotonic() - began;
    assert!((Duration::from_secs(75)..Duration::from_secs(76)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_keeps_refusing_is_dropped() {
    let mut run = run(vec![empty("10"), Reply::Status(403), Reply::Status(400), Reply::Status(403), empty("20")]);
    run.expect(&["reset [] bad []"]).await;
    run.asked(3).await;
    run.next().await;
    assert!(!run.asked(4).await.1.contains("watch"));
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_the_events_seen_is_refused() {
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "20"}});
    let seen = vec![event("MODIFIED", pod("a", "12")), event("BOOKMARK", bookmark), gone()];
    let bound = Reply::List("20", "", vec![pod("a", "12")]);
    let script = vec![empty("10"), Reply::Watch(seen, FOREVER), Reply::List("19", "", vec![pod("a", "11")]), bound];
    let mut run = run(script);
    run.expect(&["reset [] bad []", "apply a", "reset [\"a\"] bad []"]).await;
    // The older list was requested again, and the watch continues from the newer one.
    assert!(run.asked(4).await.1.contains("resourceVersion=20"));
    let text = metrics::text(&run.registry).unwrap();
    assert!(text.contains("podgroup_watch_lists_total{outcome=\"ok\",resource=\"pods\"} 2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_receiver_is_gone() {
    let mut run = run(vec![empty("10"), Reply::Watch(vec![event("ADDED", pod("a", "11"))], FOREVER)]);
    run.expect(&["reset [] bad []"]).await;
    run.events.close();
    assert!(run.tasks.join_next().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_leads_to_a_list_that_begins_after_it() {
    let mut run = run(vec![
        empty("10"),
        // An open watch.
        Reply::Watch(vec![], FOREVER),
        // A list under way.
        Reply::Silence,
        empty("12"),
        // A watch that was requested and has no answer yet.
        Reply::Silence,
        // A wait after a failure.
        Reply::Status(500),
        Reply::List("14", "", vec![pod("a", "13")]),
        Reply::Watch(vec![event("ADDED", pod("b", "15"))], FOREVER),
    ]);
    run.expect(&["reset [] bad []"]).await;
    for n in [1, 2] {
        run.asked(n).await;
        run.relist.request(None);
    }
    run.expect(&["reset [] bad [] generation 2"]).await;
    for n in [4, 5] {
        run.asked(n).await;
        // The answer, if there is one, has arrived.
        tokio::time::sleep(Duration::from_millis(1)).await;
        run.relist.request(None);
    }
    let began = clock::monotonic();
    run.expect(&["reset [\"a\"] bad [] generation 4", "apply b"]).await;
    assert!(clock::monotonic() - began < Duration::from_millis(50), "a request is waited for by nothing");
    assert!(run.asked(7).await.1.contains("resourceVersion=14"));
    let text = metrics::text(&run.registry).unwrap();
    assert!(text.contains("podgroup_watch_ends_total{reason=\"requested\",resource=\"pods\"} 4"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_list_below_the_floor_is_refused_and_one_at_the_floor_is_accepted() {
    let mut run = run(vec![empty("10"), Reply::Watch(vec![], FOREVER), empty("19"), Reply::List("20", "", vec![pod("a", "15")])]);
    run.expect(&["reset [] bad []"]).await;
    run.asked(1).await;
    run.relist.request(Some(20));
    run.expect(&["reset [\"a\"] bad [] generation 1"]).await;
}

#[tokio::test(start_paused = true)]
async fn after_the_cluster_went_back_older_lists_are_accepted_at_once_and_readiness_says_so() {
    let mut run = run(vec![
        empty("1400"),
        Reply::Watch(vec![event("ADDED", pod("lost", "1410"))], FOREVER),
        Reply::Silence,
        // The floor still holds.
        empty("1009"),
        Reply::List("1010", "", vec![pod("a", "15")]),
        Reply::Watch(vec![event("ADDED", pod("b", "1011")), gone()], FOREVER),
        empty("1012"),
    ]);
    run.expect(&["reset [] bad []", "apply lost"]).await;
    run.relist.went_back(1010);
    run.asked(2).await;
    assert!(run.readiness.report().contains("the cluster went back"), "{}", run.readiness.report());
    assert!(!run.readiness.is_ready());
    let began = clock::monotonic();
    run.expect(&["reset [\"a\"] bad [] generation 1 back", "apply b", "reset [] bad [] generation 1"]).await;
    // The first list had no answer for 30 s.
    assert!(clock::monotonic() - began < Duration::from_secs(31));
    assert!(run.readiness.is_ready());
}

#[path = "freshness_tests.rs"]
mod freshness;
#[path = "outage_tests.rs"]
mod outage;
