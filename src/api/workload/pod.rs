//! Owners that are known only through their pods: a bare pod, and a controller of a kind that is not watched.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::api::Pod;
use crate::api::membership::controller_of;
use crate::api::pod_facts::request_of_template;

use super::{Gang, GroupAnnotations, ObjectRef, OwnerFacts, group_annotations, priority_class};

/// Returns whether owners of this kind are watched. The facts that pods have about such an owner are not used, because only the watch shows whether the
/// owner exists.
#[must_use]
pub fn is_watched(api_version: &str, kind: &str) -> bool {
    match api_version.split_once('/').map_or("", |(group, _)| group) {
        "apps" => matches!(kind, "ReplicaSet" | "StatefulSet" | "DaemonSet"),
        "batch" => kind == "Job",
        _ => false,
    }
}

/// The facts that one pod has about its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSource {
    /// When the pod was created. The newest pod counts, because it follows the newest template of the owner.
    pub born: Option<Timestamp>,
    /// The facts about the owner.
    pub owner: OwnerFacts,
}

impl PodSource {
    /// Reads the facts from a pod; `None` if the controller of the pod is watched.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let (object, gang) = match controller_of(meta) {
            Some(owner) if is_watched(&owner.api_version, &owner.kind) => return None,
            Some(owner) => (ObjectRef::referred(owner, meta), Gang::Unknown),
            None => (
                ObjectRef::of("Pod", "v1", meta),
                Gang::One(
                    "a pod without a controller is a gang of one; create a PodGroup and name it on the pods for a larger gang; 1 is used",
                ),
            ),
        };
        let mut faults = Vec::new();
        let owner = OwnerFacts {
            object,
            deleting: false,
            wants_pods: true,
            gang,
            parent: None,
            set: None,
            scheduler: Arc::from(pod.spec.scheduler_name.as_str()),
            annotations: group_annotations(meta),
            template_annotations: GroupAnnotations::new(),
            // A pod that names a PodGroup is a member of that PodGroup, and its facts are never used here.
            named_group: false,
            priority_class: priority_class(&pod.spec),
            request: request_of_template(&pod.spec, &mut faults),
            selector: None,
            faults,
        };
        Some(Self { born: meta.creation_timestamp.as_ref().map(|time| time.0), owner })
    }
}
