//! A pod as it stands on the wire, decoded only as far as it is used; what it means is in `pod_facts`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::podgroup::Selector;
use super::quantities::RawResources;
use super::wire::resource;

/// A pod. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pod {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: PodSpec,
    /// What came of it.
    #[serde(default)]
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "Pod", "pods", NamespaceResourceScope);

/// The part of a pod's spec (or of a template's) that decides where the pod may go and what it costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Who places the pod; empty means `default-scheduler`.
    pub scheduler_name: String,
    /// Where it is bound, or what its author wrote there.
    pub node_name: Option<String>,
    /// The containers.
    pub containers: Vec<Container>,
    /// The containers that run before them, and the sidecars.
    pub init_containers: Vec<Container>,
    /// What the runtime class costs on top.
    pub overhead: Option<RawResources>,
    /// Requests of the pod as a whole.
    pub resources: Option<ResourceNeeds>,
    /// How many seconds it has to end when it is deleted.
    pub termination_grace_period_seconds: Option<i64>,
    /// The number behind the priority class.
    pub priority: Option<i32>,
    /// The priority class.
    pub priority_class_name: Option<String>,
    /// Whether others may go for it, as its priority class had it when it was made.
    pub preemption_policy: Option<String>,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Where the pod wants to be, and beside whom.
    pub affinity: Option<Affinity>,
    /// The taints that it bears.
    pub tolerations: Vec<Toleration>,
    /// How it is to be spread.
    pub topology_spread_constraints: Vec<TopologySpread>,
    /// What must be lifted before it may be placed.
    pub scheduling_gates: Vec<Value>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Whether it uses the network of the node.
    pub host_network: bool,
    /// Whether it uses the users of the node; none means yes.
    pub host_users: Option<bool>,
    /// Claims on devices.
    pub resource_claims: Vec<Value>,
    /// The group of Kubernetes' own kind.
    pub scheduling_group: Option<Value>,
}

/// A container, as far as it costs something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// What it asks for.
    pub resources: Option<ResourceNeeds>,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
    /// What happens when it ends in certain ways.
    pub restart_policy_rules: Vec<RestartRule>,
    /// The ports that it opens.
    pub ports: Vec<ContainerPort>,
}

/// What happens when a container ends in a certain way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestartRule {
    /// `RestartAllContainers` is a feature that a node must declare.
    pub action: String,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceNeeds {
    /// The requests, by name.
    pub requests: Option<RawResources>,
    /// The limits, by name; they stand in for requests that are not there, as the API server's defaults do.
    pub limits: Option<RawResources>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// The port that it takes on the node; 0 or none takes none.
    pub host_port: Option<i32>,
}

/// Where a pod wants to be, and beside whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// On which nodes.
    pub node_affinity: Option<NodeAffinity>,
    /// Beside which pods.
    pub pod_affinity: Option<PodAffinity>,
    /// Away from which pods.
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// On which nodes a pod may be. Preferences are not read: they may be ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// The terms of which one must hold.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

/// Terms of which one must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all hold; a term with none holds nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Of the node's labels.
    pub match_expressions: Vec<NodeRequirement>,
    /// Of the node's fields; `metadata.name` is the only one there is.
    pub match_fields: Vec<NodeRequirement>,
}

/// One requirement of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRequirement {
    /// The label or field.
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: String,
    /// What it is compared with.
    pub values: Vec<String>,
}

/// Beside (or away from) which pods a pod must be. Preferences are not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinity {
    /// The terms, all of which must hold.
    pub required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
}

/// One term of pod affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Which pods; none selects none.
    pub label_selector: Option<Selector>,
    /// In which namespaces beside those of the selector; none and no selector: the pod's own.
    pub namespaces: Vec<String>,
    /// In the namespaces with these labels; an empty selector means all.
    pub namespace_selector: Option<Selector>,
    /// The label of nodes whose value makes them one place.
    pub topology_key: String,
    /// Label keys whose values at the pod narrow the selector.
    pub match_label_keys: Vec<String>,
    /// Label keys whose values at the pod are excluded.
    pub mismatch_label_keys: Vec<String>,
}

/// A taint that a pod bears.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's key; none bears every key (with `Exists`).
    pub key: Option<String>,
    /// Equal (or none) or Exists; Lt and Gt compare numbers where the cluster has them.
    pub operator: Option<String>,
    /// The taint's value.
    pub value: Option<String>,
    /// The taint's effect; none bears every effect.
    pub effect: Option<String>,
}

/// How pods are to be spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpread {
    /// DoNotSchedule makes it hard.
    pub when_unsatisfiable: String,
    /// The label of nodes whose value makes them one place.
    pub topology_key: String,
}

/// A volume, as far as it can keep a pod from a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// A claim.
    pub persistent_volume_claim: Option<Value>,
    /// A claim that is made for the pod.
    pub ephemeral: Option<Value>,
    /// Volumes of the older kinds, of which a node takes a limited number, or which only one node may attach.
    pub gce_persistent_disk: Option<Value>,
    /// See above.
    pub aws_elastic_block_store: Option<Value>,
    /// See above.
    pub azure_disk: Option<Value>,
    /// See above.
    pub azure_file: Option<Value>,
    /// See above.
    pub cinder: Option<Value>,
    /// See above.
    pub iscsi: Option<Value>,
    /// See above.
    pub portworx_volume: Option<Value>,
    /// See above.
    pub rbd: Option<Value>,
    /// See above.
    pub vsphere_volume: Option<Value>,
}

/// What came of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// What is to be said about it.
    pub conditions: Vec<PodCondition>,
    /// What its containers were really given (in-place resize).
    pub container_statuses: Vec<ContainerStatus>,
    /// The same of the sidecars.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// What the kubelet has set aside for the pod as a whole.
    pub allocated_resources: Option<RawResources>,
    /// What is in force for the pod as a whole.
    pub resources: Option<ResourceNeeds>,
}

/// One thing that is to be said about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// PodScheduled is the one that we write, and DisruptionTarget on one that is evicted.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// What programs read.
    pub reason: Option<String>,
    /// What people read.
    pub message: Option<String>,
}

/// What a container was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The container's name.
    pub name: String,
    /// What the kubelet has set aside.
    pub allocated_resources: Option<RawResources>,
    /// What is in force.
    pub resources: Option<ResourceNeeds>,
}
