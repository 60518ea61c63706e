//! Row O2: the PodGroup of a DaemonSet. There is one for all its pods, and no pod waits for another.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::called;
use crate::objects::make_node;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::events::wait_warning;
use crate::workloads::owner::{Kind, Owner, patch, wait_min_member, wait_no_group, wait_observed};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// Three nodes, a requested gang of 3: minMember is 1, an Event says so, and each node has a pod. A fourth node gets its pod without a write of the PodGroup.
/// A DaemonSet without a matching node has no PodGroup and gets one with its first node.
pub(in crate::cases) async fn one_on_each_node(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2", "n3"] {
        make_node(&client, node, &[("cpu", "4"), ("memory", "16Gi")]).await?;
    }
    let set = Owner::daemon_set("agent").gang("3").make(&client).await?;
    wait_running(&client, "agent", 3, 10).await?;
    wait_min_member(&client, &set, 1, 10).await?;
    wait_warning(&client, "DaemonSet", "agent", "InvalidPodGroupSource", "group-min-member").await?;

    let moment = called::now(w).await?;
    make_node(&client, "n4", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    wait_running(&client, "agent", 4, 10).await?;
    wait_until(secs(10), "each node has a pod", || async {
        let mut nodes: Vec<_> = pods_of(&client, "agent").await?.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
        nodes.sort();
        Ok(Seen::when(nodes == ["n1", "n2", "n3", "n4"], || format!("{nodes:?}")))
    })
    .await?;
    let calls = called::since(w, moment)?;
    ensure!(calls.is_empty(), "another node cost {:?}", called::tally(&calls));

    let nowhere = Owner::daemon_set("nowhere").with_pod("/spec", "nodeSelector", json!({"role": "gpu"})).make(&client).await?;
    wait_observed(&client, Kind::DaemonSet, "nowhere").await?;
    wait_no_group(&client, &nowhere, 10).await?;
    label_node(w, "n4", json!({"role": "gpu"})).await?;
    wait_running(&client, "nowhere", 1, 10).await?;
    wait_min_member(&client, &nowhere, 1, 10).await?;
    label_node(w, "n4", json!({"role": null})).await?;
    wait_running(&client, "nowhere", 0, 10).await?;
    wait_no_group(&client, &nowhere, 10).await?;
    // A change of the template replaces every pod, one at a time.
    patch(&client, Kind::DaemonSet, "agent", json!({"spec": {"template": {"metadata": {"annotations": {"changed": "yes"}}}}})).await?;
    wait_until(secs(30), "the rolling update finishes", || async {
        let object = Kind::DaemonSet.api(&client).get("agent").await?;
        let number = |key: &str| object.data.pointer(&format!("/status/{key}")).and_then(serde_json::Value::as_i64);
        let done = number("observedGeneration") == object.metadata.generation
            && number("updatedNumberScheduled") == Some(4)
            && number("numberReady") == Some(4);
        Ok(Seen::when(done, || format!("updated {:?}, ready {:?}", number("updatedNumberScheduled"), number("numberReady"))))
    })
    .await
}

async fn label_node(w: &World, name: &str, labels: serde_json::Value) -> Result<()> {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(w.client());
    let patch = kube::api::Patch::Merge(json!({"metadata": {"labels": labels}}));
    nodes.patch(name, &kube::api::PatchParams::default(), &patch).await?;
    Ok(())
}
