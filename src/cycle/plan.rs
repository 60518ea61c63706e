//! What did a cycle decide?

use std::sync::Arc;

use crate::api::volumes::ClaimKey;
use crate::api::{GroupKey, Uid};

/// The decisions of one cycle. They are charged already and must be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what is planned is charged already and must be bound or forgotten"]
pub struct Plan {
    /// The pods to bind, in the order in which they were placed; the members of a gang stand together.
    pub binds: Vec<Bind>,
    /// The writes by which claims get volumes. Their pods are charged already, and bound by a later cycle.
    pub volumes: Vec<VolumeWrite>,
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
    /// The minMember that this was decided on, where the pod is one more of a gang that has its minimum: a user may just have raised that,
    /// and then the pod goes with others or not at all (#6010). None where nothing depends on it.
    pub minimum: Option<u32>,
}

/// A write by which a claim gets a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeWrite {
    /// The number of the binding that it is for, never used again by this process.
    pub binding: u64,
    /// The claim.
    pub claim: ClaimKey,
    /// Its UID.
    pub claim_uid: Uid,
    /// What is written.
    pub tie: Tie,
}

/// What a claim is tied to. The write names the resourceVersion that the decision is made on, so that it changes nothing that has changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tie {
    /// To a volume, which names the claim from now on.
    Volume {
        /// The name of the volume.
        name: Arc<str>,
        /// The resourceVersion of the volume.
        resource_version: u64,
        /// Whether it names the claim already, without its UID: it stays reserved for the name of the claim then.
        is_named: bool,
    },
    /// To a node, for which its provisioner makes a volume.
    Node {
        /// The name of the node.
        name: Arc<str>,
        /// The resourceVersion of the claim.
        resource_version: u64,
    },
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
    /// PodGroups of lower priority in its own queue are preempted (R1b).
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
