//! The predicate for the names of nodes in the pod's required node affinity: where every term names nodes, the pod goes to no other node.
//!
//! The predicate for the node affinity would refuse these nodes too. kube-scheduler asks no filter about them, so they are counted under
//! words of their own, whatever else they would refuse the pod for (`plugins/nodeaffinity`, `PreFilter`).

use crate::api::pod::NodeSelectorTerm;
use crate::cycle::explain::Reason;

use super::{No, NodeState, Predicate, Query};

pub(super) struct NamedNodes;

impl Predicate for NamedNodes {
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
        let terms = query.constraints.node_affinity.as_deref().filter(|terms| all_name_nodes(terms))?;
        if terms.iter().any(|term| names(term, &node.facts.name)) {
            return None;
        }
        let conflict = !terms.iter().any(can_hold);
        Some(if conflict { Reason::NamesConflict } else { Reason::NotNamed }.into())
    }

    fn concerns_pod(&self, query: &Query<'_>) -> bool {
        query.constraints.node_affinity.as_deref().is_some_and(all_name_nodes)
    }
}

/// Returns whether there are terms, and each of them names nodes.
fn all_name_nodes(terms: &[NodeSelectorTerm]) -> bool {
    !terms.is_empty() && terms.iter().all(|term| named(term).next().is_some())
}

/// Returns the lists of names in a term. The node must be in each of them.
fn named(term: &NodeSelectorTerm) -> impl Iterator<Item = &[String]> {
    let names = term.match_fields.iter().filter(|field| field.key == "metadata.name" && field.operator == "In");
    names.map(|field| field.values.as_slice())
}

fn names(term: &NodeSelectorTerm, node: &str) -> bool {
    named(term).all(|names| names.iter().any(|name| name == node))
}

/// Returns whether a node can have all the names of a term. The API server admits one name in each list.
fn can_hold(term: &NodeSelectorTerm) -> bool {
    named(term).next().is_some_and(|first| first.iter().any(|name| names(term, name)))
}
