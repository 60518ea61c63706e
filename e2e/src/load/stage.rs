//! The cluster of a load: the control plane with the chart and our programs, without proxies and without an observer, which would be half of the load
//! on two cores. The module `check` looks for violations at the end.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::Client;

use super::process;
use crate::audit_log::{AuditLog, Entry};
use crate::cluster::{Cluster, ClusterOptions};
use crate::objects::make_node;
use crate::programs::Program;
use crate::{chart, kubeconfig};

/// Concurrent requests of the load generator.
pub const AT_ONCE: usize = 32;

/// The number of pods that fit on one simulated node.
const PODS_PER_NODE: usize = 100;

/// A control plane for a load.
pub struct Stage {
    // Fields are dropped in this order.
    controller: Option<Program>,
    scheduler: Option<Program>,
    cluster: Cluster,
    flags: Vec<String>,
}

impl Stage {
    /// Starts control plane and chart, without programs. kube-controller-manager has no client-side request limits, as in large clusters. `flags` are
    /// for the controller.
    pub async fn start(name: &str, flags: &[String]) -> Result<Self> {
        let options = ClusterOptions { name: name.to_owned(), disable_qps_limits: true, fsync: true, ..ClusterOptions::default() };
        let cluster = Cluster::start(options).await?;
        chart::install(&cluster, &[]).await?;
        chart::settle(&cluster, true).await?;
        Ok(Self { controller: None, scheduler: None, cluster, flags: flags.to_vec() })
    }

    /// Starts the controller with these `further` flags; returns when all its lists are complete.
    pub async fn start_controller(&mut self, further: &[String]) -> Result<()> {
        let flags = [self.flags.as_slice(), further].concat();
        self.controller = Some(self.program(chart::CONTROLLER, &flags).await?);
        self.controller.as_mut().context("just started")?.wait_ready().await
    }

    /// Ends the controller with SIGTERM, like Kubernetes.
    pub async fn stop_controller(&mut self) -> Result<()> {
        self.controller.take().context("the controller does not run")?.terminate().await
    }

    /// Starts the scheduler, and creates nodes for `pods` pods.
    pub async fn start_scheduler(&mut self, pods: usize) -> Result<()> {
        let client = self.client();
        let names = (0..pods.div_ceil(PODS_PER_NODE)).map(|number| format!("node-{number:03}"));
        let room = [("cpu", "32"), ("memory", "256Gi")];
        futures::stream::iter(names.map(|name| {
            let client = client.clone();
            async move { make_node(&client, &name, &room).await }
        }))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
        self.scheduler = Some(self.program(chart::SCHEDULER, &[]).await?);
        self.scheduler.as_mut().context("just started")?.wait_ready().await
    }

    async fn program(&self, name: &'static str, flags: &[String]) -> Result<Program> {
        let (server, authority) = kubeconfig::door(self.cluster.kubeconfig())?;
        let kubeconfig = chart::kubeconfig(&self.cluster, name, server, &authority).await?;
        Program::start(self.cluster.scratch(), name, &kubeconfig, flags)
    }

    /// Returns the control plane.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns a client as cluster admin.
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Returns the audit log from now on.
    pub fn log(&self) -> Result<AuditLog> {
        AuditLog::from_now(self.cluster.audit_log())
    }

    /// Returns the process id of the controller.
    pub fn controller_pid(&self) -> Result<u32> {
        process::find(self.cluster.scratch().folder(), chart::CONTROLLER)
    }

    /// Returns the programs that ended by themselves.
    pub fn ended(&mut self) -> Vec<String> {
        [&mut self.controller, &mut self.scheduler].into_iter().flatten().filter_map(Program::unexpected_end).collect()
    }
}

/// Returns the user of the controller.
pub fn controller() -> String {
    chart::user(chart::CONTROLLER)
}

/// Returns the requests of our programs that were refused because of a missing right.
pub fn refused(calls: &[Entry]) -> Vec<String> {
    let ours = [chart::user(chart::CONTROLLER), chart::user(chart::SCHEDULER)];
    let refused = calls.iter().filter(|call| ours.contains(&call.user) && call.is_refused());
    refused.take(5).map(|call| format!("{} {} was answered with {}", call.user, call.kind(), call.code)).collect()
}

/// Runs `act` for each of `0..count`, [`AT_ONCE`] at a time. The first error ends it.
pub async fn each<F>(count: usize, at_once: usize, act: impl FnMut(usize) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    futures::stream::iter((0..count).map(act)).buffer_unordered(at_once).try_collect().await
}
