//! A pod that leaves its owner because a user changes its labels.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::objects::make_node;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, group_name, groups_made, patch, resize, wait_group, wait_min_member, wait_no_group};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// A user changes a pod's labels, for example to debug it: its ReplicaSet releases it and creates another pod. Now it is a bare pod with its own PodGroup,
/// whatever its annotation says, and the deletion of the ReplicaSet's PodGroup does not wait for it. With the old labels it belongs to the ReplicaSet again.
pub(in crate::cases) async fn relabelled(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let set = Owner::replica_set("set").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "set", 2, 20).await?;
    let group = wait_min_member(&client, &set, 2, 5).await?;
    let stray = pods_of(&client, "set").await?.first().map(ResourceExt::name_any).context("no pod")?;
    patch(&client, Kind::Pod, &stray, json!({"metadata": {"labels": {"app": "stray"}}})).await?;
    wait_running(&client, "set", 2, 20).await?;
    let pod = wait_until(secs(10), "the ReplicaSet has released the pod", || async {
        let pod = Kind::Pod.api(&client).get(&stray).await?;
        let owners = format!("{:?}", pod.owner_references());
        Ok(if pod.owner_references().is_empty() { Seen::Yes(pod) } else { Seen::NotYet(owners) })
    })
    .await?;
    wait_min_member(&client, &pod, 1, 10).await?;
    ensure!(wait_group(&client, &set, 5, "the PodGroup exists", |_| None).await?.uid() == group.uid(), "the PodGroup was recreated");

    resize(&client, Kind::ReplicaSet, "set", 0).await?;
    wait_no_group(&client, &set, 15).await?;
    holds_for(secs(2), "the released pod runs and has its own PodGroup", || async {
        let (made, runs) = (groups_made(&client).await?, pods_of(&client, "stray").await?.len());
        Ok(Seen::when(made == [group_name(&pod)] && runs == 1, || format!("{made:?}, {runs} pods")))
    })
    .await?;
    resize(&client, Kind::ReplicaSet, "set", 1).await?;
    wait_running(&client, "set", 1, 20).await?;
    resize(&client, Kind::ReplicaSet, "set", 2).await?;
    wait_running(&client, "set", 2, 20).await?;
    // The ReplicaSet adopts it again and then has one pod too many, so it deletes one.
    patch(&client, Kind::Pod, &stray, json!({"metadata": {"labels": {"app": "set"}}})).await?;
    wait_running(&client, "set", 2, 20).await?;
    wait_until(secs(20), "only the ReplicaSet's PodGroup is left", || async {
        let made = groups_made(&client).await?;
        Ok(Seen::when(made == [group_name(&set)], || format!("{made:?}")))
    })
    .await?;
    let _ = Kind::Pod.api(&client).delete(&stray, &DeleteParams::default()).await;
    wait_running(&client, "set", 2, 20).await
}
