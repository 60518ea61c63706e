//! A pod that leaves its owner because a user changes its labels.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::called;
use crate::faults::{Fault, Rule, StreamFault, Verb};
use crate::objects::{make_node, podgroups};
use crate::wait::{Seen, holds_for, millis, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, group_name, groups_made, patch, reference, resize, wait_group, wait_min_member, wait_no_group};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// A user changes a pod's labels, for example to debug it: its ReplicaSet releases it and creates another pod. Now it is a bare pod with its own PodGroup,
/// whatever its annotation says, and the deletion of the ReplicaSet's PodGroup does not wait for it. With the old labels it belongs to the ReplicaSet again.
pub(in crate::cases) async fn relabelled(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let set = Owner::replica_set("set").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "set", 2, 10).await?;
    let group = wait_min_member(&client, &set, 2, 10).await?;
    let stray = pods_of(&client, "set").await?.first().map(ResourceExt::name_any).context("no pod")?;
    patch(&client, Kind::Pod, &stray, json!({"metadata": {"labels": {"app": "stray"}}})).await?;
    wait_running(&client, "set", 2, 10).await?;
    let pod = wait_until(secs(10), "the ReplicaSet has released the pod", || async {
        let pod = Kind::Pod.api(&client).get(&stray).await?;
        let owners = format!("{:?}", pod.owner_references());
        Ok(if pod.owner_references().is_empty() { Seen::Yes(pod) } else { Seen::NotYet(owners) })
    })
    .await?;
    wait_min_member(&client, &pod, 1, 10).await?;
    ensure!(wait_group(&client, &set, 5, "the PodGroup exists", |_| None).await?.uid() == group.uid(), "the PodGroup was recreated");

    resize(&client, Kind::ReplicaSet, "set", 0).await?;
    wait_no_group(&client, &set, 15).await?;
    holds_for(secs(2), "the released pod runs and has its own PodGroup", || async {
        let (made, runs) = (groups_made(&client).await?, pods_of(&client, "stray").await?.len());
        Ok(Seen::when(made == [group_name(&pod)] && runs == 1, || format!("{made:?}, {runs} pods")))
    })
    .await?;
    resize(&client, Kind::ReplicaSet, "set", 1).await?;
    wait_running(&client, "set", 1, 10).await?;
    resize(&client, Kind::ReplicaSet, "set", 2).await?;
    wait_running(&client, "set", 2, 10).await?;
    // The ReplicaSet adopts it again and then has one pod too many, so it deletes one.
    patch(&client, Kind::Pod, &stray, json!({"metadata": {"labels": {"app": "set"}}})).await?;
    wait_running(&client, "set", 2, 10).await?;
    wait_until(secs(10), "only the ReplicaSet's PodGroup is left", || async {
        let made = groups_made(&client).await?;
        Ok(Seen::when(made == [group_name(&set)], || format!("{made:?}")))
    })
    .await?;
    let _ = Kind::Pod.api(&client).delete(&stray, &DeleteParams::default()).await;
    wait_running(&client, "set", 2, 10).await
}

/// While the controller's watch of pods is silent, a ReplicaSet has a pod that its selector does not select and that has no name of a PodGroup. The ReplicaSet is
/// scaled to 0. Its PodGroup stays until the pod is gone. kube-controller-manager is stopped meanwhile: it would release the pod.
pub(in crate::cases) async fn unseen(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    w.cluster().signal("kube-controller-manager", "STOP").await?;
    let set = Owner::replica_set("set").replicas(1).make(&client).await?;
    let group = wait_min_member(&client, &set, 1, 10).await?;
    let silent = Fault::Stream(millis(0), StreamFault::Hold(secs(60)));
    w.aim_at_controller(Rule { verb: Some(Verb::Watch), resource: "pods", name: None, fault: silent, times: 1 })?;
    w.controller_path()?.cut();
    wait_until(secs(10), "the controller's watch of pods is silent", || async {
        let hits = w.faults().get("watch-hold").copied().unwrap_or_default();
        Ok(Seen::when(hits == 1, || "the watch is not open yet".to_owned()))
    })
    .await?;
    let stray = Owner::pod("stray").with("/metadata", "labels", json!({"app": "stray"})).owned_by(&reference(Kind::ReplicaSet, &set));
    stray.make(&client).await?;
    let no_stamp = json!({"annotations": {"scheduling.k8s.io/group-name": Value::Null}, "labels": {"podgroup.dev/group": Value::Null}});
    patch(&client, Kind::Pod, "stray", json!({"metadata": no_stamp})).await?;

    let moment = called::now(w).await?;
    resize(&client, Kind::ReplicaSet, "set", 0).await?;
    holds_for(secs(8), "the PodGroup stays", || async {
        let there = podgroups(&client).get_opt(&group_name(&set)).await?;
        Ok(Seen::when(there.is_some_and(|there| there.uid() == group.uid()), || "it is gone".to_owned()))
    })
    .await?;
    let lists = called::since(w, moment)?.iter().filter(|call| call.verb == "list" && call.resource == "pods").count();
    ensure!(lists > 0, "the controller did not look for members");
    Kind::Pod.api(&client).delete("stray", &DeleteParams::default().grace_period(0)).await?;
    w.cluster().signal("kube-controller-manager", "CONT").await?;
    wait_no_group(&client, &set, 90).await
}
