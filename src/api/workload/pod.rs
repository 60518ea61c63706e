//! Owners that only their pods tell of: a bare pod, which is its own, and controllers of kinds that are not watched.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::api::Pod;
use crate::api::membership::controller_of;
use crate::api::pod_facts::request_of_template;

use super::{Gang, GroupAnnotations, ObjectRef, OwnerFacts, group_annotations, priority_class};

/// Whether owners of this kind are watched themselves: what their pods say of them counts for nothing then, since only the owner can say that it lives.
#[must_use]
pub fn is_watched(api_version: &str, kind: &str) -> bool {
    match api_version.split_once('/').map_or("", |(group, _)| group) {
        "apps" => matches!(kind, "ReplicaSet" | "StatefulSet" | "DaemonSet"),
        "batch" => kind == "Job",
        _ => false,
    }
}

/// What one pod says of its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSource {
    /// When the pod was made: of several that differ the newest is believed, since it follows the owner's newest template.
    pub born: Option<Timestamp>,
    /// The owner as this pod shows it.
    pub owner: OwnerFacts,
}

impl PodSource {
    /// What this pod says; none where its controller is watched itself.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let (object, gang) = match controller_of(meta) {
            Some(owner) if is_watched(&owner.api_version, &owner.kind) => return None,
            Some(owner) => (ObjectRef::referred(owner, meta), Gang::Unknown),
            None => (
                ObjectRef::of("Pod", "v1", meta),
                Gang::One("a pod that nobody controls is alone; name a PodGroup of your own for more; 1 is used"),
            ),
        };
        let mut faults = Vec::new();
        let owner = OwnerFacts {
            object,
            deleting: false,
            wants_pods: true,
            gang,
            above: None,
            scheduler: Arc::from(pod.spec.scheduler_name.as_str()),
            annotations: group_annotations(meta),
            template_annotations: GroupAnnotations::new(),
            // Its pods that name a group of somebody's are members of that one, and never come here.
            named_group: false,
            priority_class: priority_class(&pod.spec),
            request: request_of_template(&pod.spec, &mut faults),
            selector: None,
            faults,
        };
        Some(Self { born: meta.creation_timestamp.as_ref().map(|time| time.0), owner })
    }
}
