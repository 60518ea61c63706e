//! The PodGroup of `scheduling.volcano.sh/v1beta1`. The doc comments of its fields become the descriptions in the CRD.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{NamespaceResourceScope, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{CONTROLLER, MANAGED_BY};
use super::quantities::RawResources;
use super::unknown_fields;
use super::wire::resource;

/// A group of pods that are scheduled together: minMember pods at once, or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodGroup {
    /// The apiVersion and kind. Only an object that is written needs them.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default, deserialize_with = "unknown_fields::remember")]
    pub spec: PodGroupSpec,
    /// The observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PodGroupStatus>,
}

resource!(PodGroup, "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", NamespaceResourceScope);

/// The desired state of a PodGroup.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodGroupSpec {
    /// The number of pods that must be placed before the first of them is bound.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// The resources that must be free in the queue and all its ancestors before the PodGroup is admitted. Computed from the pods if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<RawResources>,
    /// The number of pods of each task that must be placed, by the name of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_task_member: Option<BTreeMap<String, i32>>,
    /// How close to each other in the network the pods must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// The name of the PriorityClass of the PodGroup.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The name of the queue that the pods are charged to.
    #[schemars(length(max = 253), extend("default" = "default", "pattern" = QUEUE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How the pods are divided into subgroups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_policy: Option<Vec<SubGroupPolicy>>,
    /// The names of the first unknown fields.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

impl unknown_fields::Spec for PodGroupSpec {
    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

impl PodGroup {
    /// Returns whether podgroup-controller manages the PodGroup, as its label says.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == CONTROLLER)
    }
}

/// The pattern of a queue name in the schema: a DNS-1123 subdomain, or an empty text, which some tools write for the default queue.
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
    /// Whether pods wait if this is not possible (hard), or are placed anyway (soft).
    #[schemars(extend("default" = "hard", "enum" = ["hard", "soft"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// How the pods of a PodGroup are divided into subgroups.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubGroupPolicy {
    /// The pods that the policy is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Selector>,
    /// The keys of labels. Pods with the same values are in the same subgroup.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_label_keys: Option<Vec<String>>,
    /// The number of subgroups that must be placed.
    #[schemars(range(min = 0), extend("default" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sub_groups: Option<i32>,
    /// The name of the policy.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How close to each other in the network the pods of one subgroup must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// The number of pods of one subgroup.
    #[schemars(range(min = 1), extend("default" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_size: Option<i32>,
}

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Requirements that must all hold.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<SelectorRequirement>>,
    /// Labels with values that must all match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SelectorRequirement {
    /// The key of the label.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// The values for In and NotIn.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// The observed state of a PodGroup. Only the scheduler writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodGroupStatus {
    /// The conditions of the PodGroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<PodGroupCondition>>,
    /// The number of failed pods.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// The phase of the PodGroup.
    #[schemars(extend("enum" = ["Pending", "Running", "Unknown", "Inqueue", "Completed"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The number of running pods.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
    /// The number of succeeded pods.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
}

/// A condition of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupCondition {
    /// When the status of the condition last changed.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A stable reason for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True, False or Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The identifier of this change of the condition.
    #[serde(rename = "transitionID", skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "transitionID")]
    pub transition_id: Option<String>,
    /// The type of the condition: Unschedulable, Scheduled or podgroup.dev/Waiting.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(rename = "type")]
    pub kind: Option<String>,
}
