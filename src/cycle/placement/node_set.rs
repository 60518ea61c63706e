//! A set of nodes, with a name: the only nodes to which some pods may go.

use std::fmt;
use std::sync::Arc;

use crate::cycle::explain::Reason;

use super::nodes::NodeId;

/// A set of nodes. Two sets with the same reason are the same set.
#[derive(Clone)]
pub struct NodeSet(Arc<Set>);

struct Set {
    /// Why every other node refuses, which names the set.
    outside: Reason,
    /// By the index of the node.
    has: Vec<bool>,
}

impl NodeSet {
    /// Returns the set of these nodes. All others refuse for the reason `outside`, which names the set.
    #[must_use]
    pub fn new(outside: Reason, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut has = Vec::new();
        for index in nodes.into_iter().map(NodeId::index) {
            if has.len() <= index {
                has.resize(index.saturating_add(1), false);
            }
            if let Some(slot) = has.get_mut(index) {
                *slot = true;
            }
        }
        Self(Arc::new(Set { outside, has }))
    }

    /// Returns whether the node is in the set.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.0.has.get(node.index()).copied().unwrap_or(false)
    }

    /// Returns why every other node refuses.
    #[must_use]
    pub fn outside(&self) -> &Reason {
        &self.0.outside
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.0.has.iter().filter(|has| **has).count();
        write!(f, "NodeSet({:?}, {nodes} nodes)", self.0.outside)
    }
}
