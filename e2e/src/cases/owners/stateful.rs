//! Rows O1: the PodGroup of a StatefulSet. With OrderedReady its minMember is 1; with Parallel it is a gang that follows the size.

use anyhow::{Result, ensure};
use kube::ResourceExt;

use crate::cases::ledger::stays_unbound;
use crate::cases::lifecycle::wait_unschedulable;
use crate::objects::{field, make_node, make_queue};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::events::{wait_warning, warnings};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, group_name, groups_made, patch, resize, wait_group, wait_min_member, wait_no_group};
use crate::workloads::{MIN_MEMBER, wait_running};
use crate::world::World;

/// OrderedReady with a requested gang of 3: pod 1 is created only after pod 0 is ready, so minMember is 1, an Event on the StatefulSet says so, and
/// all pods run. At 0 replicas the PodGroup is deleted, and it is back with the first pod.
pub(in crate::cases) async fn one_after_the_other(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "8")]).await?;
    let set = Owner::stateful_set("ordered", Order::OrderedReady).replicas(3).gang("3").queue("team").make(&client).await?;
    wait_running(&client, "ordered", 3, 10).await?;
    let group = wait_min_member(&client, &set, 1, 10).await?;
    ensure!(field(&group, "/spec/queue") == "team", "the queue is {}", field(&group, "/spec/queue"));
    ensure!(field(&group, "/spec/minResources/cpu") == "1", "minResources is {}", field(&group, "/spec/minResources"));
    wait_warning(&client, "StatefulSet", "ordered", "InvalidPodGroupSource", "group-min-member").await?;

    resize(&client, Kind::StatefulSet, "ordered", 0).await?;
    wait_running(&client, "ordered", 0, 10).await?;
    wait_no_group(&client, &set, 10).await?;
    resize(&client, Kind::StatefulSet, "ordered", 2).await?;
    wait_running(&client, "ordered", 2, 10).await?;
    wait_min_member(&client, &set, 1, 10).await?;
    let events = warnings(&client, "StatefulSet", "ordered").await?;
    ensure!(events.len() == 1, "expected one Event: {events:?}");
    Ok(())
}

/// Parallel with a gang of 3 and capacity for 2: no pod is bound. With more capacity all run. minMember follows the size, up and down, up to the requested
/// number.
pub(in crate::cases) async fn all_at_once(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "64Gi")]).await?;
    let set = Owner::stateful_set("gang", Order::Parallel).replicas(3).gang("3").make(&client).await?;
    wait_min_member(&client, &set, 3, 10).await?;
    wait_unschedulable(&client, &group_name(&set)).await?;
    stays_unbound(w, "gang", 2).await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_running(&client, "gang", 3, 10).await?;

    resize(&client, Kind::StatefulSet, "gang", 5).await?;
    wait_running(&client, "gang", 5, 10).await?;
    wait_min_member(&client, &set, 3, 10).await?;
    patch(&client, Kind::StatefulSet, "gang", serde_json::json!({"metadata": {"annotations": {MIN_MEMBER: "6"}}})).await?;
    wait_min_member(&client, &set, 5, 10).await?;
    resize(&client, Kind::StatefulSet, "gang", 2).await?;
    wait_min_member(&client, &set, 2, 10).await?;
    wait_running(&client, "gang", 2, 10).await?;
    resize(&client, Kind::StatefulSet, "gang", 6).await?;
    wait_group(&client, &set, 10, "minMember and minResources are for 6 pods", |group| {
        let (members, cpu) = (field(group, "/spec/minMember"), field(group, "/spec/minResources/cpu"));
        (members != 6 || cpu != "6").then(|| format!("minMember {members}, cpu {cpu}"))
    })
    .await?;
    wait_running(&client, "gang", 6, 10).await?;

    // The rolling update of a StatefulSet deletes the pods from the last to the first and reuses their names.
    let image = serde_json::json!({"spec": {"template": {"metadata": {"annotations": {"changed": "yes"}}}}});
    patch(&client, Kind::StatefulSet, "gang", image).await?;
    wait_until(secs(10), "the rolling update finishes", || async {
        let object = Kind::StatefulSet.api(&client).get("gang").await?;
        let (updated, ready) = (field(&object, "/status/updatedReplicas"), field(&object, "/status/readyReplicas"));
        let through = field(&object, "/status/currentRevision") == field(&object, "/status/updateRevision");
        let seen = field(&object, "/status/observedGeneration").as_i64() == object.metadata.generation;
        Ok(Seen::when(seen && through && ready == 6, || format!("updated {updated}, ready {ready}")))
    })
    .await?;
    wait_running(&client, "gang", 6, 10).await?;
    let made = groups_made(&client).await?;
    ensure!(made == [group_name(&set)], "{} has {made:?}", set.name_any());
    Ok(())
}
