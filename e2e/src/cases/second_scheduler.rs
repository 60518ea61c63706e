//! Row A2: the accounting is right beside a second scheduler that uses the same nodes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::seen::{accounting_matches_api, bound, bound_so_far, queue_uses};
use crate::objects::{NAMESPACE, bind, container, field, make_node, make_pod, queues};
use crate::proxy::SeededRandom;
use crate::say;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::{Workload, pods_of, scale, wait_running};
use crate::world::World;

/// The number of nodes that both schedulers use.
const NODES: u64 = 4;

/// How many pods the other scheduler creates, binds and deletes per second on a fast machine, and with how many tasks.
const A_SECOND: u64 = 50;
const LANES: u64 = 8;

/// The number of our gangs.
const GANGS: usize = 5;

/// A2. A second scheduler binds and deletes up to 50 pods per second on the same nodes and ignores all other pods. Our scheduler binds gangs that are
/// scaled up and down. No restart, no binding of ours that overcommits a node (the observer), and at rest the ledger equals the API.
pub(super) async fn on_the_same_nodes(w: &mut World, seconds: u64) -> Result<()> {
    let client = w.client();
    for number in 0..NODES {
        make_node(&client, &format!("n{number}"), &[("cpu", "6"), ("memory", "64Gi"), ("pods", "500")]).await?;
    }
    let gangs: Vec<String> = (0..GANGS).map(|number| format!("gang-{number}")).collect();
    for name in &gangs {
        Workload::new(name).replicas(4).gang("4").make(&client).await?;
    }
    for name in &gangs {
        wait_running(&client, name, 4, 10).await?;
    }
    let port = w.scheduler()?.port();
    let before = bound_so_far(port).await?;
    // A gang that is scaled down before it is bound binds no pod. They go on until ours has bound one beside the other scheduler.
    let over = AtomicBool::new(false);
    let enough = async {
        sleep(secs(seconds)).await;
        let ours = wait_until(secs(20), "our scheduler has bound a gang", || async {
            let ours = bound_so_far(port).await? - before;
            Ok(if ours >= 4.0 { Seen::Yes(ours) } else { Seen::NotYet(ours.to_string()) })
        })
        .await?;
        over.store(true, Ordering::Relaxed);
        Ok(ours)
    };
    let (count, flaps, ours) = tokio::try_join!(rival(client.clone(), &over, w.seed), flap(client.clone(), &gangs, &over), enough)?;
    say::line(format!("        A2: the other scheduler bound {count} pods, ours {ours} of {flaps} gangs"));
    ensure!(count >= seconds * 2, "the other scheduler bound only {count} pods");
    accounting_matches_api(w).await?;
    // The pods of the other scheduler still exist: they are in the ledger of their nodes, and in no queue.
    wait_until(secs(10), "the usage of queue default is the request of our gangs", || async {
        let mut ours = 0;
        for name in &gangs {
            ours += bound(&client, name).await?;
        }
        let used = field(&queues(&client).get("default").await?, "/status/allocated/cpu");
        let same = used.as_str() == Some(ours.to_string().as_str());
        Ok(Seen::when(ours > 0 && same, || format!("{ours} of our pods are bound, and the usage is {used}")))
    })
    .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default().labels("app=rival")).await?;
    for name in &gangs {
        scale(&client, name, 4).await?;
    }
    for name in &gangs {
        wait_running(&client, name, 4, 10).await?;
    }
    queue_uses(&client, "default", "cpu", "20").await?;
    accounting_matches_api(w).await
}

/// Creates, binds and deletes pods until it is over, with several tasks, so that the cluster sets the pace and not the latency of one
/// request. Each task keeps two pods alive.
async fn rival(client: Client, over: &AtomicBool, seed: u64) -> Result<u64> {
    let lanes = (0..LANES).map(|lane| one_lane(client.clone(), over, lane, SeededRandom(seed ^ lane)));
    Ok(try_join_all(lanes).await?.into_iter().sum())
}

async fn one_lane(client: Client, over: &AtomicBool, lane: u64, mut random: SeededRandom) -> Result<u64> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let (mut alive, mut count, mut due) = (VecDeque::new(), 0, Instant::now());
    while !over.load(Ordering::Relaxed) {
        due = Instant::now().max(due + millis(1000 * LANES / A_SECOND));
        sleep_until(due).await;
        let name = format!("rival-{lane}-{count}");
        make_pod(
            &client,
            json!({
                "metadata": {"name": name, "labels": {"app": "rival"}},
                "spec": {"schedulerName": "rival", "terminationGracePeriodSeconds": 0, "containers": [container(&[("cpu", "500m")])]},
            }),
        )
        .await?;
        bind(&client, &name, &format!("n{}", random.draw_number() % NODES)).await?;
        alive.push_back(name);
        if alive.len() > 2 {
            let oldest = alive.pop_front().context("just seen")?;
            pods.delete(&oldest, &DeleteParams::default().grace_period(0)).await?;
        }
        count += 1;
    }
    Ok(count)
}

/// Scales one gang after the other to 0 and back.
async fn flap(client: Client, gangs: &[String], over: &AtomicBool) -> Result<u64> {
    let mut flaps = 0;
    for name in gangs.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        scale(&client, name, 0).await?;
        wait_until(secs(10), &format!("{name} has no pods"), || async {
            let left = pods_of(&client, name).await?.len();
            Ok(Seen::when(left == 0, || left.to_string()))
        })
        .await?;
        scale(&client, name, 4).await?;
        flaps += 1;
        // This is not a wait: the gang gets some time to be bound.
        sleep(millis(200)).await;
    }
    Ok(flaps)
}
