//! Row P9: a pod of kube-scheduler waits for its victim, and its node is nominated for it. Pods of ours of the same or a lower priority
//! leave that room.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::json;

use super::handover::make_classes;
use super::ledger::stays_unbound;
use super::preempted::{add_finalizers, gang, release};
use super::seen::{accounting_matches_api, group_says, pod_says};
use crate::http;
use crate::objects::{NAMESPACE, container, make_node, make_pod, make_queue, milli_of};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::wait_running;
use crate::world::World;

/// Creates a pod of kube-scheduler.
async fn theirs(client: &Client, name: &str, class: &str, cpu: &str) -> Result<()> {
    let spec = json!({"priorityClassName": class, "terminationGracePeriodSeconds": 0, "containers": [container(&[("cpu", cpu)])]});
    make_pod(client, json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})).await
}

/// Waits until the ledger of `n1` has so much cpu nominated.
async fn nominated(port: u16, cpu: i64) -> Result<()> {
    wait_until(secs(10), &format!("{cpu} cpu of n1 are nominated"), || async {
        let ledger = http::json(port, "/debug/ledger").await?;
        let node = ledger.pointer("/nodes/0").cloned().unwrap_or_default();
        let seen = milli_of(node.pointer("/nominated/cpu"));
        Ok(Seen::when(seen == Some(cpu * 1000), || node.to_string()))
    })
    .await
}

/// P9. kube-scheduler preempts a pod for one of its own and stands still before the victim is gone. Then the node is empty but for what is
/// nominated: our pods of the same and of a lower priority wait, and the one that fits beside it is bound at once. kube-scheduler goes on
/// and has its room. When its pod is gone, ours follow.
pub(super) async fn by_kube_scheduler(w: &mut World) -> Result<()> {
    let client = w.client();
    let port = w.scheduler()?.port();
    make_classes(&client).await?;
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "64")]).await?;
    theirs(&client, "victim", "low", "3").await?;
    wait_running(&client, "victim", 1, 10).await?;
    add_finalizers(&client, "victim").await?;
    theirs(&client, "preemptor", "high", "3").await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until(secs(10), "kube-scheduler nominates n1 for its pod", || async {
        let node = pods.get("preemptor").await?.status.and_then(|status| status.nominated_node_name);
        Ok(Seen::when(node.as_deref() == Some("n1"), || format!("{node:?}")))
    })
    .await?;
    // It names the node first, and deletes its victim after that.
    wait_until(secs(10), "kube-scheduler deletes its victim", || async {
        let terminates = pods.get("victim").await?.metadata.deletion_timestamp.is_some();
        Ok(Seen::when(terminates, || "it runs".to_owned()))
    })
    .await?;
    nominated(port, 3).await?;
    w.cluster().signal("kube-scheduler", "STOP").await?;
    let beside = stands_still(w, &client).await;
    w.cluster().signal("kube-scheduler", "CONT").await?;
    beside?;
    wait_running(&client, "preemptor", 1, 10).await?;
    nominated(port, 0).await?;
    stays_unbound(w, "same", 1).await?;
    pods.delete("preemptor", &DeleteParams::default().grace_period(0)).await?;
    wait_running(&client, "same", 1, 10).await?;
    stays_unbound(w, "lower", 1).await?;
    accounting_matches_api(w).await
}

/// While kube-scheduler stands still.
async fn stands_still(w: &mut World, client: &Client) -> Result<()> {
    release(client, "victim").await?;
    wait_running(client, "victim", 0, 10).await?;
    for (name, class) in [("same", "high"), ("lower", "low")] {
        gang(client, name, "team", class, 1, "2").await?;
        group_says(client, name, "0/1 nodes are available: 1 Insufficient cpu; cpu: requested 2, most free 1").await?;
        pod_says(client, name, "Insufficient cpu").await?;
    }
    gang(client, "beside", "team", "low", 1, "1").await?;
    wait_running(client, "beside", 1, 10).await?;
    stays_unbound(w, "same", 2).await?;
    stays_unbound(w, "lower", 1).await
}
