//! Rows V9 to V13: the volumes of pods are made by a provisioner of another project, Rancher's local-path-provisioner.
//!
//! It runs as a process with the rights of its own manifests. For each volume it creates a helper pod that makes a folder on the selected
//! node. The simulated kubelets end these pods.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::placing::ZONE;
use super::plugin::plugin;
use super::seen::group_says_within;
use super::unbound_claims::{SELECTED_NODE, claims, make_claim, node_of, volume_of, zoned};
use crate::objects::{SCHEDULER_NAME, container, make_pod, make_podgroup};
use crate::operator::{Names, Operator};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, resize};
use crate::workloads::{Workload, delete, phases, pods_of, wait_running};
use crate::world::World;

const PROVISIONER: Names =
    Names { operator: "local-path-provisioner", namespace: "local-path-storage", account: "local-path-provisioner-service-account" };

/// The StorageClass of its manifests: `WaitForFirstConsumer`, and volumes are deleted with their claims.
const CLASS: &str = "local-path";

/// The annotation of its volumes with the node that they are on.
const NODE_OF_VOLUME: &str = "local.path.provisioner/selected-node";

/// Starts the provisioner with further flags. It refuses to make volumes on the node `refused`.
async fn start(w: &World, flags: &[&str], refused: Option<&str>) -> Result<Operator> {
    configure(w, refused)?;
    let config = w.cluster().scratch().path("local-path.json").display().to_string();
    let flags = [&["--debug", "start", "--config", &config], flags].concat();
    Operator::start(w.cluster(), PROVISIONER, flags.into_iter().map(str::to_owned).collect()).await
}

/// Writes the configuration, as in its manifests but for the refused node. The provisioner reads it when it starts.
fn configure(w: &World, refused: Option<&str>) -> Result<()> {
    let mut nodes = vec![json!({"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["/opt/local-path-provisioner"]})];
    nodes.extend(refused.map(|node| json!({"node": node, "paths": []})));
    std::fs::write(w.cluster().scratch().path("local-path.json"), json!({"nodePathMap": nodes}).to_string())?;
    Ok(())
}

/// Lets the scheduler give the nodes of held pods back after five seconds; under the mix of faults after longer than a watch may be silent.
async fn limit_the_wait(w: &mut World) -> Result<()> {
    let timeout = if w.is_mixed() { 40 } else { 5 };
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also(&format!("--volume-timeout={timeout}s"));
    scheduler.restart().await
}

/// Returns a claim of the class.
fn claim_spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}})
}

/// Creates a PodGroup of all these pods, each with a new claim of its name. They go to nodes of the zone, or to any.
async fn make_gang(client: &Client, name: &str, members: usize, cpu: &str, zone: Option<&str>) -> Result<Vec<String>> {
    make_podgroup(client, name, json!({"minMember": members})).await?;
    let names: Vec<String> = (0..members).map(|number| format!("{name}-{number}")).collect();
    for member in &names {
        make_claim(client, member, CLASS, 1).await?;
        let spec = json!({
            "schedulerName": SCHEDULER_NAME,
            "containers": [container(&[("cpu", cpu)])],
            "nodeSelector": zone.map(|zone| json!({ZONE: zone})),
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": member}}],
            "terminationGracePeriodSeconds": 0,
        });
        let metadata = json!({"name": member, "labels": {"app": name}, "annotations": {"scheduling.k8s.io/group-name": name}});
        make_pod(client, json!({"metadata": metadata, "spec": spec})).await?;
    }
    Ok(names)
}

fn volumes(client: &Client) -> Api<PersistentVolume> {
    Api::all(client.clone())
}

/// Returns all claims of the case.
async fn all_claims(client: &Client) -> Result<Vec<PersistentVolumeClaim>> {
    Ok(claims(client).list(&ListParams::default()).await?.items)
}

/// Returns the selected node of each claim that has one.
async fn selected_nodes(client: &Client) -> Result<BTreeMap<String, String>> {
    let node = |claim: PersistentVolumeClaim| Some((claim.name_any(), claim.annotations().get(SELECTED_NODE)?.clone()));
    Ok(all_claims(client).await?.into_iter().filter_map(node).collect())
}

/// Waits until so many claims have a selected node, and returns it for each of them.
async fn wait_selected(client: &Client, count: usize) -> Result<BTreeMap<String, String>> {
    wait_until(secs(10), &format!("{count} claims have a selected node"), || async {
        let nodes = selected_nodes(client).await?;
        Ok(if nodes.len() == count { Seen::Yes(nodes) } else { Seen::NotYet(format!("{nodes:?}")) })
    })
    .await
}

/// Fails unless each claim has one volume, and there is no other volume.
async fn nothing_is_made_twice(client: &Client) -> Result<()> {
    let named: BTreeSet<_> = all_claims(client).await?.into_iter().map(|claim| claim.spec.and_then(|spec| spec.volume_name)).collect();
    let made: BTreeSet<_> =
        volumes(client).list(&ListParams::default()).await?.items.iter().map(|volume| Some(volume.name_any())).collect();
    ensure!(named == made, "the claims are bound to {named:?}, and the volumes are {made:?}");
    Ok(())
}

/// Returns the node of each pod of `app`. Each is where the volume of its claim is; `claim_of` has the claim's name for the pod's.
async fn nodes_of(client: &Client, app: &str, claim_of: impl Fn(&str) -> String) -> Result<BTreeMap<String, String>> {
    let mut nodes = BTreeMap::new();
    for pod in pods_of(client, app).await? {
        let name = pod.name_any();
        let node = node_of(client, app, &name).await?;
        let volume = volume_of(client, &claim_of(&name)).await?;
        let of_volume = volumes(client).get(&volume).await?.annotations().get(NODE_OF_VOLUME).cloned();
        ensure!(of_volume.as_ref() == Some(&node), "pod {name} is on {node}, and its volume on {of_volume:?}");
        nodes.insert(name, node);
    }
    Ok(nodes)
}

/// V9. Two StatefulSets with a claim for each pod, one of either order of creation. They are scaled down and up again: each pod returns to
/// the node of its volume.
pub(super) async fn stateful_sets(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2", "b1", "b2"]).await?;
    let provisioner = start(w, &[], None).await?;
    for (name, order) in [("ordered", Order::OrderedReady), ("parallel", Order::Parallel)] {
        let template = json!({"metadata": {"name": "data"}, "spec": claim_spec()});
        let set = Owner::stateful_set(name, order).replicas(3).asks(&[("cpu", "1")]);
        set.with("/spec", "volumeClaimTemplates", json!([template])).make(&client).await?;
    }
    for name in ["ordered", "parallel"] {
        wait_running(&client, name, 3, 60).await?;
        let nodes = || nodes_of(&client, name, |pod| format!("data-{pod}"));
        let before = nodes().await?;
        resize(&client, Kind::StatefulSet, name, 1).await?;
        wait_running(&client, name, 1, 30).await?;
        resize(&client, Kind::StatefulSet, name, 3).await?;
        wait_running(&client, name, 3, 30).await?;
        let after = nodes().await?;
        ensure!(before == after, "the pods were on {before:?}, and are on {after:?}");
    }
    ensure!(all_claims(&client).await?.len() == 6, "a pod has come back with another claim");
    nothing_is_made_twice(&client).await?;
    provisioner.end().await
}

/// V10. A gang of four with a claim each in one zone. The provisioner makes one volume after the other, and stands still after the first:
/// no pod is bound before all claims are.
pub(super) async fn gang_in_one_zone(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2", "b1", "b2"]).await?;
    let mut provisioner = start(w, &["--worker-threads=1"], None).await?;
    make_gang(&client, "g", 4, "2", Some("b")).await?;
    wait_until(secs(60), "the first volume is made", || async {
        let made = volumes(&client).list(&ListParams::default()).await?.items.len();
        Ok(Seen::when(made > 0, || "none".to_owned()))
    })
    .await?;
    provisioner.program().signal("STOP").await?;
    holds_for(secs(3), "no pod is bound before all claims are", || bound_after_claims(&client, "g")).await?;
    provisioner.program().signal("CONT").await?;
    wait_until(secs(60), "the gang runs", || async {
        if let Seen::NotYet(text) = bound_after_claims(&client, "g").await? {
            bail!("a pod is bound before all claims are: {text}");
        }
        let phases = phases(&pods_of(&client, "g").await?);
        Ok(Seen::when(phases == BTreeMap::from([("Running".to_owned(), 4)]), || format!("{phases:?}")))
    })
    .await?;
    let nodes = nodes_of(&client, "g", str::to_owned).await?;
    ensure!(nodes.values().all(|node| node.starts_with('b')), "{nodes:?}");
    nothing_is_made_twice(&client).await?;
    provisioner.end().await
}

/// Whether no pod of `app` is bound, or all claims are. The pods are read first, so a claim that is not bound then was not bound before them.
async fn bound_after_claims(client: &Client, app: &str) -> Result<Seen<()>> {
    let phases = phases(&pods_of(client, app).await?);
    // The phase is written later.
    let is_bound = |claim: &PersistentVolumeClaim| claim.annotations().contains_key("pv.kubernetes.io/bind-completed");
    let open = all_claims(client).await?.iter().filter(|claim| !is_bound(claim)).count();
    let waits = phases.keys().all(|phase| phase.ends_with("unbound"));
    Ok(Seen::when(waits || open == 0, || format!("{open} claims are not bound, and the pods are {phases:?}")))
}

/// V11. The provisioner cannot make one volume of a gang of three. No pod is bound. The PodGroup names the claim and what the others keep,
/// and the plugin says what the provisioner says. When its configuration is mended, the gang runs.
pub(super) async fn one_claim_fails(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2", "a3"]).await?;
    limit_the_wait(w).await?;
    let mut provisioner = start(w, &[], Some("a2")).await?;
    // One pod for each node.
    make_gang(&client, "g", 3, "3", None).await?;
    let asked = wait_selected(&client, 3).await?;
    let failing = asked.iter().find(|(_, node)| *node == "a2").map(|(claim, _)| claim.clone()).context("no pod is on a2")?;
    let see = format!("(see kubectl describe pvc {failing})");
    let waits = format!("WaitingForVolumes: waiting for 1 persistentvolumeclaim(s) to be bound, the first is \"{failing}\" {see}");
    group_says_within(&client, 60, "g", &waits).await?;
    let given_back = format!("persistentvolumeclaim \"{failing}\" was not bound in time {see}");
    let said = group_says_within(&client, 90, "g", &given_back).await?;
    // Each claim keeps its volume, or the node that it is tied to.
    let keep = ", and 2 further claims are like it";
    ensure!(said.contains(keep), "{said}");
    // The PodGroup names the claim only between two attempts, and the time between them grows.
    wait_until(secs(60), "the plugin says what the provisioner says", || async {
        let said = plugin(w, "why g").await?;
        let parts = [
            keep.to_owned(),
            format!("Warning ProvisioningFailed persistentvolumeclaim {failing} (rancher.io/local-path_"),
            "failed to provision volume with StorageClass \"local-path\": no local path available on node a2".to_owned(),
        ];
        Ok(Seen::when(parts.iter().all(|part| said.out.contains(part)), || format!("{}{}", said.out, said.err)))
    })
    .await?;
    stays_unbound(w, "g", 3).await?;
    let made = volumes(&client).list(&ListParams::default()).await?.items.len();
    ensure!(made == 2, "{made} volumes are made for two claims");
    provisioner.program().terminate_within(secs(10)).await?;
    configure(w, None)?;
    provisioner.program().launch()?;
    wait_running(&client, "g", 3, 120).await?;
    ensure!(selected_nodes(&client).await? == asked, "the claims were tied to {asked:?}");
    nodes_of(&client, "g", str::to_owned).await?;
    nothing_is_made_twice(&client).await?;
    provisioner.end().await
}

/// V12. A gang with generic ephemeral volumes runs. When its pods are deleted, their claims and volumes are gone. A pod whose claim has the
/// name of another one waits until that is gone.
pub(super) async fn ephemeral_volumes(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2"]).await?;
    let provisioner = start(w, &[], None).await?;
    let volume = json!([{"name": "space", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec()}}}]);
    Workload::new("g").replicas(2).gang("2").asks(&[("cpu", "3")]).pod_spec("volumes", volume.clone()).make(&client).await?;
    wait_running(&client, "g", 2, 60).await?;
    let nodes = nodes_of(&client, "g", |pod| format!("{pod}-space")).await?;
    ensure!(nodes.len() == 2, "{nodes:?}");
    nothing_is_made_twice(&client).await?;
    delete(&client, "g").await?;
    wait_until(secs(60), "claims and volumes are gone", || async {
        let left = (all_claims(&client).await?.len(), volumes(&client).list(&ListParams::default()).await?.items.len());
        Ok(Seen::when(left == (0, 0), || format!("{left:?}")))
    })
    .await?;
    make_claim(&client, "h-0-space", CLASS, 1).await?;
    make_podgroup(&client, "h", json!({"minMember": 1})).await?;
    let spec = json!({"schedulerName": SCHEDULER_NAME, "containers": [container(&[("cpu", "1")])], "volumes": volume});
    let metadata = json!({"name": "h-0", "labels": {"app": "h"}, "annotations": {"scheduling.k8s.io/group-name": "h"}});
    make_pod(&client, json!({"metadata": metadata, "spec": spec})).await?;
    let theirs = "ClaimNotOwned: persistentvolumeclaim \"h-0-space\" was not created for the pod";
    group_says_within(&client, 10, "h", theirs).await?;
    stays_unbound(w, "h", 1).await?;
    claims(&client).delete("h-0-space", &DeleteParams::default()).await?;
    wait_running(&client, "h", 1, 60).await?;
    provisioner.end().await
}

/// V13. The provisioner stands still until the nodes of a gang are given back, and then goes on. The claims keep their nodes, the gang is
/// placed there, and no volume is made twice.
pub(super) async fn answers_after_the_deadline(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2", "a3"]).await?;
    limit_the_wait(w).await?;
    let mut provisioner = start(w, &[], None).await?;
    // The provisioner gives up a start that takes too long, so it must be complete before SIGSTOP.
    let log = provisioner.program().log().to_owned();
    wait_until(secs(20), "the provisioner has started", || async {
        let text = std::fs::read_to_string(&log)?;
        Ok(Seen::when(text.contains("Provisioner started"), || text.lines().last().unwrap_or_default().to_owned()))
    })
    .await?;
    provisioner.program().signal("STOP").await?;
    let members = make_gang(&client, "g", 2, "3", None).await?;
    let asked = wait_selected(&client, 2).await?;
    group_says_within(&client, 90, "g", "was not bound in time").await?;
    ensure!(selected_nodes(&client).await? == asked, "the claims were tied to {asked:?}");
    stays_unbound(w, "g", 2).await?;
    provisioner.program().signal("CONT").await?;
    wait_running(&client, "g", 2, 120).await?;
    let nodes = nodes_of(&client, "g", str::to_owned).await?;
    ensure!(nodes == asked, "the claims were tied to {asked:?}, and the pods are on {nodes:?}");
    ensure!(nodes.len() == members.len(), "{nodes:?}");
    nothing_is_made_twice(&client).await?;
    provisioner.end().await
}
