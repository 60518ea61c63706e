//! The changes that an event or a decision made to the cache.
//!
//! The cache notes these; `state` passes each on to the rooms that it matters to.

use std::sync::Arc;

use crate::api::{GroupKey, Uid};

/// A change after which PodGroups that wait may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The node has more room, or takes pods that it refused before.
    Node(Arc<str>),
    /// A pod that kept others away from its topology domain does so no longer, or the domains moved.
    AntiAffinity,
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

/// One thing that became different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// PodGroups that wait may succeed now.
    Wake(Wake),
    /// The PodGroup or one of its members is another than before, or gone.
    Group(GroupKey),
    /// The spec of the PodGroup changed.
    Request(GroupKey),
    /// The minimum or the queue of the PodGroup changed, and so what it may reserve.
    Minimum(GroupKey),
    /// The PodGroup has ended or is gone: nothing is reserved for it.
    Ended(GroupKey),
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
    /// The pod may be preempted otherwise than before, alone or with others.
    Victim(Uid),
    /// Pods that are not named may be preempted otherwise than before, or the queues' shares changed.
    Victims,
    /// Disruption budgets allow more, or guard other pods.
    Budgets,
    /// The object of the node changed or is gone.
    NodeObject(Arc<str>),
    /// The limits or the tree of the queues changed.
    Queues,
}
