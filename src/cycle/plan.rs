//! What did a cycle decide?

use std::sync::Arc;

use crate::api::{GroupKey, Uid};

/// The decisions of one cycle. The books hold them already; what is left is to carry them out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what is planned is charged already and must be bound or forgotten"]
pub struct Plan {
    /// The pods to bind, in the order in which they were placed; the members of a gang stand together.
    pub binds: Vec<Bind>,
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
}
