//! Rows L9 to L13: the reasons for waiting in a PodGroup's status are true, appear at once, and go when the waiting ends.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::ledger::stays_unbound;
use super::queues::no_longer_unschedulable;
use super::seen::{group_says, phase, queue_uses};
use crate::objects::{Amounts, NAMESPACE, condition, field, make_member, make_node, make_podgroup, make_queue, podgroups};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::owner::{Kind, Owner, patch};
use crate::workloads::{Workload, kubelet, pods_of, wait_one_group, wait_running};
use crate::world::World;

const GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// L9 (#604). A pod names a queue that does not exist; the queue is created after `pause` seconds. An Event on the PodGroup appears at once, one on the pod
/// soon after, other pods run, and the pod runs within seconds of the queue's creation.
pub(super) async fn queue_made_later(w: &mut World, pause: u64) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    Workload::new("early").queue("later").make(&client).await?;
    let group = wait_one_group(&client, "early", 10).await?.name_any();
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = wait_until(secs(10), "the Deployment has a pod", || async {
        let pods = pods_of(&client, "early").await?;
        Ok(pods.first().map_or_else(|| Seen::NotYet("none".to_owned()), |pod| Seen::Yes(pod.name_any())))
    })
    .await?;
    // A pod waits for 2 s before it says that something is missing, because it may still be created, and is written once in 10 s.
    for (limit, kind, name, reason) in [(10, "PodGroup", &group, "Unschedulable"), (15, "Pod", &pod, "FailedScheduling")] {
        wait_until(secs(limit), &format!("an Event on the {kind} says that the queue does not exist"), || async {
            let about = ListParams::default().fields(&format!("involvedObject.kind={kind},involvedObject.name={name},reason={reason}"));
            let told: Vec<_> = events.list(&about).await?.items.into_iter().filter_map(|event| event.message).collect();
            Ok(Seen::when(told.iter().any(|message| message.contains("queue \"later\" does not exist")), || format!("{told:?}")))
        })
        .await?;
    }
    group_says(&client, &group, "queue \"later\" does not exist").await?;
    Workload::new("other").make(&client).await?;
    wait_running(&client, "other", 1, 10).await?;
    stays_unbound(w, "early", pause).await?;
    make_queue(&client, "later", None, &[]).await?;
    wait_running(&client, "early", 1, 10).await?;
    no_longer_unschedulable(&client, &group).await
}

/// L10 (#4195), with PodGroups of a user, which the controller does not delete. A Job with a TTL completes, and its pods are deleted: its PodGroup
/// stays Completed and reserves nothing. A second Job that needs the whole queue starts.
pub(super) async fn completed_stays(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "2")]).await?;
    for name in ["first", "second"] {
        make_podgroup(&client, name, json!({"minMember": 2, "queue": "team", "minResources": {"cpu": "2"}})).await?;
        Owner::job(name, 2).pod_annotation(GROUP_NAME, name).with("/spec", "ttlSecondsAfterFinished", json!(1)).make(&client).await?;
        wait_until(secs(30), &format!("Job {name} and its pods are deleted after the TTL"), || async {
            let (job, pods) = (Kind::Job.api(&client).get_opt(name).await?, pods_of(&client, name).await?.len());
            Ok(Seen::when(job.is_none() && pods == 0, || format!("{pods} pods, {:?}", job.map(|job| field(&job, "/status")))))
        })
        .await?;
        let is_completed = || async {
            let now = phase(&client, name).await?;
            Ok(Seen::when(now == "Completed", || now))
        };
        // A status is written at most once per second: it may be written only after the pods are gone.
        wait_until(secs(10), "its PodGroup is Completed", is_completed).await?;
        holds_for(secs(2), "its PodGroup stays Completed", is_completed).await?;
        queue_uses(&client, "team", "cpu", "0").await?;
    }
    Ok(())
}

/// L11. A Job waits for a queue that a running Job fills. The running Job is suspended and its pods are deleted: the other Job runs.
pub(super) async fn suspended_job_frees_capacity(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "2")]).await?;
    let job = |name: &str| Owner::job(name, 2).gang("2").queue("team").played_by_the_case();
    job("first").make(&client).await?;
    kubelet::run(&client, "first", 2, 20).await?;
    let second = job("second").make(&client).await?;
    group_says(&client, &crate::workloads::owner::group_name(&second), "queue \"team\" is over its quota").await?;
    stays_unbound(w, "second", 2).await?;
    patch(&client, Kind::Job, "first", json!({"spec": {"suspend": true}})).await?;
    kubelet::run(&client, "second", 2, 10).await?;
    kubelet::end(&client, "second", 2, "Succeeded").await
}

/// L12. minMember 0, and minMember 2 with 2 failed and 2 pending members: the phase never becomes Running or Completed for that; the condition names
/// the reason.
pub(super) async fn an_empty_or_failed_gang_is_not_satisfied(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    make_podgroup(&client, "zero", json!({"minMember": 0, "queue": "default"})).await?;
    never_satisfied(&client, "zero", 2).await?;
    played(&client, "zero-0", "zero", &[("cpu", "1")]).await?;
    kubelet::run(&client, "zero", 1, 10).await?;
    kubelet::end(&client, "zero", 1, "Failed").await?;
    wait_failed(&client, "zero", 1).await?;
    make_member(&client, "zero-1", "zero", &[("cpu", "5")]).await?;
    group_says(&client, "zero", "Insufficient cpu").await?;
    never_satisfied(&client, "zero", 2).await?;

    make_podgroup(&client, "gang", json!({"minMember": 2, "queue": "default"})).await?;
    for name in ["gang-0", "gang-1"] {
        played(&client, name, "gang", &[("cpu", "1")]).await?;
    }
    kubelet::run(&client, "gang", 2, 10).await?;
    kubelet::end(&client, "gang", 2, "Failed").await?;
    wait_failed(&client, "gang", 2).await?;
    // One of the members fits.
    make_member(&client, "gang-2", "gang", &[("cpu", "1")]).await?;
    make_member(&client, "gang-3", "gang", &[("cpu", "5")]).await?;
    group_says(&client, "gang", "1 of 2 members find a place").await?;
    never_satisfied(&client, "gang", 2).await
}

async fn played(client: &Client, name: &str, group: &str, asks: Amounts<'_>) -> Result<()> {
    let pod = Owner::pod(name).with("/metadata/labels", "app", json!(group)).pod_annotation(GROUP_NAME, group);
    pod.asks(asks).played_by_the_case().make(client).await?;
    Ok(())
}

async fn wait_failed(client: &Client, group: &str, count: i64) -> Result<()> {
    wait_until(secs(10), &format!("PodGroup {group} counts {count} failed members"), || async {
        let seen = field(&podgroups(client).get(group).await?, "/status/failed");
        Ok(Seen::when(seen == count, || seen.to_string()))
    })
    .await
}

async fn never_satisfied(client: &Client, group: &str, seconds: u64) -> Result<()> {
    holds_for(secs(seconds), &format!("PodGroup {group} is neither Running nor Completed"), || async {
        let now = phase(client, group).await?;
        Ok(Seen::when(now != "Running" && now != "Completed", || now))
    })
    .await
}

/// L13 (#1859). A gang waits for `wait` seconds, then runs: no condition is Unschedulable=True any more, neither on the PodGroup nor on a pod.
pub(super) async fn condition_ends_with_the_waiting(w: &mut World, wait: u64) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    Workload::new("gang").replicas(3).gang("3").make(&client).await?;
    let group = wait_one_group(&client, "gang", 10).await?.name_any();
    group_says(&client, &group, "2 of 3 members find a place").await?;
    super::seen::pod_says(&client, "gang", "2 of 3 members find a place").await?;
    // All three, though two would find a place: a gang is scaled up for as a whole.
    super::seen::pods_wait_for(&client, "gang", 3, "Unschedulable").await?;
    let waiting = |object: &kube::api::DynamicObject| {
        condition(object, "podgroup.dev/Waiting").map(|(status, reason, _)| format!("{status} {reason}"))
    };
    let seen = waiting(&podgroups(&client).get(&group).await?);
    ensure!(seen.as_deref() == Some("True InsufficientResources"), "the group waits for {seen:?}");
    stays_unbound(w, "gang", wait).await?;
    make_node(&client, "n2", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    wait_running(&client, "gang", 3, 10).await?;
    no_longer_unschedulable(&client, &group).await?;
    let object = podgroups(&client).get(&group).await?;
    ensure!(waiting(&object).as_deref() == Some("False Scheduled"), "it still says {:?}", waiting(&object));
    ensure!(condition(&object, "Unschedulable").is_some(), "that it has waited is not told any more: {}", field(&object, "/status"));
    for pod in pods_of(&client, "gang").await? {
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let waits = conditions.iter().find(|each| each.type_ == "PodScheduled" && each.status != "True");
        ensure!(waits.is_none(), "a running pod has the condition {waits:?}");
    }
    Ok(())
}
