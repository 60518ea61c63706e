//! What may be bound while what was decided before is not over: pods that are leaving, and groups that the scheduler has not seen the last of? Row A6.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use super::ledger::{GPU, stays_unbound};
use super::seen::{group_says, queue_uses};
use crate::objects::{NAMESPACE, make_node, make_queue};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Owner, group_name};
use crate::workloads::{QUEUE, kubelet, wait_running};
use crate::world::World;

/// A6. A pod with a grace period of 600 s that holds all of the queue's GPUs is deleted; a replacement is submitted; another node has free GPUs: the
/// replacement waits until the pod is really gone.
pub(super) async fn leaving_still_counts(w: &mut World) -> Result<()> {
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
    wait_until(secs(5), "the holder is being deleted", || async {
        let leaves = pods.get("holder").await?.metadata.deletion_timestamp;
        Ok(Seen::when(leaves.is_some(), || "it is not".to_owned()))
    })
    .await?;
    let replacement = pod("replacement").make(&client).await?;
    group_says(&client, &group_name(&replacement), "queue team is full: nvidia.com/gpu asked 2, used 2 of capability 2").await?;
    stays_unbound(w, "replacement", 3).await?;
    queue_uses(&client, "team", GPU, "2").await?;
    pods.delete("holder", &DeleteParams::default().grace_period(0)).await?;
    wait_running(&client, "replacement", 1, 5).await?;
    queue_uses(&client, "team", GPU, "2").await
}
