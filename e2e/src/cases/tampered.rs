//! Variants of L4: another user removes or changes what the controller wrote, and the controller restores it.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PropagationPolicy};
use serde_json::json;

use crate::called::{self, tally};
use crate::objects::{field, make_node, make_queue, podgroups};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, delete_as, groups_made};
use crate::workloads::{QUEUE, Workload, live_replica_sets, wait_one_group, wait_running};
use crate::world::World;

/// L4-tampered. A user removes the owner of a running Deployment's PodGroup, overwrites the controller's annotation, and marks the PodGroup as retiring. The
/// controller restores each, the object stays the same, no pod is affected, and no work is repeated.
pub(super) async fn controller_fields_are_restored(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[]).await?;
    Workload::new("d").replicas(2).gang("2").queue("team").make(&client).await?;
    wait_running(&client, "d", 2, 10).await?;
    let before = wait_one_group(&client, "d", 10).await?;
    let name = before.name_any();
    let moment = called::now(w).await?;
    for (what, change) in [
        ("its owner", json!({"metadata": {"ownerReferences": null}})),
        ("what is remembered", json!({"metadata": {"annotations": {"podgroup.dev/applied": "{nonsense"}}, "spec": {"minMember": 7}})),
        ("nothing remembered", json!({"metadata": {"annotations": {"podgroup.dev/applied": null}}, "spec": {"queue": "elsewhere"}})),
        ("the mark", json!({"metadata": {"annotations": {"podgroup.dev/retiring": "true"}}})),
    ] {
        podgroups(&client).patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
        wait_until(secs(10), &format!("{what} is restored"), || async {
            let now = podgroups(&client).get(&name).await?;
            let right = now.uid() == before.uid()
                && now.owner_references() == before.owner_references()
                && now.annotations() == before.annotations()
                && field(&now, "/spec") == field(&before, "/spec");
            Ok(Seen::when(right, || format!("{:?} {:?} {}", now.owner_references(), now.annotations(), field(&now, "/spec"))))
        })
        .await?;
    }
    wait_running(&client, "d", 2, 1).await?;
    let calls = called::since(w, moment)?;
    ensure!(calls.len() <= 16, "four changes cost {:?}", tally(&calls));
    Ok(())
}

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
    crate::workloads::owner::patch(&client, Kind::Deployment, "d", json!({"metadata": {"annotations": {QUEUE: null}}})).await?;
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
