//! Which pods have a term about other pods, and on which nodes are they?

use std::collections::BTreeMap;

use crate::cycle::placement::nodes::NodeId;

use super::on_nodes::{Count, OnNodes};
use super::selection::SelectorId;

/// The terms of all pods, wherever they are: by selector, and by what else the term says.
#[derive(Debug)]
pub(super) struct Terms<T>(BTreeMap<SelectorId, BTreeMap<T, Term>>);

#[derive(Debug, Default)]
struct Term {
    /// How many pods have it.
    users: usize,
    /// How many of them are on each node.
    owners: OnNodes,
}

impl<T> Default for Terms<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Clone> Terms<T> {
    /// Adds a pod that has the term. Returns whether it is the first one.
    pub(super) fn join(&mut self, (selector, rest): &(SelectorId, T)) -> bool {
        let term = self.0.entry(*selector).or_default().entry(rest.clone()).or_default();
        term.users = term.users.saturating_add(1);
        term.users == 1
    }

    /// Removes a pod that has the term. Returns whether it was the last one; then the term is gone.
    pub(super) fn leave(&mut self, (selector, rest): &(SelectorId, T)) -> bool {
        let Some(terms) = self.0.get_mut(selector) else { return false };
        let Some(term) = terms.get_mut(rest) else { return false };
        term.users = term.users.saturating_sub(1);
        if term.users > 0 {
            return false;
        }
        terms.remove(rest);
        if terms.is_empty() {
            self.0.remove(selector);
        }
        true
    }

    /// Counts a pod that has the term on the node, or no more.
    pub(super) fn count(&mut self, (selector, rest): &(SelectorId, T), node: NodeId, count: Count, more: bool) {
        if let Some(term) = self.0.get_mut(selector).and_then(|terms| terms.get_mut(rest)) {
            term.owners.add(node, count, more);
        }
    }

    /// Returns the terms with this selector; in order.
    pub(super) fn of(&self, selector: SelectorId) -> impl Iterator<Item = (SelectorId, T)> + '_ {
        self.0.get(&selector).into_iter().flat_map(BTreeMap::keys).map(move |rest| (selector, rest.clone()))
    }

    /// Returns the nodes with pods that have the term, and how many.
    pub(super) fn owners(&self, (selector, rest): &(SelectorId, T)) -> impl Iterator<Item = (NodeId, Count)> + '_ {
        self.0.get(selector).and_then(|terms| terms.get(rest)).into_iter().flat_map(|term| term.owners.iter())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
