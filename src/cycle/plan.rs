//! What did a cycle decide?

use std::sync::Arc;

use crate::api::{GroupKey, Uid};

/// The decisions of one cycle. They are charged already and must be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what is planned is charged already and must be bound or forgotten"]
pub struct Plan {
    /// The pods to bind, in the order in which they were placed; the members of a gang stand together.
    pub binds: Vec<Bind>,
    /// The evictions, in the order in which they were decided.
    pub evictions: Vec<Eviction>,
    /// The PodGroups that the cycle tried: their status may have changed.
    pub tried: Vec<GroupKey>,
    /// The PodGroups that an earlier leader had nominated and that are nominated again. Some of them may be among the binds already.
    pub nominated_again: Vec<GroupKey>,
}

/// A pod to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The pod.
    pub uid: Uid,
    /// The resourceVersion of the pod that the decision is made on; 0 where it is no number.
    pub resource_version: u64,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The queue it is charged to, which the binding writes onto it.
    pub queue: Arc<str>,
    /// The path of queues from `root` down to that queue, as the binding writes it.
    pub path: Arc<str>,
    /// Its PodGroup.
    pub group: GroupKey,
    /// The minMember that this was decided on, where the pod is one more of a gang that has its minimum: a user may just have raised that, and then the
    /// pod goes with others or not at all (#6010). None where nothing depends on it.
    pub minimum: Option<u32>,
}

/// One eviction: the victims that make room for a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The number of its nomination, never used again by this process.
    pub nomination: u64,
    /// The PodGroup that preempts.
    pub group: GroupKey,
    /// Its UID.
    pub group_uid: Uid,
    /// Its queue.
    pub queue: Arc<str>,
    /// The cause of the eviction.
    pub cause: EvictionCause,
    /// The victims, in the order of their evictions, without pods that are terminating already.
    pub victims: Vec<Victim>,
}

/// The cause of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// Room is reclaimed from other queues, up to the share of its own queue (R1).
    Reclaim,
    /// PodGroups of lower priority in its own queue are preempted (R11).
    Preemption,
    /// Its own partially bound gang is evicted.
    Release,
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The pod.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The queue that it is charged to.
    pub queue: Arc<str>,
    /// Its PodGroup.
    pub group: GroupKey,
}
