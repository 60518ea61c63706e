//! Writes the status of pods in place of a kubelet, for pods that kwok leaves to the case.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{phases, pods_of};
use crate::objects::{NAMESPACE, has_node};
use crate::wait::{Seen, secs, wait_until};

/// Waits until `name` has `count` bound pods, and makes them run.
pub async fn run(client: &Client, name: &str, count: usize, seconds: u64) -> Result<()> {
    let waiting = wait_until(secs(seconds), &format!("{count} pods of {name} are bound"), || async {
        let pods: Vec<Pod> = pods_of(client, name).await?.into_iter().filter(living).collect();
        let all = pods.len() == count && pods.iter().all(has_node);
        let seen = format!("{:?}", phases(&pods));
        Ok(if all { Seen::Yes(pods) } else { Seen::NotYet(seen) })
    })
    .await?;
    for pod in waiting {
        let conditions: Vec<_> =
            ["Initialized", "Ready", "ContainersReady"].iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        write_status(client, &pod, json!({"phase": "Running", "conditions": conditions})).await?;
    }
    Ok(())
}

/// Ends the first `count` running pods of `name` with the phase `Succeeded` or `Failed`.
pub async fn end(client: &Client, name: &str, count: usize, phase: &str) -> Result<()> {
    let running: Vec<Pod> = pods_of(client, name).await?.into_iter().filter(living).collect();
    anyhow::ensure!(running.len() >= count, "{name} has only {} running pods", running.len());
    for pod in running.iter().take(count) {
        end_one(client, pod, phase).await?;
    }
    Ok(())
}

/// Ends this pod with the phase `Succeeded` or `Failed`.
pub async fn end_one(client: &Client, pod: &Pod, phase: &str) -> Result<()> {
    let code = i32::from(phase == "Failed");
    let ended = json!([{
        "name": "main", "image": "example/1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }}},
    }]);
    write_status(client, pod, json!({"phase": phase, "containerStatuses": ended})).await
}

fn living(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    !matches!(phase, "Succeeded" | "Failed")
}

async fn write_status(client: &Client, pod: &Pod, status: serde_json::Value) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(())
}
