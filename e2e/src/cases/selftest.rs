//! Rows H1 and H2: the harness does what the other cases rely on, with the stock scheduler in place of ours.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use kube::Api;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::Instant;

use crate::cluster::{Cluster, ClusterOptions};
use crate::objects::make_node;
use crate::proxy::{Delay, Proxy};
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{Workload, scale, wait_running};
use crate::world::World;
use crate::{audit_log, kubeconfig, scratch};

/// H1. A second cluster runs beside the first; a Deployment runs; a proxy delays requests; the audit log is written.
pub(super) async fn a_cluster_works(w: &mut World) -> Result<()> {
    let client = w.client();
    let second = Cluster::start(ClusterOptions { name: "second".to_owned(), ..ClusterOptions::default() }).await?;
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "32Gi"), ("nvidia.com/gpu", "8")]).await?;
    Workload::new("web").replicas(4).asks(&[("cpu", "1"), ("nvidia.com/gpu", "1")]).scheduler("default-scheduler").make(&client).await?;
    wait_running(&client, "web", 4, 10).await?;
    scale(&client, "web", 0).await?;
    wait_running(&client, "web", 0, 10).await?;
    drop(second);

    let (server, _) = kubeconfig::door(w.cluster().kubeconfig())?;
    let proxy = Proxy::start(server, w.seed).await?;
    let file = w.cluster().scratch().path("kubeconfig-through-proxy");
    let text = std::fs::read_to_string(w.cluster().kubeconfig())?;
    std::fs::write(&file, text.replace(&format!(":{server}"), &format!(":{}", proxy.port())))?;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(kubeconfig::client(&file).await?);
    nodes.get("n1").await?;
    proxy.delay(Delay::Between(millis(200), millis(500)), Delay::None);
    let start = Instant::now();
    nodes.get("n1").await?;
    ensure!(start.elapsed() >= millis(200), "a request through the slow proxy took {:?}", start.elapsed());
    proxy.delay(Delay::None, Delay::None);
    proxy.cut();
    wait_until(secs(10), "requests work again after a cut", || async { nodes.get("n1").await.map(|_| Seen::Yes(())).map_err(Into::into) })
        .await?;

    let log = audit_log::read(&w.cluster().audit_log())?;
    ensure!(log.iter().any(|entry| entry.resource == "deployments"), "the audit log does not contain the Deployment");
    Ok(())
}

/// H2. Another runner starts a cluster and is killed with -9: its reaper ends all its processes and removes the folder.
pub(super) async fn nothing_is_left_after_kill_9(_: &mut World) -> Result<()> {
    let mut runner = Command::new(std::env::current_exe()?).arg("hold").stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let output = runner.stdout.take().context("its output")?;
    let folder = BufReader::new(output).lines().next_line().await?.context("the runner printed nothing")?;
    let folder = PathBuf::from(folder);
    let before = scratch::processes_of(&folder);
    ensure!(before.len() >= 4, "a cluster is at least 4 processes, found {before:?} of {}", folder.display());
    runner.kill().await?;
    wait_until(secs(10), "processes and folder of the killed runner are gone", || async {
        let left = scratch::processes_of(&folder);
        let there = folder.exists();
        Ok(Seen::when(left.is_empty() && !there, || format!("processes {left:?}, folder exists: {there}")))
    })
    .await
}
