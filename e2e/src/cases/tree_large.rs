//! Row Q14: the cost of a large queue tree with many waiting pods is bounded.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use super::seen::{accounting_matches_api, group_says_within, metric, queue_uses_within};
use crate::chart;
use crate::load::process;
use crate::objects::{NAMESPACE, make_member, make_node, make_podgroup, make_queue, set_allocatable};
use crate::say;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::world::World;

/// Members of each gang.
const GANG: usize = 10;

/// Concurrent requests of the case.
const AT_ONCE: usize = 32;

/// How often every waiting PodGroup is retried.
const LOOKS: i64 = 30;

/// The size of a tree of three levels and of its backlog.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Queues directly below root.
    pub(super) tops: usize,
    /// Queues below each of those.
    pub(super) leaves: usize,
    /// Waiting pods, in gangs of ten.
    pub(super) pods: usize,
    /// The limit of the average processor time of a cycle, with everything else that the scheduler does meanwhile, in seconds. (The elapsed time
    /// depends more on other processes of the machine.)
    pub(super) budget: f64,
}

/// Q14. Many queues in three levels, and many pods that wait for a node with capacity: each cycle that retries all of them stays within its budget,
/// and the memory does not grow. Then there is capacity, and all pods are bound.
pub(super) async fn backlog(w: &mut World, size: Size) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "500m"), ("memory", "64Gi"), ("pods", "20000")]).await?;
    let leaves = tree(&client, size).await?;
    let gangs = size.pods / GANG;
    each(gangs, |number| {
        let (client, queue) = (client.clone(), leaves.get(number % leaves.len().max(1)).cloned().unwrap_or_default());
        async move {
            let name = format!("gang-{number}");
            make_podgroup(&client, &name, json!({"minMember": GANG, "queue": queue})).await?;
            for member in 0..GANG {
                make_member(&client, &format!("{name}-{member}"), &name, &[("cpu", "1")]).await?;
            }
            Ok(())
        }
    })
    .await?;
    let port = w.scheduler()?.port();
    let pending = f64::from(u32::try_from(gangs * GANG)?);
    wait_until(secs(10), "all pods wait", || async {
        let seen = metric(port, "podgroup_scheduler_pending_pods").await?;
        Ok(Seen::when(seen == pending, || seen.to_string()))
    })
    .await?;
    // Its status comes after those of all the others.
    group_says_within(
        &client,
        60,
        &format!("gang-{}", gangs.saturating_sub(1)),
        "0/1 nodes are available: 1 Insufficient cpu; cpu: requested 1, most free 500m",
    )
    .await?;

    let pid = process::find(w.cluster().scratch().folder(), chart::SCHEDULER)?;
    let looks = "podgroup_scheduler_cycle_seconds_count";
    let (memory, processor, before) = (process::memory(pid)?, process::processor_seconds(pid)?, metric(port, looks).await?);
    for look in 0..LOOKS {
        // More capacity on a node may help any PodGroup, so all are retried.
        set_allocatable(&client, "n1", &[("cpu", &format!("{}m", 501 + look))]).await?;
        // This is not a wait: changes that arrive together would cause one cycle only.
        sleep(millis(200)).await;
    }
    let cycles = metric(port, looks).await? - before;
    ensure!(cycles >= 20.0, "{cycles} cycles are too few");
    let (each, grown) = ((process::processor_seconds(pid)? - processor) / cycles, process::memory(pid)?);
    say::line(format!(
        "        Q14: {} queues, {pending} pods: {cycles} cycles, {:.1} ms of processor time each; memory {:.1} MiB, then {:.1}",
        leaves.len() + size.tops * (size.tops + 1),
        each * 1000.0,
        memory.now,
        grown.now
    ));
    ensure!(each <= size.budget, "a cycle takes {each:.3} s of processor time, {} are its budget", size.budget);
    ensure!(grown.now < memory.now * 1.1 + 8.0, "memory grew from {:.1} to {:.1} MiB", memory.now, grown.now);

    set_allocatable(&client, "n1", &[("cpu", "20000")]).await?;
    wait_until(secs(300), "all pods are bound", || async {
        let seen = metric(port, "podgroup_scheduler_binds_total{outcome=\"bound\"}").await?;
        Ok(Seen::when(seen >= pending, || seen.to_string()))
    })
    .await?;
    // Kubernetes writes 5000 as 5k.
    let used = if pending % 1000.0 == 0.0 { format!("{}k", pending / 1000.0) } else { pending.to_string() };
    queue_uses_within(&client, 10, "root", "cpu", &used).await?;
    accounting_matches_api(w).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    queue_uses_within(&client, 10, "root", "cpu", "0").await
}

/// Creates the tree and returns the names of its leaves.
async fn tree(client: &Client, size: Size) -> Result<Vec<String>> {
    for top in 0..size.tops {
        make_queue(client, &format!("t{top}"), None, &[]).await?;
    }
    each(size.tops * size.tops, |number| async move {
        let top = number.checked_div(size.tops).context("no queues")?;
        make_queue(client, &format!("m{number}"), Some(&format!("t{top}")), &[("cpu", "20000")]).await
    })
    .await?;
    let leaves = size.tops * size.tops * size.leaves;
    each(leaves, |number| async move {
        let middle = number.checked_div(size.leaves).context("no queues")?;
        make_queue(client, &format!("l{number}"), Some(&format!("m{middle}")), &[("cpu", "20000")]).await
    })
    .await?;
    Ok((0..leaves).map(|number| format!("l{number}")).collect())
}

async fn each<F: Future<Output = Result<()>>>(count: usize, act: impl Fn(usize) -> F) -> Result<()> {
    stream::iter((0..count).map(act)).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
}
