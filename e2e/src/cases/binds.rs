//! Rows B1, B3 and B6: bindings that fail. The node stays charged until the outcome is known, and is released if the binding failed.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::seen::{accounting_matches_api, accounting_matches_api_within, bound, metric, queue_uses};
use crate::faults::{Fault, Refusal, Rule, Verb};
use crate::objects::{NAMESPACE, condition, container, has_node, make_member, make_node, make_pod, make_podgroup, make_queue, podgroups};
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::owner::Owner;
use crate::workloads::{Workload, pods_of, wait_running};
use crate::world::World;

/// The fault of the binding of each member of the gang.
const WRONG: [(&str, Fault); 10] = [
    ("gang-cut-before", Fault::CutBefore),
    ("gang-cut-middle", Fault::CutMiddle),
    ("gang-lost", Fault::LoseReply),
    ("gang-late", Fault::Late(secs(2))),
    ("gang-500", Fault::Refuse(Refusal::Internal)),
    ("gang-502", Fault::Refuse(Refusal::Gateway)),
    ("gang-429", Fault::Refuse(Refusal::TooMany { after: 1, plain: false })),
    ("gang-504", Fault::Refuse(Refusal::Timeout)),
    // Longer than the scheduler waits for a response.
    ("gang-slow-answer", Fault::DelayResponse(secs(4))),
    ("gang-slow-request", Fault::DelayRequest(secs(4))),
];

/// B1. Each member of a gang meets another fault: a lost response, a late request, refusals for a while, a timeout. In the end the whole
/// gang is bound, each member where its first attempt may have put it, and a pod that does not fit into the queue is never bound in
/// between.
pub(super) async fn every_binding_fails_differently(w: &mut World) -> Result<()> {
    let client = w.client();
    with_short_timeout(w).await?;
    for node in ["n1", "n2"] {
        make_node(&client, node, &[("cpu", "5"), ("memory", "16Gi")]).await?;
    }
    make_queue(&client, "team", None, &[("cpu", "10")]).await?;
    make_podgroup(&client, "gang", json!({"minMember": 10, "queue": "team"})).await?;
    for (name, fault) in WRONG {
        inject(w, Some(name), fault)?;
        make_member(&client, name, "gang", &[("cpu", "1")]).await?;
    }
    wait_until(secs(10), "every pod without a cut, lost or late binding is bound", || async {
        let count = bound(&client, "gang").await?;
        Ok(Seen::when(count >= 3, || format!("{count} are bound")))
    })
    .await?;
    Workload::new("next").queue("team").make(&client).await?;
    wait_running(&client, "gang", 10, 15).await?;
    stays_unbound(w, "next", 3).await?;
    let hit: u64 = w.faults().values().sum();
    ensure!(hit == 10, "{hit} bindings went wrong: {:?}", w.faults());
    queue_uses(&client, "team", "cpu", "10").await?;
    accounting_matches_api(w).await
}

/// B3. A node is deleted between the decision and the binding, and the API server still accepts the binding. The pod is charged there and
/// nowhere else, also when the node is back, until the pod is gone.
pub(super) async fn node_gone(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "1"), ("memory", "16Gi")]).await?;
    // The binding is decided, and then late by as much as the fault delays it.
    w.watched()?.patient(millis(1500));
    inject(w, None, Fault::DelayRequest(millis(1500)))?;
    Workload::new("first").make(&client).await?;
    wait_delayed(w, 1).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("n1", &DeleteParams::default().grace_period(0)).await?;
    wait_until(secs(10), "the binding has arrived", || async {
        let count = bound(&client, "first").await?;
        Ok(Seen::when(count == 1, || "it has not arrived".to_owned()))
    })
    .await?;
    queue_uses(&client, "default", "cpu", "1").await?;
    accounting_matches_api(w).await?;
    Workload::new("second").make(&client).await?;
    make_node(&client, "n1", &[("cpu", "1"), ("memory", "16Gi")]).await?;
    stays_unbound(w, "second", 2).await?;
    accounting_matches_api(w).await?;
    // The pod garbage collector deletes a pod when its node is gone.
    let pod = pods_of(&client, "first").await?.first().map(ResourceExt::name_any).context("no pod")?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete(&pod, &DeleteParams::default().grace_period(0)).await?;
    // The older workload first: its pod is not new.
    wait_running(&client, "second", 1, 10).await?;
    stays_unbound(w, "first", 1).await?;
    make_node(&client, "n2", &[("cpu", "1"), ("memory", "16Gi")]).await?;
    wait_running(&client, "first", 1, 10).await?;
    queue_uses(&client, "default", "cpu", "2").await?;
    w.watched()?.strict();
    accounting_matches_api(w).await
}

/// How many pods of one namespace wait for their binding: more than the scheduler sends at the same time.
const BLOCKED: usize = 40;

/// B6. A webhook for the bindings of one namespace has no backend. The pods there wait with a reason. The pods of other namespaces are
/// bound as usual. When the webhook is deleted, all pods are bound.
pub(super) async fn webhook_without_backend(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "64Gi")]).await?;
    Owner::namespace("other").make(&client).await?;
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let hook = serde_json::from_value(json!({
        "metadata": {"name": "bindings"},
        "webhooks": [{
            "name": "bindings.example.com",
            // No server listens there.
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
        }],
    }))?;
    hooks.create(&PostParams::default(), &hook).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    make_pod(
        &client,
        json!({"metadata": {"name": "probe"}, "spec": {"schedulerName": "nobodys", "containers": [container(&[("cpu", "1")])]}}),
    )
    .await?;
    wait_until(secs(10), "the webhook is in force", || async {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "probe"}, "target": {"kind": "Node", "name": "n1"}});
        let answer = pods.create_subresource::<Value, Value>("binding", "probe", &dry_run, &body).await;
        Ok(Seen::when(answer.is_err_and(|error| error.to_string().contains("failed calling webhook")), || "it is not in force".to_owned()))
    })
    .await?;
    pods.delete("probe", &DeleteParams::default().grace_period(0)).await?;

    make_podgroup(&client, "blocked", json!({"minMember": BLOCKED})).await?;
    for index in 0..BLOCKED {
        make_member(&client, &format!("blocked-{index}"), "blocked", &[("cpu", "1")]).await?;
    }
    let port = w.scheduler()?.port();
    let in_vain = "podgroup_api_requests_total{outcome=\"webhook_unavailable\",resource=\"pods/binding\",verb=\"create\"}";
    wait_until(secs(15), "every binding was sent and refused", || async {
        let sent = metric(port, in_vain).await.unwrap_or_default();
        Ok(Seen::when(sent >= f64::from(u8::try_from(BLOCKED)?), || format!("{sent} were")))
    })
    .await?;
    Owner::deployment("web").replicas(3).gang("3").make_in(&client, "other").await?;
    wait_until(secs(10), "the gang of the other namespace is bound", || async {
        let all = Api::<Pod>::namespaced(client.clone(), "other").list(&ListParams::default()).await?.items;
        let bound = all.iter().filter(|pod| has_node(pod)).count();
        Ok(Seen::when(bound == 3, || format!("{bound} of {} are bound", all.len())))
    })
    .await?;
    // A binding is given up after 20 s, and the other pods of the gang have their turn before that is said.
    wait_until(secs(60), "the blocked pods say why", || async {
        let said = condition(&podgroups(&client).get("blocked").await?, "Unschedulable");
        let says = |(status, _, message): &(String, String, String)| status == "True" && message.contains("webhook_unavailable");
        Ok(Seen::when(said.as_ref().is_some_and(says), || format!("{said:?}")))
    })
    .await?;
    wait_until(secs(10), "an Event says why, too", || async {
        let events = Api::<Event>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await?.items;
        let about =
            |event: &&Event| event.involved_object.name.as_deref() == Some("blocked") && event.reason.as_deref() == Some("Unschedulable");
        let messages: Vec<_> = events.iter().filter(about).filter_map(|event| event.message.as_deref()).collect();
        Ok(Seen::when(messages.iter().any(|message| message.contains("webhook_unavailable")), || format!("{messages:?}")))
    })
    .await?;
    let log = std::fs::read_to_string(w.scheduler()?.log())?;
    ensure!(log.lines().any(|line| line.contains("WARN") && line.contains("bindings.example.com")), "the log does not name the webhook");
    ensure!(bound(&client, "blocked").await? == 0, "a pod was bound without the webhook");
    // The next attempt may have begun, which takes 20 s and counts the pods; the back-off after it is longer each time.
    accounting_matches_api_within(w, 120).await?;

    hooks.delete("bindings", &DeleteParams::default()).await?;
    wait_running(&client, "blocked", BLOCKED, 90).await?;
    queue_uses(&client, "default", "cpu", "43").await?;
    accounting_matches_api(w).await
}

/// Injects a fault into the next binding (of this pod).
fn inject(w: &World, name: Option<&'static str>, fault: Fault) -> Result<()> {
    w.inject(Rule { verb: Some(Verb::Create), resource: "pods/binding", name, fault, times: 1 })
}

/// Waits until `count` bindings have been delayed.
async fn wait_delayed(w: &World, count: u64) -> Result<()> {
    wait_until(secs(15), &format!("{count} bindings were delayed"), || async {
        let seen = w.hits("delay-request")?;
        Ok(Seen::when(seen == count, || seen.to_string()))
    })
    .await
}

/// Starts the scheduler with a request timeout of two seconds instead of ten.
async fn with_short_timeout(w: &mut World) -> Result<()> {
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--request-timeout=2s");
    scheduler.restart().await
}
