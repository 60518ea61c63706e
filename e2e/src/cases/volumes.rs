//! Rows V1 to V4: pods with claims that are bound are placed as kube-scheduler would, and gangs of them whole; other claims say why.
//!
//! The volumes are made by the case, and the binder of kube-controller-manager binds the claims to them.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::placing::{self, ZONE};
use super::seen::{group_says, pod_says, watched};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_pod, make_podgroup};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, pods_of, wait_running};
use crate::world::World;

/// The CSI driver of the volumes with a limit.
const DRIVER: &str = "disks.example.com";

/// Creates nodes of 4 cpu, each in the zone of its first letter.
pub(super) async fn zoned(client: &Client, names: &[&str]) -> Result<()> {
    for name in names {
        placing::zoned(client, name, name.get(..1).unwrap_or_default(), &[]).await?;
    }
    Ok(())
}

/// The source of a volume, by its field.
type Source = (&'static str, Value);

/// A volume that every node mounts.
fn network(name: &str) -> Source {
    ("nfs", json!({"server": "nfs.example.com", "path": format!("/{name}")}))
}

/// A volume of the driver.
fn disk(name: &str) -> Source {
    ("csi", json!({"driver": DRIVER, "volumeHandle": name}))
}

/// Creates a volume with this source, which nodes of the zone can mount, or all nodes.
async fn make_volume(client: &Client, name: &str, mode: &str, (field, source): Source, zone: Option<&str>) -> Result<()> {
    let terms = |zone| json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
    let affinity = zone.map(|zone| json!({"required": {"nodeSelectorTerms": terms(zone)}}));
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": [mode], field: source, "nodeAffinity": affinity});
    let volume = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
    Api::<PersistentVolume>::all(client.clone()).create(&PostParams::default(), &volume).await?;
    Ok(())
}

/// Creates a claim on the volume of its name, without a class.
async fn make_claim(client: &Client, name: &str, mode: &str) -> Result<()> {
    let claim = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"accessModes": [mode], "storageClassName": "", "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }))?;
    Api::<PersistentVolumeClaim>::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &claim).await?;
    Ok(())
}

/// Creates a volume and a claim on it, and waits until they are bound.
async fn bound_claim(client: &Client, name: &str, mode: &str, source: Source, zone: Option<&str>) -> Result<()> {
    make_volume(client, name, mode, source, zone).await?;
    make_claim(client, name, mode).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until(secs(30), &format!("claim {name} is bound"), || async {
        let phase = claims.get(name).await?.status.and_then(|status| status.phase);
        Ok(Seen::when(phase.as_deref() == Some("Bound"), || format!("{phase:?}")))
    })
    .await
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

async fn delete_pod(client: &Client, name: &str) -> Result<()> {
    Api::<Pod>::namespaced(client.clone(), NAMESPACE).delete(name, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

/// V1. A gang of four, each with a claim of its own, goes to the zone of its volumes as a whole, though another zone is empty; a gang with one claim for all of
/// its pods, on a volume without a zone, goes to what is left.
pub(super) async fn gang_in_the_zone_of_its_volumes(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2", "b1", "b2"]).await?;
    make_podgroup(&client, "local", json!({"minMember": 4})).await?;
    for number in 0..4 {
        let name = format!("local-{number}");
        bound_claim(&client, &name, "ReadWriteOnce", network(&name), Some("b")).await?;
        make_member(&client, &name, "local", "2", &name).await?;
    }
    wait_running(&client, "local", 4, 10).await?;
    for pod in pods_of(&client, "local").await? {
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        ensure!(node.starts_with('b'), "{node} is not in the zone of the volume");
    }
    bound_claim(&client, "shared", "ReadWriteMany", network("shared"), None).await?;
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]);
    Workload::new("readers").replicas(4).gang("4").asks(&[("cpu", "2")]).pod_spec("volumes", volumes).make(&client).await?;
    wait_running(&client, "readers", 4, 10).await
}

/// V2. A claim that does not exist, that is not bound, and that is bound: the first two say so, and the pod runs soon after the third. A claim that has lost its volume.
pub(super) async fn claims_that_come_later(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1"]).await?;
    make_podgroup(&client, "g", json!({"minMember": 1})).await?;
    make_member(&client, "g-0", "g", "1", "data").await?;
    group_says(&client, "g", "ClaimNotFound: persistentvolumeclaim \"data\" not found").await?;
    pod_says(&client, "g", "persistentvolumeclaim \"data\" not found").await?;
    make_claim(&client, "data", "ReadWriteOnce").await?;
    group_says(&client, "g", "ClaimNotBound: persistentvolumeclaim \"data\" is not bound").await?;
    stays_unbound(w, "g", 1).await?;
    make_volume(&client, "data", "ReadWriteOnce", network("data"), None).await?;
    wait_running(&client, "g", 1, 30).await?;
    volume_is_lost(w, &client).await
}

/// The volume of a bound claim is deleted by force. The claim and its volume are made again.
async fn volume_is_lost(w: &mut World, client: &Client) -> Result<()> {
    bound_claim(client, "lost", "ReadWriteOnce", network("lost"), None).await?;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    watched(w, "persistentvolumes", "deleted", delete_by_force(&volumes, "lost")).await?;
    make_podgroup(client, "lost", json!({"minMember": 1})).await?;
    make_member(client, "lost-0", "lost", "1", "lost").await?;
    group_says(client, "lost", "ClaimLost: persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"lost\"").await?;
    stays_unbound(w, "lost", 1).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), NAMESPACE);
    delete_by_force(&claims, "lost").await?;
    bound_claim(client, "lost", "ReadWriteOnce", network("lost"), None).await?;
    wait_running(client, "lost", 1, 10).await
}

/// Deletes an object and takes its finalizers away. The cluster's own controllers may have taken them away before: then the object is gone.
async fn delete_by_force<K: Clone + std::fmt::Debug + serde::de::DeserializeOwned>(api: &Api<K>, name: &str) -> Result<()> {
    api.delete(name, &DeleteParams::default()).await?;
    let unprotected = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    match api.patch(name, &PatchParams::default(), &unprotected).await {
        Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// V3. Two pods with a claim that one pod at a time may use: the second waits, on a node of its own, until the first is gone.
pub(super) async fn one_pod_at_a_time(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2"]).await?;
    bound_claim(&client, "once", "ReadWriteOncePod", disk("once"), None).await?;
    for group in ["first", "second"] {
        make_podgroup(&client, group, json!({"minMember": 1})).await?;
    }
    make_member(&client, "first-0", "first", "1", "once").await?;
    wait_running(&client, "first", 1, 10).await?;
    make_member(&client, "second-0", "second", "1", "once").await?;
    group_says(&client, "second", "ReadWriteOncePod access mode already in-use by another pod").await?;
    stays_unbound(w, "second", 2).await?;
    delete_pod(&client, "first-0").await?;
    wait_running(&client, "second", 1, 10).await
}

/// V4. A node takes one volume of a driver: the second pod waits until the node takes two, and the third until the driver is gone from the node, and its limit
/// with it.
pub(super) async fn as_many_volumes_as_the_node_takes(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1"]).await?;
    let drivers = |count: u32| json!([{"name": DRIVER, "nodeID": "a1", "topologyKeys": [], "allocatable": {"count": count}}]);
    let nodes: Api<CSINode> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "a1"}, "spec": {"drivers": drivers(1)}}))?;
    nodes.create(&PostParams::default(), &node).await?;
    for name in ["one", "two", "three"] {
        bound_claim(&client, name, "ReadWriteOnce", disk(name), None).await?;
        make_podgroup(&client, name, json!({"minMember": 1})).await?;
    }
    make_member(&client, "one-0", "one", "1", "one").await?;
    wait_running(&client, "one", 1, 10).await?;
    make_member(&client, "two-0", "two", "1", "two").await?;
    group_says(&client, "two", "1 node(s) exceed max volume count").await?;
    // A second pod with the same volume needs no further one.
    make_podgroup(&client, "same", json!({"minMember": 1})).await?;
    make_member(&client, "same-0", "same", "1", "one").await?;
    wait_running(&client, "same", 1, 10).await?;
    stays_unbound(w, "two", 1).await?;
    // The second place is that of a volume which no pod uses and which is not detached yet.
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    bound_claim(&client, "attached", "ReadWriteOnce", disk("attached"), None).await?;
    let spec = json!({"attacher": DRIVER, "nodeName": "a1", "source": {"persistentVolumeName": "attached"}});
    let attachment = serde_json::from_value(json!({"metadata": {"name": "attached"}, "spec": spec}))?;
    watched(w, "volumeattachments", "added", async {
        attachments.create(&PostParams::default(), &attachment).await.map(drop).map_err(Into::into)
    })
    .await?;
    let more = json!({"spec": {"drivers": drivers(2)}});
    nodes.patch("a1", &PatchParams::default(), &Patch::Merge(more)).await?;
    stays_unbound(w, "two", 1).await?;
    attachments.delete("attached", &DeleteParams::default()).await?;
    wait_running(&client, "two", 1, 10).await?;
    make_member(&client, "three-0", "three", "1", "three").await?;
    group_says(&client, "three", "1 node(s) exceed max volume count").await?;
    let none = Patch::Merge(json!({"spec": {"drivers": []}}));
    nodes.patch("a1", &PatchParams::default(), &none).await?;
    wait_running(&client, "three", 1, 10).await
}
