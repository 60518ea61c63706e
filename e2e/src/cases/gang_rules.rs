//! Rows G1 to G5 and G7: what a gang has, what it asks for and what it may hold, each rule once on the real cluster.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::old_views::cordon;
use super::seen::{group_says_within, pods_wait_for, queue_uses_within};
use crate::objects::{
    NAMESPACE, SCHEDULER_NAME, container, has_node, make_member, make_node, make_pod, make_podgroup, make_queue, patch_queue,
};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::pod_status;
use crate::workloads::{MIN_MEMBER, Workload, phases, pods_of, wait_running};
use crate::world::World;

/// One CPU.
const ONE: &[(&str, &str)] = &[("cpu", "1")];

/// G1. Six PodGroups of three ran in a queue. Of each a member succeeded, and two were deleted. They reserve nothing for members that do not
/// exist: a new gang starts in the empty queue at once, though they are older.
pub(super) async fn what_ended_holds_nothing(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "18")]).await?;
    for name in (0..6).map(|number| format!("old-{number}")) {
        make_podgroup(&client, &name, json!({"minMember": 3, "minResources": {"cpu": "3"}, "queue": "team"})).await?;
        for member in 0..3 {
            make_member(&client, &format!("{name}-{member}"), &name, ONE).await?;
        }
        wait_running(&client, &name, 3, 20).await?;
    }
    patch_queue(&client, "team", json!({"spec": {"capability": {"cpu": "3"}}})).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for name in (0..6).map(|number| format!("old-{number}")) {
        pod_status::end(&client, &name, 1, "Succeeded").await?;
        for pod in pods_of(&client, &name).await?.iter().filter(|pod| phase(pod) != "Succeeded") {
            pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
        }
    }
    queue_uses_within(&client, 10, "team", "cpu", "0").await?;
    Workload::new("next").replicas(3).gang("3").asks(ONE).queue("team").make(&client).await?;
    wait_running(&client, "next", 3, 10).await
}

/// G2. A Job runs four of its eight pods at a time. When the first four have succeeded there is room for two: none of the second four starts,
/// until there is room for all.
pub(super) async fn a_second_wave_starts_whole(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    let template = json!({
        "metadata": {"labels": {"app": "waves"}, "annotations": {MIN_MEMBER: "4"}},
        "spec": {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container(ONE)]},
    });
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "waves"}, "spec": {"completions": 8, "parallelism": 4, "template": template},
    }))?;
    Api::<Job>::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &job).await?;
    with_node(&client, "waves", 4, 20).await?;
    cordon(&client, "n1", true).await?;
    make_node(&client, "n2", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    // kwok ends the pods of Jobs; the Job controller makes the next four.
    wait_until(secs(60), "four pods have succeeded, and four wait", || async {
        let seen = phases(&pods_of(&client, "waves").await?);
        let count = |part: &str| seen.iter().filter(|(phase, _)| phase.starts_with(part)).map(|(_, count)| count).sum::<usize>();
        Ok(Seen::when(count("Succeeded") == 4 && count("Pending") == 4, || format!("{seen:?}")))
    })
    .await?;
    holds_for(secs(10), "none of the second four has a node", || async {
        let pods = pods_of(&client, "waves").await?;
        let started = pods.iter().filter(|pod| phase(pod) != "Succeeded" && has_node(pod)).count();
        Ok(Seen::when(started == 0, || format!("{started} have one")))
    })
    .await?;
    cordon(&client, "n1", false).await?;
    with_node(&client, "waves", 8, 20).await
}

/// G3. Nodes and queue take two of five pods, and the queue takes two more: two ask for nodes, and one says that its queue is full.
pub(super) async fn as_many_ask_for_nodes_as_the_queue_takes(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "4")]).await?;
    Workload::new("many").replicas(5).asks(ONE).queue("team").make(&client).await?;
    with_node(&client, "many", 2, 20).await?;
    let say = |reason: &'static str, wanted: usize| {
        let client = client.clone();
        async move {
            wait_until(secs(30), &format!("{wanted} pods say {reason}"), || async {
                let pods = pods_of(&client, "many").await?;
                let conditions = pods.into_iter().filter_map(|pod| pod.status?.conditions).flatten();
                let said: Vec<_> = conditions.filter(|each| each.type_ == "PodScheduled").filter_map(|each| each.reason).collect();
                let right = said.iter().filter(|said| *said == reason).count() == wanted;
                Ok(Seen::when(right, || format!("{said:?}")))
            })
            .await
        }
    };
    say("Unschedulable", 2).await?;
    say("QueueQuotaExceeded", 1).await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "16Gi")]).await?;
    with_node(&client, "many", 4, 20).await?;
    say("Unschedulable", 0).await
}

/// G4. The members of a gang request more than its minResources and its queue: it holds nothing, says so, and others pass.
pub(super) async fn the_members_are_asked(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "4")]).await?;
    make_podgroup(&client, "large", json!({"minMember": 4, "minResources": {"cpu": "4"}, "queue": "team"})).await?;
    for member in 0..4 {
        make_member(&client, &format!("large-{member}"), "large", &[("cpu", "1250m")]).await?;
    }
    group_says_within(&client, 20, "large", "queue \"team\" is over its quota: cpu requested 5, used 0, capability 4").await?;
    pods_wait_for(&client, "large", 4, "QueueQuotaExceeded").await?;
    Workload::new("single").replicas(1).asks(ONE).queue("team").make(&client).await?;
    wait_running(&client, "single", 1, 10).await
}

/// G5. A driver states its executors in minResources. They stay reserved in its queue while others fill the rest, until they come.
pub(super) async fn what_is_stated_beyond_the_minimum_is_kept(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "6")]).await?;
    make_podgroup(&client, "app", json!({"minMember": 1, "minResources": {"cpu": "3"}, "queue": "team"})).await?;
    make_member(&client, "driver", "app", ONE).await?;
    wait_running(&client, "app", 1, 20).await?;
    Workload::new("others").replicas(5).asks(ONE).queue("team").make(&client).await?;
    with_node(&client, "others", 3, 10).await?;
    holds_for(secs(5), "the executors have their room", || async {
        let bound = pods_of(&client, "others").await?.iter().filter(|pod| has_node(pod)).count();
        Ok(Seen::when(bound == 3, || format!("{bound} of the others are bound")))
    })
    .await?;
    for executor in 0..2 {
        make_member(&client, &format!("executor-{executor}"), "app", ONE).await?;
    }
    wait_running(&client, "app", 3, 10).await
}

/// G7. A gang of parts as RoleBasedGroup writes it: two instances of one role and one of another start together, or nothing. Then whole instances
/// follow, and a lost pod comes back to its instance.
pub(super) async fn parts_are_placed_whole(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "5"), ("memory", "16Gi")]).await?;
    let policy = |role: &str, needed: u32| {
        json!({
            "name": role, "labelSelector": {"matchLabels": {"role": role}}, "matchLabelKeys": ["instance"], "subGroupSize": 2, "minSubGroups": needed,
        })
    };
    make_podgroup(&client, "serve", json!({"minMember": 6, "subGroupPolicy": [policy("prefill", 2), policy("decode", 1)]})).await?;
    let make = |role: &'static str, instance: u32, number: u32, round: u32| {
        let client = client.clone();
        async move {
            let pod = json!({
                "metadata": {
                    "name": format!("{role}-{instance}-{number}-{round}"), "annotations": {"scheduling.k8s.io/group-name": "serve"},
                    "labels": {"app": "serve", "role": role, "instance": format!("{role}-{instance}")},
                },
                "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container(ONE)]},
            });
            make_pod(&client, pod).await
        }
    };
    for (role, instances) in [("decode", 2), ("prefill", 3)] {
        for instance in 0..instances {
            for number in 0..2 {
                make(role, instance, number, 0).await?;
            }
        }
    }
    group_says_within(&client, 20, "serve", "5 of 6 members find a place").await?;
    let whole = |count: usize| {
        let client = client.clone();
        async move {
            with_node(&client, "serve", count, 20).await?;
            holds_for(secs(5), "no instance has half of its pods on nodes", || async {
                let mut on_nodes = BTreeMap::<String, usize>::new();
                for pod in pods_of(&client, "serve").await?.iter().filter(|pod| has_node(pod)) {
                    *on_nodes.entry(pod.labels().get("instance").cloned().unwrap_or_default()).or_default() += 1;
                }
                let is_whole = on_nodes.values().all(|pods| *pods == 2) && on_nodes.values().sum::<usize>() == count;
                Ok(Seen::when(is_whole, || format!("{on_nodes:?}")))
            })
            .await
        }
    };
    whole(0).await?;
    make_node(&client, "n2", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    whole(6).await?;
    make_node(&client, "n3", &[("cpu", "3"), ("memory", "16Gi")]).await?;
    whole(10).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete("prefill-0-1-0", &DeleteParams::default().grace_period(0)).await?;
    with_node(&client, "serve", 9, 10).await?;
    make("prefill", 0, 1, 1).await?;
    whole(10).await
}

/// Waits until so many pods of `name` have a node.
async fn with_node(client: &Client, name: &str, count: usize, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("{count} pods of {name} have a node"), || async {
        let bound = pods_of(client, name).await?.iter().filter(|pod| has_node(pod)).count();
        Ok(Seen::when(bound == count, || format!("{bound} have one")))
    })
    .await
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}
