//! The predicate for the pod's required node affinity: one of its terms must hold for the node.

use std::collections::BTreeMap;

use crate::api::NodeFacts;
use crate::api::pod::{NodeRequirement, NodeSelectorTerm};
use crate::api::pod_facts::Constraints;
use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct NodeAffinity;

impl Predicate for NodeAffinity {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        (!matches(query.constraints, node.facts)).then(|| Reason::NodeAffinity.into())
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        query.constraints.node_affinity.is_some()
    }
}

/// Returns whether one of the terms of the required node affinity holds, if there is one.
pub(super) fn matches(constraints: &Constraints, node: &NodeFacts) -> bool {
    constraints.node_affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| holds(term, &node.labels, Some(&node.name))))
}

/// Returns the sum of the weights of the terms that hold.
pub(in crate::cycle::placement) fn preference(terms: &[(i32, NodeSelectorTerm)], node: &NodeFacts) -> i64 {
    terms.iter().filter(|(_, term)| holds(term, &node.labels, Some(&node.name))).map(|(weight, _)| i64::from(*weight)).sum()
}

/// Returns whether a term holds for a node with these labels and this name; without a name, requirements on fields are ignored. All its
/// requirements must hold. A term without requirements never holds.
pub(super) fn holds(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: Option<&str>) -> bool {
    if term.match_expressions.is_empty() && term.match_fields.is_empty() {
        return false;
    }
    term.match_expressions.iter().all(|requirement| meets(requirement, labels.get(&requirement.key).map(String::as_str)))
        && term
            .match_fields
            .iter()
            .all(|requirement| name.is_none_or(|name| requirement.key == "metadata.name" && meets(requirement, Some(name))))
}

fn meets(requirement: &NodeRequirement, value: Option<&str>) -> bool {
    let listed = |value: &str| requirement.values.iter().any(|one| one == value);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers(requirement, value).is_some_and(|(node, bound)| node > bound),
        "Lt" => numbers(requirement, value).is_some_and(|(node, bound)| node < bound),
        _ => false,
    }
}

/// The label and the one bound it is compared with, where both are whole numbers.
fn numbers(requirement: &NodeRequirement, value: Option<&str>) -> Option<(i64, i64)> {
    let [bound] = requirement.values.as_slice() else { return None };
    Some((value?.parse().ok()?, bound.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::node;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeRequirement {
        NodeRequirement { key: key.into(), operator: operator.into(), values: values.iter().map(|v| (*v).into()).collect() }
    }

    #[test]
    fn every_operator_means_what_kubernetes_says() {
        let mut facts = node("n1", &[]);
        facts.labels.insert("zone".into(), "a".into());
        facts.labels.insert("gen".into(), "7".into());
        let table = [
            ("zone", "In", &["a", "b"][..], true),
            ("zone", "In", &["b"], false),
            ("none", "In", &["b"], false),
            ("zone", "NotIn", &["a"], false),
            ("none", "NotIn", &["a"], true),
            ("zone", "Exists", &[], true),
            ("none", "Exists", &[], false),
            ("none", "DoesNotExist", &[], true),
            ("gen", "Gt", &["6"], true),
            ("gen", "Gt", &["7"], false),
            ("gen", "Lt", &["8"], true),
            ("zone", "Lt", &["8"], false),
            ("none", "Lt", &["8"], false),
            ("gen", "Gt", &["6", "5"], false),
            ("gen", "About", &["7"], false),
        ];
        for (key, operator, values, want) in table {
            let term = NodeSelectorTerm { match_expressions: vec![requirement(key, operator, values)], match_fields: Vec::new() };
            assert_eq!(holds(&term, &facts.labels, Some(&facts.name)), want, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn an_empty_term_holds_nowhere_and_the_field_is_the_name() {
        let facts = node("n1", &[]);
        assert!(!holds(&NodeSelectorTerm::default(), &facts.labels, Some(&facts.name)));
        let term = |key: &str| NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![requirement(key, "In", &["n1"])] };
        assert!(holds(&term("metadata.name"), &facts.labels, Some(&facts.name)));
        assert!(!holds(&term("metadata.uid"), &facts.labels, Some(&facts.name)));
    }
}
