//! Row P1: pods with a spread constraint are placed as kube-scheduler would. Text scenarios (`scenarios/placement/`) have the other rules.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::ledger::wait_known_nodes;
use super::seen::{pod_says, pods_wait_for};
use crate::objects::{Amounts, make_node};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, pods_of, scale, wait_running};
use crate::world::World;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// Creates a node of 4 cpu in a zone, or with these amounts.
pub(super) async fn zoned(client: &Client, name: &str, zone: &str, amounts: Amounts<'_>) -> Result<()> {
    let amounts: Amounts<'_> = if amounts.is_empty() { &[("cpu", "4"), ("memory", "8Gi")] } else { amounts };
    make_node(client, name, amounts).await?;
    let labels = Patch::Merge(json!({"metadata": {"labels": {ZONE: zone}}}));
    Api::<Node>::all(client.clone()).patch(name, &PatchParams::default(), &labels).await?;
    Ok(())
}

/// Waits until the observer has judged so many bindings of pods with constraints, each by the filters of kube-scheduler. Without faults it
/// judges every binding: these clusters are small, and no watch misses versions.
pub(super) async fn constraints_judged(w: &World, least: u64) -> Result<()> {
    wait_until(secs(20), "the observer judges the constraints", || async {
        let judged = w.watched()?.judged_constraints();
        Ok(Seen::when(judged.constrained >= least, || format!("{judged:?}, and {least} must be judged")))
    })
    .await?;
    let judged = w.watched()?.judged_constraints();
    ensure!(judged.unjudged == 0 || w.is_mixed(), "{judged}");
    Ok(())
}

/// Two nodes in each of three zones, of which one zone has one node.
async fn five_nodes(client: &Client) -> Result<()> {
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")] {
        zoned(client, name, zone, &[]).await?;
    }
    Ok(())
}

fn spread(app: &str, topology_key: &str) -> Value {
    json!([{"maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}])
}

/// Returns how many pods of a workload are in each value of a label of their nodes.
pub(super) async fn by_domain(client: &Client, name: &str, key: &str) -> Result<BTreeMap<String, usize>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut counts = BTreeMap::new();
    for pod in pods_of(client, name).await? {
        let Some(node) = pod.spec.and_then(|spec| spec.node_name) else { continue };
        let value = nodes.get(&node).await?.labels().get(key).cloned().context("the node has no such label")?;
        *counts.entry(value).or_default() += 1;
    }
    Ok(counts)
}

/// Waits until the pods with a node are in these domains. Under faults the last binding may come later than a refusal of another pod.
async fn wait_by_domain(client: &Client, name: &str, key: &str, wanted: &[(&str, usize)]) -> Result<()> {
    wait_until(secs(10), &format!("the pods of {name} with a node are in {wanted:?}"), || async {
        let found = by_domain(client, name, key).await?;
        Ok(Seen::when(found == counts(wanted), || format!("{found:?}")))
    })
    .await
}

pub(super) fn counts(wanted: &[(&str, usize)]) -> BTreeMap<String, usize> {
    wanted.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect()
}

/// P1. A Deployment with a hard spread over zones has two pods in each; one more pod may go anywhere, and where the zone with the fewest is
/// full, the next waits.
pub(super) async fn spread_over_zones(w: &mut World) -> Result<()> {
    let client = w.client();
    five_nodes(&client).await?;
    wait_known_nodes(w.scheduler()?.port(), 5).await?;
    let web = Workload::new("web").replicas(6).asks(&[("cpu", "2")]).pod_spec("topologySpreadConstraints", spread("web", ZONE));
    web.make(&client).await?;
    wait_running(&client, "web", 6, 10).await?;
    let zones = by_domain(&client, "web", ZONE).await?;
    ensure!(zones == counts(&[("a", 2), ("b", 2), ("c", 2)]), "{zones:?}");
    // Zone c is full now: in a and b one more pod each is within the skew, a third is not.
    scale(&client, "web", 9).await?;
    pods_wait_for(&client, "web", 1, "Unschedulable").await?;
    wait_by_domain(&client, "web", ZONE, &[("a", 3), ("b", 3), ("c", 2)]).await?;
    pod_says(&client, "web", "didn't match pod topology spread constraints").await?;
    // A further node in zone c helps at once.
    zoned(&client, "c2", "c", &[]).await?;
    wait_running(&client, "web", 9, 10).await?;
    constraints_judged(w, 9).await
}
