//! Rows F: Deployments and StatefulSets keep their PodGroups while many of them are scaled up and down together. This failure started the project.

use std::time::Duration;

use anyhow::Result;
use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use super::lifecycle::settled;
use crate::objects::{NAMESPACE, make_node, podgroups};
use crate::wait::{Seen, settles};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, resize};
use crate::workloads::{Workload, scale, wait_running};
use crate::world::World;

/// The number of Deployments and of StatefulSets.
const EACH: usize = 20;

/// Concurrent requests. More would not make the API server faster; they would only wait longer, and all lease renewals with them.
const AT_ONCE: usize = 8;

/// 20 Deployments and 20 StatefulSets are scaled to 0 and to 1 again, `times` times, all together and with a pause after each. Within 10 s
/// of the end each has one running pod and exactly one PodGroup of the right owner.
pub(super) async fn together(w: &mut World, times: u32, pause: Duration) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi"), ("pods", "500")]).await?;
    let deployments: Vec<String> = (0..EACH).map(|number| format!("deployment-{number:02}")).collect();
    let sets: Vec<String> = (0..EACH).map(|number| format!("set-{number:02}")).collect();
    try_join_all(deployments.iter().map(|name| Workload::new(name).asks(&[("cpu", "100m")]).make(&client))).await?;
    try_join_all(sets.iter().map(|name| Owner::stateful_set(name, Order::OrderedReady).asks(&[("cpu", "100m")]).make(&client))).await?;
    for name in deployments.iter().chain(&sets) {
        wait_running(&client, name, 1, 60).await?;
    }
    for _ in 0..times {
        for replicas in [0, 1] {
            let mut scalings: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
            for name in &deployments {
                scalings.push(scale(&client, name, replicas).boxed());
            }
            for name in &sets {
                scalings.push(resize(&client, Kind::StatefulSet, name, replicas).boxed());
            }
            stream::iter(scalings).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
            // This is not a wait: the pause is what the case tests.
            sleep(pause).await;
        }
    }
    w.end_faults().await?;
    let both = async { tokio::try_join!(settled(&client, &deployments), settled_sets(&client, &sets)) };
    both.await.map(drop)
}

/// Each StatefulSet has one running pod and exactly one PodGroup of its own, and both stay.
async fn settled_sets(client: &Client, names: &[String]) -> Result<()> {
    settles("each StatefulSet has its pod and exactly one PodGroup", || is_right(client, names)).await
}

async fn is_right(client: &Client, names: &[String]) -> Result<Seen<()>> {
    let sets = stateful_sets(client).list(&ListParams::default()).await?;
    let groups = podgroups(client).list(&ListParams::default()).await?;
    let sets: Vec<_> = sets.into_iter().filter(|set| names.contains(&set.name_any())).collect();
    for set in &sets {
        let (name, uid) = (set.name_any(), set.uid().unwrap_or_default());
        let of_it =
            |owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| owner.uid == uid && owner.controller == Some(true);
        let owned: Vec<_> = groups.iter().filter(|group| group.owner_references().iter().any(of_it)).map(ResourceExt::name_any).collect();
        if owned != [format!("podgroup-{uid}")] {
            return Ok(Seen::NotYet(format!("{name} ({uid}) has PodGroups {owned:?}")));
        }
        let ready = set.status.as_ref().and_then(|status| status.ready_replicas);
        if ready != Some(1) {
            return Ok(Seen::NotYet(format!("{name} has {ready:?} ready replicas")));
        }
    }
    Ok(Seen::when(sets.len() == names.len(), || format!("{} StatefulSets", sets.len())))
}

fn stateful_sets(client: &Client) -> Api<StatefulSet> {
    Api::namespaced(client.clone(), NAMESPACE)
}
