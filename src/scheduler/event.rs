//! What can happen to the scheduler? Everything that its owner of the state hears, in one type.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::api::{BudgetFacts, BudgetKey, GroupFacts, GroupKey, NodeFacts, PodFacts, PriorityClassFacts, QueueFacts, Uid};

use super::frozen::Frozen;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// Of the nodes, by name.
    Nodes(Change<NodeFacts, Arc<str>>),
    /// Of the pods, by UID.
    Pods(Change<PodFacts, Uid>),
    /// Of the PodGroups.
    Groups(Change<GroupFacts, GroupKey>),
    /// Of the queues, by name.
    Queues(Change<QueueFacts, Arc<str>>),
    /// Of the priority classes, by name.
    PriorityClasses(Change<PriorityClassFacts, String>),
    /// Of the disruption budgets.
    Budgets(Change<BudgetFacts, BudgetKey>),
    /// Somebody asks.
    Ask(Question, oneshot::Sender<serde_json::Value>),
    /// Somebody looks at the metrics.
    Freeze(oneshot::Sender<Frozen>),
}

/// What happened to the objects of one kind.
#[derive(Debug)]
pub enum Change<T, K> {
    /// This is all there is; of what could not be read, what is known stays.
    Reset {
        /// What is there.
        all: Vec<T>,
        /// What is there and could not be read.
        unreadable: Vec<K>,
    },
    /// It is new or changed.
    Apply(T),
    /// It is gone.
    Delete(K),
    /// It is there and cannot be read: what is known stays.
    Unreadable(K),
}

impl Event {
    /// How many objects came that could not be read: in a list, or by themselves.
    pub(super) fn unreadable(&self) -> usize {
        match self {
            Self::Nodes(change) => change.unreadable(),
            Self::Pods(change) => change.unreadable(),
            Self::Groups(change) => change.unreadable(),
            Self::Queues(change) => change.unreadable(),
            Self::PriorityClasses(change) => change.unreadable(),
            Self::Budgets(change) => change.unreadable(),
            Self::Ask(..) | Self::Freeze(_) => 0,
        }
    }
}

impl<T, K> Change<T, K> {
    fn unreadable(&self) -> usize {
        match self {
            Self::Reset { unreadable, .. } => unreadable.len(),
            Self::Unreadable(_) => 1,
            Self::Apply(_) | Self::Delete(_) => 0,
        }
    }
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What is used on every node?
    Ledger,
    /// What is used in every queue, and who waits?
    Queues,
    /// Do the books agree with a recount?
    Audit,
}

/// How a write ended.
#[derive(Debug)]
pub enum Report {
    /// The pod is bound as we asked.
    Bound(Uid),
    /// The pod was not bound, for a reason of a bounded set.
    NotBound(Uid, &'static str),
    /// Nobody has said for a while whether the pod is bound, for a reason of a bounded set; how that ends is reported later.
    Unanswered(Uid, &'static str),
    /// All victims of a taking go.
    Evicted(Taken),
    /// One of them stays, for a reason of a bounded set, and so does who was to follow.
    NotEvicted(Taken, &'static str),
    /// A status, a condition or a queue was written, or not.
    Told(Subject, Told),
}

/// How far a taking came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The group that asks.
    pub group: GroupKey,
    /// The number of its nomination.
    pub nomination: u64,
    /// How many pods were evicted.
    pub evicted: u32,
    /// How many had gone by themselves.
    pub gone: u32,
    /// The one whose eviction was refused, if one was and not by ourselves.
    pub stays: Option<Uid>,
}

/// What a write was about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The status of a PodGroup.
    Group(GroupKey),
    /// The status of a queue, or its making.
    Queue(Arc<str>),
    /// The condition of a pod.
    Pod(Uid),
}

/// How telling people ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It stands there now, in the object of this resourceVersion.
    Stands {
        /// The version.
        resource_version: String,
    },
    /// The object is not there any more, or is another one.
    Gone,
    /// It could not be written; of a bounded set.
    Failed(&'static str),
}
