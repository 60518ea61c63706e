//! On which nodes is a host port taken?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::pod_terms::HostPort;
use crate::cycle::placement::nodes::NodeId;

use super::on_nodes::{Count, OnNodes};

/// The host ports of the pods on nodes.
#[derive(Debug, Default)]
pub(super) struct TakenPorts(BTreeMap<(u16, Arc<str>), ByAddress>);

/// The nodes on which an address is taken; none is all addresses of the node.
type ByAddress = BTreeMap<Option<Arc<str>>, OnNodes>;

impl TakenPorts {
    /// Counts a port of a pod that comes to the node, or of one that goes.
    pub(super) fn count(&mut self, port: &HostPort, node: NodeId, count: Count, more: bool) {
        let key = (port.port, Arc::clone(&port.protocol));
        let addresses = self.0.entry(key.clone()).or_default();
        let taken = addresses.entry(port.address.clone()).or_default();
        taken.add(node, count, more);
        if taken.is_empty() {
            addresses.remove(&port.address);
        }
        if addresses.is_empty() {
            self.0.remove(&key);
        }
    }

    /// Returns the nodes where a pod has this port: at the same address, or either at all addresses.
    pub(super) fn with(&self, port: &HostPort) -> impl Iterator<Item = NodeId> + '_ {
        let address = port.address.clone();
        let conflicts = move |other: &Option<Arc<str>>| address.is_none() || other.is_none() || *other == address;
        let addresses = self.0.get(&(port.port, Arc::clone(&port.protocol))).into_iter().flatten();
        addresses.filter(move |(other, _)| conflicts(other)).flat_map(|(_, taken)| taken.iter()).map(|(node, _)| node)
    }

    /// Returns whether no port is taken.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
