//! Row K24: without an election, a scheduler is killed while it binds many pods, and its bindings arrive after the next start has decided.

use anyhow::{Result, ensure};
use serde_json::json;

use super::handover::{aim, arrived_and_refused, make_classes, wait_held};
use super::preempted::ranked;
use super::seen::{accounting_matches_api, bound};
use crate::faults::Fault;
use crate::objects::{make_member, make_node, make_podgroup, make_queue};
use crate::wait::{millis, secs};
use crate::workloads::wait_running;
use crate::world::World;

/// K24. Without an election, the scheduler is killed while it binds a gang of 40 that fills its nodes. Six of its bindings have taken effect; the others arrive when the
/// next start, which packs the nodes, has decided, and before its own. It is killed as well. In the end the gang is whole.
pub(super) async fn killed_in_a_gang(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2", "n3", "n4"] {
        make_node(&client, node, &[("cpu", "10"), ("memory", "64Gi")]).await?;
    }
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--leader-elect=false");
    scheduler.restart().await?;
    // 32 bindings are sent at the same time.
    for (fault, times) in [
        (Fault::HoldRequest(secs(60)), 20),
        (Fault::DelayRequest(millis(0)), 6),
        (Fault::HoldRequest(secs(60)), 6),
        // Those of the next start.
        (Fault::DelayRequest(secs(5)), 26),
    ] {
        aim(w, fault, times)?;
    }
    // A part of the gang is bound for longer than the observer normally forgives. It must be whole within a minute.
    w.watched()?.excuse(&[6]);
    make_podgroup(&client, "gang", json!({"minMember": 40})).await?;
    for number in 0..40 {
        make_member(&client, &format!("gang-{number}"), "gang", &[("cpu", "1")]).await?;
    }
    wait_held(w, 32).await?;
    let scheduler = w.scheduler()?;
    scheduler.kill().await?;
    // The next start decides otherwise.
    scheduler.also("--placement=pack");
    scheduler.restart().await?;
    wait_held(w, 58).await?;
    w.calm().await?;
    w.scheduler()?.kill().await?;
    w.scheduler()?.restart().await?;
    wait_running(&client, "gang", 40, 60).await?;
    arrived_and_refused(w, 20).await?;
    w.watched()?.insist(&[6]);
    accounting_matches_api(w).await
}

/// K24-queue. Without an election, the scheduler is killed while it binds 40 pods that fill their queue. Six of its bindings have taken effect; the others arrive when the
/// next start has given the rest of the queue to a gang of higher priority, and before the bindings of that gang. It is killed as well. In the end the gang of higher
/// priority is whole, and of the first one only the six pods are bound.
pub(super) async fn killed_beside_a_rival(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "100"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "40")]).await?;
    make_classes(&client).await?;
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--leader-elect=false");
    scheduler.also("--evictions=false");
    scheduler.restart().await?;
    for (fault, times) in [
        (Fault::DelayRequest(millis(0)), 6),
        // 32 bindings are sent at the same time.
        (Fault::HoldRequest(secs(60)), 32),
        // Those of the next start.
        (Fault::DelayRequest(secs(5)), 32),
    ] {
        aim(w, fault, times)?;
    }
    make_podgroup(&client, "first", json!({"minMember": 6, "queue": "team"})).await?;
    for number in 0..40 {
        ranked(&client, &format!("first-{number}"), "first", "low", "1").await?;
    }
    wait_held(w, 38).await?;
    w.scheduler()?.kill().await?;
    make_podgroup(&client, "second", json!({"minMember": 34, "queue": "team"})).await?;
    for number in 0..34 {
        ranked(&client, &format!("second-{number}"), "second", "high", "1").await?;
    }
    // The gang is partially bound for longer than the observer normally forgives. Checks of the queue go on.
    w.watched()?.excuse(&[6]);
    w.scheduler()?.restart().await?;
    wait_held(w, 70).await?;
    w.calm().await?;
    w.scheduler()?.kill().await?;
    w.scheduler()?.restart().await?;
    wait_running(&client, "second", 34, 60).await?;
    arrived_and_refused(w, 32).await?;
    w.watched()?.insist(&[6]);
    let count = bound(&client, "first").await?;
    ensure!(count == 6, "{count} pods of the first gang are bound, expected the 6 whose bindings were not held");
    accounting_matches_api(w).await
}
