//! Row N1: the number of writes for a Deployment. It is a small `make load` for every test run, in the observed world of the cases.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use super::calls::{Tally, until_calm};
use super::check::wrong_groups;
use super::look::{until_all_run, until_count};
use super::stage::{AT_ONCE, Side, each};
use crate::audit_log::AuditLog;
use crate::objects::{NAMESPACE, make_node, podgroups};
use crate::workloads::{Workload, scale};
use crate::world::World;

/// The number of Deployments: enough to show a count that is not linear, and few enough for a busy machine.
const DEPLOYMENTS: usize = 50;

/// N1. 50 Deployments at once, all to 0, all back: one create each, five calls for each deletion of a PodGroup (mark, three lists, delete), one create
/// again. No pod is written, and no call is made twice.
pub(crate) async fn writes_per_deployment(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let (groups, pods) = (podgroups(&client), Api::<Pod>::namespaced(client.clone(), NAMESPACE));
    let many = u64::try_from(DEPLOYMENTS)?;
    let created = [("create podgroups", many)];
    let retired = [("patch podgroups", many), ("list pods", 3 * many), ("delete podgroups", many)];
    let mut log = AuditLog::from_now(w.cluster().audit_log())?;

    each(DEPLOYMENTS, AT_ONCE, |number| Workload::new(&format!("d-{number}")).asks(&[("cpu", "100m")]).make(&client)).await?;
    until_count(&groups, DEPLOYMENTS, "each Deployment has its PodGroup").await?;
    until_all_run(&pods, DEPLOYMENTS).await?;
    expect(&mut log, "made", &created).await?;

    for (replicas, wave, there, allowed) in [(0, "scaled to 0", 0, &retired[..]), (1, "scaled to 1", DEPLOYMENTS, &created[..])] {
        each(DEPLOYMENTS, AT_ONCE, |number| {
            let client = &client;
            async move { scale(client, &format!("d-{number}"), replicas).await }
        })
        .await?;
        until_count(&groups, there, "the PodGroups have followed").await?;
        until_all_run(&pods, there).await?;
        expect(&mut log, wave, allowed).await?;
    }
    let wrong = wrong_groups(&client).await?;
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

/// Checks that the controller made exactly these calls since the last time, except its upkeep.
async fn expect(log: &mut AuditLog, wave: &str, allowed: &[(&'static str, u64)]) -> Result<()> {
    let calls = until_calm(log, Side::Controller).await?;
    let wrong = Tally::of(&calls).wrong(u64::try_from(DEPLOYMENTS)?, allowed);
    ensure!(wrong.is_empty(), "{wave}: {}", wrong.join("; "));
    Ok(())
}
