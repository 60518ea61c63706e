//! Row S4: the first lists of a fresh leader are old. Its API server is cut off from etcd and answers with what it knew, and no earlier list shows that. The leader
//! decides nothing on these lists, because they are older than its lease.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use super::old_views::decides;
use super::seen::{accounting_matches_api, bound, group_says};
use super::standby_behind::pod_on;
use crate::objects::{NAMESPACE, make_node, make_podgroup, make_queue, patch_queue, podgroups, set_allocatable};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::wait_running;
use crate::world::World;
use crate::{http, say};

/// The kinds of which the lists are old.
const OLD: [&str; 3] = ["nodes", "pods", "queues"];

/// How long the lists stay old. After 60 s they are accepted: the lease may have an etcd of its own.
const BEHIND: Duration = secs(25);

/// How long the next list takes at most: a list that is refused is read again after 15 s at most.
const READ_AGAIN: Duration = secs(20);

/// The PodGroups that wait, each with the node of its only pod, which has 4 cpu, and its queue.
const WAITING: [(&str, &str, &str); 3] = [("full", "full", "default"), ("shrunk", "shrunk", "default"), ("lowered", "roomy", "team")];

/// S4. Three PodGroups wait for a second member. The old lists show room for the member of each. Then a pod fills the node of the first, the node of the second
/// shrinks, the capability of the queue of the third is lowered, and each needs one member only. A new leader with the old lists binds none of them and says why.
/// With current lists it says what each one lacks, and binds it when there is room.
pub(super) async fn are_old(w: &mut World) -> Result<()> {
    let client = w.client();
    for (node, cpu) in [("full", "4"), ("shrunk", "4"), ("roomy", "16")] {
        make_node(&client, node, &[("cpu", cpu), ("memory", "64Gi")]).await?;
    }
    make_queue(&client, "team", None, &[("cpu", "4")]).await?;
    for (name, node, queue) in WAITING {
        make_podgroup(&client, name, json!({"minMember": 2, "queue": queue})).await?;
        pod_on(&client, name, node).await?;
    }
    // The lists of this process are shown to the next one.
    w.aimed()?.record_lists(&OLD);
    w.scheduler()?.terminate().await?;
    w.scheduler()?.restart().await?;
    let port = w.scheduler()?.port();
    wait_until(secs(10), "the first process decides", || async {
        let view = http::json(port, "/debug/view").await?;
        Ok(Seen::when(decides(&view), || view.to_string()))
    })
    .await?;

    // What the old lists do not show.
    make_podgroup(&client, "first", json!({"minMember": 1, "queue": "default"})).await?;
    pod_on(&client, "first", "full").await?;
    wait_running(&client, "first", 1, 10).await?;
    w.scheduler()?.terminate().await?;
    set_allocatable(&client, "shrunk", &[("cpu", "1")]).await?;
    patch_queue(&client, "team", json!({"spec": {"capability": {"cpu": "1"}}})).await?;
    for (name, ..) in WAITING {
        podgroups(&client).patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"minMember": 1}}))).await?;
    }
    w.aimed()?.repeat_lists();
    w.scheduler()?.launch()?;
    says_that_the_lists_are_old(port).await?;
    holds_for(BEHIND, "nothing is decided on the old lists", || async {
        let (wrong, view) = (bound_of(&client).await?, http::json(port, "/debug/view").await?);
        Ok(Seen::when(wrong.is_empty() && !decides(&view), || format!("bound: {wrong:?}; {view}")))
    })
    .await?;
    // It still says so.
    says_that_the_lists_are_old(port).await?;

    w.aimed()?.repeat_lists_no_more();
    let current = Instant::now();
    wait_until(READ_AGAIN, "the new process decides on current lists", || async {
        let view = http::json(port, "/debug/view").await?;
        Ok(Seen::when(decides(&view), || view.to_string()))
    })
    .await?;
    say::line(format!("        S4: it decided {:.1} s after the lists were current", current.elapsed().as_secs_f64()));
    for name in ["full", "shrunk"] {
        group_says(&client, name, "Insufficient cpu").await?;
    }
    group_says(&client, "lowered", "queue \"team\" is over its quota: cpu requested 4, used 0, capability 1").await?;
    let wrong = bound_of(&client).await?;
    ensure!(wrong.is_empty(), "bound without room: {wrong:?}");

    Api::<Pod>::namespaced(client.clone(), NAMESPACE).delete("first", &DeleteParams::default().grace_period(0)).await?;
    set_allocatable(&client, "shrunk", &[("cpu", "4")]).await?;
    patch_queue(&client, "team", json!({"spec": {"capability": {"cpu": "4"}}})).await?;
    for (name, ..) in WAITING {
        wait_running(&client, name, 1, 10).await?;
    }
    accounting_matches_api(w).await
}

/// Waits until `/readyz` of the leader says of each kind that its lists are older than the lease. Only a leader can know that: these are its first lists.
async fn says_that_the_lists_are_old(port: u16) -> Result<()> {
    wait_until(secs(10), "/readyz says that the lists are old", || async {
        let (status, text) = http::get(port, "/readyz").await?;
        let says =
            |kind: &str| text.lines().any(|line| line.starts_with(&format!("{kind}: ")) && line.contains("this API server is behind"));
        Ok(Seen::when(status == 503 && OLD.into_iter().all(says), || format!("{status}: {text}")))
    })
    .await
}

/// Returns the PodGroups of [`WAITING`] that have a bound pod.
async fn bound_of(client: &Client) -> Result<Vec<&'static str>> {
    let mut with = Vec::new();
    for (name, ..) in WAITING {
        if bound(client, name).await? > 0 {
            with.push(name);
        }
    }
    Ok(with)
}
