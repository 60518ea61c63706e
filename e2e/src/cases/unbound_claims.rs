//! Rows V5 to V8: claims of `WaitForFirstConsumer` classes get their volumes with the nodes of their pods, and gangs get all of them before a pod is bound.
//!
//! kube-controller-manager's binder binds the claims. In V7 and V8 the case itself is the provisioner: it makes the volumes that the selected nodes ask for.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSIStorageCapacity, StorageClass};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::placing::ZONE;
use super::seen::group_says;
use super::volumes::{make_member, zoned};
use crate::objects::{NAMESPACE, make_podgroup};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The provisioner of the class `made`, which is the case itself.
pub(super) const PROVISIONER: &str = "made.example.com";

pub(super) fn claims(client: &Client) -> Api<PersistentVolumeClaim> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Creates a class with claims that wait for a pod. `topologies` are the zones for which volumes are made.
pub(super) async fn make_class(client: &Client, name: &str, provisioner: &str, zones: &[&str]) -> Result<()> {
    let topologies = (!zones.is_empty()).then(|| json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]));
    let class = json!({
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": topologies,
    });
    Api::<StorageClass>::all(client.clone()).create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    Ok(())
}

/// Creates a claim of the class, of so many Gi.
pub(super) async fn make_claim(client: &Client, name: &str, class: &str, size: u32) -> Result<()> {
    let claim = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": format!("{size}Gi")}}},
    });
    claims(client).create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
    Ok(())
}

/// Creates a local volume of so many Gi, on nodes with this label.
pub(super) async fn make_local(
    client: &Client,
    name: &str,
    class: &str,
    size: u32,
    (key, value): (&str, &str),
    claim: Value,
) -> Result<()> {
    let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    let spec = json!({
        "capacity": {"storage": format!("{size}Gi")},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class,
        "local": {"path": format!("/{name}")},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": claim,
    });
    let volume = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
    Api::<PersistentVolume>::all(client.clone()).create(&PostParams::default(), &volume).await?;
    Ok(())
}

/// Creates a PodGroup of all these pods, each with the claim of its name.
pub(super) async fn make_gang(client: &Client, name: &str, members: usize) -> Result<Vec<String>> {
    make_podgroup(client, name, json!({"minMember": members})).await?;
    let names: Vec<String> = (0..members).map(|number| format!("{name}-{number}")).collect();
    for member in &names {
        make_member(client, member, name, "1", member).await?;
    }
    Ok(names)
}

/// Waits until the claim is bound, and returns its volume. kube-controller-manager writes the phase last: the pod may run before that.
pub(super) async fn volume_of(client: &Client, claim: &str) -> Result<String> {
    wait_until(secs(10), &format!("claim {claim} is bound"), || async {
        let claim = claims(client).get(claim).await?;
        let phase = claim.status.and_then(|status| status.phase);
        let volume = claim.spec.and_then(|spec| spec.volume_name).filter(|_| phase.as_deref() == Some("Bound"));
        Ok(volume.map_or_else(|| Seen::NotYet(format!("{phase:?}")), Seen::Yes))
    })
    .await
}

/// Returns the node of the pod.
pub(super) async fn node_of(client: &Client, group: &str, pod: &str) -> Result<String> {
    let pods = pods_of(client, group).await?;
    let found = pods.into_iter().find(|each| each.name_any() == pod).and_then(|pod| pod.spec?.node_name);
    found.with_context(|| format!("pod {pod} has no node"))
}

/// Waits until a write of the scheduler has tied a claim to the volume.
pub(super) async fn wait_tied(client: &Client, volume: &str) -> Result<String> {
    wait_until(secs(10), &format!("volume {volume} names a claim"), || async {
        let claim = Api::<PersistentVolume>::all(client.clone()).get(volume).await?.spec.and_then(|spec| spec.claim_ref?.name);
        Ok(claim.map_or_else(|| Seen::NotYet("none".to_owned()), Seen::Yes))
    })
    .await
}

/// V5. A gang of three, each with a claim on a local volume, is placed where the volumes are, each claim on the smallest that serves. A gang of two with one free volume waits
/// as a whole and takes nothing, until there is a second one.
pub(super) async fn local_volumes(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "b1", "b2", "b3"]).await?;
    make_class(&client, "local", "kubernetes.io/no-provisioner", &[]).await?;
    for node in ["b1", "b2", "b3"] {
        make_local(&client, &format!("small-{node}"), "local", 2, (HOST, node), Value::Null).await?;
    }
    make_local(&client, "large-b1", "local", 9, (HOST, "b1"), Value::Null).await?;
    for number in 0..3 {
        make_claim(&client, &format!("g-{number}"), "local", 2).await?;
    }
    // One pod for each node.
    let members = make_gang(&client, "g", 3).await?;
    wait_running(&client, "g", 3, 60).await?;
    let mut volumes = std::collections::BTreeSet::new();
    for member in &members {
        let (volume, node) = (volume_of(&client, member).await?, node_of(&client, "g", member).await?);
        ensure!(volume.ends_with(&node), "pod {member} is on {node}, and its volume is {volume}");
        volumes.insert(volume);
    }
    ensure!(volumes.len() == 3, "{volumes:?}");
    let all = ["small-b1", "small-b2", "small-b3", "large-b1"];
    let free = all.into_iter().find(|volume| !volumes.contains(*volume)).context("all are taken")?;

    for number in 0..2 {
        make_claim(&client, &format!("h-{number}"), "local", 1).await?;
    }
    make_gang(&client, "h", 2).await?;
    group_says(&client, "h", "didn't find available persistent volumes to bind").await?;
    stays_unbound(w, "h", 2).await?;
    let reference = Api::<PersistentVolume>::all(client.clone()).get(free).await?.spec.and_then(|spec| spec.claim_ref);
    ensure!(reference.is_none(), "volume {free} was taken for a gang that waits: {reference:?}");
    make_local(&client, "another", "local", 1, (ZONE, "a"), Value::Null).await?;
    wait_running(&client, "h", 2, 60).await
}

/// V6. The binder stands still while a gang has its places: no pod is bound, the PodGroup says what it waits for, and the queue does not count it as allocated. The scheduler is
/// killed meanwhile, and the next one goes on with the same volumes.
pub(super) async fn held_until_all_are_bound(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2"]).await?;
    make_class(&client, "local", "kubernetes.io/no-provisioner", &[]).await?;
    for number in 0..4 {
        make_local(&client, &format!("v{number}"), "local", 1, (ZONE, "a"), Value::Null).await?;
    }
    wait_until(secs(10), "the volumes are available", || async {
        let volumes = Api::<PersistentVolume>::all(client.clone()).list(&ListParams::default()).await?;
        let available =
            volumes.into_iter().filter(|volume| volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available"));
        let available = available.count();
        Ok(Seen::when(available == 4, || available.to_string()))
    })
    .await?;
    for number in 0..2 {
        make_claim(&client, &format!("g-{number}"), "local", 1).await?;
    }
    w.cluster().signal("kube-controller-manager", "STOP").await?;
    make_gang(&client, "g", 2).await?;
    let tied = two_tied(&client).await?;
    group_says(&client, "g", "WaitingForVolumes: waiting for 2 persistentvolumeclaim(s) to be bound").await?;
    stays_unbound(w, "g", 2).await?;
    w.scheduler()?.kill().await?;
    w.scheduler()?.launch()?;
    w.scheduler()?.wait_ready().await?;
    group_says(&client, "g", "WaitingForVolumes").await?;
    stays_unbound(w, "g", 2).await?;
    w.cluster().signal("kube-controller-manager", "CONT").await?;
    wait_running(&client, "g", 2, 60).await?;
    for (volume, claim) in &tied {
        let now = volume_of(&client, claim).await?;
        ensure!(now == *volume, "claim {claim} was tied to {volume}, and is bound to {now}");
    }
    let after = claims_of_volumes(&client).await?;
    ensure!(after == tied, "the volumes name {after:?}, and named {tied:?}");
    Ok(())
}

/// Waits until two volumes name a claim, and returns them with their claims.
async fn two_tied(client: &Client) -> Result<BTreeMap<String, String>> {
    wait_until(secs(10), "two volumes name a claim", || async {
        let tied = claims_of_volumes(client).await?;
        Ok(if tied.len() == 2 { Seen::Yes(tied) } else { Seen::NotYet(format!("{tied:?}")) })
    })
    .await
}

/// Returns the claim that each volume names, without the volumes that name none.
async fn claims_of_volumes(client: &Client) -> Result<BTreeMap<String, String>> {
    let volumes = Api::<PersistentVolume>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(volumes.into_iter().filter_map(|volume| Some((volume.name_any(), volume.spec?.claim_ref?.name?))).collect())
}

/// Waits until the claim has a selected node, and returns it.
pub(super) async fn selected_node(client: &Client, claim: &str) -> Result<String> {
    wait_until(secs(10), &format!("claim {claim} has a selected node"), || async {
        let node = claims(client).get(claim).await?.annotations().get(SELECTED_NODE).cloned();
        Ok(node.map_or_else(|| Seen::NotYet("none".to_owned()), Seen::Yes))
    })
    .await
}

/// Returns the reference of a volume to the claim.
async fn reference_to(client: &Client, claim: &str) -> Result<Value> {
    Ok(reference(claim, claims(client).get(claim).await?.uid().as_deref()))
}

/// Returns the reference of a volume to the claim with this UID.
pub(super) fn reference(claim: &str, uid: Option<&str>) -> Value {
    json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": NAMESPACE, "name": claim, "uid": uid})
}

/// Makes the volume of the claim for nodes with this label, as the provisioner of the class `made` would.
pub(super) async fn provide(client: &Client, claim: &str, label: (&str, &str)) -> Result<()> {
    make_local(client, &format!("made-for-{claim}"), "made", 2, label, reference_to(client, claim).await?).await
}

/// Makes the volume of the claim for its selected node, as a provisioner would. Returns the node.
async fn provision(client: &Client, claim: &str) -> Result<String> {
    let node = selected_node(client, claim).await?;
    provide(client, claim, (HOST, &node)).await?;
    Ok(node)
}

/// V7. Volumes are made for a gang of three in the allowed zone. While one of them is not there, no pod is bound, also after the scheduler was killed; no claim changes its
/// selected node. The provisioner is this case.
pub(super) async fn made_for_a_gang(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "b1", "b2"]).await?;
    make_class(&client, "made", PROVISIONER, &["b"]).await?;
    for number in 0..3 {
        make_claim(&client, &format!("g-{number}"), "made", 1).await?;
    }
    let members = make_gang(&client, "g", 3).await?;
    let mut nodes = Vec::new();
    for member in members.iter().take(2) {
        nodes.push(provision(&client, member).await?);
    }
    group_says(&client, "g", "WaitingForVolumes: waiting for 1 persistentvolumeclaim(s) to be bound, the first is \"g-2\"").await?;
    stays_unbound(w, "g", 2).await?;
    let asked = selected_node(&client, "g-2").await?;
    w.scheduler()?.kill().await?;
    w.scheduler()?.launch()?;
    w.scheduler()?.wait_ready().await?;
    group_says(&client, "g", "WaitingForVolumes").await?;
    stays_unbound(w, "g", 2).await?;
    let made = provision(&client, "g-2").await?;
    ensure!(made == asked, "claim g-2 was tied to {asked}, and then to {made}");
    nodes.push(made);
    wait_running(&client, "g", 3, 60).await?;
    for (member, node) in members.iter().zip(&nodes) {
        ensure!(node.starts_with('b'), "{node} is in no allowed zone");
        let on = node_of(&client, "g", member).await?;
        ensure!(on == *node, "pod {member} is on {on}, and its volume was made for {node}");
    }
    Ok(())
}

/// V8. A driver publishes how much storage it has: too little on every node for a gang of two, and then enough on one. The gang says why it waits, is placed there, and takes the
/// volumes that are made. The provisioner is this case.
pub(super) async fn made_where_storage_is_left(w: &mut World) -> Result<()> {
    let client = w.client();
    make_class(&client, "made", PROVISIONER, &[]).await?;
    let driver = json!({"metadata": {"name": PROVISIONER}, "spec": {"storageCapacity": true}});
    Api::<CSIDriver>::all(client.clone()).create(&PostParams::default(), &serde_json::from_value(driver)?).await?;
    let capacities: Api<CSIStorageCapacity> = Api::namespaced(client.clone(), NAMESPACE);
    for node in ["a1", "a2"] {
        let capacity = json!({
            "metadata": {"name": node}, "storageClassName": "made", "nodeTopology": {"matchLabels": {HOST: node}}, "capacity": "1Gi",
        });
        capacities.create(&PostParams::default(), &serde_json::from_value(capacity)?).await?;
    }
    // Last, so that the scheduler knows the driver and its capacities before there is a node.
    zoned(&client, &["a1", "a2"]).await?;
    for number in 0..2 {
        make_claim(&client, &format!("g-{number}"), "made", 2).await?;
    }
    let members = make_gang(&client, "g", 2).await?;
    group_says(&client, "g", "NotEnoughStorage: ").await?;
    group_says(&client, "g", "2 node(s) did not have enough free storage").await?;
    stays_unbound(w, "g", 2).await?;
    capacities.patch("a2", &PatchParams::default(), &Patch::Merge(json!({"capacity": "9Gi", "maximumVolumeSize": "2Gi"}))).await?;
    for member in &members {
        let node = provision(&client, member).await?;
        ensure!(node == "a2", "claim {member} is tied to node {node}");
    }
    wait_running(&client, "g", 2, 60).await
}
