//! Owners that are known only through their pods: a bare pod, a controller of a kind that is not watched, and the leader of a group of a
//! LeaderWorkerSet.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::api::Pod;
use crate::api::membership::{asks_for_lws, controller_of};
use crate::api::pod_facts::request_of_template;

use super::{Gang, GroupAnnotations, ObjectRef, OwnerFacts, OwnerSet, group_annotations, priority_class};

/// Returns whether owners of this kind are watched. The facts that pods have about such an owner are not used, because only the watch shows
/// whether the owner exists.
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
    /// Reads the facts from a pod; `None` if the controller of the pod is watched, and the pod is not the leader of its PodGroup.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let born = meta.creation_timestamp.as_ref().map(|time| time.0);
        let led = asks_for_lws(meta).filter(|labels| labels.is_leader);
        let led = led.and_then(|labels| Some((labels.key(meta.namespace.as_deref().unwrap_or_default())?, labels.size)));
        let (object, gang) = match controller_of(meta) {
            _ if led.is_some() => (ObjectRef::of("Pod", "v1", meta), Gang::Unknown),
            Some(owner) if is_watched(&owner.api_version, &owner.kind) => return None,
            Some(owner) => (ObjectRef::referred(owner, meta), Gang::Unknown),
            None => (
                ObjectRef::of("Pod", "v1", meta),
                Gang::One(
                    "a pod without a controller is a gang of one; create a PodGroup and name it on the pods for a larger gang; 1 is used",
                ),
            ),
        };
        let set = led.map(|(group, pods)| OwnerSet {
            object: object.clone(),
            owners: 1,
            group,
            joins: true,
            index: 0,
            pods,
            succeeded: None,
            born,
        });
        let mut faults = Vec::new();
        let owner = OwnerFacts {
            object,
            deleting: false,
            wants_pods: true,
            gang,
            parent: None,
            set,
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
        Some(Self { born, owner })
    }
}
