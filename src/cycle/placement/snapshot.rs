//! The snapshot of the nodes by which predicates and scores decide at one moment.

use std::collections::BTreeSet;

use crate::accounting::{Ledger, NodeView};
use crate::cycle::placement::Strategy;

use super::filter::NodeState;
use super::nodes::{NodeId, Nodes};
use super::topology::placed::PlacedPods;

/// The nodes, what is used on them and which pods keep others away, with everything that an open trial changed.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The nodes.
    pub nodes: &'a Nodes,
    /// What is used on them.
    pub ledger: &'a Ledger,
    /// The pods on them.
    pub placed: &'a PlacedPods,
    /// The strategy by which the best node is chosen.
    pub strategy: Strategy,
    /// The node groups that are labelled for other queues than that of the pods.
    pub barred: &'a BTreeSet<String>,
}

impl<'a> Snapshot<'a> {
    /// Returns one node; none if there is no such node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<NodeState<'a>> {
        let facts = self.nodes.get(id)?;
        Some(NodeState { id, facts, accounting: self.accounting(id)? })
    }

    /// Returns the accounting of one node: what it offers and what is used on it; none if there is no such node.
    #[must_use]
    pub fn accounting(&self, id: NodeId) -> Option<NodeView<'a>> {
        self.ledger.node(&self.nodes.get(id)?.name)
    }
}
