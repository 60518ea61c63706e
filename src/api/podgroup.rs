//! The PodGroup of `scheduling.volcano.sh/v1beta1`: its fields as other tools write and read them (volcano-api.md).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{NamespaceResourceScope, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantities::RawResources;
use super::wire::resource;

/// A group of pods that are placed together: all of its minMember at once, or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodGroup {
    /// What the object says it is; only an object that is written needs it.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: PodGroupSpec,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PodGroupStatus>,
}

resource!(PodGroup, "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", NamespaceResourceScope);

/// What is wanted of a PodGroup.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodGroupSpec {
    /// How many members must find a place before the first of them is bound.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// The resources that must be free in the queue and all its ancestors before the group is admitted; computed from the members where it is unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<RawResources>,
    /// How many members of each task must find a place, by the name of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_task_member: Option<BTreeMap<String, i32>>,
    /// How close to each other in the network the members must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// The PriorityClass of the group.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The queue that the members are charged to.
    #[schemars(length(max = 253), extend("default" = "default", "pattern" = QUEUE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How the members are parted into groups within the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_policy: Option<Vec<SubGroupPolicy>>,
}

/// The pattern of where the name of a queue may stand: a DNS-1123 subdomain, or nothing, which is what tools write that leave it to us.
pub(crate) const QUEUE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";

/// How close to each other in the network pods must be.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkTopology {
    /// The highest tier of the network that the pods may span.
    #[schemars(range(min = 0), extend("format" = null))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_tier_allowed: Option<i64>,
    /// The name of that tier.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_tier_name: Option<String>,
    /// Whether pods wait where this cannot be kept (hard), or not (soft).
    #[schemars(extend("default" = "hard", "enum" = ["hard", "soft"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// How members are parted into groups within the group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubGroupPolicy {
    /// Which members it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Selector>,
    /// The labels whose values part the members.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_label_keys: Option<Vec<String>>,
    /// How many of these groups must find a place.
    #[schemars(range(min = 0), extend("default" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sub_groups: Option<i32>,
    /// The name of the policy.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How close to each other in the network the members of one such group must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// How many members one such group has.
    #[schemars(range(min = 1), extend("default" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_size: Option<i32>,
}

/// A selector of labels, as everywhere in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Requirements that must all hold.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<SelectorRequirement>>,
    /// Labels that must all be there with these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SelectorRequirement {
    /// The label's key.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// The values for In and NotIn.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// What came of a PodGroup. Written by the scheduler alone (design.md §2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodGroupStatus {
    /// Why the group is where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<PodGroupCondition>>,
    /// How many members failed.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// Where the group is in its life.
    #[schemars(extend("enum" = ["Pending", "Running", "Unknown", "Inqueue", "Completed"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How many members run.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
    /// How many members succeeded.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
}

/// One thing that is to be said about a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupCondition {
    /// When the status last changed.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// What people read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What programs read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True, False or Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Which change this was.
    #[serde(rename = "transitionID", skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "transitionID")]
    pub transition_id: Option<String>,
    /// Unschedulable or Scheduled.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "type")]
    pub kind: Option<String>,
}
