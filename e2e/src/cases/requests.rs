//! Row A7: a pod that is resized is charged as the rules of Kubernetes say.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::seen::{group_says, queue_uses};
use crate::objects::{NAMESPACE, amounts, make_node, make_queue_of};
use crate::wait::{Seen, holds_for, secs};
use crate::workloads::{Workload, pods_of, wait_one_group, wait_running};
use crate::world::World;

/// A7. In-place resize of a running pod above its queue's capability: the usage is correct, and no pod is bound in the queue or on the used
/// capacity. No crash. After the resize back, the usage falls when the kubelet has done it, not when it is requested.
pub(super) async fn resized_in_place(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    // Not reclaimable: otherwise the other queue would reclaim what exceeds the share.
    make_queue_of(&client, "team", json!({"capability": {"cpu": "4"}, "reclaimable": false})).await?;
    Workload::new("grows").asks(&[("cpu", "2")]).queue("team").make(&client).await?;
    wait_running(&client, "grows", 1, 10).await?;
    queue_uses(&client, "team", "cpu", "2").await?;
    let pod = pods_of(&client, "grows").await?.first().map(ResourceExt::name_any).unwrap_or_default();
    // A kubelet that does not report allocated resources is taken for one that cannot resize.
    set_allocated(&client, &pod, "2").await?;
    resize(&client, &pod, "6").await?;
    queue_uses(&client, "team", "cpu", "6").await?;
    Workload::new("late").queue("team").make(&client).await?;
    Workload::new("other").asks(&[("cpu", "3")]).make(&client).await?;
    let group = wait_one_group(&client, "late", 10).await?.name_any();
    group_says(&client, &group, "queue \"team\" is over its quota: cpu requested 1, used 6, capability 4").await?;
    let group = wait_one_group(&client, "other", 10).await?.name_any();
    group_says(&client, &group, "Insufficient cpu; cpu: requested 3, most free 2").await?;
    stays_unbound(w, "late", 2).await?;
    stays_unbound(w, "other", 0).await?;

    set_allocated(&client, &pod, "6").await?;
    resize(&client, &pod, "1").await?;
    holds_for(secs(2), "the resources that the kubelet has allocated count", || async {
        let seen = crate::objects::field(&crate::objects::queues(&client).get("team").await?, "/status/allocated/cpu");
        Ok(Seen::when(seen == "6", || seen.to_string()))
    })
    .await?;
    stays_unbound(w, "late", 0).await?;
    set_allocated(&client, &pod, "1").await?;
    wait_running(&client, "late", 1, 10).await?;
    wait_running(&client, "other", 1, 10).await?;
    queue_uses(&client, "team", "cpu", "2").await
}

/// Resizes a pod like `kubectl patch pod --subresource resize`.
async fn resize(client: &Client, pod: &str, cpu: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let main = json!({"name": "main", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
    let patch = Patch::Strategic(json!({"spec": {"containers": [main]}}));
    pods.patch_subresource("resize", pod, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Writes the status of a kubelet that has allocated this cpu.
async fn set_allocated(client: &Client, pod: &str, cpu: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let statuses = pods.get(pod).await?.status.and_then(|status| status.container_statuses).unwrap_or_default();
    let mut statuses = json!(statuses);
    let main = statuses.get_mut(0).and_then(Value::as_object_mut).context("the container has no status")?;
    let amounts = amounts(&[("cpu", cpu)]);
    main.insert("allocatedResources".to_owned(), amounts.clone());
    main.insert("resources".to_owned(), json!({"requests": amounts, "limits": amounts}));
    pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(json!({"status": {"containerStatuses": statuses}}))).await?;
    Ok(())
}
