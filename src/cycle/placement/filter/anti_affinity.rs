//! Does a pod that is there keep this one away?
//!
//! Required anti-affinity is symmetric: a pod of any scheduler that says "nobody like this beside me" is obeyed although the newcomer says
//! nothing. It reaches over a whole topology domain, so it is worked out for all nodes at once: the pairs (label key, value) of nodes that
//! are forbidden to an [`Audience`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::pod::PodAffinityTerm;
use crate::api::podgroup::{Selector, SelectorRequirement};
use crate::api::{PodFacts, Uid};
use crate::cycle::explain::Reason;
use crate::cycle::placement::nodes::Nodes;

use super::{Asked, No, Sight};

pub(super) fn refuses(asked: &Asked<'_>, node: &Sight<'_>) -> Option<No> {
    let here = |(key, value): &&(String, String)| node.facts.labels.get(key) == Some(value);
    asked.forbidden.iter().find(here).map(|(key, _)| Reason::AntiAffinity { topology_key: key.clone() }.into())
}

/// Whom an anti-affinity term can mean: the namespace and labels of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Audience {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's labels.
    pub labels: BTreeMap<String, String>,
}

/// The pods on nodes that keep others away.
#[derive(Debug, Default)]
pub struct Keepers {
    pods: BTreeMap<Uid, Keeper>,
    epoch: u64,
}

/// One pod that keeps others away.
#[derive(Debug, PartialEq)]
pub(in crate::cycle) struct Keeper {
    namespace: Arc<str>,
    node: Arc<str>,
    terms: Vec<PodAffinityTerm>,
}

impl Keepers {
    /// The pod is on `node`, or on none any more.
    pub fn set(&mut self, pod: &PodFacts, node: Option<&Arc<str>>) {
        let keeper = node.filter(|_| !pod.anti_affinity.is_empty()).map(|node| Keeper {
            namespace: Arc::clone(&pod.namespace),
            node: Arc::clone(node),
            terms: pod.anti_affinity.clone(),
        });
        if self.pods.get(&pod.uid) == keeper.as_ref() {
            return;
        }
        match keeper {
            Some(keeper) => self.pods.insert(pod.uid.clone(), keeper),
            None => self.pods.remove(&pod.uid),
        };
        self.changed();
    }

    /// The pod is gone.
    pub fn remove(&mut self, uid: &Uid) {
        if self.pods.remove(uid).is_some() {
            self.changed();
        }
    }

    /// Leaves the pod out for the while, until it is put back. Nothing where it keeps nobody away.
    pub(in crate::cycle) fn set_aside(&mut self, uid: &Uid) -> Option<Keeper> {
        let keeper = self.pods.remove(uid)?;
        self.changed();
        Some(keeper)
    }

    /// The inverse of [`set_aside`](Self::set_aside).
    pub(in crate::cycle) fn put_back(&mut self, uid: &Uid, keeper: Keeper) {
        self.pods.insert(uid.clone(), keeper);
        self.changed();
    }

    /// Whether the pod keeps others away.
    pub(in crate::cycle) fn contains(&self, uid: &Uid) -> bool {
        self.pods.contains_key(uid)
    }

    /// Node labels changed, which moves the domains.
    pub fn nodes_changed(&mut self) {
        if !self.pods.is_empty() {
            self.changed();
        }
    }

    fn changed(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
    }

    /// Grows whenever an answer of [`forbidden`](Self::forbidden) may change.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether nobody keeps anybody away: then pods need not be told apart by their labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The labels (key, value) of nodes to which a pod like this must not go.
    #[must_use]
    pub fn forbidden(&self, audience: &Audience, nodes: &Nodes) -> BTreeSet<(String, String)> {
        let mut forbidden = BTreeSet::new();
        for keeper in self.pods.values() {
            let Some(node) = nodes.id(&keeper.node).and_then(|id| nodes.get(id)) else { continue };
            for term in keeper.terms.iter().filter(|term| means(term, &keeper.namespace, audience)) {
                if let Some(value) = node.labels.get(&term.topology_key) {
                    forbidden.insert((term.topology_key.clone(), value.clone()));
                }
            }
        }
        forbidden
    }
}

fn means(term: &PodAffinityTerm, own: &str, audience: &Audience) -> bool {
    // Namespaces' labels are not watched, so a namespace selector is taken to mean all of them: too careful, never wrong.
    let namespace = term.namespace_selector.is_some()
        || if term.namespaces.is_empty() {
            *audience.namespace == *own
        } else {
            term.namespaces.iter().any(|n| **n == *audience.namespace)
        };
    namespace && term.label_selector.as_ref().is_some_and(|selector| selects(selector, &audience.labels))
}

/// Whether a selector of pods means one with these labels.
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
        // What the API server would not have let in is taken to mean everybody: too careful, never wrong.
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
    fn a_pod_that_is_there_forbids_its_whole_domain_to_those_it_means() {
        let mut nodes = Nodes::default();
        let mut facts = node("n1", &[]);
        facts.labels.insert("zone".into(), "a".into());
        nodes.upsert(facts);
        let mut keepers = Keepers::default();
        let mut keeper = pod("ns", "keeper", "g", &[]);
        keeper.anti_affinity = vec![term("zone", &[("app", "db")])];
        keepers.set(&keeper, Some(&Arc::from("n1")));
        let audience =
            |namespace: &str, app: &str| Audience { namespace: Arc::from(namespace), labels: [("app".to_owned(), app.to_owned())].into() };
        let zone_a: BTreeSet<_> = [("zone".to_owned(), "a".to_owned())].into();
        assert_eq!(keepers.forbidden(&audience("ns", "db"), &nodes), zone_a);
        assert!(keepers.forbidden(&audience("ns", "web"), &nodes).is_empty());
        assert!(keepers.forbidden(&audience("other", "db"), &nodes).is_empty());
        let epoch = keepers.epoch();
        keepers.set(&keeper, Some(&Arc::from("n1")));
        assert_eq!(keepers.epoch(), epoch);
        keepers.set(&keeper, None);
        assert!(keepers.is_empty() && keepers.epoch() > epoch);
    }
}
