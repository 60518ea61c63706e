//! The predicate for the zone labels of volumes: a node with such labels must be in one of the zones of each volume.
//!
//! The rules of kube-scheduler's plugin VolumeZone. A node without any such label takes every volume: the cluster has one zone then.

use crate::api::NodeFacts;
use crate::api::volumes::VolumeZone as Zone;
use crate::api::volumes::volume::ZONE_LABELS;
use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct VolumeZone;

impl Predicate for VolumeZone {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let mut zones = query.constraints.volumes.iter().flat_map(|volumes| &volumes.zones);
        (self.concerns_node(node.facts) && zones.any(|zone| !is_in(zone, node.facts))).then(|| Reason::VolumeZone.into())
    }

    fn concerns_node(&self, node: &NodeFacts) -> bool {
        ZONE_LABELS.iter().any(|(label, _)| node.labels.contains_key(*label))
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        query.constraints.volumes.as_ref().is_some_and(|volumes| !volumes.zones.is_empty())
    }
}

fn is_in(zone: &Zone, node: &NodeFacts) -> bool {
    let value = node.labels.get(zone.label).or_else(|| node.labels.get(zone.present));
    value.is_some_and(|value| zone.values.contains(value.as_str()))
}
