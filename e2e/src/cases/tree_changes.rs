//! Row Q12: the limits hold while the queue tree changes and pods come and go.

use anyhow::{Result, ensure};
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::seen::{accounting_matches_api, bound, bound_so_far, queue_uses};
use crate::objects::{field, make_node, make_queue, patch_queue, queues};
use crate::proxy::SeededRandom;
use crate::say;
use crate::wait::{Seen, holds_for, millis, secs, wait_until};
use crate::workloads::{Workload, pods_of, scale, wait_running};
use crate::world::World;

/// The leaf queues with pods.
const LEAVES: [&str; 3] = ["a", "b", "c"];

/// The pods of each Deployment. Each queue has two Deployments, one of them a gang.
const EACH: u32 = 10;

/// How many bindings must be made while the tree changes, so that the case proves something.
const BINDINGS: f64 = 20.0;

/// Q12. The queue tree is changed (new parents, capabilities lowered and raised, a queue deleted and created again) while `pods` pods come and go. No
/// binding exceeds a capability in the tree of that moment (the observer, check 4), and at rest each queue's status is correct. In the end all pods
/// run, and a queue is deleted once more with its pods: they stay, and count where it was, and where it is when it is back.
pub(super) async fn under_the_pods(w: &mut World, pods: u32) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2"] {
        make_node(&client, node, &[("cpu", "64"), ("memory", "256Gi"), ("pods", "500")]).await?;
    }
    for name in ["left", "right"] {
        make_queue(&client, name, None, &[("cpu", "10")]).await?;
    }
    for name in LEAVES {
        make_queue(&client, name, Some("left"), &[]).await?;
    }
    let names: Vec<String> = LEAVES.iter().flat_map(|leaf| ["one", "gang"].map(|kind| format!("{kind}-{leaf}"))).collect();
    for name in &names {
        let (kind, leaf) = name.split_once('-').unwrap_or_default();
        let workload = Workload::new(name).replicas(EACH).asks(&[("cpu", "500m")]).queue(leaf);
        if kind == "gang" { workload.gang("4") } else { workload }.make(&client).await?;
    }
    let port = w.scheduler()?.port();
    let rounds = pods / (EACH * u32::try_from(names.len())?);
    let changes = {
        let going = come_and_go(client.clone(), &names, rounds, port);
        tokio::pin!(going);
        let changing = change(client.clone(), 0, SeededRandom(w.seed));
        tokio::pin!(changing);
        let mut changes = 0;
        loop {
            tokio::select! {
                done = &mut going => { done?; break }
                outcome = &mut changing => {
                    outcome?;
                    changes += 1;
                    changing.set(change(client.clone(), changes, SeededRandom(w.seed.wrapping_add(changes))));
                }
            }
        }
        // The last change is completed: a queue may be missing in the middle of it.
        changing.await?;
        changes
    };
    let bindings = bound_so_far(port).await?;
    say::line(format!("        Q12: {changes} changes of the tree, {bindings} bindings"));
    ensure!(changes >= 10 && bindings >= BINDINGS, "{changes} changes and {bindings} bindings are too few");
    for name in LEAVES {
        patch_queue(&client, name, json!({"spec": {"parent": "right", "capability": {"cpu": null}}})).await?;
    }
    for name in ["left", "right"] {
        patch_queue(&client, name, json!({"spec": {"capability": {"cpu": "100"}}})).await?;
    }
    for name in &names {
        scale(&client, name, EACH).await?;
    }
    for name in &names {
        wait_running(&client, name, usize::try_from(EACH)?, 60).await?;
    }
    queue_uses(&client, "right", "cpu", "30").await?;
    queue_uses(&client, "left", "cpu", "0").await?;
    queues(&client).delete("b", &DeleteParams::default()).await?;
    holds_for(secs(2), "the pods of the deleted queue still count above it", || async {
        let uses = field(&queues(&client).get("right").await?, "/status/allocated/cpu");
        Ok(Seen::when(uses == "30", || uses.to_string()))
    })
    .await?;
    // It is made again somewhere else, as if it had been moved.
    make_queue(&client, "b", Some("left"), &[]).await?;
    queue_uses(&client, "right", "cpu", "20").await?;
    queue_uses(&client, "left", "cpu", "10").await?;
    queues(&client).delete("b", &DeleteParams::default()).await?;
    make_queue(&client, "b", Some("right"), &[]).await?;
    queue_uses(&client, "right", "cpu", "30").await?;
    queue_uses(&client, "b", "cpu", "10").await?;
    for name in &names {
        let stayed = bound(&client, name).await?;
        ensure!(stayed == usize::try_from(EACH)?, "{stayed} pods of {name} have a node");
    }
    accounting_matches_api(w).await
}

/// Scales every Deployment to 0 and back, `rounds` times, and then until enough pods were bound in between. A mix of faults may leave the
/// scheduler without its first lists for longer than these rounds, for example where the answer to one is a `Retry-After` that it obeys for
/// 30 s.
async fn come_and_go(client: Client, names: &[String], rounds: u32, port: u16) -> Result<()> {
    for _ in 0..rounds {
        once(&client, names).await?;
    }
    wait_until(secs(20), "enough pods are bound while the tree changes", || async {
        let bindings = bound_so_far(port).await?;
        if bindings < BINDINGS {
            once(&client, names).await?;
        }
        Ok(Seen::when(bindings >= BINDINGS, || format!("{bindings} bindings")))
    })
    .await
}

/// Scales every Deployment up and to 0.
async fn once(client: &Client, names: &[String]) -> Result<()> {
    for replicas in [EACH, 0] {
        for name in names {
            scale(client, name, replicas).await?;
        }
        let wanted = usize::try_from(replicas)?;
        for name in names {
            wait_until(secs(10), &format!("{name} has {wanted} pods"), || async {
                let there = pods_of(client, name).await?.len();
                Ok(Seen::when(there == wanted, || there.to_string()))
            })
            .await?;
        }
        // This is not a wait: some pods get time to be bound in the present tree.
        sleep(millis(600)).await;
    }
    Ok(())
}

/// Changes the tree once, then pauses. Every fifth change deletes a queue and creates it again after half of the pause.
async fn change(client: Client, number: u64, mut random: SeededRandom) -> Result<()> {
    let end = Instant::now() + millis(150);
    let leaf = usize::try_from(random.draw_number() % 3)?;
    let leaf = LEAVES.get(leaf).copied().unwrap_or("a");
    let parent = if random.draw_number().is_multiple_of(2) { "left" } else { "right" };
    let cpu = (4 + random.draw_number() % 12).to_string();
    let kind = if number % 5 == 4 { 4 } else { random.draw_number() % 4 };
    match kind {
        0 => patch_queue(&client, leaf, json!({"spec": {"parent": parent}})).await?,
        1 => patch_queue(&client, parent, json!({"spec": {"capability": {"cpu": cpu}}})).await?,
        2 => patch_queue(&client, leaf, json!({"spec": {"capability": {"cpu": cpu}}})).await?,
        3 => patch_queue(&client, leaf, json!({"spec": {"capability": {"cpu": null}}})).await?,
        _ => {
            queues(&client).delete(leaf, &DeleteParams::default()).await?;
            sleep(millis(75)).await;
            make_queue(&client, leaf, Some(parent), &[("cpu", &cpu)]).await?;
        }
    }
    tokio::time::sleep_until(end).await;
    Ok(())
}
