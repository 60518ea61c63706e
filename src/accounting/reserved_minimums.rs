//! What have PodGroups reserved for their minimum, so that members beyond the minimum of others leave room for it (A7)?
//!
//! What a queue has reserved counts in full for the members of the queue itself. For those of any other queue it counts as far as the queue
//! uses less than its entitlement: whoever may create PodGroups in one queue must not be able to hold back the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resources::Resources;

use super::quota::Quota;

static NOTHING: Resources = Resources::new();

/// The amounts that come first, by queue.
#[derive(Clone, Debug, Default)]
pub struct ReservedMinimums {
    all: Resources,
    of_queues: BTreeMap<Arc<str>, Resources>,
}

impl ReservedMinimums {
    /// Returns what comes first in all queues together.
    #[must_use]
    pub const fn all(&self) -> &Resources {
        &self.all
    }

    /// Returns what comes first in one queue.
    #[must_use]
    pub fn of(&self, queue: &str) -> &Resources {
        self.of_queues.get(queue).unwrap_or(&NOTHING)
    }

    /// Adds what a PodGroup has reserved in the queue.
    pub fn add(&mut self, queue: &Arc<str>, amounts: &Resources) {
        self.all.add(amounts);
        self.of_queues.entry(Arc::clone(queue)).or_default().add(amounts);
    }

    /// Removes what was added.
    pub fn remove(&mut self, queue: &str, amounts: &Resources) {
        self.all.sub(amounts);
        if let Some(of_queue) = self.of_queues.get_mut(queue) {
            of_queue.sub(amounts);
            if of_queue.is_zero() {
                self.of_queues.remove(queue);
            }
        }
    }

    /// Returns what comes before members of `queue`.
    #[must_use]
    pub fn before(&self, queue: &str, quota: &Quota) -> Resources {
        let mut sum = Resources::new();
        for (other, reserved) in &self.of_queues {
            if **other == *queue {
                sum.add(reserved);
            } else {
                sum.add(&counted(other, reserved, quota));
            }
        }
        sum
    }

    /// Returns for each queue what counts for members of the others; no entry is zero.
    #[must_use]
    pub fn counted(&self, quota: &Quota) -> BTreeMap<Arc<str>, Resources> {
        let counted = self.of_queues.iter().map(|(queue, reserved)| (Arc::clone(queue), counted(queue, reserved, quota)));
        counted.filter(|(_, amounts)| !amounts.is_zero()).collect()
    }
}

/// Returns what of the reservations of a queue counts for members of the others.
fn counted(queue: &str, reserved: &Resources, quota: &Quota) -> Resources {
    let mut due = quota.entitlements().of(queue).clone();
    due.sub(quota.charged.subtree(queue));
    let mut counts = reserved.clone();
    counts.min_each(&due.without_negative());
    counts
}
