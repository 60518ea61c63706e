//! The predicate for node groups: the node must not be labelled for the pods of another queue.
//!
//! Volcano's plugin `nodegroup` keeps pods off the nodes of a node group that their queue does not name. Which groups those are is worked
//! out once for a queue.

use crate::api::NodeFacts;
use crate::api::names::NODE_GROUP;
use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct NodeGroup;

impl Predicate for NodeGroup {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let group = node.facts.labels.get(NODE_GROUP)?;
        query.barred.contains(group).then(|| Reason::NodeGroup { group: group.clone() }.into())
    }

    fn concerns_node(&self, node: &NodeFacts) -> bool {
        node.labels.contains_key(NODE_GROUP)
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.barred.is_empty()
    }
}
