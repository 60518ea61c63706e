//! What is known of the PodGroup under a generated name: nothing, somebody else's, or ours in some version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::Uid;

/// One version of one object. A step that touches a group names the version that was decided on, and the API server refuses it for any other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Which object.
    pub uid: Uid,
    /// Which version of it: opaque, but see [`Version::order`].
    pub resource_version: String,
}

impl Version {
    /// The place of this version in the history of its kind. Kubernetes promises since 1.35 that resource versions of a kind are decimal numbers which
    /// grow (KEP-5504); none where an aggregated or older server writes something else.
    #[must_use]
    pub fn order(&self) -> Option<u128> {
        self.resource_version.parse().ok()
    }
}

/// What is known of the PodGroup under a generated name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existing {
    /// There is one that is not ours, for this reason. It is left alone.
    Foreign(Version, NotOurs),
    /// There is one of ours.
    Ours(Ours),
}

impl Existing {
    /// The version of it that is known.
    #[must_use]
    pub const fn version(&self) -> &Version {
        match self {
            Self::Foreign(version, _) => version,
            Self::Ours(ours) => &ours.version,
        }
    }
}

/// Why a PodGroup under a generated name is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// Its label does not say that a podgroup-controller made it.
    Unlabelled,
    /// It is kept for a scheduler that is not served here, mostly by another release: its members are in no watch of ours.
    OtherSchedulers,
    /// It cannot be decoded, so that nobody can say whose it is.
    Unreadable,
}

/// A PodGroup that the controller made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The version that is known.
    pub version: Version,
    /// Whether this version carries the mark.
    pub retiring: bool,
    /// Whether it is being deleted and waits for its finalizers.
    pub ending: bool,
    /// The UID of the owner that controls it; none for an orphan.
    pub owner: Option<Uid>,
    /// What the controller wrote last; none where that cannot be read any more, and then everything is written again.
    pub applied: Option<Applied>,
}

/// What the controller writes into a PodGroup's spec and annotations, as it was last written: a field is written again when what it should be
/// differs from this, and not when somebody else changed the field (what an admin set stays until its source changes).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// The size of the gang that is in force: at least 1.
    pub min_member: u32,
    /// The size that was asked for, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<u32>,
    /// What must be free, as text in the canonical form of each resource; empty where the members ask for nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub min_resources: BTreeMap<String, String>,
    /// The queue.
    pub queue: String,
    /// Who places the members: a controller that does not serve this scheduler leaves the group alone. None in what an older version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The priority class; none for the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// The annotations that are copied.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
