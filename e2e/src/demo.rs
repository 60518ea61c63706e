//! The demo: four steps on a real control plane. Each statement is checked, and a statement that is false fails the demo.

use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::ResourceExt;

use crate::cases::ledger::{GPU, stays_unbound, wait_overcommitted};
use crate::cases::lifecycle::{settled, wait_unschedulable};
use crate::cases::queues::{HALF, blocked_by_parent, no_longer_unschedulable};
use crate::objects::{make_node, make_queue, set_allocatable};
use crate::say::{headline, line, paragraph};
use crate::scratch::{self, Scratch};
use crate::workloads::{Workload, delete, scale, wait_one_group, wait_running};
use crate::world::{Setup, World};
use crate::{artifacts, kit, programs, say};

/// The Deployment that waits while the demo's cluster stays up.
const WAITING: &str = "waiting";

/// Returns the folder of the demo's cluster between `make demo` and `make demo-down`.
pub fn folder() -> PathBuf {
    kit::repository().join(".cluster/demo")
}

/// Runs the demo and returns whether every statement was true. With `keep` the cluster and both programs go on running afterwards.
pub async fn play(keep: bool) -> Result<bool> {
    headline("the stage");
    paragraph(
        "A real control plane (etcd, kube-apiserver, kube-controller-manager) with simulated nodes; the chart, installed by helm; and both
         programs, with the rights of the chart's own ServiceAccounts.",
    );
    let setup = Setup { no_proxies: true, no_oracle: true, ..Setup::default() };
    let mut world = World::bare(Scratch::at(folder())?, "demo", &setup, scratch::random()).await?;
    let told = steps(&mut world, &setup).await;
    let mut against = Vec::new();
    if let Err(error) = told {
        against.push(say::brief(&error));
        let kept = artifacts::keep(&mut world, &format!("demo-{:08x}", scratch::random() >> 32)).await?;
        line(format!("  logs, events and objects: {}", kept.display()));
    }
    against.extend(world.verdict(true).await);
    if against.is_empty() {
        headline("every statement was true");
    } else {
        headline("a statement was false");
        against.iter().for_each(paragraph);
    }
    if keep {
        // After a false statement, or where the Deployment could not be created, the cluster stays up all the same.
        let waits = against.is_empty() && leave_waiting(&world).await.inspect_err(|error| paragraph(say::brief(error))).is_ok();
        what_to_look_at(&mut world, waits)?;
        world.keep()?;
    } else {
        tokio::task::spawn_blocking(move || drop(world)).await?;
    }
    Ok(against.is_empty())
}

/// Ends what `play` has kept.
pub fn end() -> Result<()> {
    scratch::remove(&folder())
}

async fn steps(world: &mut World, setup: &Setup) -> Result<()> {
    world.install(setup).await.context("the stage")?;
    all_or_nothing(world).await.context("step 1, all or nothing")?;
    flapping(world).await.context("step 2, flapping")?;
    devices_fail(world).await.context("step 3, devices fail")?;
    two_queues(world).await.context("step 4, two queues under one parent")
}

async fn all_or_nothing(world: &mut World) -> Result<()> {
    headline("1. all or nothing");
    paragraph("A Deployment with 4 pods that needs all of them at once (group-min-member: 4), in a cluster with capacity for 3.");
    let client = world.client();
    make_node(&client, "node-a", &[("cpu", "3"), ("memory", "16Gi")]).await?;
    Workload::new("training").replicas(4).gang("4").make(&client).await?;
    let group = wait_one_group(&client, "training", 10).await?.name_any();
    let (reason, message) = wait_unschedulable(&client, &group).await?;
    stays_unbound(world, "training", 2).await?;
    paragraph(format!("No pod was bound, and the PodGroup has the reason: {reason}: {message}"));
    make_node(&client, "node-b", &[("cpu", "1"), ("memory", "16Gi")]).await?;
    wait_running(&client, "training", 4, 15).await?;
    no_longer_unschedulable(&client, &group).await?;
    paragraph("A node with capacity for one pod was added: all 4 pods run, and the condition is gone.");
    paragraph("Why it matters: three of four workers that wait for the fourth occupy their GPUs without doing any work.");
    delete(&client, "training").await?;
    wait_running(&client, "training", 0, 10).await
}

async fn flapping(world: &mut World) -> Result<()> {
    headline("2. a Deployment that is scaled up and down");
    paragraph("Scaled to 0 and to 1, twenty times, without a pause.");
    let client = world.client();
    Workload::new("flapping").make(&client).await?;
    wait_running(&client, "flapping", 1, 15).await?;
    for _ in 0..20 {
        scale(&client, "flapping", 0).await?;
        scale(&client, "flapping", 1).await?;
    }
    settled(&client, &["flapping".to_owned()]).await?;
    paragraph("At the end one pod runs, and there is exactly one PodGroup, owned by the live ReplicaSet.");
    paragraph(
        "Why it matters: when a PodGroup is deleted a moment too late, its new pod waits for ever; an autoscaler scales like this all day.",
    );
    delete(&client, "flapping").await?;
    wait_running(&client, "flapping", 0, 10).await
}

async fn devices_fail(world: &mut World) -> Result<()> {
    headline("3. two of eight GPUs fail");
    paragraph("A node with 8 GPUs, all in use, reports 6.");
    let client = world.client();
    let port = world.scheduler()?.port();
    make_node(&client, "node-gpu", &[("cpu", "32"), ("memory", "64Gi"), (GPU, "8")]).await?;
    Workload::new("holders").replicas(8).asks(&[("cpu", "1"), (GPU, "1")]).make(&client).await?;
    wait_running(&client, "holders", 8, 15).await?;
    set_allocatable(&client, "node-gpu", &[(GPU, "6")]).await?;
    wait_overcommitted(port, "node-gpu", GPU, 2).await?;
    Workload::new("one-more").asks(&[("cpu", "1"), (GPU, "1")]).make(&client).await?;
    Workload::new("repair").asks(&[("cpu", "100m")]).on_node("node-gpu").make(&client).await?;
    wait_running(&client, "repair", 1, 10).await?;
    stays_unbound(world, "one-more", 2).await?;
    paragraph(
        "No program crashed. The ledger reports the node as overcommitted by 2. A pod that requests a GPU waits. A pod without GPUs (a repair pod) was bound to this node.",
    );
    set_allocatable(&client, "node-gpu", &[(GPU, "8")]).await?;
    wait_overcommitted(port, "node-gpu", GPU, 0).await?;
    scale(&client, "holders", 7).await?;
    wait_running(&client, "one-more", 1, 10).await?;
    paragraph("The GPUs are back and one pod ended: the ledger is right again, and the waiting pod runs.");
    paragraph(
        "Why it matters: devices fail every day in a large cluster, and a scheduler whose accounting cannot be negative stops for all users.",
    );
    for name in ["holders", "one-more", "repair"] {
        delete(&client, name).await?;
    }
    wait_running(&client, "holders", 0, 15).await
}

async fn two_queues(world: &mut World) -> Result<()> {
    headline("4. two queues under one parent");
    paragraph(
        "Queue test-root has a capability of 2 cpu and 4Gi. job-1 in its first child queue uses all of it; then job-2 is created in the second child queue.",
    );
    let client = world.client();
    make_node(&client, "node-c", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "test-root", Some("root"), &[("cpu", "2"), ("memory", "4Gi")]).await?;
    for child in ["test-sub-0", "test-sub-1"] {
        make_queue(&client, child, Some("test-root"), &[]).await?;
    }
    Workload::new("job-1").replicas(2).gang("2").asks(HALF).queue("test-sub-0").make(&client).await?;
    wait_running(&client, "job-1", 2, 15).await?;
    Workload::new("job-2").replicas(2).gang("2").asks(HALF).queue("test-sub-1").make(&client).await?;
    let group = wait_one_group(&client, "job-2", 10).await?.name_any();
    blocked_by_parent(world, &group, "job-2").await?;
    let (_, message) = wait_unschedulable(&client, &group).await?;
    paragraph(format!("The nodes have free capacity, but job-2 waits: {message}"));
    delete(&client, "job-1").await?;
    wait_running(&client, "job-2", 2, 15).await?;
    no_longer_unschedulable(&client, &group).await?;
    paragraph("job-1 ended, and job-2 runs.");
    paragraph("Why it matters: a limit that is checked at one level only does not limit the department above it.");
    Ok(())
}

/// Leaves a gang that waits because of step 4's parent queue, so that the commands have something to explain.
async fn leave_waiting(world: &World) -> Result<()> {
    let client = world.client();
    Workload::new(WAITING).replicas(2).gang("2").asks(HALF).queue("test-sub-0").make(&client).await?;
    let group = wait_one_group(&client, WAITING, 10).await?.name_any();
    wait_unschedulable(&client, &group).await?;
    paragraph(format!("The Deployment {WAITING} was created beside job-2. It stays, and waits for the same reason as job-2 before."));
    Ok(())
}

fn what_to_look_at(world: &mut World, waits: bool) -> Result<()> {
    headline("commands to try");
    let kubectl = world.cluster().kit().program("kubectl");
    let tools = kubectl.parent().context("kubectl has no folder")?;
    let scheduler_url = format!("http://127.0.0.1:{}", world.scheduler()?.port());
    line(format!("  export KUBECONFIG={}", world.cluster().kubeconfig().display()));
    line(format!("  export PATH={}:{}:$PATH", programs::folder()?.display(), tools.display()));
    if waits {
        line(format!("  kubectl podgroup why deploy/{WAITING} --scheduler-url {scheduler_url}"));
    }
    for command in [
        &format!("kubectl podgroup tree --scheduler-url {scheduler_url}"),
        "kubectl get podgroups,queues.scheduling.volcano.sh -o wide",
        "kubectl describe podgroups",
        "kubectl get events --sort-by=.lastTimestamp",
        "kubectl get pods -o wide",
    ] {
        line(format!("  {command}"));
    }
    let (controller, scheduler) = (world.controller()?.port(), world.scheduler()?.port());
    line(format!("  controller  http://127.0.0.1:{controller}/metrics"));
    for path in ["metrics", "debug/ledger", "debug/queues", "debug/audit"] {
        line(format!("  scheduler   http://127.0.0.1:{scheduler}/{path}"));
    }
    line(format!("  logs        {}", world.cluster().scratch().path("logs").display()));
    line("  make demo-down removes everything");
    Ok(())
}
