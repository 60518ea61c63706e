//! Row Q1: every level of the queue tree limits its subtree.

use anyhow::{Result, ensure};
use kube::{Client, ResourceExt};

use super::ledger::stays_unbound;
use super::seen::pods_wait_for;
use crate::objects::{Amounts, condition, field, make_node, make_queue, podgroups};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, delete, wait_one_group, wait_running};
use crate::world::World;

/// Half of the parent queue's capability; each job has two such pods.
pub(crate) const HALF: Amounts<'static> = &[("cpu", "1"), ("memory", "2Gi")];

/// Creates root → test-root (2 cpu, 4Gi) → test-sub-0 and test-sub-1, and a node with much more capacity.
pub(crate) async fn tree(client: &Client) -> Result<()> {
    make_node(client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(client, "test-root", Some("root"), &[("cpu", "2"), ("memory", "4Gi")]).await?;
    make_queue(client, "test-sub-0", Some("test-root"), &[]).await?;
    make_queue(client, "test-sub-1", Some("test-root"), &[]).await
}

/// Q1 (#4118). job-1 with 2 cpu and 4Gi runs in test-sub-0. job-2 with the same in test-sub-1 stays Pending with a message that names test-root. When
/// job-1 ends, job-2 runs.
pub(super) async fn parent_blocks(w: &mut World) -> Result<()> {
    let client = w.client();
    tree(&client).await?;
    Workload::new("job-1").replicas(2).gang("2").asks(HALF).queue("test-sub-0").make(&client).await?;
    wait_running(&client, "job-1", 2, 10).await?;
    Workload::new("job-2").replicas(2).gang("2").asks(HALF).queue("test-sub-1").make(&client).await?;
    let group = wait_one_group(&client, "job-2", 10).await?.name_any();
    blocked_by_parent(w, &group, "job-2").await?;
    delete(&client, "job-1").await?;
    wait_running(&client, "job-2", 2, 15).await?;
    no_longer_unschedulable(&client, &group).await
}

/// Checks that the PodGroup names the parent as its reason, is Pending, and has no bound pod.
pub(crate) async fn blocked_by_parent(w: &mut World, group: &str, pods: &str) -> Result<()> {
    let client = w.client();
    // While a member is missing, the reason is another one.
    wait_until(secs(15), "both conditions name the quota of the parent", || async {
        let object = podgroups(&client).get(group).await?;
        let (volcano, own) = (condition(&object, "Unschedulable"), condition(&object, "podgroup.dev/Waiting"));
        let is = |condition: &Option<(String, String, String)>, wanted: &str| {
            condition.as_ref().is_some_and(|(status, reason, _)| status == "True" && reason == wanted)
        };
        let named =
            volcano.as_ref().is_some_and(|(.., message)| message.starts_with("QueueQuotaExceeded: ") && message.contains("test-root"));
        let right = named && is(&volcano, "NotEnoughResources") && is(&own, "QueueQuotaExceeded");
        Ok(Seen::when(right, || format!("{volcano:?}, {own:?}")))
    })
    .await?;
    // No node is bought for what waits for quota.
    pods_wait_for(&client, pods, 2, "QueueQuotaExceeded").await?;
    stays_unbound(w, pods, 3).await?;
    let phase = field(&podgroups(&client).get(group).await?, "/status/phase");
    ensure!(phase == "Pending", "the phase is {phase}");
    Ok(())
}

pub(crate) async fn no_longer_unschedulable(client: &Client, group: &str) -> Result<()> {
    wait_until(secs(10), &format!("PodGroup {group} is Running and no longer Unschedulable"), || async {
        let object = podgroups(client).get(group).await?;
        let waits = condition(&object, "Unschedulable").is_some_and(|(status, _, _)| status == "True");
        let phase = field(&object, "/status/phase");
        Ok(Seen::when(!waits && phase == "Running", || format!("phase {phase}, Unschedulable: {waits}")))
    })
    .await
}
