//! What is to be written, and as which bytes? Pure: the requests' bodies are made here, and sent by `dispatch`.
//!
//! Every patch of a pod or a PodGroup names the UID of the object it means, so it can never land on another one of the same name, and holds our own fields only. A queue's status is
//! about a name: what lands on a new queue of that name is seen there and put right.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::api::names::{CHARGED_QUEUE, DEFAULT_QUEUE, ROOT_QUEUE, SCHEDULER};
use crate::api::pod::PodCondition;
use crate::api::podgroup::PodGroupStatus;
use crate::api::queue::QueueStatus;
use crate::api::{GroupKey, Uid};
use crate::cycle::plan::{Bind, Eviction, EvictionCause, Victim};
use crate::cycle::status::seconds;
use crate::runtime::flags::QueueStatusBy;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Bind a pod.
    Bind(Bind),
    /// Evict the pods of one taking.
    Evict {
        /// Who goes for whom.
        eviction: Eviction,
        /// When this was decided.
        now: Timestamp,
    },
    /// Evict nobody more for this nomination.
    Desist {
        /// Its number.
        nomination: u64,
    },
    /// Write the status of a PodGroup, and say so in an Event where the reason to wait is a new one.
    Group {
        /// The PodGroup.
        key: GroupKey,
        /// Its UID.
        uid: Uid,
        /// What is to stand there.
        status: PodGroupStatus,
        /// What the Event says: reason and message.
        event: Option<(String, String)>,
        /// When this was decided.
        now: Timestamp,
    },
    /// Write the status of a queue.
    Queue {
        /// The queue.
        name: Arc<str>,
        /// What is to stand there.
        status: QueueStatus,
        /// The names in `allocated` that stand there and are to go.
        gone: Vec<String>,
        /// Who writes state and counts.
        by: QueueStatusBy,
    },
    /// Say in an Event on a queue why it cannot be used as it is.
    QueueEvent {
        /// The queue.
        name: Arc<str>,
        /// Its UID.
        uid: Uid,
        /// What the Event says.
        message: String,
        /// When this was decided.
        now: Timestamp,
    },
    /// Make `root` or `default`.
    MakeQueue {
        /// Its name.
        name: Arc<str>,
    },
    /// Say on a pod why it waits.
    Pod {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its UID.
        uid: Uid,
        /// The condition PodScheduled.
        condition: PodCondition,
        /// When this was decided.
        now: Timestamp,
    },
}

/// The Binding: with the pod's UID, which the API server checks, and the queue, which it copies onto the pod.
#[must_use]
pub fn binding(bind: &Bind) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": &*bind.namespace,
            "name": &*bind.name,
            "uid": &*bind.uid,
            "annotations": { CHARGED_QUEUE: &*bind.queue },
        },
        "target": { "apiVersion": "v1", "kind": "Node", "name": &*bind.node },
    })
}

/// The Eviction, with the pod's UID, which the API server checks.
#[must_use]
pub fn eviction(victim: &Victim) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "namespace": &*victim.namespace, "name": &*victim.name },
        "deleteOptions": { "preconditions": { "uid": &*victim.uid } },
    })
}

/// A merge patch of a PodGroup's status: numbers that are 0 are taken out, as Volcano has it.
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

/// A merge patch of a queue's status; what is not used any more is taken out. What somebody else writes is not in it, not even as null.
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
        },
    })
}

/// `root` or `default`, as they are made where they are missing.
#[must_use]
pub fn new_queue(name: &str) -> Value {
    let spec = if name == ROOT_QUEUE { json!({}) } else { json!({ "parent": ROOT_QUEUE }) };
    json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": { "name": name }, "spec": spec })
}

/// The queues that are made where they are missing.
pub const MADE: [&str; 2] = [ROOT_QUEUE, DEFAULT_QUEUE];

/// A strategic patch of a pod's status: conditions are merged by their type, so that nobody else's is touched.
#[must_use]
pub fn pod_patch(uid: &Uid, condition: &PodCondition, now: Timestamp) -> Value {
    json!({
        "metadata": { "uid": &**uid },
        "status": { "conditions": [{
            "type": condition.kind,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": seconds(now),
        }] },
    })
}

/// The condition of a pod that goes for a gang, in the words of Kubernetes; what people read names for whom.
#[must_use]
pub fn disruption_patch(eviction: &Eviction, victim: &Victim, now: Timestamp) -> Value {
    let condition = PodCondition {
        kind: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("PreemptionByScheduler".to_owned()),
        message: Some(taken(eviction)),
    };
    pod_patch(&victim.uid, &condition, now)
}

/// An Event about a pod that goes for a gang.
#[must_use]
pub fn victim_event(eviction: &Eviction, victim: &Victim, now: Timestamp) -> Value {
    let about: BTreeMap<&str, &str> =
        [("apiVersion", "v1"), ("kind", "Pod"), ("namespace", &*victim.namespace), ("name", &*victim.name), ("uid", &*victim.uid)].into();
    let reason = match eviction.cause {
        EvictionCause::Reclaim => "Reclaimed",
        EvictionCause::Preemption => "Preempted",
        EvictionCause::Release => RELEASED,
    };
    warning(&about, &victim.namespace, reason, &taken(eviction), now)
}

/// An Event about a gang of which those go that are bound; none where they go for others.
#[must_use]
pub fn release_event(eviction: &Eviction, gone: usize, now: Timestamp) -> Option<Value> {
    let message =
        format!("{gone} members that were bound are evicted, because the rest found no places for too long; it waits as a whole now");
    let released = eviction.cause == EvictionCause::Release && gone > 0;
    released.then(|| event(&eviction.group, &eviction.group_uid, RELEASED, &message, now))
}

/// The reason of what is said where a gang is let go.
const RELEASED: &str = "Released";

fn taken(eviction: &Eviction) -> String {
    let Eviction { group, queue, .. } = eviction;
    match eviction.cause {
        EvictionCause::Reclaim => format!("{SCHEDULER}: reclaimed for PodGroup {group}, whose queue {queue} is below its share"),
        EvictionCause::Preemption => format!("{SCHEDULER}: preempted for PodGroup {group} of queue {queue}, which has a higher priority"),
        EvictionCause::Release => format!("{SCHEDULER}: let go with PodGroup {group}, the rest of which found no places for too long"),
    }
}

/// The reason of an Event on a queue that cannot be used as it is.
const INVALID_QUEUE: &str = "InvalidQueue";

/// The namespace of Events about objects that have none, as everywhere in Kubernetes.
pub const CLUSTER_EVENTS: &str = "default";

/// An Event about a queue that cannot be used as it is.
#[must_use]
pub fn queue_event(name: &str, uid: &Uid, message: &str, now: Timestamp) -> Value {
    let about = [("apiVersion", "scheduling.volcano.sh/v1beta1"), ("kind", "Queue"), ("name", name), ("uid", &**uid)];
    warning(&about.into(), CLUSTER_EVENTS, INVALID_QUEUE, message, now)
}

/// An Event about a PodGroup that waits.
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
    let time = seconds(now);
    // The API server takes no note of more than 1024 bytes.
    let note: String = message.chars().take(250).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "namespace": namespace, "generateName": format!("{SCHEDULER}-") },
        "involvedObject": about,
        "reason": reason,
        "message": note,
        "type": "Warning",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": { "component": SCHEDULER },
        "reportingComponent": SCHEDULER,
        "reportingInstance": SCHEDULER,
    })
}
