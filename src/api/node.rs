//! The Node of Kubernetes, and the facts that the scheduler reads from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use crate::resources::Resources;

use super::fault::Fault;
use super::images::NodeImage;
use super::pod_facts::{HOST_NETWORK_USERS, RESTART_ALL};
use super::quantities::{self, RawResources};
use super::uid::Uid;
use super::volumes::CsiNodeFacts;
use super::wire::resource;

/// A Node. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Node {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: NodeSpec,
    /// The observed state.
    #[serde(default)]
    pub status: NodeStatus,
}

resource!(Node, "", "v1", "Node", "nodes", ClusterResourceScope);

/// The spec of a Node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Whether the node is cordoned: it accepts only new pods that tolerate this.
    pub unschedulable: bool,
    /// The taints of the node.
    pub taints: Vec<Taint>,
}

/// A taint. The node accepts only pods that tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// The key of the taint.
    pub key: String,
    /// The value of the taint.
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// The status of a Node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// The resources that pods may use.
    pub allocatable: Option<RawResources>,
    /// The features that its kubelet declares.
    pub declared_features: Vec<String>,
    /// The images that it has, those that its kubelet reports.
    pub images: Option<Vec<ContainerImage>>,
}

/// An image on a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// Its names, with tags and digests.
    pub names: Option<Vec<String>>,
    /// Its size.
    pub size_bytes: i64,
}

/// The facts about a Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// The name of the node.
    pub name: Arc<str>,
    /// The UID of the node. A node that is created again under the same name has another UID and the same pods.
    pub uid: Uid,
    /// The resources that pods may use. Never negative: an amount below 0, which a device plugin may report, counts as 0 and is a fault.
    pub allocatable: Resources,
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
    /// The taints with the effects `NoSchedule` and `NoExecute`. A cordon is in `unschedulable`.
    pub taints: Vec<Taint>,
    /// The taints with the effect `PreferNoSchedule`: the node comes after others for a pod that does not tolerate them.
    pub soft_taints: Vec<Taint>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// Those features that its kubelet declares and that pods may need.
    pub declared_features: BTreeSet<String>,
    /// What its kubelet says about CSI drivers, in an object of its own, which the cache adds; none where there is none.
    pub csi: Option<Arc<CsiNodeFacts>>,
    /// The images that it has, under each of their names. They change often and refuse no pod, so the scheduler's cache keeps them apart
    /// from the other facts.
    pub images: Arc<[NodeImage]>,
    /// The values that could not be used.
    pub faults: Vec<Fault>,
}

impl NodeFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let mut faults = Vec::new();
        let reported = quantities::offered(node.status.allocatable.as_ref(), "status.allocatable", &mut faults);
        let mut allocatable = Resources::new();
        for (name, amount) in reported.iter() {
            if amount.is_negative() {
                faults.push(Fault::new(
                    format!("status.allocatable.{name}"),
                    &amount.to_string(),
                    "a node cannot offer less than 0; counted as 0",
                ));
            } else {
                allocatable.set(name.clone(), amount);
            }
        }
        Self {
            name: Arc::from(node.metadata.name.as_deref().unwrap_or_default()),
            uid: Uid::from(node.metadata.uid.as_deref().unwrap_or_default()),
            allocatable,
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: node.spec.taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")).cloned().collect(),
            soft_taints: node.spec.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule").cloned().collect(),
            unschedulable: node.spec.unschedulable,
            declared_features: [RESTART_ALL, HOST_NETWORK_USERS]
                .into_iter()
                .map(ToOwned::to_owned)
                .filter(|feature| node.status.declared_features.contains(feature))
                .collect(),
            csi: None,
            images: NodeImage::of(&node.status),
            faults,
        }
    }
}
