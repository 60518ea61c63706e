//! Row L14: the pods of other schedulers cost no API call.

use std::future::Future;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::audit_log::Entry;
use crate::called::{self, tally};
use crate::objects::make_node;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, groups_made, patch, resize};
use crate::workloads::{Workload, scale, wait_one_group, wait_running};
use crate::world::World;

/// The scheduler of the foreign pods. It does not run here.
const THEIRS: &str = "other-scheduler";

/// The number of concurrent requests of the case.
const AT_ONCE: usize = 8;

/// L14 (#3671). `many` ReplicaSets of another scheduler are created, restarted, scaled up and to 0: the controller makes no API call for them. A ReplicaSet of
/// ours is served as usual.
pub(super) async fn cost_nothing(w: &mut World, many: u32) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi"), ("pods", "2500")]).await?;
    Workload::new("ours").make(&client).await?;
    wait_running(&client, "ours", 1, 10).await?;
    let ours = wait_one_group(&client, "ours", 10).await?;

    let quiet = called::now(w).await?;
    each(many, |name| {
        let client = client.clone();
        async move {
            let set = Owner::replica_set(&name).asks(&[("cpu", "10m")]).scheduler(THEIRS).gang("2");
            set.with_pod("/metadata/labels", "restarted", json!("no")).make(&client).await.map(drop)
        }
    })
    .await?;
    theirs(&client, "no", many).await?;
    // A restart of the workload: another template, and all pods recreated.
    each(many, |name| {
        let client = client.clone();
        let template = json!({"spec": {"template": {"metadata": {"labels": {"restarted": "yes"}}}}});
        async move { patch(&client, Kind::ReplicaSet, &name, template).await.map(drop) }
    })
    .await?;
    let old = ListParams::default().labels("restarted=no");
    Kind::Pod.api(&client).delete_collection(&DeleteParams::default(), &old).await?;
    theirs(&client, "yes", many).await?;
    each(many, |name| {
        let client = client.clone();
        async move { resize(&client, Kind::ReplicaSet, &name, 2).await }
    })
    .await?;
    theirs(&client, "yes", 2 * many).await?;
    each(many, |name| {
        let client = client.clone();
        async move { resize(&client, Kind::ReplicaSet, &name, 0).await }
    })
    .await?;
    theirs(&client, "yes", 0).await?;
    let mut calls = called::since(w, quiet)?;
    if !w.faults().is_empty() {
        // Under faults some calls for our own PodGroup are allowed, with or without foreign pods. A broken watch is listed again, and the PodGroup
        // may be missing in an old list, so the controller reads it. A delayed or repeated creation finds the existing PodGroup (AlreadyExists). An
        // old list may show no pod, so the controller marks the PodGroup until it lists the pods. An earlier patch may arrive now. The PodGroup is
        // never deleted and never really created: its UID is checked below.
        let ours = ours.name_any();
        let of_ours = |call: &Entry| {
            let in_vain = call.verb == "create" && call.code == 409;
            call.resource == "podgroups" && call.name == ours && (in_vain || call.verb == "patch")
        };
        calls.retain(|call| !matches!(call.verb.as_str(), "list" | "get") && !of_ours(call));
    }
    ensure!(calls.is_empty(), "the controller made calls: {:?}: {:?}", tally(&calls), calls.first());
    let made = groups_made(&client).await?;
    ensure!(made.len() == 1, "expected one PodGroup: {made:?}");

    // The controller still works.
    scale(&client, "ours", 3).await?;
    wait_running(&client, "ours", 3, 10).await?;
    ensure!(wait_one_group(&client, "ours", 10).await?.metadata.uid == ours.metadata.uid, "the PodGroup was recreated");
    Ok(())
}

/// Runs an action for each ReplicaSet, some at a time.
async fn each<F: Future<Output = Result<()>>>(many: u32, act: impl Fn(String) -> F) -> Result<()> {
    stream::iter(0..many).map(|number| act(format!("other-{number:04}"))).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
}

/// Waits until kube-controller-manager has created or deleted pods and `wanted` pods exist. They are never bound.
async fn theirs(client: &Client, restarted: &str, wanted: u32) -> Result<()> {
    let theirs = ListParams::default().fields(&format!("spec.schedulerName={THEIRS}")).labels(&format!("restarted={restarted}"));
    let wanted = usize::try_from(wanted)?;
    wait_until(secs(300), &format!("{wanted} foreign pods exist"), || async {
        let pods = Kind::Pod.api(client).list_metadata(&theirs).await?.items.len();
        Ok(Seen::when(pods == wanted, || pods.to_string()))
    })
    .await
}
