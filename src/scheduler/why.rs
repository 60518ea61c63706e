//! Why does a group wait, in a word that a graph can count? One of a fixed set, with the level of the tree and the dimension that it is about.
//!
//! The same refusal is the message of the condition and of `/debug/queues`; so the three can never say different things.

use serde_json::{Value, json};

use crate::accounting::{Bound, Ceiling, QueueFault, Why as Fault};
use crate::cycle::explain::{Lack, Reason, Refusal, Tally};
use crate::resources::ResourceName;

/// Why one group waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Why<'a> {
    /// One of [`REASONS`].
    pub reason: &'static str,
    /// The queue that refuses: its own or one above it.
    pub at: Option<&'a str>,
    /// The dimension that is lacking.
    pub resource: Option<&'a str>,
}

/// Every reason that there is, by name.
pub const REASONS: [&str; 25] = [
    "backoff",
    "behind_in_fifo",
    "capability",
    "evicting",
    "kept_for_guarantees",
    "network_topology",
    "no_nodes",
    "no_podgroup",
    "node_affinity",
    "node_anti_affinity",
    "node_cordoned",
    "node_group",
    "node_resources",
    "node_selector",
    "node_taint",
    "not_looked_at",
    "queue_broken",
    "queue_closed",
    "queue_missing",
    "queue_not_leaf",
    "right",
    "too_few_members",
    "too_few_members_of_task",
    "unreadable",
    "unsupported",
];

impl<'a> Why<'a> {
    const fn plainly(reason: &'static str) -> Self {
        Self { reason, at: None, resource: None }
    }

    /// A group of which no cycle has said anything yet.
    pub const UNSEEN: Self = Self::plainly("not_looked_at");

    /// Pods whose group does not exist.
    pub const NO_GROUP: Self = Self::plainly("no_podgroup");

    /// What a cycle said.
    #[must_use]
    pub fn of(refusal: &'a Refusal) -> Self {
        match refusal {
            Refusal::NoGroup { .. } => Self::NO_GROUP,
            Refusal::Unsupported(_) | Refusal::SubGroups => Self::plainly("unsupported"),
            Refusal::NodeGroups { queue, .. } => Self { at: Some(queue), ..Self::plainly("unsupported") },
            Refusal::Faulty(_) => Self::plainly("unreadable"),
            Refusal::NetworkTopology => Self::plainly("network_topology"),
            Refusal::Queue(fault) => Self::of_queue(fault),
            Refusal::Closed { queue } => Self { at: Some(queue), ..Self::plainly("queue_closed") },
            Refusal::Ceiling(ceiling) => Self::of_ceiling(ceiling),
            Refusal::NotEnoughTasks { .. } => Self::plainly("too_few_members"),
            Refusal::NotEnoughPodsOfTask { .. } => Self::plainly("too_few_members_of_task"),
            Refusal::Nodes { tally, .. } => Self::of_nodes(tally),
            Refusal::Behind { .. } => Self::plainly("behind_in_fifo"),
            Refusal::Kept { refusal, .. } => Self::of(refusal),
            Refusal::Nominated { lack, .. } => Self::of_lack("evicting", lack.as_ref()),
            // A refused bind is about no resource: what it waits for is another answer.
            Refusal::Backoff { lack, .. } => Self::of_lack("backoff", lack.as_ref()),
            Refusal::Unanswered { .. } => Self::plainly("backoff"),
        }
    }

    /// As it stands in `/debug/queues`; null where there is none.
    #[must_use]
    pub fn json(self) -> Value {
        json!({ "reason": self.reason, "at": self.at, "resource": self.resource })
    }

    fn of_queue(fault: &'a QueueFault) -> Self {
        let reason = match &fault.why {
            Fault::NotFound => "queue_missing",
            Fault::MissingParent { .. } | Fault::Cycle | Fault::TooDeep | Fault::Guarantees(_) => "queue_broken",
            Fault::NotLeaf => "queue_not_leaf",
        };
        Self { at: Some(&fault.queue), ..Self::plainly(reason) }
    }

    fn of_ceiling(ceiling: &'a Ceiling) -> Self {
        let reason = match ceiling.bound {
            Bound::Entitlement => "right",
            Bound::Capability | Bound::Cluster if !ceiling.unused_guarantee.is_zero() => "kept_for_guarantees",
            Bound::Capability | Bound::Cluster => "capability",
        };
        Self { reason, at: Some(&ceiling.queue), resource: Some(ceiling.dimension.as_str()) }
    }

    fn of_lack(reason: &'static str, lack: Option<&'a Lack>) -> Self {
        let (at, resource) = (lack.and_then(|lack| lack.queue.as_deref()), lack.map(|lack| lack.dimension.as_str()));
        Self { reason, at, resource }
    }

    /// The reason that most nodes say, which is the one that the message begins with. The dimension is what those nodes lack that would take it otherwise: where most nodes are not for it
    /// at all (another kind of machine), it is the few others that it waits for.
    fn of_nodes(tally: &'a Tally) -> Self {
        // Every node is counted under one reason, so only where there are no nodes there is none.
        let Some(reason) = tally.first() else { return Self::plainly("no_nodes") };
        let reason = match reason {
            Reason::Unschedulable => "node_cordoned",
            Reason::Taint(_) => "node_taint",
            Reason::NodeGroup { .. } => "node_group",
            Reason::NodeSelector => "node_selector",
            Reason::NodeAffinity => "node_affinity",
            Reason::AntiAffinity { .. } => "node_anti_affinity",
            Reason::Lacks(_) => "node_resources",
        };
        Self { resource: tally.lacks().map(ResourceName::as_str), ..Self::plainly(reason) }
    }
}
