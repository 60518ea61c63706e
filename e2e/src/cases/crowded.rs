//! Rows K12: accounting under faults. Two replicas of both programs, full nodes and queues, and the mix of faults; replicas are stopped,
//! killed and frozen.
//!
//! What the case itself asserts is little: gangs are whole or wholly unbound in the end, and pods still get bound. The observer judges
//! every binding and every eviction meanwhile, so a node or a queue that is oversold fails the case.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::seen::accounting_matches_api;
use crate::lease::transitions;
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, field, make_node, make_pod, make_podgroup, make_queue_of, podgroups};
use crate::proxy::SeededRandom;
use crate::unrest::{self, Blows};
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{Workload, pods_of, scale, wait_running};
use crate::world::World;
use crate::{chart, say};

/// The number of nodes, with 4 cpu each.
const NODES: usize = 4;

/// How many gangs exist at a time. They ask for about twice of what the nodes have.
const GANGS: usize = 14;

/// The queues of the load.
const LEAVES: [&str; 3] = ["left-a", "left-b", "right"];

/// K12. For `seconds` gangs come and go that ask for more than there is, of two priorities, in queues with capabilities, shares and guarantees.
pub(super) async fn two_replicas(w: &mut World, seconds: u64) -> Result<()> {
    let client = w.client();
    stage(&client).await?;
    let (end, seed) = (Instant::now() + secs(seconds), w.seed);
    let before = transitions(&client, chart::SCHEDULER).await?;
    let (made, blows) = tokio::try_join!(load(client.clone(), seed, end), unrest::until(w, seed, end))?;
    say::line("        the load and the blows are over");
    w.end_faults().await?;
    say::line("        no fault is left");
    whole_or_unbound(&client).await?;
    accounting_matches_api(w).await?;
    free_room_is_used(&client).await?;
    accounting_matches_api(w).await?;
    let terms = transitions(&client, chart::SCHEDULER).await? - before;
    report(w, made, &blows, terms, seconds)
}

/// Creates nodes, queues with limits that are together above the nodes, and Deployments. Their pods come back after an eviction.
async fn stage(client: &Client) -> Result<()> {
    for number in 0..NODES {
        make_node(client, &format!("n{number}"), &[("cpu", "4"), ("memory", "64Gi")]).await?;
    }
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for (name, value) in [("low", 10), ("high", 1000)] {
        classes.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": name}, "value": value}))?).await?;
    }
    for (name, spec) in [
        ("left", json!({"capability": {"cpu": "9"}, "deserved": {"cpu": "8"}})),
        ("left-a", json!({"parent": "left", "capability": {"cpu": "7"}, "deserved": {"cpu": "4"}})),
        ("left-b", json!({"parent": "left", "deserved": {"cpu": "4"}, "guarantee": {"resource": {"cpu": "2"}}})),
        ("right", json!({"deserved": {"cpu": "8"}, "guarantee": {"resource": {"cpu": "3"}}})),
    ] {
        make_queue_of(client, name, spec).await?;
    }
    for queue in LEAVES {
        Workload::new(&format!("steady-{queue}")).replicas(2).gang("2").asks(&[("cpu", "1")]).queue(queue).make(client).await?;
    }
    Ok(())
}

/// Creates gangs until `end`, and deletes one for each where there are too many. Returns how many it made.
async fn load(client: Client, seed: u64, end: Instant) -> Result<u64> {
    let (mut random, mut alive, mut made) = (SeededRandom(seed ^ 0x10ad), Vec::new(), 0_u64);
    while Instant::now() < end {
        let name = format!("gang-{made}");
        gang(&client, &name, &mut random).await?;
        alive.push(name);
        made += 1;
        if alive.len() > GANGS {
            // Not always the oldest: a queue's first gang would never go before the others.
            let choice = usize::try_from(random.draw_number() % 4)?;
            remove(&client, &alive.remove(choice)).await?;
        }
        // This is not a wait: it is the pace of the load.
        sleep(millis(200 + random.draw_number() % 400)).await;
    }
    Ok(made)
}

/// Creates one to four members of 500m to 1500m cpu; all but perhaps one are needed.
async fn gang(client: &Client, name: &str, random: &mut SeededRandom) -> Result<()> {
    let members = 1 + random.draw_number() % 4;
    let needed = if members > 2 && random.draw_number().is_multiple_of(3) { members - 1 } else { members };
    let queue = LEAVES.get(usize::try_from(random.draw_number() % 3)?).copied().unwrap_or("right");
    let class = if random.draw_number().is_multiple_of(4) { "high" } else { "low" };
    let cpu = format!("{}m", 500 * (1 + random.draw_number() % 3));
    make_podgroup(client, name, json!({"minMember": needed, "queue": queue, "priorityClassName": class})).await?;
    for number in 0..members {
        let pod = json!({
            "metadata": {"name": format!("{name}-{number}"), "labels": {"app": name, "load": "gang"}, "annotations": {"scheduling.k8s.io/group-name": name}},
            "spec": {"schedulerName": SCHEDULER_NAME, "priorityClassName": class, "terminationGracePeriodSeconds": 0, "containers": [container(&[("cpu", &cpu)])]},
        });
        make_pod(client, pod).await?;
    }
    Ok(())
}

async fn remove(client: &Client, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default().labels(&format!("app={name}"))).await?;
    podgroups(client).delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Within a minute of the last fault every gang is whole or has no bound pod.
async fn whole_or_unbound(client: &Client) -> Result<()> {
    wait_until(secs(60), "every gang is whole or unbound", || async {
        let mut partial = Vec::new();
        for group in podgroups(client).list(&ListParams::default()).await? {
            let Some(name) = group.metadata.name.as_deref().filter(|name| name.starts_with("gang-")) else { continue };
            let bound = super::seen::bound(client, name).await?;
            let wanted = field(&group, "/spec/minMember").as_u64().unwrap_or(0);
            if bound > 0 && u64::try_from(bound)? < wanted {
                partial.push(format!("{name}: {bound} of {wanted}"));
            }
        }
        Ok(Seen::when(partial.is_empty(), || partial.join(", ")))
    })
    .await
}

/// All gangs go, and the Deployments and three new gangs have their places: nothing that was nominated, reserved or assumed is left over.
async fn free_room_is_used(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default().labels("load=gang")).await?;
    for group in podgroups(client).list(&ListParams::default()).await? {
        if let Some(name) = group.metadata.name.as_deref().filter(|name| name.starts_with("gang-")) {
            podgroups(client).delete(name, &DeleteParams::default()).await?;
        }
    }
    for queue in LEAVES {
        wait_running(client, &format!("steady-{queue}"), 2, 10).await?;
        scale(client, &format!("steady-{queue}"), 0).await?;
    }
    wait_until(secs(10), "no pod is left", || async {
        let left = pods.list(&ListParams::default()).await?.items.len();
        Ok(Seen::when(left == 0, || left.to_string()))
    })
    .await?;
    for queue in LEAVES {
        let name = format!("last-{queue}");
        Workload::new(&name).replicas(4).gang("4").asks(&[("cpu", "1")]).queue(queue).make(client).await?;
        wait_running(client, &name, 4, 10).await?;
        ensure!(pods_of(client, &name).await?.len() == 4, "{name} does not have its pods");
    }
    Ok(())
}

/// Fails where the run was too quiet to prove anything.
fn report(w: &World, made: u64, blows: &Blows, terms: i32, seconds: u64) -> Result<()> {
    let calls = w.watched()?.api_calls();
    let count = |what: &str| -> u64 {
        calls.iter().filter(|(call, _)| call.verb == "create" && call.resource == what).map(|(_, count)| count).sum()
    };
    let (judged, judged_evictions, requests) = (w.watched()?.judged_bindings(), w.watched()?.judged_evictions(), count("pods/eviction"));
    say::line(format!(
        "        {made} gangs, {judged} bindings and {judged_evictions} evictions judged, {requests} requests for evictions, {terms} changes of leader, blows to leaders: {blows:?}"
    ));
    // About two a second where the machine is free, and no leader for a third of the time.
    ensure!(judged >= seconds / 3, "only {judged} bindings were judged");
    // Otherwise nothing was full, or check 9 saw none of them.
    ensure!(judged_evictions > 0, "no eviction was judged, of {requests} requests for one");
    // After a stop and after a kill another process leads; whether one does after a freeze depends on its length.
    ensure!(terms >= 2, "the leader of the scheduler changed {terms} times");
    for kind in ["stopped", "killed", "frozen"] {
        ensure!(blows.get(kind).is_some_and(|count| *count > 0), "no leader of the scheduler was {kind}: {blows:?}");
    }
    Ok(())
}
