//! Values that are too large or invalid, and a very large number of owners.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::called::{self, tally, writes};
use crate::objects::{field, make_node};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::events::{wait_warning, warnings};
use crate::workloads::owner::{Kind, Owner, groups_made, reference};
use crate::workloads::{MIN_MEMBER, Workload, set_image, wait_one_group, wait_rolled_out, wait_running};
use crate::world::World;

const MIN_RESOURCES: &str = "scheduling.volcano.sh/group-min-resources";

/// Annotations of 200 KiB (the API server accepts 256), values that grow when they are written, a minResources that is not JSON, a negative one, a
/// min-member that is not a number. Only the bad value is ignored, and one Event on the Deployment names it. The pods run, and other pods do not wait.
pub(in crate::cases) async fn values(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    // Half of the limit, because kube-controller-manager copies the annotations to the ReplicaSet, which has its own ones, too.
    let long = "x".repeat(200 * 1024);
    // The PodGroup contains these values twice, and there they would exceed the limit of the API server: six bytes of JSON per character, and a map
    // of resources.
    let control = "\u{1}".repeat(50_000);
    let names: serde_json::Map<String, serde_json::Value> = (0..24_000).map(|number| (format!("r{number}"), json!(1))).collect();
    let names = json!(names).to_string();
    for (name, key, value, said) in [
        ("large", "volcano.sh/large", long.as_str(), "volcano.sh/"),
        ("control", "volcano.sh/control", control.as_str(), "volcano.sh/"),
        ("no-json", MIN_RESOURCES, "{\"cpu\": ", MIN_RESOURCES),
        ("long-no-json", MIN_RESOURCES, long.as_str(), MIN_RESOURCES),
        ("negative", MIN_RESOURCES, "{\"cpu\": \"-1\"}", MIN_RESOURCES),
        ("no-quantity", MIN_RESOURCES, "{\"cpu\": \"1x\", \"memory\": [1]}", MIN_RESOURCES),
        ("names", MIN_RESOURCES, names.as_str(), MIN_RESOURCES),
        ("no-number", MIN_MEMBER, "all of them", MIN_MEMBER),
        ("long-no-number", MIN_MEMBER, long.as_str(), MIN_MEMBER),
    ] {
        Owner::deployment(name).annotation(key, value).make(&client).await?;
        wait_running(&client, name, 1, 10).await?;
        let group = wait_one_group(&client, name, 10).await?;
        let (members, cpu) = (field(&group, "/spec/minMember"), field(&group, "/spec/minResources/cpu"));
        ensure!(members == 1 && cpu == "1", "{name} has minMember {members} and minResources of {cpu} cpu");
        wait_warning(&client, "Deployment", name, "InvalidPodGroupSource", said).await?;
        // A bad value is reported once, however often the Deployment is reconciled.
        crate::workloads::scale(&client, name, 2).await?;
        wait_running(&client, name, 2, 10).await?;
        let events = warnings(&client, "Deployment", name).await?;
        ensure!(events.len() == 1, "the Events on {name} are {events:?}");
        ensure!(events.iter().all(|(_, message)| message.len() < 1024), "the Events on {name} are {events:?}");
    }
    Ok(())
}

/// The number of ReplicaSets of one Deployment.
const REVISIONS: usize = 500;

/// 500 old ReplicaSets of one Deployment with 0 replicas: they get no PodGroup and cost no call, when they are created, at a rollout, at a start of the
/// controller, and when they are deleted.
pub(in crate::cases) async fn revisions(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let deployment = Owner::deployment("d").with("/spec", "revisionHistoryLimit", json!(1000)).make(&client).await?;
    wait_running(&client, "d", 1, 10).await?;
    wait_one_group(&client, "d", 10).await?;
    let moment = called::now(w).await?;
    let by = reference(Kind::Deployment, &deployment);
    stream::iter(0..REVISIONS)
        .map(|number| {
            let hash = format!("old{number}");
            let set = Owner::replica_set(&format!("d-{hash}")).replicas(0).gang("2").owned_by(&by);
            let set = set.with("/metadata", "labels", json!({"app": "d", "pod-template-hash": hash}));
            let set = set.with("/spec", "selector", json!({"matchLabels": {"app": "d", "pod-template-hash": hash}}));
            let set = set.with_pod("/metadata", "labels", json!({"app": "d", "pod-template-hash": hash}));
            let client = client.clone();
            async move { set.make(&client).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await?;
    holds_for(secs(1), "one PodGroup exists", || async {
        let made = groups_made(&client).await?;
        Ok(Seen::when(made.len() == 1, || format!("{made:?}")))
    })
    .await?;
    let calls = called::since(w, moment)?;
    ensure!(calls.is_empty(), "{REVISIONS} old ReplicaSets cost {:?}", tally(&calls));

    set_image(&client, "d", "example/2").await?;
    wait_rolled_out(&client, "d", 30).await?;
    wait_one_group(&client, "d", 15).await?;
    let calls = called::since(w, moment)?;
    ensure!(calls.len() <= 12, "a rollout beside {REVISIONS} old ReplicaSets cost {:?}", tally(&calls));

    w.controller()?.terminate().await?;
    let moment = called::now(w).await?;
    w.controller()?.restart().await?;
    Workload::new("other").make(&client).await?;
    wait_running(&client, "other", 1, 10).await?;
    let calls = called::since(w, moment)?;
    ensure!(writes(&calls) <= 1, "a start beside {REVISIONS} old ReplicaSets wrote {:?}", tally(&calls));
    let moment = called::now(w).await?;
    let old = Kind::ReplicaSet.api(&client).list_metadata(&ListParams::default().labels("app=d")).await?.items;
    ensure!(old.len() > REVISIONS, "only {} ReplicaSets are left", old.len());
    crate::workloads::delete(&client, "d").await?;
    wait_until(secs(60), "all ReplicaSets are gone", || async {
        let left = Kind::ReplicaSet.api(&client).list_metadata(&ListParams::default().labels("app=d")).await?.items;
        let made = groups_made(&client).await?;
        Ok(Seen::when(left.is_empty() && made.len() == 1, || {
            format!("{} ReplicaSets, {made:?}", left.iter().map(ResourceExt::name_any).count())
        }))
    })
    .await?;
    let calls = called::since(w, moment)?;
    ensure!(calls.len() <= 8, "their deletion cost {:?}", tally(&calls));
    Ok(())
}
