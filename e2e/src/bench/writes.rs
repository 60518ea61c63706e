//! The API requests for Deployments: everything that our two programs, or kube-scheduler, request until all pods run and no more requests come.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use tokio::time::sleep;

use super::stage::Stage;
use super::stock;
use crate::chart;
use crate::load::calls::{Tally, until_calm};
use crate::load::look::{until_all_run, until_count};
use crate::load::stage::{AT_ONCE, each};
use crate::objects::{NAMESPACE, podgroups};
use crate::wait::secs;
use crate::workloads::{Workload, deployments};

/// The pods of each Deployment.
const REPLICAS: u32 = 3;

/// A scheduler whose requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Our two programs, as they are by default.
    Ours,
    /// Our two programs with an Event on each pod that is bound.
    WithEvents,
    /// kube-scheduler, which always writes these Events.
    Stock,
}

impl Counted {
    /// The order in which they are measured.
    pub const TURNS: [Self; 3] = [Self::Ours, Self::WithEvents, Self::Stock];

    /// Returns its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "podgroup",
            Self::WithEvents => "podgroup, --scheduled-events",
            Self::Stock => "kube-scheduler",
        }
    }
}

/// The requests of one scheduler.
#[derive(Clone, Debug)]
pub struct Writes {
    /// The scheduler.
    pub by: Counted,
    /// The number of pods.
    pub pods: usize,
    /// Calls without upkeep, by kind.
    pub calls: BTreeMap<String, u64>,
}

impl Writes {
    /// Returns the writes per pod.
    pub fn per_pod(&self) -> f64 {
        writes_per_pod(&self.calls, self.pods)
    }

    /// Returns the number of lists.
    pub fn lists(&self) -> u64 {
        self.calls.iter().filter(|(kind, _)| kind.starts_with("list ")).map(|(_, number)| number).sum()
    }
}

/// Returns how many of these calls, by kind, are writes, for each of so many pods.
pub fn writes_per_pod(calls: &BTreeMap<String, u64>, pods: usize) -> f64 {
    let reads = |kind: &str| ["get ", "list ", "watch "].iter().any(|verb| kind.starts_with(verb));
    calls.iter().filter(|(kind, _)| !reads(kind)).map(|(_, number)| *number as f64).sum::<f64>() / pods as f64
}

/// Creates `count` Deployments and counts; afterwards they are deleted and the scheduler has ended.
pub async fn measure(stage: &mut Stage, count: usize, by: Counted) -> Result<Writes> {
    let stock = by == Counted::Stock;
    let programs: &[&str] = if stock { &[stock::NAME] } else { &[chart::SCHEDULER, chart::CONTROLLER] };
    match by {
        Counted::Stock => stage.launch_stock().await?,
        Counted::Ours => stage.start_ours(&[]).await?,
        Counted::WithEvents => stage.start_ours(&["--scheduled-events=true".to_owned()]).await?,
    }
    sleep(secs(4)).await;
    let (client, mut log) = (stage.client(), stage.log()?);
    let pods = count * usize::try_from(REPLICAS)?;
    each(count, AT_ONCE, |number| {
        let workload = Workload::new(&format!("d-{number:05}")).replicas(REPLICAS).asks(&[("cpu", "100m")]);
        if stock { workload.scheduler("default-scheduler") } else { workload }.make(&client)
    })
    .await?;
    let api = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    until_all_run(&api, pods).await?;
    let mut made = Vec::new();
    for name in programs {
        made.extend(until_calm(&mut log, &chart::user(name)).await?);
    }
    let mut calls = BTreeMap::new();
    for name in programs {
        Tally::of(&made, &chart::user(name)).all.into_iter().for_each(|(kind, number)| *calls.entry(kind).or_default() += number);
    }
    deployments(&client).delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    until_count(&api, 0, "the pods are gone").await?;
    until_count(&podgroups(&client), 0, "the PodGroups are gone").await?;
    stage.stop().await?;
    Ok(Writes { by, pods, calls })
}
