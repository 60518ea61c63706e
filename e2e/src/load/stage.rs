//! The cluster of a measurement: the control plane with the chart, nodes, and programs that are started and stopped. There are no proxies
//! and no observer, which would be half of the load on two cores.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use kube::Client;

use super::process::{self, Meter};
use super::stock::{self, Stock};
use crate::audit_log::{AuditLog, Entry, tally};
use crate::cluster::{Cluster, ClusterOptions};
use crate::objects::make_node;
use crate::programs::Program;
use crate::{chart, kubeconfig};

/// Concurrent requests of the load generator.
pub const AT_ONCE: usize = 32;

/// The programs that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// podgroup-controller.
    Controller,
    /// podgroup-scheduler.
    Scheduler,
    /// Both.
    Ours,
    /// kube-scheduler.
    Stock,
}

impl Side {
    /// Returns the names of its programs.
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Controller => &[chart::CONTROLLER],
            Self::Scheduler => &[chart::SCHEDULER],
            Self::Ours => &[chart::SCHEDULER, chart::CONTROLLER],
            Self::Stock => &[stock::NAME],
        }
    }

    /// Returns its name in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Controller | Self::Scheduler | Self::Ours => "podgroup",
            Self::Stock => stock::NAME,
        }
    }

    /// Returns whether one of its programs sent the request.
    pub fn sent(self, entry: &Entry) -> bool {
        self.programs().iter().any(|name| entry.user == chart::user(name))
    }

    /// Counts the requests of its programs without their upkeep, by kind.
    pub fn tally(self, log: &[Entry]) -> BTreeMap<String, u64> {
        tally(log.iter().filter(|entry| self.sent(entry) && !entry.is_upkeep()))
    }
}

/// A control plane with the programs that run on it.
pub struct Stage {
    // Fields are dropped in this order.
    programs: Vec<Program>,
    stock: Option<Stock>,
    cluster: Cluster,
}

impl Stage {
    /// Starts control plane, chart and nodes, without programs. No component has client-side request limits, as in large clusters.
    pub async fn start(name: &str, nodes: usize) -> Result<Self> {
        let options = ClusterOptions { name: name.to_owned(), disable_qps_limits: true, fsync: true, ..ClusterOptions::default() };
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
        Ok(Self { programs: Vec::new(), stock: None, cluster })
    }

    /// Starts the programs of a side without a wait. The flags are for the first of ours.
    pub async fn launch(&mut self, side: Side, flags: &[String]) -> Result<()> {
        if side == Side::Stock {
            self.stock = Some(Stock::start(&self.cluster).await?);
            return Ok(());
        }
        for (number, name) in side.programs().iter().enumerate() {
            let flags = if number == 0 { flags } else { &[] };
            let (server, authority) = kubeconfig::door(self.cluster.kubeconfig())?;
            let kubeconfig = chart::kubeconfig(&self.cluster, name, server, &authority).await?;
            self.programs.push(Program::start(self.cluster.scratch(), name, &kubeconfig, flags)?);
        }
        Ok(())
    }

    /// Does the same, and returns when ours are ready: all their lists are complete.
    pub async fn start_side(&mut self, side: Side, flags: &[String]) -> Result<()> {
        self.launch(side, flags).await?;
        for program in &mut self.programs {
            program.wait_ready().await?;
        }
        Ok(())
    }

    /// Ends every running program with SIGTERM, like Kubernetes, the last one first.
    pub async fn stop(&mut self) -> Result<()> {
        while let Some(mut program) = self.programs.pop() {
            program.terminate().await?;
        }
        match self.stock.take() {
            Some(stock) => stock.stop().await,
            None => Ok(()),
        }
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

    /// Returns the process id of the running program of this name.
    pub fn pid(&self, program: &str) -> Result<u32> {
        process::find(self.cluster.scratch().folder(), program)
    }

    /// Measures the processor time of all programs from now on.
    pub fn meter(&self) -> Meter {
        Meter::start(self.cluster.scratch().folder())
    }

    /// Returns our programs that ended by themselves.
    pub fn ended(&mut self) -> Vec<String> {
        self.programs.iter_mut().filter_map(Program::unexpected_end).collect()
    }
}

/// Returns the requests of our programs that were refused because of a missing right.
pub fn refused(calls: &[Entry]) -> Vec<String> {
    let refused = calls.iter().filter(|call| Side::Ours.sent(call) && call.is_refused());
    refused.take(5).map(|call| format!("{} {} was answered with {}", call.user, call.kind(), call.code)).collect()
}

/// Runs `act` for each of `0..count`, so many at a time. The first error ends it.
pub async fn each<F>(count: usize, at_once: usize, act: impl FnMut(usize) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    futures::stream::iter((0..count).map(act)).buffer_unordered(at_once).try_collect().await
}
