//! The predicate for attach limits: with the volumes of the pod's claims, the node must not have more of a driver than it takes.
//!
//! The rule of kube-scheduler's plugin NodeVolumeLimits, worked out before ([`verdict`](crate::cycle::placement::topology::verdict)).

use crate::api::NodeFacts;
use crate::cycle::explain::Reason;

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct VolumeLimits;

impl Predicate for VolumeLimits {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        (self.concerns_node(node.facts) && query.verdict.exceeds_volume_limit(node.id)).then(|| Reason::VolumeLimit.into())
    }

    fn basis(&self) -> Basis {
        Basis::Before
    }

    fn concerns_node(&self, node: &NodeFacts) -> bool {
        node.csi.as_ref().is_some_and(|csi| !csi.limits.is_empty())
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        query.verdict.has_volume_limits()
    }
}
