//! Row C3: each program works beside Volcano's other component. The case creates objects as Volcano's components leave them, and their
//! fields stay unchanged.
//!
//! The chart is installed with the values that the documents name for this, and each program runs as the chart renders it.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{container, field, make_node, make_pod, podgroups, queues};
use crate::rendered::Rendered;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{MIN_MEMBER, Workload, annotate, pods_of, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, kit};

/// The annotation by which a pod names its PodGroup.
const GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// C3. First our controller beside Volcano's scheduler (mode B), then our scheduler beside Volcano's controllers (mode C).
pub(super) async fn both_modes(w: &mut World) -> Result<()> {
    let cluster = w.cluster();
    let (mode_b, mode_c) = (documented("our controller", "our PodGroups")?, documented("Volcano's controllers", "our scheduler")?);
    chart::install(cluster, &mode_b.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    chart::settle_for(cluster, "volcano", true).await?;
    our_controller_beside_scheduler(w).await?;
    chart::upgrade(cluster, &mode_c.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    chart::settle_for(cluster, "volcano", false).await?;
    our_scheduler_beside_controllers(cluster).await?;
    let refused = w.requests()?.refused;
    ensure!(refused.is_empty(), "the chart gave too few rights: {refused:?}");
    Ok(())
}

/// Returns the values in the named row of the chart's README, which must be the values in docs/from-volcano.md.
fn documented(in_readme: &str, in_guide: &str) -> Result<Vec<String>> {
    let (readme, guide) = (row("charts/podgroup/README.md", in_readme)?, row("docs/from-volcano.md", in_guide)?);
    ensure!(readme == guide, "{in_readme}: the chart's README says {readme:?}, docs/from-volcano.md {guide:?}");
    ensure!(readme.len() >= 3, "{in_readme}: only {readme:?} were found");
    Ok(readme)
}

fn row(document: &str, begin: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(kit::repository().join(document))?;
    let row =
        text.lines().find(|line| line.starts_with(&format!("| {begin}"))).with_context(|| format!("{document} has no row {begin}"))?;
    let words = row.split('`').skip(1).step_by(2).filter(|word| word.contains('='));
    Ok(words.map(str::to_owned).collect())
}

/// The pods name their PodGroup, the PodGroup follows its owner, and the status by Volcano's scheduler stays. No queue is created or
/// written. The policy annotates the pods of a Deployment at creation; the controller annotates a bare pod, for which the policy has no
/// name.
async fn our_controller_beside_scheduler(w: &World) -> Result<()> {
    let client = w.client();
    let mut controller = Rendered::start(w.cluster(), chart::CONTROLLER, "beside-scheduler").await?;
    controller.wait_ready().await?;
    Workload::new("train").replicas(3).gang("2").scheduler("volcano").make(&client).await?;
    let group = wait_one_group(&client, "train", 10).await?.name_any();
    wait_until(secs(10), "the pods name their group for Volcano's scheduler", || async {
        let pods = pods_of(&client, "train").await?;
        let named = pods.iter().filter(|pod| pod.annotations().get(GROUP_NAME) == Some(&group)).count();
        Ok(Seen::when(named == 3, || format!("{named} of {} pods name it", pods.len())))
    })
    .await?;
    let patches =
        || -> Result<u64> { Ok(w.requests()?.counts.get(&format!("{} patch pods", chart::CONTROLLER)).copied().unwrap_or_default()) };
    ensure!(patches()? == 0, "the policy had named these pods, and the controller wrote to them {} times", patches()?);
    let bare = json!({
        "metadata": {"name": "bare", "labels": {"app": "bare"}}, "spec": {"schedulerName": "volcano", "containers": [container(&[])]},
    });
    make_pod(&client, bare).await?;
    wait_until(secs(10), "a bare pod names an existing PodGroup", || async {
        let pods = pods_of(&client, "bare").await?;
        let Some(name) = pods.iter().find_map(|pod| pod.annotations().get(GROUP_NAME)) else {
            return Ok(Seen::NotYet("the pod names no PodGroup".to_owned()));
        };
        let there = podgroups(&client).get_opt(name).await?.is_some();
        Ok(Seen::when(there, || format!("PodGroup {name} does not exist")))
    })
    .await?;
    let theirs = json!({
        "phase": "Running", "running": 3,
        "conditions": [{"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled", "transitionID": "7", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    podgroups(&client).patch(&group, &PatchParams::default(), &Patch::Merge(json!({"status": theirs}))).await?;
    annotate(&client, "train", MIN_MEMBER, "3").await?;
    wait_until(secs(10), "the PodGroup follows its owner", || async {
        let now = field(&podgroups(&client).get(&group).await?, "/spec/minMember");
        Ok(Seen::when(now == 3, || format!("minMember {now}")))
    })
    .await?;
    let status = field(&podgroups(&client).get(&group).await?, "/status");
    ensure!(status == theirs, "the status of Volcano's scheduler changed to {status}");
    let made = queues(&client).list(&ListParams::default()).await?.items;
    ensure!(made.is_empty(), "the controller created queues: {made:?}");
    controller.end().await
}

/// A queue under Volcano's controller is closing, closed, open again. Our scheduler obeys that state, keeps its fields, and adds the usage.
async fn our_scheduler_beside_controllers(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "32Gi")]).await?;
    let queue: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}, "spec": {"weight": 1, "reclaimable": true},
    }))?;
    queues(&client).create(&PostParams::default(), &queue).await?;
    let theirs = |state: &str| json!({"state": state, "pending": 5, "running": 7, "reservation": {}});
    write_state(cluster, &theirs("Closing")).await?;
    // Volcano's pg-controller creates such a PodGroup for a bare pod; the pod names it.
    let group: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "job"},
        "spec": {"minMember": 2, "queue": "team", "minResources": {"cpu": "2"}}, "status": {"phase": "Pending"},
    }))?;
    podgroups(&client).create(&PostParams::default(), &group).await?;
    let before = of_another_scheduler(cluster).await?;
    let mut scheduler = Rendered::start(cluster, chart::SCHEDULER, "beside-controllers").await?;
    scheduler.wait_ready().await?;
    for name in ["job-0", "job-1"] {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "job"}, "annotations": {GROUP_NAME: "job"}},
            "spec": {"schedulerName": "volcano", "containers": [container(&[("cpu", "1")])]},
        });
        make_pod(&client, pod).await?;
    }
    wait_until(secs(40), "the group says that its queue is closed", || async {
        let status = field(&podgroups(&client).get("job").await?, "/status");
        Ok(Seen::when(status.to_string().contains(r#"queue \"team\" is closed"#), || status.to_string()))
    })
    .await?;
    stays(cluster, &theirs("Closing"), &Value::Null).await?;
    write_state(cluster, &theirs("Open")).await?;
    wait_running(&client, "job", 2, 10).await?;
    wait_until(secs(10), "the queue's status contains the usage", || async {
        let used = field(&queues(&client).get("team").await?, "/status/allocated/cpu");
        Ok(Seen::when(used == "2", || used.to_string()))
    })
    .await?;
    stays(cluster, &theirs("Open"), &json!("2")).await?;
    let after = podgroups(&client).get("elsewhere").await?;
    ensure!(after == before, "another scheduler's PodGroup was {before:?} and is {after:?}");
    scheduler.end().await
}

/// Creates a PodGroup of a third scheduler with a running pod and the status that this scheduler wrote.
async fn of_another_scheduler(cluster: &Cluster) -> Result<DynamicObject> {
    let client = cluster.client();
    let pod = json!({
        "metadata": {"name": "elsewhere-0", "annotations": {GROUP_NAME: "elsewhere"}},
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

/// Volcano's fields and our `allocated` stay unchanged for longer than the interval between two of our writes.
async fn stays(cluster: &Cluster, theirs: &Value, cpu: &Value) -> Result<()> {
    let client = cluster.client();
    holds_for(secs(3), "the fields of Volcano's queue controller stay", || async {
        let mut status = field(&queues(&client).get("team").await?, "/status");
        let allocated = status.as_object_mut().and_then(|status| status.remove("allocated")).unwrap_or_default();
        let same = status == *theirs && allocated.pointer("/cpu").unwrap_or(&Value::Null) == cpu;
        Ok(Seen::when(same, || format!("{status}, allocated {allocated}")))
    })
    .await
}
