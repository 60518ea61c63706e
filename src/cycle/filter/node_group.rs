//! Is the node labelled for the pods of another queue?
//!
//! Volcano's plugin `nodegroup` keeps pods off the nodes of a node group that their queue does not name. Which groups those are is worked out once for a queue.

use crate::api::names::NODE_GROUP;
use crate::cycle::explain::Reason;

use super::{Asked, No, Sight};

pub(super) fn refuses(asked: &Asked<'_>, node: &Sight<'_>) -> Option<No> {
    if asked.barred.is_empty() {
        return None;
    }
    let group = node.facts.labels.get(NODE_GROUP)?;
    asked.barred.contains(group).then(|| Reason::NodeGroup { group: group.clone() }.into())
}
