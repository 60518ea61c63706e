//! Why does a queue not take so much more? (F6)

use std::sync::Arc;

use crate::resources::{Amount, ResourceName};

use super::tree::QueueFault;

/// Why a queue does not take so much more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueueRefusal {
    /// It, or one above it, is broken, or it is no leaf (T1, T2).
    Fault(QueueFault),
    /// It is closed (O2).
    Closed {
        /// The queue that somebody closed: the one asked about or the nearest above it.
        queue: Arc<str>,
    },
    /// It does not fit below a ceiling, or beside what is kept for guarantees (F1, F5).
    Ceiling(Ceiling),
}

/// A ceiling that something would break.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ceiling {
    /// The queue whose ceiling it is: the one asked about or an ancestor, the nearest that binds.
    pub queue: Arc<str>,
    /// The first dimension, by name, that binds there.
    pub dimension: ResourceName,
    /// What was asked; above 0.
    pub asked: Amount,
    /// What is used and reserved in the queue and below it already.
    pub used: Amount,
    /// What would have to stay kept there for guarantees beyond that; 0 where it is too much even without (F1).
    pub kept: Amount,
    /// The ceiling.
    pub limit: Amount,
    /// Whose ceiling it is.
    pub bound: Bound,
}

/// Whose ceiling something would break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The queue's capability.
    Capability,
    /// What all nodes offer together, of which the guarantees are a part.
    Cluster,
    /// What the queue has a right to, of which one who is not preemptable must not have more (S3).
    Right,
}
