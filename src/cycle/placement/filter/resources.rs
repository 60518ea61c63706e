//! The predicate for resources: the node must have enough idle of every resource that the pod requests.
//!
//! A resource that the pod does not request is ignored: an overcommitted node still takes the pod that will repair it (A1).

use crate::cycle::explain::Reason;

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct Resources;

impl Predicate for Resources {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let short = node.accounting.fits(query.request).err()?;
        Some(No { reason: Reason::Lacks(short.name), asked: short.asked, free: short.idle })
    }

    fn basis(&self) -> Basis {
        Basis::Amounts
    }
}
