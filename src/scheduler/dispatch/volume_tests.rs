//! Writes that tie claims, against a scripted API server.

use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use kube::Client;
use serde_json::{Value, json};

use super::super::super::command::Command;
use super::super::Dispatcher;
use super::*;
use crate::api::Uid;
use crate::api::volumes::ClaimKey;
use crate::runtime::call::Caller;
use crate::runtime::leader::Leadership;
use crate::runtime::metrics::{self, RequestMetrics};

/// The bodies of the requests, by path.
type Sent = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// Answers a volume `free` at once, `busy` the second time, and others with the status in their name.
async fn serve(request: Request, sent: Sent) -> impl IntoResponse {
    let path = request.uri().path().to_owned();
    let body = serde_json::from_slice(&to_bytes(request.into_body(), 65_536).await.unwrap()).unwrap();
    let mut sent = sent.lock().unwrap();
    let bodies = sent.entry(path.clone()).or_default();
    bodies.push(body);
    let name = path.rsplit('/').next().unwrap();
    let code = match name {
        "busy" if bodies.len() < 2 => 503,
        "free" | "busy" | "data" => 200,
        code => code.parse().unwrap(),
    };
    let body = if code == 200 {
        json!({ "metadata": { "name": name } })
    } else {
        json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no" })
    };
    (StatusCode::from_u16(code).unwrap(), body.to_string())
}

/// Sends the write for the claim `data`, and returns the reason of a failure and the bodies of the requests by path.
async fn sent(tie: Tie) -> (Option<&'static str>, BTreeMap<String, Vec<Value>>) {
    sent_for("data", tie).await
}

/// Does the same for this claim.
async fn sent_for(claim: &str, tie: Tie) -> (Option<&'static str>, BTreeMap<String, Vec<Value>>) {
    let log = Sent::default();
    let seen = Arc::clone(&log);
    let app = Router::new().fallback(move |request: Request| serve(request, Arc::clone(&seen)));
    let caller = Caller::new(Duration::from_secs(10), RequestMetrics::new(&metrics::registry().unwrap()).unwrap());
    let mut to = Dispatcher::new(Client::new(app, "ns"), caller, Leadership::always(), 1);
    let write = VolumeWrite { binding: 3, claim: ClaimKey::new("ns", claim), claim_uid: Uid::from("u"), tie };
    to.send(vec![Command::Volume(write)]);
    let report = to.next().await;
    let reason = if let Report::NotTied(3, _, reason) = report {
        Some(reason)
    } else {
        assert!(matches!(&report, Report::Tied(of) if *of == ClaimKey::new("ns", claim)), "{report:?}");
        None
    };
    assert_eq!(to.unknown_outcomes(), 0);
    let bodies = log.lock().unwrap().clone();
    (reason, bodies)
}

fn volume(name: &str) -> Tie {
    Tie::Volume { name: name.into(), resource_version: 7, is_named: false }
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_patched_by_its_name_and_a_claim_in_its_namespace() {
    let (reason, bodies) = sent(volume("free")).await;
    let body = &bodies["/api/v1/persistentvolumes/free"][0];
    assert_eq!((reason, &body["metadata"]["resourceVersion"], &body["spec"]["claimRef"]["uid"]), (None, &json!("7"), &json!("u")));
    let (reason, bodies) = sent(Tie::Node { name: "n".into(), resource_version: 8 }).await;
    let body = &bodies["/api/v1/namespaces/ns/persistentvolumeclaims/data"][0];
    assert_eq!((reason, &body["metadata"]["resourceVersion"], &body["metadata"]["uid"]), (None, &json!("8"), &json!("u")));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_sent_again_and_a_refused_one_is_reported() {
    let count = |bodies: BTreeMap<String, Vec<Value>>| bodies.into_values().map(|bodies| bodies.len()).sum::<usize>();
    for (name, wanted, requests) in
        [("busy", None, 2), ("409", Some("conflict"), 1), ("403", Some("forbidden"), 1), ("503", Some("unavailable"), 5)]
    {
        let (reason, bodies) = sent(volume(name)).await;
        assert_eq!((reason, count(bodies)), (wanted, requests), "{name}");
        let (reason, bodies) = sent_for(name, Tie::Node { name: "n".into(), resource_version: 8 }).await;
        assert_eq!((reason, count(bodies)), (wanted, requests), "claim {name}");
    }
}
