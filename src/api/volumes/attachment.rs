//! The VolumeAttachment: a volume that is attached to a node, or will be, whether or not a pod there uses it.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::wire::resource;

/// A VolumeAttachment. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: AttachmentSpec,
}

resource!(VolumeAttachment, "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", ClusterResourceScope);

/// The spec of a VolumeAttachment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    /// The CSI driver.
    pub attacher: String,
    /// The node.
    pub node_name: String,
    /// What is attached.
    pub source: AttachmentSource,
}

/// What is attached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    /// The PersistentVolume; none for an inline volume.
    pub persistent_volume_name: Option<String>,
}

/// The facts about a VolumeAttachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentFacts {
    /// The name of the attachment.
    pub name: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The PersistentVolume; none for an inline volume.
    pub volume: Option<Arc<str>>,
}

impl AttachmentFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(attachment: &VolumeAttachment) -> Self {
        let spec = &attachment.spec;
        Self {
            name: Arc::from(attachment.metadata.name.as_deref().unwrap_or_default()),
            node: Arc::from(spec.node_name.as_str()),
            driver: Arc::from(spec.attacher.as_str()),
            volume: spec.source.persistent_volume_name.as_deref().map(Arc::from),
        }
    }
}
