//! The Queue of `scheduling.volcano.sh/v1beta1`: its fields as other tools write and read them (volcano-api.md), and what they mean.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ClusterResourceScope, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resources::Limits;
use crate::rules::{Rule, holds};

use super::fault::Fault;
use super::names::{CLOSED, CLOSING, OPEN, QUEUE_DESIRED_STATE};
use super::podgroup::QUEUE;
use super::quantities::{self, RawResources};
use super::uid::Uid;
use super::wire::resource;

/// A share of the cluster, in a tree of shares.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Queue {
    /// What the object says it is; only an object that is written needs it.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: QueueSpec,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<QueueStatus>,
}

resource!(Queue, "scheduling.volcano.sh", "v1beta1", "Queue", "queues", ClusterResourceScope);

/// What is wanted of a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct QueueSpec {
    /// Which groups of nodes the queue's pods may or may not use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<QueueAffinity>,
    /// The ceiling: the queue and everything below it never use more. A name that is not there is not limited; 0 is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<RawResources>,
    /// Whether the queue waits for its first group (fifo) or lets others pass (traverse).
    #[schemars(extend("default" = "traverse", "enum" = ["fifo", "traverse"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dequeue_strategy: Option<String>,
    /// The fair share, which is reclaimed from those who borrowed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<RawResources>,
    /// Other clusters that lend to this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_clusters: Option<Vec<ExtendCluster>>,
    /// The floor, which nobody else may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Guarantee>,
    /// The queue above this one; `root` where it is unset.
    #[schemars(length(max = 253), extend("pattern" = QUEUE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Which of two sibling queues comes first: the higher.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether others may take back what this queue uses beyond its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimable: Option<bool>,
    /// A word of the user's own.
    #[schemars(length(max = 253))]
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The queue's part of what its parent has left, beside its siblings.
    #[schemars(range(min = 1, max = 65535), extend("default" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// Which groups of nodes a queue's pods may or may not use.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueAffinity {
    /// Groups of nodes to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_affinity: Option<NodeGroups>,
    /// Groups of nodes to keep away from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_anti_affinity: Option<NodeGroups>,
}

/// Names of groups of nodes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeGroups {
    /// Where it can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_during_scheduling_ignored_during_execution: Option<Vec<String>>,
    /// Without exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<Vec<String>>,
}

/// Another cluster that lends to a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendCluster {
    /// How much it lends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RawResources>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its part beside the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// A floor.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Guarantee {
    /// How much is kept free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<RawResources>,
}

/// What came of a queue. Written by the scheduler alone (design.md §2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct QueueStatus {
    /// What the pods of the queue and of all queues below it use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<RawResources>,
    /// How many of its groups are completed.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<i32>,
    /// How many of its groups are admitted and not yet running.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inqueue: Option<i32>,
    /// How many of its groups wait.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<i32>,
    /// What is kept free for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// How many of its groups run.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
    /// Whether it takes new groups.
    #[schemars(extend("enum" = ["Open", "Closed", "Closing", "Unknown"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How many of its groups are in a state that nobody can name.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<i32>,
}

/// What is kept free for a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservation {
    /// On these nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// This much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<RawResources>,
}

/// What a queue does while its first group finds no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DequeueStrategy {
    /// Nobody passes the first.
    Fifo,
    /// Others pass.
    #[default]
    Traverse,
}

/// What a queue says about node groups in its `spec.affinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGroupAffinity {
    /// The node groups that are labelled for it: those of `nodeGroupAffinity`, preferred and required.
    pub own: BTreeSet<String>,
    /// The node groups that Volcano lets its pods go to: its own but for those that it requires to keep away from, and those that it only prefers to keep away from.
    pub allowed: BTreeSet<String>,
}

impl NodeGroupAffinity {
    /// Which of these node groups are barred to the pods of a queue with this affinity, or with none.
    #[must_use]
    pub fn barred(own: Option<&Self>, named: &BTreeSet<String>) -> BTreeSet<String> {
        named.iter().filter(|group| !own.is_some_and(|own| own.allowed.contains(*group))).cloned().collect()
    }
}

/// A queue as the scheduler knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueFacts {
    /// Its name; queues are cluster-scoped.
    pub name: String,
    /// Its identity.
    pub uid: Uid,
    /// The queue above it; none means `root`.
    pub parent: Option<String>,
    /// Its ceiling.
    pub capability: Limits,
    /// Its fair share, where it is stated.
    pub deserved: Limits,
    /// Its floor, where it is stated.
    pub guarantee: Limits,
    /// Its part of what its parent has left, beside its siblings; at least 1.
    pub weight: u32,
    /// Whether others may take back what it uses beyond its share.
    pub reclaimable: bool,
    /// Whether it waits for its first group.
    pub dequeue_strategy: DequeueStrategy,
    /// The field by which it asks for groups of nodes without exception, which we cannot honour yet.
    pub node_groups: Option<&'static str>,
    /// What it says about node groups; none where it says nothing, and then what the queue above it says holds.
    pub node_group_affinity: Option<NodeGroupAffinity>,
    /// Whether somebody closed this very queue.
    pub closed_by_hand: bool,
    /// Which of two siblings comes first: the higher.
    pub priority: i32,
    /// What its status says now, so that nothing is written that stands there already.
    pub status: QueueStatus,
    /// What could not be read.
    pub faults: Vec<Fault>,
}

impl QueueFacts {
    /// What this object says.
    #[must_use]
    pub fn of(queue: &Queue) -> Self {
        let mut faults = Vec::new();
        let spec = &queue.spec;
        let guarantee = spec.guarantee.as_ref().and_then(|guarantee| guarantee.resource.as_ref());
        // What nothing is placed for is told before what costs a value only.
        let node_groups = node_groups(spec.affinity.as_ref(), &mut faults);
        Self {
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
        }
    }
}

impl QueueFacts {
    /// The same where somebody else says by `status.state` whether this very queue takes new groups (`--queue-status=obey`). A state that nobody wrote yet is open.
    #[must_use]
    pub fn obeying(mut self) -> Self {
        if self.closed_by_hand {
            let why = "not read with --queue-status=obey, where status.state says whether a queue is open";
            self.faults.push(Fault::new(QUEUE_DESIRED_STATE, CLOSED, why));
        }
        self.closed_by_hand = matches!(self.status.state.as_deref(), Some(CLOSED | CLOSING));
        self
    }
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

/// O1.
fn closed_by_hand(metadata: &ObjectMeta, faults: &mut Vec<Fault>) -> bool {
    match metadata.annotations.as_ref().and_then(|annotations| annotations.get(QUEUE_DESIRED_STATE)).map(String::as_str) {
        Some(CLOSED) => holds(Rule::O1),
        None | Some(OPEN) => false,
        Some(other) => {
            faults.push(Fault::new(QUEUE_DESIRED_STATE, other, format!("neither {OPEN} nor {CLOSED}; it counts as {OPEN}")));
            !holds(Rule::O1Other)
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
