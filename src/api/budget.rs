//! The PodDisruptionBudget of `policy/v1`, and how many pods it allows to evict now.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use super::label_selector::LabelSelector;
use super::podgroup::Selector;
use super::wire::resource;

/// A PodDisruptionBudget. Only the fields that are used are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodDisruptionBudget {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: BudgetSpec,
    /// The observed state.
    #[serde(default)]
    pub status: BudgetStatus,
}

resource!(PodDisruptionBudget, "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", NamespaceResourceScope);

/// The spec of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// The pods of its namespace that it protects. `None` selects no pod; an empty selector selects every pod.
    pub selector: Option<Selector>,
    /// With `AlwaysAllow` a pod that is not ready may always be evicted. Otherwise it may be evicted only while enough pods are healthy.
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// The status of a PodDisruptionBudget, written by kube-controller-manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// The generation of the spec that this status is about.
    pub observed_generation: i64,
    /// The number of pods that may be evicted now.
    pub disruptions_allowed: i64,
    /// The number of its healthy pods.
    pub current_healthy: i64,
    /// The number of pods that must be healthy.
    pub desired_healthy: i64,
}

/// The namespace and name of a PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BudgetKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// The facts about a PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// The namespace and name of the budget.
    pub key: BudgetKey,
    /// The pods that it protects. A selector that cannot be read protects every pod.
    pub selector: LabelSelector,
    /// The number of pods that may be evicted now. It is 0 while the status is older than the spec, as in the API server.
    pub allowed: u32,
    /// Whether a pod that is not ready may be evicted without using up `allowed`.
    pub frees_unready: bool,
}

impl BudgetKey {
    /// Returns the key of the budget `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }
}

impl BudgetFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(budget: &PodDisruptionBudget) -> Self {
        let (meta, spec, status) = (&budget.metadata, &budget.spec, &budget.status);
        let stale = status.observed_generation < meta.generation.unwrap_or(0);
        // The API server reads these two numbers even from a stale status.
        let enough = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
        Self {
            key: BudgetKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
            selector: LabelSelector::of(spec.selector.as_ref()).unwrap_or(LabelSelector::everything()),
            allowed: if stale { 0 } else { u32::try_from(status.disruptions_allowed).unwrap_or(0) },
            frees_unready: enough || spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn facts(spec: &Value, status: &Value) -> BudgetFacts {
        let object = json!({ "metadata": { "namespace": "ns", "name": "b", "generation": 2 }, "spec": spec, "status": status });
        BudgetFacts::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_budget_allows_the_number_of_its_status_only_if_the_status_is_current() {
        for (observed, allowed, expected) in [(2, 3, 3), (1, 3, 0), (0, 0, 0), (2, -1, 0)] {
            let facts = facts(&json!({}), &json!({ "observedGeneration": observed, "disruptionsAllowed": allowed }));
            assert_eq!(facts.allowed, expected, "{observed} {allowed}");
        }
    }

    #[test]
    fn an_unready_pod_may_be_evicted_while_enough_pods_are_healthy_or_always_with_always_allow() {
        for (policy, current, desired, free) in [
            (None, 2, 2, true),
            (None, 1, 2, false),
            (None, 0, 0, false),
            (Some("AlwaysAllow"), 0, 2, true),
            (Some("IfHealthyBudget"), 0, 2, false),
        ] {
            let facts = facts(
                &json!({ "unhealthyPodEvictionPolicy": policy }),
                &json!({ "observedGeneration": 2, "currentHealthy": current, "desiredHealthy": desired }),
            );
            assert_eq!(facts.frees_unready, free, "{policy:?} {current} {desired}");
        }
    }

    #[test]
    fn a_missing_selector_differs_from_an_empty_one() {
        assert_eq!(facts(&json!({}), &json!({})).selector, LabelSelector::Nothing);
        assert_eq!(facts(&json!({ "selector": {} }), &json!({})).selector, LabelSelector::everything());
        let unknown = json!({ "selector": { "matchExpressions": [{ "key": "a", "operator": "Like" }] } });
        assert_eq!(facts(&unknown, &json!({})).selector, LabelSelector::everything(), "too careful, never wrong");
    }
}
