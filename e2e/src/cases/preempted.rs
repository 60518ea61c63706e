//! Who goes for a gang of higher priority, or of a queue that is owed something two levels away, and who stays? Rows Q15 and Q16.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::ledger::stays_unbound;
use super::owed::for_whom;
use super::seen::{books_are_true, bound, group_says, metric, queue_uses};
use crate::faults::{Fault, Refusal, Rule, Verb};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_member, make_node, make_pod, make_podgroup, make_queue_of};
use crate::wait::{Seen, holds_for, millis, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// A gang of `members` pods of this class, all of which it needs, in this queue.
async fn gang(client: &Client, name: &str, queue: &str, class: &str, members: usize, cpu: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": members, "queue": queue})).await?;
    for number in 0..members {
        ranked(client, &format!("{name}-{number}"), name, class, cpu).await?;
    }
    Ok(())
}

async fn ranked(client: &Client, name: &str, group: &str, class: &str, cpu: &str) -> Result<()> {
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

/// The names of the pods that are there and not being deleted.
async fn names(client: &Client, group: &str) -> Result<BTreeSet<String>> {
    Ok(pods_of(client, group).await?.iter().map(ResourceExt::name_any).collect())
}

/// Q15. In a full queue a gang of low priority runs; one of higher priority comes, and one eviction is refused once in the dry run and once when it is meant: both of the low
/// gang go though the room of one would do, nobody else does, they are told for whom, and the other runs when they are really gone. Before that a gang came of which
/// one member preempts nobody: nobody goes for it.
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
    // Lower still, and in another queue, which owes nothing.
    make_podgroup(&client, "beside", json!({"minMember": 1, "queue": "default"})).await?;
    make_member(&client, "beside-0", "beside", &[("cpu", "1")]).await?;
    for (name, members) in [("low", 2), ("beside", 1)] {
        wait_running(&client, name, members, 20).await?;
    }

    make_podgroup(&client, "mild", json!({"minMember": 2, "queue": "full"})).await?;
    for (name, class) in [("mild-0", "high"), ("mild-1", "mild")] {
        ranked(&client, name, "mild", class, "1").await?;
    }
    group_says(&client, "mild", "queue \"full\" is over its quota: cpu requested 2, used 4, capability 4").await?;
    stays_unbound(w, "mild", 2).await?;
    ensure!(bound(&client, "low").await? == 2, "somebody went for a gang that takes nobody's place");
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default().labels("app=mild")).await?;

    hold(&client, "low").await?;
    // Asked for in a dry run, one after the other, and then evicted: each time the second is refused at first.
    let (through, refused) = (Fault::DelayRequest(millis(0)), Fault::Refuse(Refusal::Internal));
    for fault in [through, refused, through, through, refused, through] {
        w.aim(Rule { verb: Some(Verb::Create), resource: "pods/eviction", name: None, fault, times: 1 })?;
    }
    gang(&client, "high", "full", "high", 2, "1").await?;
    leave(w, "low", 2, "which has a higher priority", true).await?;
    stays_unbound(w, "high", 1).await?;
    let_go(&client, "low").await?;
    wait_running(&client, "high", 2, 15).await?;
    let port = w.scheduler()?.port();
    let evicted = metric(port, "podgroup_scheduler_evictions_total{outcome=\"evicted\"}").await?;
    ensure!((evicted - 2.0).abs() < 0.5, "{evicted} pods were evicted");
    let hit = w.hits("500")?;
    ensure!(hit == 2, "{hit} evictions were refused: {:?}", w.faults());
    let told = told(&client, "Preempted").await?;
    ensure!(told == names_of("low", 2), "of whom Events say that they were preempted: {told:?}");
    nobody_else_goes(&client, &[("beside", 1), ("high", 2)]).await?;
    queue_uses(&client, "full", "cpu", "2").await?;
    books_are_true(w).await
}

/// Q16. Two branches and two levels: an inner queue is owed 6 of 12 cpu, and another branch has borrowed. The one who asks for 2 gets them from the smallest gang there, which goes
/// whole; not from the pod that goes alone, whose queue would fall below its guarantee; and a group whose own parent is full gets nobody's place, however much is
/// borrowed elsewhere.
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
        // What is guaranteed to it is its share, so nothing but its ceiling is in the way.
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
        wait_running(&client, name, members, 20).await?;
    }

    gang(&client, "behind-the-wall", "walled-b", "", 1, "1").await?;
    group_says(&client, "behind-the-wall", "queue \"walled\" is over its quota: cpu requested 1, used 1, capability 1").await?;
    stays_unbound(w, "behind-the-wall", 2).await?;
    nobody_else_goes(&client, &running.map(|(name, members, ..)| (name, members))).await?;

    hold(&client, "smaller").await?;
    gang(&client, "owed", "ours-below", "", 2, "1").await?;
    // Where faults are injected what is said may be lost; nobody waits for it.
    let must_say = w.faults().is_empty();
    leave(w, "smaller", 3, "queue ours-below is below its share", must_say).await?;
    let_go(&client, "smaller").await?;
    wait_running(&client, "owed", 2, 15).await?;
    nobody_else_goes(&client, &[("larger", 4), ("walled", 1), ("third", 1), ("owed", 2)]).await?;
    if must_say {
        let told = told(&client, "Reclaimed").await?;
        ensure!(told == names_of("smaller", 3), "of whom Events say that they were reclaimed: {told:?}");
    }
    ensure!(bound(&client, "behind-the-wall").await? == 0, "there is no room below queue walled");
    queue_uses(&client, "theirs", "cpu", "4").await?;
    queue_uses(&client, "third", "cpu", "3").await?;
    books_are_true(w).await
}

fn names_of(group: &str, members: usize) -> BTreeSet<String> {
    (0..members).map(|number| format!("{group}-{number}")).collect()
}

/// What stands on a victim can be read as long as it is there: from here on the end of these pods is the case's, and not kwok's.
async fn hold(client: &Client, group: &str) -> Result<()> {
    let held = json!({"metadata": {"annotations": {"kwok.x-k8s.io/status": "custom"}, "finalizers": ["example.com/looked-at"]}});
    patch_all(client, group, held).await
}

async fn let_go(client: &Client, group: &str) -> Result<()> {
    patch_all(client, group, json!({"metadata": {"finalizers": null}})).await
}

async fn patch_all(client: &Client, group: &str, patch: serde_json::Value) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods.list(&ListParams::default().labels(&format!("app={group}"))).await? {
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    Ok(())
}

/// Waits until the whole gang is leaving, and each says for whom and why.
async fn leave(w: &World, group: &str, members: usize, why: &str, must_say: bool) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(w.client(), NAMESPACE);
    wait_until(secs(15), &format!("all of {group} are leaving, and each says for whom"), || async {
        let all = pods.list(&ListParams::default().labels(&format!("app={group}"))).await?.items;
        let leaving: Vec<&Pod> = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).collect();
        let said: Vec<String> = leaving.iter().filter_map(|pod| for_whom(pod)).collect();
        let all_say = said.iter().filter(|message| message.contains(why)).count() == leaving.len();
        Ok(Seen::when(leaving.len() == members && (all_say || !must_say), || format!("{} are, {said:?}", leaving.len())))
    })
    .await
}

/// About which pods there is an Event with this reason.
async fn told(client: &Client, reason: &str) -> Result<BTreeSet<String>> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let all = events.list(&ListParams::default()).await?.items;
    let of_pods =
        all.into_iter().filter(|event| event.reason.as_deref() == Some(reason) && event.involved_object.kind.as_deref() == Some("Pod"));
    Ok(of_pods.filter_map(|event| event.involved_object.name).collect())
}

/// All of these groups have so many pods with a node, for a while.
async fn nobody_else_goes(client: &Client, groups: &[(&str, usize)]) -> Result<()> {
    holds_for(secs(2), "nobody else goes", || async {
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
