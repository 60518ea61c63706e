//! Facts for the tests of this folder and of the scheduler: the simplest ones, which a test changes as needed.

pub(super) mod histories;
pub(super) mod other_pods;
pub(super) mod steps;
pub(super) mod worlds;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::accounting::Stage;
use crate::api::label_selector::LabelSelector;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::pod_facts::{Constraints, PodPhase};
use crate::api::pod_terms::{AffinityTerm, PodSelector, PodTerms};
use crate::api::podgroup::PodGroupStatus;
use crate::api::queue::{DequeueStrategy, QueueStatus};
use crate::api::{GroupFacts, GroupKey, NodeFacts, PodFacts, PriorityClassFacts, QueueFacts, Uid};
use crate::cycle::cache::Member;
use crate::cycle::placement::Strategy;
use crate::cycle::policy::Policy;
use crate::cycle::state::SchedulingState;
use crate::resources::{Amount, Limits, Resources};

/// The default settings.
pub(crate) const POLICY: Policy = Policy {
    placement: Strategy::Spread,
    evictions: true,
    admit_within_nodes: false,
    admission_timeout: Duration::from_secs(30),
    release: Duration::from_secs(300),
    volume_timeout: Duration::from_secs(600),
};

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
        soft_taints: Vec::new(),
        unschedulable: false,
        declared_features: [].into(),
        csi: None,
        images: [].into(),
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
        ran_from: None,
        group: GroupKey::new(namespace, group),
        names_group: true,
        asks_alone: false,
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
        images: None,
        unsupported: Vec::new(),
        unusable_claim: None,
        terms: Arc::default(),
        scheduled_condition: None,
        fenced: false,
        nominated_node: None,
        faults: Vec::new(),
    }
}

/// Required anti-affinity against pods of the namespace with this label, in domains of the topology key.
pub(crate) fn keeps_away(namespace: &str, (key, value): (&str, &str), topology_key: &str) -> Arc<PodTerms> {
    let pods = PodSelector {
        namespaces: [Arc::from(namespace)].into(),
        namespace_selector: LabelSelector::Nothing,
        labels: LabelSelector::label(key, value),
    };
    Arc::new(PodTerms { anti_affinity: vec![AffinityTerm { pods, topology_key: Arc::from(topology_key) }], ..PodTerms::default() })
}

/// The same, seen on a node and running.
pub(crate) fn running(mut pod: PodFacts, node: &str) -> PodFacts {
    pod.node = Some(Arc::from(node));
    pod.phase = PodPhase::Running;
    pod.ready = true;
    pod
}

/// The node that is nominated for the pod.
pub(crate) fn nominated_node(member: &Member) -> Option<Arc<str>> {
    member.nominated.as_ref().map(|nominated| Arc::clone(&nominated.node))
}

/// The state of the next leader before its first cycle: it has read the same objects. Each waiting pod names this node as nominated, and
/// each binding under way has taken effect.
pub(crate) fn taken_over(state: &SchedulingState, named: impl Fn(&Member) -> Option<Arc<str>>) -> SchedulingState {
    let cache = state.cache();
    let mut next = SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]);
    cache.nodes().iter().for_each(|node| next.apply_node(NodeFacts::clone(node)));
    cache.queues().values().for_each(|queue| next.apply_queue(QueueFacts::clone(queue)));
    cache.priority_classes().values().for_each(|class| next.apply_priority_class(class.clone()));
    cache.groups().values().filter_map(|group| group.facts.as_ref()).for_each(|facts| next.apply_group(GroupFacts::clone(facts)));
    for (uid, foreign) in cache.accounting().pods().filter(|(_, pod)| pod.queue.is_none() && pod.stage == Stage::Observed) {
        let facts = running(pod("ns", uid.as_str().trim_start_matches("ns/"), "theirs", &[]), foreign.node.unwrap_or_default());
        let (scheduler, deleting) = (Arc::from("another"), cache.leaving().contains_key(uid));
        next.apply_pod(PodFacts { scheduler, deleting, names_group: false, request: foreign.resources.clone(), ..facts });
    }
    for member in cache.pods().values() {
        let mut facts = PodFacts::clone(&member.facts);
        facts.nominated_node = named(member).filter(|_| facts.node.is_none());
        if let Some(assumed) = member.assumed.as_ref().filter(|_| facts.node.is_none()) {
            facts = PodFacts { charged_queue: Some(assumed.queue.to_string()), nominated_node: None, ..running(facts, &assumed.node) };
        }
        next.apply_pod(facts);
    }
    next.read_nominations();
    next
}

/// A PodGroup of the queue.
pub(crate) fn group(namespace: &str, name: &str, min_member: u32, queue: &str) -> GroupFacts {
    GroupFacts {
        completions: None,
        awaits_owners: false,
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
        managed: false,
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        network_topology: false,
        sub_groups: Vec::new(),
        status: PodGroupStatus::default(),
        faults: Vec::new(),
        unknown: None,
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
