//! What do pods get whose ownerReferences lie, and owners whose PodGroup's name somebody else took?

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::called::{self, tally};
use crate::objects::{field, make_node, make_podgroup, podgroups, podgroups_in};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, group_name, groups_made, reference, resize, wait_group};
use crate::workloads::told::{wait_warning, warnings};
use crate::workloads::wait_running;
use crate::world::World;

/// Pods name the UID of somebody else's ReplicaSet under another name or kind, of one in another namespace, of one that is not there; a ReplicaSet that of a Deployment in another namespace; two controllers. The
/// last is refused by the API server. The others get nothing of ours, their victims' PodGroups stay what they were, and the garbage collector takes
/// them; no other namespace sees a write.
pub(in crate::cases) async fn owners(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let victim = Owner::replica_set("victim").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "victim", 2, 20).await?;
    let before = wait_group(&client, &victim, 5, "it is there", |_| None).await?;
    Owner::namespace("elsewhere").make(&client).await?;
    let deployment = Owner::deployment("secret").replicas(0).gang("nonsense").queue("secret").make_in(&client, "elsewhere").await?;
    let far = Owner::replica_set("far").make_in(&client, "elsewhere").await?;
    let far_group = || podgroups_of(&client, "elsewhere");
    wait_until(secs(10), "the PodGroup elsewhere is there", || async {
        let there = far_group().await?.len();
        Ok(Seen::when(there == 1, || there.to_string()))
    })
    .await?;

    let moment = called::now(w)?;
    let lie = |kind: &str, api: &str, name: &str, uid: Option<String>| json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true});
    let nobody = || Some("11111111-2222-4333-8444-555555555555".to_owned());
    let lies = [
        lie("ReplicaSet", "apps/v1", "another", victim.uid()),
        lie("StatefulSet", "apps/v1", "victim", victim.uid()),
        lie("ConfigMap", "v1", "victim", victim.uid()),
        lie("ReplicaSet", "apps/v1", "victim", nobody()),
        lie("Job", "batch/v1", "gone", nobody()),
        lie("ConfigMap", "v1", "gone", nobody()),
        lie("ReplicaSet", "apps/v1", "far", far.uid()),
    ];
    for (number, lie) in lies.iter().enumerate() {
        let pod = Owner::pod(&format!("liar-{number}"))
            .annotation(crate::workloads::MIN_MEMBER, "9")
            .annotation(crate::workloads::QUEUE, "stolen");
        pod.with("/metadata/labels", "app", "liar".into()).owned_by(lie).make(&client).await?;
    }
    // A ReplicaSet can lie as well: what its alleged Deployment elsewhere says is not for it.
    Owner::replica_set("liar").owned_by(&reference(Kind::Deployment, &deployment)).make(&client).await?;
    let two = [reference(Kind::ReplicaSet, &victim), lie("Job", "batch/v1", "gone", nobody())];
    let refused = Owner::pod("two").with("/metadata", "ownerReferences", Value::from(two.to_vec())).make(&client).await;
    ensure!(refused.is_err(), "a pod with two controllers was taken");

    wait_until(secs(20), "the garbage collector has taken the liars", || async {
        let left = Kind::Pod.api(&client).list(&ListParams::default().labels("app=liar")).await?.items;
        let names: Vec<_> = left.iter().map(|pod| format!("{} of {:?}", pod.name_any(), pod.owner_references())).collect();
        let set = Kind::ReplicaSet.api(&client).get_opt("liar").await?.is_some();
        Ok(Seen::when(left.is_empty() && !set, || format!("{names:?}, the ReplicaSet: {set}")))
    })
    .await?;
    wait_until(secs(20), "only the victim's PodGroup is left", || async {
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
    ensure!(unharmed, "the victim's PodGroup became {after:?}");
    let calls = called::since(w, moment)?;
    let leaked: Vec<_> = calls
        .iter()
        .filter(|call| call.line.contains("secret"))
        .map(|call| format!("{} {} {}", call.verb, call.resource, call.name))
        .collect();
    ensure!(leaked.is_empty(), "what a Deployment elsewhere says was believed: {leaked:?}");
    ensure!(far_group().await?.len() == 1, "elsewhere are {:?}", far_group().await?);
    if !w.faults().is_empty() {
        // A list that the mix has made old, or an answer that it took, costs calls that are none of the liars'.
        return Ok(());
    }
    let elsewhere: Vec<_> = calls.iter().filter(|call| call.namespace == "elsewhere").map(|call| call.line.as_str()).collect();
    ensure!(elsewhere.is_empty(), "the controller wrote elsewhere: {elsewhere:?}");
    // Of a dead owner of a kind that nobody watches nothing can be known: its group may be made, once.
    ensure!(calls.len() <= 4 * (lies.len() + 1), "{} lies cost {:?}", lies.len(), tally(&calls));
    Ok(())
}

/// A user's PodGroup has the name that ours would have: it is left alone, and an Event on the owner says so, once. When the user deletes it, ours is there.
pub(in crate::cases) async fn a_name_that_is_taken(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let set = Owner::replica_set("set").replicas(0).gang("2").make(&client).await?;
    make_podgroup(&client, &group_name(&set), json!({"minMember": 1})).await?;
    // Of the ReplicaSet, though not as its controller: what belongs to nobody the observer would take for a loss.
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": set.uid(), "controller": false}]}});
    let params = kube::api::PatchParams::default();
    podgroups(&client).patch(&group_name(&set), &params, &kube::api::Patch::Merge(owner)).await?;
    let theirs = podgroups(&client).get(&group_name(&set)).await?;
    let moment = called::now(w)?;
    resize(&client, Kind::ReplicaSet, "set", 2).await?;
    wait_warning(&client, "ReplicaSet", "set", "PodGroupNotOurs", &group_name(&set)).await?;
    wait_running(&client, "set", 2, 20).await?;
    for replicas in [3, 2] {
        resize(&client, Kind::ReplicaSet, "set", replicas).await?;
        wait_running(&client, "set", usize::try_from(replicas)?, 20).await?;
    }
    let after = podgroups(&client).get(&group_name(&set)).await?;
    let alone = after.labels() == theirs.labels()
        && field(&after, "/spec") == field(&theirs, "/spec")
        && after.owner_references() == theirs.owner_references();
    ensure!(alone, "it was changed to {after:?}");
    let told = warnings(&client, "ReplicaSet", "set").await?;
    ensure!(told.len() == 1, "told are {told:?}");
    let calls: Vec<_> = called::since(w, moment)?.into_iter().filter(|call| call.resource == "podgroups").collect();
    ensure!(called::writes(&calls) <= 1, "somebody else's PodGroup cost {:?}", tally(&calls));

    podgroups(&client).delete(&group_name(&set), &DeleteParams::default()).await?;
    wait_group(&client, &set, 10, "it is ours", |group| {
        let members = field(group, "/spec/minMember");
        (members != 2).then(|| format!("minMember {members}"))
    })
    .await?;
    ensure!(groups_made(&client).await? == [group_name(&set)], "it does not carry our label");
    Ok(())
}

async fn podgroups_of(client: &Client, namespace: &str) -> Result<Vec<String>> {
    let list = podgroups_in(client, namespace).list(&ListParams::default()).await?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}
