//! The backlog: the PodGroups that wait, by queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::GroupKey;

/// The PodGroups that wait for nodes or for admission, by name and by queue.
#[derive(Debug, Default)]
pub struct Backlog {
    groups: BTreeMap<GroupKey, Option<Arc<str>>>,
    /// The same by queue. A PodGroup without an object has no queue and is not here. No entry is empty.
    queues: BTreeMap<Arc<str>, BTreeSet<GroupKey>>,
}

impl Backlog {
    /// Adds the PodGroup, in this queue if it has one. Returns the other queue in which it waited until now.
    pub(super) fn insert(&mut self, key: &GroupKey, queue: Option<&str>) -> Option<Arc<str>> {
        if self.groups.get(key).is_some_and(|known| known.as_deref() == queue) {
            return None;
        }
        let left = self.remove(key);
        let queue = queue.map(|queue| self.queues.get_key_value(queue).map_or_else(|| Arc::from(queue), |(name, _)| Arc::clone(name)));
        if let Some(queue) = &queue {
            self.queues.entry(Arc::clone(queue)).or_default().insert(key.clone());
        }
        self.groups.insert(key.clone(), queue);
        left
    }

    /// Removes the PodGroup. Returns the queue in which it waited.
    pub(super) fn remove(&mut self, key: &GroupKey) -> Option<Arc<str>> {
        let queue = self.groups.remove(key)??;
        if let Some(groups) = self.queues.get_mut(&queue) {
            groups.remove(key);
            if groups.is_empty() {
                self.queues.remove(&queue);
            }
        }
        Some(queue)
    }

    /// Returns all waiting PodGroups, by name.
    pub fn iter(&self) -> impl Iterator<Item = &GroupKey> {
        self.groups.keys()
    }

    /// Returns the waiting PodGroups of one queue.
    pub fn in_queue(&self, queue: &str) -> impl Iterator<Item = &GroupKey> {
        self.queues.get(queue).into_iter().flatten()
    }

    /// Returns the number of waiting PodGroups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns whether no PodGroup waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
