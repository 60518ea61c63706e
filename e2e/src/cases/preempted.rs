//! Rows Q15 and Q16: the victims of a gang with a higher priority, and of a queue that is below its share two levels away. All other pods stay.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::ledger::stays_unbound;
use super::reclaim::disruption_message;
use super::seen::{accounting_matches_api, bound, group_says, metric, queue_uses};
use crate::faults::{Fault, Refusal, Rule, Verb};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_member, make_node, make_pod, make_podgroup, make_queue_of};
use crate::wait::{Seen, holds_for, millis, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// Creates a gang of `members` pods with this priority class in this queue; all members are needed.
pub(super) async fn gang(client: &Client, name: &str, queue: &str, class: &str, members: usize, cpu: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": members, "queue": queue})).await?;
    for number in 0..members {
        ranked(client, &format!("{name}-{number}"), name, class, cpu).await?;
    }
    Ok(())
}

/// Creates a member of this PodGroup with this priority class.
pub(super) async fn ranked(client: &Client, name: &str, group: &str, class: &str, cpu: &str) -> Result<()> {
    let containers = [container(&[("cpu", cpu)])];
    make_pod(
        client,
        json!({
            "metadata": {"name": name, "labels": {"app": group}, "annotations": {"scheduling.k8s.io/group-name": group}},
            "spec": {"schedulerName": SCHEDULER_NAME, "priorityClassName": class, "terminationGracePeriodSeconds": 0, "containers": containers},
        }),
    )
    .await
}

/// Returns the names of the pods that exist and do not terminate.
async fn names(client: &Client, group: &str) -> Result<BTreeSet<String>> {
    Ok(pods_of(client, group).await?.iter().map(ResourceExt::name_any).collect())
}

/// Q15. A gang of low priority runs in a full queue. A gang of higher priority is created, and one eviction is refused in the dry run and in the real run. Both
/// pods of the low gang are evicted although one place would be enough, no other pod is, the pods name the reason, and the new gang runs when they are gone. A
/// gang created before, with one member that preempts never, evicts no pod.
pub(super) async fn by_priority(w: &mut World) -> Result<()> {
    let client = w.client();
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for (name, value, policy) in [("low", 10, "PreemptLowerPriority"), ("mild", 500, "Never"), ("high", 1000, "PreemptLowerPriority")] {
        let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    }
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "16Gi")]).await?;
    make_queue_of(&client, "full", json!({"capability": {"cpu": "4"}})).await?;
    gang(&client, "low", "full", "low", 2, "2").await?;
    // A lower priority in another queue, which is not above its share.
    make_podgroup(&client, "beside", json!({"minMember": 1, "queue": "default"})).await?;
    make_member(&client, "beside-0", "beside", &[("cpu", "1")]).await?;
    for (name, members) in [("low", 2), ("beside", 1)] {
        wait_running(&client, name, members, 10).await?;
    }

    make_podgroup(&client, "mild", json!({"minMember": 2, "queue": "full"})).await?;
    for (name, class) in [("mild-0", "high"), ("mild-1", "mild")] {
        ranked(&client, name, "mild", class, "1").await?;
    }
    group_says(&client, "mild", "queue \"full\" is over its quota: cpu requested 2, used 4, capability 4").await?;
    stays_unbound(w, "mild", 2).await?;
    ensure!(bound(&client, "low").await? == 2, "a pod was evicted for a gang with preemptionPolicy Never");
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default().labels("app=mild")).await?;

    add_finalizers(&client, "low").await?;
    // First the dry runs one after the other, then the evictions: each time the second request is refused once.
    let (through, refused) = (Fault::DelayRequest(millis(0)), Fault::Refuse(Refusal::Internal));
    for fault in [through, refused, through, through, refused, through] {
        w.aim(Rule { verb: Some(Verb::Create), resource: "pods/eviction", name: None, fault, times: 1 })?;
    }
    gang(&client, "high", "full", "high", 2, "1").await?;
    wait_evicted(w, "low", 2, "which has a higher priority", true).await?;
    stays_unbound(w, "high", 1).await?;
    release(&client, "low").await?;
    wait_running(&client, "high", 2, 15).await?;
    let port = w.scheduler()?.port();
    // The scheduler counts an eviction when its Event is written, too.
    wait_until(secs(10), "two pods were evicted", || async {
        let evicted = metric(port, "podgroup_scheduler_evictions_total{outcome=\"evicted\"}").await?;
        Ok(Seen::when((evicted - 2.0).abs() < 0.5, || evicted.to_string()))
    })
    .await?;
    let hit = w.hits("500")?;
    ensure!(hit == 2, "{hit} evictions were refused: {:?}", w.faults());
    have_events(&client, "Preempted", &names_of("low", 2)).await?;
    no_other_pod_is_evicted(&client, &[("beside", 1), ("high", 2)]).await?;
    queue_uses(&client, "full", "cpu", "2").await?;
    accounting_matches_api(w).await
}

/// Q16. Two branches and two levels: an inner queue lacks 6 of 12 cpu, and another branch has borrowed. A PodGroup of 2 cpu gets them from the smallest gang
/// there, which is evicted as a whole. A single pod is not evicted if its queue would fall below its guarantee. A PodGroup with a full parent
/// queue evicts no pod, however much is borrowed elsewhere.
pub(super) async fn across_two_levels(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2"] {
        make_node(&client, node, &[("cpu", "6"), ("memory", "16Gi")]).await?;
    }
    for (name, spec) in [
        ("ours", json!({"deserved": {"cpu": "6"}})),
        ("ours-below", json!({"parent": "ours", "deserved": {"cpu": "6"}})),
        ("theirs", json!({"deserved": {"cpu": "2"}})),
        ("theirs-below", json!({"parent": "theirs", "deserved": {"cpu": "2"}})),
        ("third", json!({"guarantee": {"resource": {"cpu": "2"}}, "deserved": {"cpu": "2"}})),
        // Its guarantee is its share, so only its capability limits it.
        ("walled", json!({"guarantee": {"resource": {"cpu": "2"}}, "capability": {"cpu": "1"}})),
        ("walled-a", json!({"parent": "walled", "deserved": {"cpu": "1"}})),
        ("walled-b", json!({"parent": "walled", "deserved": {"cpu": "1"}})),
    ] {
        make_queue_of(&client, name, spec).await?;
    }
    let running = [
        ("third", 1, "third", "3"),
        ("larger", 4, "theirs-below", "1"),
        ("walled", 1, "walled-a", "1"),
        ("smaller", 3, "theirs-below", "1"),
    ];
    for (name, members, queue, cpu) in running {
        gang(&client, name, queue, "", members, cpu).await?;
        wait_running(&client, name, members, 10).await?;
    }

    gang(&client, "behind-the-wall", "walled-b", "", 1, "1").await?;
    group_says(&client, "behind-the-wall", "queue \"walled\" is over its quota: cpu requested 1, used 1, capability 1").await?;
    stays_unbound(w, "behind-the-wall", 2).await?;
    no_other_pod_is_evicted(&client, &running.map(|(name, members, ..)| (name, members))).await?;

    add_finalizers(&client, "smaller").await?;
    gang(&client, "owed", "ours-below", "", 2, "1").await?;
    // Under faults an Event or condition may be lost; the programs do not wait for it.
    let must_say = w.faults().is_empty();
    wait_evicted(w, "smaller", 3, "queue ours-below is below its share", must_say).await?;
    release(&client, "smaller").await?;
    wait_running(&client, "owed", 2, 15).await?;
    no_other_pod_is_evicted(&client, &[("larger", 4), ("walled", 1), ("third", 1), ("owed", 2)]).await?;
    if must_say {
        have_events(&client, "Reclaimed", &names_of("smaller", 3)).await?;
    }
    ensure!(bound(&client, "behind-the-wall").await? == 0, "a pod is bound below queue walled, which is full");
    queue_uses(&client, "theirs", "cpu", "4").await?;
    queue_uses(&client, "third", "cpu", "3").await?;
    accounting_matches_api(w).await
}

fn names_of(group: &str, members: usize) -> BTreeSet<String> {
    (0..members).map(|number| format!("{group}-{number}")).collect()
}

/// The conditions of a victim can be read while it exists: from now on the case deletes these pods, not kwok.
pub(super) async fn add_finalizers(client: &Client, group: &str) -> Result<()> {
    let held = json!({"metadata": {"annotations": {"kwok.x-k8s.io/status": "custom"}, "finalizers": ["example.com/looked-at"]}});
    patch_all(client, group, held).await
}

pub(super) async fn release(client: &Client, group: &str) -> Result<()> {
    patch_all(client, group, json!({"metadata": {"finalizers": null}})).await
}

/// Lets one of these pods go.
pub(super) async fn release_one(client: &Client, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.patch(name, &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    Ok(())
}

async fn patch_all(client: &Client, group: &str, patch: serde_json::Value) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods.list(&ListParams::default().labels(&format!("app={group}"))).await? {
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    Ok(())
}

/// Waits until the whole gang terminates and each pod names the reason.
pub(super) async fn wait_evicted(w: &World, group: &str, members: usize, why: &str, must_say: bool) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(w.client(), NAMESPACE);
    wait_until(secs(15), &format!("all pods of {group} terminate with a DisruptionTarget condition"), || async {
        let all = pods.list(&ListParams::default().labels(&format!("app={group}"))).await?.items;
        let leaving: Vec<&Pod> = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).collect();
        let said: Vec<String> = leaving.iter().filter_map(|pod| disruption_message(pod)).collect();
        let all_say = said.iter().filter(|message| message.contains(why)).count() == leaving.len();
        Ok(Seen::when(leaving.len() == members && (all_say || !must_say), || format!("{} are, {said:?}", leaving.len())))
    })
    .await
}

/// Waits until exactly these pods have an Event with the reason.
async fn have_events(client: &Client, reason: &str, wanted: &BTreeSet<String>) -> Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until(secs(10), &format!("{wanted:?} have an Event {reason}"), || async {
        let all = events.list(&ListParams::default()).await?.items;
        let about = |event: &Event| event.reason.as_deref() == Some(reason) && event.involved_object.kind.as_deref() == Some("Pod");
        let pods: BTreeSet<_> = all.into_iter().filter(about).filter_map(|event| event.involved_object.name).collect();
        Ok(Seen::when(pods == *wanted, || format!("{pods:?}")))
    })
    .await
}

/// Checks that each PodGroup keeps `members` bound pods for a while.
pub(super) async fn no_other_pod_is_evicted(client: &Client, groups: &[(&str, usize)]) -> Result<()> {
    holds_for(secs(2), "no other pod is evicted", || async {
        let mut wrong = Vec::new();
        for (group, members) in groups {
            let there = bound(client, group).await?;
            if there != *members {
                wrong.push(format!("{there} of {members} of {group}: {:?}", names(client, group).await?));
            }
        }
        Ok(Seen::when(wrong.is_empty(), || wrong.join(", ")))
    })
    .await
}
