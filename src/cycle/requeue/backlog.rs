//! Who waits, and in which queue?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::GroupKey;

/// The groups that wait for a place or for admission, by name and by queue.
#[derive(Debug, Default)]
pub struct Backlog {
    groups: BTreeMap<GroupKey, Option<Arc<str>>>,
    /// Without the groups that have no object and so no queue; nothing is empty here.
    queues: BTreeMap<Arc<str>, BTreeSet<GroupKey>>,
}

impl Backlog {
    /// The group waits, in this queue if it has one. The other queue in which it waited until now.
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

    /// The group does not wait. The queue in which it did.
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

    /// Everybody who waits, by name.
    pub fn iter(&self) -> impl Iterator<Item = &GroupKey> {
        self.groups.keys()
    }

    /// Those of one queue.
    pub fn in_queue(&self, queue: &str) -> impl Iterator<Item = &GroupKey> {
        self.queues.get(queue).into_iter().flatten()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
