//! DaemonSets, each of whose pods has the one node that it is for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, PodOwner, PodTemplate};

/// A DaemonSet. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DaemonSet {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: DaemonSetSpec,
    /// What came of it, as far as it says what is wanted.
    #[serde(default)]
    pub status: DaemonSetStatus,
}

resource!(DaemonSet, "apps", "v1", "DaemonSet", "daemonsets", NamespaceResourceScope);

/// What is wanted of a DaemonSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSetSpec {
    /// Which pods are its own.
    pub selector: Selector,
    /// What they look like.
    pub template: PodTemplate,
}

/// How many nodes want a pod of it, and when that was counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetStatus {
    /// Nodes that should run a pod of it.
    pub desired_number_scheduled: i32,
    /// The generation of the spec that was counted for.
    pub observed_generation: i64,
}

impl PodOwner for DaemonSet {
    fn template(&self) -> &PodTemplate {
        &self.spec.template
    }

    fn selector(&self) -> &Selector {
        &self.spec.selector
    }

    fn wants(&self) -> (bool, Gang) {
        // A count of an older spec says nothing of this one; that it wants pods is the safe answer.
        let counted = self.status.observed_generation >= self.metadata.generation.unwrap_or(0);
        let wants = !counted || self.status.desired_number_scheduled > 0;
        (wants, Gang::One("each pod of a DaemonSet is for its own node, and one node that is full would hold up all others; 1 is used"))
    }
}
