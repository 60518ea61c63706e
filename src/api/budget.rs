//! A PodDisruptionBudget of `policy/v1`: how many of whose pods may be evicted now?

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use super::podgroup::Selector;
use super::wire::resource;

/// A budget. Only what is used is decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodDisruptionBudget {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: BudgetSpec,
    /// What came of it.
    #[serde(default)]
    pub status: BudgetStatus,
}

resource!(PodDisruptionBudget, "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", NamespaceResourceScope);

/// Whom a budget guards, and how strictly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// Which pods of its namespace; none selects none, an empty one all.
    pub selector: Option<Selector>,
    /// `AlwaysAllow` lets pods that are not ready go; else they may only go while enough others are.
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// What the budget's controller found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// For which generation this was worked out.
    pub observed_generation: i64,
    /// How many may go now.
    pub disruptions_allowed: i64,
    /// How many of its pods are ready.
    pub current_healthy: i64,
    /// How many must be.
    pub desired_healthy: i64,
}

/// Which budget: its namespace and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BudgetKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// A budget as the scheduler knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// Which one.
    pub key: BudgetKey,
    /// Whom it guards; none guards nobody.
    pub selector: Option<Selector>,
    /// How many of its pods may go now. A status that is older than the spec allows none, as the API server has it.
    pub allowed: u32,
    /// Whether a pod that is not ready may go and costs nothing of that.
    pub frees_unready: bool,
}

impl BudgetKey {
    /// The key of the budget `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }
}

impl BudgetFacts {
    /// What this object says.
    #[must_use]
    pub fn of(budget: &PodDisruptionBudget) -> Self {
        let (meta, spec, status) = (&budget.metadata, &budget.spec, &budget.status);
        let stale = status.observed_generation < meta.generation.unwrap_or(0);
        // The API server asks this of the status, stale or not.
        let enough = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
        Self {
            key: BudgetKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
            selector: spec.selector.clone(),
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
    fn a_budget_allows_what_its_status_says_if_that_is_of_its_spec() {
        for (observed, allowed, says) in [(2, 3, 3), (1, 3, 0), (0, 0, 0), (2, -1, 0)] {
            let facts = facts(&json!({}), &json!({ "observedGeneration": observed, "disruptionsAllowed": allowed }));
            assert_eq!(facts.allowed, says, "{observed} {allowed}");
        }
    }

    #[test]
    fn who_is_not_ready_is_free_while_enough_others_are_or_always() {
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
    fn no_selector_is_not_an_empty_one() {
        assert_eq!(facts(&json!({}), &json!({})).selector, None);
        assert_eq!(facts(&json!({ "selector": {} }), &json!({})).selector, Some(Selector::default()));
    }
}
