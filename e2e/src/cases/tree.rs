//! Rows Q3, Q4, Q7, Q8 and Q10: a queue that cannot be used, or that is full, blocks exactly the PodGroups that it must.

use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::ledger::stays_unbound;
use super::queues::no_longer_unschedulable;
use super::seen::{bound, group_says, pod_says, queue_is, queue_uses};
use crate::objects::{make_member, make_node, make_podgroup, make_queue, make_queue_of, patch_queue, podgroups, queues};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, delete, scale, wait_one_group, wait_running};
use crate::world::World;

/// Q3 (#4227). A PodGroup in `root`, one in a parent queue, and one moved into a parent queue: only they are blocked, with a condition. All other queues go on,
/// and each of the three runs when it is moved to a leaf queue.
pub(super) async fn groups_in_root_and_parent_queues(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    make_queue(&client, "parent", None, &[]).await?;
    for (name, parent) in [("child", Some("parent")), ("sibling", Some("parent")), ("other", None)] {
        make_queue(&client, name, parent, &[]).await?;
    }
    for (name, queue) in [("in-root", "root"), ("in-parent", "parent"), ("patched", "child")] {
        make_podgroup(&client, name, json!({"minMember": 2, "queue": queue})).await?;
        make_member(&client, &format!("{name}-0"), name, &[("cpu", "1")]).await?;
    }
    group_says(&client, "patched", "needs 2 members, 1 exist").await?;
    to_queue(&client, "patched", "parent").await?;
    for (name, queue) in [("in-root", "root"), ("in-parent", "parent"), ("patched", "parent")] {
        make_member(&client, &format!("{name}-1"), name, &[("cpu", "1")]).await?;
        group_says(&client, name, &format!("queue \"{queue}\" has queues below it")).await?;
    }
    for queue in ["child", "sibling", "other", "default"] {
        let name = format!("goes-on-{queue}");
        Workload::new(&name).queue(queue).make(&client).await?;
        wait_running(&client, &name, 1, 10).await?;
    }
    for (name, seconds) in [("in-root", 2), ("in-parent", 0), ("patched", 0)] {
        stays_unbound(w, name, seconds).await?;
    }
    for name in ["in-root", "in-parent", "patched"] {
        to_queue(&client, name, "child").await?;
        wait_running(&client, name, 2, 10).await?;
        no_longer_unschedulable(&client, name).await?;
    }
    queue_uses(&client, "parent", "cpu", "8").await
}

async fn to_queue(client: &Client, group: &str, queue: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"queue": queue}}));
    podgroups(client).patch(group, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Q4. A queue's parent is deleted while pods run in the queue: new pods wait with a reason, running pods stay charged, nothing else stops. It
/// recovers when the parent is back.
pub(super) async fn parent_deleted(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "parent", None, &[("cpu", "4")]).await?;
    make_queue(&client, "child", Some("parent"), &[]).await?;
    Workload::new("runs").replicas(2).queue("child").make(&client).await?;
    wait_running(&client, "runs", 2, 10).await?;
    queues(&client).delete("parent", &DeleteParams::default()).await?;
    // The scheduler may see the pod before it sees the deletion.
    let reason = "queue \"child\" names the parent \"parent\", which does not exist";
    queue_complains(&client, "child", reason).await?;
    Workload::new("late").queue("child").make(&client).await?;
    let group = wait_one_group(&client, "late", 10).await?.name_any();
    group_says(&client, &group, reason).await?;
    Workload::new("other").make(&client).await?;
    wait_running(&client, "other", 1, 10).await?;
    // A further pod of a running workload is a new pod, too.
    scale(&client, "runs", 3).await?;
    pod_says(&client, "runs", reason).await?;
    stays_unbound(w, "late", 2).await?;
    queue_uses(&client, "child", "cpu", "2").await?;
    make_queue(&client, "parent", None, &[("cpu", "4")]).await?;
    wait_running(&client, "late", 1, 10).await?;
    wait_running(&client, "runs", 3, 10).await?;
    // The parent's capability counts again: four are used.
    scale(&client, "runs", 4).await?;
    pod_says(&client, "runs", "queue \"parent\" is over its quota").await?;
    queue_uses(&client, "parent", "cpu", "4").await
}

/// Waits until an Event on the queue contains `part`.
pub(in crate::cases) async fn queue_complains(client: &Client, queue: &str, part: &str) -> Result<()> {
    complains(client, "Queue", queue, "InvalidQueue", part).await
}

/// Waits for an Event on a Queue or PodGroup with this reason and a message that contains `part`.
pub(in crate::cases) async fn complains(client: &Client, kind: &str, name: &str, wanted: &str, part: &str) -> Result<()> {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    wait_until(secs(10), &format!("an Event {wanted} on {kind} {name} contains: {part}"), || async {
        let about = ListParams::default().fields(&format!("involvedObject.kind={kind},involvedObject.name={name}"));
        let messages: Vec<_> = events.list(&about).await?.items.into_iter().map(|event| (event.reason, event.message)).collect();
        let right = |(reason, message): &(Option<String>, Option<String>)| {
            reason.as_deref() == Some(wanted) && message.as_deref().is_some_and(|message| message.contains(part))
        };
        Ok(Seen::when(messages.iter().any(right), || format!("{messages:?}")))
    })
    .await
}

/// Q7 (#3828). g1 has a guarantee of 6 and is idle; g2 submits 10 × 1 cpu in a cluster of 10: g2 gets at most 4. g1 gets its 6 at any time.
pub(super) async fn guaranteed_and_idle(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    make_node(&client, "n2", &[("cpu", "6"), ("memory", "64Gi")]).await?;
    make_queue_of(&client, "g1", json!({"guarantee": {"resource": {"cpu": "6"}}})).await?;
    make_queue(&client, "g2", None, &[]).await?;
    Workload::new("greedy").replicas(10).queue("g2").make(&client).await?;
    wait_until(secs(10), "four pods are bound", || async {
        let count = bound(&client, "greedy").await?;
        Ok(Seen::when(count == 4, || count.to_string()))
    })
    .await?;
    let four = || async {
        let count = bound(&client, "greedy").await?;
        Ok(Seen::when(count == 4, || count.to_string()))
    };
    holds_for(secs(3), "g2 has four", four).await?;
    pod_says(&client, "greedy", "unused guarantees 6").await?;
    Workload::new("entitled").replicas(6).gang("6").queue("g1").make(&client).await?;
    wait_running(&client, "entitled", 6, 10).await?;
    holds_for(secs(2), "g2 has four", four).await?;
    // Capacity that is no longer guaranteed is for all queues.
    delete(&client, "entitled").await?;
    patch_queue(&client, "g1", json!({"spec": {"guarantee": null}})).await?;
    wait_running(&client, "greedy", 10, 10).await
}

/// Q8. `capability: {cpu: "0"}` is 0 for pods that request cpu. With `capability: {pods: 2}` (a number, as users type it) the third pod waits.
pub(super) async fn zero_is_zero(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "zero", None, &[("cpu", "0")]).await?;
    make_queue_of(&client, "two", json!({"capability": {"pods": 2}})).await?;
    Workload::new("cpu").queue("zero").make(&client).await?;
    Workload::new("memory").asks(&[("memory", "1Gi")]).queue("zero").make(&client).await?;
    wait_running(&client, "memory", 1, 15).await?;
    let group = wait_one_group(&client, "cpu", 10).await?.name_any();
    group_says(&client, &group, "queue \"zero\" is over its quota: cpu requested 1, used 0, capability 0").await?;
    stays_unbound(w, "cpu", 2).await?;

    Workload::new("three").replicas(3).asks(&[]).queue("two").make(&client).await?;
    pod_says(&client, "three", "queue \"two\" is over its quota: pods requested 1, used 2, capability 2").await?;
    let two = || async {
        let count = bound(&client, "three").await?;
        Ok(Seen::when(count == 2, || count.to_string()))
    };
    // The scheduler counts a binding before the API server has it.
    wait_until(secs(10), "two pods are bound", two).await?;
    holds_for(secs(2), "two pods are bound", two).await?;
    patch_queue(&client, "two", json!({"spec": {"capability": {"pods": 3}}})).await?;
    wait_running(&client, "three", 3, 10).await?;
    patch_queue(&client, "zero", json!({"spec": {"capability": {"cpu": null}}})).await?;
    wait_running(&client, "cpu", 1, 10).await
}

/// Q10 (#2276). Best-effort pods in a closed queue, and in a queue with a closed parent, are not bound; bound pods stay. A queue that was closed by
/// hand is still closed when its parent is open again.
pub(super) async fn closed(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "up", None, &[]).await?;
    for name in ["below", "by-hand"] {
        make_queue(&client, name, Some("up"), &[]).await?;
    }
    Workload::new("before").asks(&[]).queue("below").make(&client).await?;
    wait_running(&client, "before", 1, 15).await?;
    for name in ["up", "by-hand"] {
        set_state(&client, name, "Closed").await?;
    }
    for (queue, state) in [("up", "Closing"), ("below", "Closing"), ("by-hand", "Closed")] {
        queue_is(&client, queue, state).await?;
    }
    for (name, queue, closed) in [("late", "below", "up"), ("other", "by-hand", "by-hand")] {
        Workload::new(name).asks(&[]).queue(queue).make(&client).await?;
        let group = wait_one_group(&client, name, 10).await?.name_any();
        group_says(&client, &group, &format!("queue \"{closed}\" is closed")).await?;
    }
    Workload::new("elsewhere").asks(&[]).make(&client).await?;
    wait_running(&client, "elsewhere", 1, 10).await?;
    stays_unbound(w, "late", 2).await?;
    stays_unbound(w, "other", 0).await?;
    wait_running(&client, "before", 1, 0).await?;
    delete(&client, "before").await?;
    queue_is(&client, "up", "Closed").await?;

    set_state(&client, "up", "Open").await?;
    wait_running(&client, "late", 1, 10).await?;
    queue_is(&client, "below", "Open").await?;
    stays_unbound(w, "other", 2).await?;
    queue_is(&client, "by-hand", "Closed").await?;
    set_state(&client, "by-hand", "Open").await?;
    wait_running(&client, "other", 1, 10).await?;
    queue_is(&client, "by-hand", "Open").await
}

async fn set_state(client: &Client, queue: &str, state: &str) -> Result<()> {
    patch_queue(client, queue, json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-desired-state": state}}})).await
}
