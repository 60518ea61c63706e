//! What is written to tie a claim to a volume, or to a node?
//!
//! The same fields as kube-scheduler writes (`plugins/volumebinding/binder.go`). Both patches name the resourceVersion that the decision is
//! made on. So a volume that another scheduler, or an earlier leader, has given away meanwhile is not given away twice, and neither is a
//! claim tied to two nodes.

use serde_json::{Value, json};

use crate::api::volumes::request::SELECTED_NODE;
use crate::cycle::plan::{Tie, VolumeWrite};

/// The annotation of a volume that names a claim because a controller or a scheduler chose it: kube-controller-manager may set it free again.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Returns the merge patch of the volume or of the claim.
#[must_use]
pub(super) fn patch(write: &VolumeWrite) -> Value {
    match &write.tie {
        Tie::Volume { resource_version, is_named, .. } => {
            let claim = json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": &*write.claim.namespace,
                "name": &*write.claim.name,
                "uid": &*write.claim_uid,
            });
            let annotations = if *is_named { json!({}) } else { json!({ BOUND_BY_CONTROLLER: "yes" }) };
            let metadata = json!({ "resourceVersion": resource_version.to_string(), "annotations": annotations });
            json!({ "metadata": metadata, "spec": { "claimRef": claim } })
        }
        Tie::Node { name, resource_version } => json!({
            "metadata": {
                "uid": &*write.claim_uid,
                "resourceVersion": resource_version.to_string(),
                "annotations": { SELECTED_NODE: &**name },
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Uid;
    use crate::api::volumes::ClaimKey;

    fn write(tie: Tie) -> Value {
        patch(&VolumeWrite { binding: 1, claim: ClaimKey::new("ns", "data"), claim_uid: Uid::from("u"), tie })
    }

    #[test]
    fn a_volume_names_the_claim_with_its_uid_and_a_claim_its_node() {
        let volume = |is_named| write(Tie::Volume { name: "pv".into(), resource_version: 7, is_named });
        let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "data", "uid": "u" });
        let free = json!({ "resourceVersion": "7", "annotations": { "pv.kubernetes.io/bound-by-controller": "yes" } });
        assert_eq!(volume(false), json!({ "metadata": free, "spec": { "claimRef": claim } }));
        // What a user has reserved is not set free by the annotation.
        assert_eq!(volume(true)["metadata"]["annotations"], json!({}));
        let node = write(Tie::Node { name: "n".into(), resource_version: 8 });
        let annotations = json!({ "volume.kubernetes.io/selected-node": "n" });
        assert_eq!(node, json!({ "metadata": { "uid": "u", "resourceVersion": "8", "annotations": annotations } }));
    }
}
