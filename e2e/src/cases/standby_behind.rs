//! Row S1: a standby with an old view of pods takes over.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::old_views::{gang, silent, stays_unbound};
use crate::faults::HttpProxy;
use crate::objects::{NAMESPACE, make_member, make_node, make_podgroup, podgroups};
use crate::programs::Program;
use crate::proxy::Proxy;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;
use crate::{chart, http, kubeconfig};

/// S1. The standby's watch of pods says nothing while the leader fills the only node, and then the leader ends. A gang whose pods the standby knows already becomes
/// complete: it is not bound before there is room.
pub(super) async fn not_oversold(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    // One more member is wanted than there is.
    make_podgroup(&client, "second", json!({"minMember": 5, "queue": "default"})).await?;
    for number in 0..4 {
        make_member(&client, &format!("second-{number}"), "second", &[("cpu", "1")]).await?;
    }
    let (server, _) = kubeconfig::door(w.cluster().kubeconfig())?;
    let path = Proxy::start(server, w.seed).await?;
    let faults = HttpProxy::start(w.cluster().kubeconfig(), path.port(), &w.cluster().scratch().path("logs"), "standby").await?;
    let config = chart::kubeconfig_as(w.cluster(), chart::SCHEDULER, "standby", faults.port(), faults.authority()).await?;
    let mut standby = Program::start_as(w.cluster().scratch(), chart::SCHEDULER, "standby", &config, &[], &[])?;
    standby.wait_ready().await?;
    faults.rule(silent("pods", secs(40)));
    path.cut();
    wait_until(secs(20), "the standby's watch of pods is silent", || async {
        Ok(Seen::when(faults.counts().contains_key("watch-silent"), || "it is not open yet".to_owned()))
    })
    .await?;
    sleep(secs(2)).await;
    gang(&client, "first", 4, "default").await?;
    wait_running(&client, "first", 4, 20).await?;
    let (status, _) = http::get(standby.port(), "/readyz").await?;
    ensure!(status == 200, "the standby does not know that its view is old: /readyz returned {status}");
    w.scheduler()?.terminate().await?;
    podgroups(&client).patch("second", &PatchParams::default(), &Patch::Merge(json!({"spec": {"minMember": 4}}))).await?;
    stays_unbound(&client, "second").await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods_of(&client, "first").await? {
        pods.delete(&pod.metadata.name.unwrap_or_default(), &DeleteParams::default().grace_period(0)).await?;
    }
    wait_running(&client, "second", 4, 20).await?;
    w.scheduler()?.restart().await?;
    standby.terminate().await
}
