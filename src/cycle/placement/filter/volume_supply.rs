//! The predicate for claims that have no volume yet: the node must have a free volume for each, or its class must be able to make one for the node.
//!
//! The rule of kube-scheduler's plugin VolumeBinding for claims of `WaitForFirstConsumer` classes, worked out before
//! ([`verdict`](crate::cycle::placement::topology::verdict)).

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct VolumeSupply;

impl Predicate for VolumeSupply {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        query.verdict.lacks_volume(node.id).map(|missing| missing.reason().into())
    }

    fn basis(&self) -> Basis {
        Basis::Before
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        query.verdict.may_lack_volumes()
    }
}
