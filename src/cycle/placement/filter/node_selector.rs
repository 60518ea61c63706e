//! Has the node every label of the pod's nodeSelector?

use crate::cycle::explain::Reason;

use super::{Asked, No, Sight};

pub(super) fn refuses(asked: &Asked<'_>, node: &Sight<'_>) -> Option<No> {
    let all = asked.constraints.node_selector.iter().all(|(key, value)| node.facts.labels.get(key) == Some(value));
    (!all).then(|| Reason::NodeSelector.into())
}
