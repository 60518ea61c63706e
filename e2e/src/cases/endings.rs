//! Rows L16 and L17: owners that are deleted without their pods and PodGroups.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use kube::{Api, Client, ResourceExt};

use crate::objects::{NAMESPACE, make_node, make_queue, milli_of, podgroups, queues};
use crate::programs::LEASE;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, delete_as, group_name, groups_made, wait_min_member};
use crate::workloads::{Workload, delete, live_replica_sets, pods_of, wait_one_group, wait_running};
use crate::world::World;

/// L16. A StatefulSet with a gang is deleted with `--cascade=orphan` and created again with the same spec; one of its pods is deleted. The pods belong to
/// the PodGroup of the new StatefulSet, are charged all the time, and the new pod runs.
pub(super) async fn orphaned_and_adopted(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "3")]).await?;
    let set = || Owner::stateful_set("gang", Order::Parallel).replicas(3).gang("3").queue("team");
    let first = set().make(&client).await?;
    wait_running(&client, "gang", 3, 10).await?;
    wait_min_member(&client, &first, 3, 10).await?;
    uses(&client, "team", 3000).await?;

    let charged = holds_for(secs(8), "the pods are charged", || async {
        let used = used(&client, "team").await?;
        // One pod is deleted and comes back; the two others exist all the time.
        Ok(Seen::when(used >= 2000, || format!("the queue uses {used}m cpu")))
    });
    let story = async {
        delete_as(&client, Kind::StatefulSet, "gang", PropagationPolicy::Orphan).await?;
        wait_until(secs(10), "the StatefulSet is gone", || async {
            let found = Kind::StatefulSet.api(&client).get_opt("gang").await?;
            Ok(Seen::when(found.is_none(), || "it still exists".to_owned()))
        })
        .await?;
        let second = set().make(&client).await?;
        wait_until(secs(10), "the new StatefulSet owns the pods", || async {
            let pods = pods_of(&client, "gang").await?;
            let of_it =
                pods.iter().filter(|pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == second.metadata.uid.as_ref()));
            Ok(Seen::when(of_it.count() == 3, || format!("{} pods", pods.len())))
        })
        .await?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let old = pods.get("gang-1").await?.uid();
        pods.delete("gang-1", &DeleteParams::default()).await?;
        wait_until(secs(10), "the new gang-1 runs", || async {
            let pod = pods.get("gang-1").await?;
            let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
            Ok(Seen::when(runs && pod.uid() != old, || format!("runs: {runs}")))
        })
        .await?;
        wait_min_member(&client, &second, 3, 10).await?;
        Ok(second)
    };
    let ((), second) = tokio::try_join!(charged, story)?;
    uses(&client, "team", 3000).await?;
    wait_until(secs(10), "the PodGroup of the deleted StatefulSet is gone", || async {
        let left = groups_made(&client).await?;
        Ok(Seen::when(left == [group_name(&second)], || format!("{left:?}")))
    })
    .await
}

/// L17. While the controller is down, an owner is deleted with `--cascade=orphan` and its pods end. After the start of the controller no PodGroup is left
/// over. Once with a ReplicaSet (the garbage collector orphans its PodGroup, too), once with a StatefulSet.
pub(super) async fn orphaned_while_the_controller_is_down(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Owner::stateful_set("set", Order::Parallel).replicas(2).make(&client).await?;
    Workload::new("web").replicas(2).make(&client).await?;
    Workload::new("stays").make(&client).await?;
    wait_running(&client, "set", 2, 10).await?;
    wait_running(&client, "web", 2, 10).await?;
    let stays = wait_one_group(&client, "stays", 10).await?.name_any();
    let before = groups_made(&client).await?;
    ensure!(before.len() == 3, "there are {before:?}");

    // No controller runs that could create the PodGroup of an orphaned pod or delete an orphaned PodGroup.
    w.watched()?.excuse(&[1, 2]);
    w.controller()?.terminate().await?;
    let sets = live_replica_sets(&client, "web").await?;
    // The Deployment first: it would create another ReplicaSet.
    delete_as(&client, Kind::Deployment, "web", PropagationPolicy::Orphan).await?;
    for set in &sets {
        delete_as(&client, Kind::ReplicaSet, &set.name_any(), PropagationPolicy::Orphan).await?;
    }
    delete_as(&client, Kind::StatefulSet, "set", PropagationPolicy::Orphan).await?;
    // A PodGroup is orphaned only after the garbage collector has removed its owner.
    wait_until(secs(10), "the PodGroups of both have no owner", || async {
        let groups = podgroups(&client).list(&ListParams::default()).await?.items;
        let owned: Vec<_> = groups
            .iter()
            .filter(|group| group.name_any() != stays && !group.owner_references().is_empty())
            .map(ResourceExt::name_any)
            .collect();
        Ok(Seen::when(owned.is_empty(), || format!("{owned:?} have")))
    })
    .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for name in ["set", "web"] {
        let label = ListParams::default().labels(&format!("app={name}"));
        pods.delete_collection(&DeleteParams::default().grace_period(0), &label).await?;
        wait_running(&client, name, 0, 10).await?;
    }
    w.controller()?.restart().await?;
    // If the mix took the response to the release of the Lease, the Lease has to expire first.
    let lease = if w.faults().is_empty() { secs(0) } else { LEASE };
    wait_until(secs(20) + lease, "only the PodGroup of the remaining owner is left", || async {
        let left = groups_made(&client).await?;
        Ok(Seen::when(left == [stays.clone()], || format!("{left:?}")))
    })
    .await?;
    w.watched()?.insist(&[1, 2]);
    delete(&client, "stays").await
}

async fn used(client: &Client, queue: &str) -> Result<i64> {
    let object = queues(client).get(queue).await?;
    milli_of(object.data.pointer("/status/allocated/cpu")).ok_or_else(|| anyhow::anyhow!("an invalid amount"))
}

async fn uses(client: &Client, queue: &str, wanted: i64) -> Result<()> {
    wait_until(secs(10), &format!("queue {queue} uses {wanted}m cpu"), || async {
        let used = used(client, queue).await?;
        Ok(Seen::when(used == wanted, || used.to_string()))
    })
    .await
}
