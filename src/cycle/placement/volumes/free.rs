//! Which volumes are free, and which name a claim?
//!
//! Most local volumes name one node. So the free ones are found by a label that the node must have, where each of their terms requires one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::pod::NodeRequirement;
use crate::api::volumes::{ClaimKey, VolumeFacts};
use crate::resources::Amount;

/// Sizes and names of volumes, the smallest first.
pub(super) type Sorted = BTreeSet<(Amount, Arc<str>)>;

/// The volumes that claims without a volume may get.
#[derive(Debug, Default)]
pub(super) struct FreeVolumes {
    /// By class: those that are available to any claim.
    by_class: BTreeMap<Arc<str>, OfClass>,
    /// By claim: those that name it. Bound ones are among them.
    by_claim: BTreeMap<ClaimKey, BTreeSet<Arc<str>>>,
}

/// The volumes of a class that are available to any claim. A volume is in each list of the labels that it requires, or in `others`.
#[derive(Debug, Default)]
pub(super) struct OfClass {
    /// By key and value of a label that the node must have.
    by_label: BTreeMap<String, BTreeMap<String, Sorted>>,
    /// Those that are found by no label.
    others: Sorted,
}

impl OfClass {
    /// Returns the lists of the volumes that a node with these labels may mount.
    pub(super) fn for_labels(&self, labels: &BTreeMap<String, String>) -> impl Iterator<Item = &Sorted> {
        let with_label = self.by_label.iter().filter_map(|(key, values)| values.get(labels.get(key)?));
        with_label.chain([&self.others])
    }

    fn add(&mut self, volume: &VolumeFacts, entry: &(Amount, Arc<str>)) {
        let Some(labels) = required_labels(volume) else {
            self.others.insert(entry.clone());
            return;
        };
        for (key, value) in labels {
            self.by_label.entry(key.clone()).or_default().entry(value.clone()).or_default().insert(entry.clone());
        }
    }

    fn remove(&mut self, volume: &VolumeFacts, entry: &(Amount, Arc<str>)) {
        let Some(labels) = required_labels(volume) else {
            self.others.remove(entry);
            return;
        };
        for (key, value) in labels {
            if let Some(values) = self.by_label.get_mut(key) {
                super::leave(values, value, entry);
                if values.is_empty() {
                    self.by_label.remove(key);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }
}

impl FreeVolumes {
    /// Returns the volumes of the class that are available to any claim; none where there are none.
    pub(super) fn of_class(&self, class: &str) -> Option<&OfClass> {
        self.by_class.get(class)
    }

    /// Returns the names of the volumes that name the claim, in order.
    pub(super) fn naming(&self, claim: &ClaimKey) -> impl Iterator<Item = &Arc<str>> {
        self.by_claim.get(claim).into_iter().flatten()
    }

    /// Adds a volume.
    pub(super) fn add(&mut self, volume: &VolumeFacts) {
        if let Some(offer) = volume.offer.as_ref().filter(|offer| offer.is_available) {
            self.by_class.entry(Arc::clone(&offer.class)).or_default().add(volume, &(offer.size, Arc::clone(&volume.name)));
        }
        if let Some(of) = &volume.claim {
            self.by_claim.entry(of.claim.clone()).or_default().insert(Arc::clone(&volume.name));
        }
    }

    /// Removes a volume, with the facts with which it was added.
    pub(super) fn remove(&mut self, volume: &VolumeFacts) {
        if let Some(offer) = &volume.offer
            && let Some(of_class) = self.by_class.get_mut(&offer.class)
        {
            of_class.remove(volume, &(offer.size, Arc::clone(&volume.name)));
            if of_class.is_empty() {
                self.by_class.remove(&offer.class);
            }
        }
        if let Some(of) = &volume.claim {
            super::leave(&mut self.by_claim, &of.claim, &volume.name);
        }
    }
}

/// Returns keys and values of labels of which the node must have one; none where a term has no such requirement, or where what counts
/// depends on the node's CSI drivers.
fn required_labels(volume: &VolumeFacts) -> Option<impl Iterator<Item = (&String, &String)>> {
    let terms = volume.affinity.terms.as_ref().filter(|_| volume.affinity.migrated.is_none())?;
    let labels: Option<Vec<&NodeRequirement>> =
        terms.iter().map(|term| term.match_expressions.iter().find(|requirement| requirement.operator == "In")).collect();
    Some(labels?.into_iter().flat_map(|requirement| requirement.values.iter().map(|value| (&requirement.key, value))))
}
