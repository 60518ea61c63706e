//! The Queue of `scheduling.volcano.sh/v1beta1`, and the facts that the scheduler reads from it. The doc comments of its fields become the
//! descriptions in the CRD.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ClusterResourceScope, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resources::{Amount, Limits, ResourceName, quantity};

use super::fault::Fault;
use super::misspelt::means_desired_state;
use super::names::{CLOSED, CLOSING, OPEN, QUEUE_DESIRED_STATE};
use super::podgroup::QUEUE;
use super::quantities::{self, RawResources};
use super::uid::Uid;
use super::unknown_fields;
use super::wire::resource;

/// A queue with a quota of the cluster's resources. Queues form a tree.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Queue {
    /// The apiVersion and kind. Only an object that is written needs them.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default, deserialize_with = "unknown_fields::remember")]
    pub spec: QueueSpec,
    /// The observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<QueueStatus>,
}

resource!(Queue, "scheduling.volcano.sh", "v1beta1", "Queue", "queues", ClusterResourceScope);

/// The desired state of a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct QueueSpec {
    /// The node groups that the pods of the queue may or may not use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<QueueAffinity>,
    /// The most resources that the queue and all queues below it may use. A resource without an entry is not limited; 0 means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<RawResources>,
    /// Whether the first PodGroup of the queue blocks the others while it waits (fifo) or not (traverse).
    #[schemars(extend("default" = "traverse", "enum" = ["fifo", "traverse"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dequeue_strategy: Option<String>,
    /// The fair share. The queue can reclaim it from queues that borrowed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<RawResources>,
    /// Other clusters that lend resources to this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_clusters: Option<Vec<ExtendCluster>>,
    /// The resources that are reserved for the queue. Other queues may not use them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Guarantee>,
    /// The name of the parent queue; `root` if unset.
    #[schemars(length(max = 253), extend("pattern" = QUEUE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The priority among sibling queues. The higher one is served first.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether other queues may reclaim what this queue uses beyond its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimable: Option<bool>,
    /// A free text of the user.
    #[schemars(length(max = 253))]
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The weight of the queue among its siblings, when the remaining resources of the parent are divided.
    #[schemars(range(min = 1, max = 65535), extend("default" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// The names of the first unknown fields.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

impl unknown_fields::Spec for QueueSpec {
    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

/// The node groups that the pods of a queue may or may not use.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueAffinity {
    /// The node groups to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_affinity: Option<NodeGroups>,
    /// The node groups to avoid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_anti_affinity: Option<NodeGroups>,
}

/// The names of node groups.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeGroups {
    /// The preferred node groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_during_scheduling_ignored_during_execution: Option<Vec<String>>,
    /// The required node groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<Vec<String>>,
}

/// Another cluster that lends resources to a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendCluster {
    /// The resources that the cluster lends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RawResources>,
    /// The name of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The weight of the cluster among the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// The guarantee of a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Guarantee {
    /// The reserved resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<RawResources>,
}

/// The observed state of a queue. Only the scheduler writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct QueueStatus {
    /// The resources that the pods of the queue and of all queues below it use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<RawResources>,
    /// The number of completed PodGroups.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<i32>,
    /// The number of PodGroups that are admitted and not running yet.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inqueue: Option<i32>,
    /// The number of pending PodGroups.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<i32>,
    /// The resources that are reserved for the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// The number of running PodGroups.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
    /// Whether the queue admits new PodGroups.
    #[schemars(extend("enum" = ["Open", "Closed", "Closing", "Unknown"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The number of PodGroups in the phase Unknown.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<i32>,
    /// What the queue and all queues below it use of its capability, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// What is wrong with the queue; unset if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The resources that are reserved for a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservation {
    /// The names of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// The reserved resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<RawResources>,
}

/// How a queue treats its other PodGroups while the first one cannot be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DequeueStrategy {
    /// No other PodGroup is scheduled before the first one.
    Fifo,
    /// The other PodGroups are tried too.
    #[default]
    Traverse,
}

/// What a queue says about node groups in its `spec.affinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGroupAffinity {
    /// The node groups that are labelled for it: those of `nodeGroupAffinity`, preferred and required.
    pub own: BTreeSet<String>,
    /// The node groups that Volcano lets its pods go to: its own but for those that it requires to keep away from, and those that it only
    /// prefers to keep away from.
    pub allowed: BTreeSet<String>,
}

impl NodeGroupAffinity {
    /// Which of these node groups are barred to the pods of a queue with this affinity, or with none.
    #[must_use]
    pub fn barred(own: Option<&Self>, named: &BTreeSet<String>) -> BTreeSet<String> {
        named.iter().filter(|group| !own.is_some_and(|own| own.allowed.contains(*group))).cloned().collect()
    }
}

/// The facts about a Queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueFacts {
    /// The name of the queue. Queues are cluster-scoped.
    pub name: String,
    /// The UID of the queue.
    pub uid: Uid,
    /// The name of the parent queue; `None` means `root`.
    pub parent: Option<String>,
    /// The most resources that the queue may use.
    pub capability: Limits,
    /// The fair share that the queue states; unset in a resource that it does not name.
    pub deserved: Limits,
    /// The guarantee that the queue states. How much of it is in force depends on the cluster and the parent.
    pub guarantee: Limits,
    /// The weight among the siblings; at least 1.
    pub weight: u32,
    /// Whether other queues may reclaim what it uses beyond its share.
    pub reclaimable: bool,
    /// How the queue treats its other PodGroups while the first one waits.
    pub dequeue_strategy: DequeueStrategy,
    /// The field that requires node groups, which are not supported yet; `None` if the queue requires none.
    pub node_groups: Option<&'static str>,
    /// What it says about node groups; none where it says nothing, and then what the queue above it says holds.
    pub node_group_affinity: Option<NodeGroupAffinity>,
    /// Whether the annotation of this queue closes it. A closed parent does not count here.
    pub closed_by_hand: bool,
    /// The priority among sibling queues. The higher one is served first.
    pub priority: i32,
    /// The current status, so that an unchanged status is not written again.
    pub status: QueueStatus,
    /// The values that could not be used.
    pub faults: Vec<Fault>,
}

impl QueueFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(queue: &Queue) -> Self {
        let mut faults = Vec::new();
        let spec = &queue.spec;
        let guarantee = spec.guarantee.as_ref().and_then(|guarantee| guarantee.resource.as_ref());
        // This fault comes first, because it keeps every pod of the queue from being placed.
        let node_groups = node_groups(spec.affinity.as_ref(), &mut faults);
        let mut facts = Self {
            name: queue.metadata.name.clone().unwrap_or_default(),
            uid: Uid::from(queue.metadata.uid.as_deref().unwrap_or_default()),
            parent: spec.parent.clone().filter(|parent| !parent.is_empty()),
            capability: quantities::limits(spec.capability.as_ref(), "spec.capability", &mut faults),
            deserved: quantities::promised(spec.deserved.as_ref(), "spec.deserved", &mut faults),
            guarantee: quantities::promised(guarantee, "spec.guarantee.resource", &mut faults),
            weight: spec.weight.and_then(|weight| u32::try_from(weight).ok()).unwrap_or(1).max(1),
            reclaimable: spec.reclaimable.unwrap_or(true),
            dequeue_strategy: dequeue_strategy(spec.dequeue_strategy.as_deref(), &mut faults),
            node_groups,
            node_group_affinity: spec.affinity.as_ref().map(node_group_affinity),
            closed_by_hand: closed_by_hand(&queue.metadata, &mut faults),
            priority: spec.priority.unwrap_or(0),
            status: queue.status.clone().unwrap_or_default(),
            faults,
        };
        // After the others, because they block nothing: the Event of a queue has the first fault.
        for (place, promised) in [("spec.guarantee.resource", &facts.guarantee), ("spec.deserved", &facts.deserved)] {
            facts.faults.extend(above_capability(place, promised, &facts.capability));
        }
        let slips: Vec<Fault> = facts
            .stated()
            .into_iter()
            .flat_map(|(place, limits)| limits.iter().filter_map(move |(name, amount)| slip(place, name, amount)))
            .collect();
        facts.faults.extend(slips);
        let keys = queue.metadata.annotations.iter().flatten().filter(|(key, _)| means_desired_state(key));
        let why = format!("no such annotation, it is not read; meant may be {QUEUE_DESIRED_STATE}");
        facts.faults.extend(keys.map(|(key, value)| Fault::new(key.as_str(), value, why.as_str())));
        facts.faults.extend(unknown_fields::fault(&spec.unknown));
        facts
    }

    /// The amounts that the queue states, each with the path of their field.
    #[must_use]
    pub const fn stated(&self) -> [(&'static str, &Limits); 3] {
        [("spec.capability", &self.capability), ("spec.deserved", &self.deserved), ("spec.guarantee.resource", &self.guarantee)]
    }
}

impl QueueFacts {
    /// Returns the facts for `--queue-status=obey`: another controller writes `status.state`, which says whether this queue is open. A
    /// missing state means open.
    #[must_use]
    pub fn obeying(mut self) -> Self {
        if self.closed_by_hand {
            let why = "not read with --queue-status=obey, where status.state says whether a queue is open";
            // Before unknown fields, which block nothing: the Event of a queue has the first fault.
            let at = self.faults.iter().position(|fault| fault.place == unknown_fields::PLACE).unwrap_or(self.faults.len());
            self.faults.insert(at, Fault::new(QUEUE_DESIRED_STATE, CLOSED, why));
        }
        self.closed_by_hand = matches!(self.status.state.as_deref(), Some(CLOSED | CLOSING));
        self
    }
}

/// Returns a fault for an amount that is most likely a slip: more CPUs or devices than any cluster has (`cpu: 4Mi`, `nvidia.com/gpu: 8Gi`), or
/// less memory than any pod needs (`memory: 16`). It is used as it is. Plugins that share a device count its memory in MiB at the smallest.
fn slip(place: &str, name: &ResourceName, amount: Amount) -> Option<Fault> {
    let [many, little, devices] = [1_000_000, 1 << 20, 1 << 30].map(Amount::from_units);
    let of_bytes = matches!(name.as_str(), ResourceName::MEMORY | "ephemeral-storage");
    let why = if name.as_str() == ResourceName::CPU && amount >= many {
        "a million CPUs and more: most likely another unit is meant"
    } else if name.is_device() && amount >= devices {
        "a billion and more of what is counted: most likely no unit is meant"
    } else if of_bytes && amount.is_positive() && amount < little {
        "less than a mebibyte: most likely a unit is missing, as Gi"
    } else {
        return None;
    };
    Some(Fault::new(format!("{place}.{name}"), &quantity::format(amount, name.style()), why))
}

/// Returns a fault for each dimension in which what is promised to the queue is above what it may use (F2, S2).
fn above_capability(place: &str, promised: &Limits, capability: &Limits) -> impl Iterator<Item = Fault> {
    promised.iter().filter_map(move |(name, amount)| {
        let most = capability.get(name).filter(|most| amount > *most)?;
        let [amount, most] = [amount, most].map(|amount| quantity::format(amount, name.style()));
        Some(Fault::new(format!("{place}.{name}"), &amount, format!("above the capability of the queue, {most}; it counts as {most}")))
    })
}

fn dequeue_strategy(raw: Option<&str>, faults: &mut Vec<Fault>) -> DequeueStrategy {
    match raw {
        Some("fifo") => DequeueStrategy::Fifo,
        None | Some("" | "traverse") => DequeueStrategy::Traverse,
        Some(other) => {
            faults.push(Fault::new("spec.dequeueStrategy", other, "neither fifo nor traverse; it counts as traverse"));
            DequeueStrategy::Traverse
        }
    }
}

fn node_groups(affinity: Option<&QueueAffinity>, faults: &mut Vec<Fault>) -> Option<&'static str> {
    let fields = [
        ("spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution", &affinity?.node_group_affinity),
        ("spec.affinity.nodeGroupAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", &affinity?.node_group_anti_affinity),
    ];
    let (field, names) = fields.into_iter().find_map(|(field, groups)| {
        let names = groups.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()?;
        (!names.is_empty()).then_some((field, names))
    })?;
    faults.push(Fault::new(field, &names.join(", "), "groups of nodes cannot be honoured yet; nothing is placed in this queue"));
    Some(field)
}

fn node_group_affinity(affinity: &QueueAffinity) -> NodeGroupAffinity {
    type Names = Option<Vec<String>>;
    let names = |groups: &Option<NodeGroups>, of: fn(&NodeGroups) -> &Names| -> BTreeSet<String> {
        groups.as_ref().and_then(|groups| of(groups).clone()).into_iter().flatten().collect()
    };
    let preferred: fn(&NodeGroups) -> &Names = |groups| &groups.preferred_during_scheduling_ignored_during_execution;
    let required: fn(&NodeGroups) -> &Names = |groups| &groups.required_during_scheduling_ignored_during_execution;
    let (to, away) = (&affinity.node_group_affinity, &affinity.node_group_anti_affinity);
    let own: BTreeSet<String> = names(to, preferred).into_iter().chain(names(to, required)).collect();
    let never = names(away, required);
    let allowed = own.difference(&never).cloned().chain(names(away, preferred)).collect();
    NodeGroupAffinity { own, allowed }
}

/// Returns whether the annotation of the queue closes it. O1
fn closed_by_hand(metadata: &ObjectMeta, faults: &mut Vec<Fault>) -> bool {
    match metadata.annotations.as_ref().and_then(|annotations| annotations.get(QUEUE_DESIRED_STATE)).map(String::as_str) {
        Some(CLOSED) => true,
        None | Some(OPEN) => false,
        Some(other) => {
            faults.push(Fault::new(QUEUE_DESIRED_STATE, other, format!("neither {OPEN} nor {CLOSED}; it counts as {OPEN}")));
            false
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
