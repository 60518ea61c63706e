//! Pods with false ownerReferences, and owners with a generated PodGroup name that another user has taken.

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::called::{self, tally};
use crate::objects::{field, make_node, make_podgroup, podgroups, podgroups_in};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::events::{wait_warning, warnings};
use crate::workloads::owner::{Kind, Owner, group_name, groups_made, reference, resize, wait_group};
use crate::workloads::wait_running;
use crate::world::World;

/// False owners: the UID of another user's ReplicaSet with another name or kind, a ReplicaSet of another namespace, an owner that does not exist, a
/// ReplicaSet with a Deployment of another namespace, two controllers. The API server refuses the last one. The others get no PodGroup of ours, the
/// PodGroups of the real owners do not change, the garbage collector deletes the objects, and no other namespace sees a write.
pub(in crate::cases) async fn owners(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let victim = Owner::replica_set("victim").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "victim", 2, 10).await?;
    let before = wait_group(&client, &victim, 5, "the PodGroup exists", |_| None).await?;
    Owner::namespace("elsewhere").make(&client).await?;
    let deployment = Owner::deployment("secret").replicas(0).gang("nonsense").queue("secret").make_in(&client, "elsewhere").await?;
    let far = Owner::replica_set("far").make_in(&client, "elsewhere").await?;
    let far_group = || podgroups_of(&client, "elsewhere");
    wait_until(secs(10), "the PodGroup in the other namespace exists", || async {
        let there = far_group().await?.len();
        Ok(Seen::when(there == 1, || there.to_string()))
    })
    .await?;

    let moment = called::now(w).await?;
    let lie = |kind: &str, api: &str, name: &str, uid: Option<String>| json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true});
    let unknown_uid = || Some("11111111-2222-4333-8444-555555555555".to_owned());
    let lies = [
        lie("ReplicaSet", "apps/v1", "another", victim.uid()),
        lie("StatefulSet", "apps/v1", "victim", victim.uid()),
        lie("ConfigMap", "v1", "victim", victim.uid()),
        lie("ReplicaSet", "apps/v1", "victim", unknown_uid()),
        lie("Job", "batch/v1", "gone", unknown_uid()),
        lie("ConfigMap", "v1", "gone", unknown_uid()),
        lie("ReplicaSet", "apps/v1", "far", far.uid()),
    ];
    for (number, lie) in lies.iter().enumerate() {
        let pod = Owner::pod(&format!("liar-{number}"))
            .annotation(crate::workloads::MIN_MEMBER, "9")
            .annotation(crate::workloads::QUEUE, "stolen");
        pod.with("/metadata/labels", "app", "liar".into()).owned_by(lie).make(&client).await?;
    }
    // A ReplicaSet can have a false owner, too: the annotations of that Deployment in another namespace must not apply to it.
    Owner::replica_set("liar").owned_by(&reference(Kind::Deployment, &deployment)).make(&client).await?;
    let two = [reference(Kind::ReplicaSet, &victim), lie("Job", "batch/v1", "gone", unknown_uid())];
    let refused = Owner::pod("two").with("/metadata", "ownerReferences", Value::from(two.to_vec())).make(&client).await;
    ensure!(refused.is_err(), "the API server accepted a pod with two controllers");

    wait_until(secs(10), "the garbage collector has deleted the objects with false owners", || async {
        let left = Kind::Pod.api(&client).list(&ListParams::default().labels("app=liar")).await?.items;
        let names: Vec<_> = left.iter().map(|pod| format!("{} of {:?}", pod.name_any(), pod.owner_references())).collect();
        let set = Kind::ReplicaSet.api(&client).get_opt("liar").await?.is_some();
        Ok(Seen::when(left.is_empty() && !set, || format!("left: pods {names:?}, the ReplicaSet: {set}")))
    })
    .await?;
    wait_until(secs(10), "only the PodGroup of the real owner is left", || async {
        let left = groups_made(&client).await?;
        Ok(Seen::when(left == [group_name(&victim)], || format!("{left:?}")))
    })
    .await?;
    let after = podgroups(&client).get(&group_name(&victim)).await?;
    let same = |part: fn(&DynamicObject) -> Value| part(&before) == part(&after);
    let unharmed = after.uid() == before.uid()
        && after.owner_references() == before.owner_references()
        && after.annotations() == before.annotations()
        && same(|group| field(group, "/spec"));
    ensure!(unharmed, "the PodGroup of the real owner changed to {after:?}");
    let calls = called::since(w, moment)?;
    let leaked: Vec<_> = calls
        .iter()
        .filter(|call| call.body.to_string().contains("secret"))
        .map(|call| format!("{} {} {}", call.verb, call.resource, call.name))
        .collect();
    ensure!(leaked.is_empty(), "annotations of a Deployment in another namespace were used: {leaked:?}");
    ensure!(far_group().await?.len() == 1, "the other namespace has {:?}", far_group().await?);
    if !w.faults().is_empty() {
        // Under the mix an old list or a lost response costs further calls.
        return Ok(());
    }
    let elsewhere: Vec<_> = calls.iter().filter(|call| call.namespace == "elsewhere").collect();
    ensure!(elsewhere.is_empty(), "the controller wrote in another namespace: {elsewhere:?}");
    // The controller cannot know whether an owner of an unwatched kind is deleted: the PodGroup of such an owner may be created once.
    ensure!(calls.len() <= 4 * (lies.len() + 1), "{} false owners cost {:?}", lies.len(), tally(&calls));
    Ok(())
}

/// A user's PodGroup has the generated name: the controller leaves it alone, and one Event on the owner says so. After the user deletes it, ours is created.
pub(in crate::cases) async fn a_name_that_is_taken(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let set = Owner::replica_set("set").replicas(0).gang("2").make(&client).await?;
    make_podgroup(&client, &group_name(&set), json!({"minMember": 1})).await?;
    // The ReplicaSet owns it, but not as its controller. The observer would report a PodGroup without any owner.
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": set.uid(), "controller": false}]}});
    let params = kube::api::PatchParams::default();
    podgroups(&client).patch(&group_name(&set), &params, &kube::api::Patch::Merge(owner)).await?;
    let theirs = podgroups(&client).get(&group_name(&set)).await?;
    let moment = called::now(w).await?;
    resize(&client, Kind::ReplicaSet, "set", 2).await?;
    wait_warning(&client, "ReplicaSet", "set", "PodGroupNotOurs", &group_name(&set)).await?;
    wait_running(&client, "set", 2, 10).await?;
    for replicas in [3, 2] {
        resize(&client, Kind::ReplicaSet, "set", replicas).await?;
        wait_running(&client, "set", usize::try_from(replicas)?, 10).await?;
    }
    let after = podgroups(&client).get(&group_name(&set)).await?;
    let alone = after.labels() == theirs.labels()
        && field(&after, "/spec") == field(&theirs, "/spec")
        && after.owner_references() == theirs.owner_references();
    ensure!(alone, "the user's PodGroup was changed to {after:?}");
    let events = warnings(&client, "ReplicaSet", "set").await?;
    ensure!(events.len() == 1, "expected one Event: {events:?}");
    let calls: Vec<_> = called::since(w, moment)?.into_iter().filter(|call| call.resource == "podgroups").collect();
    ensure!(called::writes(&calls) <= 1, "the user's PodGroup cost {:?}", tally(&calls));

    podgroups(&client).delete(&group_name(&set), &DeleteParams::default()).await?;
    wait_group(&client, &set, 10, "the PodGroup is the controller's", |group| {
        let members = field(group, "/spec/minMember");
        (members != 2).then(|| format!("minMember {members}"))
    })
    .await?;
    ensure!(groups_made(&client).await? == [group_name(&set)], "it does not have the label of the controller");
    Ok(())
}

async fn podgroups_of(client: &Client, namespace: &str) -> Result<Vec<String>> {
    let list = podgroups_in(client, namespace).list(&ListParams::default()).await?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}
