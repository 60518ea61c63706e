//! The predicate for claims that one pod at a time may use (`ReadWriteOncePod`): no pod on any node may use one of the pod's.
//!
//! The rule of kube-scheduler's plugin VolumeRestrictions, worked out before ([`verdict`](crate::cycle::placement::topology::verdict)).

use crate::cycle::explain::Reason;

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct VolumeRestrictions;

impl Predicate for VolumeRestrictions {
    fn refuses(&self, query: &Query<'_>, _node: &NodeState<'_>) -> Option<No> {
        query.verdict.has_claim_in_use().then(|| Reason::ClaimInUse.into())
    }

    fn basis(&self) -> Basis {
        Basis::Before
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        query.verdict.has_claim_in_use()
    }
}
