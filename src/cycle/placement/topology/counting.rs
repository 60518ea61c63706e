//! Which nodes count for the spread constraints of a class, by the policies of these?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::NodeFacts;
use crate::cycle::placement::class::{Class, ClassId};
use crate::cycle::placement::filter;
use crate::cycle::placement::nodes::Nodes;

use super::class_terms::Spread;
use super::verdict::Counting;

/// The most classes whose nodes are remembered. With more, all are forgotten and found again.
const MOST_CLASSES: usize = 512;

/// The nodes that count for each class that was asked for, for the nodes as they are.
#[derive(Debug, Default)]
pub struct CountingNodes {
    /// The version of the nodes' objects for which they were found.
    version: u64,
    classes: BTreeMap<ClassId, Arc<Counting>>,
}

impl CountingNodes {
    /// Returns the nodes that count for each spread constraint of the class.
    pub fn of(&mut self, id: ClassId, class: &Class, nodes: &Nodes) -> Arc<Counting> {
        if self.version != nodes.version() || self.classes.len() >= MOST_CLASSES {
            self.classes.clear();
            self.version = nodes.version();
        }
        Arc::clone(self.classes.entry(id).or_insert_with(|| Arc::new(counting(class, nodes))))
    }
}

/// Returns the nodes that count for each spread constraint of the class, first for those that must hold, then for those that should.
#[must_use]
pub fn counting(class: &Class, nodes: &Nodes) -> Counting {
    let is_restricted = !class.constraints.node_selector.is_empty() || class.constraints.node_affinity.is_some();
    // Constraints with the same policies share the nodes: a pod may have a hundred constraints.
    let mut by_policies: BTreeMap<(bool, bool), Arc<[bool]>> = BTreeMap::new();
    let mut of = |spread: &Spread| {
        let affinity = spread.constraint.honors_node_affinity && is_restricted;
        let taints = spread.constraint.honors_taints;
        let counts = |facts: &Arc<NodeFacts>| {
            (!affinity || filter::matches_affinity(&class.constraints, facts))
                && (!taints || filter::tolerates_taints(&class.constraints, facts))
        };
        let nodes_that_count = || nodes.ids().map(|id| nodes.get(id).is_some_and(counts)).collect();
        (affinity || taints).then(|| Arc::clone(by_policies.entry((affinity, taints)).or_insert_with(nodes_that_count)))
    };
    let soft = class.terms.preferences.iter().flat_map(|preferences| &preferences.spread);
    class.terms.spread.iter().chain(soft).map(&mut of).collect()
}
