//! The events that the owner of the state receives, and the reports of writes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::api::volumes::{
    AttachmentFacts, CapacityFacts, CapacityKey, ClaimFacts, ClaimKey, CsiDriverFacts, CsiNodeFacts, StorageClassFacts, VolumeFacts,
};
use crate::api::workload::NamespaceLabels;
use crate::api::{BudgetFacts, BudgetKey, GroupFacts, GroupKey, NodeFacts, PodFacts, PriorityClassFacts, QueueFacts, Uid};
use crate::cycle::plan::{Bind, Eviction};

use super::metrics::QueueSnapshot;
use super::takeover::{FenceAnswer, Kind};

/// One event.
#[derive(Debug)]
pub enum Event {
    /// A change of nodes, by name.
    Nodes(Change<NodeFacts, Arc<str>>),
    /// A change of pods, by UID.
    Pods(Change<PodFacts, Uid>),
    /// A change of PodGroups.
    Groups(Change<GroupFacts, GroupKey>),
    /// A change of queues, by name.
    Queues(Change<QueueFacts, Arc<str>>),
    /// A change of priority classes, by name.
    PriorityClasses(Change<PriorityClassFacts, String>),
    /// A change of disruption budgets.
    Budgets(Change<BudgetFacts, BudgetKey>),
    /// A change of namespaces, by name.
    Namespaces(Change<NamespaceLabels, Arc<str>>),
    /// A change of claims.
    Claims(Change<ClaimFacts, ClaimKey>),
    /// A change of volumes, by name.
    Volumes(Change<VolumeFacts, Arc<str>>),
    /// A change of storage classes, by name.
    StorageClasses(Change<StorageClassFacts, Arc<str>>),
    /// A change of CSINodes, by the name of the node.
    CsiNodes(Change<CsiNodeFacts, Arc<str>>),
    /// A change of volume attachments, by name.
    Attachments(Change<AttachmentFacts, Arc<str>>),
    /// A change of CSIDrivers, by name.
    CsiDrivers(Change<CsiDriverFacts, Arc<str>>),
    /// A change of CSIStorageCapacities.
    StorageCapacities(Change<CapacityFacts, CapacityKey>),
    /// The cluster went back to an earlier state: its etcd was restored from a backup. Lists of this and later generations show the state since.
    WentBack(u64),
    /// A debug question.
    Ask(Question, oneshot::Sender<serde_json::Value>),
    /// A request for the queue snapshot, for the metrics.
    QueueSnapshot(oneshot::Sender<QueueSnapshot>),
}

/// A change of the objects of one kind.
#[derive(Debug)]
pub enum Change<T, K> {
    /// The complete list. For an object that could not be decoded, the known facts stay.
    Reset {
        /// The objects.
        all: Vec<T>,
        /// The keys of objects that could not be decoded.
        unreadable: Vec<K>,
        /// The generation of the list: which request of [`crate::runtime::watch::Relist`] it satisfies.
        generation: u64,
        /// Whether the cluster went back since the list before: what was learned from newer versions is void.
        back: bool,
        /// The objects are at least as new as this time, since the start of the program.
        as_of: Duration,
    },
    /// Everything that happened before this time, since the start of the program, has been delivered.
    UpToDate(Duration),
    /// The object is new or changed.
    Apply(T),
    /// The object was deleted.
    Delete(K),
    /// The object could not be decoded: the known facts stay.
    Unreadable(K),
}

impl Event {
    /// Returns the number of objects in this event that could not be decoded.
    pub(super) fn unreadable(&self) -> usize {
        match self {
            Self::Nodes(change) => change.unreadable(),
            Self::Pods(change) => change.unreadable(),
            Self::Groups(change) => change.unreadable(),
            Self::Queues(change) => change.unreadable(),
            Self::PriorityClasses(change) => change.unreadable(),
            Self::Budgets(change) => change.unreadable(),
            Self::Namespaces(change) => change.unreadable(),
            Self::Claims(change) => change.unreadable(),
            Self::Volumes(change) => change.unreadable(),
            Self::StorageClasses(change) => change.unreadable(),
            Self::CsiNodes(change) => change.unreadable(),
            Self::Attachments(change) => change.unreadable(),
            Self::CsiDrivers(change) => change.unreadable(),
            Self::StorageCapacities(change) => change.unreadable(),
            Self::WentBack(_) | Self::Ask(..) | Self::QueueSnapshot(_) => 0,
        }
    }

    /// Returns the generation of the lists that show the state since the cluster went back, if this event says that it did. A list may say so before
    /// [`Event::WentBack`] does.
    pub(super) const fn went_back(&self) -> Option<u64> {
        match self {
            Self::WentBack(generation) => Some(*generation),
            Self::Nodes(change) => change.went_back(),
            Self::Pods(change) => change.went_back(),
            Self::Groups(change) => change.went_back(),
            Self::Queues(change) => change.went_back(),
            Self::PriorityClasses(change) => change.went_back(),
            Self::Budgets(change) => change.went_back(),
            Self::Namespaces(change) => change.went_back(),
            Self::Claims(change) => change.went_back(),
            Self::Volumes(change) => change.went_back(),
            Self::StorageClasses(change) => change.went_back(),
            Self::CsiNodes(change) => change.went_back(),
            Self::Attachments(change) => change.went_back(),
            Self::CsiDrivers(change) => change.went_back(),
            Self::StorageCapacities(change) => change.went_back(),
            Self::Ask(..) | Self::QueueSnapshot(_) => None,
        }
    }

    /// Returns the kind of objects that this event says of up to when everything is known, and that time.
    pub(super) const fn known(&self) -> Option<(Kind, Duration)> {
        let (kind, as_of) = match self {
            Self::Nodes(change) => (Kind::Nodes, change.as_of()),
            Self::Pods(change) => (Kind::Pods, change.as_of()),
            Self::Groups(change) => (Kind::Groups, change.as_of()),
            Self::Queues(change) => (Kind::Queues, change.as_of()),
            Self::PriorityClasses(change) => (Kind::PriorityClasses, change.as_of()),
            Self::Budgets(change) => (Kind::Budgets, change.as_of()),
            Self::Namespaces(change) => (Kind::Namespaces, change.as_of()),
            Self::Claims(change) => (Kind::Claims, change.as_of()),
            Self::Volumes(change) => (Kind::Volumes, change.as_of()),
            Self::StorageClasses(change) => (Kind::StorageClasses, change.as_of()),
            Self::CsiNodes(change) => (Kind::CsiNodes, change.as_of()),
            Self::Attachments(change) => (Kind::Attachments, change.as_of()),
            Self::CsiDrivers(change) => (Kind::CsiDrivers, change.as_of()),
            Self::StorageCapacities(change) => (Kind::StorageCapacities, change.as_of()),
            Self::WentBack(_) | Self::Ask(..) | Self::QueueSnapshot(_) => return None,
        };
        match as_of {
            Some(as_of) => Some((kind, as_of)),
            None => None,
        }
    }
}

impl<T, K> Change<T, K> {
    const fn went_back(&self) -> Option<u64> {
        match self {
            Self::Reset { generation, back: true, .. } => Some(*generation),
            Self::Reset { back: false, .. } | Self::UpToDate(_) | Self::Apply(_) | Self::Delete(_) | Self::Unreadable(_) => None,
        }
    }

    const fn as_of(&self) -> Option<Duration> {
        match self {
            Self::Reset { as_of, .. } | Self::UpToDate(as_of) => Some(*as_of),
            Self::Apply(_) | Self::Delete(_) | Self::Unreadable(_) => None,
        }
    }

    fn unreadable(&self) -> usize {
        match self {
            Self::Reset { unreadable, .. } => unreadable.len(),
            Self::Unreadable(_) => 1,
            Self::UpToDate(_) | Self::Apply(_) | Self::Delete(_) => 0,
        }
    }
}

/// A question at a debug endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The use of every node.
    Ledger,
    /// The use of every queue, and its waiting PodGroups.
    Queues,
    /// The audit: the differences between the accounting and a recount.
    Audit,
    /// How old the view of each kind is, and whether decisions are made on it.
    View,
}

/// The report of a write.
#[derive(Debug)]
pub enum Report {
    /// The pod is bound to the node of the decision.
    Bound(Uid),
    /// The pod was not bound. The reason is one of a bounded set.
    NotBound(Uid, &'static str),
    /// The outcome of the binding has been unknown for a while. The reason is one of a bounded set; the outcome is reported later.
    Unanswered(Uid, &'static str),
    /// The binding is to be sent again, or was decided a while ago. The reply is whether its decision still holds.
    SendAgain(Box<Bind>, oneshot::Sender<bool>),
    /// The claim is tied to its volume or node.
    Tied(ClaimKey),
    /// The claim of the binding with this number could not be tied to its volume or node. The reason is one of a bounded set.
    NotTied(u64, ClaimKey, &'static str),
    /// All victims of an eviction leave.
    Evicted(EvictionProgress),
    /// The eviction of a victim was refused, and the remaining victims were not evicted. The reason is one of a bounded set.
    NotEvicted(EvictionProgress, &'static str),
    /// A pod was fenced, or need not be.
    Fenced(Fenced),
    /// The outcome of the write of a status, a condition or a queue.
    Written(Subject, WriteOutcome),
}

/// The outcome of the fence of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The pod.
    pub uid: Uid,
    /// The answer.
    pub answer: FenceAnswer,
    /// The resourceVersion of the pod after the write; 0 where it is not known.
    pub resource_version: u64,
}

/// The progress of the eviction for one nomination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionProgress {
    /// The PodGroup that the pods are evicted for.
    pub group: GroupKey,
    /// The number of its nomination.
    pub nomination: u64,
    /// The number of evicted pods.
    pub evicted: u32,
    /// The number of victims that had left before.
    pub gone: u32,
    /// The pod that the API server refused to evict, if there is one.
    pub refused_pod: Option<Uid>,
    /// Whether a request has no answer and may still take effect.
    pub unanswered: bool,
}

impl EvictionProgress {
    /// Returns the progress before the first request.
    #[must_use]
    pub fn none(eviction: &Eviction) -> Self {
        Self { group: eviction.group.clone(), nomination: eviction.nomination, evicted: 0, gone: 0, refused_pod: None, unanswered: false }
    }
}

/// The subject of a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The status of a PodGroup.
    Group(GroupKey),
    /// The status or the creation of a queue.
    Queue(Arc<str>),
    /// The condition of a pod.
    Pod(Uid),
    /// An Event about a pod.
    PodEvent(Uid),
}

/// The outcome of a write to an object's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The object has the status now.
    Written {
        /// The resourceVersion after the write.
        resource_version: String,
    },
    /// The object was deleted or replaced.
    Gone,
    /// The write failed. The reason is one of a bounded set.
    Failed(&'static str),
}
