//! Which claims do pods on nodes use, and which volumes does each node count against its limits?
//!
//! A volume counts once on a node, however many pods use it there, and whether or not it is attached already. As in kube-scheduler, a
//! volume that is attached and that no pod there uses yet counts as attached and, for a pod that comes with it, once more as new.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::volumes::{ClaimKey, VolumeId};

/// The use of claims and volumes.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// By claim: the volume that it counts as, and the number of pods on each node that use it.
    claims: BTreeMap<ClaimKey, UsedClaim>,
    /// By node: the volumes that it counts.
    nodes: BTreeMap<Arc<str>, BTreeMap<VolumeId, Use>>,
}

#[derive(Debug, Default)]
struct UsedClaim {
    id: Option<VolumeId>,
    nodes: BTreeMap<Arc<str>, Pods>,
}

/// The pods that use a claim on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pods {
    /// Those that are there.
    there: u32,
    /// Those for which the node is nominated.
    nominated: u32,
}

/// What uses a volume on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    pods: Pods,
    attachments: u32,
}

impl Pods {
    fn add(&mut self, other: Self, more: bool) {
        for (own, other) in [(&mut self.there, other.there), (&mut self.nominated, other.nominated)] {
            *own = if more { own.saturating_add(other) } else { own.saturating_sub(other) };
        }
    }
}

impl InUse {
    /// Counts a pod that uses the claim on the node, or counts it no more. `id` is what the claim counts as now.
    pub(super) fn count_pod(&mut self, claim: &ClaimKey, id: Option<&VolumeId>, node: &Arc<str>, is_nominated: bool, more: bool) {
        let one = if is_nominated { Pods { there: 0, nominated: 1 } } else { Pods { there: 1, nominated: 0 } };
        let used = self.claims.entry(claim.clone()).or_default();
        used.id = id.cloned();
        let pods = used.nodes.entry(Arc::clone(node)).or_default();
        pods.add(one, more);
        if *pods == Pods::default() {
            used.nodes.remove(node);
        }
        if used.nodes.is_empty() {
            self.claims.remove(claim);
        }
        id.into_iter().for_each(|id| self.change(id, node, |of| of.pods.add(one, more)));
    }

    /// Sets what the claim counts as from now on, and adds the nodes that count something else.
    pub(super) fn set_id(&mut self, claim: &ClaimKey, id: Option<&VolumeId>, changed: &mut BTreeSet<Arc<str>>) {
        let Some(used) = self.claims.get_mut(claim).filter(|used| used.id.as_ref() != id) else { return };
        let before = std::mem::replace(&mut used.id, id.cloned());
        for (node, pods) in used.nodes.clone() {
            before.iter().for_each(|before| self.change(before, &node, |of| of.pods.add(pods, false)));
            id.into_iter().for_each(|id| self.change(id, &node, |of| of.pods.add(pods, true)));
            changed.insert(node);
        }
    }

    /// Counts an attachment of the volume to the node, or counts it no more.
    pub(super) fn count_attachment(&mut self, id: &VolumeId, node: &Arc<str>, more: bool) {
        self.change(id, node, |of| {
            of.attachments = if more { of.attachments.saturating_add(1) } else { of.attachments.saturating_sub(1) };
        });
    }

    fn change(&mut self, id: &VolumeId, node: &Arc<str>, change: impl FnOnce(&mut Use)) {
        let volumes = self.nodes.entry(Arc::clone(node)).or_default();
        let of = volumes.entry(id.clone()).or_default();
        change(of);
        if *of == Use::default() {
            volumes.remove(id);
        }
        if volumes.is_empty() {
            self.nodes.remove(node);
        }
    }

    /// Returns whether a pod on a node uses the claim, or has a node nominated.
    pub(super) fn is_used(&self, claim: &ClaimKey) -> bool {
        self.claims.contains_key(claim)
    }

    /// Returns whether the node would have more volumes of a driver than its limit with these. Those that pods there use already are not new.
    pub(super) fn exceeds_limit(&self, node: &str, limits: &BTreeMap<Arc<str>, i64>, volumes: &BTreeSet<VolumeId>) -> bool {
        let none = BTreeMap::new();
        let here = self.nodes.get(node).unwrap_or(&none);
        let mut new: BTreeMap<&Arc<str>, i64> = BTreeMap::new();
        for id in volumes {
            // A pod with a nominated node may never come.
            if here.get(id).is_none_or(|of| of.pods.there == 0) {
                let count = new.entry(&id.driver).or_default();
                *count = count.saturating_add(1);
            }
        }
        new.into_iter().any(|(driver, new)| {
            let Some(limit) = limits.get(driver) else { return false };
            let used = here.keys().filter(|id| id.driver == *driver).count();
            new.saturating_add(i64::try_from(used).unwrap_or(i64::MAX)) > *limit
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.nodes.values().flat_map(BTreeMap::values).all(|of| of.pods == Pods::default())
    }
}
