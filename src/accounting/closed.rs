//! Whether a queue is open.
//!
//! A user closes one queue, and with it all queues below it (O1, O1).

use std::sync::Arc;

use super::quota::Quota;

/// Whether a queue takes pods, as its status shows it (O1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueState {
    /// It takes pods.
    Open,
    /// It takes no pods, and has some.
    Closing,
    /// It takes no pods, and has none.
    Closed,
}

impl Quota {
    /// Returns the queue that a user closed: this one or the nearest above it; `None` while the queue is open (O1).
    #[must_use]
    pub fn closed_by(&self, queue: &str) -> Option<Arc<str>> {
        self.first_closed(self.tree.walk(queue).0.iter()).cloned()
    }

    /// Returns the state of a queue (O1). Every pod is charged at least as one pod.
    #[must_use]
    pub fn state(&self, queue: &str) -> QueueState {
        match self.closed_by(queue) {
            None => QueueState::Open,
            Some(_) if !self.used(queue).is_zero() => QueueState::Closing,
            Some(_) => QueueState::Closed,
        }
    }

    /// Returns the first queue of this way up that a user closed.
    pub(super) fn first_closed<'a>(&self, mut way: impl Iterator<Item = &'a Arc<str>>) -> Option<&'a Arc<str>> {
        way.find(|queue| self.limits.get(*queue).is_some_and(|limits| limits.closed_by_hand))
    }
}
