//! Row L6 and the sources of each field: the controller keeps a PodGroup's spec correct, and leaves alone what an admin has set.

use anyhow::{Result, ensure};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::called::{self, tally, writes};
use crate::objects::{NAMESPACE, field, make_node, make_queue, podgroups};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, group_name, patch, wait_group, wait_observed};
use crate::workloads::{MIN_MEMBER, QUEUE, Workload, live_replica_sets, pods_of, wait_one_group, wait_running};
use crate::world::World;

const MIN_RESOURCES: &str = "scheduling.volcano.sh/group-min-resources";
const COPIED: &str = "volcano.sh/preemptable";

/// L6 (#4516). The template of a pending StatefulSet is reduced from 10 cpu to 1: minResources follows, the pod runs. (Kubernetes does not replace a
/// pending pod of an OrderedReady StatefulSet; its documentation says to delete it by hand.)
pub(super) async fn shrunk(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    for (name, order) in [("parallel", Order::Parallel), ("ordered", Order::OrderedReady)] {
        let set = Owner::stateful_set(name, order).asks(&[("cpu", "10")]).make(&client).await?;
        wait_field(&client, &set, "/spec/minResources/cpu", json!("10")).await?;
        wait_until(secs(10), "the set has its pod", || async {
            let pods = pods_of(&client, name).await?.len();
            Ok(Seen::when(pods == 1, || pods.to_string()))
        })
        .await?;
        let small = json!({"spec": {"template": {"spec": {"containers": [crate::objects::container(&[("cpu", "1")])]}}}});
        patch(&client, Kind::StatefulSet, name, small).await?;
        wait_field(&client, &set, "/spec/minResources/cpu", json!("1")).await?;
        if order == Order::OrderedReady {
            wait_observed(&client, Kind::StatefulSet, name).await?;
            Kind::Pod.api(&client).delete(&format!("{name}-0"), &DeleteParams::default()).await?;
        }
        wait_running(&client, name, 1, 10).await?;
    }
    Ok(())
}

/// L5-sources. Each source of each field is added, changed and removed: on the Deployment, on the namespace, on a StatefulSet's template. The PodGroup follows
/// and stays the same object.
pub(super) async fn sources_followed(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    for queue in ["a", "b", "of-namespace"] {
        make_queue(&client, queue, None, &[]).await?;
    }
    for (name, value) in [("high", 1000), ("low", 10)] {
        let classes: Api<PriorityClass> = Api::all(client.clone());
        let class = serde_json::from_value(json!({"metadata": {"name": name}, "value": value}))?;
        classes.create(&PostParams::default(), &class).await?;
    }
    Workload::new("d").replicas(3).make(&client).await?;
    wait_running(&client, "d", 3, 10).await?;
    let before = wait_one_group(&client, "d", 10).await?;
    let set = replica_set(&client, "d").await?;
    for (key, steps) in [
        (
            QUEUE,
            [
                (json!("a"), "/spec/queue", json!("a")),
                (json!("b"), "/spec/queue", json!("b")),
                (Value::Null, "/spec/queue", json!("default")),
            ],
        ),
        (
            MIN_MEMBER,
            [
                (json!("2"), "/spec/minMember", json!(2)),
                (json!("3"), "/spec/minMember", json!(3)),
                (Value::Null, "/spec/minMember", json!(1)),
            ],
        ),
        (
            MIN_RESOURCES,
            [
                (json!(r#"{"cpu": "2"}"#), "/spec/minResources", json!({"cpu": "2"})),
                (json!(r#"{"memory": "1Gi"}"#), "/spec/minResources", json!({"memory": "1Gi"})),
                (Value::Null, "/spec/minResources/cpu", json!("1")),
            ],
        ),
    ] {
        for (value, pointer, expected) in steps {
            patch(&client, Kind::Deployment, "d", json!({"metadata": {"annotations": {key: value}}})).await?;
            wait_field(&client, &set, pointer, expected).await?;
        }
    }
    for value in [json!("true"), json!("false"), Value::Null] {
        patch(&client, Kind::Deployment, "d", json!({"metadata": {"annotations": {COPIED: value}}})).await?;
        wait_group(&client, &set, 5, &format!("{COPIED} is {value}"), |group| {
            let seen = group.annotations().get(COPIED).map_or(Value::Null, |text| json!(text));
            (seen != value).then(|| format!("{seen}"))
        })
        .await?;
    }
    for (value, expected) in [(json!("of-namespace"), "of-namespace"), (Value::Null, "default")] {
        patch(&client, Kind::Namespace, NAMESPACE, json!({"metadata": {"annotations": {QUEUE: value}}})).await?;
        wait_field(&client, &set, "/spec/queue", json!(expected)).await?;
    }
    ensure!(wait_one_group(&client, "d", 10).await?.uid() == before.uid(), "the PodGroup was recreated");

    // A StatefulSet keeps its PodGroup when its template changes; a Deployment gets another ReplicaSet.
    let template = |queue: Value, class: Value| json!({"spec": {"template": {"metadata": {"annotations": {QUEUE: queue}}, "spec": {"priorityClassName": class}}}});
    let set = Owner::stateful_set("set", Order::Parallel).make(&client).await?;
    wait_field(&client, &set, "/spec/priorityClassName", Value::Null).await?;
    for (queue, class, expected) in
        [(json!("a"), json!("high"), "a"), (json!("b"), json!("low"), "b"), (Value::Null, Value::Null, "default")]
    {
        patch(&client, Kind::StatefulSet, "set", template(queue, class.clone())).await?;
        wait_field(&client, &set, "/spec/queue", json!(expected)).await?;
        wait_field(&client, &set, "/spec/priorityClassName", class).await?;
    }
    patch(&client, Kind::Deployment, "d", template(Value::Null, json!("high"))).await?;
    crate::workloads::wait_rolled_out(&client, "d", 30).await?;
    let group = wait_one_group(&client, "d", 15).await?;
    ensure!(field(&group, "/spec/priorityClassName") == "high", "the new one's class is {}", field(&group, "/spec/priorityClassName"));
    Ok(())
}

/// L5-admin. A field that an admin has set on the PodGroup stays while its source does not change: through all other changes, and through a restart of the
/// controller, which writes nothing. When the source changes, the source wins.
pub(super) async fn what_an_admin_set(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    for queue in ["a", "b", "admins"] {
        make_queue(&client, queue, None, &[]).await?;
    }
    Workload::new("d").replicas(4).gang("3").queue("a").make(&client).await?;
    wait_running(&client, "d", 4, 10).await?;
    let set = replica_set(&client, "d").await?;
    wait_one_group(&client, "d", 10).await?;
    let by_hand = json!({"metadata": {"annotations": {"admins": "note"}}, "spec": {"minMember": 2, "queue": "admins", "priorityClassName": "admins"}});
    podgroups(&client).patch(&group_name(&set), &kube::api::PatchParams::default(), &kube::api::Patch::Merge(by_hand)).await?;
    let stays = || async {
        let group = podgroups(&client).get(&group_name(&set)).await?;
        let spec = (field(&group, "/spec/minMember"), field(&group, "/spec/queue"), field(&group, "/spec/priorityClassName"));
        let note = group.annotations().get("admins").cloned();
        let right = spec == (json!(2), json!("admins"), json!("admins")) && note.as_deref() == Some("note");
        Ok(Seen::when(right, || format!("{spec:?}, note {note:?}")))
    };
    holds_for(secs(2), "the admin's values stay", stays).await?;
    // The source of another field changes.
    patch(&client, Kind::Deployment, "d", json!({"metadata": {"annotations": {COPIED: "true"}}})).await?;
    wait_group(&client, &set, 5, "the annotation is copied", |group| {
        (!group.annotations().contains_key(COPIED)).then(|| "the annotation is missing".to_owned())
    })
    .await?;
    // More replicas than the requested gang: nothing changes.
    crate::workloads::scale(&client, "d", 5).await?;
    wait_running(&client, "d", 5, 10).await?;
    holds_for(secs(1), "the admin's values stay", stays).await?;

    w.controller()?.terminate().await?;
    let moment = called::now(w).await?;
    w.controller()?.restart().await?;
    holds_for(secs(2), "the admin's values stay", stays).await?;
    let calls = called::since(w, moment)?;
    ensure!(writes(&calls) == 0, "a restart made the writes {:?}", tally(&calls));

    patch(&client, Kind::Deployment, "d", json!({"metadata": {"annotations": {MIN_MEMBER: "4"}}})).await?;
    wait_field(&client, &set, "/spec/minMember", json!(4)).await?;
    wait_field(&client, &set, "/spec/queue", json!("admins")).await?;
    patch(&client, Kind::Deployment, "d", json!({"metadata": {"annotations": {QUEUE: "b"}}})).await?;
    wait_field(&client, &set, "/spec/queue", json!("b")).await?;
    wait_field(&client, &set, "/spec/priorityClassName", json!("admins")).await
}

async fn wait_field(client: &Client, owner: &DynamicObject, pointer: &str, expected: Value) -> Result<()> {
    wait_group(client, owner, 10, &format!("{pointer} is {expected}"), |group| {
        let seen = field(group, pointer);
        (seen != expected).then(|| seen.to_string())
    })
    .await?;
    Ok(())
}

/// Returns the ReplicaSet of a Deployment in which only one has pods.
async fn replica_set(client: &Client, name: &str) -> Result<DynamicObject> {
    let sets = live_replica_sets(client, name).await?;
    ensure!(sets.len() == 1, "{name} has {} ReplicaSets with pods", sets.len());
    let name = sets.first().map(ResourceExt::name_any).unwrap_or_default();
    Ok(Kind::ReplicaSet.api(client).get(&name).await?)
}
