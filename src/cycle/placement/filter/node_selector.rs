//! The predicate for the pod's nodeSelector: the node must have every label of it.

use crate::api::NodeFacts;
use crate::api::pod_facts::Constraints;
use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct NodeSelector;

impl Predicate for NodeSelector {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        (!matches(query.constraints, node.facts)).then(|| Reason::NodeSelector.into())
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.constraints.node_selector.is_empty()
    }
}

/// Returns whether the node has every label of the nodeSelector.
pub(super) fn matches(constraints: &Constraints, node: &NodeFacts) -> bool {
    constraints.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}
