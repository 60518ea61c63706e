//! Rows Q20 to Q23: what is reserved for the minimum of a gang, for a lost member, and when an admission back-off ends.

use anyhow::{Result, ensure};
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;

use super::handover::{leader_and_standby, wait_leader};
use super::ledger::stays_unbound;
use super::seen::{accounting_matches_api, bound, group_says, pod_says, wait_phase};
use crate::objects::{make_member, make_node, make_podgroup, make_queue, make_queue_of, podgroups};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::owner::Kind;
use crate::workloads::wait_running;
use crate::world::World;

const ONE: crate::objects::Amounts<'static> = &[("cpu", "1")];

async fn members(client: &Client, group: &str, numbers: std::ops::Range<u32>) -> Result<()> {
    for number in numbers {
        make_member(client, &format!("{group}-{number}"), group, ONE).await?;
    }
    Ok(())
}

async fn delete_pod(client: &Client, name: &str) -> Result<()> {
    Kind::Pod.api(client).delete(name, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

/// Q20. Three elastic PodGroups in a queue without a capability: two have many members, and the third is admitted before its pods exist. Members beyond
/// the minimum leave room for it. Its pods are bound when they come.
pub(super) async fn surplus_leaves_room(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2"] {
        make_node(&client, node, &[("cpu", "4"), ("memory", "16Gi")]).await?;
    }
    for group in ["first", "second", "third"] {
        make_podgroup(&client, group, json!({"minMember": 2, "queue": "default", "minResources": {"cpu": "2"}})).await?;
        wait_phase(&client, group, "Inqueue", 10).await?;
    }
    members(&client, "first", 0..8).await?;
    members(&client, "second", 0..8).await?;
    let six = || async {
        let count = bound(&client, "first").await? + bound(&client, "second").await?;
        Ok(Seen::when(count == 6, || format!("{count} pods are bound")))
    };
    wait_until(secs(10), "6 of 8 cores are used", six).await?;
    pod_says(&client, "first", "the room that is left is reserved for the minimum of other PodGroups").await?;
    holds_for(secs(2), "2 cores stay free", six).await?;
    members(&client, "third", 0..8).await?;
    wait_until(secs(10), "the third PodGroup has its minimum", || async {
        let count = bound(&client, "third").await?;
        Ok(Seen::when(count == 2, || format!("{count} pods are bound")))
    })
    .await?;
    accounting_matches_api(w).await
}

/// Q21. A gang of three on three cpu loses a pod while a rival waits: its place is kept for the pod that replaces it. When the gang is made smaller, the
/// rival gets the place at once.
pub(super) async fn lost_member_keeps_its_place(w: &mut World) -> Result<()> {
    let client = w.client();
    lose_a_member(&client).await?;
    stays_unbound(w, "rival", 3).await?;
    members(&client, "gang", 3..4).await?;
    wait_running(&client, "gang", 3, 10).await?;
    ensure!(bound(&client, "rival").await? == 0, "the rival has the place");
    delete_pod(&client, "gang-1").await?;
    stays_unbound(w, "rival", 1).await?;
    let smaller = kube::api::Patch::Merge(json!({"spec": {"minMember": 2}}));
    podgroups(&client).patch("gang", &kube::api::PatchParams::default(), &smaller).await?;
    wait_running(&client, "rival", 1, 10).await?;
    accounting_matches_api(w).await
}

/// How the leader ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// With SIGTERM.
    Stopped,
    /// With SIGKILL.
    Killed,
}

/// Q21-stopped, Q21-killed. The same, and the leader ends before the pod is replaced: the standby keeps the place when it leads.
pub(super) async fn lost_at_a_handover(w: &mut World, end: End) -> Result<()> {
    let client = w.client();
    let mut standby = leader_and_standby(w, &["--admission-timeout=90s"]).await?;
    lose_a_member(&client).await?;
    stays_unbound(w, "rival", 1).await?;
    match end {
        End::Stopped => w.scheduler()?.terminate().await?,
        End::Killed => w.scheduler()?.kill().await?,
    }
    wait_leader(&client, "two", 30).await?;
    stays_unbound(w, "rival", 3).await?;
    members(&client, "gang", 3..4).await?;
    wait_running(&client, "gang", 3, 10).await?;
    ensure!(bound(&client, "rival").await? == 0, "the rival has the place");
    w.scheduler()?.restart().await?;
    standby.terminate().await?;
    accounting_matches_api(w).await
}

/// Fills three nodes of 1 cpu with a gang of three, lets a rival wait, and deletes a pod of the gang.
async fn lose_a_member(client: &Client) -> Result<()> {
    for node in ["n1", "n2", "n3"] {
        make_node(client, node, &[("cpu", "1"), ("memory", "16Gi")]).await?;
    }
    make_podgroup(client, "gang", json!({"minMember": 3, "queue": "default"})).await?;
    members(client, "gang", 0..3).await?;
    wait_running(client, "gang", 3, 10).await?;
    make_podgroup(client, "rival", json!({"minMember": 1, "queue": "default"})).await?;
    members(client, "rival", 0..1).await?;
    group_says(client, "rival", "Insufficient cpu").await?;
    delete_pod(client, "gang-0").await
}

/// Q22. The first PodGroup of a fifo queue needs three members of 2.5 cpu, and two nodes of 4 cpu could never take more than two: others pass. A gang that
/// requests more than all nodes offer says so.
pub(super) async fn fifo_passes_what_no_node_can_take(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2"] {
        make_node(&client, node, &[("cpu", "4"), ("memory", "16Gi")]).await?;
    }
    make_queue_of(&client, "fifo", json!({"dequeueStrategy": "fifo"})).await?;
    make_podgroup(&client, "never", json!({"minMember": 3, "queue": "fifo"})).await?;
    for number in 0..3 {
        make_member(&client, &format!("never-{number}"), "never", &[("cpu", "2500m")]).await?;
    }
    group_says(&client, "never", "2 of 3 members find a place").await?;
    make_podgroup(&client, "small", json!({"minMember": 1, "queue": "fifo"})).await?;
    members(&client, "small", 0..1).await?;
    wait_running(&client, "small", 1, 10).await?;
    make_podgroup(&client, "huge", json!({"minMember": 3, "queue": "default"})).await?;
    for number in 0..3 {
        make_member(&client, &format!("huge-{number}"), "huge", &[("cpu", "3")]).await?;
    }
    group_says(&client, "huge", "the gang requests cpu 9 together, and all nodes offer 8").await?;
    accounting_matches_api(w).await
}

/// Q23. A gang is in its admission back-off, and its owner replaces no pod before it is admitted again, as training-operator does. A worker is deleted and a
/// node added: it is admitted at once, and bound with the new worker.
pub(super) async fn back_off_ends_with_its_reason(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    make_queue(&client, "team", None, &[]).await?;
    make_podgroup(&client, "job", json!({"minMember": 3, "queue": "team", "minResources": {"cpu": "3"}})).await?;
    members(&client, "job", 0..3).await?;
    group_says(&client, "job", "2 of 3 members find a place").await?;
    wait_phase(&client, "job", "Pending", 45).await?;
    delete_pod(&client, "job-0").await?;
    make_node(&client, "n2", &[("cpu", "2"), ("memory", "16Gi")]).await?;
    wait_phase(&client, "job", "Inqueue", 10).await?;
    members(&client, "job", 3..4).await?;
    wait_running(&client, "job", 3, 10).await?;
    accounting_matches_api(w).await
}
