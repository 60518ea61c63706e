//! Rows A1 and A3: the accounting is right when nodes change under running pods.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::Value;

use super::seen::pod_says;
use crate::http;
use crate::objects::{NAMESPACE, make_bound_pod, make_node, make_static_pod, milli_of, set_allocatable};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, phases, pods_of, scale, wait_running};
use crate::world::World;

/// The resource of the device plugin of the case's node.
pub(crate) const GPU: &str = "nvidia.com/gpu";

/// A1 (#3301, #3392). A node with 8 GPUs in use reports 6, 0, then 8 GPUs. Pods with 1 GPU and a daemon pod without GPUs are created. No program crashes;
/// no GPU pod is bound there until used < allocatable; the daemon pod is bound; the node recovers by itself.
pub(super) async fn devices_fail_and_heal(w: &mut World) -> Result<()> {
    let client = w.client();
    let port = w.scheduler()?.port();
    make_node(&client, "gpu-0", &[("cpu", "32"), ("memory", "64Gi"), (GPU, "8")]).await?;
    Workload::new("holders").replicas(8).asks(&[("cpu", "1"), (GPU, "1")]).make(&client).await?;
    wait_running(&client, "holders", 8, 10).await?;

    set_allocatable(&client, "gpu-0", &[(GPU, "6")]).await?;
    wait_overcommitted(port, "gpu-0", GPU, 2).await?;
    Workload::new("late").asks(&[("cpu", "1"), (GPU, "1")]).make(&client).await?;
    // Like a DaemonSet's pod: its affinity selects this node, and it requests no device.
    Workload::new("repair").asks(&[("cpu", "100m")]).on_node("gpu-0").make(&client).await?;
    wait_running(&client, "repair", 1, 10).await?;
    stays_unbound(w, "late", 3).await?;

    set_allocatable(&client, "gpu-0", &[(GPU, "0")]).await?;
    wait_overcommitted(port, "gpu-0", GPU, 8).await?;
    scale(&client, "repair", 2).await?;
    wait_running(&client, "repair", 2, 10).await?;
    stays_unbound(w, "late", 3).await?;

    set_allocatable(&client, "gpu-0", &[(GPU, "8")]).await?;
    wait_overcommitted(port, "gpu-0", GPU, 0).await?;
    // Full, but no longer overcommitted: no capacity for another pod yet.
    stays_unbound(w, "late", 2).await?;
    scale(&client, "holders", 7).await?;
    wait_running(&client, "late", 1, 10).await
}

/// A3. Static pods and pods with a nodeName overcommit a node: they are counted; the node takes no further pod, says so, and recovers.
pub(super) async fn overfilled_from_outside(w: &mut World) -> Result<()> {
    let client = w.client();
    let port = w.scheduler()?.port();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    make_static_pod(&client, "static", "n1", &[("cpu", "3")]).await?;
    make_bound_pod(&client, "placed", "n1", &[("cpu", "3")]).await?;
    wait_running(&client, "static", 1, 10).await?;
    wait_running(&client, "placed", 1, 10).await?;
    wait_overcommitted(port, "n1", "cpu", 2).await?;
    Workload::new("late").make(&client).await?;
    stays_unbound(w, "late", 3).await?;
    pod_says(&client, "late", "cpu").await?;

    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete("placed", &DeleteParams::default().grace_period(0)).await?;
    wait_overcommitted(port, "n1", "cpu", 0).await?;
    wait_running(&client, "late", 1, 10).await
}

/// Waits until the scheduler's ledger says that `node` is overcommitted by `units` of `dimension`; 0 means not overcommitted.
pub(crate) async fn wait_overcommitted(port: u16, node: &str, dimension: &str, units: i64) -> Result<()> {
    wait_until(secs(10), &format!("the ledger reports {node} overcommitted by {units} of {dimension}"), || async {
        let ledger = http::json(port, "/debug/ledger").await?;
        let nodes = ledger.get("nodes").and_then(Value::as_array).context("the ledger has no nodes")?;
        let Some(entry) = nodes.iter().find(|each| each.get("name").is_some_and(|name| name == node)) else {
            return Ok(Seen::NotYet(format!("the ledger has no node {node}")));
        };
        let amount = entry.get("overcommitted").and_then(|all| all.get(dimension));
        let over = milli_of(amount).with_context(|| format!("an invalid amount: {entry}"))?;
        Ok(Seen::when(over == units * 1000, || entry.to_string()))
    })
    .await
}

/// Fails as soon as a pod of `name` is bound within `seconds`, or the scheduler ends.
pub(crate) async fn stays_unbound(w: &mut World, name: &str, seconds: u64) -> Result<()> {
    let client = w.client();
    holds_for(secs(seconds), &format!("no pod of {name} is bound"), || {
        let ended = w.programs().find_map(|program| program.unexpected_end());
        let client = client.clone();
        async move {
            if let Some(end) = ended {
                return Ok(Seen::NotYet(end));
            }
            let phases = phases(&pods_of(&client, name).await?);
            Ok(Seen::when(phases.keys().all(|phase| phase.ends_with("unbound")), || format!("{phases:?}")))
        }
    })
    .await
}

/// Returns the message of the pod's condition PodScheduled=False, if it has this condition.
pub(crate) fn why_unscheduled(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|each| each.type_ == "PodScheduled" && each.status == "False")?.message.clone()
}
