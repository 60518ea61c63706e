//! Turns API objects into the small facts that the checks need.
//!
//! The reader is lenient on purpose: an invalid object that a test created must not blind the observer.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{DynamicObject, ObjectMeta};
use serde_json::Value;

use super::amounts::Amounts;
use super::membership::{is_generated, of_jobset, of_lws};
use super::request::effective;

/// The names that the cluster under test uses.
#[derive(Debug, Clone)]
pub struct Names {
    /// The scheduler names that the schedulers under test serve, each with the number of its scheduler. All replicas of one release are one
    /// scheduler, and one scheduler may serve several names. Pods of other names only use capacity of nodes.
    pub schedulers: BTreeMap<String, Release>,
    /// The prefix of the names of generated PodGroups. The rest of such a name is a UID.
    pub generated_prefix: String,
    /// The label (key, value) of the PodGroups that the controller created.
    pub managed_by: (String, String),
    /// The pod annotation that a binding writes: the queue that was charged.
    pub queue_annotation: String,
    /// The pod annotations that name a PodGroup, in order of precedence.
    pub group_annotations: Vec<String>,
}

/// The number of a scheduler under test.
pub type Release = usize;

/// A namespace and a name.
pub type Key = (String, String);

/// The facts of a pod that the checks need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFact {
    /// Namespace and name.
    pub key: Key,
    /// The scheduler under test that serves the pod; `None` for the pod of any other scheduler.
    pub served: Option<Release>,
    /// The node that the pod is bound to.
    pub node: Option<String>,
    /// Whether the phase is Succeeded or Failed. The pod then uses no resources any more.
    pub ended: bool,
    /// Whether the phase is Failed. The pod then does not count for its gang.
    pub failed: bool,
    /// Whether the pod has a deletion timestamp.
    pub terminating: bool,
    /// Whether the Eviction API was asked to remove the pod: it writes that into the pod before it deletes it.
    pub evicted: bool,
    /// Whether an annotation or a label says that it is not preemptable.
    pub protected: bool,
    /// The PodGroup that the pod belongs to.
    pub group: Key,
    /// The UID that must own a generated PodGroup: the pod's controller, or the pod itself. `None` when the PodGroup is not generated.
    pub group_owner: Option<String>,
    /// The queue annotation that the binding wrote.
    pub queue: Option<String>,
    /// The effective resource request.
    pub requests: Amounts,
}

impl PodFact {
    /// Returns whether it has a node, uses resources there and is not asked to leave.
    pub fn stays(&self) -> bool {
        self.node.is_some() && !self.ended && !self.terminating
    }

    /// Returns whether it waits for a node of one of the schedulers.
    pub fn waits(&self) -> bool {
        self.served.is_some() && self.node.is_none() && !self.ended && !self.terminating
    }
}

/// The facts of a PodGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFact {
    /// Whether the controller created it (it has the label).
    pub managed: bool,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// Whether an annotation or a label says that it is not preemptable.
    pub protected: bool,
    /// `spec.queue`, or `default` when unset.
    pub queue: String,
    /// `spec.minMember`, or 0 when unset.
    pub min_member: i64,
    /// The UIDs of all its owners.
    pub owners: BTreeSet<String>,
    /// The UID of the owner that is the controller, or of the first owner, and whether the observer watches that kind.
    pub owner: Option<(String, bool)>,
}

/// The facts of a Queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFact {
    /// The parent; `None` only for root.
    pub parent: Option<String>,
    /// `spec.capability`. A missing dimension is unlimited.
    pub capability: Amounts,
    /// `spec.guarantee.resource`. A missing dimension is 0.
    pub guarantee: Amounts,
    /// `status.allocated`.
    pub allocated: Amounts,
}

/// The annotation or label of pods and PodGroups that says whether they are preemptable.
const PREEMPTABLE: &str = "volcano.sh/preemptable";

/// The queue above all other queues.
pub const ROOT: &str = "root";
/// The kinds of owners that the observer follows, with apiVersion: a `Job` of another API group is another kind.
const OWNER_KINDS: [(&str, &str); 7] = [
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("v1", "ReplicationController"),
    ("v1", "Pod"),
    // The cases use a ConfigMap as the owner of pods of an unknown operator: neither program knows the kind.
    ("v1", "ConfigMap"),
];

/// One change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the object's identity, and what it is now (`None`: it is gone)")]
pub enum Change {
    /// A pod, by UID. `exact` is false when the watch missed versions in between, so that a binding has no known place in the history.
    Pod { uid: String, now: Option<Box<PodFact>>, exact: bool },
    /// A PodGroup.
    Group { key: Key, now: Option<Box<GroupFact>> },
    /// A Queue.
    Queue { name: String, now: Option<Box<QueueFact>> },
    /// A node, with its allocatable.
    Node { name: String, now: Option<Amounts> },
    /// An owner of pods that is not itself a pod.
    Owner { uid: String, alive: bool },
    /// A namespace that starts or stops to terminate.
    Namespace { name: String, terminating: bool },
    /// The end of a list of pods after a watch that missed versions. Its last event before arrived at `since`, in milliseconds.
    Listed { since: i64 },
}

/// The kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Node,
    Pod,
    Namespace,
    Group,
    Queue,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    ReplicationController,
    ConfigMap,
    Claim,
    Volume,
    CsiNode,
}

impl Kind {
    /// Returns whether objects of this kind may own pods and PodGroups. The observer follows their existence for that.
    #[cfg(test)]
    const fn owns_pods(self) -> bool {
        !matches!(self, Self::Node | Self::Namespace | Self::Group | Self::Queue | Self::Claim | Self::Volume | Self::CsiNode)
    }
}

/// Reads one object. `gone` means that it was deleted; `exact` is described at [`Change::Pod`]. Returns none for the kinds that the history
/// does not follow: checks 10 and 11 read them as they are.
pub fn read(names: &Names, kind: Kind, object: &DynamicObject, gone: bool, exact: bool) -> Option<Change> {
    let meta = &object.metadata;
    let name = meta.name.clone().unwrap_or_default();
    let uid = meta.uid.clone().unwrap_or_default();
    let key = (meta.namespace.clone().unwrap_or_default(), name.clone());
    Some(match kind {
        Kind::Pod => Change::Pod { uid, now: (!gone).then(|| Box::new(pod(names, object, key))), exact },
        Kind::Group => Change::Group { key, now: (!gone).then(|| Box::new(group(names, object))) },
        Kind::Queue => {
            let now = (!gone).then(|| Box::new(queue(&name, &object.data)));
            Change::Queue { name, now }
        }
        Kind::Node => Change::Node { name, now: (!gone).then(|| Amounts::read(object.data.pointer("/status/allocatable"))) },
        Kind::Namespace => Change::Namespace { name, terminating: gone || meta.deletion_timestamp.is_some() },
        Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet | Kind::Job | Kind::ReplicationController | Kind::ConfigMap => {
            Change::Owner { uid, alive: !gone }
        }
        Kind::Claim | Kind::Volume | Kind::CsiNode => return None,
    })
}

fn pod(names: &Names, object: &DynamicObject, key: Key) -> PodFact {
    let meta = &object.metadata;
    let spec = object.data.get("spec").unwrap_or(&Value::Null);
    let status = object.data.get("status").unwrap_or(&Value::Null);
    let phase = text(status, "/phase").unwrap_or_default();
    let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name)).filter(|value| !value.is_empty()).cloned();
    let controller = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone());
    let owner = controller.or_else(|| meta.uid.clone()).unwrap_or_default();
    let asked =
        names.group_annotations.iter().find_map(|name| annotation(name)).filter(|group| !is_generated(&names.generated_prefix, group));
    let (group, group_owner) = match asked.or_else(|| of_jobset(meta)).or_else(|| of_lws(meta)) {
        Some(group) => (group, None),
        None => (format!("{}{owner}", names.generated_prefix), Some(owner)),
    };
    PodFact {
        served: text(spec, "/schedulerName").and_then(|name| names.schedulers.get(&name).copied()),
        node: text(spec, "/nodeName").filter(|node| !node.is_empty()),
        ended: phase == "Succeeded" || phase == "Failed",
        failed: phase == "Failed",
        terminating: meta.deletion_timestamp.is_some(),
        evicted: evicted(status),
        protected: protected(meta),
        group: (key.0.clone(), group),
        key,
        group_owner,
        queue: annotation(&names.queue_annotation),
        requests: effective(spec, status),
    }
}

/// Returns whether the annotation, or else the label, says that the object is not preemptable.
fn protected(meta: &ObjectMeta) -> bool {
    let of = |all: &Option<BTreeMap<String, String>>| all.as_ref().and_then(|all| all.get(PREEMPTABLE).cloned());
    of(&meta.annotations).or_else(|| of(&meta.labels)).as_deref() == Some("false")
}

/// Returns whether the Eviction API wrote its condition. The scheduler replaces its reason by one of its own.
fn evicted(status: &Value) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    let text = |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    conditions.into_iter().any(|condition| {
        let reason = matches!(text(condition, "reason").as_str(), "EvictionByEvictionAPI" | "PreemptionByScheduler");
        reason && text(condition, "type") == "DisruptionTarget" && text(condition, "status") == "True"
    })
}

fn group(names: &Names, object: &DynamicObject) -> GroupFact {
    let meta = &object.metadata;
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first());
    let (label, value) = &names.managed_by;
    GroupFact {
        managed: meta.labels.as_ref().and_then(|labels| labels.get(label)) == Some(value),
        terminating: meta.deletion_timestamp.is_some(),
        protected: protected(meta),
        queue: text(&object.data, "/spec/queue").filter(|queue| !queue.is_empty()).unwrap_or_else(|| "default".to_owned()),
        min_member: object.data.pointer("/spec/minMember").and_then(Value::as_i64).unwrap_or(0),
        owners: owners.iter().map(|owner| owner.uid.clone()).collect(),
        owner: owner.map(|owner| (owner.uid.clone(), OWNER_KINDS.contains(&(owner.api_version.as_str(), owner.kind.as_str())))),
    }
}

fn queue(name: &str, data: &Value) -> QueueFact {
    let parent = text(data, "/spec/parent").filter(|parent| !parent.is_empty()).unwrap_or_else(|| ROOT.to_owned());
    QueueFact {
        parent: (name != ROOT).then_some(parent),
        capability: Amounts::read(data.pointer("/spec/capability")),
        guarantee: Amounts::read(data.pointer("/spec/guarantee/resource")),
        allocated: Amounts::read(data.pointer("/status/allocated")),
    }
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWNER: &str = "0aaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

    fn names() -> Names {
        super::super::ObserverConfig::of_chart(&["s"]).names
    }

    fn read_pod(annotations: &Value) -> PodFact {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "self", "annotations": annotations,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": OWNER, "controller": true}]}, "spec": {"schedulerName": "s"}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let Some(Change::Pod { now: Some(pod), .. }) = read(&names(), Kind::Pod, &object, false, true) else {
            panic!("a pod must be read as a pod")
        };
        *pod
    }

    #[test]
    fn an_annotation_of_the_generated_form_does_not_choose_a_group() {
        let group = |annotations| read_pod(&annotations).group.1;
        let generated = format!("podgroup-{OWNER}");
        assert_eq!(group(json!({})), generated);
        assert_eq!(group(json!({"scheduling.k8s.io/group-name": "podgroup-11111111-bbbb-cccc-dddd-eeeeeeeeeeee"})), generated);
        assert_eq!(group(json!({"scheduling.k8s.io/group-name": "podgroup-mine"})), "podgroup-mine");
        assert_eq!(read_pod(&json!({})).group_owner.as_deref(), Some(OWNER));
        assert_eq!(read_pod(&json!({"scheduling.k8s.io/group-name": "spark"})).group_owner, None);
    }

    #[test]
    fn the_watched_kinds_of_owners_are_the_known_kinds() {
        let watched = super::super::watch::KINDS.iter().filter(|(kind, ..)| kind.owns_pods());
        let named: BTreeSet<_> = watched
            .map(
                |(_, group, version, kind, _)| {
                    if group.is_empty() { (*version).to_owned() + "/" + kind } else { format!("{group}/{version}/{kind}") }
                },
            )
            .collect();
        let known: BTreeSet<_> = OWNER_KINDS.iter().map(|(version, kind)| format!("{version}/{kind}")).collect();
        assert_eq!(
            named, known,
            "a known kind that is not watched would always count as deleted, a watched kind that is not known would always count as alive"
        );
    }

    #[test]
    fn a_queue_without_a_parent_is_below_root_and_root_has_no_parent() {
        assert_eq!(queue("a", &json!({})).parent.as_deref(), Some(ROOT));
        assert_eq!(queue(ROOT, &json!({"spec": {"parent": "a"}})).parent, None);
    }
}
