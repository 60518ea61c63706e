//! Rows A6 and A10: bindings while earlier changes are still in progress: pods that terminate, and PodGroups that the scheduler has not seen up to date.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::ledger::{GPU, stays_unbound};
use super::seen::{bound, group_says, pod_says, queue_uses};
use crate::faults::{Fault, Rule, StreamFault, Verb};
use crate::objects::{NAMESPACE, make_member, make_node, make_podgroup, make_queue, podgroups};
use crate::wait::{Seen, holds_for, millis, secs, wait_until};
use crate::workloads::owner::{Owner, group_name};
use crate::workloads::{QUEUE, kubelet, wait_running};
use crate::world::World;

/// A6. A pod with a grace period of 600 s that uses all GPUs of the queue is deleted. A replacement is created, and another node has free GPUs. The
/// replacement waits until the old pod is really gone.
pub(super) async fn terminating_pod_still_counts(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["g1", "g2"] {
        make_node(&client, node, &[("cpu", "8"), ("memory", "64Gi"), (GPU, "2")]).await?;
    }
    make_queue(&client, "team", None, &[(GPU, "2")]).await?;
    let pod = |name: &str| Owner::pod(name).asks(&[("cpu", "1"), (GPU, "2")]).pod_annotation(QUEUE, "team");
    pod("holder").with("/spec", "terminationGracePeriodSeconds", json!(600)).played_by_the_case().make(&client).await?;
    kubelet::run(&client, "holder", 1, 20).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete("holder", &DeleteParams::default()).await?;
    wait_until(secs(10), "the old pod is terminating", || async {
        let leaves = pods.get("holder").await?.metadata.deletion_timestamp;
        Ok(Seen::when(leaves.is_some(), || "it has no deletion timestamp".to_owned()))
    })
    .await?;
    let replacement = pod("replacement").make(&client).await?;
    group_says(&client, &group_name(&replacement), "queue \"team\" is over its quota: nvidia.com/gpu requested 2, used 2, capability 2")
        .await?;
    stays_unbound(w, "replacement", 3).await?;
    queue_uses(&client, "team", GPU, "2").await?;
    pods.delete("holder", &DeleteParams::default().grace_period(0)).await?;
    wait_running(&client, "replacement", 1, 10).await?;
    queue_uses(&client, "team", GPU, "2").await
}

/// A10 (#6010). A user raises minMember of a running gang of 4 to 8 and creates 4 more pods; only 2 of them fit. The scheduler's watch of PodGroups lags by
/// three seconds. 4 pods are bound, and 8 when they fit, never 5 to 7 for long.
pub(super) async fn minimum_raised_unseen(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "6"), ("memory", "64Gi")]).await?;
    make_podgroup(&client, "gang", json!({"minMember": 4, "queue": "default"})).await?;
    for number in 0..4 {
        make_member(&client, &format!("gang-{number}"), "gang", &[("cpu", "1")]).await?;
    }
    wait_running(&client, "gang", 4, 10).await?;
    w.aim(Rule {
        verb: Some(Verb::Watch),
        resource: "podgroups",
        name: None,
        fault: Fault::Stream(millis(0), StreamFault::Hold(secs(3))),
        times: 1,
    })?;
    w.scheduler_path()?.cut();
    wait_until(secs(10), "the watch of PodGroups lags", || async {
        let hits = w.hits("watch-hold")?;
        Ok(Seen::when(hits == 1, || "the watch is not open yet".to_owned()))
    })
    .await?;
    let raised = Patch::Merge(json!({"spec": {"minMember": 8}}));
    podgroups(&client).patch("gang", &PatchParams::default(), &raised).await?;
    for number in 4..8 {
        make_member(&client, &format!("gang-{number}"), "gang", &[("cpu", "1")]).await?;
    }
    holds_for(secs(5), "four are bound", || async {
        let count = bound(&client, "gang").await?;
        Ok(Seen::when(count == 4, || format!("{count} are bound")))
    })
    .await?;
    pod_says(&client, "gang", "2 of 4 members find a place").await?;
    make_node(&client, "n2", &[("cpu", "2"), ("memory", "64Gi")]).await?;
    wait_running(&client, "gang", 8, 10).await
}
