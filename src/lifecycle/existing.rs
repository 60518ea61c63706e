//! The PodGroup that exists under a generated name: none, a foreign one, or one of this controller in some version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::Uid;

/// One version of one object. A step that writes to a PodGroup contains the version that it was decided on. The API server refuses it for any other
/// version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The UID of the object.
    pub uid: Uid,
    /// The resourceVersion of the object. It is opaque, except for [`Version::order`].
    pub resource_version: String,
}

impl Version {
    /// Returns the position of this version in the history of its kind. Since 1.35 Kubernetes promises that the resourceVersions of a kind
    /// are growing decimal numbers (KEP-5504). `None` if an aggregated or older API server writes something else.
    #[must_use]
    pub fn order(&self) -> Option<u128> {
        self.resource_version.parse().ok()
    }
}

/// The PodGroup that exists under a generated name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existing {
    /// A PodGroup that this controller does not manage, and why. The controller does not change it.
    Foreign(Version, NotOurs),
    /// A PodGroup that this controller manages.
    Ours(Ours),
}

impl Existing {
    /// Returns the known version of the PodGroup.
    #[must_use]
    pub const fn version(&self) -> &Version {
        match self {
            Self::Foreign(version, _) => version,
            Self::Ours(ours) => &ours.version,
        }
    }
}

/// Why this controller does not manage a PodGroup with a generated name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// It does not have the label of podgroup-controller.
    Unlabelled,
    /// It is for a scheduler that this controller does not serve, usually of another release. The watches do not show its members.
    OtherSchedulers,
    /// It cannot be decoded.
    Unreadable,
}

/// A PodGroup that the controller made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The known version.
    pub version: Version,
    /// Whether this version has the mark `podgroup.dev/retiring`.
    pub retiring: bool,
    /// Whether it is being deleted and waits for its finalizers.
    pub terminating: bool,
    /// The UID of its controller owner; `None` for an orphan.
    pub owner: Option<Uid>,
    /// The fields that the controller wrote last; `None` if they are not known. Then every field is written again.
    pub applied: Option<Applied>,
}

/// The fields that the controller writes into the spec and annotations of a PodGroup, as it wrote them last.
///
/// The controller writes a field again when its wanted value differs from the value here. It does not write a field that only another
/// writer changed: a value that an admin set stays until its source changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// The minMember that is written: at least 1.
    pub min_member: u32,
    /// The minMember that was asked for; `None` if it equals `min_member`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<u32>,
    /// The minResources by resource name, as text in the canonical form of each resource. Empty if the members request nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub min_resources: BTreeMap<String, String>,
    /// The name of the queue.
    pub queue: String,
    /// The scheduler of the members. A controller that does not serve it does not manage the PodGroup. `None` if an older version wrote the PodGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The name of the priority class; `None` for the default of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// The annotations that are copied from the owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
