//! The wire type of a pod, with the used fields only. `pod_facts` has its meaning.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::podgroup::Selector;
use super::quantities::RawResources;
use super::wire::resource;

/// A pod. Only the used fields are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pod {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: PodSpec,
    /// The status.
    #[serde(default)]
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "Pod", "pods", NamespaceResourceScope);

/// The part of the spec of a pod or a pod template that scheduling uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The scheduler of the pod; empty means `default-scheduler`.
    pub scheduler_name: String,
    /// The node, from a binding or from the author of the pod.
    pub node_name: Option<String>,
    /// The containers.
    pub containers: Vec<Container>,
    /// The init containers and sidecars.
    pub init_containers: Vec<Container>,
    /// The additional resources of the runtime class.
    pub overhead: Option<RawResources>,
    /// The pod-level resources.
    pub resources: Option<ResourceNeeds>,
    /// The grace period for its deletion, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// The value of the priority class.
    pub priority: Option<i32>,
    /// The priority class.
    pub priority_class_name: Option<String>,
    /// Whether the pod may preempt other pods, from its priority class at creation.
    pub preemption_policy: Option<String>,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// The affinity.
    pub affinity: Option<Affinity>,
    /// The tolerations.
    pub tolerations: Vec<Toleration>,
    /// The topology spread constraints.
    pub topology_spread_constraints: Vec<TopologySpread>,
    /// The scheduling gates, which must be removed before the pod is scheduled.
    pub scheduling_gates: Vec<Value>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Whether the pod uses the node's network.
    pub host_network: bool,
    /// Whether the pod uses the node's user namespace; `None` means yes.
    pub host_users: Option<bool>,
    /// Claims on devices.
    pub resource_claims: Vec<Value>,
    /// The scheduling group of Kubernetes itself.
    pub scheduling_group: Option<Value>,
}

/// A container, with the fields that scheduling uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The name of its image.
    pub image: String,
    /// The requests and limits.
    pub resources: Option<ResourceNeeds>,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
    /// The rules for a restart after certain exit codes.
    pub restart_policy_rules: Vec<RestartRule>,
    /// The ports.
    pub ports: Vec<ContainerPort>,
}

/// A rule for the restart after certain exit codes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestartRule {
    /// `RestartAllContainers` is a feature that a node must declare.
    pub action: String,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceNeeds {
    /// The requests, by name.
    pub requests: Option<RawResources>,
    /// The limits, by name. A limit without a request sets the request, as in the API server.
    pub limits: Option<RawResources>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// The port on the node; 0 or `None` means no port.
    pub host_port: Option<i32>,
    /// The address on the node; `None`, empty or 0.0.0.0 means all.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// The protocol; `None` means TCP.
    pub protocol: Option<String>,
}

/// The affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// The node affinity.
    pub node_affinity: Option<NodeAffinity>,
    /// The pod affinity.
    pub pod_affinity: Option<PodAffinity>,
    /// The pod anti-affinity.
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// The node affinity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// The terms, at least one of which must match.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// The terms that a node should match.
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredNodes>,
}

/// Nodes that a pod prefers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreferredNodes {
    /// From 1 to 100.
    pub weight: i32,
    /// The nodes.
    pub preference: NodeSelectorTerm,
}

/// Terms, at least one of which must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all match. A term without requirements matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// The requirements on the node's labels.
    pub match_expressions: Vec<NodeRequirement>,
    /// The requirements on the node's fields. The only field is `metadata.name`.
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
    /// The values of the comparison.
    pub values: Vec<String>,
}

/// The pod affinity or anti-affinity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinity {
    /// The terms, which must all match.
    pub required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
    /// The terms that should match.
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredPods>,
}

/// Pods that a pod would have, or not have, in its domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredPods {
    /// From 1 to 100.
    pub weight: i32,
    /// The pods and the domains.
    pub pod_affinity_term: PodAffinityTerm,
}

/// One term of pod affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// The selector of pods; `None` selects no pod.
    pub label_selector: Option<Selector>,
    /// Namespaces, in addition to those of the selector. Without both, the pod's own namespace is used.
    pub namespaces: Vec<String>,
    /// The selector of namespaces. An empty selector selects all.
    pub namespace_selector: Option<Selector>,
    /// The topology key: nodes with the same value of this label are one domain.
    pub topology_key: String,
    /// Label keys that the selected pods must have the same values for.
    pub match_label_keys: Vec<String>,
    /// Label keys that the selected pods must have other values for.
    pub mismatch_label_keys: Vec<String>,
}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's key; `None` matches every key (with `Exists`).
    pub key: Option<String>,
    /// Equal (the default) or Exists; Lt and Gt compare numbers, if the cluster supports them.
    pub operator: Option<String>,
    /// The taint's value.
    pub value: Option<String>,
    /// The taint's effect; `None` matches every effect.
    pub effect: Option<String>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpread {
    /// DoNotSchedule makes the constraint required; ScheduleAnyway makes it a preference.
    pub when_unsatisfiable: String,
    /// The topology key: nodes with the same value of this label are one domain.
    pub topology_key: String,
    /// By how much the count of a domain may exceed the least count.
    pub max_skew: i32,
    /// With fewer domains than this the least count is 0; `None` means 1.
    pub min_domains: Option<i32>,
    /// The selector of the pods that are counted; `None` selects no pod.
    pub label_selector: Option<Selector>,
    /// Label keys that the counted pods must have the same values for.
    pub match_label_keys: Vec<String>,
    /// Whether only nodes that match the pod's node affinity count: Honor (the default) or Ignore.
    pub node_affinity_policy: Option<String>,
    /// Whether only nodes whose taints the pod tolerates count: Honor or Ignore (the default).
    pub node_taints_policy: Option<String>,
}

/// A volume, with the sources that restrict the nodes of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// A claim.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A claim that is made for the pod, with a name that follows from the pod and the volume.
    pub ephemeral: Option<Value>,
    /// In-tree volumes, of which a node attaches a limited number, or which only one node may attach.
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
    /// An image that is mounted.
    pub image: Option<ImageVolume>,
}

/// An image that is mounted as a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageVolume {
    /// The name of the image.
    pub reference: String,
}

/// The claim of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// The name of the claim, in the namespace of the pod.
    pub claim_name: String,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// When the kubelet of its node saw it first.
    pub start_time: Option<Time>,
    /// The conditions.
    pub conditions: Vec<PodCondition>,
    /// The node that is nominated for the pod while others leave it. This program writes it.
    pub nominated_node_name: Option<String>,
    /// The statuses of containers, with their allocated resources (in-place resize).
    pub container_statuses: Vec<ContainerStatus>,
    /// The statuses of init containers and sidecars.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The pod-level resources that the kubelet has allocated.
    pub allocated_resources: Option<RawResources>,
    /// The pod-level resources in force.
    pub resources: Option<ResourceNeeds>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// The type. This program writes PodScheduled, and DisruptionTarget on evicted pods.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// The reason, for programs.
    pub reason: Option<String>,
    /// The message, for people.
    pub message: Option<String>,
}

/// The status of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The container's name.
    pub name: String,
    /// The resources that the kubelet has allocated.
    pub allocated_resources: Option<RawResources>,
    /// The resources in force.
    pub resources: Option<ResourceNeeds>,
}
