//! How does a queue come, change and go, and what is counted of its groups?

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::{MAX_DEPTH, QueueLimits, QueueShape, ROOT_QUEUE};
use crate::api::queue::{DequeueStrategy, NodeGroupAffinity};
use crate::api::{GroupKey, QueueFacts};

use crate::cycle::requeue::Change;

use super::{Phase, World};

impl World {
    /// A queue is there, with these facts.
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
        // Seldom, as it looks at all queues.
        if old != affinity {
            self.gather_node_groups();
        }
    }

    /// There is no such queue any more. What is used in it stays charged to its name.
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

    /// Whether nobody passes the one who comes first (A6).
    #[must_use]
    pub fn is_fifo(&self, queue: &str) -> bool {
        self.queues.get(queue).is_some_and(|facts| facts.dequeue_strategy == DequeueStrategy::Fifo)
    }

    /// The first queue on the way of this one, itself included, that asks for groups of nodes without exception, and by which field.
    pub(in crate::cycle) fn node_groups(&self, queue: &str) -> Option<(Arc<str>, &'static str)> {
        let way = self.books.quota().tree().way(queue);
        way.into_iter().find_map(|queue| self.queues.get(&queue)?.node_groups.map(|field| (queue, field)))
    }

    /// The node groups that are labelled for other queues than this one: its pods keep away from their nodes, as in Volcano. What a queue says nothing about, the nearest
    /// queue above it says.
    pub(in crate::cycle) fn barred_groups(&self, queue: &str) -> BTreeSet<String> {
        if self.node_groups_named.is_empty() {
            return BTreeSet::new();
        }
        let way = self.books.quota().tree().way(queue);
        let own = way.into_iter().find_map(|queue| self.queues.get(&queue)?.node_group_affinity.as_ref());
        NodeGroupAffinity::barred(own, &self.node_groups_named)
    }

    /// Says which node groups are named by queues that are not known here, for a world that is made to answer one question.
    pub fn name_node_groups(&mut self, named: BTreeSet<String>) {
        self.node_groups_named = named;
    }

    fn gather_node_groups(&mut self) {
        let affinities = self.queues.values().filter_map(|queue| queue.node_group_affinity.as_ref());
        self.node_groups_named = affinities.flat_map(|affinity| affinity.own.iter().cloned()).collect();
    }

    /// What is used in this queue and in all above it changed.
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

    /// What holds for this queue and so for all below it changed: whether it is open, or broken.
    fn dirty_below(&mut self, name: &str) {
        self.dirty_queues.extend(self.books.quota().tree().subtree(name));
    }

    /// One queue's guarantee breaks or heals another above it, and so all below that: what is said about those changed.
    pub(super) fn notice_overpromising(&mut self) {
        let now = self.books.quota().overpromising().cloned().collect();
        let before = std::mem::replace(&mut self.overpromising, now);
        let changed: Vec<_> = before.symmetric_difference(&self.overpromising).cloned().collect();
        changed.iter().for_each(|queue| self.dirty_below(queue));
    }

    /// Where pods fill all floors the nodes themselves are the limit (F5). Whom that lets in follows from how much is unfilled in all; where that is less than it was, everybody
    /// who was refused for amounts has another look in turn. It is the one thing by which a charge helps somebody else.
    pub(in crate::cycle) fn notice_unfilled(&mut self) {
        let now = self.books.quota().queue(ROOT_QUEUE).unfilled.clone();
        if self.unfilled.iter().any(|(dimension, was)| now.get(dimension.as_str()) < was) {
            self.asking.changed();
        }
        self.unfilled = now;
    }

    /// Counts the group in its queue under its phase; under none where it is gone.
    pub fn file(&mut self, key: &GroupKey, phase: Option<Phase>) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let filed = phase.zip(group.facts.as_ref()).map(|(phase, facts)| (Arc::from(facts.queue.as_str()), phase));
        if group.filed == filed {
            return;
        }
        let old = std::mem::replace(&mut group.filed, filed.clone());
        if let Some((queue, phase)) = old {
            // Anybody can write the name of a queue into a group, so nothing stays of one in which there is nobody.
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

    /// How many groups of the queue itself are in this phase.
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
