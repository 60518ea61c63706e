//! Deployments: they own no pods, but it is them that people annotate and scale.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::Uid;
use crate::api::wire::resource;

use super::{GroupAnnotations, count, group_annotations};

/// A Deployment. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deployment {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: DeploymentSpec,
}

resource!(Deployment, "apps", "v1", "Deployment", "deployments", NamespaceResourceScope);

/// What is wanted of a Deployment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    /// How many pods in all its ReplicaSets; 1 where it is unset.
    pub replicas: Option<i32>,
}

/// A Deployment as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentFacts {
    /// Its identity.
    pub uid: Uid,
    /// Where it is: a reference from another namespace lies.
    pub namespace: String,
    /// How many pods it wants in all.
    pub wants: u32,
    /// Its annotations about the group.
    pub annotations: GroupAnnotations,
}

impl DeploymentFacts {
    /// What this object says.
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
