//! The advice where other pods keep the next member from nodes: affinity and anti-affinity.
//!
//! A term often selects the pod itself and its like: one zone for a gang, one node for each replica. Then no other pod is in the way, and
//! it helps neither to wait nor to remove pods.

use crate::api::PodFacts;
use crate::api::pod_terms::AffinityTerm;
use crate::api::workload::NamespaceLabels;
use crate::cycle::explain::{Count, Reason};

use super::changes::{Known, nodes_of};

/// The topology key of which each node is a domain.
const HOST: &str = "kubernetes.io/hostname";

/// Returns the advice for one of these reasons; empty for any other.
pub(super) fn of_reason(reason: &Reason, count: Count, known: &Known<'_>) -> String {
    let Some((_, key)) = reason.detail() else { return String::new() };
    let of_next = |terms: fn(&PodFacts) -> &[AffinityTerm]| {
        known.next.map(|next| {
            let own = || terms(next).iter().filter(|term| *term.topology_key == *key);
            own().next().is_some() && own().all(|term| selects_itself(term, next, known.namespaces))
        })
    };
    if matches!(reason, Reason::PodAffinity { .. }) {
        of_affinity(&key, count, of_next(|next| &next.terms.affinity).unwrap_or(false), known)
    } else if matches!(reason, Reason::PodAntiAffinity { .. }) && of_next(|next| &next.terms.anti_affinity).unwrap_or(false) {
        format!(
            "add {}: the anti-affinity of these pods keeps them apart, so each needs {}; or ask for fewer of them",
            further(&key),
            own(&key)
        )
    } else if matches!(reason, Reason::PodAntiAffinity { .. }) {
        format!("add {}, or wait for the pods that the pod's anti-affinity selects to leave {} ({key})", further(&key), nodes_of(count))
    } else {
        format!("add {}, or wait for the pods that keep others away from {} ({key})", further(&key), nodes_of(count))
    }
}

fn of_affinity(key: &str, count: Count, with_itself: bool, known: &Known<'_>) -> String {
    let without = known.nodes.iter().filter(|node| !node.labels.contains_key(key)).count();
    let without = u32::try_from(without).unwrap_or(u32::MAX);
    if without > 0 && without >= count.nodes {
        let which = if known.nodes.len() == 1 { "the node".to_owned() } else { nodes_of(count) };
        return if with_itself {
            format!("label {which} with {key}: a node without this label takes no pod whose required affinity is by it")
        } else {
            format!("label {which} with {key}, and a pod that the affinity requires must run in the domain")
        };
    }
    if with_itself {
        return format!(
            "the pods that this affinity puts together need one domain ({key}) with room for all of them: the one in which they are, or another for all"
        );
    }
    format!("a pod that the affinity requires must run in the domains ({key}) of {}", nodes_of(count))
}

/// Returns whether the term selects the pod that has it. The labels of its namespace are known where a term asks for them.
fn selects_itself(term: &AffinityTerm, pod: &PodFacts, namespaces: &[NamespaceLabels]) -> bool {
    let none = std::collections::BTreeMap::new();
    let labels = namespaces.iter().find(|namespace| namespace.name == pod.namespace).map_or(&none, |namespace| &namespace.labels);
    term.pods.matches(&pod.namespace, labels, &pod.labels)
}

fn further(key: &str) -> String {
    if key == HOST { "a node".to_owned() } else { format!("nodes in a further domain ({key})") }
}

fn own(key: &str) -> &'static str {
    if key == HOST { "a node of its own" } else { "a domain of its own" }
}
