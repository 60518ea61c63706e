//! The objects that the filters of kube-scheduler read, without the fields that they do not read.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::observer::facts::Kind;

/// The objects at one moment: pods by UID, claims that name their volume by namespace and name, all others by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    pub(super) pods: BTreeMap<String, Arc<Value>>,
    pub(super) nodes: BTreeMap<String, Arc<Value>>,
    pub(super) namespaces: BTreeMap<String, Arc<Value>>,
    pub(super) claims: BTreeMap<String, Arc<Value>>,
    pub(super) volumes: BTreeMap<String, Arc<Value>>,
    pub(super) csi_nodes: BTreeMap<String, Arc<Value>>,
}

/// Returns by what an object is found; none where the filters do not read its kind.
pub(super) fn key(kind: Kind, object: &DynamicObject) -> Option<String> {
    if kind == Kind::Pod {
        return Some(object.uid().unwrap_or_default());
    }
    if kind == Kind::Claim {
        return Some(claim_key(&object.namespace().unwrap_or_default(), &object.name_any()));
    }
    matches!(kind, Kind::Node | Kind::Namespace | Kind::Volume | Kind::CsiNode).then(|| object.name_any())
}

/// Returns whether the object is as good as absent: a claim that names no volume yet. No filter accepts a pod with it, and there may be ten
/// thousand of them.
pub(super) fn is_absent(kind: Kind, object: &DynamicObject) -> bool {
    kind == Kind::Claim && object.data.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().is_empty()
}

fn claim_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl Objects {
    /// Returns the objects of a kind.
    pub(super) const fn of(&mut self, kind: Kind) -> &mut BTreeMap<String, Arc<Value>> {
        match kind {
            Kind::Pod => &mut self.pods,
            Kind::Node => &mut self.nodes,
            Kind::Claim => &mut self.claims,
            Kind::Volume => &mut self.volumes,
            Kind::CsiNode => &mut self.csi_nodes,
            Kind::Namespace
            | Kind::Group
            | Kind::Queue
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::ReplicationController
            | Kind::ConfigMap => &mut self.namespaces,
        }
    }

    /// Applies a change. Returns whether it may matter to a pod that waits: a pod that comes without a node does not.
    pub(super) fn apply(&mut self, kind: Kind, key: &str, now: Option<&Arc<Value>>) -> bool {
        let objects = self.of(kind);
        match now {
            None => objects.remove(key).is_some(),
            Some(now) => match objects.insert(key.to_owned(), Arc::clone(now)) {
                Some(before) => before != *now,
                None => kind != Kind::Pod || is_bound(now),
            },
        }
    }

    /// Returns the pods that are on nodes.
    pub(super) fn bound(&self) -> impl Iterator<Item = (&String, &Arc<Value>)> {
        self.pods.iter().filter(|(_, pod)| is_bound(pod))
    }

    /// Returns the first claim of the pod that is not bound to a volume.
    pub(super) fn unbound_claim(&self, pod: &Value) -> Option<String> {
        let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        // As kube-scheduler has it. The phase is written later.
        let is_bound = |name: &str| {
            let claim = self.claims.get(&claim_key(namespace, name));
            claim.is_some_and(|claim| {
                let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default();
                !volume.is_empty() && claim.pointer("/metadata/annotations/pv.kubernetes.io~1bind-completed").is_some()
            })
        };
        claims_of(pod).into_iter().find(|name| !is_bound(name))
    }

    pub(super) fn has_node_of(&self, pod: &Value) -> bool {
        pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| self.nodes.contains_key(node))
    }
}

/// Returns whether the pod is on a node and has not ended.
pub(super) fn is_bound(pod: &Value) -> bool {
    let text = |pointer| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    !text("/spec/nodeName").is_empty() && !matches!(text("/status/phase"), "Succeeded" | "Failed")
}

/// Returns the names of the claims that the pod mounts. Those of ephemeral volumes have the name of the pod in theirs.
fn claims_of(pod: &Value) -> Vec<String> {
    let pod_name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let name = |volume: &Value| {
        let named = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str).map(str::to_owned);
        let own = || Some(format!("{pod_name}-{}", volume.get("ephemeral").and(volume.get("name"))?.as_str()?));
        named.or_else(own)
    };
    volumes.filter_map(name).collect()
}

/// Returns the pod as it was before its binding.
pub(super) fn without_node(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    pod
}

/// Returns whether the pod has a constraint on its node or on the pods around it.
pub(super) fn has_constraints(pod: &Value) -> bool {
    let stated = |pointer: &str| match pod.pointer(pointer) {
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::Array(values)) => !values.is_empty(),
        Some(_) | None => false,
    };
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let port = |port: &Value| port.get("hostPort").and_then(Value::as_i64).unwrap_or(0) != 0;
    let mut ports = containers.filter_map(|container| container.get("ports")?.as_array()).flatten();
    ["/spec/affinity", "/spec/nodeSelector", "/spec/topologySpreadConstraints"].into_iter().any(stated)
        || ports.any(port)
        || !claims_of(pod).is_empty()
}

/// Returns the object without what the filters do not read. Every node has room for every pod: check 3 judges resources.
pub(super) fn stripped(kind: Kind, object: &DynamicObject) -> Value {
    let meta = &object.metadata;
    let mut metadata = json!({ "name": meta.name, "uid": meta.uid, "labels": meta.labels });
    if let Some(fields) = metadata.as_object_mut() {
        fields.extend(meta.namespace.iter().map(|namespace| ("namespace".to_owned(), json!(namespace))));
        fields.extend(meta.deletion_timestamp.iter().map(|time| ("deletionTimestamp".to_owned(), json!(time))));
    }
    if kind == Kind::Node {
        let mut status = fields(object.data.get("status"), &["declaredFeatures"]);
        status.insert("allocatable".to_owned(), json!({ "pods": "100000" }));
        return json!({ "metadata": metadata, "spec": fields(object.data.get("spec"), &["taints", "unschedulable"]), "status": status });
    }
    if matches!(kind, Kind::Claim | Kind::Volume | Kind::CsiNode) {
        if let Some(fields) = metadata.as_object_mut() {
            fields.insert("annotations".to_owned(), json!(meta.annotations));
            fields.insert("ownerReferences".to_owned(), json!(meta.owner_references));
        }
        return json!({ "metadata": metadata, "spec": object.data.get("spec"), "status": fields(object.data.get("status"), &["phase"]) });
    }
    if kind != Kind::Pod {
        return json!({ "metadata": metadata });
    }
    let read = [
        "nodeName",
        "volumes",
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "hostNetwork",
        "hostUsers",
        "schedulerName",
    ];
    let mut spec = fields(object.data.get("spec"), &read);
    for list in ["containers", "initContainers"] {
        let all = object.data.get("spec").and_then(|spec| spec.get(list)?.as_array()).into_iter().flatten();
        let read = ["name", "ports", "restartPolicy", "restartPolicyRules"];
        spec.insert(list.to_owned(), all.map(|container| Value::Object(fields(Some(container), &read))).collect());
    }
    json!({ "metadata": metadata, "spec": spec, "status": fields(object.data.get("status"), &["phase"]) })
}

/// Returns these fields of an object, where it has them.
fn fields(value: Option<&Value>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), value?.get(*name)?.clone()))).collect()
}
