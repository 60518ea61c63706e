//! Queues with invalid specs. Each blocks itself and its descendants, says why, and recovers; all other queues go on.

use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::cases::ledger::stays_unbound;
use crate::cases::seen::group_says;
use crate::http;
use crate::objects::{make_member, make_node, make_podgroup, make_queue, make_queue_of, patch_queue, queues};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;

/// Runs one pod that requests every dimension that the other cases use.
async fn run_one_pod(client: &Client, name: &str) -> Result<()> {
    Workload::new(name).asks(&[("cpu", "1"), ("memory", "1Gi")]).queue("good").make(client).await?;
    wait_running(client, name, 1, 10).await
}

/// Invalid amounts: each affects only itself, `/debug/queues` names it, and no other queue is affected.
pub(in crate::cases) async fn amounts(w: &mut World) -> Result<()> {
    let client = w.client();
    let port = w.scheduler()?.port();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    // The spec, what happens to a pod of 1 cpu, and the field that is reported.
    let cases = [
        ("negative", json!({"capability": {"cpu": "-1"}}), false, "capability.cpu"),
        ("negative-number", json!({"capability": {"cpu": -1}}), false, "capability.cpu"),
        ("zero", json!({"capability": {"cpu": 0}}), false, ""),
        ("unset", json!({"capability": {}}), true, ""),
        ("another", json!({"capability": {"example.com/unknown": "1"}}), true, ""),
        ("huge", json!({"capability": {"cpu": "9223372036854775808"}}), true, "capability.cpu"),
        ("huger", json!({"capability": {"cpu": "9e40"}}), true, "capability.cpu"),
        ("tiny", json!({"capability": {"cpu": "1n"}}), false, ""),
        ("promises-less-than-nothing", json!({"guarantee": {"resource": {"cpu": "-5"}}, "deserved": {"cpu": "-5"}}), true, "guarantee"),
        ("promises-too-much", json!({"guarantee": {"resource": {"memory": "8Ei"}}}), true, "guarantee"),
        ("weighs-nothing", json!({"weight": 0}), true, ""),
        ("weighs-less", json!({"weight": -3, "priority": -2_147_483_648_i64}), true, ""),
        ("no-strategy", json!({"dequeueStrategy": "whatever"}), true, "dequeueStrategy"),
        ("misspelt", json!({"capabilty": {"cpu": "0"}}), true, "capabilty"),
    ];
    for (name, spec, _, _) in &cases {
        // An amount that the API server refuses does not reach us.
        if make_queue_of(&client, name, spec.clone()).await.is_ok() {
            Workload::new(name).queue(name).make(&client).await?;
        }
    }
    make_queue(&client, "good", None, &[]).await?;
    run_one_pod(&client, "meanwhile").await?;
    let mut tried = 0;
    for (name, _, runs, fault) in &cases {
        if queues(&client).get_opt(name).await?.is_none() {
            continue;
        }
        tried += 1;
        if *runs {
            wait_running(&client, name, 1, 10).await?;
        } else {
            let group = wait_one_group(&client, name, 10).await?.name_any();
            group_says(&client, &group, &format!("queue \"{name}\" is over its quota: cpu requested 1, used 0, capability")).await?;
            stays_unbound(w, name, 0).await?;
        }
        wait_reported(port, name, fault).await?;
    }
    anyhow::ensure!(tried >= 9, "the API server accepted only {tried} of these queues");
    for (name, _, runs, _) in &cases {
        if !runs && queues(&client).get_opt(name).await?.is_some() {
            patch_queue(&client, name, json!({"spec": {"capability": {"cpu": "1"}}})).await?;
            wait_running(&client, name, 1, 10).await?;
            wait_reported(port, name, "").await?;
        }
    }
    queue_complains(&client, "misspelt", "spec \"capabilty\": no such field").await?;
    patch_queue(&client, "misspelt", json!({"spec": {"capabilty": null, "capability": {"cpu": "1"}}})).await?;
    wait_reported(port, "misspelt", "").await?;
    misspelt_podgroup(&client).await
}

/// A PodGroup with a misspelt field: the field has no effect, and an Event names it.
async fn misspelt_podgroup(client: &Client) -> Result<()> {
    make_podgroup(client, "by-hand", json!({"minMembers": 2})).await?;
    complains(client, "PodGroup", "by-hand", "UnknownField", "spec \"minMembers\": no such field").await?;
    make_member(client, "alone", "by-hand", &[("cpu", "1")]).await?;
    wait_running(client, "by-hand", 1, 10).await
}

/// Waits until `/debug/queues` reports a fault of this queue in the field; with an empty field, until it reports no fault.
async fn wait_reported(port: u16, queue: &str, field: &str) -> Result<()> {
    wait_until(secs(10), &format!("/debug/queues reports {field:?} for queue {queue}"), || async {
        let all = http::json(port, "/debug/queues").await?;
        let list = all.get("queues").and_then(Value::as_array).cloned().unwrap_or_default();
        let found = list.into_iter().find(|each| each.get("name").is_some_and(|name| name == queue));
        let faults = found.and_then(|found| found.get("faults").cloned()).unwrap_or_default();
        let texts: Vec<String> = faults.as_array().into_iter().flatten().map(ToString::to_string).collect();
        let right = if field.is_empty() { texts.is_empty() } else { texts.iter().any(|text| text.contains(field)) };
        Ok(Seen::when(right, || format!("{texts:?}")))
    })
    .await
}

/// Waits until an Event on the queue contains `part`.
async fn queue_complains(client: &Client, queue: &str, part: &str) -> Result<()> {
    complains(client, "Queue", queue, "InvalidQueue", part).await
}

/// Waits for an Event on a Queue or PodGroup with this reason and a message that contains `part`.
async fn complains(client: &Client, kind: &str, name: &str, wanted: &str, part: &str) -> Result<()> {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    wait_until(secs(10), &format!("an Event {wanted} on {kind} {name} contains: {part}"), || async {
        let about = ListParams::default().fields(&format!("involvedObject.kind={kind},involvedObject.name={name}"));
        let messages: Vec<_> = events.list(&about).await?.items.into_iter().map(|event| (event.reason, event.message)).collect();
        let right = |(reason, message): &(Option<String>, Option<String>)| {
            reason.as_deref() == Some(wanted) && message.as_deref().is_some_and(|message| message.contains(part))
        };
        Ok(Seen::when(messages.iter().any(right), || format!("{messages:?}")))
    })
    .await
}
