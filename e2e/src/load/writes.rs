//! The API requests for Deployments: everything that our two programs, or kube-scheduler, request until all pods run and no more requests come.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use tokio::time::sleep;

use super::calls::until_calm;
use super::look::{until_all_run, until_count};
use super::stage::{AT_ONCE, Side, Stage, each};
use super::stock;
use super::table::{Tables, counts};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, podgroups};
use crate::wait::secs;
use crate::workloads::{Workload, deployments};

/// The pods of each Deployment.
const REPLICAS: u32 = 3;

/// The columns of the table.
const COLUMNS: &[&str] = &["program", "pods", "writes per pod", "lists", "calls"];

/// What is counted, in this order: the name in the table, the programs and their flags. With Events on each pod that is bound, as
/// kube-scheduler always writes them, and without.
const TURNS: [(&str, Side, &[&str]); 3] = [
    ("podgroup", Side::Ours, &[]),
    ("podgroup, --scheduled-events", Side::Ours, &["--scheduled-events=true"]),
    (stock::NAME, Side::Stock, &[]),
];

/// Returns how many of these calls, by kind, are writes, for each of so many pods.
pub fn writes_per_pod(calls: &BTreeMap<String, u64>, pods: usize) -> f64 {
    let reads = |kind: &str| ["get ", "list ", "watch "].iter().any(|verb| kind.starts_with(verb));
    calls.iter().filter(|(kind, _)| !reads(kind)).map(|(_, number)| *number as f64).sum::<f64>() / pods as f64
}

/// Creates `count` Deployments for each scheduler and counts; afterwards they are deleted and the scheduler has ended.
pub async fn measure(stage: &mut Stage, count: usize, tables: &mut Tables) -> Result<()> {
    for (name, side, flags) in TURNS {
        let calls = calls_of(stage, count, side, flags).await?;
        let pods = count * usize::try_from(REPLICAS)?;
        let lists: u64 = calls.iter().filter(|(kind, _)| kind.starts_with("list ")).map(|(_, number)| number).sum();
        let per_pod = format!("{:.2}", writes_per_pod(&calls, pods));
        tables.add(
            "requests that Deployments cost",
            COLUMNS,
            vec![name.to_owned(), pods.to_string(), per_pod, lists.to_string(), counts(&calls)],
        );
    }
    Ok(())
}

async fn calls_of(stage: &mut Stage, count: usize, side: Side, flags: &[&str]) -> Result<BTreeMap<String, u64>> {
    let scheduler = if side == Side::Stock { "default-scheduler" } else { SCHEDULER_NAME };
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    stage.start_side(side, &flags).await?;
    sleep(secs(4)).await;
    let (client, mut log) = (stage.client(), stage.log()?);
    each(count, AT_ONCE, |number| {
        let workload = Workload::new(&format!("d-{number:05}")).replicas(REPLICAS).asks(&[("cpu", "100m")]);
        workload.scheduler(scheduler).make(&client)
    })
    .await?;
    let api = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    until_all_run(&api, count * usize::try_from(REPLICAS)?).await?;
    let calls = side.tally(&until_calm(&mut log, side).await?);
    deployments(&client).delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    until_count(&api, 0, "the pods are gone").await?;
    until_count(&podgroups(&client), 0, "the PodGroups are gone").await?;
    stage.stop().await?;
    Ok(calls)
}
