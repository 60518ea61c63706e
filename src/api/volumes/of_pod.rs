//! Which claims does a pod name, and what do they mean for its node?

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::api::pod::{PodSpec, Volume};

use super::claim::ClaimKey;
use super::volume::{VolumeAffinity, VolumeId, VolumeZone};

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodClaim {
    /// The name of the claim, in the namespace of the pod.
    pub name: Arc<str>,
    /// Whether it is made for the pod (a generic ephemeral volume), so that it must be the pod's own.
    pub is_ephemeral: bool,
}

impl PodClaim {
    /// Returns the claims of a pod with this name, each once, in order.
    #[must_use]
    pub fn all_of(spec: &PodSpec, pod: &str) -> Vec<Self> {
        let claim = |volume: &Volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                return Some(Self { name: Arc::from(claim.claim_name.as_str()), is_ephemeral: false });
            }
            let name = || Arc::from(format!("{pod}-{}", volume.name));
            volume.ephemeral.is_some().then(|| Self { name: name(), is_ephemeral: true })
        };
        let claims: BTreeSet<Self> = spec.volumes.iter().filter_map(claim).collect();
        claims.into_iter().collect()
    }
}

/// What the claims of a pod, which are all bound, require of its node. Pods with the same requirements fit the same nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodVolumes {
    /// The nodes that may mount the volumes, each different requirement once; a volume that every node may mount is left out.
    pub affinity: BTreeSet<VolumeAffinity>,
    /// The labels that tie the volumes to nodes.
    pub zones: BTreeSet<VolumeZone>,
    /// The claims that only one pod at a time may use.
    pub for_one_pod: BTreeSet<ClaimKey>,
    /// The volumes of drivers that some node limits.
    pub limited: BTreeSet<VolumeId>,
}

impl PodVolumes {
    /// Returns whether what other pods use matters.
    #[must_use]
    pub fn depends_on_pods(&self) -> bool {
        !self.for_one_pod.is_empty() || !self.limited.is_empty()
    }
}

/// A claim of a pod that cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnusableClaim {
    /// The name of the claim.
    pub claim: Arc<str>,
    /// WhyUnusable it cannot be used.
    pub why: WhyUnusable,
}

/// WhyUnusable a claim cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhyUnusable {
    /// It does not exist.
    NotFound,
    /// It does not exist; kube-controller-manager makes it for the pod.
    NotMade,
    /// It has the name that a volume of the pod needs, and belongs to another object.
    NotOwned,
    /// It is being deleted.
    Deleting,
    /// Its volume is gone.
    Lost {
        /// The volume.
        volume: Arc<str>,
    },
    /// It is not bound, and its class does not wait for a pod.
    NotBound {
        /// The class; none where it has none.
        class: Option<Arc<str>>,
    },
    /// It is not bound, and its class does not exist.
    ClassNotFound {
        /// The class.
        class: Arc<str>,
    },
    /// It is not bound, and its class waits for a pod with a node (`WaitForFirstConsumer`), which is not supported yet.
    WaitsForPod {
        /// The class.
        class: Arc<str>,
    },
    /// It is bound to a volume that does not exist.
    VolumeNotFound {
        /// The volume.
        volume: Arc<str>,
    },
}

/// As kube-scheduler says it, where it does: `persistentvolumeclaim "data" not found`.
impl fmt::Display for UnusableClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claim, why } = self;
        match why {
            WhyUnusable::NotFound => write!(f, "persistentvolumeclaim \"{claim}\" not found"),
            WhyUnusable::NotMade => write!(f, "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{claim}\""),
            WhyUnusable::NotOwned => write!(f, "persistentvolumeclaim \"{claim}\" was not created for the pod (the pod is not its owner)"),
            WhyUnusable::Deleting => write!(f, "persistentvolumeclaim \"{claim}\" is being deleted"),
            WhyUnusable::Lost { volume } => {
                write!(f, "persistentvolumeclaim \"{claim}\" bound to non-existent persistentvolume \"{volume}\"")
            }
            WhyUnusable::NotBound { class: None } => {
                write!(f, "persistentvolumeclaim \"{claim}\" is not bound, and it has no StorageClass")
            }
            WhyUnusable::NotBound { class: Some(class) } => {
                write!(f, "persistentvolumeclaim \"{claim}\" is not bound; its StorageClass \"{class}\" binds immediately")
            }
            WhyUnusable::ClassNotFound { class } => {
                write!(f, "persistentvolumeclaim \"{claim}\" is not bound, and its StorageClass \"{class}\" does not exist")
            }
            WhyUnusable::WaitsForPod { class } => write!(
                f,
                "this scheduler cannot honour yet: persistentvolumeclaim \"{claim}\" is not bound, and its StorageClass \"{class}\" is WaitForFirstConsumer"
            ),
            WhyUnusable::VolumeNotFound { volume } => {
                write!(f, "persistentvolume \"{volume}\" of persistentvolumeclaim \"{claim}\" not found")
            }
        }
    }
}
