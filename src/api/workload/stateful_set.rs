//! The StatefulSet of Kubernetes. By default its pods start one after the other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::lws::LwsLabels;
use crate::api::membership::{asks_for_lws, controller_of};
use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, ObjectRef, OwnerSet, PodOwner, PodTemplate, count};

/// A StatefulSet. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StatefulSet {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: StatefulSetSpec,
}

resource!(StatefulSet, "apps", "v1", "StatefulSet", "statefulsets", NamespaceResourceScope);

/// The spec of a StatefulSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// The number of pods; 1 if unset.
    pub replicas: Option<i32>,
    /// `OrderedReady` (the default) or `Parallel`.
    pub pod_management_policy: String,
    /// The label selector of its pods.
    pub selector: Selector,
    /// The pod template.
    pub template: PodTemplate,
}

impl PodOwner for StatefulSet {
    fn template(&self) -> &PodTemplate {
        &self.spec.template
    }

    fn selector(&self) -> &Selector {
        &self.spec.selector
    }

    fn wants(&self) -> (bool, Gang) {
        let replicas = count(self.spec.replicas, 1);
        let gang = match self.spec.pod_management_policy.as_str() {
            "Parallel" => Gang::UpTo { now: replicas, in_all: replicas, completions: None },
            // The next pod is created when the previous one is ready (StatefulSet documentation, "Pod Management Policies").
            _ => Gang::One("a StatefulSet creates its pods one after the other unless its podManagementPolicy is Parallel; 1 is used"),
        };
        (replicas > 0, gang)
    }

    /// Returns the leader of these workers, if a LeaderWorkerSet created them.
    fn set(&self) -> Option<OwnerSet> {
        let (meta, template) = (&self.metadata, &self.spec.template.metadata);
        let leader = controller_of(meta).filter(|owner| owner.kind == "Pod" && owner.api_version == "v1")?;
        let group = LwsLabels::of(template)?.key(meta.namespace.as_deref().unwrap_or_default())?;
        Some(OwnerSet {
            object: ObjectRef::referred(leader, meta),
            owners: 1,
            group,
            joins: asks_for_lws(template).is_some(),
            index: 1,
            pods: count(self.spec.replicas, 1),
            succeeded: None,
            born: meta.creation_timestamp.as_ref().map(|time| time.0),
        })
    }
}
