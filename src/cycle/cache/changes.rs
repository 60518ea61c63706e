//! The changes that an event or a decision made to the cache.
//!
//! The cache stores the changes; `state` passes each change on to the modules that depend on it.

use std::sync::Arc;

use crate::api::{GroupKey, PodFacts, Uid};
use crate::cycle::placement::topology::selection::SelectorId;

/// A change after which waiting PodGroups may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The node has more room, or takes pods that it refused before.
    Node(Arc<str>),
    /// A pod that these selectors match counts on its node.
    PodCame(Vec<SelectorId>),
    /// A pod that these selectors match, or whose anti-affinity has them, counts on its node no more.
    PodLeft(Vec<SelectorId>),
    /// These labels of a node changed: the topology domains of these keys, and which nodes count where they are chosen by their labels.
    Labels(Vec<Arc<str>>),
    /// What counts in the topology domains changed, whatever their keys are.
    Domains,
    /// Less is used or reserved in the queue, and so in every queue above it.
    Quota(Arc<str>),
    /// A limit, a priority or a node changed in a way that may matter to every PodGroup.
    Everything,
}

impl From<Wake> for Change {
    fn from(wake: Wake) -> Self {
        Self::Wake(wake)
    }
}

/// A member that had a node, and is gone or has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct LostMember {
    /// Its facts while it had the node.
    pub facts: Arc<PodFacts>,
    /// The node.
    pub node: Arc<str>,
    /// The queue that it was charged to.
    pub queue: Arc<str>,
}

/// One change of the cache.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Waiting PodGroups may succeed now.
    Wake(Wake),
    /// The PodGroup or one of its members changed or was deleted.
    Group(GroupKey),
    /// The spec of the PodGroup changed.
    Request(GroupKey),
    /// The minimum or the queue of the PodGroup changed, and so what it may reserve.
    Minimum(GroupKey),
    /// The PodGroup has ended or is gone: nothing is reserved for it.
    Ended(GroupKey),
    /// A member that had a node is gone or has failed. It comes before the release of its charge.
    Lost(Box<LostMember>),
    /// A member is gone or has failed.
    MemberGone(GroupKey),
    /// A member without a node is new or changed.
    WaitingPod(GroupKey),
    /// A partially bound gang has all its nodes: its eviction with this number is not needed any more.
    Complete(u64),
    /// A bind ended, so fewer are under way.
    BindEnded,
    /// The pod holds nothing any more.
    Released(Uid),
    /// The object of the pod is gone.
    PodGone(Uid),
    /// The possible preemptions of the pod changed, alone or together with other pods.
    Victim(Uid),
    /// The possible preemptions of any pods changed, or the queues' shares changed.
    Victims,
    /// Disruption budgets allow more evictions, or select other pods.
    Budgets,
    /// The object of the node changed or is gone.
    NodeObject(Arc<str>),
    /// In some dimension nothing is reserved for a minimum any more, or nothing of it counts (A7).
    MinimumsServed,
    /// Pods fill more of the guarantees than before (F3), while PodGroups without a reservation wait for room.
    FloorsFilled,
    /// In some dimension more is reserved for a minimum, or more of it counts (A7).
    MinimumsReserved,
    /// The limits or the tree of the queues changed.
    Queues,
}
