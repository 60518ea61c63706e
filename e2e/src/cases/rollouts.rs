//! Rows L7: rollouts of Deployments finish, with all limits of the strategy, with a pause, a rollback, and two ReplicaSets with pods at once.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;
use serde_json::json;

use crate::objects::{field, make_node, podgroups};
use crate::recorded::Recording;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, patch};
use crate::workloads::{Workload, groups_of, live_replica_sets, scale, set_image, wait_one_group, wait_rolled_out, wait_running};
use crate::world::World;

/// Checks that no minMember exceeded the replicas of its ReplicaSet. It is not checked under faults, where an old cache shows old replicas.
async fn judge(w: &World, recording: Recording) -> Result<()> {
    if w.faults().is_empty() {
        recording.judge().await?;
    }
    Ok(())
}

/// L7-corners. Five Deployments of 4 with a gang of 4 and every strategy, from one additional pod at a time to the deletion of all pods first, roll
/// out at once. All finish with one PodGroup each, and no minMember ever exceeds the replicas of its ReplicaSet.
pub(super) async fn corners(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let recording = Recording::start(&client).await?;
    let corners = [(json!(1), json!(0)), (json!(0), json!(1)), (json!(1), json!(1)), (json!("100%"), json!(0)), (json!(0), json!("100%"))];
    let names: Vec<String> = (0..corners.len()).map(|number| format!("corner-{number}")).collect();
    for (name, (surge, unavailable)) in names.iter().zip(corners) {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        Owner::deployment(name).replicas(4).gang("4").with("/spec", "strategy", strategy).make(&client).await?;
    }
    try_join_all(names.iter().map(|name| wait_running(&client, name, 4, 10))).await?;
    for image in ["example/2", "example/3"] {
        for name in &names {
            set_image(&client, name, image).await?;
        }
        try_join_all(names.iter().map(|name| wait_rolled_out(&client, name, 30))).await?;
    }
    for name in &names {
        let group = wait_one_group(&client, name, 15).await?.name_any();
        wait_until(secs(10), &format!("{name} ends with minMember 4"), || async {
            let seen = field(&podgroups(&client).get(&group).await?, "/spec/minMember");
            Ok(Seen::when(seen == 4, || seen.to_string()))
        })
        .await?;
    }
    judge(w, recording).await
}

/// L7-paused. A rollout is paused: two ReplicaSets have pods, each with its own PodGroup and a minMember within its size. A change of the
/// replicas is shared between them and followed. The rollout is resumed and finishes. Then it is rolled back to the former ReplicaSet,
/// which has a PodGroup again.
pub(super) async fn paused_in_the_middle(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    let recording = Recording::start(&client).await?;
    Workload::new("d").replicas(4).gang("4").rolling(1, 0).make(&client).await?;
    wait_running(&client, "d", 4, 10).await?;
    let first = wait_one_group(&client, "d", 10).await?.name_any();

    // Without a pod that counts as available the rollout does not finish before it is paused again.
    patch(&client, Kind::Deployment, "d", json!({"spec": {"paused": true, "minReadySeconds": 300}})).await?;
    set_image(&client, "d", "example/2").await?;
    // kube-controller-manager shares the replicas of a paused Deployment between its ReplicaSets, so two of them have pods for as long as needed.
    // First comes one step of the rollout.
    patch(&client, Kind::Deployment, "d", json!({"spec": {"paused": false}})).await?;
    wait_until(secs(10), "a second ReplicaSet has pods", || async {
        let sets = live_replica_sets(&client, "d").await?.len();
        Ok(Seen::when(sets == 2, || format!("{sets}")))
    })
    .await?;
    patch(&client, Kind::Deployment, "d", json!({"spec": {"paused": true}})).await?;
    scale(&client, "d", 12).await?;
    let both = wait_until(secs(10), "two ReplicaSets have a PodGroup each, with minMember within their size", || async {
        let sets = live_replica_sets(&client, "d").await?;
        let groups = groups_of(&client, "d").await?;
        let mut seen = Vec::new();
        for set in &sets {
            let (size, name) =
                (set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1), format!("podgroup-{}", set.uid().unwrap_or_default()));
            let members = groups.iter().find(|group| group.name_any() == name).and_then(|group| field(group, "/spec/minMember").as_i64());
            seen.push((i64::from(size), members));
        }
        let wanted: i64 = seen.iter().map(|(size, _)| size).sum();
        let right = seen.iter().all(|(size, members)| *members == Some((*size).clamp(1, 4)));
        let text = format!("sizes and minMembers {seen:?}, {} groups", groups.len());
        Ok(if wanted >= 12 && right && groups.len() == sets.len() { Seen::Yes(seen) } else { Seen::NotYet(text) })
    })
    .await?;
    patch(&client, Kind::Deployment, "d", json!({"spec": {"paused": false, "minReadySeconds": 0}})).await?;
    wait_rolled_out(&client, "d", 30).await?;
    let second = wait_one_group(&client, "d", 15).await?.name_any();
    ensure!(second != first, "the new ReplicaSet has the old one's PodGroup, of {both:?}");

    set_image(&client, "d", "example/1").await?;
    wait_rolled_out(&client, "d", 30).await?;
    let back = wait_one_group(&client, "d", 15).await?.name_any();
    ensure!(back == first, "after the rollback to {first} the PodGroup is {back}");
    judge(w, recording).await
}
