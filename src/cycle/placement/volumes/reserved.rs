//! Which claims are about to get a volume, and from where?
//!
//! A placement reserves for the claims of its pod. Pods that share a claim share its reservation, which lasts until the last of them lets it go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::volumes::{ClaimKey, VolumeFacts};
use crate::api::{NodeFacts, Uid};

use super::Volumes;
use super::supply::Source;

/// What is reserved for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The node for which it was chosen.
    pub node: Arc<str>,
    /// Where its volume comes from.
    pub source: Source,
    /// The number of pods that rely on it.
    users: u32,
}

impl Volumes {
    /// Reserves for the claims of a pod that is placed on the node. Returns the claims; none where one of them gets no volume there.
    pub(in crate::cycle::placement) fn reserve(&mut self, claims: &BTreeSet<ClaimKey>, node: &NodeFacts) -> Vec<ClaimKey> {
        let sources = self.supply(claims).on(node).unwrap_or_default();
        let reserve = |(claim, source)| {
            self.reserved.add(&claim, &node.name, source);
            claim
        };
        sources.into_iter().map(reserve).collect()
    }

    /// Lets one pod's part of a reservation go. Returns whether nothing is reserved for the claim any more.
    pub(in crate::cycle::placement) fn undo_reserve(&mut self, claim: &ClaimKey) -> bool {
        self.reserved.remove(claim)
    }

    /// Does the same, and returns the pods with claims that may get a volume now: none where the claim has got what was reserved for it.
    pub fn let_go(&mut self, claim: &ClaimKey) -> BTreeSet<Uid> {
        let reserved = self.reserved.of(claim).map(|reservation| reservation.source.clone());
        let is_last = self.undo_reserve(claim);
        let facts = self.claims.get(claim);
        let is_served = facts.filter(|facts| facts.is_bound).zip(reserved).is_some_and(|(facts, reserved)| match reserved {
            Source::Volume(name) => facts.volume.as_ref() == Some(&name),
            Source::Provisioner => true,
        });
        let class = facts.filter(|_| is_last && !is_served).and_then(|facts| facts.class.clone());
        class.map(|class| self.waiting_for(&class)).unwrap_or_default()
    }

    /// Returns what is reserved for the claim; none where nothing is.
    #[must_use]
    pub fn reservation(&self, claim: &ClaimKey) -> Option<&Reservation> {
        self.reserved.of(claim)
    }

    /// Returns whether the volume is reserved for a claim.
    #[must_use]
    pub fn is_reserved(&self, volume: &str) -> bool {
        self.reserved.has_volume(volume)
    }

    /// Returns the known pods with a claim of the class that has no volume.
    pub(super) fn waiting_for(&self, class: &str) -> BTreeSet<Uid> {
        let claims = self.unbound.get(class).into_iter().flatten();
        claims.filter_map(|claim| self.pods_of_claim.get(claim)).flatten().cloned().collect()
    }

    /// Returns the known pods with a claim that may get the volume.
    pub(super) fn served_by(&self, volume: &VolumeFacts) -> BTreeSet<Uid> {
        let Some(offer) = &volume.offer else { return BTreeSet::new() };
        match &volume.claim {
            None => self.waiting_for(&offer.class),
            Some(of) => self.pods_of_claim.get(&of.claim).cloned().unwrap_or_default(),
        }
    }
}

/// All reservations.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    claims: BTreeMap<ClaimKey, Reservation>,
    /// The volumes among them, each for one claim.
    volumes: BTreeSet<Arc<str>>,
}

impl Reserved {
    /// Returns what is reserved for the claim.
    pub(super) fn of(&self, claim: &ClaimKey) -> Option<&Reservation> {
        self.claims.get(claim)
    }

    /// Returns whether the volume is reserved for a claim.
    pub(super) fn has_volume(&self, name: &str) -> bool {
        self.volumes.contains(name)
    }

    /// Adds a pod that relies on the reservation of the claim. It is as the source says where the claim had none.
    pub(super) fn add(&mut self, claim: &ClaimKey, node: &Arc<str>, source: Source) {
        let new = || {
            if let Source::Volume(name) = &source {
                self.volumes.insert(Arc::clone(name));
            }
            Reservation { node: Arc::clone(node), source: source.clone(), users: 0 }
        };
        let reservation = self.claims.entry(claim.clone()).or_insert_with(new);
        reservation.users = reservation.users.saturating_add(1);
    }

    /// Removes a pod that relied on it. Returns whether it was the last.
    pub(super) fn remove(&mut self, claim: &ClaimKey) -> bool {
        let Some(reservation) = self.claims.get_mut(claim) else { return false };
        reservation.users = reservation.users.saturating_sub(1);
        if reservation.users > 0 {
            return false;
        }
        if let Some(Reservation { source: Source::Volume(name), .. }) = self.claims.remove(claim) {
            self.volumes.remove(&name);
        }
        true
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.volumes.is_empty()
    }
}
