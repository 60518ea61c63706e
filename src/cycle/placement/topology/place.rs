//! On which node does a pod count, and is it there already?

use std::sync::Arc;

/// Where a pod counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: Arc<str>,
    /// Whether the pod is not there yet, and the node is nominated for it.
    pub is_nominated: bool,
}

impl Place {
    /// The place of a pod that is on its node, or is being bound to it.
    #[must_use]
    pub fn on(node: &str) -> Self {
        Self { node: Arc::from(node), is_nominated: false }
    }

    /// The place of a pod for which the node is nominated.
    #[must_use]
    pub fn nominated(node: &str) -> Self {
        Self { node: Arc::from(node), is_nominated: true }
    }
}
