//! The cluster of the benchmark: the control plane with the chart, many nodes, and schedulers that are started and stopped. There are no proxies and
//! no observer, which would be half of the load on two cores.

use anyhow::Result;
use kube::Client;

use super::stock::Stock;
use crate::audit_log::AuditLog;
use crate::cluster::{Cluster, ClusterOptions};
use crate::load::stage::{AT_ONCE, each};
use crate::objects::make_node;
use crate::programs::Program;
use crate::{chart, kubeconfig};

/// A control plane on which schedulers are compared.
pub struct Stage {
    // Fields are dropped in this order.
    controller: Option<Program>,
    scheduler: Option<Program>,
    stock: Option<Stock>,
    cluster: Cluster,
}

impl Stage {
    /// Starts control plane, chart and nodes, without a scheduler. No component has client-side request limits.
    pub async fn start(nodes: usize) -> Result<Self> {
        let options = ClusterOptions { name: "bench".to_owned(), disable_qps_limits: true, fsync: true, ..ClusterOptions::default() };
        let cluster = Cluster::start(options).await?;
        chart::install(&cluster, &[]).await?;
        chart::settle(&cluster, true).await?;
        let client = cluster.client();
        each(nodes, AT_ONCE, |number| {
            let client = client.clone();
            async move { make_node(&client, &format!("node-{number:04}"), &[("cpu", "32"), ("memory", "256Gi")]).await }
        })
        .await?;
        Stock::allow(&client).await?;
        Ok(Self { controller: None, scheduler: None, stock: None, cluster })
    }

    /// Starts podgroup-scheduler without a wait.
    pub async fn launch_scheduler(&mut self) -> Result<()> {
        self.scheduler = Some(self.program(chart::SCHEDULER, &[]).await?);
        Ok(())
    }

    /// Starts kube-scheduler without a wait.
    pub async fn launch_stock(&mut self) -> Result<()> {
        self.stock = Some(Stock::start(&self.cluster).await?);
        Ok(())
    }

    /// Starts both of our programs, the scheduler with these flags, and waits until they are ready.
    pub async fn start_ours(&mut self, of_scheduler: &[String]) -> Result<()> {
        self.scheduler = Some(self.program(chart::SCHEDULER, of_scheduler).await?);
        self.controller = Some(self.program(chart::CONTROLLER, &[]).await?);
        for program in [&mut self.scheduler, &mut self.controller].into_iter().flatten() {
            program.wait_ready().await?;
        }
        Ok(())
    }

    /// Ends every running program with SIGTERM, like Kubernetes.
    pub async fn stop(&mut self) -> Result<()> {
        for mut program in [self.controller.take(), self.scheduler.take()].into_iter().flatten() {
            program.terminate().await?;
        }
        match self.stock.take() {
            Some(stock) => stock.stop().await,
            None => Ok(()),
        }
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

    /// Returns our programs that ended by themselves.
    pub fn ended(&mut self) -> Vec<String> {
        [&mut self.controller, &mut self.scheduler].into_iter().flatten().filter_map(Program::unexpected_end).collect()
    }
}
