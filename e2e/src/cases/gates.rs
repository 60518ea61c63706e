//! Row L18: a gang whose pods have scheduling gates.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::ledger::stays_unbound;
use super::seen::{accounting_matches_api, group_says, queue_uses, wait_phase};
use crate::objects::{NAMESPACE, make_node, make_queue};
use crate::workloads::{Workload, delete, pods_of, wait_one_group, wait_running};
use crate::world::World;

/// L18. Three pods with scheduling gates are a gang. Its PodGroup is Inqueue and reserves nothing: a gang that needs the whole queue and the whole node runs. Without
/// the gates of two pods, and with room for all, none is bound. Without the last gate all three run.
pub(super) async fn hold_a_gang_back(w: &mut World) -> Result<()> {
    let client = w.client();
    make_queue(&client, "team", None, &[("cpu", "3")]).await?;
    make_node(&client, "n1", &[("cpu", "3"), ("memory", "16Gi")]).await?;
    let gang = |name: &str| Workload::new(name).replicas(3).gang("3").queue("team");
    gang("gated").pod_spec("schedulingGates", json!([{"name": "example.com/wait"}])).make(&client).await?;
    let group = wait_one_group(&client, "gated", 10).await?.name_any();
    wait_phase(&client, &group, "Inqueue", 10).await?;
    group_says(&client, &group, "3 more are held back by scheduling gates").await?;

    gang("beside").make(&client).await?;
    wait_running(&client, "beside", 3, 10).await?;
    wait_phase(&client, &group, "Inqueue", 10).await?;

    let mut names: Vec<_> = pods_of(&client, "gated").await?.iter().map(ResourceExt::name_any).collect();
    let last = names.pop();
    open(&client, &names).await?;
    group_says(&client, &group, "1 more are held back by scheduling gates").await?;
    delete(&client, "beside").await?;
    queue_uses(&client, "team", "cpu", "0").await?;
    stays_unbound(w, "gated", 2).await?;
    wait_phase(&client, &group, "Inqueue", 10).await?;

    open(&client, last.as_slice()).await?;
    wait_running(&client, "gated", 3, 10).await?;
    wait_phase(&client, &group, "Running", 10).await?;
    queue_uses(&client, "team", "cpu", "3").await?;
    accounting_matches_api(w).await
}

/// Removes the gates of these pods.
async fn open(client: &Client, names: &[String]) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    for name in names {
        pods.patch(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}
