//! Row V5: claims of a `WaitForFirstConsumer` class get their volumes with the nodes of their pods, and gangs get all of them before a pod is bound.
//!
//! kube-controller-manager's binder binds the claims. The other rules of claims are text scenarios (`scenarios/volumes/`).

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::placing::{self, ZONE};
use super::seen::group_says;
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_pod, make_podgroup};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The provisioner of the class `made` of row V21, which is that case itself.
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

/// Creates nodes of 4 cpu, each in the zone of its first letter.
pub(super) async fn zoned(client: &Client, names: &[&str]) -> Result<()> {
    for name in names {
        placing::zoned(client, name, name.get(..1).unwrap_or_default(), &[]).await?;
    }
    Ok(())
}

/// Creates a pod of the PodGroup with this claim.
pub(super) async fn make_member(client: &Client, name: &str, group: &str, cpu: &str, claim: &str) -> Result<()> {
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    make_pod(
        client,
        json!({
            "metadata": {"name": name, "labels": {"app": group}, "annotations": {"scheduling.k8s.io/group-name": group}},
            "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container(&[("cpu", cpu)])], "volumes": [volume], "terminationGracePeriodSeconds": 0},
        }),
    )
    .await
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

/// V5. A gang of three, each with a claim on a local volume, is placed where the volumes are, each claim on the smallest that serves. A
/// gang of two with one free volume waits as a whole and takes nothing, until there is a second one.
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

/// Returns the reference of a volume to the claim with this UID.
pub(super) fn reference(claim: &str, uid: Option<&str>) -> Value {
    json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": NAMESPACE, "name": claim, "uid": uid})
}
