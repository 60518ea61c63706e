//! Do many owners of both kinds that flap together keep what they should have? The part of L1 and L2 in which Volcano loses most.

use anyhow::Result;
use futures::future::try_join_all;
use kube::{Client, ResourceExt};
use tokio::time::sleep;

use super::{flaps, lifecycle};
use crate::objects::make_node;
use crate::wait::millis;
use crate::workloads::owner::{Kind, resize};
use crate::workloads::{Workload, wait_running};
use crate::world::World;

/// How many of each.
const EACH: usize = 20;

/// How often they flap at each pace: 3 where it must be quick, 200 in a soak.
fn flaps() -> u32 {
    std::env::var("FLAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// 20 Deployments and 20 StatefulSets, all to 0 and back together, 3 times (`FLAPS=200`) with no pause, with half a second and with two seconds between;
/// kube-controller-manager's request limits lifted. After each pace: within 10 s one pod each that runs, and one PodGroup each, of the right owner, that stays.
pub(super) async fn both_kinds(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let deployments: Vec<String> = (0..EACH).map(|number| format!("web-{number:02}")).collect();
    for name in &deployments {
        Workload::new(name).asks(&[("cpu", "100m")]).make(&client).await?;
    }
    let mut sets = Vec::new();
    for number in 0..EACH {
        sets.push(flaps::small(&format!("state-{number:02}")).make(&client).await?);
    }
    let stateful: Vec<String> = sets.iter().map(ResourceExt::name_any).collect();
    for name in deployments.iter().chain(&stateful) {
        wait_running(&client, name, 1, 30).await?;
    }
    for pause in [0, 500, 2000] {
        for _ in 0..flaps() {
            for replicas in [0, 1] {
                all_to(&client, &deployments, Kind::Deployment, replicas).await?;
                all_to(&client, &stateful, Kind::StatefulSet, replicas).await?;
                // Not a wait: the pace is what the case is about. Two seconds is longer than a PodGroup lingers.
                sleep(millis(pause)).await;
            }
        }
        lifecycle::settled(&client, &deployments).await?;
        flaps::settled(&client, &sets).await?;
    }
    Ok(())
}

async fn all_to(client: &Client, names: &[String], kind: Kind, replicas: u32) -> Result<()> {
    try_join_all(names.iter().map(|name| resize(client, kind, name, replicas))).await.map(drop)
}
