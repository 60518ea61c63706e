//! The ReplicaSet of Kubernetes. It belongs to a Deployment, to another controller, or to none.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, PodOwner, PodTemplate, count};

/// A ReplicaSet. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReplicaSet {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: ReplicaSetSpec,
}

resource!(ReplicaSet, "apps", "v1", "ReplicaSet", "replicasets", NamespaceResourceScope);

/// The spec of a ReplicaSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaSetSpec {
    /// The number of pods; 1 if unset.
    pub replicas: Option<i32>,
    /// The label selector of its pods.
    pub selector: Selector,
    /// The pod template.
    pub template: PodTemplate,
}

impl PodOwner for ReplicaSet {
    fn template(&self) -> &PodTemplate {
        &self.spec.template
    }

    fn selector(&self) -> &Selector {
        &self.spec.selector
    }

    fn wants(&self) -> (bool, Gang) {
        let replicas = count(self.spec.replicas, 1);
        (replicas > 0, Gang::UpTo { now: replicas, in_all: replicas, completions: None })
    }

    /// People always edit the controller of a ReplicaSet: a Deployment or an Argo Rollout.
    fn is_made_by(_: &OwnerReference) -> bool {
        true
    }
}
