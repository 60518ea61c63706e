//! The Deployment of Kubernetes. It owns no pods, but people annotate and scale it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::Uid;
use crate::api::wire::resource;

use super::{GroupAnnotations, count, group_annotations};

/// A Deployment. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deployment {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: DeploymentSpec,
}

resource!(Deployment, "apps", "v1", "Deployment", "deployments", NamespaceResourceScope);

/// The spec of a Deployment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    /// The number of pods in all its ReplicaSets; 1 if unset.
    pub replicas: Option<i32>,
}

/// The facts about a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentFacts {
    /// The UID of the Deployment.
    pub uid: Uid,
    /// The namespace of the Deployment. An owner reference from another namespace is wrong and is ignored.
    pub namespace: String,
    /// The number of pods that it wants in all its ReplicaSets.
    pub wants: u32,
    /// Its annotations that a PodGroup depends on.
    pub annotations: GroupAnnotations,
}

impl DeploymentFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(object: &Deployment) -> Self {
        Self {
            uid: Uid::from(object.metadata.uid.as_deref().unwrap_or_default()),
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            wants: count(object.spec.replicas, 1),
            annotations: group_annotations(&object.metadata),
        }
    }
}
