//! ReplicaSets: of a Deployment, of another controller that makes such, or alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, PodOwner, PodTemplate, count};

/// A ReplicaSet. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReplicaSet {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ReplicaSetSpec,
}

resource!(ReplicaSet, "apps", "v1", "ReplicaSet", "replicasets", NamespaceResourceScope);

/// What is wanted of a ReplicaSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaSetSpec {
    /// How many pods; 1 where it is unset.
    pub replicas: Option<i32>,
    /// Which pods are its own.
    pub selector: Selector,
    /// What they look like.
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
        (replicas > 0, Gang::UpTo { now: replicas, in_all: replicas })
    }

    /// Whoever makes ReplicaSets (a Deployment, an Argo Rollout) is what people edit.
    fn is_made_by(_: &OwnerReference) -> bool {
        true
    }
}
