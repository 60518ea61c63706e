//! The rules of docs/design/accounting.md, word for word and slowly, on the record's facts.

use std::collections::BTreeSet;

use super::Record;
use crate::resources::{Amount, Resources};

/// The dimensions of these histories.
const DIMENSIONS: [&str; 3] = ["cpu", "memory", "nvidia.com/gpu"];
const ROOT: u8 = 0;
const DEFAULT: u8 = 1;

impl Record {
    fn parent(&self, queue: u8) -> Option<u8> {
        match (queue, self.queues.get(&queue)) {
            (ROOT, _) => None,
            (DEFAULT, None) => Some(ROOT),
            (_, found) => found.map(|(parent, _)| *parent),
        }
    }

    /// Deletes a queue: it keeps its place while anything is taken in it or below it (T5).
    pub(super) fn delete(&mut self, queue: u8) {
        let place = self.parent(queue).filter(|_| queue != DEFAULT && queue != ROOT && self.is_in_use(queue));
        if self.queues.remove(&queue).is_some()
            && let Some(parent) = place
        {
            self.places.insert(queue, parent);
        }
    }

    pub(super) fn forget_unused_places(&mut self) {
        let unused = |queue: &u8| self.queues.contains_key(queue) || !self.is_in_use(*queue);
        let unused: Vec<u8> = self.places.keys().copied().filter(unused).collect();
        self.places.retain(|queue, _| !unused.contains(queue));
    }

    fn is_in_use(&self, queue: u8) -> bool {
        DIMENSIONS.into_iter().any(|name| !self.taken(queue, name).is_zero())
    }

    /// The children in the order in which they share (F3).
    fn children(&self, of: u8) -> Vec<u8> {
        let mut children: Vec<u8> = super::QUEUES.filter(|queue| self.parent(*queue) == Some(of)).collect();
        children.sort_by_key(|queue| (-self.queues.get(queue).map_or(0, |(_, limits)| limits.priority), super::queue_name(*queue)));
        children
    }

    /// The queue, those above it and `root`, each once (T3, T5).
    pub(super) fn way(&self, queue: u8) -> BTreeSet<u8> {
        let mut way = BTreeSet::from([ROOT]);
        let mut at = Some(queue);
        while let Some(queue) = at.filter(|queue| *queue == ROOT || way.insert(*queue)) {
            at = self.parent(queue).or_else(|| self.places.get(&queue).copied());
        }
        way
    }

    /// N4.
    fn total(&self, dimension: &str) -> Amount {
        let left = |(name, offers): (&u8, &Resources)| {
            let foreign = self.pods.values().filter(|(node, queue, ..)| *node == Some(*name) && queue.is_none());
            foreign.fold(offers.get(dimension), |left, (.., asked, _)| left.minus(asked.get(dimension))).max(Amount::ZERO)
        };
        self.nodes.iter().map(left).fold(Amount::ZERO, Amount::plus)
    }

    /// T4.
    fn taken(&self, of: u8, dimension: &str) -> Amount {
        let pods = self.pods.values().filter_map(|(_, queue, asked, _)| Some(((*queue)?, asked)));
        let all = pods.chain(self.groups.values().map(|(queue, asked)| (*queue, asked)));
        all.filter(|(queue, _)| self.way(*queue).contains(&of)).fold(Amount::ZERO, |sum, (_, asked)| sum.plus(asked.get(dimension)))
    }

    /// F2.
    fn guarantee(&self, queue: u8, dimension: &str) -> Amount {
        let stated = self.queues.get(&queue).and_then(|(_, limits)| limits.guarantee.get(dimension));
        stated.unwrap_or_else(|| self.children_guarantee(queue, dimension))
    }

    fn children_guarantee(&self, queue: u8, dimension: &str) -> Amount {
        self.children(queue).into_iter().fold(Amount::ZERO, |sum, child| sum.plus(self.guarantee(child, dimension)))
    }

    /// F3; 0 for a queue that is not below `root`.
    fn floor(&self, queue: u8, dimension: &str) -> Amount {
        if queue == ROOT {
            let capability = self.queues.get(&ROOT).and_then(|(_, limits)| limits.capability.get(dimension));
            return self.total(dimension).min(capability.unwrap_or(Amount::MAX));
        }
        let Some(parent) = self.parent(queue).filter(|_| self.is_below_root(queue)) else { return Amount::ZERO };
        let mut left = self.floor(parent, dimension);
        for child in self.children(parent) {
            let floor = self.guarantee(child, dimension).min(left);
            if child == queue {
                return floor;
            }
            left = left.minus(floor);
        }
        Amount::ZERO
    }

    fn is_below_root(&self, queue: u8) -> bool {
        let (mut at, mut steps) = (queue, 0);
        while let Some(parent) = self.parent(at).filter(|_| steps <= super::QUEUES.end) {
            (at, steps) = (parent, steps + 1);
        }
        at == ROOT
    }

    /// F4. What is taken and counts for none of its children is its own; for `root` that includes detached queues.
    fn held(&self, queue: u8, dimension: &str) -> Amount {
        let taken = self.taken(queue, dimension);
        if !self.is_below_root(queue) {
            return taken;
        }
        let own = self.children(queue).into_iter().fold(taken, |own, child| own.minus(self.taken(child, dimension)));
        let sum = self.children(queue).into_iter().fold(own, |sum, child| sum.plus(self.held(child, dimension)));
        if queue == ROOT { sum } else { sum.max(self.floor(queue, dimension)) }
    }

    pub(super) fn floors(&self, queue: u8) -> Resources {
        DIMENSIONS.map(|name| (name.into(), if queue == ROOT { Amount::ZERO } else { self.floor(queue, name) })).into_iter().collect()
    }

    pub(super) fn unused_guarantee(&self, queue: u8) -> Resources {
        DIMENSIONS.map(|name| (name.into(), self.held(queue, name).minus(self.taken(queue, name)))).into_iter().collect()
    }

    /// T1, T2, O2, F1 and F5.
    pub(super) fn fits(&mut self, queue: u8, asked: &Resources) -> bool {
        let exists = |queue: u8| queue <= DEFAULT || self.queues.contains_key(&queue);
        let way = self.way(queue);
        let broken = |at: &u8| {
            let stated = self.queues.get(at).into_iter().flat_map(|(_, limits)| limits.guarantee.iter());
            !exists(*at)
                || stated
                    .into_iter()
                    .any(|(name, own)| *at != ROOT && self.is_below_root(queue) && self.children_guarantee(*at, name) > own)
        };
        let closed = |at: &u8| self.queues.get(at).is_some_and(|(_, limits)| limits.closed_by_hand);
        let no_leaf = queue == ROOT || !self.children(queue).is_empty();
        if no_leaf || !self.is_below_root(queue) || way.iter().any(|at| broken(at) || closed(at)) {
            return false;
        }
        let look = |record: &Self| -> Vec<[Amount; 2]> {
            let every = way.iter().flat_map(|at| DIMENSIONS.map(|name| (*at, name)));
            every.map(|(at, name)| [record.taken(at, name), record.held(at, name)]).collect()
        };
        let before = look(self);
        let charged = (None, Some(queue), asked.clone(), super::Stage::Placed);
        self.pods.insert(u8::MAX, charged);
        let after = look(self);
        let reserved = std::mem::take(&mut self.groups);
        let unfilled: Vec<_> = DIMENSIONS.into_iter().filter(|name| self.held(ROOT, name) > self.taken(ROOT, name)).collect();
        self.groups = reserved;
        self.pods.remove(&u8::MAX);
        let every = way.iter().flat_map(|at| DIMENSIONS.map(|name| (*at, name)));
        every.zip(before.into_iter().zip(after)).all(|((at, name), ([taken_before, held_before], [taken, held]))| {
            let capability = self.queues.get(&at).and_then(|(_, limits)| limits.capability.get(name)).unwrap_or(Amount::MAX);
            let below = |grown: bool, amount: Amount, ceiling: Amount| !grown || amount <= ceiling;
            let grows = held > held_before;
            below(taken > taken_before, taken, capability)
                && below(grows, held, capability)
                && (at != ROOT || !unfilled.contains(&name) || below(grows, held, self.total(name)))
        })
    }
}
