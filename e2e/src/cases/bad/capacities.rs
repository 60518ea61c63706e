//! Nodes with an invalid allocatable, and pods with impossible requests.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::cases::ledger::{GPU, stays_unbound};
use crate::cases::seen::{accounting_matches_api, group_says, pod_says, queue_uses};
use crate::objects::{make_node, set_allocatable};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, delete, wait_one_group, wait_running};
use crate::world::World;
use crate::{http, say};

/// The number of resource names that a node reports.
const NAMES: usize = 3000;

/// A node with a negative amount of a device takes no pod that requests the device, takes every other pod, says why, and recovers. A node with thousands of
/// resources is a normal node.
pub(in crate::cases) async fn nodes(w: &mut World) -> Result<()> {
    let client = w.client();
    let port = w.scheduler()?.port();
    make_node(&client, "odd", &[("cpu", "4"), ("memory", "16Gi"), (GPU, "2")]).await?;
    Workload::new("holds").asks(&[(GPU, "1")]).make(&client).await?;
    wait_running(&client, "holds", 1, 10).await?;
    let below = set_allocatable(&client, "odd", &[(GPU, "-1")]).await;
    say::line(format!("        the API server and a negative allocatable: {}", if below.is_ok() { "accepted" } else { "refused" }));
    if below.is_err() {
        set_allocatable(&client, "odd", &[(GPU, "0")]).await?;
    } else {
        wait_reported(port, "odd", "allocatable.nvidia.com/gpu").await?;
    }
    Workload::new("device").asks(&[(GPU, "1")]).make(&client).await?;
    Workload::new("plain").make(&client).await?;
    wait_running(&client, "plain", 1, 10).await?;
    let group = wait_one_group(&client, "device", 10).await?.name_any();
    group_says(&client, &group, "Insufficient nvidia.com/gpu; nvidia.com/gpu: requested 1, most free 0").await?;
    stays_unbound(w, "device", 1).await?;
    set_allocatable(&client, "odd", &[(GPU, "2")]).await?;
    wait_running(&client, "device", 1, 10).await?;
    wait_reported(port, "odd", "").await?;

    make_node(&client, "wide", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    let names: serde_json::Map<String, Value> = (0..NAMES).map(|number| (format!("example.com/r{number}"), json!("1"))).collect();
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"status": {"allocatable": names, "capacity": names}});
    nodes.patch_status("wide", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Workload::new("last").asks(&[("example.com/r2999", "1")]).make(&client).await?;
    wait_running(&client, "last", 1, 10).await?;
    Workload::new("none").asks(&[("example.com/r3000", "1")]).make(&client).await?;
    let group = wait_one_group(&client, "none", 10).await?.name_any();
    group_says(&client, &group, "0/2 nodes are available: 2 Insufficient example.com/r3000").await?;
    nodes.delete("wide", &DeleteParams::default().grace_period(0)).await?;
    wait_until(secs(10), "the ledger keeps the charges of a deleted node", || async {
        let ledger = http::json(port, "/debug/ledger").await?;
        let missing = ledger.get("missingNodes").map(ToString::to_string).unwrap_or_default();
        Ok(Seen::when(missing.contains("\"wide\"") && missing.contains("example.com/r2999"), || missing))
    })
    .await?;
    delete(&client, "last").await?;
    wait_running(&client, "last", 0, 10).await?;
    accounting_matches_api(w).await
}

/// Waits until the ledger reports a fault of this node in the field; with an empty field, until it reports no fault.
async fn wait_reported(port: u16, node: &str, field: &str) -> Result<()> {
    wait_until(secs(10), &format!("the ledger reports {field:?} for node {node}"), || async {
        let ledger = http::json(port, "/debug/ledger").await?;
        let nodes = ledger.get("nodes").and_then(Value::as_array).cloned().unwrap_or_default();
        let found = nodes.into_iter().find(|each| each.get("name").is_some_and(|name| name == node)).unwrap_or_default();
        let faults = found.get("faults").and_then(Value::as_array).cloned().unwrap_or_default();
        let right = if field.is_empty() { faults.is_empty() } else { faults.iter().any(|fault| fault.to_string().contains(field)) };
        Ok(Seen::when(right, || found.to_string()))
    })
    .await
}

/// Pods that request 9 Ei, 0, and an unknown resource. The pod with request 0 runs, the others say exactly what is missing, and no other pod waits for them.
/// The pod with the unknown resource runs when a node has the resource.
pub(in crate::cases) async fn pods(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    // The API server reduces larger amounts to its maximum. The sum of two such amounts exceeds the maximum; the message names the sum.
    for (name, members, asks, why) in [
        ("nine", 1, ("memory", "9Ei"), "Insufficient memory; memory: requested 9"),
        ("most", 1, ("memory", "9223372036854775807"), "Insufficient memory; memory: requested 9"),
        ("sum", 2, ("memory", "9Ei"), "spec.minResources.memory \"18446744073709551614\": too large"),
        ("cores", 2, ("cpu", "9000000000000000"), "Insufficient cpu; cpu: requested 9"),
        ("unicorn", 2, ("example.com/unicorn", "1"), "Insufficient example.com/unicorn; example.com/unicorn: requested 1, most free 0"),
    ] {
        Workload::new(name).replicas(members).gang(&members.to_string()).asks(&[asks]).make(&client).await?;
        let group = wait_one_group(&client, name, 10).await?.name_any();
        group_says(&client, &group, why).await?;
        pod_says(&client, name, why).await?;
    }
    Workload::new("nothing").replicas(2).gang("2").asks(&[("cpu", "0"), ("memory", "0")]).make(&client).await?;
    wait_running(&client, "nothing", 2, 10).await?;
    Workload::new("other").make(&client).await?;
    wait_running(&client, "other", 1, 10).await?;
    for name in ["nine", "most", "sum", "cores", "unicorn"] {
        stays_unbound(w, name, 0).await?;
    }
    set_allocatable(&client, "n1", &[("example.com/unicorn", "2")]).await?;
    wait_running(&client, "unicorn", 2, 10).await?;
    unschedulable_is_over(&client, "unicorn").await?;
    queue_uses(&client, "default", "cpu", "1").await?;
    queue_uses(&client, "default", "example.com/unicorn", "2").await?;
    let port = w.scheduler()?.port();
    let audit = http::json(port, "/debug/audit").await?;
    ensure!(audit.get("differences").and_then(Value::as_array).is_some_and(Vec::is_empty), "the audit finds differences: {audit}");
    Ok(())
}

async fn unschedulable_is_over(client: &Client, name: &str) -> Result<()> {
    let group = wait_one_group(client, name, 10).await?.name_any();
    crate::cases::queues::no_longer_unschedulable(client, &group).await
}
