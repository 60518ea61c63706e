//! Row Q13: the condition names the level and the dimension that limit a PodGroup.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::json;

use super::ledger::GPU;
use super::queues::no_longer_unschedulable;
use super::seen::{bound, group_says, metric};
use crate::objects::{Amounts, NAMESPACE, make_member, make_node, make_podgroup, make_queue_of, patch_queue, podgroups};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::wait_running;
use crate::world::World;

/// The request of each pod.
const ONE: Amounts<'static> = &[("cpu", "1"), ("memory", "1Gi"), (GPU, "1")];

const GIB: f64 = 1_073_741_824.0;

/// Q13. With three levels and three dimensions, each level in turn has the limiting capability: the condition names the level and the dimension. If two
/// levels limit, it names the nearer one.
pub(super) async fn every_level_in_every_dimension(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi"), (GPU, "16")]).await?;
    let wide = json!({"cpu": "10", "memory": "10Gi", GPU: "10"});
    for (name, parent) in [("upper", "root"), ("middle", "upper"), ("lower", "middle")] {
        make_queue_of(&client, name, json!({"parent": parent, "capability": wide})).await?;
    }
    make_podgroup(&client, "holds", json!({"minMember": 1, "queue": "lower"})).await?;
    make_member(&client, "holds-0", "holds", ONE).await?;
    wait_running(&client, "holds", 1, 10).await?;
    for (number, level) in ["upper", "middle", "lower"].into_iter().enumerate() {
        for (dimension, one, two, shown) in [("cpu", "1", "1500m", 1.5), ("memory", "1Gi", "1536Mi", 1.5 * GIB), (GPU, "1", "1", 1.0)] {
            limit(w, level, dimension, two, shown).await?;
            let name = format!("waits-{number}-{}", dimension.trim_start_matches("nvidia.com/"));
            submit(&client, &name).await?;
            let said = group_says(&client, &name, "is over its quota").await?;
            let wanted = format!(
                "QueueQuotaExceeded: queue \"{level}\" is over its quota: {dimension} requested {one}, used {one}, capability {two}"
            );
            ensure!(said == wanted, "it says {said:?}, and {wanted:?} is right");
            ensure!(bound(&client, &name).await? == 0, "{name} is bound");
            patch_queue(&client, level, json!({"spec": {"capability": wide}})).await?;
            wait_running(&client, &name, 1, 10).await?;
            no_longer_unschedulable(&client, &name).await?;
            withdraw(&client, &name).await?;
        }
    }
    limit(w, "upper", "cpu", "1", 1.0).await?;
    limit(w, "middle", GPU, "1", 1.0).await?;
    submit(&client, "twice").await?;
    group_says(&client, "twice", &format!("queue \"middle\" is over its quota: {GPU} requested 1")).await?;
    // The reason follows, though nothing else changes.
    patch_queue(&client, "middle", json!({"spec": {"capability": wide}})).await?;
    group_says(&client, "twice", "queue \"upper\" is over its quota: cpu requested 1").await?;
    patch_queue(&client, "upper", json!({"spec": {"capability": wide}})).await?;
    wait_running(&client, "twice", 1, 10).await
}

/// Sets the capability of a queue and waits until the scheduler has it. Its watch of queues may be behind that of pods by as much as the machine stalls, and
/// a pod that is created in between is bound, rightly, under the earlier capability.
async fn limit(w: &mut World, queue: &str, resource: &str, capability: &str, shown: f64) -> Result<()> {
    patch_queue(&w.client(), queue, json!({"spec": {"capability": {resource: capability}}})).await?;
    let unit = match resource {
        "cpu" => "core",
        "memory" => "byte",
        _ => "integer",
    };
    let port = w.scheduler()?.port();
    let name = format!("podgroup_scheduler_queue_capability{{queue=\"{queue}\",resource=\"{resource}\",unit=\"{unit}\"}}");
    wait_until(secs(10), &format!("the scheduler knows that {queue} may use {capability} {resource}"), || async {
        let seen = metric(port, &name).await?;
        Ok(Seen::when((seen - shown).abs() < f64::EPSILON, || seen.to_string()))
    })
    .await
}

async fn submit(client: &Client, name: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": 1, "queue": "lower"})).await?;
    make_member(client, &format!("{name}-0"), name, ONE).await
}

async fn withdraw(client: &Client, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete(&format!("{name}-0"), &DeleteParams::default().grace_period(0)).await?;
    wait_running(client, name, 0, secs(5).as_secs()).await?;
    podgroups(client).delete(name, &DeleteParams::default()).await?;
    Ok(())
}
