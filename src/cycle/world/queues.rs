//! What follows when a queue is added, changed or deleted, and what is counted of its PodGroups?

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::{MAX_DEPTH, QueueLimits, QueueShape, ROOT_QUEUE};
use crate::api::queue::{DequeueStrategy, NodeGroupAffinity};
use crate::api::{GroupKey, QueueFacts};

use crate::cycle::requeue::Change;

use super::{Phase, World};

impl World {
    /// Adds or updates a queue.
    pub fn apply_queue(&mut self, facts: QueueFacts) {
        let name: Arc<str> = Arc::from(facts.name.as_str());
        let limits = limits(&facts);
        let same = |old: &Arc<QueueFacts>| {
            old.parent == facts.parent
                && old.dequeue_strategy == facts.dequeue_strategy
                && old.node_groups == facts.node_groups
                && old.node_group_affinity == facts.node_group_affinity
                && self.books.quota().queue(&name).limits == Some(&limits)
        };
        if !self.queues.get(&name).is_some_and(same) {
            self.dirty_path(&name);
            let shape = QueueShape { name: Arc::clone(&name), parent: facts.parent.as_deref().map(Arc::from) };
            self.books.queue_upsert(&shape, limits);
            self.shares = None;
            self.dirty_path(&name);
            self.dirty_below(&name);
            self.nominations.queues_changed();
            self.requeue.changed(Change::Everything);
        }
        self.dirty_queues.insert(Arc::clone(&name));
        let affinity = facts.node_group_affinity.clone();
        let old = self.queues.insert(name, Arc::new(facts)).and_then(|old| old.node_group_affinity.clone());
        // Rare, and it reads all queues.
        if old != affinity {
            self.gather_node_groups();
        }
    }

    /// Removes a queue. What is used in it stays charged to its name.
    pub fn delete_queue(&mut self, name: &str) {
        self.dirty_path(name);
        self.dirty_below(name);
        if let Some(old) = self.queues.remove(name) {
            self.books.queue_remove(name);
            if old.node_group_affinity.is_some() {
                self.gather_node_groups();
            }
            self.nominations.queues_changed();
            self.shares = None;
            self.requeue.changed(Change::Everything);
        }
    }

    /// Whether later PodGroups wait for the first one (A6).
    #[must_use]
    pub fn is_fifo(&self, queue: &str) -> bool {
        self.queues.get(queue).is_some_and(|facts| facts.dequeue_strategy == DequeueStrategy::Fifo)
    }

    /// Returns the first queue on the path from this one to the root that requires node groups, and the field that says so.
    pub(in crate::cycle) fn node_groups(&self, queue: &str) -> Option<(Arc<str>, &'static str)> {
        let way = self.books.quota().tree().way(queue);
        way.into_iter().find_map(|queue| self.queues.get(&queue)?.node_groups.map(|field| (queue, field)))
    }

    /// Returns the node groups of other queues: pods of this queue avoid their nodes, as in Volcano. A queue without a setting inherits
    /// that of the nearest queue above.
    pub(in crate::cycle) fn barred_groups(&self, queue: &str) -> BTreeSet<String> {
        if self.node_groups_named.is_empty() {
            return BTreeSet::new();
        }
        let way = self.books.quota().tree().way(queue);
        let own = way.into_iter().find_map(|queue| self.queues.get(&queue)?.node_group_affinity.as_ref());
        NodeGroupAffinity::barred(own, &self.node_groups_named)
    }

    /// Sets the node groups that unknown queues name, for a world that is made to answer one question.
    pub fn name_node_groups(&mut self, named: BTreeSet<String>) {
        self.node_groups_named = named;
    }

    fn gather_node_groups(&mut self) {
        let affinities = self.queues.values().filter_map(|queue| queue.node_group_affinity.as_ref());
        self.node_groups_named = affinities.flat_map(|affinity| affinity.own.iter().cloned()).collect();
    }

    /// Marks this queue and all above it dirty: their use changed.
    pub(super) fn dirty_path(&mut self, name: &str) {
        let mut at: Arc<str> = Arc::from(name);
        for _ in 0..=MAX_DEPTH {
            let parent = self.books.quota().tree().parent(&at).cloned();
            self.dirty_queues.insert(at);
            let Some(parent) = parent else { break };
            at = parent;
        }
        self.dirty_queues.insert(Arc::from(ROOT_QUEUE));
    }

    /// Marks all queues below this one dirty: it was opened, closed, broken or repaired.
    fn dirty_below(&mut self, name: &str) {
        self.dirty_queues.extend(self.books.quota().tree().subtree(name));
    }

    /// Marks queues dirty that began or ceased to be guaranteed less than their children, and all queues below them.
    pub(super) fn notice_overpromising(&mut self) {
        let now = self.books.quota().overpromising().cloned().collect();
        let before = std::mem::replace(&mut self.overpromising, now);
        let changed: Vec<_> = before.symmetric_difference(&self.overpromising).cloned().collect();
        changed.iter().for_each(|queue| self.dirty_below(queue));
    }

    /// Retries preemptions when the unused part of all floors shrank. Where pods use all floors, the nodes themselves are the limit (F5).
    /// So a smaller unused part may let in PodGroups that were refused for amounts. No other charge helps another PodGroup.
    pub(in crate::cycle) fn notice_unfilled(&mut self) {
        let now = self.books.quota().queue(ROOT_QUEUE).unfilled.clone();
        if self.unfilled.iter().any(|(dimension, was)| now.get(dimension.as_str()) < was) {
            self.preemption_retries.changed();
        }
        self.unfilled = now;
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
            if let Some(phases) = self.phases.get_mut(&queue) {
                if let Some(count) = phases.get_mut(&phase) {
                    *count = count.saturating_sub(1);
                }
                phases.retain(|_, count| *count > 0);
                if phases.is_empty() {
                    self.phases.remove(&queue);
                }
            }
            self.dirty_queues.insert(queue);
        }
        if let Some((queue, phase)) = filed {
            let count = self.phases.entry(Arc::clone(&queue)).or_default().entry(phase).or_default();
            *count = count.saturating_add(1);
            self.dirty_queues.insert(queue);
        }
    }

    /// The number of PodGroups of the queue itself in this phase.
    #[must_use]
    pub fn in_phase(&self, queue: &str, phase: Phase) -> i32 {
        self.phases.get(queue).and_then(|phases| phases.get(&phase)).copied().unwrap_or(0)
    }
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
    use crate::cycle::tests::world;

    #[test]
    fn nothing_is_remembered_of_a_queue_that_a_group_named_once() {
        let mut world = world();
        for queue in ["x", "y"] {
            world.apply_group(group("ns", "g", 1, queue));
            world.file(&GroupKey::new("ns", "g"), Some(Phase::Pending));
        }
        assert_eq!((world.phases.len(), world.in_phase("y", Phase::Pending)), (1, 1));
        world.delete_group(&GroupKey::new("ns", "g"));
        assert!(world.phases.is_empty());
    }
}
