//! Row A4-30000: nothing is decided before all lists are complete.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::Instant;

use super::ledger::stays_unbound;
use super::seen::{accounting_matches_api, bound, group_says};
use crate::faults::{Fault, Rule, Verb};
use crate::objects::{container, make_bound_pod, make_member, make_node, make_pod, make_podgroup, make_queue, set_allocatable};
use crate::wait::{Seen, holds_until, secs, wait_until};
use crate::workloads::owner::Kind;
use crate::workloads::{pods_of, wait_running};
use crate::world::World;
use crate::{http, say};

/// The kinds that must be listed before any decision.
const KINDS: [&str; 14] = [
    "nodes",
    "pods",
    "podgroups",
    "queues",
    "priorityclasses",
    "poddisruptionbudgets",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "volumeattachments",
    "csidrivers",
    "csistoragecapacities",
];

/// A4-30000 (#4261, #5174). The scheduler is started again beside so many nodes, full of running pods but for one place, and the list of
/// one kind after the other comes so many seconds late; pods are submitted at once: nothing is bound before the list is there, then one
/// that has room is, and one that has none is not.
pub(super) async fn lists_come_late(w: &mut World, nodes: u32, pods_each: u32, late: u64) -> Result<()> {
    let client = w.client();
    let room = pods_each.to_string();
    stream::iter(0..nodes)
        .map(|number| {
            let (client, room) = (client.clone(), room.clone());
            async move {
                let node = format!("n{number}");
                make_node(&client, &node, &[("cpu", &room), ("memory", "64Gi"), ("pods", "500")]).await?;
                for pod in 0..pods_each {
                    make_bound_pod(&client, &format!("{node}-{pod}"), &node, &[("cpu", "1")]).await?;
                }
                anyhow::Ok(())
            }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    // With an election, nodes, pods, PodGroups and queues are listed again when the lease is won.
    w.scheduler()?.also("--leader-elect=false");
    // Capacity for one pod of one cpu.
    set_allocatable(&client, "n0", &[("cpu", &(pods_each + 1).to_string())]).await?;
    make_queue(&client, "nothing", None, &[("cpu", "0")]).await?;
    for (name, queue) in [("fits", "default"), ("large", "default"), ("forbidden", "nothing")] {
        make_podgroup(&client, name, json!({"minMember": 1, "queue": queue})).await?;
    }
    for (number, kind) in KINDS.into_iter().enumerate() {
        let scheduler = w.scheduler()?;
        scheduler.terminate().await?;
        w.inject(Rule { verb: Some(Verb::List), resource: kind, name: None, fault: Fault::DelayResponse(secs(late)), times: 1 })?;
        let began = Instant::now();
        w.scheduler()?.launch()?;
        for (name, cpu) in [("fits", "1"), ("large", "2"), ("forbidden", "1")] {
            make_member(&client, &format!("{name}-{number}"), name, &[("cpu", cpu)]).await?;
        }
        wait_until(secs(10), &format!("the list of {kind} is requested"), || async {
            let hits = w.hits("delay-response")?;
            Ok(Seen::when(hits == u64::try_from(number + 1)?, || hits.to_string()))
        })
        .await?;
        let port = w.scheduler()?.port();
        let unready = async { http::get(port, "/readyz").await };
        // The list was requested after the start, so it is not complete before this moment, however slow the machine is.
        let there = began + secs(late);
        if let Ok((status, _)) = unready.await {
            ensure!(status != 200 || Instant::now() >= there, "it is ready without a list of {kind}");
        }
        holds_until(there, &format!("nothing is bound without a list of {kind}"), || async {
            let count = bound(&client, "fits").await?;
            Ok(Seen::when(count == 0, || format!("{count} pods are bound")))
        })
        .await?;
        for name in ["large", "forbidden"] {
            stays_unbound(w, name, 0).await?;
        }
        // At least two hundred pods per second are listed, also on a busy machine.
        let read = u64::from(nodes) * u64::from(pods_each) / 200;
        w.scheduler()?.wait_ready_within(secs(30 + read)).await?;
        wait_running(&client, "fits", 1, 10 + late + read).await?;
        say::line(format!("        A4: with {kind} {late} s late the pod ran {:.1} s after the start", began.elapsed().as_secs_f64()));
        group_says(&client, "large", "Insufficient cpu; cpu: requested 2, most free ").await?;
        group_says(&client, "forbidden", "queue \"nothing\" is over its quota").await?;
        for (name, seconds) in [("large", 1), ("forbidden", 0)] {
            stays_unbound(w, name, seconds).await?;
        }
        for name in ["fits", "large", "forbidden"] {
            for pod in pods_of(&client, name).await? {
                let name = pod.metadata.name.unwrap_or_default();
                Kind::Pod.api(&client).delete(&name, &DeleteParams::default().grace_period(0)).await?;
            }
        }
    }
    // A pod of another client uses the last capacity, so that the ledger is checked once more.
    make_pod(&client, json!({"metadata": {"name": "last"}, "spec": {"nodeName": "n0", "containers": [container(&[("cpu", "1")])]}}))
        .await?;
    accounting_matches_api(w).await
}
