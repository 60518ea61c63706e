//! The PersistentVolume, and which nodes may mount it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::pod::{NodeSelector, NodeSelectorTerm};
use crate::api::quantities::RawResources;
use crate::api::uid::Uid;
use crate::api::wire::resource;

use super::claim::ClaimKey;
use super::migrated;
use super::request::VolumeOffer;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const REGION: &str = "topology.kubernetes.io/region";
pub(super) const ZONE_BEFORE: &str = "failure-domain.beta.kubernetes.io/zone";
pub(super) const REGION_BEFORE: &str = "failure-domain.beta.kubernetes.io/region";

/// The labels of a volume that tie it to nodes with the same labels, as in kube-scheduler's plugin VolumeZone: each with its present name.
pub const ZONE_LABELS: [(&str, &str); 4] = [(ZONE_BEFORE, ZONE), (REGION_BEFORE, REGION), (ZONE, ZONE), (REGION, REGION)];

/// Between the zones of a volume in several of them.
pub(super) const ZONES: &str = "__";

/// A PersistentVolume. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: VolumeSpec,
    /// The observed state.
    pub status: VolumeStatus,
}

resource!(PersistentVolume, "", "v1", "PersistentVolume", "persistentvolumes", ClusterResourceScope);

/// The spec of a PersistentVolume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// The nodes that may mount it; none where every node may.
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// A volume of a CSI driver.
    pub csi: Option<CsiSource>,
    /// The volumes of the drivers that Kubernetes had before CSI and that it translates to CSI.
    pub gce_persistent_disk: Option<GceDisk>,
    /// See above.
    pub aws_elastic_block_store: Option<NamedVolume>,
    /// See above.
    pub azure_disk: Option<AzureDisk>,
    /// See above.
    pub cinder: Option<NamedVolume>,
    /// See above.
    pub portworx_volume: Option<NamedVolume>,
    /// The claim that it is bound to, or reserved for.
    pub claim_ref: Option<ClaimRef>,
    /// Its size; only that of `storage` is used.
    pub capacity: Option<RawResources>,
    /// The ways in which it can be mounted.
    pub access_modes: Vec<String>,
    /// The name of its StorageClass.
    pub storage_class_name: String,
    /// Filesystem or Block; none is Filesystem.
    pub volume_mode: Option<String>,
    /// The VolumeAttributesClass.
    pub volume_attributes_class_name: Option<String>,
}

/// The status of a PersistentVolume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    /// Pending, Available, Bound, Released or Failed.
    pub phase: String,
}

/// The claim that a volume names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// The namespace of the claim.
    pub namespace: String,
    /// The name of the claim.
    pub name: String,
    /// The UID of the claim; empty where a user reserves the volume for any claim of that name.
    pub uid: String,
}

/// The nodes that may mount a volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// The terms, at least one of which must match; none where every node may mount it.
    pub required: Option<NodeSelector>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    /// The name of the driver.
    pub driver: String,
    /// The name of the volume to the driver.
    pub volume_handle: String,
}

/// A disk of Google Compute Engine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GceDisk {
    /// Its name.
    pub pd_name: String,
}

/// A disk of Azure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AzureDisk {
    /// Its URI.
    #[serde(rename = "diskURI")]
    pub disk_uri: String,
    /// Shared, Dedicated or Managed.
    pub kind: Option<String>,
}

/// A volume with a number: AWS, Cinder, Portworx.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedVolume {
    /// The number.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

/// A volume as the attach limits of nodes count it: two PersistentVolumes may be the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId {
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The name of the volume to the driver.
    pub handle: Arc<str>,
}

impl VolumeId {
    /// Returns the volume of the driver with this handle; none if either is empty.
    #[must_use]
    pub fn new(driver: &str, handle: &str) -> Option<Self> {
        (!driver.is_empty() && !handle.is_empty()).then(|| Self { driver: Arc::from(driver), handle: Arc::from(handle) })
    }
}

/// Terms, at least one of which must hold for the labels of the node; none where every node may mount the volume.
pub type Terms = Option<Arc<[NodeSelectorTerm]>>;

/// The nodes that may mount a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeAffinity {
    /// The terms of the volume.
    pub terms: Terms,
    /// On nodes that have migrated this plugin to its CSI driver, these terms count instead; none where the volume is not of such a plugin.
    pub migrated: Option<(&'static str, Terms)>,
}

/// A label that ties a volume to nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeZone {
    /// The label of the volume.
    pub label: &'static str,
    /// The present name of the label, which counts for a node that lacks the label.
    pub present: &'static str,
    /// The values, one of which the node must have.
    pub values: BTreeSet<Arc<str>>,
}

/// The facts about a PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFacts {
    /// The name of the volume.
    pub name: Arc<str>,
    /// The nodes that may mount it.
    pub affinity: VolumeAffinity,
    /// The labels that tie it to nodes.
    pub zones: Vec<VolumeZone>,
    /// What attach limits count: of its CSI driver, or of the driver that its plugin is migrated to. None where nothing counts it.
    pub id: Option<VolumeId>,
    /// The handle, if it is a CSI volume itself; attachments of others are not counted.
    pub csi_handle: Option<Arc<str>>,
    /// The claim that it is bound to, or reserved for; none where it is free.
    pub claim: Option<ReservedFor>,
    /// What it offers to a claim that is not bound; none where it is bound, released or being deleted.
    pub offer: Option<Arc<VolumeOffer>>,
}

/// The claim that a volume is bound to, or reserved for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedFor {
    /// The namespace and name of the claim.
    pub claim: ClaimKey,
    /// Its UID; none where any claim of that name is meant.
    pub uid: Option<Uid>,
}

impl VolumeFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(volume: &PersistentVolume) -> Self {
        let (meta, spec) = (&volume.metadata, &volume.spec);
        let none = BTreeMap::new();
        let labels = meta.labels.as_ref().unwrap_or(&none);
        let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let terms: Terms = required.map(|required| Arc::from(required.node_selector_terms.as_slice()));
        let csi = spec.csi.as_ref();
        let migrated = if csi.is_none() { migrated::of(spec, labels) } else { None };
        let id = csi.map(|csi| VolumeId::new(&csi.driver, &csi.volume_handle));
        Self {
            name: Arc::from(meta.name.as_deref().unwrap_or_default()),
            id: id.unwrap_or_else(|| migrated.as_ref().and_then(|one| one.id.clone())),
            csi_handle: csi.map(|csi| Arc::from(csi.volume_handle.as_str())),
            affinity: VolumeAffinity { migrated: migrated.map(|one| (one.plugin, one.terms(terms.as_deref(), labels))), terms },
            zones: ZONE_LABELS.iter().filter_map(|(label, present)| zone(label, present, labels.get(*label)?)).collect(),
            claim: spec.claim_ref.as_ref().map(|of| ReservedFor {
                claim: ClaimKey::new(&of.namespace, &of.name),
                uid: Some(of.uid.as_str()).filter(|uid| !uid.is_empty()).map(Uid::from),
            }),
            offer: VolumeOffer::of(volume).map(Arc::new),
        }
    }
}

/// Reads the zones of a label. A list with an empty zone in it is ignored, as in kube-scheduler.
fn zone(label: &'static str, present: &'static str, value: &str) -> Option<VolumeZone> {
    let values: BTreeSet<Arc<str>> = value.split(ZONES).map(|zone| Arc::from(zone.trim())).collect();
    (!values.contains("")).then_some(VolumeZone { label, present, values })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn facts(labels: &Value, spec: &Value) -> VolumeFacts {
        VolumeFacts::of(&serde_json::from_value(json!({ "metadata": { "name": "pv", "labels": labels }, "spec": spec })).unwrap())
    }

    #[test]
    fn labels_with_zones_are_lists_and_one_that_cannot_be_read_is_ignored() {
        let zones = |value: &str| facts(&json!({ "topology.kubernetes.io/zone": value }), &json!({})).zones;
        let values = |value: &str| zones(value).first().map(|zone| zone.values.iter().map(|one| one.to_string()).collect::<Vec<_>>());
        assert_eq!(values("a"), Some(vec!["a".to_owned()]));
        assert_eq!(values("b__a"), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(values("a__"), None);
        assert_eq!(values(""), None);
    }

    #[test]
    fn a_volume_of_a_csi_driver_is_counted_by_its_handle() {
        let csi = facts(&json!({}), &json!({ "csi": { "driver": "d", "volumeHandle": "h" } }));
        assert_eq!((csi.id, csi.csi_handle.as_deref()), (VolumeId::new("d", "h"), Some("h")));
        assert_eq!(facts(&json!({}), &json!({ "nfs": { "server": "s" } })).id, None);
        assert_eq!(facts(&json!({}), &json!({ "csi": { "driver": "d", "volumeHandle": "" } })).id, None);
    }

    #[test]
    fn no_affinity_is_every_node_and_an_empty_one_is_none() {
        assert_eq!(facts(&json!({}), &json!({})).affinity, VolumeAffinity::default());
        let empty = facts(&json!({}), &json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": [] } } }));
        assert_eq!(empty.affinity.terms.as_deref(), Some(&[][..]));
    }
}
