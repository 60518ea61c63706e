//! Tests of the loop with an API server that misbehaves: no work is lost, no busy loop starts, and no memory leaks.

use std::sync::Mutex;

use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use kube::api::Api;
use serde_json::{Value, json};

use super::*;
use crate::api::PodGroup;
use crate::api::names::{CONTROLLER, MANAGED_BY, RETIRING};
use crate::api::workload::{NamespaceFacts, NamespaceQueue, OwnerFacts, ReplicaSet};
use crate::controller::dialect;
use crate::controller::merge_patch_tests::merge;
use crate::controller::observed::{ObservedGroup, ObservedOwner, ObservedPod, OwnerKind};
use crate::runtime::call::Caller;
use crate::runtime::leader::{LeaderConfig, elect};
use crate::runtime::metrics::{RequestMetrics, registry};
use crate::runtime::shutdown::Trigger;
use crate::runtime::watch::WatchEvent;
use crate::runtime::watchdog::STALLED_AFTER;

const OWNER: &str = "0a1b2c3d-0000-1111-2222-333344445555";

type Answers = dyn FnMut(&str, &str, &Value) -> (u16, Value) + Send;

/// A running reconciler and the API server that it talks to.
struct Rig {
    events: mpsc::Sender<Observation>,
    queue: WorkQueue<GroupKey>,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    watchdog: Watchdog,
    trigger: Trigger,
    running: JoinSet<()>,
}

fn caller() -> Caller {
    Caller::new(Duration::from_secs(10), RequestMetrics::new(&registry().unwrap()).unwrap())
}

fn reconciler(client: kube::Client) -> Reconciler {
    let metrics = ControllerMetrics::new(&registry().unwrap()).unwrap();
    Reconciler::new(
        &["ours".to_owned()],
        Actor::new(client, caller(), &["ours".to_owned()]),
        Settings { workers: 2, annotate_pods: false },
        metrics,
    )
}

fn client(answers: Box<Answers>, requests: &Arc<Mutex<Vec<(String, Value)>>>) -> kube::Client {
    let (answers, seen) = (Arc::new(Mutex::new(answers)), Arc::clone(requests));
    let app = axum::Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let kind = uri.path().split("/namespaces/ns/").nth(1).unwrap_or_default().split('/').next().unwrap_or_default().to_owned();
        seen.lock().unwrap().push((format!("{method} {kind}"), body.clone()));
        let (status, answer) = answers.lock().unwrap()(method.as_str(), &kind, &body);
        async move {
            if status == 0 {
                std::future::pending::<()>().await;
            }
            (StatusCode::from_u16(status).unwrap(), axum::Json(answer))
        }
    });
    kube::Client::new(app, "ns")
}

/// Makes complete lists of one generation.
#[derive(Clone, Copy)]
struct Lists {
    generation: u64,
    back: bool,
}

impl Lists {
    fn of<K>(self, objects: Vec<K>) -> WatchEvent<K> {
        WatchEvent::Reset { objects, bad: Vec::new(), generation: self.generation, back: self.back, as_of: clock::monotonic() }
    }
}

impl Rig {
    fn start(answers: Box<Answers>, leadership: Leadership) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let reconciler = reconciler(client(answers, &requests));
        let queue = reconciler.queue.clone();
        let (events, receiver) = mpsc::channel(1024);
        let (trigger, stop) = Shutdown::new();
        let mut running = JoinSet::new();
        let watchdog = Watchdog::new();
        watchdog.begin();
        running.spawn(reconciler.run(receiver, leadership, watchdog.clone(), stop));
        Self { events, queue, requests, watchdog, trigger, running }
    }

    /// Sends the first complete list of every watch.
    async fn show(&self, wants: u32, groups: Vec<ObservedGroup>) {
        self.show_generation(0, vec![replica_set(wants)], groups).await;
    }

    /// Sends a complete list of every watch; that of the ReplicaSets comes 10 s after the others.
    async fn show_generation(&self, generation: u64, replica_sets: Vec<ObservedOwner>, groups: Vec<ObservedGroup>) {
        let back = generation > 0;
        let all = Lists { generation, back };
        for seen in [
            Observation::Deployment(all.of(Vec::new())),
            Observation::Pod(0, all.of(Vec::new())),
            Observation::Group(all.of(groups)),
            Observation::Namespace(all.of(Vec::new())),
            Observation::Owner(OwnerKind::StatefulSet, all.of(Vec::new())),
            Observation::Owner(OwnerKind::DaemonSet, all.of(Vec::new())),
            Observation::Owner(OwnerKind::Job, all.of(Vec::new())),
        ] {
            self.events.send(seen).await.unwrap();
        }
        if back {
            seconds(10).await;
        }
        self.events.send(Observation::Owner(OwnerKind::ReplicaSet, all.of(replica_sets))).await.unwrap();
    }

    /// Returns whether the loop still answers its liveness probe.
    async fn answers(&self) -> bool {
        for _ in 0..3 {
            if self.watchdog.probe().is_some() {
                return false;
            }
            tokio::time::sleep(STALLED_AFTER).await;
        }
        true
    }

    fn count(&self, request: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|(sent, _)| sent == request).count()
    }
}

async fn seconds(number: u64) {
    tokio::time::sleep(Duration::from_secs(number)).await;
}

fn replica_set(wants: u32) -> ObservedOwner {
    let object: ReplicaSet = serde_json::from_value(json!({
        "metadata": { "name": "rs", "namespace": "ns", "uid": OWNER },
        "spec": {
            "replicas": wants,
            "selector": { "matchLabels": { "app": "x" } },
            "template": { "spec": { "schedulerName": "ours", "containers": [{ "name": "c" }] } },
        },
    }))
    .unwrap();
    ObservedOwner::Served(Box::new(OwnerFacts::of(&object)))
}

fn key() -> GroupKey {
    GroupKey::generated("ns", OWNER)
}

/// Returns the object that the server has after a creation.
fn created(mut object: Value, version: u32) -> Value {
    object["metadata"]["uid"] = json!(format!("group-{version}"));
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object
}

fn seen_group(object: &Value) -> ObservedGroup {
    let group: PodGroup = serde_json::from_value(object.clone()).unwrap();
    ObservedGroup { key: key(), existing: dialect::existing(&group, &["ours".to_owned()]), unwatched_owner: false }
}

fn status(code: u16, message: &str) -> (u16, Value) {
    (code, json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": "" }))
}

#[tokio::test(start_paused = true)]
async fn a_wanted_podgroup_is_created_once() {
    let rig = Rig::start(Box::new(|_, _, body| (201, created(body.clone(), 2))), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(60).await;
    assert_eq!(rig.requests.lock().unwrap().len(), 1);
    assert_eq!(rig.count("POST podgroups"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_created_podgroup_that_a_new_list_does_not_contain_is_read() {
    // The PodGroup was created and then deleted by a person while the watch was disconnected.
    let mut version = 1;
    let answers = move |method: &str, _: &str, body: &Value| {
        version += 1;
        if method == "POST" { (201, created(body.clone(), version)) } else { status(404, "gone") }
    };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(1).await;
    rig.events
        .send(Observation::Group(WatchEvent::Reset {
            objects: Vec::new(),
            bad: Vec::new(),
            generation: 0,
            back: false,
            as_of: clock::monotonic(),
        }))
        .await
        .unwrap();
    seconds(60).await;
    assert_eq!((rig.count("GET podgroups"), rig.count("POST podgroups")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_the_cache_never_shows_does_not_cause_one_mark_after_another() {
    // The watch never shows this pod, because it cannot be decoded or belongs to another scheduler.
    let group = Arc::new(Mutex::new(json!({
        "metadata": {
            "name": &*key().name, "namespace": "ns", "uid": "g", "resourceVersion": "2", "labels": { MANAGED_BY: CONTROLLER },
            "annotations": { "podgroup.dev/applied": "{\"minMember\":1,\"queue\":\"default\"}" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": OWNER, "controller": true }],
        },
    })));
    let stored = Arc::clone(&group);
    let mut version = 2;
    let answers = move |method: &str, kind: &str, body: &Value| {
        if kind == "pods" {
            let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": OWNER, "controller": true }]);
            let pod = json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "p", "ownerReferences": owner } });
            return (200, json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [pod] }));
        }
        assert_eq!(method, "PATCH");
        let mut group = stored.lock().unwrap();
        merge(&mut group, body);
        version += 1;
        group["metadata"]["resourceVersion"] = json!(version.to_string());
        (200, group.clone())
    };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    let first = seen_group(&group.lock().unwrap());
    rig.show(0, vec![first]).await;
    // The watch shows every write of the controller.
    for _ in 0..1200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = seen_group(&group.lock().unwrap());
        rig.events.send(Observation::Group(WatchEvent::Apply(now))).await.unwrap();
    }
    let lists = rig.count("GET pods");
    assert!((2..=5).contains(&lists), "{lists} lists of members in a minute");
    assert!(group.lock().unwrap()["metadata"]["annotations"][RETIRING].is_null(), "the mark is removed in the end");
}

#[tokio::test(start_paused = true)]
async fn contradicting_answers_cause_no_busy_loop() {
    // The server always answers 409 to a creation and 404 to a read.
    let answers = |method: &str, _: &str, _: &Value| if method == "POST" { status(409, "there") } else { status(404, "not there") };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(600).await;
    let requests = rig.requests.lock().unwrap().len();
    assert!(requests < 300, "{requests} requests in ten minutes");
    assert!(requests > 100, "{requests}: the creation is retried");
}

#[tokio::test(start_paused = true)]
async fn the_reconciler_stops_at_once_while_a_request_hangs() {
    let mut rig = Rig::start(Box::new(|_, _, _| (0, Value::Null)), Leadership::always());
    rig.show(1, Vec::new()).await;
    seconds(1).await;
    assert_eq!(rig.count("POST podgroups"), 1);
    let asked = clock::monotonic();
    rig.trigger.trigger();
    rig.running.join_next().await.unwrap().unwrap();
    assert!(clock::monotonic() - asked < Duration::from_millis(100));
}

fn pod(number: u32) -> ObservedPod {
    let uid = format!("{number:08x}-0000-1111-2222-333344445555");
    ObservedPod {
        pod: PodRef { name: Arc::from("p"), uid: Uid::from(uid.as_str()) },
        group: GroupKey::generated("ns", &uid),
        ended: false,
        deleting: false,
        stamped: true,
        elsewhere: None,
        mislabelled: false,
        source: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_that_does_not_lead_does_not_remember_deleted_pods() {
    let config = LeaderConfig {
        namespace: "ns".into(),
        name: "l".into(),
        identity: "me".into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let unused = client(Box::new(|_, _, _| status(500, "")), &Arc::default());
    let (leadership, _elector) = elect(Api::namespaced(unused, "ns"), caller(), config);
    let rig = Rig::start(Box::new(|_, _, _| status(500, "no request is expected")), leadership);
    rig.show(1, Vec::new()).await;
    for number in 0..1000 {
        rig.events.send(Observation::Pod(0, WatchEvent::Apply(pod(number)))).await.unwrap();
        rig.events.send(Observation::Pod(0, WatchEvent::Delete(pod(number)))).await.unwrap();
    }
    seconds(10).await;
    assert_eq!((rig.queue.len(), rig.requests.lock().unwrap().len()), (0, 0));
    assert!(rig.answers().await, "a standby process answers its liveness probe");
}

#[tokio::test(start_paused = true)]
async fn an_idle_reconciler_answers_its_liveness_probe_and_a_stopped_one_does_not() {
    let mut rig = Rig::start(Box::new(|_, _, _| status(500, "no request is expected")), Leadership::always());
    assert!(rig.answers().await);
    rig.running.shutdown().await;
    assert!(!rig.answers().await);
}

#[tokio::test]
async fn a_reconciler_whose_election_has_ended_stops() {
    let config = LeaderConfig {
        namespace: "ns".into(),
        name: "l".into(),
        identity: "me".into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let unused = client(Box::new(|_, _, _| status(500, "")), &Arc::default());
    let (leadership, elector) = elect(Api::namespaced(unused, "ns"), caller(), config);
    drop(elector);
    let mut rig = Rig::start(Box::new(|_, _, _| status(500, "no request is expected")), leadership);
    let ended = tokio::time::timeout(Duration::from_secs(5), rig.running.join_next()).await;
    assert!(ended.is_ok_and(|ended| ended.is_some()));
}

#[tokio::test]
async fn a_flood_of_events_does_not_delay_a_creation() {
    let rig = Rig::start(Box::new(|_, _, body| (201, created(body.clone(), 2))), Leadership::always());
    rig.show(1, Vec::new()).await;
    let (events, mut flood) = (rig.events.clone(), JoinSet::new());
    flood.spawn(async move {
        for number in 0_u32.. {
            let namespace = NamespaceFacts { name: Arc::from("other"), queue: NamespaceQueue::Named(number.to_string()), deleting: false };
            if events.send(Observation::Namespace(WatchEvent::Apply(namespace))).await.is_err() {
                return;
            }
        }
    });
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if rig.count("POST podgroups") > 0 {
            return;
        }
    }
    panic!("the PodGroup was not created within two seconds");
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_task_panics_is_retried_after_a_back_off() {
    let requests = Arc::default();
    let mut reconciler = reconciler(client(Box::new(|_, _, body| (201, created(body.clone(), 2))), &requests));
    reconciler.queue.add(key());
    let attempt = Box::new(Attempt::new(reconciler.queue.next().await));
    reconciler.pool.spawn(async move {
        let _attempt = attempt;
        panic!("a bug");
    });
    let queue = reconciler.queue.clone();
    let (_events, receiver) = mpsc::channel(8);
    let (_trigger, stop) = Shutdown::new();
    let mut running = JoinSet::new();
    running.spawn(reconciler.run(receiver, Leadership::always(), Watchdog::new(), stop));
    seconds(1).await;
    assert_eq!(queue.failures(&key()), 1);
    let again = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
    assert!(again.is_ok_and(|work| *work.key() == key()));
}

#[test]
fn the_state_of_a_podgroup_is_removed_with_its_last_pod() {
    // Only an attempt adds an entry. An attempt that finds nothing left of the PodGroup removes the entry.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let requests = Arc::default();
        let mut reconciler = reconciler(client(Box::new(|_, _, body| (201, created(body.clone(), 2))), &requests));
        reconciler.started = true;
        for number in 0..100 {
            reconciler.observe(Observation::Pod(0, WatchEvent::Apply(pod(number))));
        }
        let mut attempts = 0;
        for round in 0..2 {
            while !reconciler.queue.is_empty() {
                let attempt = Box::new(Attempt::new(reconciler.queue.next().await));
                reconciler.take_next_step(attempt, &Leadership::always());
                attempts += 1;
            }
            if round == 0 {
                (0..100).for_each(|number| reconciler.observe(Observation::Pod(0, WatchEvent::Delete(pod(number)))));
            }
        }
        assert_eq!((attempts, reconciler.states.len()), (200, 0));
    });
}

#[path = "reconciler_refusal_tests.rs"]
mod refusal;

#[path = "reconciler_recreation_tests.rs"]
mod recreation;

#[tokio::test(start_paused = true)]
async fn after_the_cluster_went_back_nothing_is_written_before_every_list_is_of_that_time() {
    let object = json!({
        "metadata": {
            "name": &*key().name, "namespace": "ns", "uid": "g", "resourceVersion": "2", "labels": { MANAGED_BY: CONTROLLER },
            "annotations": { "podgroup.dev/applied": "{\"minMember\":1,\"queue\":\"default\"}" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": OWNER, "controller": true }],
        },
        "spec": { "minMember": 1, "queue": "default" },
    });
    let stored = object.clone();
    let answers = move |method: &str, kind: &str, _: &Value| match (method, kind) {
        ("GET", "podgroups") => (200, stored.clone()),
        _ => (500, Value::Null),
    };
    let rig = Rig::start(Box::new(answers), Leadership::always());
    // The ReplicaSet was scaled to 0 and its PodGroup deleted. The backup is from before.
    rig.show_generation(0, vec![replica_set(0)], Vec::new()).await;
    seconds(10).await;
    rig.events.send(Observation::WentBack(1)).await.unwrap();
    rig.show_generation(1, vec![replica_set(1)], vec![seen_group(&object)]).await;
    // For 10 s the PodGroup was shown, and not its owner.
    assert_eq!(rig.requests.lock().unwrap().len(), 0);
    seconds(10).await;
    assert!(rig.count("PATCH podgroups") > 0, "the controller works on: the backup has an older intent");
    assert_eq!(rig.count("GET pods"), 0, "members are listed only before a deletion");
}
