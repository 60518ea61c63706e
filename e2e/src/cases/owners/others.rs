//! Rows O5 to O7: the PodGroup of a pod without an owner, with an owner of an unknown kind, or with its own PodGroup.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};

use crate::called;
use crate::cases::ledger::stays_unbound;
use crate::objects::{field, make_node, make_podgroup, make_queue, podgroups};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::events::wait_warning;
use crate::workloads::kinds::Order;
use crate::workloads::owner::{
    Kind, Owner, delete_as, group_name, groups_made, patch, reference, resize, wait_group, wait_min_member, wait_no_group,
};
use crate::workloads::{MIN_MEMBER, QUEUE, pods_of, wait_running};
use crate::world::World;

/// The annotation that names a pod's group.
const GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// O5. A bare pod has a PodGroup of one pod, in its queue, which is deleted with the pod. An Event says so if the pod requested more members.
pub(in crate::cases) async fn bare_pods(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "2")]).await?;
    let pod =
        Owner::pod("bare").queue("team").annotation(MIN_MEMBER, "2").with("/metadata/labels", "app", "bare".into()).make(&client).await?;
    let group = wait_min_member(&client, &pod, 1, 10).await?;
    ensure!(field(&group, "/spec/queue") == "team", "the queue is {}", field(&group, "/spec/queue"));
    wait_warning(&client, "Pod", "bare", "InvalidPodGroupSource", "group-min-member").await?;
    wait_running(&client, "bare", 1, 10).await?;
    Kind::Pod.api(&client).delete("bare", &DeleteParams::default()).await?;
    wait_no_group(&client, &pod, 10).await?;
    let left = groups_made(&client).await?;
    ensure!(left.is_empty(), "left over: {left:?}");
    Ok(())
}

/// O6. An object of an unknown kind owns three pods that request a gang of 3: with capacity for 2 no pod is bound, with more all run. The PodGroup
/// exists while the pods exist, and is deleted with their owner. The same holds for a ReplicaSet with a controller of an unknown kind (Argo
/// Rollouts): its own annotations count, and its size is followed.
pub(in crate::cases) async fn operators(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "8")]).await?;
    let owner = Owner::operators("trainer").make(&client).await?;
    let by = reference(Kind::ConfigMap, &owner);
    for number in 0..3 {
        let pod = Owner::pod(&format!("trainer-{number}")).annotation(MIN_MEMBER, "3").annotation(QUEUE, "team").owned_by(&by);
        pod.with("/metadata/labels", "app", "trainer".into()).make(&client).await?;
    }
    let group = wait_min_member(&client, &owner, 3, 10).await?;
    ensure!(field(&group, "/spec/queue") == "team", "the queue is {}", field(&group, "/spec/queue"));
    stays_unbound(w, "trainer", 2).await?;
    make_node(&client, "n2", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    wait_running(&client, "trainer", 3, 10).await?;
    Kind::Pod.api(&client).delete("trainer-1", &DeleteParams::default()).await?;
    wait_running(&client, "trainer", 2, 10).await?;
    let after = wait_group(&client, &owner, 5, "the PodGroup exists", |_| None).await?;
    ensure!(after.uid() == group.uid(), "the PodGroup was recreated");

    let rollout = Owner::operators("rollout").make(&client).await?;
    let set = Owner::replica_set("canary")
        .replicas(4)
        .gang("3")
        .queue("team")
        .owned_by(&reference(Kind::ConfigMap, &rollout))
        .make(&client)
        .await?;
    wait_running(&client, "canary", 4, 10).await?;
    let group = wait_min_member(&client, &set, 3, 10).await?;
    ensure!(field(&group, "/spec/queue") == "team", "the queue is {}", field(&group, "/spec/queue"));
    resize(&client, Kind::ReplicaSet, "canary", 2).await?;
    wait_min_member(&client, &set, 2, 10).await?;

    for name in ["trainer", "rollout"] {
        delete_as(&client, Kind::ConfigMap, name, PropagationPolicy::Background).await?;
    }
    wait_until(secs(10), "no object of either owner is left", || async {
        let left = groups_made(&client).await?;
        Ok(Seen::when(left.is_empty(), || format!("{left:?}")))
    })
    .await
}

/// O7-named-later. A StatefulSet's template starts to name a user's PodGroup, and stops again. Another StatefulSet's template starts to name another
/// scheduler. Our PodGroup exists as long as one of its pods exists, is then deleted, and is recreated.
pub(in crate::cases) async fn named_later(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_podgroup(&client, "mine", serde_json::json!({"minMember": 1})).await?;
    let set = Owner::stateful_set("set", Order::Parallel).replicas(2).make(&client).await?;
    let leaves = Owner::stateful_set("leaves", Order::Parallel).make(&client).await?;
    wait_running(&client, "set", 2, 10).await?;
    wait_running(&client, "leaves", 1, 10).await?;
    let before = wait_min_member(&client, &set, 1, 10).await?;
    let named = |name: Option<&str>| serde_json::json!({"spec": {"template": {"metadata": {"annotations": {GROUP_NAME: name}}}}});
    patch(&client, Kind::StatefulSet, "set", named(Some("mine"))).await?;
    // Its pods are replaced one after the other.
    wait_no_group(&client, &set, 30).await?;
    wait_running(&client, "set", 2, 10).await?;
    patch(&client, Kind::StatefulSet, "set", named(None)).await?;
    let back = wait_min_member(&client, &set, 1, 10).await?;
    ensure!(back.uid() != before.uid(), "the PodGroup was never deleted");
    let theirs = serde_json::json!({"spec": {"template": {"spec": {"schedulerName": "other-scheduler"}}}});
    patch(&client, Kind::StatefulSet, "leaves", theirs).await?;
    // Half a minute after its last pod, because the next pod could have had our scheduler.
    wait_no_group(&client, &leaves, 50).await?;
    wait_until(secs(10), "the pods are members of our PodGroup again", || async {
        let pods = pods_of(&client, "set").await?;
        let ours = pods.iter().filter(|pod| pod.annotations().get(GROUP_NAME).is_none_or(|name| *name == group_name(&set))).count();
        Ok(Seen::when(ours == 2, || format!("{ours} of {} pods", pods.len())))
    })
    .await?;
    wait_running(&client, "set", 2, 10).await
}

/// O7. Templates of each kind of owner name an existing PodGroup (Spark, Kubeflow, a user): we create nothing, do not touch that PodGroup, make no
/// call, and the pods run when their PodGroup is satisfied.
pub(in crate::cases) async fn groups_of_their_own(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    // The owner does not matter: our label on a PodGroup does not make it ours.
    make_podgroup(&client, "mine", serde_json::json!({"minMember": 3})).await?;
    let before = podgroups(&client).get("mine").await?;
    let moment = called::now(w).await?;
    let owner = Owner::operators("trainer").make(&client).await?;
    let label = |owner: Owner| owner.with_pod("/metadata/labels", "of", "mine".into()).pod_annotation(GROUP_NAME, "mine").gang("2");
    label(Owner::deployment("web").replicas(2)).make(&client).await?;
    label(Owner::replica_set("set")).make(&client).await?;
    label(Owner::stateful_set("state", Order::Parallel)).make(&client).await?;
    label(Owner::daemon_set("agent")).make(&client).await?;
    label(Owner::job("job", 2).played_by_the_case()).make(&client).await?;
    label(Owner::pod("bare")).make(&client).await?;
    label(Owner::pod("of-trainer").owned_by(&reference(Kind::ConfigMap, &owner))).make(&client).await?;
    wait_until(secs(10), "all nine pods are bound", || async {
        let pods = Kind::Pod.api(&client).list(&kube::api::ListParams::default().labels("of=mine")).await?.items;
        let bound = pods.iter().filter(|pod| pod.data.pointer("/spec/nodeName").is_some()).count();
        Ok(Seen::when(bound == 9, || format!("{bound} of {} pods", pods.len())))
    })
    .await?;
    let made = groups_made(&client).await?;
    ensure!(made.is_empty(), "the controller made {made:?}");
    let calls = called::since(w, moment)?;
    ensure!(calls.is_empty(), "the controller made calls: {:?}", called::tally(&calls));
    let after = podgroups(&client).get("mine").await?;
    ensure!(
        after.metadata.annotations == before.metadata.annotations && field(&after, "/spec") == field(&before, "/spec"),
        "the user's PodGroup was changed"
    );
    Ok(())
}
