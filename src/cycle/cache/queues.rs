//! Updates the cache when a queue is added, changed or deleted, and counts its PodGroups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::{MAX_DEPTH, QueueLimits, QueueShape, ROOT_QUEUE};
use crate::api::queue::{DequeueStrategy, NodeGroupAffinity};
use crate::api::{GroupKey, QueueFacts};

use super::{Cache, Change, Phase, Wake};

/// The queues that have an object, and what is counted of them.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) facts: BTreeMap<Arc<str>, Arc<QueueFacts>>,
    /// The node groups that the affinity of any queue names. Nodes with these labels are for those queues.
    node_groups_named: BTreeSet<String>,
    /// The number of PodGroups in each phase, by queue.
    phases: BTreeMap<Arc<str>, BTreeMap<Phase, i32>>,
    /// The queues that were guaranteed less than their children at the last check.
    overpromising: BTreeSet<Arc<str>>,
}

impl Cache {
    /// Adds or updates a queue.
    pub fn apply_queue(&mut self, facts: QueueFacts) {
        let name: Arc<str> = Arc::from(facts.name.as_str());
        let limits = limits(&facts);
        let same = |old: &Arc<QueueFacts>| {
            old.parent == facts.parent
                && old.dequeue_strategy == facts.dequeue_strategy
                && old.node_groups == facts.node_groups
                && old.node_group_affinity == facts.node_group_affinity
                && self.accounting.quota().queue(&name).limits == Some(&limits)
        };
        if !self.queues.facts.get(&name).is_some_and(same) {
            self.dirty_path(&name);
            let shape = QueueShape { name: Arc::clone(&name), parent: facts.parent.as_deref().map(Arc::from) };
            self.accounting.queue_upsert(&shape, limits);
            self.sharing.shares = None;
            self.dirty_path(&name);
            self.dirty_below(&name);
            self.changed(Change::Queues);
            self.changed(Wake::Everything);
        }
        self.dirty.queues.insert(Arc::clone(&name));
        let affinity = facts.node_group_affinity.clone();
        let old = self.queues.facts.insert(name, Arc::new(facts)).and_then(|old| old.node_group_affinity.clone());
        // Rare, and it reads all queues.
        if old != affinity {
            self.gather_node_groups();
        }
    }

    /// Removes a queue. Pods in it remain charged to its name.
    pub fn delete_queue(&mut self, name: &str) {
        self.dirty_path(name);
        self.dirty_below(name);
        if let Some(old) = self.queues.facts.remove(name) {
            self.accounting.queue_remove(name);
            if old.node_group_affinity.is_some() {
                self.gather_node_groups();
            }
            self.changed(Change::Queues);
            self.sharing.shares = None;
            self.changed(Wake::Everything);
        }
    }

    /// Whether later PodGroups wait for the first one (A6).
    #[must_use]
    pub fn is_fifo(&self, queue: &str) -> bool {
        self.queues.facts.get(queue).is_some_and(|facts| facts.dequeue_strategy == DequeueStrategy::Fifo)
    }

    /// The fifo queues.
    pub(in crate::cycle) fn fifo_queues(&self) -> impl Iterator<Item = &Arc<str>> {
        self.queues.facts.iter().filter(|(_, facts)| facts.dequeue_strategy == DequeueStrategy::Fifo).map(|(name, _)| name)
    }

    /// Returns the first queue on the path from this one to the root that requires node groups, and the field that says so.
    pub(in crate::cycle) fn node_groups(&self, queue: &str) -> Option<(Arc<str>, &'static str)> {
        let way = self.accounting.quota().tree().way(queue);
        way.into_iter().find_map(|queue| self.queues.facts.get(&queue)?.node_groups.map(|field| (queue, field)))
    }

    /// Returns the node groups of other queues: pods of this queue avoid their nodes, as in Volcano. A queue without a setting inherits
    /// that of the nearest queue above.
    pub(in crate::cycle) fn barred_groups(&self, queue: &str) -> BTreeSet<String> {
        if self.queues.node_groups_named.is_empty() {
            return BTreeSet::new();
        }
        let way = self.accounting.quota().tree().way(queue);
        let own = way.into_iter().find_map(|queue| self.queues.facts.get(&queue)?.node_group_affinity.as_ref());
        NodeGroupAffinity::barred(own, &self.queues.node_groups_named)
    }

    /// Sets the node groups that unknown queues name, for a state that is made to answer one question.
    pub fn name_node_groups(&mut self, named: BTreeSet<String>) {
        self.queues.node_groups_named = named;
    }

    fn gather_node_groups(&mut self) {
        let affinities = self.queues.facts.values().filter_map(|queue| queue.node_group_affinity.as_ref());
        self.queues.node_groups_named = affinities.flat_map(|affinity| affinity.own.iter().cloned()).collect();
    }

    /// Returns the path of a queue, as a binding writes it: from `root` down to the queue, separated by `/`, which no name of a queue has.
    pub(in crate::cycle) fn written_path(&self, queue: &str) -> String {
        let mut way = self.accounting.quota().tree().way(queue);
        way.reverse();
        way.join("/")
    }

    /// Marks this queue and all above it dirty: their use changed.
    pub(super) fn dirty_path(&mut self, name: &str) {
        let mut at: Arc<str> = Arc::from(name);
        for _ in 0..=MAX_DEPTH {
            let parent = self.accounting.quota().tree().above(&at).cloned();
            self.dirty.queues.insert(at);
            let Some(parent) = parent else { break };
            at = parent;
        }
        self.dirty.queues.insert(Arc::from(ROOT_QUEUE));
    }

    /// Marks all queues dirty: nodes offer other resources.
    pub(super) fn dirty_all_queues(&mut self) {
        self.dirty.queues.extend(self.queues.facts.keys().cloned());
    }

    /// Marks all queues below this one dirty: it was opened, closed, broken or repaired.
    fn dirty_below(&mut self, name: &str) {
        self.dirty.queues.extend(self.accounting.quota().tree().subtree(name));
    }

    /// Marks queues dirty that began or ceased to be guaranteed less than their children, and all queues below them.
    pub(in crate::cycle) fn notice_overpromising(&mut self) {
        let now = self.accounting.quota().overpromising().cloned().collect();
        let before = std::mem::replace(&mut self.queues.overpromising, now);
        let changed: Vec<_> = before.symmetric_difference(&self.queues.overpromising).cloned().collect();
        changed.iter().for_each(|queue| self.dirty_below(queue));
    }

    /// Counts the PodGroup in its queue under its phase; under none where it is gone.
    pub fn file(&mut self, key: &GroupKey, phase: Option<Phase>) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let filed = phase.zip(group.facts.as_ref()).map(|(phase, facts)| (Arc::from(facts.queue.as_str()), phase));
        if group.filed == filed {
            return;
        }
        let old = std::mem::replace(&mut group.filed, filed.clone());
        if let Some((queue, phase)) = old {
            // Any user can write any queue name into a PodGroup, so a queue without PodGroups leaves no entry.
            if let Some(phases) = self.queues.phases.get_mut(&queue) {
                if let Some(count) = phases.get_mut(&phase) {
                    *count = count.saturating_sub(1);
                }
                phases.retain(|_, count| *count > 0);
                if phases.is_empty() {
                    self.queues.phases.remove(&queue);
                }
            }
            self.dirty.queues.insert(queue);
        }
        if let Some((queue, phase)) = filed {
            let count = self.queues.phases.entry(Arc::clone(&queue)).or_default().entry(phase).or_default();
            *count = count.saturating_add(1);
            self.dirty.queues.insert(queue);
        }
    }

    /// The number of PodGroups of the queue itself in this phase.
    #[must_use]
    pub fn in_phase(&self, queue: &str, phase: Phase) -> i32 {
        self.queues.phases.get(queue).and_then(|phases| phases.get(&phase)).copied().unwrap_or(0)
    }
}

/// Reads a path that a binding wrote, from the charged queue up to `root`; `None` where it says nothing (T3): another queue is charged, or it is none
/// that this scheduler writes.
pub(super) fn read_path(path: &str, charged: &str) -> Option<Vec<Arc<str>>> {
    let names: Vec<Arc<str>> = path.rsplit('/').take(MAX_DEPTH.saturating_add(2)).map(Arc::from).collect();
    let right = names.len() <= MAX_DEPTH.saturating_add(1) && names.iter().all(|name| !name.is_empty());
    let ends = names.first().is_some_and(|first| **first == *charged) && names.last().is_some_and(|last| **last == *ROOT_QUEUE);
    (right && ends).then_some(names)
}

fn limits(facts: &QueueFacts) -> QueueLimits {
    QueueLimits {
        capability: facts.capability.clone(),
        deserved: facts.deserved.clone(),
        guarantee: facts.guarantee.clone(),
        weight: facts.weight,
        priority: facts.priority,
        reclaimable: facts.reclaimable,
        closed_by_hand: facts.closed_by_hand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::group;
    use crate::cycle::testing::steps::empty_state;

    #[test]
    fn nothing_is_remembered_of_a_queue_that_a_group_named_once() {
        let mut state = empty_state();
        for queue in ["x", "y"] {
            state.apply_group(group("ns", "g", 1, queue));
            state.file(&GroupKey::new("ns", "g"), Some(Phase::Pending));
        }
        assert_eq!((state.cache.queues.phases.len(), state.cache().in_phase("y", Phase::Pending)), (1, 1));
        state.delete_group(&GroupKey::new("ns", "g"));
        assert!(state.cache.queues.phases.is_empty());
    }
}
