//! The claims of the measured pods and their volumes. The volumes are of a driver that attaches nothing, so that only their binding costs requests.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use super::constraint::Constraint;
use super::look::until_count;
use super::stage::{AT_ONCE, Stage, each};
use crate::wait::{Seen, millis, secs, wait_until};

/// The class of claims without a volume.
const CLASS: &str = "waits";

/// The CSI driver of the volumes.
const DRIVER: &str = "disks.example.com";

/// Returns the name of the claim of the pod with this number.
pub fn name(number: usize) -> String {
    format!("claim-{number:06}")
}

/// Creates class and driver. Called once.
pub async fn prepare(stage: &Stage) -> Result<()> {
    let client = stage.client();
    let class =
        json!({"metadata": {"name": CLASS}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    Api::<StorageClass>::all(client.clone()).create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let driver = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": false}});
    Api::<CSIDriver>::all(client).create(&PostParams::default(), &serde_json::from_value(driver)?).await?;
    Ok(())
}

/// Creates the claims of `count` pods with this constraint, and a volume for each. Returns when all claims are bound, or all volumes are
/// free; at once where the constraint is another.
pub async fn make(stage: &Stage, namespace: &str, constraint: Constraint, count: usize) -> Result<()> {
    let is_bound = match constraint {
        Constraint::BoundClaim => true,
        Constraint::UnboundClaim => false,
        Constraint::Nothing | Constraint::Spread | Constraint::Apart | Constraint::Together | Constraint::PreferApart => return Ok(()),
    };
    let (claims, volumes) = apis(stage, namespace);
    let (mode, size) = (json!(["ReadWriteOnce"]), json!({"storage": "1Gi"}));
    each(count, AT_ONCE, |number| {
        let (claims, volumes, mode, size) = (&claims, &volumes, &mode, &size);
        async move {
            let (name, volume_name) = (name(number), format!("{namespace}-{number:06}"));
            let volume_of_claim = is_bound.then_some(&volume_name);
            let claim = json!({
                "metadata": {"name": name},
                "spec": {"accessModes": mode, "storageClassName": CLASS, "resources": {"requests": size}, "volumeName": volume_of_claim},
            });
            let claim = claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
            let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": claim.uid()});
            // Every node has this label, so that a volume has node affinity as those of drivers do.
            let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]);
            let volume = json!({
                "metadata": {"name": volume_name},
                "spec": {
                    "accessModes": mode, "capacity": size, "storageClassName": CLASS, "claimRef": if is_bound { reference } else { serde_json::Value::Null },
                    "csi": {"driver": DRIVER, "volumeHandle": volume_name}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                },
            });
            volumes.create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
            Ok(())
        }
    })
    .await?;
    let phase = if is_bound { "Bound" } else { "Available" };
    // A list of all costs the API server more than the binding of one.
    let pace = millis(u64::try_from(count / 10)?);
    wait_until(secs(600), &format!("{count} volumes are {phase}"), || async {
        sleep(pace).await;
        let all = volumes.list(&ListParams::default()).await?;
        let is = |volume: &&PersistentVolume| volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase);
        let have = all.iter().filter(is).filter(|volume| volume.name_any().starts_with(namespace)).count();
        Ok(Seen::when(have == count, || have.to_string()))
    })
    .await?;
    if is_bound {
        wait_until(secs(600), &format!("{count} claims are bound"), || async {
            sleep(pace).await;
            let all = claims.list(&ListParams::default()).await?;
            let is = |claim: &&PersistentVolumeClaim| claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
            let have = all.iter().filter(is).count();
            Ok(Seen::when(have == count, || have.to_string()))
        })
        .await
        .context("binding the claims")?;
    }
    Ok(())
}

/// Deletes the claims of the namespace and their volumes. No pod uses them any more.
pub async fn clear(stage: &Stage, namespace: &str) -> Result<()> {
    let (claims, volumes) = apis(stage, namespace);
    claims.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until_count(&claims, 0, "the claims are gone").await?;
    let all: Vec<String> = volumes.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    let ours: Vec<String> = all.into_iter().filter(|name| name.starts_with(namespace)).collect();
    each(ours.len(), AT_ONCE, |number| {
        let (volumes, name) = (&volumes, ours.get(number).cloned().unwrap_or_default());
        async move {
            volumes.delete(&name, &DeleteParams::default()).await?;
            Ok(())
        }
    })
    .await?;
    wait_until(secs(120), "the volumes are gone", || async {
        let left = volumes.list(&ListParams::default()).await?.iter().filter(|volume| volume.name_any().starts_with(namespace)).count();
        Ok(Seen::when(left == 0, || left.to_string()))
    })
    .await
}

fn apis(stage: &Stage, namespace: &str) -> (Api<PersistentVolumeClaim>, Api<PersistentVolume>) {
    (Api::namespaced(stage.client(), namespace), Api::all(stage.client()))
}
