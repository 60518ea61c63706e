//! Rows C1 and C2: objects written for Volcano apply unchanged and keep every field, and the chart works as documented.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::objects::{field, podgroups, queues};
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;

/// C1. A PodGroup and a Queue with every field of the API, and some unknown fields, are created, handled by both programs, and read again.
pub(super) async fn objects_of_volcano_survive(w: &mut World) -> Result<()> {
    let client = w.client();
    let topology = json!({ "mode": "soft", "highestTierAllowed": 2, "highestTierName": "rack" });
    let spec = json!({
        "minMember": 3,
        "minResources": { "cpu": 3, "memory": "6Gi", "nvidia.com/gpu": "3", "requests.cpu": "3", "limits.cpu": "6", "count/pods": "3" },
        "minTaskMember": { "worker": 2, "master": 1 },
        "networkTopology": topology,
        "priorityClassName": "high",
        "queue": "all.fields",
        "subGroupPolicy": [{
            "name": "by-rank", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["rank"], "networkTopology": topology,
            "labelSelector": {
                "matchLabels": { "job": "x" },
                "matchExpressions": [{ "key": "a", "operator": "In", "values": ["1", "2"] }, { "key": "b", "operator": "Exists" }],
            },
        }],
        "aFieldOfTomorrow": { "nested": [1, "two", true] },
    });
    let groups = podgroups(&client);
    groups.create(&PostParams::default(), &object("PodGroup", "all-fields", &spec)?).await.context("the PodGroup")?;
    let groups_are = [("kubectl get pg", "pg"), ("kubectl get podgroup-v1beta1", "podgroup-v1beta1")];

    let resource = json!({ "cpu": 10, "memory": "20Gi", "ephemeral-storage": "100P" });
    let node_groups = json!({
        "preferredDuringSchedulingIgnoredDuringExecution": ["a"], "requiredDuringSchedulingIgnoredDuringExecution": ["b"],
    });
    let queue = json!({
        "affinity": { "nodeGroupAffinity": node_groups, "nodeGroupAntiAffinity": node_groups },
        "capability": resource, "deserved": resource, "guarantee": { "resource": { "cpu": "1500m" } },
        "dequeueStrategy": "fifo", "parent": "root", "priority": 7, "reclaimable": false, "type": "own", "weight": 65535,
        "extendClusters": [{ "name": "other", "weight": 2, "capacity": { "cpu": "4" } }],
        "aFieldOfTomorrow": { "nested": [1, "two", true] },
    });
    queues(&client).create(&PostParams::default(), &object("Queue", "all.fields", &queue)?).await.context("the Queue")?;

    wait_until(secs(10), "the scheduler has written both statuses", || async {
        let group = field(&groups.get("all-fields").await?, "/status/phase");
        let state = field(&queues(&client).get("all.fields").await?, "/status/state");
        Ok(Seen::when(group.is_string() && state.is_string(), || format!("phase {group}, state {state}")))
    })
    .await?;
    ensure!(
        field(&groups.get("all-fields").await?, "/spec") == spec,
        "the PodGroup has changed to {}",
        field(&groups.get("all-fields").await?, "/spec")
    );
    let back = field(&queues(&client).get("all.fields").await?, "/spec");
    ensure!(back == queue, "the Queue has changed to {back}");
    for (what, name) in groups_are {
        let text = w.cluster().run("kubectl", &["get", name, "all-fields", "-o", "name"]).await?;
        ensure!(text.contains("all-fields"), "{what} printed {text}");
    }
    Ok(())
}

fn object(kind: &str, name: &str, spec: &Value) -> Result<DynamicObject> {
    let object = json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    Ok(serde_json::from_value(object)?)
}

/// C2. Runs the chart's own check: schema, rights of both service accounts, the policy, install, upgrade, uninstall.
pub(super) async fn chart(w: &mut World) -> Result<()> {
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/podgroup-check.sh");
    let kit = w.cluster().kit().program("helm");
    let path = format!("{}:{}", kit.parent().context("the folder of the tools")?.display(), std::env::var("PATH").unwrap_or_default());
    let home = w.cluster().scratch().folder();
    let output = Command::new("bash")
        .arg(&check)
        .env("PATH", path)
        .env("KUBECONFIG", w.cluster().kubeconfig())
        // helm and kubectl must neither read nor write the settings of the user of this machine.
        .env("HOME", home)
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        let failed: Vec<&str> = text.lines().filter(|line| !line.starts_with("ok ")).collect();
        bail!("{}\n{}", failed.join("\n"), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
