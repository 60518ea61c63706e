//! Facts for the tests of this folder and of the scheduler: the simplest ones, which a test changes as needed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::pod_facts::{Constraints, PodPhase};
use crate::api::podgroup::PodGroupStatus;
use crate::api::queue::{DequeueStrategy, QueueStatus};
use crate::api::{GroupFacts, GroupKey, NodeFacts, PodFacts, PriorityClassFacts, QueueFacts, Uid};
use crate::cycle::placement::Strategy;
use crate::cycle::policy::Policy;
use crate::resources::{Amount, Limits, Resources};

/// The default settings.
pub(crate) const POLICY: Policy =
    Policy { placement: Strategy::Spread, evictions: true, admission_timeout: Duration::from_secs(30), release: Duration::from_secs(300) };

/// No pod is ever evicted.
pub(crate) const PEACEFUL: Policy = Policy { evictions: false, ..POLICY };

/// Whole units by name.
pub(crate) fn amounts(list: &[(&str, i64)]) -> Resources {
    list.iter().map(|(name, units)| ((*name).into(), Amount::from_units(*units))).collect()
}

/// The same as limits.
pub(crate) fn limits(list: &[(&str, i64)]) -> Limits {
    list.iter().map(|(name, units)| ((*name).into(), Amount::from_units(*units))).collect()
}

/// A node that offers this and 110 pods.
pub(crate) fn node(name: &str, offers: &[(&str, i64)]) -> NodeFacts {
    NodeFacts {
        name: Arc::from(name),
        uid: Uid::from(name),
        allocatable: amounts(offers).with("pods", Amount::from_units(110)),
        labels: [].into(),
        taints: Vec::new(),
        unschedulable: false,
        faults: Vec::new(),
    }
}

/// A pod of ours that waits; its UID is `ns/name`.
pub(crate) fn pod(namespace: &str, name: &str, group: &str, asks: &[(&str, i64)]) -> PodFacts {
    PodFacts {
        namespace: Arc::from(namespace),
        name: Arc::from(name),
        uid: Uid::from(format!("{namespace}/{name}").as_str()),
        resource_version: 1,
        labels: [].into(),
        scheduler: Arc::from("podgroup-scheduler"),
        node: None,
        phase: PodPhase::Pending,
        deleting: false,
        ready: false,
        grace: Duration::from_secs(30),
        created: Timestamp::UNIX_EPOCH,
        group: GroupKey::new(namespace, group),
        names_group: true,
        charged_queue: None,
        queue_path: None,
        task: None,
        request: amounts(asks).with("pods", Amount::from_units(1)),
        priority: 0,
        preempts: true,
        preemptable: true,
        protected: false,
        gated: false,
        constraints: Constraints::default(),
        unsupported: Vec::new(),
        anti_affinity: Vec::new(),
        scheduled_condition: None,
        nominated_node: None,
        faults: Vec::new(),
    }
}

/// The same, seen on a node and running.
pub(crate) fn running(mut pod: PodFacts, node: &str) -> PodFacts {
    pod.node = Some(Arc::from(node));
    pod.phase = PodPhase::Running;
    pod.ready = true;
    pod
}

/// A PodGroup of the queue.
pub(crate) fn group(namespace: &str, name: &str, min_member: u32, queue: &str) -> GroupFacts {
    GroupFacts {
        key: GroupKey::new(namespace, name),
        uid: Uid::from(format!("{namespace}/{name}/group").as_str()),
        resource_version: "1".into(),
        min_member,
        min_resources: None,
        min_task_member: [].into(),
        queue: queue.into(),
        priority_class: None,
        preemptable: true,
        protected: false,
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        network_topology: false,
        sub_groups: false,
        status: PodGroupStatus::default(),
        faults: Vec::new(),
    }
}

/// A priority class of this value that preempts.
pub(crate) fn class(name: &str, value: i32) -> PriorityClassFacts {
    PriorityClassFacts { name: name.into(), value, preempts: true }
}

/// A queue below `parent` with this ceiling.
pub(crate) fn queue(name: &str, parent: Option<&str>, capability: &[(&str, i64)]) -> QueueFacts {
    QueueFacts {
        name: name.into(),
        uid: Uid::from(name),
        parent: parent.map(Into::into),
        capability: limits(capability),
        deserved: Limits::new(),
        guarantee: Limits::new(),
        weight: 1,
        reclaimable: true,
        dequeue_strategy: DequeueStrategy::Traverse,
        node_groups: None,
        node_group_affinity: None,
        closed_by_hand: false,
        priority: 0,
        status: QueueStatus::default(),
        faults: Vec::new(),
    }
}
