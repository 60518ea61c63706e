//! Which subgroup of its PodGroup does a pod belong to?
//!
//! `spec.subGroupPolicy[]` of a PodGroup: the first policy that a pod meets counts. It meets one if the selector matches and each of
//! `matchLabelKeys` is a label with a value; pods with the same values are one subgroup. Without keys all that the selector matches are one
//! subgroup. (Volcano 1.15 lets such a policy match no pod, so the PodGroup waits for ever.) Without a selector every pod is meant.

use std::collections::BTreeMap;

use super::fault::{Fault, shorten};
use super::label_selector::LabelSelector;
use super::podgroup::SubGroupPolicy;

/// The most policies of one PodGroup. Each pod is compared with all of them.
const MOST_POLICIES: usize = 500;
/// The field, for faults.
const FIELD: &str = "spec.subGroupPolicy";

/// One policy: which members it is about, and what is needed of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroupPolicyFacts {
    /// Its name, which may be empty and need not be unique.
    pub name: String,
    /// The members that it is about.
    pub selector: LabelSelector,
    /// The keys of the labels by which these are parted into subgroups.
    pub keys: Vec<String>,
    /// How many members of one subgroup are placed together, or none of them; 1 at least.
    pub size: u32,
    /// How many subgroups must have their size.
    pub needed: u32,
}

/// A subgroup of one PodGroup. The order is that in which subgroups are placed: by policy, then by the values of their labels, numbers before
/// texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubGroup {
    /// The position of its policy in the PodGroup.
    pub policy: usize,
    values: Vec<Value>,
}

/// The value of a label. Numbers come before texts, and 2 before 10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(u64, String),
    Text(String),
}

impl SubGroupPolicyFacts {
    /// Returns what messages call the policy: its name, or its number where it has none.
    #[must_use]
    pub fn shown(&self, at: usize) -> String {
        if self.name.is_empty() { format!("#{}", at.saturating_add(1)) } else { shorten(&self.name) }
    }
}

impl SubGroup {
    /// Returns the subgroup of a pod with these labels; none where no policy is about it.
    #[must_use]
    pub fn of(policies: &[SubGroupPolicyFacts], labels: &BTreeMap<String, String>) -> Option<Self> {
        policies.iter().enumerate().find_map(|(policy, facts)| {
            let value = |key: &String| labels.get(key).filter(|value| !value.is_empty()).map(|value| Value::of(value));
            let values = facts.keys.iter().map(value).collect::<Option<Vec<Value>>>().filter(|_| facts.selector.matches(labels))?;
            Some(Self { policy, values })
        })
    }
}

impl Value {
    fn of(text: &str) -> Self {
        // `007` and `7` are two subgroups.
        text.parse().map_or_else(|_| Self::Text(text.to_owned()), |number| Self::Number(number, text.to_owned()))
    }
}

/// Reads the policies. Where none asks for more than each pod by itself, there are none.
#[must_use]
pub fn read(policies: &[SubGroupPolicy], faults: &mut Vec<Fault>) -> Vec<SubGroupPolicyFacts> {
    if !policies.iter().any(is_hard) {
        return Vec::new();
    }
    if policies.len() > MOST_POLICIES {
        faults.push(Fault::new(FIELD, &policies.len().to_string(), "is more than 500 policies of subgroups"));
        return Vec::new();
    }
    let mut read = Vec::with_capacity(policies.len());
    for policy in policies {
        let selector = match &policy.label_selector {
            None => LabelSelector::everything(),
            Some(selector) => LabelSelector::of(Some(selector)).unwrap_or_else(|value| {
                faults.push(Fault::new("spec.subGroupPolicy[].labelSelector", &value, "is no label selector"));
                LabelSelector::Nothing
            }),
        };
        let number = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
        read.push(SubGroupPolicyFacts {
            name: policy.name.clone().unwrap_or_default(),
            selector,
            keys: policy.match_label_keys.clone().unwrap_or_default(),
            size: number(policy.sub_group_size).unwrap_or(1).max(1),
            needed: number(policy.min_sub_groups).unwrap_or(0),
        });
    }
    read
}

/// Whether the policy asks for anything. A size of 1 and no minimum are the defaults of the CRD.
fn is_hard(policy: &SubGroupPolicy) -> bool {
    policy.sub_group_size.is_some_and(|size| size > 1) || policy.min_sub_groups.is_some_and(|number| number > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policies(policies: serde_json::Value) -> (Vec<SubGroupPolicyFacts>, Vec<Fault>) {
        let mut faults = Vec::new();
        let policies: Vec<SubGroupPolicy> = serde_json::from_value(policies).unwrap();
        (read(&policies, &mut faults), faults)
    }

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_first_policy_that_a_pod_meets_counts() {
        let (policies, faults) = policies(json!([
            { "name": "a", "labelSelector": { "matchLabels": { "role": "a" } }, "matchLabelKeys": ["part"], "subGroupSize": 2 },
            { "name": "b", "labelSelector": { "matchLabels": { "role": "a" } }, "minSubGroups": 1 },
            { "name": "all" },
        ]));
        assert_eq!((faults, policies[0].size, policies[1].size, policies[1].needed), (Vec::new(), 2, 1, 1));
        let of = |pairs: &[(&str, &str)]| SubGroup::of(&policies, &labels(pairs));
        let first = of(&[("role", "a"), ("part", "1")]);
        assert_eq!(first.as_ref().map(|of| of.policy), Some(0));
        assert_eq!(first, of(&[("role", "a"), ("part", "1"), ("other", "x")]));
        assert_ne!(first, of(&[("role", "a"), ("part", "2")]));
        for without in [&[("role", "a")][..], &[("role", "a"), ("part", "")]] {
            assert_eq!(of(without).map(|of| of.policy), Some(1), "a policy is not about a pod without its key");
        }
        assert_eq!(of(&[]).map(|of| of.policy), Some(2), "without a selector every pod is meant");
        assert_eq!(SubGroup::of(&policies[..2], &labels(&[])), None);
    }

    #[test]
    fn subgroups_come_by_policy_then_by_number_then_by_text() {
        let (policies, _) = policies(json!([{ "matchLabelKeys": ["a", "b"], "subGroupSize": 2 }]));
        let of = |a: &str, b: &str| SubGroup::of(&policies, &labels(&[("a", a), ("b", b)])).unwrap();
        let order = [of("2", "x"), of("10", "x"), of("10", "y"), of("a", "b-c"), of("a-b", "c")];
        assert!(order.is_sorted_by(|one, other| one < other), "{order:?}");
        assert_ne!(of("7", "x"), of("007", "x"));
    }

    #[test]
    fn policies_that_ask_for_nothing_are_none_and_those_that_cannot_be_read_are_a_fault() {
        assert_eq!(policies(json!([{ "name": "a" }, { "subGroupSize": 1, "minSubGroups": 0 }])), (Vec::new(), Vec::new()));
        for hard in [json!({ "subGroupSize": 2 }), json!({ "minSubGroups": 1 })] {
            assert_eq!(policies(json!([{ "name": "a" }, hard])).0.len(), 2);
        }
        let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] });
        let (read, faults) = policies(json!([{ "subGroupSize": 2, "labelSelector": selector }]));
        assert_eq!((read[0].selector.clone(), faults.len()), (LabelSelector::Nothing, 1));
        let (read, faults) = policies(json!(vec![json!({ "subGroupSize": 2 }); MOST_POLICIES + 1]));
        assert_eq!((read.len(), faults.len()), (0, 1));
    }
}
