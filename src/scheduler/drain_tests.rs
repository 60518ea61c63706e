//! The end of a leader: its lease, and the bindings that are under way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::dispatch::Dispatcher;
use super::event::{Change, Event};
use super::kinds::{Groups, Nodes, Pods, Queues};
use super::metrics::Metrics;
use super::own;
use super::state::State;
use super::testing::{listed, nothing_else};
use crate::cycle::testing::{POLICY, group, node, pod, queue};
use crate::runtime::call::Caller;
use crate::runtime::clock;
use crate::runtime::leader::{LeaderConfig, ReleaseRule, elect};
use crate::runtime::metrics::{RequestMetrics, registry};
use crate::runtime::shutdown::Shutdown;
use crate::runtime::watch::Relist;
use crate::runtime::watchdog::Watchdog;

/// The Lease, the number of bindings that were sent, and when a binding is answered.
#[derive(Clone)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    bindings: Arc<Mutex<usize>>,
    hold: Duration,
}

async fn serve(server: Server, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = axum::body::to_bytes(request.into_body(), 65_536).await.unwrap();
    let missing = || (StatusCode::NOT_FOUND, json!({ "kind": "Status", "code": 404 }).to_string()).into_response();
    if path.contains("/leases") {
        let mut lease = server.lease.lock().unwrap();
        if method != Method::GET {
            let mut sent: Value = serde_json::from_slice(&body).unwrap();
            sent["metadata"]["resourceVersion"] = "1".into();
            *lease = Some(sent);
        }
        return lease.as_ref().map_or_else(missing, |lease| (StatusCode::OK, lease.to_string()).into_response());
    }
    if path.ends_with("/binding") {
        *server.bindings.lock().unwrap() += 1;
        tokio::time::sleep(server.hold).await;
        return (StatusCode::CREATED, json!({ "kind": "Status", "status": "Success" }).to_string()).into_response();
    }
    missing()
}

/// Stops a leader with two pods to bind and one slot for bindings, of which each takes this long. `lists`: whether its lists were complete
/// before. Returns how long the end took, the number of bindings that were sent, and the holder and the mark in the Lease.
async fn stop(hold: Duration, lists: bool) -> (u64, usize, String, Option<String>) {
    // The chart creates the Lease, without a holder.
    let lease = json!({ "metadata": { "name": "p", "namespace": "ns", "resourceVersion": "1" } });
    let server = Server { lease: Arc::new(Mutex::new(Some(lease))), bindings: Arc::default(), hold };
    let app = {
        let server = server.clone();
        axum::Router::new().fallback(move |request: Request| serve(server.clone(), request))
    };
    let client = Client::new(app, "ns");
    let caller = Caller::new(Duration::from_secs(60), RequestMetrics::new(&registry().unwrap()).unwrap());
    let config = LeaderConfig {
        namespace: "ns".to_owned(),
        name: "p".to_owned(),
        identity: "me".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let (leadership, elector) = elect(Api::namespaced(client.clone(), "ns"), caller.clone(), config);
    let (mut running, mut elections) = (JoinSet::new(), JoinSet::new());
    let ((work, stop_work), (election, stop_election)) = (Shutdown::new(), Shutdown::new());
    elections.spawn(elector.releasing(ReleaseRule::Marked("x/drained")).run(stop_election));
    let state = State::new(["podgroup-scheduler".to_owned()], POLICY, Metrics::new(&registry().unwrap()).unwrap());
    let dispatcher = Dispatcher::new(client, caller.while_leading(leadership.clone()), leadership.clone(), 1);
    let (events, receiver) = mpsc::channel(16);
    let relist = Relist::new();
    running.spawn(own(state, dispatcher, leadership, (receiver, clock::through_suspension()), relist.clone(), Watchdog::new(), stop_work));
    // The lists that are requested when the lease is won.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(relist.generation(), 1);
    for event in [
        Event::of::<Nodes>(listed(vec![node("n", &[("cpu", 4)])], 1)),
        Event::of::<Groups>(listed(["a", "b"].map(|name| group("ns", name, 1, "default")).into(), 1)),
        Event::of::<Queues>(listed(vec![queue("root", None, &[]), queue("default", Some("root"), &[])], 1)),
        Event::of::<Pods>(listed(Vec::new(), 1)),
    ]
    .into_iter()
    .chain(nothing_else(1))
    .filter(|_| lists)
    {
        events.send(event).await.unwrap();
    }
    for name in ["a", "b"] {
        events.send(Event::of::<Pods>(Change::Apply(pod("ns", name, name, &[("cpu", 1)])))).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stopped = clock::monotonic();
    work.trigger();
    assert_eq!(running.join_next().await.unwrap().unwrap(), Ok(()));
    let took = clock::monotonic().saturating_duration_since(stopped).as_secs();
    election.trigger();
    assert_eq!(elections.join_next().await.unwrap().unwrap(), Ok(()));
    let lease = server.lease.lock().unwrap().clone().unwrap();
    let mark = lease["metadata"]["annotations"]["x/drained"].as_str().map(str::to_owned);
    let sent = *server.bindings.lock().unwrap();
    (took, sent, lease["spec"]["holderIdentity"].as_str().unwrap().to_owned(), mark)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_waits_for_what_is_under_way_and_sends_nothing_more() {
    assert_eq!(stop(Duration::from_secs(5), true).await, (4, 1, String::new(), Some("1".to_owned())));
    assert_eq!(stop(Duration::from_millis(10), true).await, (0, 2, String::new(), Some("1".to_owned())), "nothing is under way");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_binding_has_no_outcome_ends_after_a_while_and_keeps_its_lease() {
    let (took, sent, holder, mark) = stop(Duration::from_secs(3600), true).await;
    assert_eq!((took, holder.as_str(), mark), (20, "me", None));
    assert!(sent >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_within_its_takeover_gives_its_lease_up_without_the_mark() {
    assert_eq!(stop(Duration::from_secs(5), false).await, (0, 0, String::new(), None));
}
