//! Row K26: the leading scheduler ends while the victims of a gang are leaving. The next leader reads from the pods of the gang which nodes
//! are nominated for them, and keeps these for the gang.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::handover::{leader_and_standby, wait_leader};
use super::ledger::stays_unbound;
use super::preempted::{add_finalizers, gang, no_other_pod_is_evicted, release, release_one, wait_evicted};
use super::seen::{accounting_matches_api, bound, group_says, metric};
use crate::objects::{make_node, make_queue};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// K26. A gang of two preempts a gang of two that leaves slowly. A pod of the same priority, which comes earlier (by age or by name) and
/// preempts never, waits for the same room and would fit in a half of it. The leader ends. The gang gets the room, the earlier pod does
/// not, and nobody else is evicted.
pub(super) async fn kept(w: &mut World) -> Result<()> {
    let client = w.client();
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for (name, value, policy) in [("low", 10, "PreemptLowerPriority"), ("patient", 1000, "Never"), ("high", 1000, "PreemptLowerPriority")] {
        let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    }
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "64")]).await?;
    let mut standby = leader_and_standby(w, &[]).await?;
    gang(&client, "low", "team", "low", 2, "2").await?;
    wait_running(&client, "low", 2, 10).await?;
    make_node(&client, "n2", &[("cpu", "1"), ("memory", "16Gi")]).await?;
    gang(&client, "other", "team", "low", 1, "1").await?;
    wait_running(&client, "other", 1, 10).await?;
    gang(&client, "earlier", "team", "patient", 1, "2").await?;
    group_says(&client, "earlier", "Insufficient cpu").await?;

    add_finalizers(&client, "low").await?;
    gang(&client, "gang", "team", "high", 2, "2").await?;
    wait_evicted(w, "low", 2, "which has a higher priority", true).await?;
    wait_named(&client, "gang", 2).await?;
    stays_unbound(w, "earlier", 1).await?;
    w.scheduler()?.kill().await?;
    wait_leader(&client, "two", 30).await?;
    // A leader that finds no nominated nodes decides anew: the first victim leaves already, and one more is to go.
    group_says(&client, "gang", "preempting 2 pods of queue \"team\"").await?;
    release_one(&client, "low-0").await?;
    stays_unbound(w, "earlier", 3).await?;
    ensure!(bound(&client, "gang").await? == 0, "a part of the gang is bound before there is room for all of it");
    wait_named(&client, "gang", 2).await?;
    release(&client, "low").await?;
    wait_running(&client, "gang", 2, 20).await?;
    // The API server removes the name with the binding.
    wait_named(&client, "gang", 0).await?;
    stays_unbound(w, "earlier", 2).await?;
    no_other_pod_is_evicted(&client, &[("other", 1), ("gang", 2)]).await?;
    let evicted = metric(standby.port(), "podgroup_scheduler_evictions_total{outcome=\"evicted\"}").await.unwrap_or(0.0);
    ensure!(evicted < 0.5, "the next leader evicted {evicted} pods, expected 0");
    w.scheduler()?.restart().await?;
    standby.terminate().await?;
    accounting_matches_api(w).await
}

/// Waits until so many pods of the PodGroup name `n1` in `status.nominatedNodeName`, and none names another node.
async fn wait_named(client: &Client, group: &str, count: usize) -> Result<()> {
    wait_until(secs(10), &format!("{count} pods of {group} name their nominated node"), || async {
        let named = |pod: &Pod| Some((pod.name_any(), pod.status.as_ref()?.nominated_node_name.clone()?));
        let all: Vec<_> = pods_of(client, group).await?.iter().filter_map(named).collect();
        Ok(Seen::when(all.len() == count && all.iter().all(|(_, node)| node == "n1"), || format!("{all:?}")))
    })
    .await
}
