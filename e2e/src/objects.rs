//! What do users and admins put into a cluster? Nodes, Queues, PodGroups and single pods, made and changed as they would.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use crate::stage::{Cleared, Set, set_stage};
use crate::wait::{Seen, secs, wait_until};

/// The scheduler whose pods the cases make.
pub const SCHEDULER_NAME: &str = "podgroup-scheduler";

/// The namespace that the cases work in.
pub const NAMESPACE: &str = "default";

/// Names and amounts, as in `[("cpu", "2"), ("memory", "4Gi")]`.
pub type Amounts<'a> = &'a [(&'a str, &'a str)];

/// PodGroups of the case's namespace, as any client without the types sees them.
pub fn podgroups(client: &Client) -> Api<DynamicObject> {
    podgroups_in(client, NAMESPACE)
}

/// PodGroups of another namespace.
pub fn podgroups_in(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &volcano("PodGroup", "podgroups"))
}

/// Queues.
pub fn queues(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &volcano("Queue", "queues"))
}

fn volcano(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", kind), plural)
}

/// A JSON object of amounts.
pub fn amounts(amounts: Amounts<'_>) -> Value {
    Value::Object(amounts.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount))).collect::<Map<_, _>>())
}

/// Makes a node that kwok plays the kubelet of. 110 pods fit unless `allocatable` says otherwise. A node that kwok does not take over in time is made again
/// (`stage`), unless a pod is on it already.
pub async fn make_node(client: &Client, name: &str, allocatable: Amounts<'_>) -> Result<()> {
    let room = if allocatable.iter().any(|(dimension, _)| *dimension == "pods") {
        allocatable.to_vec()
    } else {
        [allocatable, &[("pods", "110")]].concat()
    };
    let amounts = amounts(&room);
    let node: Node = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"},
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let what = format!("kwok has taken node {name} over");
    let set = || async {
        nodes.create(&PostParams::default(), &node).await.with_context(|| format!("making node {name}"))?;
        // A pod that is born with the node's name while kwok is only just taking the node over is never taken up by it.
        let taken_over = wait_until(secs(20), &what, || async {
            let conditions = nodes.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
            Ok(Seen::when(ready, || "it is not Ready".to_owned()))
        });
        Ok(taken_over.await.map_or_else(Set::Late, |()| Set::Ready))
    };
    set_stage(&format!("node {name}"), set, || clear_node(client, name)).await.map(drop)
}

/// Deletes a node that no pod is on, and returns when it is gone.
async fn clear_node(client: &Client, name: &str) -> Result<Cleared> {
    let pods: Api<Pod> = Api::all(client.clone());
    let on_it = pods.list(&ListParams::default().fields(&format!("spec.nodeName={name}"))).await?;
    if let Some(pod) = on_it.items.first() {
        return Ok(Cleared::InUse(format!("pod {} is on it", pod.name_any())));
    }
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting node {name}"))?;
    wait_until(secs(20), &format!("node {name} is gone"), || async {
        Ok(Seen::when(nodes.get_opt(name).await?.is_none(), || "it is still there".to_owned()))
    })
    .await?;
    Ok(Cleared::Yes)
}

/// Sets capacity and allocatable of a node in the named dimensions, as a device plugin does when a device fails or comes back.
pub async fn set_allocatable(client: &Client, name: &str, allocatable: Amounts<'_>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"status": {"allocatable": amounts(allocatable), "capacity": amounts(allocatable)}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Makes a queue. No parent is root; no capability is unlimited.
pub async fn make_queue(client: &Client, name: &str, parent: Option<&str>, capability: Amounts<'_>) -> Result<()> {
    let mut spec = Map::new();
    if let Some(parent) = parent {
        spec.insert("parent".to_owned(), json!(parent));
    }
    if !capability.is_empty() {
        spec.insert("capability".to_owned(), amounts(capability));
    }
    make_queue_of(client, name, Value::Object(spec)).await
}

/// Makes a queue with this `spec`, which may be anything that the API server takes.
pub async fn make_queue_of(client: &Client, name: &str, spec: Value) -> Result<()> {
    let queue: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
    }))?;
    queues(client).create(&PostParams::default(), &queue).await.with_context(|| format!("making queue {name}"))?;
    Ok(())
}

/// Merges a patch into a queue.
pub async fn patch_queue(client: &Client, name: &str, patch: Value) -> Result<()> {
    queues(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.with_context(|| format!("patching queue {name}"))?;
    Ok(())
}

/// Makes a PodGroup as a user or another operator does.
pub async fn make_podgroup(client: &Client, name: &str, spec: Value) -> Result<()> {
    let group: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec,
    }))?;
    podgroups(client).create(&PostParams::default(), &group).await.with_context(|| format!("making PodGroup {name}"))?;
    Ok(())
}

/// Makes a pod without an owner, of the PodGroup `group`.
pub async fn make_member(client: &Client, name: &str, group: &str, requests: Amounts<'_>) -> Result<()> {
    make_pod(
        client,
        json!({
            "metadata": {"name": name, "labels": {"app": group}, "annotations": {"scheduling.k8s.io/group-name": group}},
            "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container(requests)]},
        }),
    )
    .await
}

/// Makes a pod that is on its node from the start, past every scheduler.
pub async fn make_bound_pod(client: &Client, name: &str, node: &str, requests: Amounts<'_>) -> Result<()> {
    make_pod(
        client,
        json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": [container(requests)]},
        }),
    )
    .await
}

/// Makes the mirror of a static pod, as a kubelet does for a file in its manifest folder.
pub async fn make_static_pod(client: &Client, name: &str, node: &str, requests: Amounts<'_>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let uid = nodes.get(node).await?.metadata.uid;
    make_pod(
        client,
        json!({
            "metadata": {
                "name": format!("{name}-{node}"),
                "labels": {"app": name},
                "annotations": {"kubernetes.io/config.mirror": "e2e", "kubernetes.io/config.source": "file"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true}],
            },
            "spec": {"nodeName": node, "containers": [container(requests)], "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        }),
    )
    .await
}

/// Makes a pod as it is written there.
pub async fn make_pod(client: &Client, pod: Value) -> Result<()> {
    let pod: Pod = serde_json::from_value(pod)?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.create(&PostParams::default(), &pod).await.context("making a pod")?;
    Ok(())
}

/// Binds a pod as a scheduler does.
pub async fn bind(client: &Client, pod: &str, node: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": NAMESPACE}, "target": target});
    let params = PostParams::default();
    pods.create_subresource::<Value, Value>("binding", pod, &params, &body).await.with_context(|| format!("binding pod {pod}"))?;
    Ok(())
}

/// The one container of every pod here.
pub fn container(requests: Amounts<'_>) -> Value {
    // Extended resources must have equal limits; for the others a limit changes nothing that a scheduler looks at.
    json!({"name": "main", "image": "example/1", "resources": {"requests": amounts(requests), "limits": amounts(requests)}})
}

/// A quantity of whole units, thousandths or thousands (`2`, `1500m`, `5k`) in thousandths; enough for the amounts that the cases type themselves, and their sums.
pub fn milli(quantity: &str) -> Option<i64> {
    let units = |number: &str, each: i64| number.parse::<i64>().ok()?.checked_mul(each);
    match (quantity.strip_suffix('m'), quantity.strip_suffix('k')) {
        (Some(number), _) => number.parse().ok(),
        (_, Some(number)) => units(number, 1_000_000),
        _ => units(quantity, 1000),
    }
}

/// What stands at `pointer` (`/spec/minMember`) of an object; null where nothing does.
pub fn field(object: &DynamicObject, pointer: &str) -> Value {
    object.data.pointer(pointer).cloned().unwrap_or_default()
}

/// [`milli`] of a quantity in JSON, where a whole number may stand without quotes. Nothing there is 0; what is no such quantity is none.
pub fn milli_of(quantity: Option<&Value>) -> Option<i64> {
    let Some(quantity) = quantity else { return Some(0) };
    match quantity.as_str() {
        Some(text) => milli(text),
        None => quantity.as_i64()?.checked_mul(1000),
    }
}

/// The condition `kind` of an object: its status, reason and message.
pub fn condition(object: &DynamicObject, kind: &str) -> Option<(String, String, String)> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let text_of = |each: &Value, key: &str| each.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = conditions.iter().find(|each| text_of(each, "type") == kind)?;
    let text = |key: &str| text_of(found, key);
    Some((text("status"), text("reason"), text("message")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn quantities_of_the_same_amount_are_equal_however_they_are_written() {
        assert_eq!(super::milli("2"), super::milli("2000m"));
        assert_eq!(super::milli("5k"), super::milli("5000"));
        assert_eq!(super::milli("2Gi"), None);
    }
}
