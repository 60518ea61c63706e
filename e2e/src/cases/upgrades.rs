//! Row C10: the chart of a cluster is upgraded from an older chart, rolled back, and upgraded again.
//!
//! The older chart is this chart without later additions, as described at [`older_chart`]. So it needs no archive and follows the chart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::rendered::{both, both_lead, end};
use super::seen::{group_says, queue_uses};
use crate::cluster::Cluster;
use crate::objects::{NAMESPACE, field, make_node, make_podgroup, make_queue, patch_queue, podgroups, queues, wait_made_queues};
use crate::rendered::Rendered;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, say};

/// C10. As in docs/install.md: `helm upgrade --reset-then-reuse-values`, `helm rollback`, and the upgrade again. Each time the new pods are ready
/// before the old pods end. Every Queue, PodGroup and pod stays unchanged. Fields that the older CRD drops work with the newer CRD.
pub(super) async fn from_an_older_chart(w: &mut World) -> Result<()> {
    let (cluster, client) = (w.cluster(), w.client());
    let older = older_chart(cluster).await?;
    chart::install_from(cluster, &older, &[]).await?;
    chart::settle(cluster, true).await?;
    wait_queue_crd(&client, false).await?;
    let programs = both(cluster, "podgroup", "older").await?;
    ensure!(!has_flag(&programs, "--queue-status"), "the older chart is not older");

    make_node(&client, "n1", &[("cpu", "8"), ("memory", "32Gi")]).await?;
    make_queue(&client, "org", None, &[("cpu", "3")]).await?;
    make_queue(&client, "team", Some("org"), &[("cpu", "8")]).await?;
    let parent = field(&queues(&client).get("team").await?, "/spec/parent");
    ensure!(parent.is_null(), "the older CRD knows parents: {parent}");
    Workload::new("runs").replicas(2).gang("2").queue("team").make(&client).await?;
    wait_running(&client, "runs", 2, 10).await?;
    // The CRD of a former release of ours keeps unknown fields.
    make_podgroup(&client, "tasks", json!({"minMember": 1, "queue": "team", "minTaskMember": {"worker": 1}})).await?;
    wait_made_queues(&client, secs(10)).await?;
    let before = everything(&client).await?;
    ensure!(before.len() >= 8, "expected at least 8 objects: {before:?}");

    match helm_upgrade(cluster, "--reuse-values").await {
        Ok(()) => bail!("helm accepted --reuse-values, but docs/install.md says that it fails"),
        Err(error) => {
            ensure!(say::brief(&error).contains("tenancy"), "helm refused it for another reason than the missing value: {error:#}")
        }
    }
    helm_upgrade(cluster, "--reset-then-reuse-values").await?;
    wait_queue_crd(&client, true).await?;
    let programs = rolling_update(cluster, programs, "newer").await?;
    ensure!(has_flag(&programs, "--queue-status"), "the newer chart renders no newer flag");
    check_unchanged(&client, &before).await?;
    parent_limits(&client).await?;

    let before = everything(&client).await?;
    cluster.run("helm", &["rollback", "podgroup", "1", "--namespace", chart::NAMESPACE]).await?;
    wait_queue_crd(&client, false).await?;
    let programs = rolling_update(cluster, programs, "back").await?;
    ensure!(!has_flag(&programs, "--queue-status"), "the rollback left the newer flags");
    check_unchanged(&client, &before).await?;

    helm_upgrade(cluster, "--reset-then-reuse-values").await?;
    wait_queue_crd(&client, true).await?;
    let programs = rolling_update(cluster, programs, "again").await?;
    check_unchanged(&client, &before).await?;
    parent_is_kept(&client).await?;
    end(programs).await?;
    let refused = w.requests()?.refused;
    ensure!(refused.is_empty(), "a chart gave too few rights: {refused:?}");
    Ok(())
}

/// Creates the chart of an earlier release. The CRD of Queue has no `spec.parent` and drops unknown fields; the CRD of PodGroup has no
/// `spec.minTaskMember` and keeps it. Values and templates have no tenancy policies and no flag `--queue-status`; there is no values
/// schema.
async fn older_chart(cluster: &Cluster) -> Result<PathBuf> {
    let folder = cluster.scratch().path("older");
    copy(&chart::folder(), &folder)?;
    for file in ["templates/tenancy.yaml", "templates/NOTES.txt", "values.schema.json"] {
        std::fs::remove_file(folder.join(file)).with_context(|| file.to_owned())?;
    }
    rewrite(&folder.join("Chart.yaml"), |text| {
        let version = |line: &str| match line.split_once(": ") {
            Some((key @ ("version" | "appVersion"), _)) => format!("{key}: 0.0.1\n"),
            _ => format!("{line}\n"),
        };
        text.lines().map(version).collect()
    })?;
    rewrite(&folder.join("values.yaml"), |text| {
        let mut inside = false;
        let mut keep = |line: &&str| {
            inside = line.starts_with("tenancy:") || (inside && (line.is_empty() || line.starts_with(' ')));
            !inside && !line.contains("queueStatus: ")
        };
        text.lines().filter(|line| keep(line)).map(|line| format!("{line}\n")).collect()
    })?;
    rewrite(&folder.join("templates/scheduler.yaml"), |text| text.replace(r#" (printf "--queue-status=%s" .queueStatus)"#, ""))?;
    for (kind, field, drops) in [("queues", "parent", true), ("podgroups", "minTaskMember", false)] {
        let file = folder.join(format!("files/crds/{kind}.scheduling.volcano.sh.yaml"));
        let path = file.to_str().context("the run's folder is no UTF-8")?;
        // JSON is valid YAML.
        let text = cluster.run("kubectl", &["create", "--dry-run=client", "--output=json", "--filename", path]).await?;
        let mut crd: Value = serde_json::from_str(&text)?;
        let spec =
            crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec").and_then(Value::as_object_mut).context("no spec")?;
        if drops {
            spec.remove("x-kubernetes-preserve-unknown-fields").context("the CRD drops unknown fields already")?;
        }
        let fields = spec.get_mut("properties").and_then(Value::as_object_mut).context("no fields")?;
        fields.remove(field).with_context(|| format!("{kind} have no {field} any more"))?;
        std::fs::write(&file, serde_json::to_vec_pretty(&crd)?)?;
    }
    Ok(folder)
}

/// Rewrites a file. A change without an effect is an error: then the chart has changed, and this function must follow.
fn rewrite(file: &Path, change: impl FnOnce(&str) -> String) -> Result<()> {
    let before = std::fs::read_to_string(file)?;
    let after = change(&before);
    ensure!(before != after, "nothing was taken out of {}", file.display());
    Ok(std::fs::write(file, after)?)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

async fn helm_upgrade(cluster: &Cluster, how: &str) -> Result<()> {
    let folder = chart::folder();
    let folder = folder.to_str().context("the clone's path is no UTF-8")?;
    cluster.run("helm", &["upgrade", "podgroup", folder, "--namespace", chart::NAMESPACE, how]).await?;
    Ok(())
}

fn has_flag(programs: &[Rendered; 2], flag: &str) -> bool {
    programs.iter().any(|program| program.flags.iter().any(|each| each == flag))
}

/// Replaces both programs as a rolling update does: the new pods start on standby and become ready, the old ones end, and the new ones lead.
async fn rolling_update(cluster: &Cluster, old: [Rendered; 2], label: &str) -> Result<[Rendered; 2]> {
    let new = both(cluster, "podgroup", label).await?;
    end(old).await?;
    both_lead(&cluster.client(), label).await?;
    Ok(new)
}

/// Waits until the CRD of Queue is the newer one, or the older one.
async fn wait_queue_crd(client: &Client, wanted: bool) -> Result<()> {
    let definition = Api::<CustomResourceDefinition>::all(client.clone()).get("queues.scheduling.volcano.sh").await?;
    let known =
        serde_json::to_value(&definition)?.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/parent").is_some();
    ensure!(known == wanted, "the CRD of Queue knows spec.parent: {known}, expected {wanted}");
    // The API server uses the new CRD some time later; the response to a dry run shows which one it uses.
    let queue: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "probe"}, "spec": {"parent": "org"},
    }))?;
    let dry_run = kube::api::PostParams { dry_run: true, ..Default::default() };
    wait_until(secs(10), "the API server uses the CRD", || async {
        let parent = field(&queues(client).create(&dry_run, &queue).await?, "/spec/parent");
        Ok(Seen::when(parent.is_null() != wanted, || parent.to_string()))
    })
    .await
}

/// Returns kind and name of every Queue, PodGroup and pod with the parts that must not change: UID, spec without the field in question,
/// node of a pod.
async fn everything(client: &Client) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    let list = ListParams::default();
    for (kind, objects) in [("Queue", queues(client).list(&list).await?), ("PodGroup", podgroups(client).list(&list).await?)] {
        for object in objects {
            let mut spec = field(&object, "/spec");
            spec.as_object_mut().and_then(|spec| spec.remove("parent"));
            all.insert(format!("{kind} {}", object.name_any()), json!([object.uid(), spec]));
        }
    }
    for pod in Api::<Pod>::namespaced(client.clone(), NAMESPACE).list(&list).await? {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        all.insert(format!("Pod {}", pod.name_any()), json!([pod.uid(), pod.metadata.deletion_timestamp, node]));
    }
    Ok(all)
}

async fn check_unchanged(client: &Client, before: &BTreeMap<String, Value>) -> Result<()> {
    let now = everything(client).await?;
    let changed: Vec<_> =
        before.iter().filter(|(name, was)| now.get(*name) != Some(was)).map(|(name, was)| (name, was, now.get(name))).collect();
    ensure!(changed.is_empty() && now.len() == before.len(), "changed: {changed:?}; there were {}, there are {}", before.len(), now.len());
    Ok(())
}

/// Checks that the API server keeps the field that the older CRD dropped.
async fn parent_is_kept(client: &Client) -> Result<()> {
    patch_queue(client, "team", json!({"spec": {"parent": "org"}})).await?;
    let parent = field(&queues(client).get("team").await?, "/spec/parent");
    ensure!(parent == "org", "the parent of team is {parent}");
    Ok(())
}

/// Checks that the parent counts: org has a capability of 3, and 2 are used.
async fn parent_limits(client: &Client) -> Result<()> {
    parent_is_kept(client).await?;
    // The scheduler may see the pods before it sees the parent.
    queue_uses(client, "org", "cpu", "2").await?;
    Workload::new("waits").replicas(2).gang("2").queue("team").make(client).await?;
    let group = wait_one_group(client, "waits", 10).await?.name_any();
    group_says(client, &group, "org").await?;
    patch_queue(client, "org", json!({"spec": {"capability": {"cpu": "4"}}})).await?;
    wait_running(client, "waits", 2, 10).await
}
