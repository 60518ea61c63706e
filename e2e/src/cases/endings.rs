//! Row L16-deployment: an owner that is deleted without what it owns, which another one adopts.

use anyhow::Result;
use kube::ResourceExt;
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::objects::{field, make_node, make_queue, podgroups};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, delete_as, groups_made, patch};
use crate::workloads::{QUEUE, Workload, live_replica_sets, wait_one_group, wait_running};
use crate::world::World;

/// L16-deployment. A Deployment is deleted with `--cascade=orphan`: its ReplicaSet keeps its pods and its PodGroup. Another Deployment, with another
/// queue, adopts it, and the PodGroup follows. That Deployment is deleted with `--cascade=foreground`: nothing is left.
pub(super) async fn another_deployment(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    for queue in ["first", "second"] {
        make_queue(&client, queue, None, &[]).await?;
    }
    Workload::new("d").replicas(2).gang("2").queue("first").make(&client).await?;
    wait_running(&client, "d", 2, 10).await?;
    let before = wait_one_group(&client, "d", 10).await?;
    delete_as(&client, Kind::Deployment, "d", PropagationPolicy::Orphan).await?;
    wait_until(secs(10), "the ReplicaSet has no owner", || async {
        let sets = live_replica_sets(&client, "d").await?;
        Ok(Seen::when(sets.iter().all(|set| set.owner_references().is_empty()), || "it has an owner".to_owned()))
    })
    .await?;
    // kube-controller-manager copied the annotations to the ReplicaSet.
    let stays = || async {
        let now = podgroups(&client).get(&before.name_any()).await?;
        Ok(Seen::when(now.uid() == before.uid() && field(&now, "/spec") == field(&before, "/spec"), || field(&now, "/spec").to_string()))
    };
    holds_for(secs(2), "the PodGroup is unchanged", stays).await?;

    Owner::deployment("d").replicas(2).gang("2").queue("second").make(&client).await?;
    wait_until(secs(10), "the PodGroup follows the new Deployment", || async {
        let now = podgroups(&client).get(&before.name_any()).await?;
        let queue = field(&now, "/spec/queue");
        Ok(Seen::when(queue == "second" && now.uid() == before.uid(), || format!("queue {queue}")))
    })
    .await?;
    // The annotation is removed there. The ReplicaSet still has the copy of the first Deployment's annotation, which must not count.
    patch(&client, Kind::Deployment, "d", json!({"metadata": {"annotations": {QUEUE: null}}})).await?;
    wait_until(secs(10), "the queue is the default", || async {
        let queue = field(&podgroups(&client).get(&before.name_any()).await?, "/spec/queue");
        Ok(Seen::when(queue == "default", || format!("queue {queue}")))
    })
    .await?;
    wait_running(&client, "d", 2, 10).await?;
    delete_as(&client, Kind::Deployment, "d", PropagationPolicy::Foreground).await?;
    wait_until(secs(10), "nothing is left", || async {
        let made = groups_made(&client).await?;
        let there = Kind::Deployment.api(&client).get_opt("d").await?.is_some();
        Ok(Seen::when(made.is_empty() && !there, || format!("{made:?}, the Deployment: {there}")))
    })
    .await
}
