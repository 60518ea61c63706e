//! Which volumes are free, and which name a claim?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::volumes::{ClaimKey, VolumeFacts};
use crate::resources::Amount;

/// The volumes that claims without a volume may get.
#[derive(Debug, Default)]
pub(super) struct FreeVolumes {
    /// By class: those that are available to any claim, the smallest first.
    by_class: BTreeMap<Arc<str>, BTreeSet<(Amount, Arc<str>)>>,
    /// By claim: those that name it. Bound ones are among them.
    by_claim: BTreeMap<ClaimKey, BTreeSet<Arc<str>>>,
}

impl FreeVolumes {
    /// Returns the names of the volumes of the class that are available to any claim, the smallest first.
    pub(super) fn of_class(&self, class: &str) -> impl Iterator<Item = &Arc<str>> {
        self.by_class.get(class).into_iter().flatten().map(|(_, name)| name)
    }

    /// Returns the names of the volumes that name the claim, in order.
    pub(super) fn naming(&self, claim: &ClaimKey) -> impl Iterator<Item = &Arc<str>> {
        self.by_claim.get(claim).into_iter().flatten()
    }

    /// Adds a volume.
    pub(super) fn add(&mut self, volume: &VolumeFacts) {
        if let Some(offer) = volume.offer.as_ref().filter(|offer| offer.is_available) {
            self.by_class.entry(Arc::clone(&offer.class)).or_default().insert((offer.size, Arc::clone(&volume.name)));
        }
        if let Some(of) = &volume.claim {
            self.by_claim.entry(of.claim.clone()).or_default().insert(Arc::clone(&volume.name));
        }
    }

    /// Removes a volume, with the facts with which it was added.
    pub(super) fn remove(&mut self, volume: &VolumeFacts) {
        if let Some(offer) = &volume.offer {
            super::leave(&mut self.by_class, &offer.class, &(offer.size, Arc::clone(&volume.name)));
        }
        if let Some(of) = &volume.claim {
            super::leave(&mut self.by_claim, &of.claim, &volume.name);
        }
    }
}
