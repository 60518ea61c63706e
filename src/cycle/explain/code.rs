//! By which stable name is a refusal known to people and programs?
//!
//! The code of a refusal is the same everywhere: the condition [`WAITING`](crate::api::names::WAITING) of the PodGroup, the first word
//! of each message, the label `reason` of the metrics, `/debug/queues`, and `kubectl podgroup why`. There is one code for each cause that a
//! person would treat differently. A code never changes its meaning; new ones may come. The table of codes in docs/reference.md is
//! generated from their meanings and remedies here.

use serde::{Deserialize, Serialize};

use crate::accounting::{Bound, Ceiling, QueueFault, Why};
use crate::api::volumes::WhyUnusable;

use super::{Lack, Reason, Refusal, Step, Tally};

/// Declares the codes once: the enum, every one of them in order, and their names, meanings and remedies.
macro_rules! codes {
    ($($name:ident: $meaning:literal, $remedy:literal;)+) => {
        /// The cause for which a PodGroup or a pod waits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $meaning] $name,)+
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

            /// What it means, for the table in docs/reference.md.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)+
                }
            }

            /// What a user can do about it, for the same table.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$name => $remedy,)+
                }
            }
        }
    };
}

codes! {
    BehindInFifoQueue:
        "another PodGroup is ahead in a fifo queue",
        "wait for that one, or set `dequeueStrategy: traverse`";
    BindBackoff:
        "the API server refused a binding; it is retried",
        "repair what the message names, for example a webhook";
    BindUnanswered:
        "the API server has not answered bindings",
        "look at the log of the API server, and for a webhook that hangs";
    ClaimBeingDeleted:
        "a claim of the pod is being deleted",
        "create it again when it is gone";
    ClaimInUse:
        "a pod uses a claim of the pod with the access mode ReadWriteOncePod",
        "wait until that pod has ended";
    ClaimLost:
        "the volume to which a claim was bound is gone",
        "restore the volume, or create the claim again";
    ClaimNotBound:
        "a claim of a class that binds immediately, or that names its volume, is not bound",
        "look at the Events of the claim, at its volume, and at its provisioner";
    ClaimNotFound:
        "a PersistentVolumeClaim of the pod does not exist (yet)",
        "create it; for an `ephemeral` volume, kube-controller-manager creates it";
    ClaimNotOwned:
        "the claim of an `ephemeral` volume has the name of a claim that is not the pod's",
        "delete that claim, or give the pod another name";
    ClusterFull:
        "all nodes together have too little left",
        "add nodes";
    Cordoned:
        "the nearest nodes are cordoned",
        "`kubectl uncordon NODE`";
    GuaranteeReserved:
        "what is free is the unused `guarantee` of other queues",
        "wait, add nodes, or lower their guarantee";
    HostPorts:
        "on the nearest nodes another pod has the host port",
        "wait, request another port, or add nodes";
    InsufficientResources:
        "the nearest nodes have too little left of a resource",
        "use smaller pods, or add nodes or larger nodes";
    InvalidField:
        "a field of the pod or PodGroup cannot be read",
        "correct it";
    NoNodes:
        "there are no nodes",
        "add nodes";
    NoVolume:
        "on the nearest nodes no free volume serves a claim of the pod, and none is made there",
        "a free volume of the class, size and access modes of the claim, or a StorageClass that makes volumes there";
    NodeAffinity:
        "the nearest nodes do not match the required node affinity",
        "label nodes, or change the affinity";
    NodeFeatures:
        "the nearest nodes do not declare a feature that the pod needs",
        "add nodes with a kubelet that declares it";
    NodeGroup:
        "the nearest nodes are labelled for the node group of other queues",
        "name the node group in the queue's affinity as preferred, or remove the label from the nodes";
    NodeSelector:
        "the nearest nodes do not match the nodeSelector",
        "label nodes, or change the selector";
    NonPreemptableOverEntitlement:
        "a PodGroup that is not preemptable may not borrow",
        "request less, make it preemptable, or give its queue more";
    NotEnoughPods:
        "fewer pods exist than `minMember`",
        "look at the status and Events of the owner. With `startupPolicy: InOrder` or `dependsOn` a JobSet starts its later roles only when the earlier ones are ready, so they cannot be one gang. The same holds for a LeaderWorkerSet with `startupPolicy: LeaderReady` or an exclusive topology";
    NotEnoughPodsOfTask:
        "fewer pods of a task exist than `minTaskMember` says",
        "look at the status and Events of the owner";
    NotEnoughStorage:
        "on the nearest nodes the driver has too little storage left to make the volume of a claim (CSIStorageCapacity)",
        "smaller claims, more storage, or more nodes";
    NotEnoughSubGroups:
        "a subgroup (`subGroupPolicy`) has fewer pods than its size, or there are fewer of them than `minSubGroups`",
        "look at the status and Events of the owner, and at the labels of the pods";
    NotTried:
        "no cycle has tried it yet",
        "nothing; it ends in a moment";
    PodAffinity:
        "the pods that the pod's affinity requires are not in the domains of the nearest nodes",
        "run these pods first, where this one fits beside them; label nodes that lack its topology key";
    PodAntiAffinity:
        "the anti-affinity of the pod, or of running pods, keeps it away from the nearest nodes",
        "add nodes, in a further domain of its topology key; or wait";
    PodGroupNotFound:
        "the PodGroup of the pods does not exist: the one that they name, or that of their JobSet or group of a LeaderWorkerSet (`podgroup.dev/gang`)",
        "create it, or remove the annotation. The controller creates those of JobSets and LeaderWorkerSets if the pod template names a scheduler that it serves";
    PreemptionBackoff:
        "pods that had to leave are still there; it is retried",
        "look at their PodDisruptionBudget";
    QueueClosed:
        "the queue or one above it is closed",
        "`kubectl podgroup queue open QUEUE`";
    QueueInvalid:
        "the queue, or one above it, names a parent that does not exist, is below itself, is too deep, or guarantees less than its children together",
        "correct the queue that the message names";
    QueueNotFound:
        "the queue does not exist",
        "create it, or name another";
    QueueNotLeaf:
        "the queue has queues below it",
        "name one that has none";
    QueueQuotaExceeded:
        "the queue or one above it would use more than its `capability`",
        "wait, or raise the capability";
    RoomReserved:
        "what is left in the cluster is reserved for the minimum of other PodGroups; members beyond `minMember` wait",
        "wait until these have their nodes or their admission ends, or add nodes";
    SchedulingGated:
        "pods that the gang needs have scheduling gates",
        "the tool that set the gates must remove them";
    StorageClassNotFound:
        "a claim is not bound, and its StorageClass does not exist",
        "create the class, or name another";
    Taints:
        "the nearest nodes have a taint that is not tolerated",
        "add tolerations, or remove the taint";
    TopologySpread:
        "on the nearest nodes the pod would exceed a spread constraint, or the node lacks its topology key",
        "room in the domains with fewer pods, a larger `maxSkew`, or labels";
    UnsupportedField:
        "a field of the pod, PodGroup or queue is not supported yet",
        "leave it out";
    VolumeBackoff:
        "claims got no volumes within `--volume-timeout` (10 minutes), a write for them failed, or a node, a queue or a volume changed meanwhile; the nodes were given back",
        "look at the Events of the claims, and at the provisioner. It is retried within a minute";
    VolumeLimit:
        "the nearest nodes have as many volumes of a CSI driver as they take",
        "wait, or add nodes";
    VolumeNodeAffinity:
        "the nearest nodes cannot mount a volume of the pod (its `nodeAffinity`)",
        "room on the nodes that can";
    VolumeNotFound:
        "a claim is bound to a PersistentVolume that does not exist",
        "restore the volume";
    VolumeZone:
        "the nearest nodes are in no zone or region of a volume of the pod (its labels)",
        "room in the zones of the volume";
    WaitingForPreemption:
        "pods are being preempted for it",
        "wait for their `terminationGracePeriodSeconds`";
    WaitingForVolumes:
        "the pods have nodes, and their claims get volumes there; no pod is bound before all claims are",
        "look at the Events of the claims, and at the provisioner";
}

impl Code {
    /// The code of this name; none where there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }

    /// Whether it is what nodes say of a pod. Which of these it is changes with every pod that comes and goes.
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

    /// Whether both are the same cause, but for what nodes say.
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
            Refusal::Unsupported(_) | Refusal::NetworkTopology => Self::plain(Code::UnsupportedField),
            Refusal::NodeGroups { queue, .. } => Self::at(Code::UnsupportedField, queue),
            Refusal::Faulty(_) => Self::plain(Code::InvalidField),
            Refusal::Claim(unusable) => Self::plain(of_claim(&unusable.why)),
            Refusal::Queue(fault) => Self::at(of_fault(fault), &fault.queue),
            Refusal::Closed { queue } => Self::at(Code::QueueClosed, queue),
            Refusal::Ceiling(ceiling) => {
                Self { resource: Some(ceiling.dimension.as_str()), ..Self::at(of_ceiling(ceiling), &ceiling.queue) }
            }
            Refusal::AfterOthers { ceiling, .. } => {
                Self { resource: Some(ceiling.dimension.as_str()), ..Self::at(Code::QueueQuotaExceeded, &ceiling.queue) }
            }
            Refusal::NotEnoughTasks { wanted, there, gated } => Self::plain(missing(Code::NotEnoughPods, *wanted, *there, *gated)),
            Refusal::NotEnoughPodsOfTask { wanted, there, gated, .. } => {
                Self::plain(missing(Code::NotEnoughPodsOfTask, *wanted, *there, *gated))
            }
            Refusal::NotEnoughSubGroups { gated, .. } | Refusal::IncompleteSubGroup { gated, .. } => {
                Self::plain(if *gated > 0 { Code::SchedulingGated } else { Code::NotEnoughSubGroups })
            }
            Refusal::Nodes { tally, .. } => Self::of_nodes(tally),
            Refusal::Behind { .. } => Self::plain(Code::BehindInFifoQueue),
            Refusal::WithoutPreemption { refusal, .. } => Self::of(refusal),
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

    /// The code of the nodes that are nearest to taking the pod: where most nodes are not for it at all (another kind of machine), it waits
    /// for the few others. The resource is the one that most of those lack.
    fn of_nodes(tally: &'a Tally) -> Self {
        // Every node is counted under one reason, so there is none only where there are no nodes.
        let code = tally.nearest().map_or(Code::NoNodes, Reason::code);
        Self { resource: tally.lacks().map(crate::resources::ResourceName::as_str), ..Self::plain(code) }
    }
}

impl Reason {
    /// How near a node that refuses for this reason is to taking the pod: how many checks came before, in the order of the predicates.
    pub(super) const fn nearness(&self) -> u8 {
        match self {
            Self::NotNamed | Self::NamesConflict => 0,
            Self::Unschedulable => 1,
            Self::Taint(_) => 2,
            Self::NodeGroup { .. } => 3,
            Self::NodeSelector => 4,
            Self::NodeAffinity => 5,
            Self::HostPorts => 6,
            Self::Lacks(_) => 7,
            Self::ClaimInUse => 8,
            Self::VolumeLimit => 9,
            Self::VolumeNodeAffinity => 10,
            Self::NoVolume | Self::NotEnoughStorage => 11,
            Self::VolumeZone => 12,
            Self::TopologySpread { .. } | Self::TopologySpreadLabel { .. } => 13,
            Self::PodAffinity { .. } | Self::PodAntiAffinity { .. } | Self::ExistingAntiAffinity { .. } => 14,
            Self::DeclaredFeature { .. } => 15,
        }
    }

    /// The code of a pod that the nearest nodes refuse for this reason.
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
        WhyUnusable::NotBound { .. } | WhyUnusable::NotBoundTo { .. } => Code::ClaimNotBound,
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
