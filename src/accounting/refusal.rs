//! Why a queue refuses an amount (F4).

use std::sync::Arc;

use crate::resources::{Amount, ResourceName};

use super::tree::QueueFault;

/// Why a queue refuses an amount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueueRefusal {
    /// The queue, or one above it, is broken, or it is no leaf (T1, T1b).
    Fault(QueueFault),
    /// The queue is closed (O1).
    Closed {
        /// The queue that a user closed: the requested one or the nearest above it.
        queue: Arc<str>,
    },
    /// The amount exceeds a ceiling, together with what is used and with the unused guarantees (F1, F3).
    Ceiling(Ceiling),
}

/// A ceiling that a request exceeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ceiling {
    /// The queue with the ceiling: the requested one or an ancestor, the nearest that binds.
    pub queue: Arc<str>,
    /// The first dimension, by name, that exceeds it.
    pub dimension: ResourceName,
    /// What is requested in addition; above 0.
    pub asked: Amount,
    /// What is used and reserved in the queue and below it so far.
    pub used: Amount,
    /// The part of `used` that is only reserved: PodGroups are admitted, and no pod uses it yet.
    pub reserved: Amount,
    /// What must stay free there for guarantees after the request; 0 where the request is too much even without (F1).
    pub unused_guarantee: Amount,
    /// The most that may be used and reserved there in this dimension.
    pub limit: Amount,
    /// The kind of the ceiling.
    pub bound: Bound,
}

impl Ceiling {
    /// Whether it might take the request if nothing were reserved.
    #[must_use]
    pub fn fits_without_reservations(&self) -> bool {
        self.used.minus(self.reserved).plus(self.asked) <= self.limit
    }
}

/// The kind of a ceiling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The capability of the queue.
    Capability,
    /// What all nodes offer together; the guarantees are a part of it.
    Cluster,
    /// What all nodes offer together, less what other PodGroups have reserved for their minimum (A7).
    Minimums,
    /// The entitlement of the queue, which a PodGroup that is not preemptable must not exceed (S3).
    Entitlement,
}
