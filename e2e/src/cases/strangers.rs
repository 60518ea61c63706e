//! Do the pods of other schedulers cost anything? Row L14.

use std::future::Future;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::called::{self, Called, tally};
use crate::objects::make_node;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, groups_made, patch, resize};
use crate::workloads::{Workload, scale, wait_one_group, wait_running};
use crate::world::World;

/// Who places their pods: nobody, here.
const THEIRS: &str = "somebody-elses";

/// How many of the case's own requests are under way at once.
const AT_ONCE: usize = 8;

/// L14 (#3671). So many ReplicaSets of another scheduler are made, restarted, scaled up and to 0: no API call of the controller for any of them. One of ours is
/// served as ever.
pub(super) async fn cost_nothing(w: &mut World, many: u32) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi"), ("pods", "2500")]).await?;
    Workload::new("ours").make(&client).await?;
    wait_running(&client, "ours", 1, 20).await?;
    let ours = wait_one_group(&client, "ours", 5).await?;

    let quiet = called::now(w)?;
    each(many, |name| {
        let client = client.clone();
        async move {
            let set = Owner::replica_set(&name).asks(&[("cpu", "10m")]).scheduler(THEIRS).gang("2");
            set.with_pod("/metadata/labels", "restarted", json!("no")).make(&client).await.map(drop)
        }
    })
    .await?;
    theirs(&client, "no", many).await?;
    // What a restart comes to: another template, and all pods anew.
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
        // Caches whose watches are broken are listed again, and our own group that such a list may not have shown is read, whoever's pods there are. A
        // creation of it that was held up on the way, or made because of such a list, finds it there: AlreadyExists. Where a list shows no pod of it, from before
        // there was one, it is marked until a look has found its pod; and what was patched before may land only now. Never is it deleted, or really made: its UID is
        // looked at below.
        let ours = ours.name_any();
        let of_ours = |call: &Called| {
            let in_vain = call.verb == "create" && call.status == 409;
            call.resource == "podgroups" && call.name == ours && (in_vain || call.verb == "patch")
        };
        calls.retain(|call| !matches!(call.verb.as_str(), "list" | "get") && !of_ours(call));
    }
    ensure!(calls.is_empty(), "the controller made calls: {:?}: {:?}", tally(&calls), calls.first().map(|call| &call.line));
    let made = groups_made(&client).await?;
    ensure!(made.len() == 1, "there are {made:?}");

    // And it is not asleep.
    scale(&client, "ours", 3).await?;
    wait_running(&client, "ours", 3, 20).await?;
    ensure!(wait_one_group(&client, "ours", 5).await?.metadata.uid == ours.metadata.uid, "it is another one");
    Ok(())
}

/// Does something with each ReplicaSet, some at a time.
async fn each<F: Future<Output = Result<()>>>(many: u32, act: impl Fn(String) -> F) -> Result<()> {
    stream::iter(0..many).map(|number| act(format!("other-{number:04}"))).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
}

/// Waits until kube-controller-manager has made or deleted pods until there are so many. Nobody places them.
async fn theirs(client: &Client, restarted: &str, wanted: u32) -> Result<()> {
    let theirs = ListParams::default().fields(&format!("spec.schedulerName={THEIRS}")).labels(&format!("restarted={restarted}"));
    let wanted = usize::try_from(wanted)?;
    wait_until(secs(300), &format!("there are {wanted} pods of theirs"), || async {
        let pods = Kind::Pod.api(client).list_metadata(&theirs).await?.items.len();
        Ok(Seen::when(pods == wanted, || pods.to_string()))
    })
    .await
}
