//! Does each program keep to its half beside Volcano's other one? Objects are put there as Volcano's halves leave them; what is theirs stays as it is.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{container, field, make_member, make_node, make_pod, podgroups, queues};
use crate::programs::Program;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{MIN_MEMBER, Workload, annotate, pods_of, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, kubeconfig};

/// First our controller beside Volcano's scheduler (mode B), then our scheduler beside Volcano's controllers (mode C).
pub(super) async fn beside_volcano(w: &mut World) -> Result<()> {
    let cluster = w.cluster();
    let mode_b = ["scheduler.enabled=false", "controller.annotatePods=true", "admissionPolicy.enabled=false", "schedulerNames={volcano}"];
    chart::install(cluster, &mode_b).await?;
    chart::settle(cluster, false).await?;
    our_controller(cluster).await?;
    let mode_c = ["controller.enabled=false", "scheduler.queueStatus=obey", "schedulerNames={volcano}"];
    chart::upgrade(cluster, &mode_c).await?;
    our_scheduler(cluster).await
}

/// Starts a program of the chart with the chart's rights, and waits until it is ready.
pub(super) async fn start(cluster: &Cluster, account: &'static str, flags: &[&str]) -> Result<Program> {
    let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
    let kubeconfig = chart::kubeconfig(cluster, account, server, &authority).await?;
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Program::start(cluster.scratch(), account, &kubeconfig, &flags)
}

/// The pods name their group, the PodGroup follows its owner, and what Volcano's scheduler wrote of it stays; of queues nothing is made or written.
async fn our_controller(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    let mut controller = start(cluster, chart::CONTROLLER, &["--scheduler-name=volcano", "--annotate-pods"]).await?;
    controller.wait_ready().await?;
    Workload::new("train").replicas(3).gang("2").scheduler("volcano").make(&client).await?;
    let group = wait_one_group(&client, "train", 20).await?.name_any();
    wait_until(secs(20), "the pods name their group for Volcano's scheduler", || async {
        let pods = pods_of(&client, "train").await?;
        let named = pods.iter().filter(|pod| pod.annotations().get("scheduling.k8s.io/group-name") == Some(&group)).count();
        Ok(Seen::when(named == 3, || format!("{named} of {}", pods.len())))
    })
    .await?;
    let theirs = json!({
        "phase": "Running", "running": 3,
        "conditions": [{"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled", "transitionID": "7", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    podgroups(&client).patch(&group, &PatchParams::default(), &Patch::Merge(json!({"status": theirs}))).await?;
    annotate(&client, "train", MIN_MEMBER, "3").await?;
    wait_until(secs(20), "the PodGroup follows its owner", || async {
        let now = field(&podgroups(&client).get(&group).await?, "/spec/minMember");
        Ok(Seen::when(now == 3, || format!("minMember {now}")))
    })
    .await?;
    let status = field(&podgroups(&client).get(&group).await?, "/status");
    ensure!(status == theirs, "the status of Volcano's scheduler became {status}");
    let made = queues(&client).list(&ListParams::default()).await?.items;
    ensure!(made.is_empty(), "the controller made queues: {made:?}");
    controller.terminate().await
}

/// A queue as Volcano's controller keeps it: closing, closed, open again. Its word is obeyed, its fields stay, and what is used stands beside them.
async fn our_scheduler(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "32Gi")]).await?;
    let queue: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}, "spec": {"weight": 1, "reclaimable": true},
    }))?;
    queues(&client).create(&PostParams::default(), &queue).await?;
    let theirs = |state: &str| json!({"state": state, "pending": 5, "running": 7, "reservation": {}});
    write_state(cluster, &theirs("Closing")).await?;
    // As Volcano's pg-controller makes it for a bare pod; the pods name it.
    let group: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "job"},
        "spec": {"minMember": 2, "queue": "team", "minResources": {"cpu": "2"}}, "status": {"phase": "Pending"},
    }))?;
    podgroups(&client).create(&PostParams::default(), &group).await?;
    let before = of_another_scheduler(cluster).await?;
    let mut scheduler =
        start(cluster, chart::SCHEDULER, &["--scheduler-name=volcano", "--scheduler-name=podgroup-scheduler", "--queue-status=obey"])
            .await?;
    scheduler.wait_ready().await?;
    for name in ["job-0", "job-1"] {
        make_member(&client, name, "job", &[("cpu", "1")]).await?;
    }
    wait_until(secs(20), "the group says that its queue is closed", || async {
        let status = field(&podgroups(&client).get("job").await?, "/status");
        Ok(Seen::when(status.to_string().contains("queue team is closed"), || status.to_string()))
    })
    .await?;
    stays(cluster, &theirs("Closing"), &Value::Null).await?;
    write_state(cluster, &theirs("Open")).await?;
    wait_running(&client, "job", 2, 20).await?;
    wait_until(secs(20), "what is used stands in the queue's status", || async {
        let used = field(&queues(&client).get("team").await?, "/status/allocated/cpu");
        Ok(Seen::when(used == "2", || used.to_string()))
    })
    .await?;
    stays(cluster, &theirs("Open"), &json!("2")).await?;
    let after = podgroups(&client).get("elsewhere").await?;
    ensure!(after == before, "another scheduler's PodGroup was {before:?} and is {after:?}");
    scheduler.terminate().await
}

/// A PodGroup whose pod is of a third scheduler and runs, with the status that this one wrote.
async fn of_another_scheduler(cluster: &Cluster) -> Result<DynamicObject> {
    let client = cluster.client();
    let pod = json!({
        "metadata": {"name": "elsewhere-0", "annotations": {"scheduling.k8s.io/group-name": "elsewhere"}},
        "spec": {"schedulerName": "another-scheduler", "nodeName": "n1", "containers": [container(&[("cpu", "1")])]},
    });
    make_pod(&client, pod).await?;
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "elsewhere"},
        "spec": {"minMember": 1, "queue": "team", "minResources": {"cpu": "1"}}, "status": {"phase": "Running", "running": 1},
    });
    Ok(podgroups(&client).create(&PostParams::default(), &serde_json::from_value(group)?).await?)
}

async fn write_state(cluster: &Cluster, status: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"status": status}));
    queues(&cluster.client()).patch_status("team", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Volcano's fields are those, and what is allocated is that, for longer than two writes of ours are apart.
async fn stays(cluster: &Cluster, theirs: &Value, cpu: &Value) -> Result<()> {
    let client = cluster.client();
    holds_for(secs(3), "what Volcano's queue controller wrote stays", || async {
        let mut status = field(&queues(&client).get("team").await?, "/status");
        let allocated = status.as_object_mut().and_then(|status| status.remove("allocated")).unwrap_or_default();
        let same = status == *theirs && allocated.pointer("/cpu").unwrap_or(&Value::Null) == cpu;
        Ok(Seen::when(same, || format!("{status}, allocated {allocated}")))
    })
    .await
}
