//! The changes since the last cycle that may help waiting PodGroups.
//!
//! There is one entry for each node, queue, selector and key of a label that changed. A cycle takes them; where no cycle runs,
//! `Requeue::stand_by` bounds their number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cycle::cache::Wake;
use crate::cycle::placement::topology::selection::SelectorId;

/// The order in which changes and refusals happened. A refusal answers all changes with a smaller number.
pub(super) type Sequence = u64;

/// The changes that no cycle has answered yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The number of the last change or refusal.
    last: Sequence,
    /// By node: its last change.
    pub(super) nodes: BTreeMap<Arc<str>, Sequence>,
    /// By selector: when a pod that it matches last came to a node.
    pub(super) came: BTreeMap<SelectorId, Sequence>,
    /// By selector: when a pod that it matches last left its node.
    pub(super) left: BTreeMap<SelectorId, Sequence>,
    /// By key: the last change of a node's label with it.
    pub(super) labels: BTreeMap<Arc<str>, Sequence>,
    /// The last change of the topology domains, whatever their keys are.
    pub(super) domains: Option<Sequence>,
    pub(super) queues: BTreeSet<Arc<str>>,
    pub(super) everything: bool,
}

impl Changes {
    /// Adds a change. After a change of everything no other change is stored, because every PodGroup is tried anyway.
    pub(super) fn add(&mut self, change: Wake) {
        let number = self.next();
        match change {
            Wake::Everything => {
                self.all_answered();
                self.everything = true;
            }
            _ if self.everything => {}
            Wake::Node(name) => _ = self.nodes.insert(name, number),
            Wake::PodCame(selectors) => self.came.extend(selectors.into_iter().map(|selector| (selector, number))),
            Wake::PodLeft(selectors) => self.left.extend(selectors.into_iter().map(|selector| (selector, number))),
            Wake::Labels(keys) => self.labels.extend(keys.into_iter().map(|key| (key, number))),
            Wake::Domains => self.domains = Some(number),
            Wake::Quota(name) => _ = self.queues.insert(name),
        }
    }

    /// Returns how many names are remembered.
    pub(super) fn len(&self) -> usize {
        [self.queues.len(), self.came.len(), self.left.len(), self.labels.len()].into_iter().fold(self.nodes.len(), usize::saturating_add)
    }

    /// Returns a number that is larger than those of all changes so far.
    pub(super) const fn next(&mut self) -> Sequence {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Whether a cycle has something to answer.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_places() && self.queues.is_empty() && !self.everything
    }

    /// Whether nodes may take pods that they refused before.
    pub(super) fn has_places(&self) -> bool {
        !self.nodes.is_empty() || !self.came.is_empty() || !self.left.is_empty() || !self.labels.is_empty() || self.domains.is_some()
    }

    /// The changes of nodes and of the pods on them are answered.
    pub(super) fn nodes_answered(&mut self) {
        self.nodes.clear();
        self.came.clear();
        self.left.clear();
        self.labels.clear();
        self.domains = None;
    }

    /// All changes are answered, because every PodGroup is tried.
    pub(super) fn all_answered(&mut self) {
        self.nodes_answered();
        self.queues.clear();
        self.everything = false;
    }
}
