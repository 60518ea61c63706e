//! How much may a pod say about its nodes? Node selector, node affinity and tolerations are compared with each node, so their size is limited.

use super::fault::Fault;
use super::pod::{NodeSelectorTerm, PodSpec};

/// The most requirements and values in the node selector and node affinity of a pod, and the most tolerations. A pod with more is not placed.
const LARGEST: usize = 1_000;

/// Returns what there is too much of; empty where the pod is within the limits.
pub(super) fn excess(spec: &PodSpec) -> Vec<Fault> {
    let affinity = spec.affinity.as_ref().and_then(|all| all.node_affinity.as_ref());
    let required = affinity.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
    let preferred = affinity.into_iter().flat_map(|nodes| &nodes.preferred_during_scheduling_ignored_during_execution);
    let terms = required.into_iter().flat_map(|nodes| &nodes.node_selector_terms).chain(preferred.map(|nodes| &nodes.preference));
    let size = terms.map(size_of).fold(spec.node_selector.len(), usize::saturating_add);
    let tolerations = spec.tolerations.len();
    let mut faults = Vec::new();
    if size > LARGEST {
        faults.push(Fault::new(
            "spec.affinity.nodeAffinity",
            &size.to_string(),
            format!("is more than {LARGEST} requirements and values in node selector and node affinity"),
        ));
    }
    if tolerations > LARGEST {
        faults.push(Fault::new("spec.tolerations", &tolerations.to_string(), format!("is more than {LARGEST} tolerations")));
    }
    faults
}

/// Returns the number of its requirements and values. A term without requirements counts as one: it is read for each node as well.
fn size_of(term: &NodeSelectorTerm) -> usize {
    let requirements = term.match_expressions.iter().chain(&term.match_fields);
    requirements.map(|requirement| requirement.values.len().saturating_add(1)).fold(0, usize::saturating_add).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::api::PodFacts;

    fn faults(spec: &Value) -> Vec<String> {
        let pod = serde_json::from_value(json!({ "metadata": { "namespace": "ns" }, "spec": spec })).unwrap();
        PodFacts::of(&pod).faults.iter().map(ToString::to_string).collect()
    }

    fn terms(terms: &[Value], preferred: &[Value]) -> Value {
        let preferred: Vec<Value> = preferred.iter().map(|term| json!({ "weight": 1, "preference": term })).collect();
        json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        } })
    }

    fn named(field: &str, values: usize) -> Value {
        let values: Vec<String> = (0..values).map(|number| format!("v{number}")).collect();
        json!({ field: [{ "key": "k", "operator": "In", "values": values }] })
    }

    #[test]
    fn the_requirements_and_values_for_nodes_are_counted_together() {
        let says = "spec.affinity.nodeAffinity \"1001\": is more than 1000 requirements and values in node selector and node affinity";
        // 300 + 1 of labels, 300 + 1 of fields, 300 + 1 preferred, 97 labels of the node selector.
        let affinity = terms(&[named("matchExpressions", 300), named("matchFields", 300)], &[named("matchExpressions", 300)]);
        let selector = |labels: usize| -> Value {
            (0..labels).map(|number| (format!("l{number}"), json!(""))).collect::<serde_json::Map<_, _>>().into()
        };
        assert_eq!(faults(&json!({ "affinity": affinity, "nodeSelector": selector(97) })), [""; 0]);
        assert_eq!(faults(&json!({ "affinity": affinity, "nodeSelector": selector(98) })), [says]);
        let empty = vec![json!({}); 1_001];
        assert_eq!(faults(&json!({ "affinity": terms(&empty, &[]) })), [says]);
    }

    #[test]
    fn a_pod_has_at_most_so_many_tolerations() {
        let tolerations =
            |count: usize| (0..count).map(|number| json!({ "key": format!("k{number}"), "operator": "Exists" })).collect::<Vec<_>>();
        assert_eq!(faults(&json!({ "tolerations": tolerations(1_000) })), [""; 0]);
        assert_eq!(faults(&json!({ "tolerations": tolerations(1_001) })), ["spec.tolerations \"1001\": is more than 1000 tolerations"]);
    }
}
