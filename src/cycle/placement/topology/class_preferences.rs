//! Which nodes do the pods of a scheduling class prefer, and where do other pods prefer them to be?

use std::sync::Arc;

use crate::api::pod::NodeSelectorTerm;
use crate::api::pod_terms::PodTerms;

use super::class_terms::Spread;
use super::placed::{PlacedPods, TermId, WishId};
use super::selection::LabelSetId;

/// The preferences of a class, with the numbers of their selectors. They refuse no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassPreferences {
    /// Terms for nodes, each with its weight.
    pub node_affinity: Vec<(i32, NodeSelectorTerm)>,
    /// Pods that should be in the domain, each with its weight; it is negative for pods that should not be there.
    pub others: Vec<(i32, TermId)>,
    /// Spread constraints with `ScheduleAnyway`.
    pub spread: Vec<Spread>,
    /// The preferences of other pods about pods of the class, and their required affinity.
    pub wished_by: Vec<WishId>,
}

impl ClassPreferences {
    /// Joins the selectors of the preferences, for a pod with the label set; none where there is no preference. [`leave`](Self::leave) is
    /// the inverse.
    #[must_use]
    pub fn join(terms: &PodTerms, set: LabelSetId, placed: &mut PlacedPods) -> Option<Self> {
        let wished_by: Vec<WishId> = placed.wishes_for(set).collect();
        wished_by.iter().for_each(|wish| placed.hold_selector(wish.0));
        let mut all = Self { wished_by, ..Self::default() };
        if let Some(own) = &terms.preferences {
            all.node_affinity.clone_from(&own.node_affinity);
            for (weight, term) in &own.others {
                let selector = placed.join_selector(std::slice::from_ref(&term.pods), &terms.namespace);
                all.others.push((*weight, (selector, Arc::clone(&term.topology_key))));
            }
            for constraint in &own.spread {
                let selector = placed.join_selector(std::slice::from_ref(&constraint.pods), &terms.namespace);
                let matches_itself = placed.matches(selector, set);
                all.spread.push(Spread { constraint: constraint.clone(), selector, matches_itself });
            }
        }
        (all != Self::default()).then_some(all)
    }

    /// Leaves the selectors.
    pub fn leave(&self, placed: &mut PlacedPods) {
        self.wished_by.iter().for_each(|wish| placed.leave_selector(wish.0));
        self.others.iter().for_each(|(_, term)| placed.leave_selector(term.0));
        self.spread.iter().for_each(|spread| placed.leave_selector(spread.selector));
    }
}
