//! The commands of the scheduler and the bodies of their requests. Pure; `dispatch` sends them.
//!
//! Every patch of a pod or a PodGroup names the UID of the object, so it never changes a new object of the same name. It holds only our own fields.
//! The patch of a queue's status names no UID. If it changes a new queue of that name, the watch shows it and the next write corrects it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::api::misspelt::UNKNOWN_SCHEDULER;
use crate::api::names::{BINDING_WITHDRAWN, CHARGED_QUEUE, DEFAULT_QUEUE, LEADER_CHANGED, QUEUE_PATH, ROOT_QUEUE, SCHEDULER};
use crate::api::pod::PodCondition;
use crate::api::podgroup::PodGroupStatus;
use crate::api::queue::QueueStatus;
use crate::api::{GroupKey, Uid, event};
use crate::cycle::plan::{Bind, Eviction, EvictionCause, Victim, VolumeWrite};
use crate::runtime::flags::QueueStatusBy;
use crate::scheduler::dialect::seconds;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Bind a pod.
    Bind(Bind),
    /// Tie a claim to a volume or a node.
    Volume(VolumeWrite),
    /// Evict the victims of one nomination.
    Evict {
        /// The victims and the PodGroup they are evicted for.
        eviction: Eviction,
        /// The time of the decision.
        now: Timestamp,
    },
    /// Stop the evictions for this nomination.
    StopEvictions {
        /// Its number.
        nomination: u64,
    },
    /// Change a pod that has no node, so that bindings of earlier leaders are refused.
    Fence {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its UID.
        uid: Uid,
        /// The time of the takeover; `None` where the pod has the condition already, whose status and time of transition stay.
        since: Option<Timestamp>,
    },
    /// Write the status of a PodGroup, and Events: of a cause of its wait that is new, and of unknown fields.
    Group {
        /// The PodGroup.
        key: GroupKey,
        /// Its UID.
        uid: Uid,
        /// The new status.
        status: PodGroupStatus,
        /// The reasons and messages of the Events.
        events: Vec<(String, String)>,
        /// The time of the decision.
        now: Timestamp,
    },
    /// Write the status of a queue.
    Queue {
        /// The queue.
        name: Arc<str>,
        /// The new status.
        status: QueueStatus,
        /// The resources to be removed from `allocated`.
        gone: Vec<String>,
        /// The program that writes state and counts.
        by: QueueStatusBy,
    },
    /// Write an Event about an invalid queue.
    QueueEvent {
        /// The queue.
        name: Arc<str>,
        /// Its UID.
        uid: Uid,
        /// The message of the Event.
        message: String,
        /// The time of the decision.
        now: Timestamp,
    },
    /// Create the queue `root` or `default`.
    MakeQueue {
        /// Its name.
        name: Arc<str>,
    },
    /// Write the condition and the nominated node of a waiting pod.
    Pod {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its UID.
        uid: Uid,
        /// The condition PodScheduled.
        condition: PodCondition,
        /// What becomes of its nominated node.
        nominated: NominatedNode,
        /// The time of the decision, if it changes the status of the condition.
        since: Option<Timestamp>,
    },
    /// Write an Event about a pod that names nearly our scheduler.
    MisnamedPod {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its UID.
        uid: Uid,
        /// The message of the Event.
        message: String,
        /// The time of the decision.
        now: Timestamp,
    },
    /// Create an Event about a waiting pod.
    PodEvent {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its UID.
        uid: Uid,
        /// The message of the Event.
        message: String,
        /// The time of the decision.
        now: Timestamp,
    },
}

/// What a write does to the `status.nominatedNodeName` of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NominatedNode {
    /// It stays as it is.
    Stays,
    /// It becomes this node.
    Is(Arc<str>),
    /// It is removed, because the nomination has ended without a binding. The API server removes it when it binds the pod
    /// (`ClearingNominatedNodeNameAfterBinding`, on since Kubernetes 1.35).
    Removed,
}

/// Returns the Binding, with the pod's UID and resourceVersion, which the API server checks, and the queue with its path, which the API
/// server copies to the pod.
///
/// A later leader changes the resourceVersion of each pod that has no node, so that this request does not take effect after that
/// (`registry/core/pod/storage`, `setPodNodeAndMetadata`, in Kubernetes).
#[must_use]
pub fn binding(bind: &Bind) -> Value {
    let mut metadata = json!({
        "namespace": &*bind.namespace,
        "name": &*bind.name,
        "uid": &*bind.uid,
        "annotations": { CHARGED_QUEUE: &*bind.queue, QUEUE_PATH: &*bind.path },
    });
    if bind.resource_version > 0
        && let Some(fields) = metadata.as_object_mut()
    {
        fields.insert("resourceVersion".to_owned(), Value::from(bind.resource_version.to_string()));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": { "apiVersion": "v1", "kind": "Node", "name": &*bind.node },
    })
}

/// Returns the Eviction, with the pod's UID, which the API server checks.
#[must_use]
pub fn eviction(victim: &Victim) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "namespace": &*victim.namespace, "name": &*victim.name },
        "deleteOptions": { "preconditions": { "uid": &*victim.uid } },
    })
}

/// Returns a merge patch of a PodGroup's status. Counts of 0 are removed, as in Volcano.
#[must_use]
pub fn group_patch(uid: &Uid, status: &PodGroupStatus) -> Value {
    json!({
        "metadata": { "uid": &**uid },
        "status": {
            "phase": status.phase,
            "conditions": status.conditions,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
        },
    })
}

/// Returns a merge patch of a queue's status. Unused resources are removed. Fields that another program writes are absent, not null.
#[must_use]
pub fn queue_patch(status: &QueueStatus, gone: &[String], by: QueueStatusBy) -> Value {
    let mut allocated: Map<String, Value> = gone.iter().map(|name| (name.clone(), Value::Null)).collect();
    for (name, amount) in status.allocated.iter().flatten() {
        allocated.insert(name.clone(), json!(amount));
    }
    if by == QueueStatusBy::Obey {
        return json!({ "status": { "allocated": allocated } });
    }
    json!({
        "status": {
            "allocated": allocated,
            "state": status.state,
            "pending": status.pending,
            "inqueue": status.inqueue,
            "running": status.running,
            "unknown": status.unknown,
            "completed": status.completed,
            "usage": status.usage,
            "message": status.message,
        },
    })
}

/// Returns a new queue `root` or `default`.
#[must_use]
pub fn new_queue(name: &str) -> Value {
    let spec = if name == ROOT_QUEUE { json!({}) } else { json!({ "parent": ROOT_QUEUE }) };
    json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": { "name": name }, "spec": spec })
}

/// The queues that the scheduler creates if they are missing.
pub const MADE: [&str; 2] = [ROOT_QUEUE, DEFAULT_QUEUE];

/// Returns a strategic patch of a pod's status. Conditions are merged by type, so conditions of other programs stay. Without `since` the
/// condition keeps the time of its last transition.
#[must_use]
pub fn pod_patch(uid: &Uid, condition: &PodCondition, nominated: &NominatedNode, since: Option<Timestamp>) -> Value {
    let mut written = json!({
        "type": condition.kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    });
    if let Some((since, written)) = since.zip(written.as_object_mut()) {
        written.insert("lastTransitionTime".to_owned(), json!(seconds(since)));
    }
    let mut status = json!({ "conditions": [written] });
    let node = match nominated {
        NominatedNode::Stays => None,
        NominatedNode::Is(node) => Some(json!(&**node)),
        NominatedNode::Removed => Some(Value::Null),
    };
    if let Some((node, status)) = node.zip(status.as_object_mut()) {
        status.insert("nominatedNodeName".to_owned(), node);
    }
    json!({ "metadata": { "uid": &**uid }, "status": status })
}

/// Returns the patch that fences a pod. `identity` names this start of this process, so the patch always changes the pod.
#[must_use]
pub fn fence_patch(uid: &Uid, identity: &str, since: Option<Timestamp>) -> Value {
    let condition = PodCondition {
        kind: LEADER_CHANGED.to_owned(),
        status: "True".to_owned(),
        reason: Some("LeaderChanged".to_owned()),
        message: Some(format!("{SCHEDULER}: {identity} leads now; bindings of this pod by an earlier leader are refused")),
    };
    pod_patch(uid, &condition, &NominatedNode::Stays, since)
}

/// Returns the patch that makes bindings void that were sent for this pod and not answered. It names the version that they carry, so it
/// always changes the pod.
#[must_use]
pub fn void_patch(bind: &Bind, identity: &str) -> Value {
    let condition = PodCondition {
        kind: BINDING_WITHDRAWN.to_owned(),
        status: "True".to_owned(),
        reason: Some("BindingWithdrawn".to_owned()),
        message: Some(format!(
            "{SCHEDULER}: a binding to node \"{}\" by {identity} was not answered and is withdrawn; it is refused with resourceVersion {}",
            bind.node, bind.resource_version
        )),
    };
    pod_patch(&bind.uid, &condition, &NominatedNode::Stays, None)
}

/// Returns the patch with the condition DisruptionTarget of a victim. The message names the PodGroup. The API server has made the
/// condition, with its time, when it evicted the pod. A pod that another client deleted meanwhile has none, and then no time.
#[must_use]
pub fn disruption_patch(eviction: &Eviction, victim: &Victim) -> Value {
    let condition = PodCondition {
        kind: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("PreemptionByScheduler".to_owned()),
        message: Some(eviction_message(eviction)),
    };
    pod_patch(&victim.uid, &condition, &NominatedNode::Stays, None)
}

/// Returns the Event about a victim.
#[must_use]
pub fn victim_event(eviction: &Eviction, victim: &Victim, now: Timestamp) -> Value {
    let reason = match eviction.cause {
        EvictionCause::Reclaim => "Reclaimed",
        EvictionCause::Preemption => "Preempted",
        EvictionCause::Release => EVICTED,
    };
    warning(&pod(&victim.namespace, &victim.name, &victim.uid), &victim.namespace, reason, &eviction_message(eviction), now)
}

/// Returns the Event about a partial gang that was evicted; `None` for a preemption or a reclaim.
#[must_use]
pub fn release_event(eviction: &Eviction, gone: usize, now: Timestamp) -> Option<Value> {
    let message = format!(
        "evicted {gone} bound member(s) of the partial gang: the other members could not be placed in time; the whole PodGroup waits again"
    );
    let released = eviction.cause == EvictionCause::Release && gone > 0;
    released.then(|| event(&eviction.group, &eviction.group_uid, EVICTED, &message, now))
}

/// Returns the Event about a waiting pod, as kube-scheduler creates it.
#[must_use]
pub fn pod_event(namespace: &str, name: &str, uid: &Uid, message: &str, now: Timestamp) -> Value {
    warning(&pod(namespace, name, uid), namespace, FAILED_SCHEDULING, message, now)
}

/// Returns the Event about a pod that names nearly our scheduler. Its name is a hash of its content, so it is not written twice.
#[must_use]
pub fn misnamed_pod_event(namespace: &str, name: &str, uid: &Uid, message: &str, now: Timestamp) -> Value {
    let metadata = json!({ "namespace": namespace, "name": event::name(name, [&**uid, UNKNOWN_SCHEDULER, message]) });
    event_with(&metadata, "Warning", &pod(namespace, name, uid), UNKNOWN_SCHEDULER, message, now)
}

/// Returns the Event about a pod that is bound, as kube-scheduler creates it.
#[must_use]
pub fn scheduled_event(bind: &Bind, now: Timestamp) -> Value {
    let message = format!("Successfully assigned {}/{} to {}", bind.namespace, bind.name, bind.node);
    event_of("Normal", &pod(&bind.namespace, &bind.name, &bind.uid), &bind.namespace, "Scheduled", &message, now)
}

fn pod<'a>(namespace: &'a str, name: &'a str, uid: &'a Uid) -> BTreeMap<&'static str, &'a str> {
    [("apiVersion", "v1"), ("kind", "Pod"), ("namespace", namespace), ("name", name), ("uid", &**uid)].into()
}

/// The reason of Events about waiting pods, as in kube-scheduler.
const FAILED_SCHEDULING: &str = "FailedScheduling";
/// The reason of Events about an evicted partial gang.
const EVICTED: &str = "EvictedPartialGang";

fn eviction_message(eviction: &Eviction) -> String {
    let Eviction { group, queue, .. } = eviction;
    match eviction.cause {
        EvictionCause::Reclaim => format!("{SCHEDULER}: reclaimed for PodGroup {group}: queue {queue} is below its share"),
        EvictionCause::Preemption => format!("{SCHEDULER}: preempted for PodGroup {group} of queue {queue}, which has a higher priority"),
        EvictionCause::Release => {
            format!("{SCHEDULER}: evicted with the partial gang of PodGroup {group}: its other members could not be placed in time")
        }
    }
}

/// The reason of an Event about an invalid queue.
const INVALID_QUEUE: &str = "InvalidQueue";

/// The reason of an Event about a PodGroup with unknown fields.
pub const UNKNOWN_FIELD: &str = "UnknownField";

/// The namespace of Events about cluster-scoped objects, as in Kubernetes.
pub const CLUSTER_EVENTS: &str = "default";

/// Returns the Event about an invalid queue. It has a name of its own, so the next leader does not write it again.
#[must_use]
pub fn queue_event(name: &str, uid: &Uid, message: &str, now: Timestamp) -> Value {
    let about = [("apiVersion", "scheduling.volcano.sh/v1beta1"), ("kind", "Queue"), ("name", name), ("uid", &**uid)];
    let metadata = json!({ "namespace": CLUSTER_EVENTS, "name": event::name(name, [&**uid, INVALID_QUEUE, message]) });
    event_with(&metadata, "Warning", &about.into(), INVALID_QUEUE, message, now)
}

/// Returns the Event about a waiting PodGroup.
#[must_use]
pub fn event(key: &GroupKey, uid: &Uid, reason: &str, message: &str, now: Timestamp) -> Value {
    let about: BTreeMap<&str, &str> = [
        ("apiVersion", "scheduling.volcano.sh/v1beta1"),
        ("kind", "PodGroup"),
        ("namespace", &*key.namespace),
        ("name", &*key.name),
        ("uid", &**uid),
    ]
    .into();
    warning(&about, &key.namespace, reason, message, now)
}

fn warning(about: &BTreeMap<&str, &str>, namespace: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    event_of("Warning", about, namespace, reason, message, now)
}

fn event_of(kind: &str, about: &BTreeMap<&str, &str>, namespace: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    event_with(&json!({ "namespace": namespace, "generateName": format!("{SCHEDULER}-") }), kind, about, reason, message, now)
}

fn event_with(metadata: &Value, kind: &str, about: &BTreeMap<&str, &str>, reason: &str, message: &str, now: Timestamp) -> Value {
    let time = seconds(now);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": about,
        "reason": reason,
        "message": event::message(message),
        "type": kind,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": { "component": SCHEDULER },
        "reportingComponent": SCHEDULER,
        "reportingInstance": SCHEDULER,
    })
}
