//! A node: what stands on the wire, and what it means to a scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use crate::resources::Resources;

use super::fault::Fault;
use super::quantities::{self, RawResources};
use super::uid::Uid;
use super::wire::resource;

/// A node. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Node {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: NodeSpec,
    /// What it reports.
    #[serde(default)]
    pub status: NodeStatus,
}

resource!(Node, "", "v1", "Node", "nodes", ClusterResourceScope);

/// What is wanted of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Cordoned: takes no new pod that does not bear it.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// What keeps pods away that do not bear it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Option<String>,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: String,
}

/// What a node reports.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// What pods may use of it.
    pub allocatable: Option<RawResources>,
}

/// A node as the scheduler knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its identity: a node that comes back under its name is another one with the same pods.
    pub uid: Uid,
    /// What pods may use of it. Never negative: what a device plugin reports below 0 counts as 0 and is told.
    pub allocatable: Resources,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints that keep pods away (NoSchedule and NoExecute), a cordon not among them.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// What could not be read.
    pub faults: Vec<Fault>,
}

impl NodeFacts {
    /// What this object says.
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
            unschedulable: node.spec.unschedulable,
            faults,
        }
    }
}
