//! The facts that the scheduler reads from a PriorityClass.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::names::PREEMPTS_NEVER;

/// The facts about a PriorityClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityClassFacts {
    /// The name of the class. Classes are cluster-scoped.
    pub name: String,
    /// The priority. A higher value is scheduled first.
    pub value: i32,
    /// Whether pods with this class may preempt other pods.
    pub preempts: bool,
}

impl PriorityClassFacts {
    /// Reads the facts from the object.
    #[must_use]
    pub fn of(class: &PriorityClass) -> Self {
        Self {
            name: class.metadata.name.clone().unwrap_or_default(),
            value: class.value.unwrap_or(0),
            preempts: preempts(class.preemption_policy.as_deref()),
        }
    }
}

/// Returns whether a pod or class with this `preemptionPolicy` may preempt other pods. Unset means `PreemptLowerPriority`.
pub(super) fn preempts(policy: Option<&str>) -> bool {
    policy != Some(PREEMPTS_NEVER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_policy_never_forbids_preemption() {
        let class = |policy| {
            let class = serde_json::from_value(json!({"metadata": {"name": "c"}, "value": 7, "preemptionPolicy": policy})).unwrap();
            PriorityClassFacts::of(&class)
        };
        for (policy, preempts) in [(None, true), (Some("PreemptLowerPriority"), true), (Some("Never"), false)] {
            assert_eq!(class(policy), PriorityClassFacts { name: "c".to_owned(), value: 7, preempts });
        }
    }
}
