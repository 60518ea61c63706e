//! The predicate for anti-affinity: no term of a placed pod may forbid the pod on the node.
//!
//! Which labels of nodes are forbidden to the pod is worked out before ([`anti_affinity`](crate::cycle::placement::anti_affinity)).

use crate::cycle::explain::Reason;

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct AntiAffinity;

impl Predicate for AntiAffinity {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let here = |(key, value): &&(String, String)| node.facts.labels.get(key) == Some(value);
        query.forbidden.iter().find(here).map(|(key, _)| Reason::AntiAffinity { topology_key: key.clone() }.into())
    }

    fn basis(&self) -> Basis {
        Basis::Pods
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.forbidden.is_empty()
    }
}
