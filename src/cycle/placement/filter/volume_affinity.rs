//! The predicate for the node affinity of volumes: the node must be able to mount every volume of the pod's claims.
//!
//! The rules of kube-scheduler's plugin VolumeBinding for bound claims. A volume's terms are compared with the labels of the node alone;
//! what they require of its fields (its name) is ignored.

use crate::api::NodeFacts;
use crate::api::volumes::VolumeAffinity as Affinity;
use crate::cycle::explain::Reason;

use super::node_affinity::holds;
use super::{No, NodeState, Predicate, Query};

pub(super) struct VolumeAffinity;

impl Predicate for VolumeAffinity {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let mut affinity = query.constraints.volumes.iter().flat_map(|volumes| &volumes.affinity);
        affinity.any(|one| !can_mount(one, node.facts)).then(|| Reason::VolumeNodeAffinity.into())
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        query.constraints.volumes.as_ref().is_some_and(|volumes| !volumes.affinity.is_empty())
    }
}

/// Returns whether the node can mount a volume with this affinity.
pub(in crate::cycle::placement) fn can_mount(affinity: &Affinity, node: &NodeFacts) -> bool {
    let has_migrated = |plugin: &str| node.csi.as_ref().is_some_and(|csi| csi.migrated.contains(plugin));
    let terms = match &affinity.migrated {
        Some((plugin, terms)) if has_migrated(plugin) => terms,
        _ => &affinity.terms,
    };
    terms.as_ref().is_none_or(|terms| terms.iter().any(|term| holds(term, &node.labels, None)))
}
