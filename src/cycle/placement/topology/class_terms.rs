//! What does a scheduling class require of other pods, and which pods keep it away?
//!
//! Two pods with the same terms, of which the same are met by the pods themselves, and which the same terms of others keep away, are the
//! same to every node, whatever their labels are. So labels that are unique for each pod (indexed Jobs, StatefulSets) do not split a class.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::pod_terms::{HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::api::volumes::PodVolumes;

use super::class_preferences::ClassPreferences;
use super::placed::{PlacedPods, TermId};
use super::selection::{LabelSetId, SelectorId};

/// The terms of a class, with the numbers of their selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassTerms {
    /// Required affinity; none where there is no term.
    pub affinity: Option<Affinity>,
    /// Required anti-affinity.
    pub anti_affinity: Vec<TermId>,
    /// Spread constraints.
    pub spread: Vec<Spread>,
    /// The host ports.
    pub host_ports: BTreeSet<HostPort>,
    /// The terms of anti-affinity of other pods that keep pods of the class away.
    pub kept_away_by: Vec<TermId>,
    /// What pods of the class prefer, and which pods prefer them; none where there is neither.
    pub preferences: Option<ClassPreferences>,
    /// What the claims require, if it matters what other pods use of them.
    pub volumes: Option<Arc<PodVolumes>>,
}

/// The terms of required affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Affinity {
    /// What all terms select.
    pub selector: SelectorId,
    /// The topology key of each term.
    pub topology_keys: Vec<Arc<str>>,
    /// Whether a pod of the class is selected itself, so that it may be the first.
    pub matches_itself: bool,
}

/// A spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spread {
    /// The constraint.
    pub constraint: SpreadConstraint,
    /// What it counts.
    pub selector: SelectorId,
    /// Whether a pod of the class is counted itself.
    pub matches_itself: bool,
}

impl ClassTerms {
    /// Joins the selectors of these terms, for a pod with the label set and with claims that require this. [`leave`](Self::leave) is the inverse.
    #[must_use]
    pub fn join(terms: &PodTerms, volumes: Option<&Arc<PodVolumes>>, set: LabelSetId, placed: &mut PlacedPods) -> Self {
        let mut join = |all: &[PodSelector]| placed.join_selector(all, &terms.namespace);
        let mut counted = terms.counted().map(|all| join(&all)).collect::<Vec<SelectorId>>().into_iter();
        let affinity = if terms.affinity.is_empty() { None } else { counted.next() };
        let anti_affinity: Vec<TermId> =
            terms.anti_affinity.iter().map(|term| (join(std::slice::from_ref(&term.pods)), Arc::clone(&term.topology_key))).collect();
        let spread = counted.zip(&terms.spread).map(|(selector, constraint)| Spread {
            constraint: constraint.clone(),
            selector,
            matches_itself: placed.matches(selector, set),
        });
        let spread: Vec<Spread> = spread.collect();
        // The numbers of these selectors must not be given away while the class exists.
        let kept_away_by: Vec<TermId> = placed.terms_against(set).collect();
        kept_away_by.iter().for_each(|term| placed.hold_selector(term.0));
        let preferences = ClassPreferences::join(terms, set, placed);
        Self {
            affinity: affinity.map(|selector| Affinity {
                selector,
                topology_keys: terms.affinity.iter().map(|term| Arc::clone(&term.topology_key)).collect(),
                matches_itself: placed.matches(selector, set),
            }),
            anti_affinity,
            spread,
            host_ports: terms.host_ports.clone(),
            kept_away_by,
            preferences,
            volumes: volumes.filter(|volumes| volumes.depends_on_pods()).cloned(),
        }
    }

    /// Leaves the selectors.
    pub fn leave(&self, placed: &mut PlacedPods) {
        self.own().for_each(|selector| placed.leave_selector(selector));
        self.kept_away_by.iter().for_each(|term| placed.leave_selector(term.0));
        self.preferences.iter().for_each(|preferences| preferences.leave(placed));
    }

    /// Returns the terms by which a node that refuses now refuses whatever pods come: all but affinity and spread.
    #[must_use]
    pub fn lasting(&self) -> Self {
        Self { affinity: None, spread: Vec::new(), ..self.clone() }
    }

    /// Returns the selectors of the pod's own terms.
    pub fn own(&self) -> impl Iterator<Item = SelectorId> + '_ {
        let affinity = self.affinity.iter().map(|affinity| affinity.selector);
        affinity.chain(self.anti_affinity.iter().map(|term| term.0)).chain(self.spread.iter().map(|spread| spread.selector))
    }

    /// Returns the selectors of affinity and spread: a pod that one of them matches may open a domain when it comes or goes.
    pub fn counted(&self) -> impl Iterator<Item = SelectorId> + '_ {
        self.affinity.iter().map(|affinity| affinity.selector).chain(self.spread.iter().map(|spread| spread.selector))
    }

    /// Returns the selectors of anti-affinity: the pod's own, and that of others against it.
    pub fn keeping_away(&self) -> impl Iterator<Item = SelectorId> + '_ {
        self.anti_affinity.iter().chain(&self.kept_away_by).map(|term| term.0)
    }

    /// Returns the topology keys of the domains in which pods of the class keep each other away.
    pub fn apart(&self) -> impl Iterator<Item = &Arc<str>> {
        self.anti_affinity.iter().filter(|term| self.kept_away_by.contains(term)).map(|term| &term.1)
    }

    /// Returns the topology keys of all terms by which other pods can keep pods of the class from a node.
    pub fn topology_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        let affinity = self.affinity.iter().flat_map(|affinity| &affinity.topology_keys);
        let away = self.anti_affinity.iter().chain(&self.kept_away_by).map(|term| &term.1);
        affinity.chain(away).chain(self.spread.iter().map(|spread| &spread.constraint.topology_key))
    }

    /// Returns whether no other pod can keep pods of the class from a node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.affinity.is_none()
            && self.anti_affinity.is_empty()
            && self.spread.is_empty()
            && self.host_ports.is_empty()
            && self.kept_away_by.is_empty()
            && self.volumes.is_none()
    }
}
