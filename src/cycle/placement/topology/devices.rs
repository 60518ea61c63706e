//! Which kinds of devices are wanted: which do nodes have, and pods request?
//!
//! A device is an extended resource, with a `/` in its name. A kind is wanted once a pod requests it while a node has it, and stays so
//! while any node has it: nodes with devices stay free for the pods that come back. What is remembered is bounded by what the nodes have
//! and the known pods request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::resources::{ResourceName, Resources};

/// The kinds of devices that nodes have and pods request.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// How many known pods request each kind.
    requested: BTreeMap<ResourceName, usize>,
    /// The kinds of each node; no entry is empty.
    of_nodes: BTreeMap<Arc<str>, BTreeSet<ResourceName>>,
    /// How many nodes have each kind.
    offered: BTreeMap<ResourceName, usize>,
    /// The kinds that nodes have and that a pod has requested since.
    wanted: BTreeSet<ResourceName>,
    /// How often the wanted kinds changed.
    version: u64,
}

impl Devices {
    /// Adds a pod. Returns the kinds that it requests, for [`release`](Self::release).
    pub(super) fn request(&mut self, request: &Resources) -> Vec<ResourceName> {
        let kinds: Vec<ResourceName> = kinds(request).collect();
        for kind in &kinds {
            let pods = self.requested.entry(kind.clone()).or_default();
            *pods = pods.saturating_add(1);
            if self.offered.contains_key(kind) {
                self.want(kind);
            }
        }
        kinds
    }

    /// Removes a pod that requests these kinds.
    pub(super) fn release(&mut self, kinds: &[ResourceName]) {
        kinds.iter().for_each(|kind| _ = is_last(&mut self.requested, kind));
    }

    /// Records what a node offers; none where it is gone.
    pub(super) fn set_node(&mut self, name: &Arc<str>, offers: Option<&Resources>) {
        let now: BTreeSet<ResourceName> = offers.into_iter().flat_map(kinds).collect();
        if self.of_nodes.get(name).map_or(now.is_empty(), |before| *before == now) {
            return;
        }
        for kind in &now {
            let nodes = self.offered.entry(kind.clone()).or_default();
            *nodes = nodes.saturating_add(1);
            if self.requested.contains_key(kind) {
                self.want(kind);
            }
        }
        let before = if now.is_empty() { self.of_nodes.remove(name) } else { self.of_nodes.insert(Arc::clone(name), now) };
        for kind in before.into_iter().flatten() {
            if is_last(&mut self.offered, &kind) && self.wanted.remove(&kind) {
                self.version = self.version.saturating_add(1);
            }
        }
    }

    pub(super) const fn wanted(&self) -> &BTreeSet<ResourceName> {
        &self.wanted
    }

    /// Returns a number that grows whenever the wanted kinds change.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    fn want(&mut self, kind: &ResourceName) {
        if !self.wanted.contains(kind) {
            self.wanted.insert(kind.clone());
            self.version = self.version.saturating_add(1);
        }
    }

    /// Returns whether nothing is remembered but the kinds of nodes.
    #[cfg(test)]
    pub(super) fn has_no_pods(&self) -> bool {
        self.requested.is_empty()
    }
}

fn kinds(of: &Resources) -> impl Iterator<Item = ResourceName> {
    of.iter().filter(|(name, _)| name.is_device()).map(|(name, _)| name.clone())
}

/// Counts one less of the kind. Returns whether it was the last one.
fn is_last(counts: &mut BTreeMap<ResourceName, usize>, kind: &ResourceName) -> bool {
    let Some(count) = counts.get_mut(kind) else { return false };
    *count = count.saturating_sub(1);
    *count == 0 && counts.remove(kind).is_some()
}
