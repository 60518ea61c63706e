//! What did a cycle decide?

use std::sync::Arc;

use crate::api::{GroupKey, Uid};

/// The decisions of one cycle. The books hold them already; what is left is to carry them out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what is planned is charged already and must be bound or forgotten"]
pub struct Plan {
    /// The pods to bind, in the order in which they were placed; the members of a gang stand together.
    pub binds: Vec<Bind>,
    /// Who is to go for whom, in the order in which it was decided.
    pub evictions: Vec<Eviction>,
    /// The groups that were looked at: their status may have changed.
    pub looked_at: Vec<GroupKey>,
}

/// A pod to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The pod.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The queue it is charged to, which the binding writes onto it.
    pub queue: Arc<str>,
    /// Its group.
    pub group: GroupKey,
    /// The minMember that this was decided on, where the pod is one more of a gang that has its minimum: a user may just have raised that, and then the
    /// pod goes with others or not at all (#6010). None where nothing depends on it.
    pub minimum: Option<u32>,
}

/// One taking: the pods that go so that a gang has room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Which nomination it is for; never given again by this process.
    pub nomination: u64,
    /// The group that asks.
    pub group: GroupKey,
    /// Its UID.
    pub group_uid: Uid,
    /// The queue that it asks in.
    pub queue: Arc<str>,
    /// From whom it takes.
    pub taking: Taking,
    /// Who goes, in the order in which they are asked; those that are leaving already are not among them.
    pub victims: Vec<Victim>,
}

/// From whom a group takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// From other queues, up to its own queue's share (R1).
    Reclaim,
    /// From groups of its own queue that are of lower priority (R11).
    Preemption,
    /// From nobody: only a part of its gang could be bound, and that part is let go.
    Release,
}

/// A pod that goes.
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
    /// Its group.
    pub group: GroupKey,
}
