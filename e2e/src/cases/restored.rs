//! Rows R1 and R2: etcd is restored from a backup while both programs run. They work again without a restart, and delete nothing that the backup has.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::seen::bound;
use crate::objects::{NAMESPACE, make_node, podgroups};
use crate::programs::Program;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, groups_of, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, http, kubeconfig, say};

/// How many writes the backup does not have.
const LOST: u32 = 400;

/// R1. With leader election: within a minute.
pub(super) async fn with_election(w: &mut World) -> Result<()> {
    // The lease must outlive the time in which the control plane is away: a program that lost it would be started again, and prove nothing.
    let flags = ["--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s"];
    restored(w, &flags, secs(60), "the cluster went back to an earlier state").await
}

/// R2. Without leader election: within three minutes.
pub(super) async fn without_election(w: &mut World) -> Result<()> {
    restored(w, &["--leader-elect=false"], secs(180), "no event and no bookmark for 75s").await
}

async fn restored(w: &mut World, flags: &[&str], within: Duration, noticed: &str) -> Result<()> {
    let (cluster, client) = (w.cluster(), w.client());
    chart::install(cluster, &[]).await?;
    let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let mut programs = Vec::new();
    for name in [chart::CONTROLLER, chart::SCHEDULER] {
        let config = chart::kubeconfig(cluster, name, server, &authority).await?;
        programs.push(Program::start(cluster.scratch(), name, &config, &flags)?);
    }
    for program in &mut programs {
        program.wait_ready().await?;
    }
    chart::settle(cluster, true).await?;
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("kept").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "kept", 2, 20).await?;
    let before = everything(&client).await?;
    let backup = cluster.backup().await?;

    // What the backup does not have: a gang, and the end of another.
    Workload::new("lost").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "lost", 2, 20).await?;
    crate::workloads::scale(&client, "kept", 0).await?;
    wait_running(&client, "kept", 0, 20).await?;
    churn(&client).await?;
    let away = Instant::now();
    cluster.restore(&backup).await?;
    say::line(format!("        the control plane was away for {:.1} s", away.elapsed().as_secs_f64()));
    let back = Instant::now();
    // Kubernetes' documents recommend it, because kube-controller-manager may rely on stale data.
    cluster.restart("kube-controller-manager").await?;
    Workload::new("after").replicas(2).gang("2").make(&client).await?;
    wait_one_group(&client, "after", within.as_secs()).await?;
    // Whether its pods run is a matter of kwok, which was killed and waits for its own leases of the nodes.
    wait_until(within.saturating_sub(back.elapsed()), "the new gang is bound", || async {
        let count = bound(&client, "after").await?;
        Ok(Seen::when(count == 2, || format!("{count} of 2 pods are bound")))
    })
    .await?;
    say::line(format!("        a new gang was bound {:.1} s after the restore", back.elapsed().as_secs_f64()));

    let now = everything(&client).await?;
    let gone: Vec<_> = before.iter().filter(|(what, uid)| now.get(*what) != Some(uid)).collect();
    ensure!(gone.is_empty(), "the backup had these, and they were deleted or made again: {gone:?}; now {now:?}");
    ensure!(groups_of(&client, "lost").await?.is_empty(), "a PodGroup exists for a Deployment that the backup does not have");
    for program in &mut programs {
        ensure!(program.runs(), "{} ended", program.name());
        let log = std::fs::read_to_string(program.log())?;
        ensure!(log.contains(noticed), "{} did not log: {noticed}", program.name());
        ready(program.port(), program.name(), within.saturating_sub(back.elapsed()).max(secs(5))).await?;
        program.terminate().await?;
    }
    Ok(())
}

async fn ready(port: u16, name: &str, within: Duration) -> Result<()> {
    wait_until(within, &format!("{name} is ready"), || async move {
        let (status, body) = http::get(port, "/readyz").await?;
        Ok(Seen::when(status == 200, || format!("/readyz returns {status}: {}", body.trim())))
    })
    .await
}

/// Returns the UID of each PodGroup, and the UID and node of each pod.
async fn everything(client: &Client) -> Result<BTreeMap<String, String>> {
    let groups = podgroups(client).list(&ListParams::default()).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await?;
    let of_pod = |pod: Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        (format!("pod {}", pod.name_any()), format!("{} on {node}", pod.uid().unwrap_or_default()))
    };
    let of_group = |group: kube::api::DynamicObject| (format!("PodGroup {}", group.name_any()), group.uid().unwrap_or_default());
    Ok(groups.items.into_iter().map(of_group).chain(pods.items.into_iter().map(of_pod)).collect())
}

/// Raises the revision of etcd.
async fn churn(client: &Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "churn"}}))?;
    maps.create(&PostParams::default(), &object).await?;
    for number in 0..LOST {
        maps.patch("churn", &PatchParams::default(), &Patch::Merge(json!({"data": {"n": number.to_string()}}))).await?;
    }
    Ok(())
}
