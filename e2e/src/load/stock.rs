//! kube-scheduler as a process that is started and stopped like ours. It has its own defaults, except: no leader election, and no client-side request
//! limits. It has a ServiceAccount, which the audit log shows.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::wait::secs;
use crate::{chart, kubeconfig};

/// The name of its ServiceAccount and of its program.
pub const NAME: &str = "kube-scheduler";

/// kube-scheduler, running.
pub struct Stock(Child);

impl Stock {
    /// Creates an account with all rights, because refused requests are not part of the measurement.
    pub async fn allow(client: &Client) -> Result<()> {
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": NAME}}))?;
        Api::namespaced(client.clone(), chart::NAMESPACE).create(&PostParams::default(), &account).await?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "bench-kube-scheduler"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": chart::NAMESPACE}],
        }))?;
        Api::all(client.clone()).create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    /// Starts it without a wait.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
        let kubeconfig = chart::kubeconfig(cluster, NAME, server, &authority).await?;
        let config = cluster.scratch().path("bench-kube-scheduler.json");
        let content = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 10_000, "burst": 10_000},
            "leaderElection": {"leaderElect": false},
        });
        std::fs::write(&config, serde_json::to_vec_pretty(&content)?)?;
        let path = cluster.scratch().link(&cluster.kit().program(NAME))?;
        let log = std::fs::File::create(cluster.scratch().folder().join("logs/kube-scheduler.log"))?;
        let child = Command::new(path)
            .args([format!("--config={}", config.display()), "--secure-port=0".to_owned()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("starting kube-scheduler")?;
        Ok(Self(child))
    }

    /// Ends it.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(status) = self.0.try_wait()? {
            bail!("kube-scheduler ended by itself: {status}");
        }
        let pid = self.0.id().context("the process has no pid")?.to_string();
        Command::new("kill").args(["-TERM", &pid]).status().await.context("kill")?;
        if timeout(secs(10), self.0.wait()).await.is_err() {
            self.0.kill().await?;
        }
        Ok(())
    }
}
