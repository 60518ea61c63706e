//! Rows L2 and L3: a StatefulSet always has exactly the right PodGroup, although its pods have the same names again.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::api::{DynamicObject, PropagationPolicy};
use kube::{Client, ResourceExt};
use tokio::time::sleep;

use crate::objects::make_node;
use crate::proxy::Delay;
use crate::wait::{Seen, millis, secs, settles, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, delete_as, group_name, groups_made, resize};
use crate::workloads::{phases, pods_of, wait_running};
use crate::world::World;

/// L2 (#5972). A StatefulSet with one replica is scaled to 0 and to 1 200 times, without a pause; the controller's API path has a delay of 200 to 500 ms. Then
/// 20 StatefulSets together, 3 times, half a second apart, without delay. Within 10 s of the end: 1 running pod, one PodGroup, the right owner UID.
pub(super) async fn flapping(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let one = small("flapping").make(&client).await?;
    wait_running(&client, "flapping", 1, 10).await?;
    w.controller_path()?.delay(Delay::Between(millis(200), millis(500)), Delay::None);
    for _ in 0..200 {
        resize(&client, Kind::StatefulSet, "flapping", 0).await?;
        resize(&client, Kind::StatefulSet, "flapping", 1).await?;
    }
    let mut all = vec![one];
    w.calm().await?;
    settled(&client, &all).await?;

    w.controller_path()?.delay(Delay::None, Delay::None);
    w.storm();
    for number in 0..20 {
        all.push(small(&format!("flapping-{number:02}")).make(&client).await?);
    }
    for set in &all {
        wait_running(&client, &set.name_any(), 1, 30).await?;
    }
    for _ in 0..3 {
        for replicas in [0, 1] {
            for set in all.iter().skip(1) {
                resize(&client, Kind::StatefulSet, &set.name_any(), replicas).await?;
            }
            // This is not a wait: with half a second the deletion of the last flap meets the pod of the next.
            sleep(millis(500)).await;
        }
    }
    w.calm().await?;
    settled(&client, &all).await
}

/// L3 (#5331). A StatefulSet is deleted and created again with its name, 100 times: the PodGroup of every live pod exists and belongs to the live UID.
pub(super) async fn made_again(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let mut set = small("again").make(&client).await?;
    wait_running(&client, "again", 1, 10).await?;
    for round in 0..100 {
        delete_as(&client, Kind::StatefulSet, "again", PropagationPolicy::Background).await?;
        set = small("again").make(&client).await?;
        // Every tenth StatefulSet has time to get its pod, so that pods end at different ages of the successor.
        if round % 10 == 9 {
            wait_until(secs(10), "the pod belongs to the new StatefulSet", || async {
                let pods = pods_of(&client, "again").await?;
                let of_it =
                    pods.iter().filter(|pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref()));
                Ok(Seen::when(of_it.count() == 1, || format!("{} pods", pods.len())))
            })
            .await?;
        }
    }
    let sets = [set];
    w.calm().await?;
    settled(&client, &sets).await?;
    // The garbage collector deletes the PodGroups of the deleted StatefulSets.
    wait_until(secs(10), "one PodGroup is left", || async {
        let left = groups_made(&client).await?;
        Ok(Seen::when(left == sets.iter().map(group_name).collect::<Vec<_>>(), || format!("{left:?}")))
    })
    .await
}

pub(super) fn small(name: &str) -> Owner {
    Owner::stateful_set(name, Order::OrderedReady).asks(&[("cpu", "100m")])
}

/// Each StatefulSet has one running pod of its own and its PodGroup, and both stay.
pub(super) async fn settled(client: &Client, sets: &[DynamicObject]) -> Result<()> {
    settles("each StatefulSet has one running pod of its own and its PodGroup", || async {
        let made = groups_made(client).await?;
        for set in sets {
            let (name, pods) = (set.name_any(), pods_of(client, &set.name_any()).await?);
            let mine = pods.iter().all(|pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref()));
            let (phases, has_group) = (phases(&pods), made.contains(&group_name(set)));
            if !mine || !has_group || phases != BTreeMap::from([("Running".to_owned(), 1)]) {
                return Ok(Seen::NotYet(format!("{name}: pods {phases:?}, all of the live set: {mine}, has its PodGroup: {has_group}")));
            }
        }
        Ok(Seen::Yes(()))
    })
    .await
}
