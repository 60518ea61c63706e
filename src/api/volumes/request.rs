//! What does a claim without a volume ask for, and what does a free volume offer?
//!
//! The rules of `FindMatchingVolume` in k8s.io/component-helpers, by which kube-scheduler and kube-controller-manager choose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::label_selector::LabelSelector;
use crate::api::pod_facts::resource_version;
use crate::api::quantities::{RawResources, offered, resources};
use crate::api::uid::Uid;
use crate::resources::Amount;

use super::claim::PersistentVolumeClaim;
use super::volume::PersistentVolume;

/// The annotation with the node for which the provisioner is to make the volume of a claim.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation for the class before `spec.storageClassName` existed; it still takes precedence.
pub(super) const CLASS_BEFORE: &str = "volume.beta.kubernetes.io/storage-class";

/// The dimension of the size of claims and volumes.
pub(super) const STORAGE: &str = "storage";

/// The most requirements and values in the selectors of the claims of a pod that have no volume. A pod with more is not placed: each
/// selector is compared with the labels of each free volume.
pub const LARGEST_SELECTOR: usize = 1_000;

/// What a claim without a volume asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The UID of the claim.
    pub uid: Uid,
    /// Its resourceVersion; 0 where it is no number.
    pub resource_version: u64,
    /// The node for which the provisioner is to make its volume; none where no node is chosen.
    pub selected_node: Option<Arc<str>>,
    /// What the volume must be like.
    pub wanted: Wanted,
}

/// What the volume of a claim must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// At least this size. What cannot be read is more than any volume has; the API server accepts no such claim.
    pub size: Amount,
    /// The access modes, all of which it must have.
    pub modes: BTreeSet<String>,
    /// Whether it is a block device.
    pub is_block: bool,
    /// The labels that it must have; none where any will do. One that is too large is not kept: no volume matches it.
    pub selector: Option<LabelSelector>,
    /// The number of requirements and values in the selector of the claim; 0 where it has none.
    pub selector_size: usize,
    /// The VolumeAttributesClass; empty where there is none.
    pub attributes_class: String,
}

/// What a volume offers to a claim without a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOffer {
    /// The resourceVersion of the volume; 0 where it is no number.
    pub resource_version: u64,
    /// Its StorageClass; empty where it has none.
    pub class: Arc<str>,
    /// Whether it is available to any claim (phase Available). One that is reserved for a claim need not be.
    pub is_available: bool,
    /// Its size.
    pub size: Amount,
    /// Its access modes.
    pub modes: BTreeSet<String>,
    /// Whether it is a block device.
    pub is_block: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The VolumeAttributesClass; empty where there is none.
    pub attributes_class: String,
}

impl ClaimRequest {
    /// Reads what the claim asks for.
    #[must_use]
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let (meta, spec) = (&claim.metadata, &claim.spec);
        let mut faults = Vec::new();
        let size = storage(&resources(only_storage(spec.resources.requests.as_ref()).as_ref(), "spec.resources.requests", &mut faults));
        // The API server accepts no selector that cannot be read.
        let selector = spec.selector.as_ref().map(|selector| LabelSelector::of(Some(selector)).unwrap_or_default());
        let selector_size = selector.as_ref().map_or(0, LabelSelector::size);
        let selected = meta.annotations.as_ref().and_then(|all| all.get(SELECTED_NODE));
        Self {
            uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
            resource_version: resource_version(meta),
            selected_node: selected.map(|node| Arc::from(node.as_str())),
            wanted: Wanted {
                size: if faults.is_empty() { size } else { Amount::from_units(i64::MAX) },
                modes: spec.access_modes.iter().cloned().collect(),
                is_block: is_block(spec.volume_mode.as_deref()),
                selector: selector.map(|selector| if selector_size > LARGEST_SELECTOR { LabelSelector::default() } else { selector }),
                selector_size,
                attributes_class: spec.volume_attributes_class_name.clone().unwrap_or_default(),
            },
        }
    }

    /// Returns whether the other asks for the same, whatever its version is.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        (&self.uid, &self.selected_node, &self.wanted) == (&other.uid, &other.selected_node, &other.wanted)
    }
}

impl VolumeOffer {
    /// Reads what the volume offers; none where it is bound, released or being deleted. One that a user has reserved for the name of a
    /// claim offers itself in every phase, as in kube-scheduler.
    #[must_use]
    pub fn of(volume: &PersistentVolume) -> Option<Self> {
        let (meta, spec) = (&volume.metadata, &volume.spec);
        let is_by_name = spec.claim_ref.as_ref().is_some_and(|of| of.uid.is_empty());
        let is_used = ["Bound", "Released", "Failed"].contains(&volume.status.phase.as_str());
        if meta.deletion_timestamp.is_some() || is_used && !is_by_name {
            return None;
        }
        // What cannot be read counts as nothing.
        let size = storage(&offered(only_storage(spec.capacity.as_ref()).as_ref(), "spec.capacity", &mut Vec::new()));
        let class = meta.annotations.as_ref().and_then(|all| all.get(CLASS_BEFORE)).unwrap_or(&spec.storage_class_name);
        Some(Self {
            resource_version: resource_version(meta),
            class: Arc::from(class.as_str()),
            is_available: volume.status.phase == "Available" && spec.claim_ref.is_none(),
            size,
            modes: spec.access_modes.iter().cloned().collect(),
            is_block: is_block(spec.volume_mode.as_deref()),
            labels: meta.labels.clone().unwrap_or_default(),
            attributes_class: spec.volume_attributes_class_name.clone().unwrap_or_default(),
        })
    }

    /// Returns whether a volume that is reserved for the claim serves it.
    #[must_use]
    pub fn serves_its_claim(&self, wanted: &Wanted) -> bool {
        self.size >= wanted.size && self.is_block == wanted.is_block && self.attributes_class == wanted.attributes_class
    }

    /// Returns whether a volume that is free serves the claim, of the same class.
    #[must_use]
    pub fn serves(&self, wanted: &Wanted) -> bool {
        self.is_available
            && self.serves_its_claim(wanted)
            && wanted.modes.is_subset(&self.modes)
            && wanted.selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
    }
}

/// Only the size is read: a fault elsewhere must not matter.
fn only_storage(raw: Option<&RawResources>) -> Option<RawResources> {
    let (name, size) = raw?.get_key_value(STORAGE)?;
    Some([(name.clone(), size.clone())].into())
}

fn storage(of: &crate::resources::Resources) -> Amount {
    of.get(STORAGE)
}

fn is_block(mode: Option<&str>) -> bool {
    mode == Some("Block")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(spec: &Value) -> Wanted {
        ClaimRequest::of(&serde_json::from_value(json!({ "metadata": { "name": "c" }, "spec": spec })).unwrap()).wanted
    }

    fn volume(change: impl FnOnce(&mut Value)) -> Option<VolumeOffer> {
        let mut volume = json!({
            "metadata": { "name": "v", "labels": { "disk": "ssd" } },
            "spec": { "capacity": { "storage": "10Gi" }, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "local" },
            "status": { "phase": "Available" },
        });
        change(&mut volume);
        VolumeOffer::of(&serde_json::from_value(volume).unwrap())
    }

    fn asks(size: &str) -> Value {
        json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } })
    }

    #[test]
    fn a_free_volume_serves_by_size_modes_mode_labels_and_attributes() {
        let with = |key: &str, value: Value| {
            let mut spec = asks("10Gi");
            spec[key] = value;
            claim(&spec)
        };
        let table = [
            (claim(&asks("10Gi")), true),
            (claim(&asks("10.1Gi")), false),
            (with("accessModes", json!(["ReadOnlyMany", "ReadWriteOnce"])), true),
            (with("accessModes", json!(["ReadWriteMany"])), false),
            (with("volumeMode", json!("Filesystem")), true),
            (with("volumeMode", json!("Block")), false),
            (with("selector", json!({ "matchLabels": { "disk": "ssd" } })), true),
            (with("selector", json!({ "matchLabels": { "disk": "hdd" } })), false),
            (with("selector", json!({})), true),
            (with("volumeAttributesClassName", json!("gold")), false),
            (with("resources", json!({ "requests": { "storage": "a lot" } })), false),
        ];
        let offer = volume(|_| ()).unwrap();
        for (wanted, serves) in table {
            assert_eq!(offer.serves(&wanted), serves, "{wanted:?}");
        }
    }

    #[test]
    fn a_selector_that_is_too_large_is_not_kept_and_matches_nothing() {
        let with = |values: usize| {
            let values: Vec<String> = (0..values).map(|at| format!("v{at}")).collect();
            let expression = json!({ "key": "disk", "operator": "NotIn", "values": values });
            claim(&json!({ "accessModes": ["ReadWriteOnce"], "selector": { "matchExpressions": [expression] } }))
        };
        let (fits, large) = (with(LARGEST_SELECTOR - 1), with(LARGEST_SELECTOR));
        assert_eq!((fits.selector_size, large.selector_size), (LARGEST_SELECTOR, LARGEST_SELECTOR + 1));
        let offer = volume(|_| ()).unwrap();
        assert!(offer.serves(&fits) && !offer.serves(&large));
        assert_eq!(large.selector, Some(LabelSelector::Nothing));
    }

    #[test]
    fn a_volume_of_another_phase_or_with_a_claim_is_not_free() {
        for phase in ["Bound", "Released", "Failed"] {
            assert_eq!(volume(|volume| volume["status"]["phase"] = json!(phase)), None, "{phase}");
        }
        assert_eq!(volume(|volume| volume["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")), None);
        let wanted = claim(&asks("1Gi"));
        let reserved = volume(|volume| volume["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "c" })).unwrap();
        let new = volume(|volume| volume["status"] = json!({})).unwrap();
        let released = volume(|volume| {
            volume["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "c" });
            volume["status"]["phase"] = json!("Released");
        });
        for offer in [reserved, new, released.unwrap()] {
            assert_eq!((offer.serves(&wanted), offer.serves_its_claim(&wanted)), (false, true));
        }
    }

    #[test]
    fn the_class_of_the_annotation_comes_first() {
        let before = volume(|volume| volume["metadata"]["annotations"] = json!({ CLASS_BEFORE: "older" })).unwrap();
        assert_eq!((&*before.class, &*volume(|_| ()).unwrap().class), ("older", "local"));
    }
}
