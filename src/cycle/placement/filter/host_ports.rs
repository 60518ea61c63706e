//! The predicate for host ports: no pod on the node may have a host port that the pod asks for.

use crate::cycle::explain::Reason;

use super::{Basis, No, NodeState, Predicate, Query};

pub(super) struct HostPorts;

impl Predicate for HostPorts {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        query.verdict.has_port_taken(node.id).then(|| Reason::HostPorts.into())
    }

    fn basis(&self) -> Basis {
        Basis::Before
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        !query.verdict.is_empty()
    }
}
