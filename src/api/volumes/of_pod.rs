//! Which claims does a pod name, and what do they mean for its node?

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::api::fault::Fault;
use crate::api::pod::{PodSpec, Volume};

use super::claim::ClaimKey;
use super::request::LARGEST_SELECTOR;
use super::volume::{VolumeAffinity, VolumeId, VolumeZone};

/// The most claims of one pod. A pod with more is not placed: all of them are read again when one changes. No node takes as many volumes of
/// any driver.
const MOST_CLAIMS: usize = 256;

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodClaim {
    /// The name of the claim, in the namespace of the pod.
    pub name: Arc<str>,
    /// Whether it is made for the pod (a generic ephemeral volume), so that it must be the pod's own.
    pub is_ephemeral: bool,
}

impl PodClaim {
    /// Returns the claims of a pod with this name, each once, in order. Too many are a fault.
    #[must_use]
    pub fn all_of(spec: &PodSpec, pod: &str, faults: &mut Vec<Fault>) -> Vec<Self> {
        let claim = |volume: &Volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                return Some(Self { name: Arc::from(claim.claim_name.as_str()), is_ephemeral: false });
            }
            let name = || Arc::from(format!("{pod}-{}", volume.name));
            volume.ephemeral.is_some().then(|| Self { name: name(), is_ephemeral: true })
        };
        let claims: BTreeSet<Self> = spec.volumes.iter().filter_map(claim).collect();
        if claims.len() > MOST_CLAIMS {
            faults.push(Fault::new("spec.volumes", &claims.len().to_string(), format!("is more than {MOST_CLAIMS} claims")));
        }
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
    /// The claims that have no volume yet and get one with the node of the pod.
    pub unbound: BTreeSet<ClaimKey>,
}

impl PodVolumes {
    /// Returns whether it matters what other pods use, or have reserved.
    #[must_use]
    pub fn depends_on_pods(&self) -> bool {
        !self.for_one_pod.is_empty() || !self.limited.is_empty() || !self.unbound.is_empty()
    }
}

/// A claim of a pod that cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnusableClaim {
    /// The name of the claim.
    pub claim: Arc<str>,
    /// Why it cannot be used.
    pub why: WhyUnusable,
}

/// Why a claim cannot be used now.
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
    /// It names this volume, and the two are not bound yet.
    NotBoundTo {
        /// The volume.
        volume: Arc<str>,
    },
    /// It is not bound, and its class does not exist.
    ClassNotFound {
        /// The class.
        class: Arc<str>,
    },
    /// It is not bound, and with its selector those of the claims of the pod have more requirements and values than [`LARGEST_SELECTOR`].
    SelectorTooLarge {
        /// Their number, up to this claim.
        size: usize,
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
            WhyUnusable::NotBoundTo { volume } => {
                write!(f, "persistentvolumeclaim \"{claim}\" is not bound to its persistentvolume \"{volume}\" yet")
            }
            WhyUnusable::ClassNotFound { class } => {
                write!(f, "persistentvolumeclaim \"{claim}\" is not bound, and its StorageClass \"{class}\" does not exist")
            }
            WhyUnusable::SelectorTooLarge { size } => {
                write!(
                    f,
                    "persistentvolumeclaim \"{claim}\": spec.selector: {size} is more than {LARGEST_SELECTOR} requirements and values in the selectors of the pod's claims"
                )
            }
            WhyUnusable::VolumeNotFound { volume } => {
                write!(f, "persistentvolume \"{volume}\" of persistentvolumeclaim \"{claim}\" not found")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::PodFacts;

    fn facts(volumes: &[Value]) -> PodFacts {
        let pod = json!({ "metadata": { "namespace": "ns", "name": "p" }, "spec": { "volumes": volumes } });
        PodFacts::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_claim_counts_once_and_that_of_an_ephemeral_volume_has_the_name_of_the_pod() {
        let data = |name: &str| json!({ "name": name, "persistentVolumeClaim": { "claimName": "data" } });
        let claims =
            &facts(&[data("a"), json!({ "name": "x", "emptyDir": {} }), data("b"), json!({ "name": "c", "ephemeral": {} })]).terms.claims;
        let names: Vec<(&str, bool)> = claims.iter().map(|claim| (&*claim.name, claim.is_ephemeral)).collect();
        assert_eq!(names, [("data", false), ("p-c", true)]);
    }

    #[test]
    fn a_pod_with_too_many_claims_has_a_fault() {
        let all = |count: usize| {
            let volume = |number| json!({ "name": format!("v{number}"), "persistentVolumeClaim": { "claimName": format!("c{number}") } });
            facts(&(0..count).map(volume).collect::<Vec<_>>()).faults
        };
        assert_eq!(all(MOST_CLAIMS), []);
        assert_eq!(all(MOST_CLAIMS + 1).first().unwrap().to_string(), "spec.volumes \"257\": is more than 256 claims");
    }
}
