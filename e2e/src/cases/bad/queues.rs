//! Queues with invalid specs. Each blocks itself and its descendants, says why, and recovers; all other queues go on.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DeleteParams;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::cases::ledger::stays_unbound;
use crate::cases::seen::{group_says, queue_uses, queue_uses_within};
use crate::cases::tree::{complains, queue_complains};
use crate::http;
use crate::objects::{make_member, make_node, make_podgroup, make_queue, make_queue_of, patch_queue, queues, wait_made_queues};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;

/// Queues below each other or below themselves, queues with a missing parent, and guarantees above the parent's: their PodGroups wait with a reason,
/// an Event on the queue says why, other PodGroups run, and each recovers as soon as its queue is corrected.
pub(in crate::cases) async fn shapes(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    let promised = |cpu: &str, parent: &str| json!({"parent": parent, "guarantee": {"resource": {"cpu": cpu}}});
    for (name, spec) in [
        ("itself", json!({"parent": "itself"})),
        ("egg", json!({"parent": "hen"})),
        ("hen", json!({"parent": "egg"})),
        ("orphan", json!({"parent": "nowhere"})),
        ("promises", promised("2", "root")),
        ("much", promised("3", "promises")),
        ("good", json!({"parent": "root"})),
    ] {
        make_queue_of(&client, name, spec).await?;
    }
    wait_made_queues(&client, secs(10)).await?;
    // The queues root and default, which always exist, with a parent that a user has set.
    patch_queue(&client, "root", json!({"spec": {"parent": "good"}})).await?;
    patch_queue(&client, "default", json!({"spec": {"parent": "orphan"}})).await?;
    let bad = [
        ("itself", "queue \"itself\" is below itself"),
        ("egg", "is below itself"),
        ("hen", "is below itself"),
        ("orphan", "queue \"orphan\" has queues below it"),
        ("default", "queue \"orphan\" names the parent \"nowhere\", which does not exist"),
        ("much", "queue \"promises\" is guaranteed cpu 2, and the queues below it 3 together"),
    ];
    for (queue, why) in bad {
        Workload::new(queue).queue(queue).make(&client).await?;
        let group = wait_one_group(&client, queue, 10).await?.name_any();
        if queue != "orphan" {
            group_says(&client, &group, why).await?;
        }
    }
    for (queue, why) in [("itself", "is below itself"), ("egg", "is below itself"), ("orphan", "nowhere"), ("promises", "3 together")] {
        queue_complains(&client, queue, why).await?;
    }
    run_one_pod(&client, "meanwhile").await?;
    for (queue, _) in bad {
        stays_unbound(w, queue, 0).await?;
    }
    for (queue, spec) in [
        ("itself", json!({"parent": "root"})),
        ("egg", json!({"parent": "root"})),
        ("hen", json!({"parent": null})),
        ("default", json!({"parent": "root"})),
        ("much", promised("2", "promises")),
    ] {
        patch_queue(&client, queue, json!({"spec": spec})).await?;
        if queue != "egg" {
            wait_running(&client, queue, 1, 10).await?;
        }
    }
    patch_queue(&client, "orphan", json!({"spec": {"parent": "hen"}})).await?;
    // Now hen has a child queue: its running pods stay, and orphan is a leaf.
    wait_running(&client, "orphan", 1, 10).await?;
    wait_running(&client, "egg", 1, 10).await?;
    wait_running(&client, "hen", 1, 0).await?;
    queue_uses(&client, "root", "cpu", "7").await
}

/// Runs one pod that requests every dimension that the other cases use.
async fn run_one_pod(client: &Client, name: &str) -> Result<()> {
    Workload::new(name).asks(&[("cpu", "1"), ("memory", "1Gi")]).queue("good").make(client).await?;
    wait_running(client, name, 1, 10).await
}

/// Invalid amounts: each affects only itself, `/debug/queues` names it, and no other queue is affected.
pub(in crate::cases) async fn amounts(w: &mut World) -> Result<()> {
    let client = w.client();
    let port = w.scheduler()?.port();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    // The spec, what happens to a pod of 1 cpu, and the field that is reported.
    let cases = [
        ("negative", json!({"capability": {"cpu": "-1"}}), false, "capability.cpu"),
        ("negative-number", json!({"capability": {"cpu": -1}}), false, "capability.cpu"),
        ("zero", json!({"capability": {"cpu": 0}}), false, ""),
        ("unset", json!({"capability": {}}), true, ""),
        ("another", json!({"capability": {"example.com/unknown": "1"}}), true, ""),
        ("huge", json!({"capability": {"cpu": "9223372036854775808"}}), true, "capability.cpu"),
        ("huger", json!({"capability": {"cpu": "9e40"}}), true, "capability.cpu"),
        ("tiny", json!({"capability": {"cpu": "1n"}}), false, ""),
        ("promises-less-than-nothing", json!({"guarantee": {"resource": {"cpu": "-5"}}, "deserved": {"cpu": "-5"}}), true, "guarantee"),
        ("promises-too-much", json!({"guarantee": {"resource": {"memory": "8Ei"}}}), true, "guarantee"),
        ("weighs-nothing", json!({"weight": 0}), true, ""),
        ("weighs-less", json!({"weight": -3, "priority": -2_147_483_648_i64}), true, ""),
        ("no-strategy", json!({"dequeueStrategy": "whatever"}), true, "dequeueStrategy"),
        ("misspelt", json!({"capabilty": {"cpu": "0"}}), true, "capabilty"),
    ];
    for (name, spec, _, _) in &cases {
        // An amount that the API server refuses does not reach us.
        if make_queue_of(&client, name, spec.clone()).await.is_ok() {
            Workload::new(name).queue(name).make(&client).await?;
        }
    }
    make_queue(&client, "good", None, &[]).await?;
    run_one_pod(&client, "meanwhile").await?;
    let mut tried = 0;
    for (name, _, runs, fault) in &cases {
        if queues(&client).get_opt(name).await?.is_none() {
            continue;
        }
        tried += 1;
        if *runs {
            wait_running(&client, name, 1, 10).await?;
        } else {
            let group = wait_one_group(&client, name, 10).await?.name_any();
            group_says(&client, &group, &format!("queue \"{name}\" is over its quota: cpu requested 1, used 0, capability")).await?;
            stays_unbound(w, name, 0).await?;
        }
        wait_reported(port, name, fault).await?;
    }
    anyhow::ensure!(tried >= 9, "the API server accepted only {tried} of these queues");
    for (name, _, runs, _) in &cases {
        if !runs && queues(&client).get_opt(name).await?.is_some() {
            patch_queue(&client, name, json!({"spec": {"capability": {"cpu": "1"}}})).await?;
            wait_running(&client, name, 1, 10).await?;
            wait_reported(port, name, "").await?;
        }
    }
    queue_complains(&client, "misspelt", "spec \"capabilty\": no such field").await?;
    patch_queue(&client, "misspelt", json!({"spec": {"capabilty": null, "capability": {"cpu": "1"}}})).await?;
    wait_reported(port, "misspelt", "").await?;
    misspelt_podgroup(&client).await
}

/// A PodGroup with a misspelt field: the field has no effect, and an Event names it.
async fn misspelt_podgroup(client: &Client) -> Result<()> {
    make_podgroup(client, "by-hand", json!({"minMembers": 2})).await?;
    complains(client, "PodGroup", "by-hand", "UnknownField", "spec \"minMembers\": no such field").await?;
    make_member(client, "alone", "by-hand", &[("cpu", "1")]).await?;
    wait_running(client, "by-hand", 1, 10).await
}

/// Waits until `/debug/queues` reports a fault of this queue in the field; with an empty field, until it reports no fault.
async fn wait_reported(port: u16, queue: &str, field: &str) -> Result<()> {
    wait_until(secs(10), &format!("/debug/queues reports {field:?} for queue {queue}"), || async {
        let all = http::json(port, "/debug/queues").await?;
        let list = all.get("queues").and_then(Value::as_array).cloned().unwrap_or_default();
        let found = list.into_iter().find(|each| each.get("name").is_some_and(|name| name == queue));
        let faults = found.and_then(|found| found.get("faults").cloned()).unwrap_or_default();
        let texts: Vec<String> = faults.as_array().into_iter().flatten().map(ToString::to_string).collect();
        let right = if field.is_empty() { texts.is_empty() } else { texts.iter().any(|text| text.contains(field)) };
        Ok(Seen::when(right, || format!("{texts:?}")))
    })
    .await
}

/// A tree of the greatest depth, a deeper one, and many siblings: a pod in the deepest allowed queue runs, the pod below it waits with a reason, and a pod
/// beside all of them is bound as fast as usual. Then a queue in the middle of the chain is deleted and created again.
pub(in crate::cases) async fn deep_and_wide(w: &mut World, siblings: usize) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "32"), ("memory", "64Gi")]).await?;
    // With root, deep-64 has 64 ancestors.
    for level in 1..=65 {
        let parent = if level == 1 { "root".to_owned() } else { format!("deep-{}", level - 1) };
        make_queue(&client, &format!("deep-{level}"), Some(&parent), &[]).await?;
    }
    Workload::new("too-deep").queue("deep-65").make(&client).await?;
    let group = wait_one_group(&client, "too-deep", 10).await?.name_any();
    group_says(&client, &group, "queue \"deep-65\" has too many queues above it").await?;
    stays_unbound(w, "too-deep", 1).await?;
    queues(&client).delete("deep-65", &DeleteParams::default()).await?;
    Workload::new("deep").queue("deep-64").make(&client).await?;
    wait_running(&client, "deep", 1, 10).await?;
    queue_uses(&client, "deep-1", "cpu", "1").await?;

    stream::iter(0..siblings)
        .map(|number| {
            let client = client.clone();
            async move { make_queue(&client, &format!("sibling-{number}"), Some("deep-2"), &[("cpu", "1")]).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    let last = format!("sibling-{}", siblings.saturating_sub(1));
    Workload::new("beside").queue(&last).make(&client).await?;
    wait_running(&client, "beside", 1, 10).await?;
    queues(&client).delete("deep-30", &DeleteParams::default()).await?;
    // The scheduler may see the pod before it sees the deletion.
    queue_complains(&client, "deep-31", "names the parent \"deep-30\", which does not exist").await?;
    Workload::new("late").queue("deep-64").make(&client).await?;
    let group = wait_one_group(&client, "late", 10).await?.name_any();
    group_says(&client, &group, "queue \"deep-31\" names the parent \"deep-30\", which does not exist").await?;
    Workload::new("above").queue(&last).make(&client).await?;
    let group = wait_one_group(&client, "above", 10).await?.name_any();
    group_says(&client, &group, &format!("queue \"{last}\" is over its quota")).await?;
    make_queue(&client, "deep-30", Some("deep-29"), &[]).await?;
    wait_running(&client, "late", 1, 10).await?;
    // The statuses of all siblings may be written first.
    queue_uses_within(&client, 120, "root", "cpu", "3").await
}
