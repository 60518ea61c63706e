//! By which stable name is a refusal known to people and programs?
//!
//! The code of a refusal is the same everywhere: the condition [`WAITING`](crate::cycle::status::WAITING) of the PodGroup, the first word of each message, the label
//! `reason` of the metrics, `/debug/queues`, and `kubectl podgroup why`. There is one code for each cause that a person would treat differently. A code
//! never changes its meaning; new ones may come. docs/reference.md lists them with what to do.

use serde::{Deserialize, Serialize};

use crate::accounting::{Bound, Ceiling, QueueFault, Why};
use crate::api::volumes::WhyUnusable;

use super::{Lack, Reason, Refusal, Step, Tally};

/// Declares the codes once: the enum, every one of them in order, and their names.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The cause for which a PodGroup or a pod waits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code, by name.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The stable name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

codes! {
    /// Another PodGroup is ahead in a fifo queue.
    BehindInFifoQueue,
    /// The API server refused a binding; the PodGroup is retried after a back-off.
    BindBackoff,
    /// The API server has not answered some bindings; their nodes stay charged.
    BindUnanswered,
    /// A claim of a pod is being deleted.
    ClaimBeingDeleted,
    /// A pod uses a claim that only one pod at a time may use.
    ClaimInUse,
    /// The volume of a claim is gone.
    ClaimLost,
    /// A claim of a pod is not bound to a volume.
    ClaimNotBound,
    /// A claim of a pod does not exist.
    ClaimNotFound,
    /// A claim that is made for a pod has the name of another object's claim.
    ClaimNotOwned,
    /// All nodes together have no room left.
    ClusterFull,
    /// Most nodes are cordoned.
    Cordoned,
    /// What is free is the unused guarantee of other queues.
    GuaranteeReserved,
    /// On most nodes a pod has a host port that the pod asks for.
    HostPorts,
    /// Most nodes have too little left of a resource.
    InsufficientResources,
    /// A field of the PodGroup or of the pod cannot be read.
    InvalidField,
    /// There are no nodes.
    NoNodes,
    /// Most nodes have no free volume for a claim, and none is made there.
    NoVolume,
    /// Most nodes do not match the required node affinity.
    NodeAffinity,
    /// Most nodes do not declare a feature that the pod needs.
    NodeFeatures,
    /// Most nodes are labelled for the node group of other queues.
    NodeGroup,
    /// Most nodes do not match the nodeSelector.
    NodeSelector,
    /// A PodGroup that is not preemptable may use no more than its queue is entitled to.
    NonPreemptableOverEntitlement,
    /// Fewer pods exist than the gang needs.
    NotEnoughPods,
    /// Fewer pods of a task exist than the gang needs.
    NotEnoughPodsOfTask,
    /// Most nodes have too little storage to make the volume of a claim.
    NotEnoughStorage,
    /// No cycle has tried it yet.
    NotTried,
    /// Most nodes have no pod in their topology domain that the pod's affinity requires.
    PodAffinity,
    /// The anti-affinity of the pod, or of pods that run, keeps it away from most nodes.
    PodAntiAffinity,
    /// The PodGroup that the pods name does not exist.
    PodGroupNotFound,
    /// Pods that had to leave did not; the PodGroup is retried after a back-off.
    PreemptionBackoff,
    /// The queue or one above it is closed.
    QueueClosed,
    /// The queue or one above it has no valid place in the tree, or its children are guaranteed more than it is.
    QueueInvalid,
    /// The queue does not exist.
    QueueNotFound,
    /// The queue has queues below it; pods go to queues without any.
    QueueNotLeaf,
    /// The queue or one above it would use more than its capability.
    QueueQuotaExceeded,
    /// What is left in the cluster is reserved for the minimum of other PodGroups.
    RoomReserved,
    /// Pods that the gang needs are held back by their scheduling gates.
    SchedulingGated,
    /// The StorageClass of a claim that is not bound does not exist.
    StorageClassNotFound,
    /// Most nodes have a taint that the pod does not tolerate.
    Taints,
    /// In most topology domains, the pod would exceed a spread constraint.
    TopologySpread,
    /// The pod, the PodGroup or the queue uses a field that is not supported yet.
    UnsupportedField,
    /// Claims got no volumes in time; the PodGroup is retried after a back-off.
    VolumeBackoff,
    /// Most nodes take no more volumes of a driver.
    VolumeLimit,
    /// Most nodes cannot mount a volume of the pod.
    VolumeNodeAffinity,
    /// The volume of a claim does not exist.
    VolumeNotFound,
    /// Most nodes are in no zone of a volume of the pod.
    VolumeZone,
    /// Pods are being preempted; their places are nominated for the PodGroup.
    WaitingForPreemption,
    /// The pods have nodes, and their claims get volumes there.
    WaitingForVolumes,
}

impl Code {
    /// The code of this name; none where there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }

    /// Whether it is what most nodes say of a pod. Which of these it is changes with every pod that comes and goes.
    #[must_use]
    pub const fn is_of_nodes(self) -> bool {
        matches!(
            self,
            Self::Cordoned
                | Self::HostPorts
                | Self::InsufficientResources
                | Self::NoNodes
                | Self::NoVolume
                | Self::NodeAffinity
                | Self::NodeFeatures
                | Self::NodeGroup
                | Self::NodeSelector
                | Self::NotEnoughStorage
                | Self::PodAffinity
                | Self::PodAntiAffinity
                | Self::Taints
                | Self::TopologySpread
                | Self::ClaimInUse
                | Self::VolumeLimit
                | Self::VolumeNodeAffinity
                | Self::VolumeZone
        )
    }

    /// Whether it is about the amounts that a queue may use.
    #[must_use]
    pub const fn is_of_quota(self) -> bool {
        matches!(self, Self::ClusterFull | Self::GuaranteeReserved | Self::NonPreemptableOverEntitlement | Self::QueueQuotaExceeded)
    }

    /// Whether a further node could help. Autoscalers add nodes for such pods, and for no other (docs/decisions/2026-11-22-reasons-of-pods.md).
    #[must_use]
    pub const fn lacks_nodes(self) -> bool {
        // A claim for one pod is in use wherever a further node is.
        (self.is_of_nodes() && !matches!(self, Self::ClaimInUse)) || matches!(self, Self::ClusterFull)
    }

    /// Whether both are the same cause, but for what most nodes say.
    #[must_use]
    pub fn is_like(self, other: Self) -> bool {
        self == other || self.is_of_nodes() && other.is_of_nodes()
    }
}

/// A code with where it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause<'a> {
    /// The code.
    pub code: Code,
    /// The queue that refuses: the PodGroup's own or one above it.
    pub queue: Option<&'a str>,
    /// The resource that is insufficient.
    pub resource: Option<&'a str>,
}

impl<'a> Cause<'a> {
    /// A cause without a queue and a resource.
    #[must_use]
    pub const fn plain(code: Code) -> Self {
        Self { code, queue: None, resource: None }
    }

    const fn at(code: Code, queue: &'a str) -> Self {
        Self { code, queue: Some(queue), resource: None }
    }

    /// The cause of a refusal.
    #[must_use]
    pub fn of(refusal: &'a Refusal) -> Self {
        match refusal {
            Refusal::NoGroup { .. } => Self::plain(Code::PodGroupNotFound),
            Refusal::Unsupported(_) | Refusal::NetworkTopology | Refusal::SubGroups => Self::plain(Code::UnsupportedField),
            Refusal::NodeGroups { queue, .. } => Self::at(Code::UnsupportedField, queue),
            Refusal::Faulty(_) => Self::plain(Code::InvalidField),
            Refusal::Claim(unusable) => Self::plain(of_claim(&unusable.why)),
            Refusal::Queue(fault) => Self::at(of_fault(fault), &fault.queue),
            Refusal::Closed { queue } => Self::at(Code::QueueClosed, queue),
            Refusal::Ceiling(ceiling) => {
                Self { resource: Some(ceiling.dimension.as_str()), ..Self::at(of_ceiling(ceiling), &ceiling.queue) }
            }
            Refusal::NotEnoughTasks { wanted, there, gated } => Self::plain(missing(Code::NotEnoughPods, *wanted, *there, *gated)),
            Refusal::NotEnoughPodsOfTask { wanted, there, gated, .. } => {
                Self::plain(missing(Code::NotEnoughPodsOfTask, *wanted, *there, *gated))
            }
            Refusal::Nodes { tally, .. } => Self::of_nodes(tally),
            Refusal::Behind { .. } => Self::plain(Code::BehindInFifoQueue),
            Refusal::Kept { refusal, .. } => Self::of(refusal),
            Refusal::Nominated { lack, .. } => Self::of_lack(Code::WaitingForPreemption, lack.as_ref()),
            // A refused binding lacks nothing: what it waits for is another answer.
            Refusal::Backoff { step: Step::Bind, lack, .. } => Self::of_lack(Code::BindBackoff, lack.as_ref()),
            Refusal::Backoff { step: Step::Preemption, lack, .. } => Self::of_lack(Code::PreemptionBackoff, lack.as_ref()),
            Refusal::Backoff { step: Step::Volumes, lack, .. } => Self::of_lack(Code::VolumeBackoff, lack.as_ref()),
            Refusal::Volumes { .. } => Self::plain(Code::WaitingForVolumes),
            Refusal::Unanswered { .. } => Self::plain(Code::BindUnanswered),
        }
    }

    fn of_lack(code: Code, lack: Option<&'a Lack>) -> Self {
        Self { code, queue: lack.and_then(|lack| lack.queue.as_deref()), resource: lack.map(|lack| lack.dimension.as_str()) }
    }

    /// The code of the reason of most nodes, with which the message begins. The resource is the one that most nodes lack, among those that
    /// would take the pod otherwise. Where most nodes are not for the pod at all (another kind of machine), it waits for the few others.
    fn of_nodes(tally: &'a Tally) -> Self {
        // Every node is counted under one reason, so there is none only where there are no nodes.
        let code = tally.first().map_or(Code::NoNodes, Reason::code);
        Self { resource: tally.lacks().map(crate::resources::ResourceName::as_str), ..Self::plain(code) }
    }
}

impl Reason {
    /// The code of a pod that most nodes refuse for this reason.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Unschedulable => Code::Cordoned,
            Self::Taint(_) => Code::Taints,
            Self::NodeGroup { .. } => Code::NodeGroup,
            Self::NodeSelector => Code::NodeSelector,
            Self::NodeAffinity | Self::NotNamed | Self::NamesConflict => Code::NodeAffinity,
            Self::HostPorts => Code::HostPorts,
            Self::ClaimInUse => Code::ClaimInUse,
            Self::VolumeLimit => Code::VolumeLimit,
            Self::VolumeNodeAffinity => Code::VolumeNodeAffinity,
            Self::NoVolume => Code::NoVolume,
            Self::NotEnoughStorage => Code::NotEnoughStorage,
            Self::VolumeZone => Code::VolumeZone,
            Self::DeclaredFeature { .. } => Code::NodeFeatures,
            Self::PodAffinity { .. } => Code::PodAffinity,
            Self::PodAntiAffinity { .. } | Self::ExistingAntiAffinity { .. } => Code::PodAntiAffinity,
            Self::TopologySpread { .. } | Self::TopologySpreadLabel { .. } => Code::TopologySpread,
            Self::Lacks(_) => Code::InsufficientResources,
        }
    }
}

const fn of_claim(why: &WhyUnusable) -> Code {
    match why {
        WhyUnusable::NotFound | WhyUnusable::NotMade => Code::ClaimNotFound,
        WhyUnusable::NotOwned => Code::ClaimNotOwned,
        WhyUnusable::Deleting => Code::ClaimBeingDeleted,
        WhyUnusable::Lost { .. } => Code::ClaimLost,
        WhyUnusable::NotBound { .. } => Code::ClaimNotBound,
        WhyUnusable::ClassNotFound { .. } => Code::StorageClassNotFound,
        WhyUnusable::SelectorTooLarge { .. } => Code::InvalidField,
        WhyUnusable::VolumeNotFound { .. } => Code::VolumeNotFound,
    }
}

const fn of_fault(fault: &QueueFault) -> Code {
    match fault.why {
        Why::NotFound => Code::QueueNotFound,
        Why::MissingParent { .. } | Why::Cycle | Why::TooDeep | Why::Guarantees(_) => Code::QueueInvalid,
        Why::NotLeaf => Code::QueueNotLeaf,
    }
}

/// Where it would be too much even if no guarantee were in force, the guarantees are not the cause.
pub(super) fn of_ceiling(ceiling: &Ceiling) -> Code {
    let alone = ceiling.used.plus(ceiling.asked) > ceiling.limit;
    match ceiling.bound {
        Bound::Minimums => Code::RoomReserved,
        Bound::Entitlement => Code::NonPreemptableOverEntitlement,
        Bound::Capability if alone => Code::QueueQuotaExceeded,
        Bound::Cluster if alone => Code::ClusterFull,
        Bound::Capability | Bound::Cluster => Code::GuaranteeReserved,
    }
}

/// Where enough pods exist and some are gated, the gates are the cause.
const fn missing(code: Code, wanted: u32, there: u32, gated: u32) -> Code {
    if gated > 0 && there.saturating_add(gated) >= wanted { Code::SchedulingGated } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_are_found_again_and_are_words_that_nobody_else_acts_on() {
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.as_str()), Some(*code));
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{}\"", code.as_str()));
        }
        // As the reason of PodScheduled this one makes autoscalers buy nodes.
        assert_eq!(Code::from_name("Unschedulable"), None);
    }

    #[test]
    fn a_further_node_helps_where_nodes_refuse_and_where_the_whole_cluster_is_full() {
        let helped: Vec<&str> = Code::ALL.iter().filter(|code| code.lacks_nodes()).map(|code| code.as_str()).collect();
        let wanted = [
            "ClusterFull",
            "Cordoned",
            "HostPorts",
            "InsufficientResources",
            "NoNodes",
            "NoVolume",
            "NodeAffinity",
            "NodeFeatures",
            "NodeGroup",
            "NodeSelector",
            "NotEnoughStorage",
            "PodAffinity",
            "PodAntiAffinity",
            "Taints",
            "TopologySpread",
            "VolumeLimit",
            "VolumeNodeAffinity",
            "VolumeZone",
        ];
        assert_eq!(helped, wanted);
    }
}
