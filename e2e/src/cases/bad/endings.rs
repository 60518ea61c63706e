//! Objects that exist only for a short time, or that cannot be deleted: nothing is left over, and no work is repeated without an end.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;

use crate::called::{self, tally};
use crate::objects::{make_node, podgroups, podgroups_in};
use crate::wait::{Seen, holds_for, secs, unchanged, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, delete_as, groups_made};
use crate::workloads::{Workload, scale, wait_one_group, wait_running};
use crate::world::World;
use tokio::time::sleep;

/// 50 Deployments, StatefulSets and Jobs are created and deleted at once, so that they vanish between any two calls. Nothing is left over, and each costs
/// a bounded number of calls.
pub(in crate::cases) async fn owners_that_vanish(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let moment = called::now(w).await?;
    stream::iter(0..50)
        .map(|number| {
            let (client, name) = (client.clone(), format!("vanishes-{number}"));
            async move {
                let (kind, owner) = match number % 4 {
                    0 => (Kind::StatefulSet, Owner::stateful_set(&name, Order::Parallel)),
                    1 => (Kind::Job, Owner::job(&name, 1)),
                    _ => (Kind::Deployment, Owner::deployment(&name)),
                };
                owner.asks(&[("cpu", "10m")]).make(&client).await?;
                // They live for different times: some milliseconds to some tenths of a second after the first sign that a controller works on them.
                if number % 3 == 0 {
                    wait_until(secs(10), &format!("{name} has a pod"), || async {
                        let there = crate::workloads::pods_of(&client, &name).await?.len();
                        Ok(Seen::when(there > 0, || "none".to_owned()))
                    })
                    .await?;
                }
                delete_as(&client, kind, &name, PropagationPolicy::Background).await
            }
        })
        .buffer_unordered(8)
        .try_collect::<Vec<()>>()
        .await?;
    w.calm().await?;
    // While an owner is there, its PodGroup is created again after the garbage collector has deleted it.
    for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::Job] {
        wait_until(secs(10), &format!("no {kind:?} is left"), || async {
            let left = kind.api(&client).list(&ListParams::default()).await?.items.len();
            Ok(Seen::when(left == 0, || format!("{left}")))
        })
        .await?;
    }
    // A creation that was sent before the controller saw the deletion of its owner may still arrive, and the garbage collector deletes what it made.
    wait_until(secs(15), "no PodGroup is left, and no call was made for a second", || async {
        let calls = called::since(w, moment)?.len();
        sleep(secs(1)).await;
        let (left, more) = (groups_made(&client).await?, called::since(w, moment)?.len() - calls);
        Ok(Seen::when(left.is_empty() && more == 0, || format!("{left:?}, and {more} calls in the last second")))
    })
    .await?;
    let before = called::since(w, moment)?;
    ensure!(!w.faults().is_empty() || before.len() <= 50 * 6, "50 owners cost {:?}", tally(&before));
    let rest = called::now(w).await?;
    holds_for(secs(2), "no PodGroup comes back", || async {
        let made = groups_made(&client).await?;
        Ok(Seen::when(made.is_empty(), || format!("{made:?}")))
    })
    .await?;
    let calls = called::since(w, rest)?;
    // A request that a fault delayed may still be retried.
    ensure!(!w.faults().is_empty() || calls.is_empty(), "calls go on after the end: {:?}", tally(&calls));
    Ok(())
}

/// A PodGroup has a foreign finalizer when its Deployment is scaled to 0: it is deleted and goes when the finalizer is removed. Meanwhile the Deployment is
/// scaled up again: no work is repeated, and a new PodGroup exists once the finalizer is removed. A finalizer does not prevent the final deletion either.
pub(in crate::cases) async fn finalizers(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("d").make(&client).await?;
    wait_running(&client, "d", 1, 10).await?;
    let group = wait_one_group(&client, "d", 10).await?;
    let name = group.name_any();
    for comes_back in [true, false] {
        finalizer(&client, &name, json!(["example.com/mine"])).await?;
        scale(&client, "d", 0).await?;
        wait_until(secs(10), "the PodGroup is terminating", || async {
            let ending = podgroups(&client).get(&name).await?.metadata.deletion_timestamp.is_some();
            Ok(Seen::when(ending, || "it has no deletion timestamp".to_owned()))
        })
        .await?;
        let ending = podgroups(&client).get(&name).await?.uid();
        let moment = called::now(w).await?;
        if comes_back {
            scale(&client, "d", 1).await?;
        }
        holds_for(secs(2), "the terminating PodGroup still exists", || async {
            let now = podgroups(&client).get_opt(&name).await?.and_then(|group| group.uid());
            Ok(Seen::when(now == ending, || format!("{now:?}")))
        })
        .await?;
        let calls = called::since(w, moment)?;
        ensure!(calls.len() <= 4, "the terminating PodGroup cost the calls {:?}", tally(&calls));
        finalizer(&client, &name, json!(null)).await?;
        if comes_back {
            wait_running(&client, "d", 1, 10).await?;
            let back = wait_one_group(&client, "d", 10).await?;
            ensure!(back.uid() != ending, "the terminating PodGroup is back");
        } else {
            wait_until(secs(10), "the PodGroup is gone", || async {
                let left = groups_made(&client).await?;
                Ok(Seen::when(left.is_empty(), || format!("{left:?}")))
            })
            .await?;
        }
    }
    Ok(())
}

async fn finalizer(client: &kube::Client, name: &str, finalizers: serde_json::Value) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    podgroups(client).patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A namespace with Deployments, StatefulSets, Jobs and bare pods is deleted, and a foreign finalizer delays its end. Its PodGroups are deleted, no new
/// PodGroup is created there, no work is repeated, and a Deployment in another namespace is served as usual.
pub(in crate::cases) async fn a_namespace(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Owner::namespace("going").make(&client).await?;
    Owner::deployment("web").replicas(3).gang("3").make_in(&client, "going").await?;
    Owner::stateful_set("state", Order::Parallel).replicas(2).make_in(&client, "going").await?;
    Owner::job("job", 2).played_by_the_case().make_in(&client, "going").await?;
    Owner::pod("bare").make_in(&client, "going").await?;
    let holder = Owner::operators("holder").with("/metadata", "finalizers", json!(["example.com/mine"]));
    holder.make_in(&client, "going").await?;
    let groups = || async { anyhow::Ok(podgroups_in(&client, "going").list(&Default::default()).await?.items.len()) };
    wait_until(secs(10), "four PodGroups exist", || async {
        let there = groups().await?;
        Ok(Seen::when(there == 4, || there.to_string()))
    })
    .await?;
    let moment = called::now(w).await?;
    Kind::Namespace.api(&client).delete("going", &DeleteParams::default()).await?;
    wait_until(secs(30), "only the object with the finalizer is left", || async {
        let (groups, pods) = (groups().await?, Kind::Pod.api_in(&client, "going").list(&Default::default()).await?.items.len());
        Ok(Seen::when(groups + pods == 0, || format!("{groups} PodGroups, {pods} pods")))
    })
    .await?;
    unchanged(secs(10), secs(1), "no further call is made", || Ok(called::since(w, moment)?.len())).await?;
    let calls = called::since(w, moment)?;
    ensure!(!w.faults().is_empty() || calls.len() <= 20, "the end of a namespace with 4 owners cost {:?}", tally(&calls));
    let rest = called::now(w).await?;
    Workload::new("here").make(&client).await?;
    wait_running(&client, "here", 1, 10).await?;
    holds_for(secs(2), "no PodGroup comes back", || async {
        let there = groups().await?;
        Ok(Seen::when(there == 0, || there.to_string()))
    })
    .await?;
    let calls = called::since(w, rest)?;
    let goes_on = calls.iter().any(|call| call.namespace == "going");
    ensure!(!w.faults().is_empty() || !goes_on, "calls go on after the end: {:?}", tally(&calls));
    // The rest is up to Kubernetes, which checks for remaining objects only from time to time.
    Ok(())
}
