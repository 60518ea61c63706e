//! Candidates for one lease, on a server that keeps it in memory with the real rule for resourceVersion. The clock is
//! paused.

use super::*;
use crate::runtime::metrics::{self, RequestMetrics};
use crate::runtime::shutdown::{Shutdown, Trigger};
use crate::runtime::watch::Relist;
use axum::Json;
use axum::extract::State as Shared;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use kube::Client;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
    /// While true, the server does not answer.
    away: bool,
    /// While true, the server carries writes out and does not answer them.
    mute: bool,
    /// The requests, oldest first.
    asked: Vec<Method>,
}

type Cluster = Arc<Mutex<Server>>;

async fn serve(Shared(cluster): Shared<Cluster>, method: Method, body: String) -> Response {
    if cluster.lock().unwrap().away {
        return std::future::pending().await;
    }
    let mute = method != Method::GET && cluster.lock().unwrap().mute;
    let answer = carry_out(&mut cluster.lock().unwrap(), method, &body);
    if mute { std::future::pending().await } else { answer }
}

fn carry_out(server: &mut Server, method: Method, body: &str) -> Response {
    server.asked.push(method.clone());
    let fail = |code: StatusCode, reason: &str| {
        let status = json!({"kind": "Status", "code": code.as_u16(), "reason": reason});
        (code, Json(status)).into_response()
    };
    let sent: Option<Lease> = serde_json::from_str(body).ok();
    match (method, &server.lease, sent) {
        (Method::GET, Some(lease), _) => return Json(lease.clone()).into_response(),
        (Method::GET | Method::PUT, None, _) => return fail(StatusCode::NOT_FOUND, "NotFound"),
        (Method::POST, Some(_), _) => return fail(StatusCode::CONFLICT, "AlreadyExists"),
        (Method::PUT, Some(old), Some(new)) if old.metadata.resource_version != new.metadata.resource_version => {
            return fail(StatusCode::CONFLICT, "Conflict");
        }
        (_, _, Some(mut lease)) => {
            server.version += 1;
            lease.metadata.resource_version = Some(server.version.to_string());
            server.lease = Some(lease);
        }
        other => panic!("{other:?}"),
    }
    Json(server.lease.clone()).into_response()
}

struct Candidate {
    leadership: Leadership,
    relist: Relist,
    trigger: Trigger,
    tasks: JoinSet<Result<(), LeadershipLost>>,
}

fn config(identity: &str) -> LeaderConfig {
    LeaderConfig {
        namespace: "system".to_owned(),
        name: "program".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

fn candidate(cluster: &Cluster, identity: &str) -> Candidate {
    candidate_with(cluster, identity, ReleaseRule::Always)
}

fn candidate_with(cluster: &Cluster, identity: &str, rule: ReleaseRule) -> Candidate {
    let app = axum::Router::new().fallback(serve).with_state(Arc::clone(cluster));
    let registry = metrics::registry().unwrap();
    let caller = Caller::new(Duration::from_secs(30), RequestMetrics::new(&registry).unwrap());
    let api = Api::namespaced(Client::new(app, "default"), "system");
    let (leadership, elector) = elect(api, caller, config(identity));
    let relist = Relist::new();
    let elector = elector.annotated("x/version", identity).releasing(rule).reporting_to(relist.clone());
    let ((trigger, stop), mut tasks) = (Shutdown::new(), JoinSet::new());
    tasks.spawn(elector.run(stop));
    Candidate { leadership, relist, trigger, tasks }
}

impl Candidate {
    /// Waits until the candidate leads, and returns how long that took.
    async fn leads(&mut self) -> Duration {
        let began = clock::monotonic();
        let acquired = tokio::time::timeout(Duration::from_secs(600), self.leadership.acquired());
        assert!(acquired.await.unwrap().is_some());
        clock::monotonic() - began
    }

    async fn result(&mut self) -> Result<(), LeadershipLost> {
        self.tasks.join_next().await.unwrap().unwrap()
    }
}

fn spec(cluster: &Cluster) -> LeaseSpec {
    let server = cluster.lock().unwrap();
    server.lease.clone().and_then(|lease| lease.spec).unwrap()
}

/// The version annotation of the lease.
fn mark(cluster: &Cluster) -> String {
    annotation(cluster, "x/version").unwrap_or_default()
}

fn annotation(cluster: &Cluster, key: &str) -> Option<String> {
    let annotations = cluster.lock().unwrap().lease.clone().and_then(|lease| lease.metadata.annotations);
    annotations.and_then(|all| all.get(key).cloned())
}

const MARKED: ReleaseRule = ReleaseRule::Marked("x/drained");

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_goes_on_leading_and_the_second_waits() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let two = candidate(&cluster, "two");
    for _ in 0..600 {
        seconds(1).await;
        assert!(one.leadership.is_leading() && !two.leadership.is_leading());
    }
    let spec = spec(&cluster);
    assert_eq!(spec.holder_identity.as_deref(), Some("one"));
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(0), Some(15)));
    assert!(spec.renew_time > spec.acquire_time);
    assert_eq!(mark(&cluster), "one");
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_releases_the_lease_and_the_next_candidate_leads_within_a_retry_period() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let mut two = candidate(&cluster, "two");
    seconds(5).await;
    one.trigger.trigger();
    assert_eq!(one.result().await, Ok(()));
    assert!(!one.leadership.is_leading());
    assert_eq!(spec(&cluster).holder_identity.as_deref(), Some(""));
    assert!(two.leads().await <= Duration::from_secs(2));
    let spec = spec(&cluster);
    assert_eq!(spec.holder_identity.as_deref(), Some("two"));
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(1), Some(15)));
    assert_eq!(mark(&cluster), "two");
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_replaced_after_the_lease_duration_and_not_before() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let mut two = candidate(&cluster, "two");
    seconds(5).await;
    drop(one);
    let took = two.leads().await;
    assert!(took >= Duration::from_secs(13) && took <= Duration::from_secs(18), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_can_take_the_lease() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    seconds(7).await;
    cluster.lock().unwrap().away = true;
    let began = clock::monotonic();
    let lost = one.result().await.unwrap_err();
    let took = clock::monotonic() - began;
    assert!(took <= Duration::from_secs(10), "{took:?}");
    assert!(lost.to_string().starts_with("the lease system/program is lost"), "{lost}");
    assert!(!one.leadership.is_leading());
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_deadline_changes_nothing() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    seconds(2).await;
    cluster.lock().unwrap().away = true;
    seconds(6).await;
    cluster.lock().unwrap().away = false;
    for _ in 0..60 {
        seconds(1).await;
        assert!(one.leadership.is_leading());
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_leaves_time_for_another_attempt_however_late_it_ends() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    for outage in [500, 3000, 5000, 7000, 8000] {
        // In the middle between two renewals: the deadline is 9 s away.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let renewed = |cluster: &Cluster| cluster.lock().unwrap().version;
        let before = renewed(&cluster);
        while renewed(&cluster) == before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        seconds(1).await;
        cluster.lock().unwrap().away = true;
        // Requests get no answer meanwhile, as where packets are lost.
        tokio::time::sleep(Duration::from_millis(outage)).await;
        cluster.lock().unwrap().away = false;
        seconds(3).await;
        assert!(one.leadership.is_leading(), "{outage} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_server_at_the_start_is_waited_for() {
    let cluster = Cluster::default();
    cluster.lock().unwrap().away = true;
    let mut one = candidate(&cluster, "one");
    seconds(100).await;
    assert!(!one.leadership.is_leading());
    cluster.lock().unwrap().away = false;
    assert!(one.leads().await <= Duration::from_secs(15 + 8));
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_at_its_next_read_when_another_process_holds_its_lease() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    {
        let mut server = cluster.lock().unwrap();
        let lease = server.lease.as_mut().unwrap();
        lease.metadata.resource_version = Some("stolen".to_owned());
        lease.spec.as_mut().unwrap().holder_identity = Some("thief".to_owned());
    }
    let began = clock::monotonic();
    let lost = one.result().await.unwrap_err();
    assert!(lost.why.contains("thief"), "{lost}");
    // The renewal meets a conflict, and the read that follows does not wait for another retry period.
    let took = clock::monotonic() - began;
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_from_an_old_copy_reads_and_renews_at_once() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    seconds(1).await;
    for _ in 0..4 {
        // The copy that it replaces is old.
        {
            let mut server = cluster.lock().unwrap();
            server.version += 1;
            let version = server.version.to_string();
            server.lease.as_mut().unwrap().metadata.resource_version = Some(version);
            server.asked.clear();
        }
        seconds(2).await;
        // The renewal from memory, the read, and the renewal of what it showed.
        assert_eq!(cluster.lock().unwrap().asked, [Method::PUT, Method::GET, Method::PUT]);
        assert!(one.leadership.is_leading());
    }
}

/// A request that never gets an answer, and records that it was sent.
async fn sent(sent: &std::sync::atomic::AtomicBool) -> Result<(), kube::Error> {
    sent.store(true, std::sync::atomic::Ordering::Relaxed);
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_under_way_when_the_lease_cannot_be_renewed_ends_before_the_lease_does() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let registry = metrics::registry().unwrap();
    let writer = Caller::new(Duration::from_secs(300), RequestMetrics::new(&registry).unwrap()).while_leading(one.leadership.clone());
    let renewed = clock::monotonic();
    cluster.lock().unwrap().away = true;
    // The last moment at which it still leads.
    seconds(9).await;
    let was_sent = std::sync::atomic::AtomicBool::new(false);
    let error = writer.once("create", "podgroups", sent(&was_sent)).await.unwrap_err();
    assert!(was_sent.load(std::sync::atomic::Ordering::Relaxed) && error.outcome_unknown(), "{error}");
    let over = clock::monotonic() - renewed;
    assert!(over > Duration::from_secs(10) && over < Duration::from_secs(15), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_the_lease() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    let two = candidate(&cluster, "two");
    let registry = metrics::registry().unwrap();
    let caller = Caller::new(Duration::from_secs(10), RequestMetrics::new(&registry).unwrap());
    seconds(3).await;
    for candidate in [&two, &one] {
        if candidate.leadership.is_leading() {
            // The whole process is stopped: no task runs, the clock goes on.
            tokio::time::advance(Duration::from_secs(11)).await;
        }
        let was_sent = std::sync::atomic::AtomicBool::new(false);
        let error = caller.clone().while_leading(candidate.leadership.clone()).once("create", "podgroups", sent(&was_sent)).await;
        assert_eq!(error.unwrap_err().kind(), "unavailable");
        assert!(!was_sent.load(std::sync::atomic::Ordering::Relaxed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_for_longer_than_its_deadline_does_not_lead() {
    let cluster = Cluster::default();
    let mut one = candidate(&cluster, "one");
    one.leads().await;
    // The whole process is stopped: no task runs, the clock goes on.
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(!one.leadership.is_leading());
}

#[test]
fn times_that_do_not_fit_together_are_named() {
    let check = |lease, deadline| fit_together(Duration::from_secs(lease), Duration::from_millis(deadline), Duration::from_secs(2));
    let wrong = |lease, deadline| check(lease, deadline).unwrap_err();
    assert_eq!(check(15, 10_000), Ok(()));
    assert!(wrong(15, 15_000).contains("--leader-elect-renew-deadline (15s)"));
    assert!(wrong(15, 2000).contains("--leader-elect-retry-period (2s)"));
    assert!(wrong(15, 2400).contains("--leader-elect-retry-period (2s)"));
    assert_eq!(check(15, 2401), Ok(()));
    assert_eq!(check(3600, 2401), Ok(()));
    assert!(wrong(3601, 2401).contains("--leader-elect-lease-duration (3601s)"));
}

#[test]
fn every_start_has_another_identity() {
    assert_ne!(identity(), identity());
    assert!(!identity().starts_with('_'));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_election_leads_for_ever() {
    let mut always = Leadership::always();
    assert_eq!(always.acquired().await, Some(Handover::Unclean));
    assert!(!always.has_lease());
    seconds(100_000).await;
    assert!(always.is_leading());
}

#[tokio::test(start_paused = true)]
async fn a_write_with_an_older_version_says_that_the_cluster_went_back() {
    let cluster = Cluster::default();
    cluster.lock().unwrap().version = 1400;
    let mut one = candidate(&cluster, "one");
    assert_eq!(one.leadership.floor(), None);
    one.leads().await;
    assert_eq!(one.leadership.floor(), Some(1401));
    let backup = cluster.lock().unwrap().lease.clone();
    seconds(9).await;
    assert_eq!((one.leadership.floor(), one.relist.generation()), (Some(1405), 0));
    {
        // The etcd is restored: the lease is the one of the backup, and later versions were never given.
        let mut server = cluster.lock().unwrap();
        server.lease = backup;
        server.version = 1401;
    }
    seconds(3).await;
    assert_eq!((one.leadership.floor(), one.relist.generation()), (Some(1402), 1));
    assert_eq!(one.relist.back_after(0).await, 1);
    seconds(20).await;
    assert!(one.leadership.is_leading());
    assert_eq!(one.relist.generation(), 1, "reported once");
    assert_eq!(Leadership::always().floor(), None);
}

#[path = "absent_tests.rs"]
mod absent;

#[path = "release_tests.rs"]
mod release;
