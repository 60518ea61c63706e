//! Rows Q6 and Q7 beside another scheduler: what its pods use is not there to be guaranteed or shared.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::json;

use super::ledger::stays_unbound;
use super::seen::{accounting_matches_api, pod_says};
use crate::objects::{Amounts, NAMESPACE, make_bound_pod, make_node, make_queue, make_queue_of};
use crate::workloads::{Workload, pods_of, wait_running};
use crate::world::World;

/// Two nodes of 16 cpu; pods of another scheduler use `amounts` of the second one and all of the first.
async fn mostly_taken(client: &Client, amounts: Amounts<'_>) -> Result<()> {
    for (node, taken) in [("n1", &[("cpu", "16")][..]), ("n2", amounts)] {
        make_node(client, node, &[("cpu", "16"), ("memory", "64Gi")]).await?;
        make_bound_pod(client, &format!("theirs-{node}"), node, taken).await?;
        wait_running(client, &format!("theirs-{node}"), 1, 10).await?;
    }
    Ok(())
}

/// Q7 (Volcano's guarantee.go). Another scheduler's pods leave 2 cpu; queue1 guarantees 2. queue2 submits half a cpu: it is not bound, and queue1 gets its guarantee. When
/// the other scheduler's pod ends, queue2 has room.
pub(super) async fn guarantee_stays_free(w: &mut World) -> Result<()> {
    let client = w.client();
    mostly_taken(&client, &[("cpu", "14")]).await?;
    make_queue_of(&client, "queue1", json!({"guarantee": {"resource": {"cpu": "2"}}})).await?;
    make_queue(&client, "queue2", None, &[]).await?;
    Workload::new("greedy").asks(&[("cpu", "500m")]).queue("queue2").make(&client).await?;
    pod_says(&client, "greedy", "available to queues in the cluster 2, unused guarantees 2").await?;
    stays_unbound(w, "greedy", 2).await?;
    Workload::new("entitled").replicas(2).gang("2").queue("queue1").make(&client).await?;
    wait_running(&client, "entitled", 2, 10).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete("theirs-n2", &DeleteParams::default().grace_period(0)).await?;
    wait_running(&client, "greedy", 1, 10).await?;
    accounting_matches_api(w).await
}

/// Q6 (Volcano's Reclaim Case 10). Another scheduler's pods leave 4 cpu, which two queues hold. A third queue of the same weight submits one pod: it gets its share by
/// reclaim. More pods of another scheduler evict nothing.
pub(super) async fn share_is_reclaimed(w: &mut World) -> Result<()> {
    let client = w.client();
    mostly_taken(&client, &[("cpu", "12")]).await?;
    for name in ["a", "b", "c"] {
        make_queue(&client, name, None, &[]).await?;
    }
    for name in ["a", "b"] {
        Workload::new(name).replicas(2).asks(&[("cpu", "1")]).queue(name).make(&client).await?;
        wait_running(&client, name, 2, 10).await?;
    }
    make_bound_pod(&client, "theirs-too", "n2", &[("cpu", "2")]).await?;
    wait_running(&client, "theirs-too", 1, 10).await?;
    for name in ["a", "b"] {
        let leaving = pods_of(&client, name).await?.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
        ensure!(leaving == 0, "{leaving} pods of {name} leave, and no PodGroup waits");
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete("theirs-too", &DeleteParams::default().grace_period(0)).await?;
    Workload::new("c").asks(&[("cpu", "1")]).queue("c").make(&client).await?;
    wait_running(&client, "c", 1, 10).await?;
    accounting_matches_api(w).await
}
