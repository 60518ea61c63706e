//! Why is a PodGroup or a pod not placed? As data, with a stable code (`code`); the text is made at the edge, by `Display` (`words`,
//! `words_of_nodes`).
//!
//! The counts are exact: every node is checked, and counted under the first predicate that refuses it; one that lacks resources under each
//! of them, as in kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::{Ceiling, QueueFault, QueueRefusal};
use crate::api::node::Taint;
use crate::api::unsupported::Unsupported;
use crate::api::volumes::UnusableClaim;
use crate::api::{Fault, GroupKey};
use crate::resources::{Amount, ResourceName};

mod code;
mod explanation;
mod not_preempted;
mod words;
mod words_of_nodes;

pub use code::{Cause, Code};
pub use explanation::{Explanation, NoPreemption, NodeReason, Nodes, Quota};
pub use not_preempted::{Excluded, Limit, NotPreempted, OverShare};

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is cordoned.
    Unschedulable,
    /// It has a taint that the pod does not tolerate.
    Taint(Taint),
    /// It is labelled for the node group of other queues.
    NodeGroup {
        /// The node group.
        group: String,
    },
    /// It lacks a label of the pod's nodeSelector.
    NodeSelector,
    /// No term of the pod's required node affinity holds for it.
    NodeAffinity,
    /// The pod's required node affinity names other nodes.
    NotNamed,
    /// Each term of the pod's required node affinity names two nodes at once, so no node can match it.
    NamesConflict,
    /// A pod there has a host port that the pod asks for.
    HostPorts,
    /// Too little is left of this.
    Lacks(ResourceName),
    /// It has no label with the topology key of a spread constraint.
    TopologySpreadLabel {
        /// The topology key.
        topology_key: String,
    },
    /// With this pod its topology domain would have too many of the pods that a spread constraint counts.
    TopologySpread {
        /// The topology key.
        topology_key: String,
    },
    /// Its topology domain has no pod of the kind that the pod's affinity requires.
    PodAffinity {
        /// The topology key.
        topology_key: String,
    },
    /// Its topology domain has a pod that the pod's anti-affinity selects.
    PodAntiAffinity {
        /// The topology key.
        topology_key: String,
    },
    /// The anti-affinity of a pod in its topology domain keeps this pod away.
    ExistingAntiAffinity {
        /// The topology key.
        topology_key: String,
    },
    /// A pod uses a claim of the pod that only one pod at a time may use.
    ClaimInUse,
    /// With the volumes of the pod it would have more of a driver than it takes.
    VolumeLimit,
    /// It cannot mount a volume of the pod.
    VolumeNodeAffinity,
    /// No free volume serves a claim of the pod there, and none is made there.
    NoVolume,
    /// A claim of the pod has no volume, and its storage has too little room there to make one.
    NotEnoughStorage,
    /// It is in no zone of a volume of the pod.
    VolumeZone,
    /// Its kubelet does not declare a feature that the pod needs.
    DeclaredFeature {
        /// The name of the feature.
        feature: &'static str,
    },
}

/// How many nodes refuse a pod, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many nodes there are.
    pub nodes: u32,
    /// By reason: the number of nodes, and for [`Reason::Lacks`] the requested amount and the most that any of them has left.
    pub reasons: BTreeMap<Reason, Count>,
}

/// How many nodes refuse for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub nodes: u32,
    /// The requested amount; 0 where the reason is no resource.
    pub asked: Amount,
    /// The most that any of them has left; 0 where the reason is no resource.
    pub most_free: Amount,
}

impl Tally {
    /// The most frequent first.
    fn listed(&self) -> Vec<(&Reason, &Count)> {
        let mut listed: Vec<_> = self.reasons.iter().collect();
        listed.sort_by(|a, b| b.1.nodes.cmp(&a.1.nodes).then(a.0.cmp(b.0)));
        listed
    }

    /// The reason of the nodes that are nearest to taking the pod: those that the last check refused, and of these the most. None where there
    /// are no nodes.
    #[must_use]
    pub fn nearest(&self) -> Option<&Reason> {
        self.reasons
            .iter()
            .max_by(|a, b| a.0.nearness().cmp(&b.0.nearness()).then(a.1.nodes.cmp(&b.1.nodes)).then(b.0.cmp(a.0)))
            .map(|(reason, _)| reason)
    }

    /// The resource that most nodes lack, among those that would take the pod otherwise. None where there is no such node.
    #[must_use]
    pub fn lacks(&self) -> Option<&ResourceName> {
        self.listed().into_iter().find_map(|(reason, _)| if let Reason::Lacks(dimension) = reason { Some(dimension) } else { None })
    }
}

/// The reason why a PodGroup or a pod of it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The pod's PodGroup does not exist (yet).
    NoGroup {
        /// Its name.
        name: Arc<str>,
    },
    /// The pod uses a field that is not supported yet.
    Unsupported(Vec<Unsupported>),
    /// A field of the pod or the PodGroup cannot be read.
    Faulty(Fault),
    /// A claim of the pod cannot be used now.
    Claim(Arc<UnusableClaim>),
    /// The PodGroup requests a network topology, which is not supported yet.
    NetworkTopology,
    /// A queue requires node groups, which is not supported yet.
    NodeGroups {
        /// The queue: its own or one above it.
        queue: Arc<str>,
        /// The field that says so.
        field: &'static str,
    },
    /// The queue takes no pods.
    Queue(QueueFault),
    /// The queue takes nothing for now.
    Closed {
        /// The closed queue: its own or one above it.
        queue: Arc<str>,
    },
    /// It does not fit below a ceiling, or beside the unused guarantees of other queues.
    Ceiling(Ceiling),
    /// Its queue would not take it beside the pods that come before it and wait for nodes.
    AfterOthers {
        /// The ceiling, with what is used.
        ceiling: Ceiling,
        /// What those pods wait for there, and what is reserved.
        waiting: Amount,
    },
    /// There are fewer members than must be placed together.
    NotEnoughTasks {
        /// How many members the gang needs.
        wanted: u32,
        /// How many there are that run, have succeeded or can be placed.
        there: u32,
        /// How many more are held back by their scheduling gates.
        gated: u32,
    },
    /// There are fewer members of a task than must be placed together.
    NotEnoughPodsOfTask {
        /// The task.
        task: String,
        /// How many the gang needs of it.
        wanted: u32,
        /// How many there are that run, have succeeded or can be placed.
        there: u32,
        /// How many more of it are held back by their scheduling gates.
        gated: u32,
    },
    /// There are fewer subgroups with all their members than must be placed together.
    NotEnoughSubGroups {
        /// The policy.
        policy: String,
        /// How many members one subgroup needs.
        size: u32,
        /// How many subgroups the gang needs.
        wanted: u32,
        /// How many there are whose members run, have succeeded or can be placed.
        there: u32,
        /// How many more members are held back by their scheduling gates.
        gated: u32,
    },
    /// The subgroup of the pod has fewer members than are placed together.
    IncompleteSubGroup {
        /// The policy.
        policy: String,
        /// How many members the subgroup needs.
        size: u32,
        /// How many there are that run, have succeeded or can be placed.
        there: u32,
        /// How many more are held back by their scheduling gates.
        gated: u32,
    },
    /// No node takes the next member.
    Nodes {
        /// The number of members that must be placed together now.
        needed: u32,
        /// The number of them that were placed.
        placed: u32,
        /// The first that was not placed; none where only one must be placed.
        member: Option<Arc<NextMember>>,
        /// The counts of the nodes for the first that was not placed.
        tally: Arc<Tally>,
        /// Of what the gang requests more than all nodes offer together; none where it does not.
        exceeds: Option<Exceeds>,
    },
    /// Its queue is fifo, and another PodGroup is ahead (A6).
    Behind {
        /// The PodGroup that comes first; none where many wait between, because it would be another one before all had been told.
        first: Option<GroupKey>,
    },
    /// Waits for another reason, and no pod can be preempted that would help.
    WithoutPreemption {
        /// Why it waits.
        refusal: Arc<Refusal>,
        /// Why no pod is preempted.
        why: Arc<NotPreempted>,
    },
    /// Pods are being preempted for it, and their nodes are nominated for it.
    Nominated {
        /// How many.
        victims: u32,
        /// The queues that they are in.
        queues: BTreeSet<Arc<str>>,
        /// The resource that they free; none where no resource was lacking.
        lack: Option<Lack>,
    },
    /// A bind or an eviction was refused; the PodGroup is tried again after a back-off.
    Backoff {
        /// What failed.
        step: Step,
        /// What the API server said, by kind.
        why: String,
        /// How often in a row.
        failures: u32,
        /// What it lacked when pods were preempted for it; none where a bind was refused.
        lack: Option<Lack>,
    },
    /// Its members have nodes, and their claims get volumes there. All claims are bound before any of the members.
    Volumes {
        /// How many claims are not bound yet.
        claims: u32,
        /// The first of them by name.
        first: Arc<str>,
    },
    /// It has its nodes, but the outcome of some binds is unknown.
    Unanswered {
        /// How many.
        binds: u32,
        /// What the API server says instead, by kind.
        why: &'static str,
    },
}

/// The first member of a gang that no node takes, after others have found their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextMember {
    /// The name of the pod.
    pub name: Arc<str>,
    /// Its task; none where it has none.
    pub task: Option<String>,
    /// How many further members of the same task and with the same needs have no node either.
    pub alike: u32,
}

/// Of what a gang requests more than all nodes offer together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeds {
    /// The dimension.
    pub dimension: ResourceName,
    /// What the members request that must be placed together.
    pub asked: Amount,
    /// What all nodes offer.
    pub offered: Amount,
}

/// Claims of waiting pods that have a volume on some nodes only, or one of a class that waits for pods, or are tied to a node. They stay
/// so, whatever becomes of the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptVolumes {
    /// The first claim by name.
    pub claim: Arc<str>,
    /// Its volume; none where it is only tied to a node.
    pub volume: Option<Arc<str>>,
    /// Where that is: `node "n1"`, a label of the nodes as `zone=a`, or `any node`.
    pub place: String,
    /// How many further claims are like it.
    pub further: u32,
}

/// The step after which a PodGroup backs off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// A binding was refused.
    #[default]
    Bind,
    /// A victim was not evicted, so the nomination was withdrawn.
    Preemption,
    /// A claim got no volume, so the nodes were given back.
    Volumes,
}

/// Of what there is too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The queue that is full of it; none where nodes have too little.
    pub queue: Option<Arc<str>>,
    /// The dimension.
    pub dimension: ResourceName,
}

impl Refusal {
    /// Whether a pod can never be placed as it is: a field, or a claim.
    pub(super) const fn is_of_a_pod(&self) -> bool {
        matches!(self, Self::Unsupported(_) | Self::Faulty(_) | Self::Claim(_))
    }

    /// Of what there is too little; none where that is not what is in the way.
    #[must_use]
    pub fn lack(&self) -> Option<Lack> {
        match self {
            Self::Ceiling(Ceiling { queue, dimension, .. }) | Self::AfterOthers { ceiling: Ceiling { queue, dimension, .. }, .. } => {
                Some(Lack { queue: Some(Arc::clone(queue)), dimension: dimension.clone() })
            }
            Self::Nodes { tally, .. } => tally.lacks().map(|dimension| Lack { queue: None, dimension: dimension.clone() }),
            Self::WithoutPreemption { refusal, .. } => refusal.lack(),
            Self::Nominated { lack, .. } | Self::Backoff { lack, .. } => lack.clone(),
            Self::NoGroup { .. }
            | Self::Unsupported(_)
            | Self::Faulty(_)
            | Self::Claim(_)
            | Self::NetworkTopology
            | Self::NodeGroups { .. }
            | Self::Queue(_)
            | Self::Closed { .. }
            | Self::NotEnoughTasks { .. }
            | Self::NotEnoughPodsOfTask { .. }
            | Self::NotEnoughSubGroups { .. }
            | Self::IncompleteSubGroup { .. }
            | Self::Behind { .. }
            | Self::Volumes { .. }
            | Self::Unanswered { .. } => None,
        }
    }

    /// Returns the refusal itself, without why no pod is preempted for it.
    #[must_use]
    pub fn cause(&self) -> &Self {
        if let Self::WithoutPreemption { refusal, .. } = self { refusal.cause() } else { self }
    }

    /// The same refusal by a ceiling, with other amounts.
    pub(super) fn with_ceiling(&self, ceiling: Ceiling) -> Self {
        if let Self::WithoutPreemption { refusal, why } = self {
            return Self::WithoutPreemption { refusal: Arc::new(refusal.with_ceiling(ceiling)), why: Arc::clone(why) };
        }
        Self::Ceiling(ceiling)
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        Cause::of(self).code
    }

    /// The message: the code and the reason, with the numbers.
    #[must_use]
    pub fn message(&self) -> String {
        format!("{}: {self}", self.code().as_str())
    }

    /// The reason of the condition `PodScheduled` of a pod that waits for this: `Unschedulable`, for which autoscalers add nodes, only
    /// where a further node could help.
    #[must_use]
    pub fn pod_reason(&self) -> &'static str {
        let code = self.code();
        if code.lacks_nodes() { POD_UNSCHEDULABLE } else { code.as_str() }
    }
}

/// The reason of the condition `PodScheduled` for which Cluster Autoscaler and Karpenter add nodes.
pub const POD_UNSCHEDULABLE: &str = "Unschedulable";

impl From<QueueRefusal> for Refusal {
    fn from(refusal: QueueRefusal) -> Self {
        match refusal {
            QueueRefusal::Fault(fault) => Self::Queue(fault),
            QueueRefusal::Closed { queue } => Self::Closed { queue },
            QueueRefusal::Ceiling(ceiling) => Self::Ceiling(ceiling),
        }
    }
}
