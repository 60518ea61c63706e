//! What is the PodGroup of a pod whose owner is none of the stock kinds, or that has none, or that names a group of its own?

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};

use crate::called;
use crate::cases::ledger::stays_unbound;
use crate::objects::{field, make_node, make_podgroup, make_queue, podgroups};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{
    Kind, Owner, delete_as, group_name, groups_made, patch, reference, resize, wait_group, wait_min_member, wait_no_group,
};
use crate::workloads::told::wait_warning;
use crate::workloads::{MIN_MEMBER, QUEUE, pods_of, wait_running};
use crate::world::World;

/// The annotation that names a pod's group.
const GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// A bare pod has a group of one, in the queue that it names, which goes with it; an Event says so if it asked for more.
pub(in crate::cases) async fn bare_pods(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "2")]).await?;
    let pod =
        Owner::pod("bare").queue("team").annotation(MIN_MEMBER, "2").with("/metadata/labels", "app", "bare".into()).make(&client).await?;
    let group = wait_min_member(&client, &pod, 1, 10).await?;
    ensure!(field(&group, "/spec/queue") == "team", "its queue is {}", field(&group, "/spec/queue"));
    wait_warning(&client, "Pod", "bare", "InvalidPodGroupSource", "group-min-member").await?;
    wait_running(&client, "bare", 1, 10).await?;
    Kind::Pod.api(&client).delete("bare", &DeleteParams::default()).await?;
    wait_no_group(&client, &pod, 20).await?;
    let left = groups_made(&client).await?;
    ensure!(left.is_empty(), "left over are {left:?}");
    Ok(())
}

/// An operator's object that we know nothing of has three pods which ask for a gang of 3: none is bound on room for 2, all run when there is more. The
/// PodGroup lives with the pods and goes with their owner. So does that of a ReplicaSet whose controller is such an object (Argo Rollouts): its own
/// annotations count, and its size is followed.
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
    ensure!(field(&group, "/spec/queue") == "team", "its queue is {}", field(&group, "/spec/queue"));
    stays_unbound(w, "trainer", 2).await?;
    make_node(&client, "n2", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    wait_running(&client, "trainer", 3, 20).await?;
    Kind::Pod.api(&client).delete("trainer-1", &DeleteParams::default()).await?;
    wait_running(&client, "trainer", 2, 10).await?;
    let after = wait_group(&client, &owner, 5, "it is there", |_| None).await?;
    ensure!(after.uid() == group.uid(), "it is another one");

    let rollout = Owner::operators("rollout").make(&client).await?;
    let set = Owner::replica_set("canary")
        .replicas(4)
        .gang("3")
        .queue("team")
        .owned_by(&reference(Kind::ConfigMap, &rollout))
        .make(&client)
        .await?;
    wait_running(&client, "canary", 4, 20).await?;
    let group = wait_min_member(&client, &set, 3, 5).await?;
    ensure!(field(&group, "/spec/queue") == "team", "its queue is {}", field(&group, "/spec/queue"));
    resize(&client, Kind::ReplicaSet, "canary", 2).await?;
    wait_min_member(&client, &set, 2, 5).await?;

    for name in ["trainer", "rollout"] {
        delete_as(&client, Kind::ConfigMap, name, PropagationPolicy::Background).await?;
    }
    wait_until(secs(20), "nothing is left of either", || async {
        let left = groups_made(&client).await?;
        Ok(Seen::when(left.is_empty(), || format!("{left:?}")))
    })
    .await
}

/// A StatefulSet's template comes to name a group of somebody's own, and no longer does; another's comes to name another scheduler. Our PodGroup is there
/// for as long as a pod of it is, goes then, and is back.
pub(in crate::cases) async fn change_of_mind(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_podgroup(&client, "mine", serde_json::json!({"minMember": 1})).await?;
    let set = Owner::stateful_set("set", Order::Parallel).replicas(2).make(&client).await?;
    let leaves = Owner::stateful_set("leaves", Order::Parallel).make(&client).await?;
    wait_running(&client, "set", 2, 20).await?;
    wait_running(&client, "leaves", 1, 20).await?;
    let before = wait_min_member(&client, &set, 1, 5).await?;
    let named = |name: Option<&str>| serde_json::json!({"spec": {"template": {"metadata": {"annotations": {GROUP_NAME: name}}}}});
    patch(&client, Kind::StatefulSet, "set", named(Some("mine"))).await?;
    wait_no_group(&client, &set, 20).await?;
    wait_running(&client, "set", 2, 20).await?;
    patch(&client, Kind::StatefulSet, "set", named(None)).await?;
    let back = wait_min_member(&client, &set, 1, 10).await?;
    ensure!(back.uid() != before.uid(), "it was never away");
    let theirs = serde_json::json!({"spec": {"template": {"spec": {"schedulerName": "somebody-elses"}}}});
    patch(&client, Kind::StatefulSet, "leaves", theirs).await?;
    // Half a minute after its last pod: the next one could have been given to us.
    wait_no_group(&client, &leaves, 50).await?;
    wait_until(secs(20), "the pods are members of ours again", || async {
        let pods = pods_of(&client, "set").await?;
        let ours = pods.iter().filter(|pod| pod.annotations().get(GROUP_NAME).is_none_or(|name| *name == group_name(&set))).count();
        Ok(Seen::when(ours == 2, || format!("{ours} of {}", pods.len())))
    })
    .await?;
    wait_running(&client, "set", 2, 20).await
}

/// Templates that name a group of somebody's own (Spark, Kubeflow, a user), for each kind of owner: nothing of ours is made, the named PodGroup is not
/// touched, no call is made, and the pods run when their group is satisfied.
pub(in crate::cases) async fn groups_of_their_own(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    // Whoever owned it: a label of ours on it is not what makes it ours.
    make_podgroup(&client, "mine", serde_json::json!({"minMember": 3})).await?;
    let before = podgroups(&client).get("mine").await?;
    let moment = called::now(w)?;
    let owner = Owner::operators("trainer").make(&client).await?;
    let label = |owner: Owner| owner.with_pod("/metadata/labels", "of", "mine".into()).pod_annotation(GROUP_NAME, "mine").gang("2");
    label(Owner::deployment("web").replicas(2)).make(&client).await?;
    label(Owner::replica_set("set")).make(&client).await?;
    label(Owner::stateful_set("state", Order::Parallel)).make(&client).await?;
    label(Owner::daemon_set("agent")).make(&client).await?;
    label(Owner::job("job", 2).played_by_the_case()).make(&client).await?;
    label(Owner::pod("bare")).make(&client).await?;
    label(Owner::pod("of-trainer").owned_by(&reference(Kind::ConfigMap, &owner))).make(&client).await?;
    wait_until(secs(20), "all nine pods are bound", || async {
        let pods = Kind::Pod.api(&client).list(&kube::api::ListParams::default().labels("of=mine")).await?.items;
        let bound = pods.iter().filter(|pod| pod.data.pointer("/spec/nodeName").is_some()).count();
        Ok(Seen::when(bound == 9, || format!("{bound} of {}", pods.len())))
    })
    .await?;
    let made = groups_made(&client).await?;
    ensure!(made.is_empty(), "the controller made {made:?}");
    let calls = called::since(w, moment)?;
    ensure!(calls.is_empty(), "the controller made calls: {:?}", called::tally(&calls));
    let after = podgroups(&client).get("mine").await?;
    ensure!(
        after.metadata.annotations == before.metadata.annotations && field(&after, "/spec") == field(&before, "/spec"),
        "it was changed"
    );
    Ok(())
}
