//! Whose is a pod that somebody took out of its owner's hands by its labels?

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::objects::make_node;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, group_name, groups_made, patch, resize, wait_group, wait_min_member, wait_no_group};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// A pod's labels are changed, as people do to look into it: its ReplicaSet lets go of it and makes another. It is a bare pod now with a group of its own,
/// whatever the stamp on it still says; the ReplicaSet's PodGroup does not wait for it when it is retired. Its labels are changed back: the ReplicaSet's again.
pub(in crate::cases) async fn relabelled(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let set = Owner::replica_set("set").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "set", 2, 20).await?;
    let group = wait_min_member(&client, &set, 2, 5).await?;
    let stray = pods_of(&client, "set").await?.first().map(ResourceExt::name_any).context("no pod")?;
    patch(&client, Kind::Pod, &stray, json!({"metadata": {"labels": {"app": "stray"}}})).await?;
    wait_running(&client, "set", 2, 20).await?;
    let pod = wait_until(secs(10), "the ReplicaSet has let go of it", || async {
        let pod = Kind::Pod.api(&client).get(&stray).await?;
        let owners = format!("{:?}", pod.owner_references());
        Ok(if pod.owner_references().is_empty() { Seen::Yes(pod) } else { Seen::NotYet(owners) })
    })
    .await?;
    wait_min_member(&client, &pod, 1, 10).await?;
    ensure!(wait_group(&client, &set, 5, "it is there", |_| None).await?.uid() == group.uid(), "it is another one");

    resize(&client, Kind::ReplicaSet, "set", 0).await?;
    wait_no_group(&client, &set, 15).await?;
    holds_for(secs(2), "the stray pod runs, and has its group", || async {
        let (made, runs) = (groups_made(&client).await?, pods_of(&client, "stray").await?.len());
        Ok(Seen::when(made == [group_name(&pod)] && runs == 1, || format!("{made:?}, {runs} pods")))
    })
    .await?;
    resize(&client, Kind::ReplicaSet, "set", 1).await?;
    wait_running(&client, "set", 1, 20).await?;
    resize(&client, Kind::ReplicaSet, "set", 2).await?;
    wait_running(&client, "set", 2, 20).await?;
    // Its own end, in the hands of a ReplicaSet again: one too many, of which one is deleted.
    patch(&client, Kind::Pod, &stray, json!({"metadata": {"labels": {"app": "set"}}})).await?;
    wait_running(&client, "set", 2, 20).await?;
    wait_until(secs(20), "the ReplicaSet's PodGroup alone is left", || async {
        let made = groups_made(&client).await?;
        Ok(Seen::when(made == [group_name(&set)], || format!("{made:?}")))
    })
    .await?;
    let _ = Kind::Pod.api(&client).delete(&stray, &DeleteParams::default()).await;
    wait_running(&client, "set", 2, 20).await
}
