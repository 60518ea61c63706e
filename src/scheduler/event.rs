//! The events that the owner of the state receives, and the reports of writes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::api::volumes::ClaimKey;
use crate::api::{GroupKey, Uid};
use crate::cycle::plan::{Bind, Eviction};

use super::kinds::{AnyChange, ChangeOf, Kind, WatchedKind};
use super::metrics::QueueSnapshot;
use super::takeover::FenceAnswer;

/// One event.
#[derive(Debug)]
pub enum Event {
    /// A change of the objects of one kind ([`super::kinds`]).
    Changed(Box<dyn AnyChange>),
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
    /// Returns the event for a change of the objects of this kind.
    pub fn of<W: WatchedKind>(change: Change<W::Facts, W::Key>) -> Self {
        Self::Changed(Box::new(ChangeOf::<W>(change)))
    }

    /// Returns the number of objects in this event that could not be decoded.
    pub(super) fn unreadable(&self) -> usize {
        if let Self::Changed(change) = self { change.unreadable() } else { 0 }
    }

    /// Returns the generation of the lists that show the state since the cluster went back, if this event says that it did. A list may say so before
    /// [`Event::WentBack`] does.
    pub(super) fn went_back(&self) -> Option<u64> {
        match self {
            Self::WentBack(generation) => Some(*generation),
            Self::Changed(change) => change.went_back(),
            Self::Ask(..) | Self::QueueSnapshot(_) => None,
        }
    }

    /// Returns the kind of objects that this event says of up to when everything is known, and that time.
    pub(super) fn known(&self) -> Option<(Kind, Duration)> {
        let Self::Changed(change) = self else { return None };
        Some((change.kind(), change.as_of()?))
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
