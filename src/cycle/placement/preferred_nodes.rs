//! How much does a class prefer each node for the labels of the node?
//!
//! That follows from the objects alone, so it is worked out once for the nodes as they are, and not for each pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::class::{Class, ClassId};
use super::filter::preference;
use super::nodes::Nodes;

/// The most classes whose preferences are remembered, 8 bytes for each node. With more, all are forgotten and worked out again.
const MOST_CLASSES: usize = 64;

/// The preferences of each class that was asked for, for the nodes as they are.
#[derive(Debug, Default)]
pub(super) struct PreferredNodes {
    /// The version of the nodes' objects for which they were worked out.
    version: u64,
    classes: BTreeMap<ClassId, Arc<[i64]>>,
}

impl PreferredNodes {
    /// Does the same as [`preferred`]. Remembers it.
    pub(super) fn of(&mut self, id: ClassId, class: &Class, nodes: &Nodes) -> Arc<[i64]> {
        if self.version != nodes.version() || self.classes.len() >= MOST_CLASSES && !self.classes.contains_key(&id) {
            self.classes.clear();
            self.version = nodes.version();
        }
        Arc::clone(self.classes.entry(id).or_insert_with(|| preferred(class, nodes)))
    }
}

/// Returns the sum of the weights of the terms of preferred node affinity that hold for each node, by the index of the node. Empty where
/// the class has no such term.
pub(super) fn preferred(class: &Class, nodes: &Nodes) -> Arc<[i64]> {
    let terms = class.terms.preferences.as_ref().map(|preferences| preferences.node_affinity.as_slice()).unwrap_or_default();
    if terms.is_empty() {
        return Arc::default();
    }
    nodes.ids().map(|id| nodes.get(id).map_or(0, |node| preference(terms, node))).collect()
}
