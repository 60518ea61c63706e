//! For how many pods that wait for nodes would their queues have room? A further node helps no others.
//!
//! The pods come one after the other, in their order. Each that its queues would take counts for those after it. Only capabilities are
//! looked at: with further nodes there is more in the cluster for guarantees and shares, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resources::{Amount, Resources};

use super::quota::Quota;
use super::refusal::{Bound, Ceiling};

impl Quota {
    /// Whether the queue or one above it has a capability; not where it takes no pods at all.
    #[must_use]
    pub fn is_limited(&self, queue: &str) -> bool {
        self.path(queue).is_ok_and(|path| path.iter().any(|level| self.has_capability(level)))
    }

    fn has_capability(&self, queue: &str) -> bool {
        self.limits.get(queue).is_some_and(|limits| !limits.capability.is_empty())
    }
}

/// What pods wait for on nodes that their queues would take.
#[derive(Debug)]
pub struct AskedOfNodes<'q> {
    quota: &'q Quota,
    /// By queue with a capability: in it and in all queues below it.
    sums: BTreeMap<Arc<str>, Resources>,
    /// By queue: it and those above it that have a capability; empty where the queue takes no pods at all.
    limited: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl<'q> AskedOfNodes<'q> {
    /// Nobody asks yet.
    #[must_use]
    pub const fn new(quota: &'q Quota) -> Self {
        Self { quota, sums: BTreeMap::new(), limited: BTreeMap::new() }
    }

    /// Whether the queue or one above it has a capability. Others would take all pods.
    pub fn is_limited(&mut self, queue: &str) -> bool {
        !self.limited(queue).is_empty()
    }

    /// Takes out what is reserved for pods that wait for nodes: they count in their turn, and not before.
    pub fn set_aside(&mut self, queue: &str, reserved: &Resources) {
        for level in self.limited(queue) {
            self.sums.entry(level).or_default().sub(reserved);
        }
    }

    /// Counts so much of the queue, whether there is room or not.
    pub fn add(&mut self, queue: &str, amounts: &Resources) {
        for level in self.limited(queue) {
            self.sums.entry(level).or_default().add(amounts);
        }
    }

    /// Counts pods of the queue that wait for so much on nodes.
    ///
    /// # Errors
    ///
    /// The nearest capability that would not take them, with its first dimension, and what those before them wait for or have reserved there;
    /// then they do not count.
    pub fn take(&mut self, queue: &str, asked: &Resources) -> Result<(), (Ceiling, Amount)> {
        let limited = self.limited(queue);
        for level in &limited {
            let Some(limits) = self.quota.limits.get(level) else { continue };
            let (charged, reserved) = (self.quota.charged.subtree(level), self.quota.reserved.subtree(level));
            for (dimension, asked) in asked.iter().filter(|(_, asked)| asked.is_positive()) {
                let Some(limit) = limits.capability.get(dimension) else { continue };
                let others = reserved.get(dimension).plus(self.sums.get(level).map_or(Amount::ZERO, |sum| sum.get(dimension)));
                let used = charged.get(dimension);
                if used.plus(others).plus(asked) > limit {
                    let (queue, dimension, unused_guarantee) = (Arc::clone(level), dimension.clone(), Amount::ZERO);
                    let bound = Bound::Capability;
                    return Err((
                        Ceiling { queue, dimension, asked, used, reserved: Amount::ZERO, unused_guarantee, limit, bound },
                        others,
                    ));
                }
            }
        }
        self.add(queue, asked);
        Ok(())
    }

    fn limited(&mut self, queue: &str) -> Vec<Arc<str>> {
        if let Some(known) = self.limited.get(queue) {
            return known.clone();
        }
        let has = |level: &&Arc<str>| self.quota.has_capability(level);
        let found: Vec<Arc<str>> = self.quota.path(queue).map(|path| path.iter().filter(has).cloned().collect()).unwrap_or_default();
        self.limited.insert(Arc::from(queue), found.clone());
        found
    }
}
