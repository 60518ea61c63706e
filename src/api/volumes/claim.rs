//! The PersistentVolumeClaim, and which volume it is bound to.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::quantities::RawResources;
use crate::api::uid::Uid;
use crate::api::wire::resource;

use super::request::{CLASS_BEFORE, ClaimRequest};

/// The annotation that the binder of kube-controller-manager writes when a claim is bound from both sides.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// A PersistentVolumeClaim. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: ClaimSpec,
    /// The observed state.
    pub status: ClaimStatus,
}

resource!(PersistentVolumeClaim, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", NamespaceResourceScope);

/// The spec of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The access modes that are asked for.
    pub access_modes: Vec<String>,
    /// The StorageClass; an empty name is no class.
    pub storage_class_name: Option<String>,
    /// The PersistentVolume to which it is, or will be, bound.
    pub volume_name: String,
    /// The size that is asked for.
    pub resources: ClaimResources,
    /// The labels that the volume must have; none where any will do.
    pub selector: Option<Selector>,
    /// Filesystem or Block; none is Filesystem.
    pub volume_mode: Option<String>,
    /// The VolumeAttributesClass.
    pub volume_attributes_class_name: Option<String>,
}

/// What a PersistentVolumeClaim asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// The amounts; only that of `storage` is used.
    pub requests: Option<RawResources>,
}

/// The status of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimStatus {
    /// Pending, Bound or Lost.
    pub phase: String,
}

/// The namespace and name of a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ClaimKey {
    /// Returns the key of the claim `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }
}

/// The facts about a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFacts {
    /// The namespace and name of the claim.
    pub key: ClaimKey,
    /// The object that controls it: the pod, for a generic ephemeral volume. None where there is none.
    pub owner: Option<Uid>,
    /// The volume that it names; none where it names none. Only with `is_bound` the volume is its own.
    pub volume: Option<Arc<str>>,
    /// Whether it is bound from both sides.
    pub is_bound: bool,
    /// Whether its volume is gone (phase Lost).
    pub is_lost: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Its StorageClass; none where it has none.
    pub class: Option<Arc<str>>,
    /// Whether only one pod at a time may use it (`ReadWriteOncePod`).
    pub is_for_one_pod: bool,
    /// What it asks for while it names no volume; none where it names one.
    pub request: Option<Arc<ClaimRequest>>,
}

impl ClaimFacts {
    /// Returns the number of requirements and values in the selector of its volume; 0 where it has none, or names its volume.
    #[must_use]
    pub fn selector_size(&self) -> usize {
        self.request.as_ref().map_or(0, |request| request.wanted.selector_size)
    }

    /// Reads the facts from the object.
    #[must_use]
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let (meta, spec) = (&claim.metadata, &claim.spec);
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let volume = Some(spec.volume_name.as_str()).filter(|name| !name.is_empty()).map(Arc::from);
        let class = annotation(CLASS_BEFORE).or(spec.storage_class_name.as_deref());
        Self {
            key: ClaimKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
            owner: owner.map(|owner| Uid::from(owner.uid.as_str())),
            is_bound: volume.is_some() && annotation(BIND_COMPLETED).is_some(),
            request: volume.is_none().then(|| Arc::new(ClaimRequest::of(claim))),
            volume,
            is_lost: claim.status.phase == "Lost",
            is_deleting: meta.deletion_timestamp.is_some(),
            class: class.filter(|name| !name.is_empty()).map(Arc::from),
            is_for_one_pod: spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod"),
        }
    }

    /// Returns whether the other is the same to every pod, whatever its version is.
    #[must_use]
    pub fn means_the_same(&self, other: &Self) -> bool {
        let same_request = match (&self.request, &other.request) {
            (Some(request), Some(other)) => request.asks_the_same(other),
            (request, other) => request.is_none() && other.is_none(),
        };
        same_request && Self { request: other.request.clone(), ..self.clone() } == *other
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn facts(annotations: &Value, spec: &Value, phase: &str) -> ClaimFacts {
        let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true }]);
        let meta = json!({ "namespace": "ns", "name": "c", "annotations": annotations, "ownerReferences": owner });
        ClaimFacts::of(&serde_json::from_value(json!({ "metadata": meta, "spec": spec, "status": { "phase": phase } })).unwrap())
    }

    #[test]
    fn a_claim_is_bound_only_from_both_sides() {
        let done = json!({ BIND_COMPLETED: "yes" });
        for (annotations, volume, bound) in [(&done, "pv", true), (&done, "", false), (&json!({}), "pv", false)] {
            assert_eq!(facts(annotations, &json!({ "volumeName": volume }), "Bound").is_bound, bound, "{annotations} {volume}");
        }
    }

    #[test]
    fn the_class_of_the_annotation_comes_first_and_an_empty_name_is_none() {
        for (before, class, wanted) in
            [(None, None, None), (None, Some("a"), Some("a")), (Some("b"), Some("a"), Some("b")), (Some(""), Some("a"), None)]
        {
            let annotations = before.map_or(json!({}), |before| json!({ CLASS_BEFORE: before }));
            let facts = facts(&annotations, &json!({ "storageClassName": class }), "Pending");
            assert_eq!(facts.class.as_deref(), wanted, "{before:?} {class:?}");
        }
    }

    #[test]
    fn the_owner_the_phase_and_the_access_mode_are_read() {
        let lost = facts(&json!({}), &json!({ "accessModes": ["ReadWriteOncePod"] }), "Lost");
        assert!(lost.is_lost && lost.is_for_one_pod && lost.owner == Some(Uid::from("u")));
        assert!(!facts(&json!({}), &json!({ "accessModes": ["ReadWriteOnce"] }), "Bound").is_for_one_pod);
    }
}
