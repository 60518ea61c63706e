//! What a PriorityClass means to the scheduler.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::names::PREEMPTS_NEVER;

/// A PriorityClass as the scheduler knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityClassFacts {
    /// Its name; classes are cluster-scoped.
    pub name: String,
    /// What it is worth: the higher comes first.
    pub value: i32,
    /// Whether others may go for whoever has this class.
    pub preempts: bool,
}

impl PriorityClassFacts {
    /// What this object says.
    #[must_use]
    pub fn of(class: PriorityClass) -> Self {
        Self {
            name: class.metadata.name.unwrap_or_default(),
            value: class.value.unwrap_or(0),
            preempts: preempts(class.preemption_policy.as_deref()),
        }
    }
}

/// Whether others may go for a pod or class with this `preemptionPolicy`; unset is `PreemptLowerPriority`.
pub(super) fn preempts(policy: Option<&str>) -> bool {
    policy != Some(PREEMPTS_NEVER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_never_says_that_nobody_goes() {
        let class = |policy| {
            let class = serde_json::from_value(json!({"metadata": {"name": "c"}, "value": 7, "preemptionPolicy": policy})).unwrap();
            PriorityClassFacts::of(class)
        };
        for (policy, preempts) in [(None, true), (Some("PreemptLowerPriority"), true), (Some("Never"), false)] {
            assert_eq!(class(policy), PriorityClassFacts { name: "c".to_owned(), value: 7, preempts });
        }
    }
}
