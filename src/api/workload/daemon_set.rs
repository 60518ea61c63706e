//! The DaemonSet of Kubernetes. Each of its pods is for one node, so its pods cannot wait for each other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::api::podgroup::Selector;
use crate::api::wire::resource;

use super::{Gang, PodOwner, PodTemplate};

/// A DaemonSet. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DaemonSet {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: DaemonSetSpec,
    /// The observed state.
    #[serde(default)]
    pub status: DaemonSetStatus,
}

resource!(DaemonSet, "apps", "v1", "DaemonSet", "daemonsets", NamespaceResourceScope);

/// The spec of a DaemonSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSetSpec {
    /// The label selector of its pods.
    pub selector: Selector,
    /// The pod template.
    pub template: PodTemplate,
}

/// The status of a DaemonSet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetStatus {
    /// The number of nodes that should run one of its pods.
    pub desired_number_scheduled: i32,
    /// The generation of the spec that this status is about.
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
        // If the status is older than the spec, the safe answer is that the DaemonSet wants pods.
        let counted = self.status.observed_generation >= self.metadata.generation.unwrap_or(0);
        let wants = !counted || self.status.desired_number_scheduled > 0;
        (wants, Gang::One("each pod of a DaemonSet is for one node, and one full node would block all other pods; 1 is used"))
    }
}
