//! Row L1: a Deployment that flaps has exactly the right PodGroup at the end.

use anyhow::Result;
use kube::Client;
use kube::api::DynamicObject;
use tokio::time::sleep;

use crate::objects::{condition, make_node, podgroups};
use crate::proxy::Delay;
use crate::wait::{Seen, millis, secs, settles, wait_until};
use crate::workloads::{Workload, each_has_one, scale, wait_running};
use crate::world::World;

/// L1 (#3374). A Deployment with one replica is scaled to 0 and to 1 200 times, without a pause; the controller's API path has a delay of 200 to 500
/// ms. Then 20 Deployments together, 3 times, half a second apart, without delay. Within 10 s of the end: 1 running pod, one PodGroup, the right
/// owner UID.
pub(super) async fn flapping(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    Workload::new("flapping").asks(&[("cpu", "100m")]).make(&client).await?;
    wait_running(&client, "flapping", 1, 10).await?;
    w.controller_path()?.delay(Delay::Between(millis(200), millis(500)), Delay::None);
    for _ in 0..200 {
        scale(&client, "flapping", 0).await?;
        scale(&client, "flapping", 1).await?;
    }
    w.end_faults().await?;
    settled(&client, &["flapping".to_owned()]).await?;

    w.controller_path()?.delay(Delay::None, Delay::None);
    w.begin_fault_mix();
    let twenty: Vec<String> = (0..20).map(|number| format!("flapping-{number:02}")).collect();
    for name in &twenty {
        Workload::new(name).asks(&[("cpu", "100m")]).make(&client).await?;
    }
    for name in &twenty {
        wait_running(&client, name, 1, 10).await?;
    }
    for _ in 0..3 {
        for replicas in [0, 1] {
            for name in &twenty {
                scale(&client, name, replicas).await?;
            }
            // This is not a wait: with half a second the deletion of the last flap meets the pod of the next.
            sleep(millis(500)).await;
        }
    }
    w.end_faults().await?;
    settled(&client, &twenty).await
}

/// Each Deployment has one running pod and exactly one PodGroup, and both stay. (A late DELETE may still arrive after the last pod was
/// created; then the PodGroup is back at once. S3)
pub(crate) async fn settled(client: &Client, names: &[String]) -> Result<()> {
    settles("each Deployment has one running pod and exactly one PodGroup", || each_has_one(client, names)).await
}

/// Waits until the PodGroup has the condition Unschedulable; returns the reason and the message.
pub(crate) async fn wait_unschedulable(client: &Client, group: &str) -> Result<(String, String)> {
    wait_until(secs(10), &format!("PodGroup {group} is Unschedulable"), || async {
        let object: DynamicObject = podgroups(client).get(group).await?;
        Ok(match condition(&object, "Unschedulable") {
            Some((status, reason, message)) if status == "True" => Seen::Yes((reason, message)),
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await
}
