//! The predicate for affinity, anti-affinity and spread: what the pods on nodes mean to the pod.
//!
//! It reaches over whole topology domains, so it is worked out for all nodes before ([`topology`](crate::cycle::placement::topology)).

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct OtherPods;

impl Predicate for OtherPods {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        query.verdict.refusal(node.id).cloned().map(No::from)
    }

    fn basis(&self) -> Basis {
        Basis::Before
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.verdict.is_empty()
    }
}
