//! What do classes and verdicts read of the placed pods?

use std::collections::BTreeSet;

use crate::api::Uid;
use crate::api::pod_terms::HostPort;
use crate::cycle::placement::nodes::NodeId;
use crate::cycle::placement::topology::on_nodes::{Count, OnNodes};
use crate::cycle::placement::topology::place::Place;
use crate::cycle::placement::topology::selection::{LabelSetId, SelectorId};
use crate::cycle::placement::volumes::Volumes;
use crate::resources::ResourceName;

use super::{PlacedPods, TermId, WishId};

impl PlacedPods {
    /// Returns the kinds of devices that nodes have and that a pod has requested since.
    #[must_use]
    pub const fn wanted_devices(&self) -> &BTreeSet<ResourceName> {
        self.devices.wanted()
    }

    /// Returns a number that grows whenever these kinds change.
    #[must_use]
    pub const fn devices_version(&self) -> u64 {
        self.devices.version()
    }

    /// Returns the label set of a known pod.
    #[must_use]
    pub fn set_of(&self, uid: &Uid) -> Option<LabelSetId> {
        self.pods.get(uid).map(|pod| pod.set)
    }

    /// Returns where a known pod counts; none where it has no node.
    #[must_use]
    pub fn place_of(&self, uid: &Uid) -> Option<&Place> {
        self.pods.get(uid)?.place.as_ref()
    }

    /// Returns the selectors that the pod is of interest to: those that match it, and those of its anti-affinity.
    #[must_use]
    pub fn interested(&self, uid: &Uid) -> Vec<SelectorId> {
        let Some(pod) = self.pods.get(uid) else { return Vec::new() };
        self.selection.selectors_of(pod.set).chain(pod.terms.iter().map(|term| term.0)).collect()
    }

    /// Returns the nodes where a pod has this port: at the same address, or either at all addresses.
    pub fn with_port(&self, port: &HostPort) -> impl Iterator<Item = NodeId> + '_ {
        self.ports.with(port)
    }

    /// Returns whether the pod has terms, or uses volumes, that keep other pods away.
    #[must_use]
    pub fn keeps_others_away(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|pod| !pod.terms.is_empty() || self.volumes.may_keep_away(&pod.facts))
    }

    /// Returns the storage objects, and what the pods use of them.
    #[must_use]
    pub const fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Returns the same, to record what changed of the objects.
    pub const fn volumes_mut(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// Returns the known pods that cannot use a claim because this pod may use it; the pod itself is among them.
    #[must_use]
    pub fn rivals(&self, uid: &Uid) -> BTreeSet<Uid> {
        self.pods.get(uid).filter(|pod| !pod.facts.claims.is_empty()).map(|pod| self.volumes.rivals(&pod.facts)).unwrap_or_default()
    }

    /// Returns whether the selector matches the label set.
    #[must_use]
    pub fn matches(&self, selector: SelectorId, set: LabelSetId) -> bool {
        self.selection.matches(selector, set)
    }

    /// Returns the terms of anti-affinity, of any pod wherever it is, that keep away pods with this label set; in order.
    pub fn terms_against(&self, set: LabelSetId) -> impl Iterator<Item = TermId> + '_ {
        self.selection.selectors_of(set).flat_map(|selector| self.terms.of(selector))
    }

    /// Returns the preferences, of any pod wherever it is, about pods with this label set, and the required affinity that selects them; in order.
    pub fn wishes_for(&self, set: LabelSetId) -> impl Iterator<Item = WishId> + '_ {
        self.selection.selectors_of(set).flat_map(|selector| self.wishes.of(selector))
    }

    /// Returns the number of pods on each node that have this preference.
    pub fn wishing(&self, wish: &WishId) -> impl Iterator<Item = (NodeId, Count)> + '_ {
        self.wishes.owners(wish)
    }

    /// Returns the pods of the controller on each node that are spread by default; none where none is on a node.
    #[must_use]
    pub fn replicas_of(&self, controller: &Uid) -> Option<&OnNodes> {
        self.replicas.get(controller)
    }

    /// Returns the pods on each node that the selector matches.
    pub fn matched(&self, selector: SelectorId) -> impl Iterator<Item = (NodeId, Count)> + '_ {
        self.of_selectors.get(&selector).into_iter().flat_map(OnNodes::iter)
    }

    /// Returns the nodes with pods that have this term of anti-affinity.
    pub fn owners(&self, term: &TermId) -> impl Iterator<Item = NodeId> + '_ {
        self.terms.owners(term).map(|(node, _)| node)
    }
}
