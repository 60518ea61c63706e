//! Creates and changes nodes, Queues, PodGroups and single pods as users and admins do.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use crate::stage::{Cleared, Set, set_stage};
use crate::wait::{Seen, secs, wait_until};

/// The scheduler of the pods in the cases.
pub const SCHEDULER_NAME: &str = "podgroup-scheduler";

/// The namespace of the cases.
pub const NAMESPACE: &str = "default";

/// Resource names and amounts, as in `[("cpu", "2"), ("memory", "4Gi")]`.
pub type Amounts<'a> = &'a [(&'a str, &'a str)];

/// Returns the PodGroups of the case's namespace, as untyped objects.
pub fn podgroups(client: &Client) -> Api<DynamicObject> {
    podgroups_in(client, NAMESPACE)
}

/// Returns the PodGroups of another namespace.
pub fn podgroups_in(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &volcano("PodGroup", "podgroups"))
}

/// Returns the Queues.
pub fn queues(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &volcano("Queue", "queues"))
}

/// The queues that the scheduler makes where they are missing.
const MADE_QUEUES: [&str; 2] = ["root", "default"];

/// Waits until the scheduler has made its queues. It makes them beside the first bindings, so they may come after these.
pub async fn wait_made_queues(client: &Client, within: Duration) -> Result<()> {
    let api = queues(client);
    for name in MADE_QUEUES {
        wait_until(within, &format!("the scheduler makes queue {name}"), || async {
            Ok(Seen::when(api.get_opt(name).await?.is_some(), || "it does not exist".to_owned()))
        })
        .await?;
    }
    Ok(())
}

fn volcano(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", kind), plural)
}

/// Returns whether the pod has a node.
pub fn has_node(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

/// Returns a JSON object of amounts.
pub fn amounts(amounts: Amounts<'_>) -> Value {
    Value::Object(amounts.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount))).collect::<Map<_, _>>())
}

/// Creates a node and waits until kwok simulates its kubelet. It has capacity for 110 pods, unless `allocatable` contains `pods`. A node
/// that kwok does not manage in time is created again (`stage`), unless a pod is on it already.
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
        // kube-controller-manager removes the taint of a new node some time after it is Ready.
        let taken_over = wait_until(secs(20), &what, || async {
            let node = nodes.get(name).await?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
            let new =
                node.spec.and_then(|spec| spec.taints).unwrap_or_default().iter().any(|taint| taint.key == "node.kubernetes.io/not-ready");
            Ok(Seen::when(ready && !new, || format!("Ready: {ready}, with the taint of a new node: {new}")))
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

/// Sets capacity and allocatable of a node in the named dimensions, as a device plugin does when a device fails or recovers.
pub async fn set_allocatable(client: &Client, name: &str, allocatable: Amounts<'_>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"status": {"allocatable": amounts(allocatable), "capacity": amounts(allocatable)}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Creates a queue. No parent means root; no capability means unlimited.
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

/// Creates a queue with any `spec` that the API server accepts.
pub async fn make_queue_of(client: &Client, name: &str, spec: Value) -> Result<()> {
    let queue: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
    }))?;
    queues(client).create(&PostParams::default(), &queue).await.with_context(|| format!("creating queue {name}"))?;
    Ok(())
}

/// Merges a patch into a queue.
pub async fn patch_queue(client: &Client, name: &str, patch: Value) -> Result<()> {
    queues(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.with_context(|| format!("patching queue {name}"))?;
    Ok(())
}

/// Creates a PodGroup as a user or another operator does.
pub async fn make_podgroup(client: &Client, name: &str, spec: Value) -> Result<()> {
    let group: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec,
    }))?;
    podgroups(client).create(&PostParams::default(), &group).await.with_context(|| format!("making PodGroup {name}"))?;
    Ok(())
}

/// Creates a pod without an owner in the PodGroup `group`.
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

/// Creates a pod that already has its node, past every scheduler.
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

/// Creates a pod from its JSON.
pub async fn make_pod(client: &Client, pod: Value) -> Result<()> {
    let pod: Pod = serde_json::from_value(pod)?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.create(&PostParams::default(), &pod).await.context("creating a pod")?;
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

/// Returns the container that every pod here has.
pub fn container(requests: Amounts<'_>) -> Value {
    // Extended resources must have equal limits; for other resources a limit does not matter to a scheduler.
    json!({"name": "main", "image": "example/1", "resources": {"requests": amounts(requests), "limits": amounts(requests)}})
}

/// Returns a quantity of units, thousandths or thousands (`2`, `1500m`, `5k`) in thousandths. This is enough for the amounts of the cases
/// and their sums.
pub fn milli(quantity: &str) -> Option<i64> {
    let units = |number: &str, each: i64| number.parse::<i64>().ok()?.checked_mul(each);
    match (quantity.strip_suffix('m'), quantity.strip_suffix('k')) {
        (Some(number), _) => number.parse().ok(),
        (_, Some(number)) => units(number, 1_000_000),
        _ => units(quantity, 1000),
    }
}

/// Returns the value at `pointer` (`/spec/minMember`) of an object; null when it is missing.
pub fn field(object: &DynamicObject, pointer: &str) -> Value {
    object.data.pointer(pointer).cloned().unwrap_or_default()
}

/// Returns [`milli`] of a quantity in JSON, which may be a number. A missing value is 0; `None` when it is not a quantity of this form.
pub fn milli_of(quantity: Option<&Value>) -> Option<i64> {
    let Some(quantity) = quantity else { return Some(0) };
    match quantity.as_str() {
        Some(text) => milli(text),
        None => quantity.as_i64()?.checked_mul(1000),
    }
}

/// Returns status, reason and message of the condition `kind` of an object.
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
    fn equal_amounts_in_different_forms_are_equal() {
        assert_eq!(super::milli("2"), super::milli("2000m"));
        assert_eq!(super::milli("5k"), super::milli("5000"));
        assert_eq!(super::milli("2Gi"), None);
    }
}
