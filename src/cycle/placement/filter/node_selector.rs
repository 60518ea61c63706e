//! The predicate for the pod's nodeSelector: the node must have every label of it.

use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct NodeSelector;

impl Predicate for NodeSelector {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let all = query.constraints.node_selector.iter().all(|(key, value)| node.facts.labels.get(key) == Some(value));
        (!all).then(|| Reason::NodeSelector.into())
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.constraints.node_selector.is_empty()
    }
}
