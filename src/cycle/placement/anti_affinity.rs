//! The index of required anti-affinity: which placed pods keep other pods away from which nodes.
//!
//! Required anti-affinity is symmetric: a pod of any scheduler on a node that says "no pod like this beside me" is obeyed although the pod that
//! comes says nothing. It reaches over a whole topology domain, so it is worked out for all nodes at once: the pairs (label key, value) of
//! nodes that are forbidden to a pod with some [`PodLabels`]. The predicate ([`filter`](super::filter)) then looks at one node's labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::pod::PodAffinityTerm;
use crate::api::podgroup::{Selector, SelectorRequirement};
use crate::api::{PodFacts, Uid};

use super::nodes::Nodes;

/// The namespace and the labels of a pod: all that an anti-affinity term can match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodLabels {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's labels.
    pub labels: BTreeMap<String, String>,
}

impl PodLabels {
    /// Returns the namespace and the labels of this pod.
    #[must_use]
    pub fn of(pod: &PodFacts) -> Self {
        Self { namespace: Arc::clone(&pod.namespace), labels: pod.labels.clone() }
    }
}

/// The pods on nodes that have required anti-affinity terms.
#[derive(Debug, Default)]
pub struct AntiAffinityIndex {
    pods: BTreeMap<Uid, Entry>,
    epoch: u64,
}

/// One pod with anti-affinity terms, and its node.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    namespace: Arc<str>,
    node: Arc<str>,
    terms: Vec<PodAffinityTerm>,
}

impl AntiAffinityIndex {
    /// Records that the pod is on `node`, or on no node any more.
    pub fn set(&mut self, pod: &PodFacts, node: Option<&Arc<str>>) {
        let entry = node.filter(|_| !pod.anti_affinity.is_empty()).map(|node| Entry {
            namespace: Arc::clone(&pod.namespace),
            node: Arc::clone(node),
            terms: pod.anti_affinity.clone(),
        });
        if self.pods.get(&pod.uid) == entry.as_ref() {
            return;
        }
        match entry {
            Some(entry) => self.pods.insert(pod.uid.clone(), entry),
            None => self.pods.remove(&pod.uid),
        };
        self.changed();
    }

    /// Removes the pod.
    pub fn remove(&mut self, uid: &Uid) {
        _ = self.take(uid);
    }

    /// Removes the pod and returns its entry, to be [restored](Self::restore). None where the pod has no terms.
    pub(super) fn take(&mut self, uid: &Uid) -> Option<Entry> {
        let entry = self.pods.remove(uid)?;
        self.changed();
        Some(entry)
    }

    /// The inverse of [`take`](Self::take).
    pub(super) fn restore(&mut self, uid: &Uid, entry: Entry) {
        self.pods.insert(uid.clone(), entry);
        self.changed();
    }

    /// Whether the pod keeps other pods away.
    #[must_use]
    pub fn contains(&self, uid: &Uid) -> bool {
        self.pods.contains_key(uid)
    }

    /// Records that labels of nodes changed, and so the topology domains.
    pub fn nodes_changed(&mut self) {
        if !self.pods.is_empty() {
            self.changed();
        }
    }

    fn changed(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
    }

    /// A number that grows whenever an answer of [`forbidden`](Self::forbidden) may change.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns whether no pod has terms. Then the labels of pods make no difference.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The labels (key, value) of nodes to which a pod with these labels must not go.
    #[must_use]
    pub fn forbidden(&self, pod: &PodLabels, nodes: &Nodes) -> BTreeSet<(String, String)> {
        let mut forbidden = BTreeSet::new();
        for entry in self.pods.values() {
            let Some(node) = nodes.id(&entry.node).and_then(|id| nodes.get(id)) else { continue };
            for term in entry.terms.iter().filter(|term| matches(term, &entry.namespace, pod)) {
                if let Some(value) = node.labels.get(&term.topology_key) {
                    forbidden.insert((term.topology_key.clone(), value.clone()));
                }
            }
        }
        forbidden
    }
}

/// Whether a term of a pod in the namespace `own` matches this pod.
fn matches(term: &PodAffinityTerm, own: &str, pod: &PodLabels) -> bool {
    // Labels of namespaces are not watched, so a namespace selector is taken to match all of them: too careful, never wrong.
    let namespace = term.namespace_selector.is_some()
        || if term.namespaces.is_empty() { *pod.namespace == *own } else { term.namespaces.iter().any(|n| **n == *pod.namespace) };
    namespace && term.label_selector.as_ref().is_some_and(|selector| selects(selector, &pod.labels))
}

/// Whether a selector of pods matches these labels.
pub(in crate::cycle) fn selects(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(|requirement| meets(requirement, labels.get(&requirement.key)))
}

fn meets(requirement: &SelectorRequirement, value: Option<&String>) -> bool {
    let listed = |value: &String| requirement.values.iter().flatten().any(|one| one == value);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // What the API server would not have let in is taken to match every pod: too careful, never wrong.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::{node, pod};

    fn term(topology_key: &str, labels: &[(&str, &str)]) -> PodAffinityTerm {
        let match_labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        PodAffinityTerm {
            label_selector: Some(Selector { match_labels: Some(match_labels), match_expressions: None }),
            topology_key: topology_key.into(),
            ..PodAffinityTerm::default()
        }
    }

    #[test]
    fn a_pod_on_a_node_forbids_its_whole_domain_to_the_pods_that_its_terms_match() {
        let mut nodes = Nodes::default();
        let mut facts = node("n1", &[]);
        facts.labels.insert("zone".into(), "a".into());
        nodes.upsert(facts);
        let mut index = AntiAffinityIndex::default();
        let mut placed = pod("ns", "placed", "g", &[]);
        placed.anti_affinity = vec![term("zone", &[("app", "db")])];
        index.set(&placed, Some(&Arc::from("n1")));
        let labels =
            |namespace: &str, app: &str| PodLabels { namespace: Arc::from(namespace), labels: [("app".to_owned(), app.to_owned())].into() };
        let zone_a: BTreeSet<_> = [("zone".to_owned(), "a".to_owned())].into();
        assert_eq!(index.forbidden(&labels("ns", "db"), &nodes), zone_a);
        assert!(index.forbidden(&labels("ns", "web"), &nodes).is_empty());
        assert!(index.forbidden(&labels("other", "db"), &nodes).is_empty());
        let epoch = index.epoch();
        index.set(&placed, Some(&Arc::from("n1")));
        assert_eq!(index.epoch(), epoch);
        index.set(&placed, None);
        assert!(index.is_empty() && index.epoch() > epoch);
    }
}
