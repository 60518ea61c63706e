//! Is a queue open?
//!
//! Somebody closes one queue by hand, and with it all that is below (O1, O2).

use std::sync::Arc;

use super::quota::Quota;
use super::rules::{Rule, holds};

/// Whether a queue takes pods, as its status says (O3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueState {
    /// It does.
    Open,
    /// It does not, and has some.
    Closing,
    /// It does not, and has none.
    Closed,
}

impl Quota {
    /// The queue that somebody closed: this one or the nearest above it; none while it is open (O2).
    #[must_use]
    pub fn closed_by(&self, queue: &str) -> Option<Arc<str>> {
        self.first_closed(self.tree.walk(queue).0.iter()).cloned()
    }

    /// O3. Every pod is charged something, if only that it is one.
    #[must_use]
    pub fn state(&self, queue: &str) -> QueueState {
        match self.closed_by(queue) {
            None => QueueState::Open,
            Some(_) if holds(Rule::O3) && !self.used(queue).is_zero() => QueueState::Closing,
            Some(_) => QueueState::Closed,
        }
    }

    /// The first of these, which are a way up, that is closed by hand.
    pub(super) fn first_closed<'a>(&self, mut way: impl Iterator<Item = &'a Arc<str>>) -> Option<&'a Arc<str>> {
        let closed = |queue: &str| self.limits.get(queue).is_some_and(|limits| limits.closed_by_hand);
        if holds(Rule::O2Above) { way.find(|queue| closed(queue)) } else { way.next().filter(|queue| closed(queue)) }
    }
}
