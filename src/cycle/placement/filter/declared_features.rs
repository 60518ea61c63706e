//! The predicate for declared features: the node must declare every feature that the pod needs.
//!
//! Which features a pod needs follows from its spec (`component-helpers/nodedeclaredfeatures`, Kubernetes 1.36).

use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct DeclaredFeatures;

impl Predicate for DeclaredFeatures {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let missing = query.constraints.node_features.iter().find(|feature| !node.facts.declared_features.contains(**feature));
        missing.map(|feature| Reason::DeclaredFeature { feature }.into())
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.constraints.node_features.is_empty()
    }
}
