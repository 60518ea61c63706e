//! StatefulSets, whose pods start one after the other unless they are told not to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, PodOwner, PodTemplate, count};

/// A StatefulSet. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StatefulSet {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: StatefulSetSpec,
}

resource!(StatefulSet, "apps", "v1", "StatefulSet", "statefulsets", NamespaceResourceScope);

/// What is wanted of a StatefulSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// How many pods; 1 where it is unset.
    pub replicas: Option<i32>,
    /// `OrderedReady` (also where it is unset) or `Parallel`.
    pub pod_management_policy: String,
    /// Which pods are its own.
    pub selector: Selector,
    /// What they look like.
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
            // The next pod is made when the one before it is ready (StatefulSet documentation, "Pod Management Policies").
            _ => Gang::One("a StatefulSet makes its pods one after the other unless its podManagementPolicy is Parallel; 1 is used"),
        };
        (replicas > 0, gang)
    }
}
