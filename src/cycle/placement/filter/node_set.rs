//! The predicate for a set of nodes: the node must be in the set to which the pod is restricted.

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct NodeSet;

impl Predicate for NodeSet {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        query.verdict.outside(node.id).cloned().map(No::from)
    }

    fn basis(&self) -> Basis {
        Basis::Before
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.verdict.is_empty()
    }
}
