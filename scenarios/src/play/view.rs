//! What does the API show of a group, an owner or a pod?

use serde_json::Value;

use crate::server::kinds::Kind;
use crate::server::store::{Store, names};

/// The kinds of owners, the outermost first.
const OWNERS: [&str; 5] = ["deployments", "statefulsets", "jobs", "daemonsets", "replicasets"];

/// Returns the owner of this name.
pub(super) fn owner_named(store: &Store, namespace: &str, name: &str) -> Option<Value> {
    OWNERS.iter().find_map(|plural| store.get(Kind::by_plural(plural)?, namespace, name).cloned())
}

/// Returns the pods that a name stands for: a pod, the members of a PodGroup, or the pods of an owner. Sorted by name.
pub(super) fn members(store: &Store, namespace: &str, name: &str) -> Vec<Value> {
    let in_namespace = |pod: &&Value| pod["metadata"]["namespace"] == namespace;
    let pods = || store.all("pods").filter(in_namespace);
    if let Some(pod) = pods().find(|pod| pod["metadata"]["name"] == name) {
        return vec![pod.clone()];
    }
    if let Some(owner) = owner_named(store, namespace, name) {
        let mut uids = vec![owner["metadata"]["uid"].clone()];
        let sets = store.all("replicasets").filter(|set| owned_by(set, &uids)).map(|set| set["metadata"]["uid"].clone());
        let sets: Vec<Value> = sets.collect();
        uids.extend(sets);
        return pods().filter(|pod| owned_by(pod, &uids)).cloned().collect();
    }
    pods().filter(|pod| pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == name).cloned().collect()
}

fn owned_by(object: &Value, uids: &[Value]) -> bool {
    object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.iter().any(|owner| uids.contains(&owner["uid"])))
}

/// Returns the PodGroup that a name stands for: its own, or that of an owner or a pod. A Deployment has that of its newest ReplicaSet.
pub(super) fn group_named(store: &Store, namespace: &str, name: &str) -> Option<Value> {
    let kind = Kind::by_plural("podgroups")?;
    if let Some(group) = store.get(kind, namespace, name) {
        return Some(group.clone());
    }
    let pod = || store.get(Kind::by_plural("pods")?, namespace, name).cloned();
    let mut owner = owner_named(store, namespace, name).or_else(pod)?;
    if owner["kind"] == "Deployment" {
        let uid = [owner["metadata"]["uid"].clone()];
        owner = store
            .all("replicasets")
            .filter(|set| owned_by(set, &uid))
            .max_by_key(|set| names(set).1.len().max(1) * 1000 + age(set))
            .cloned()?;
    }
    store.get(kind, namespace, &format!("podgroup-{}", owner["metadata"]["uid"].as_str()?)).cloned()
}

/// The place of an object in the order of creations: UIDs grow.
fn age(object: &Value) -> usize {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    uid.rsplit('-').next().and_then(|last| usize::from_str_radix(last, 16).ok()).unwrap_or(0)
}

/// Returns a condition as `reason: message`, if its status is this one.
pub(super) fn condition(object: &Value, kind: &str, status: &str) -> Option<String> {
    let found =
        object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind && condition["status"] == status)?;
    Some(format!("{}: {}", found["reason"].as_str().unwrap_or_default(), found["message"].as_str().unwrap_or_default()))
}

/// Returns why a PodGroup waits: the message of its condition `Unschedulable`, which begins with the code, or else the code alone.
pub(super) fn waits(group: &Value) -> Option<String> {
    let message = condition(group, "Unschedulable", "True").and_then(|text| text.split_once(": ").map(|(_, message)| message.to_owned()));
    message.or_else(|| condition(group, "podgroup.dev/Waiting", "True"))
}

/// Returns the nodes of pods that are bound and exist, sorted.
pub(super) fn nodes(pods: &[Value]) -> Vec<String> {
    let mut nodes: Vec<String> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned).collect();
    nodes.sort();
    nodes
}
