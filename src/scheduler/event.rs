//! What can happen to the scheduler? Everything that its owner of the state hears, in one type.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::api::{GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts, Uid};

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
    /// Of the priority classes, by name: their value.
    PriorityClasses(Change<(String, i32), String>),
    /// Somebody asks.
    Ask(Question, oneshot::Sender<serde_json::Value>),
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
    /// A status, a condition or a queue was written, or not.
    Told(Subject, Told),
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
