//! Row B9: bindings without an answer, while their nodes stop taking the pods. They are not sent again.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::seen::{accounting_matches_api, bound};
use crate::faults::{Fault, Rule, Verb};
use crate::objects::{NAMESPACE, bind, container, make_member, make_node, make_pod, make_podgroup};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;

/// B9. The bindings of a gang of two have no answer. Then one of its nodes is cordoned, another scheduler fills the other one, and another client writes to
/// the pods, so that no request that was sent can take effect. The gang is bound to two other nodes.
pub(super) async fn nodes_take_no_pods_any_more(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in ["n1", "n2"] {
        make_node(&client, node, &[("cpu", "1"), ("memory", "16Gi")]).await?;
    }
    // Unused cuts may hit the next bindings, so one member can be bound before the other.
    w.watched()?.excuse(&[6]);
    make_podgroup(&client, "gang", json!({"minMember": 2, "queue": "default"})).await?;
    // With the back-off of a binding, each member is refused for about ten seconds.
    for name in ["gang-0", "gang-1"] {
        w.aim(Rule { verb: Some(Verb::Create), resource: "pods/binding", name: Some(name), fault: Fault::CutBefore, times: 8 })?;
        make_member(&client, name, "gang", &[("cpu", "1")]).await?;
    }
    wait_until(secs(15), "both bindings were sent in vain", || async {
        let hits = w.hits("cut-before")?;
        Ok(Seen::when(hits >= 2, || format!("{hits} were")))
    })
    .await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let params = PatchParams::default();
    nodes.patch("n1", &params, &Patch::Merge(json!({"spec": {"unschedulable": true}}))).await?;
    make_pod(
        &client,
        json!({"metadata": {"name": "theirs"}, "spec": {"schedulerName": "nobodys", "containers": [container(&[("cpu", "1")])]}}),
    )
    .await?;
    bind(&client, "theirs", "n2").await?;
    for node in ["n3", "n4"] {
        make_node(&client, node, &[("cpu", "1"), ("memory", "16Gi")]).await?;
    }
    // The scheduler has seen all of it before the next request could be the one that is carried out.
    tokio::time::sleep(secs(1)).await;
    ensure!(bound(&client, "gang").await? == 0, "a binding took effect though it was cut");
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for name in ["gang-0", "gang-1"] {
        pods.patch(name, &params, &Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}}}))).await?;
    }
    wait_running(&client, "gang", 2, 60).await?;
    w.watched()?.insist(&[6]);
    let on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let mut on: Vec<String> = pods_of(&client, "gang").await?.iter().filter(|pod| pod.name_any() != "theirs").map(on).collect();
    on.sort();
    ensure!(on == ["n3", "n4"], "the gang is on {on:?}");
    accounting_matches_api(w).await
}
