//! The StatefulSet of Kubernetes. By default its pods start one after the other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, PodOwner, PodTemplate, count};

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
            "Parallel" => Gang::UpTo { now: replicas, in_all: replicas },
            // The next pod is created when the previous one is ready (StatefulSet documentation, "Pod Management Policies").
            _ => Gang::One("a StatefulSet creates its pods one after the other unless its podManagementPolicy is Parallel; 1 is used"),
        };
        (replicas > 0, gang)
    }
}
