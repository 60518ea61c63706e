//! Rows L1, L4, L5 and L8: there is always exactly the right PodGroup.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep};

use crate::objects::{NAMESPACE, condition, field, make_node, make_queue, milli_of, podgroups, queues};
use crate::proxy::Delay;
use crate::wait::{Seen, holds_for, millis, secs, settles, wait_until};
use crate::workloads::{MIN_MEMBER, Workload, annotate, each_has_one, live_replica_sets, scale, wait_one_group, wait_running};
use crate::world::World;

/// L1 (#3374). A Deployment with one replica is scaled to 0 and to 1 200 times, without a pause; the controller's API path has a delay of 200 to 500
/// ms. Then 20 Deployments together, 3 times, half a second apart, without delay. Within 10 s of the end: 1 running pod, one PodGroup, the right
/// owner UID.
pub(super) async fn flapping(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "256Gi")]).await?;
    Workload::new("flapping").asks(&[("cpu", "100m")]).make(&client).await?;
    wait_running(&client, "flapping", 1, 10).await?;
    w.controller_path()?.delay(Delay::Between(millis(200), millis(500)), Delay::None);
    for _ in 0..200 {
        scale(&client, "flapping", 0).await?;
        scale(&client, "flapping", 1).await?;
    }
    w.calm().await?;
    settled(&client, &["flapping".to_owned()]).await?;

    w.controller_path()?.delay(Delay::None, Delay::None);
    w.storm();
    let twenty: Vec<String> = (0..20).map(|number| format!("flapping-{number:02}")).collect();
    for name in &twenty {
        Workload::new(name).asks(&[("cpu", "100m")]).make(&client).await?;
    }
    for name in &twenty {
        wait_running(&client, name, 1, 10).await?;
    }
    for _ in 0..3 {
        for replicas in [0, 1] {
            for name in &twenty {
                scale(&client, name, replicas).await?;
            }
            // This is not a wait: with half a second the deletion of the last flap meets the pod of the next.
            sleep(millis(500)).await;
        }
    }
    w.calm().await?;
    settled(&client, &twenty).await
}

/// Each Deployment has one running pod and exactly one PodGroup, and both stay. (A late DELETE may still arrive after the last pod was created; then the PodGroup is
/// back at once. S3)
pub(crate) async fn settled(client: &Client, names: &[String]) -> Result<()> {
    settles("each Deployment has one running pod and exactly one PodGroup", || each_has_one(client, names)).await
}

/// L4. The PodGroup of a running Deployment is deleted, then that of a Deployment with a pending pod. It is back within seconds with the right queue and
/// minMember; the queue's usage never drops; the pending pod is scheduled.
pub(super) async fn deleted_by_hand(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "2")]).await?;
    Workload::new("runs").replicas(2).gang("2").queue("team").make(&client).await?;
    wait_running(&client, "runs", 2, 10).await?;
    queue_uses(&client, "team", 2000).await?;
    delete_and_see_it_back(&client, "runs", "team", 2).await?;

    Workload::new("waits").gang("1").queue("team").make(&client).await?;
    let group = wait_one_group(&client, "waits", 10).await?;
    wait_unschedulable(&client, &group.name_any()).await?;
    delete_and_see_it_back(&client, "waits", "team", 1).await?;
    scale(&client, "runs", 0).await?;
    wait_running(&client, "waits", 1, 10).await
}

async fn delete_and_see_it_back(client: &Client, workload: &str, queue: &str, members: i64) -> Result<()> {
    let before = wait_one_group(client, workload, 10).await?;
    podgroups(client).delete(&before.name_any(), &DeleteParams::default()).await?;
    let back = async {
        let after = wait_until(secs(10), &format!("the PodGroup of {workload} is back"), || async {
            let found = podgroups(client).get_opt(&before.name_any()).await?;
            Ok(found.filter(|group| group.uid() != before.uid()).map_or_else(|| Seen::NotYet("it does not exist".to_owned()), Seen::Yes))
        })
        .await?;
        let (seen_queue, seen_members) = (field(&after, "/spec/queue"), field(&after, "/spec/minMember"));
        ensure!(seen_queue == queue && seen_members == members, "it is back with queue {seen_queue} and minMember {seen_members}");
        Ok(())
    };
    // Three seconds is longer than the PodGroup was missing, and longer than a status write takes.
    let usage = holds_for(secs(3), "the queue's usage never drops", || async {
        let used = used_milli(client, queue, "cpu").await?;
        Ok(Seen::when(used >= 2000, || format!("the queue uses {used}m cpu")))
    });
    let ((), ()) = tokio::try_join!(back, usage)?;
    wait_one_group(client, workload, 10).await?;
    Ok(())
}

async fn used_milli(client: &Client, queue: &str, resource: &str) -> Result<i64> {
    let object = queues(client).get(queue).await?;
    milli_of(object.data.pointer(&format!("/status/allocated/{resource}"))).context("an invalid amount")
}

async fn queue_uses(client: &Client, queue: &str, wanted: i64) -> Result<()> {
    wait_until(secs(10), &format!("queue {queue} uses {wanted}m cpu"), || async {
        let used = used_milli(client, queue, "cpu").await?;
        Ok(Seen::when(used == wanted, || used.to_string()))
    })
    .await
}

/// Waits until the PodGroup has the condition Unschedulable; returns the reason and the message.
pub(crate) async fn wait_unschedulable(client: &Client, group: &str) -> Result<(String, String)> {
    wait_until(secs(10), &format!("PodGroup {group} is Unschedulable"), || async {
        let object: DynamicObject = podgroups(client).get(group).await?;
        Ok(match condition(&object, "Unschedulable") {
            Some((status, reason, message)) if status == "True" => Seen::Yes((reason, message)),
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await
}

/// L5 (#4786, #4792). `kubectl annotate deploy d scheduling.volcano.sh/group-min-member=3 --overwrite` on a running Deployment: minMember becomes 3.
pub(super) async fn min_member_followed(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("d").replicas(4).gang("2").make(&client).await?;
    wait_running(&client, "d", 4, 10).await?;
    let before = wait_one_group(&client, "d", 10).await?;
    ensure!(field(&before, "/spec/minMember") == 2, "minMember is {} at the start", field(&before, "/spec/minMember"));
    annotate(&client, "d", MIN_MEMBER, "3").await?;
    wait_until(secs(10), "minMember becomes 3", || async {
        let group = podgroups(&client).get(&before.name_any()).await?;
        let seen = field(&group, "/spec/minMember");
        Ok(Seen::when(seen == 3 && group.uid() == before.uid(), || {
            format!("minMember {seen}, same object: {}", group.uid() == before.uid())
        }))
    })
    .await
}

/// L8. A Deployment with `group-min-member: "2000000000"`: an Event says what is wrong, and the PodGroups of other Deployments exist within a second.
pub(super) async fn absurd_min_member(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    Workload::new("absurd").gang("2000000000").make(&client).await?;
    let mut times = Vec::new();
    for number in 0..5 {
        let name = format!("other-{number}");
        Workload::new(&name).make(&client).await?;
        // The second begins when its ReplicaSet exists: the time of kube-controller-manager is not ours.
        wait_until(secs(10), &format!("{name} has a ReplicaSet"), || async {
            Ok(Seen::when(!live_replica_sets(&client, &name).await?.is_empty(), || "none".to_owned()))
        })
        .await?;
        let start = Instant::now();
        wait_one_group(&client, &name, 10).await?;
        times.push(start.elapsed());
    }
    // A controller that the value keeps busy is late each time.
    times.sort();
    ensure!(times.get(2).is_some_and(|median| *median < secs(1)), "the five PodGroups came after {times:?}");
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until(secs(10), "an Event names group-min-member", || async {
        let all = events.list(&ListParams::default()).await?.items;
        let about = |event: &Event| {
            let message = event.message.clone().unwrap_or_default();
            message.contains("group-min-member") || message.contains("2000000000")
        };
        let found = all.iter().any(|event| event.type_.as_deref() == Some("Warning") && about(event));
        Ok(Seen::when(found, || format!("{} other Events", all.len())))
    })
    .await?;
    let group = wait_one_group(&client, "absurd", 10).await?;
    let members = field(&group, "/spec/minMember").as_i64().context("minMember")?;
    ensure!(members == 1, "minMember must be at most the replicas of the owner, 1, but is {members}");
    Ok(())
}
