//! Which members of a gang are alike, so that one may go wherever another one goes?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cycle::explain::Reason;
use crate::cycle::placement::class::{Class, ClassId, Classes};
use crate::cycle::placement::node_set::NodeSet;
use crate::cycle::placement::placer::{Attempt, Pod};
use crate::cycle::placement::topology::placed::PlacedPods;
use crate::cycle::placement::topology::selection::SelectorId;

/// Members that are alike: of one class, restricted to the same set of nodes, equally preemptable, and the same to the terms of every pod.
pub(super) struct Kind<'a> {
    pub(super) id: ClassId,
    pub(super) class: Arc<Class>,
    /// The set of nodes to which they are restricted; none where any node will do.
    pub(super) within: Option<&'a NodeSet>,
    pub(super) pods: Vec<Pod<'a>>,
    /// Whether every pod of the kind must be placed.
    pub(super) is_required: bool,
}

impl Kind<'_> {
    /// Returns the topology key of the domains in which the pods keep each other away; none where they do not.
    pub(super) fn apart(&self) -> Option<&Arc<str>> {
        self.class.terms.apart().next()
    }
}

/// What makes two members alike. The selectors are those that match the pod, which another member's terms may use.
type Key<'a> = (bool, (ClassId, Option<&'a Reason>), bool, Vec<SelectorId>);

/// Returns the kinds of the members, the required ones first; none where there are more than `most`.
pub(super) fn kinds<'a>(attempt: &Attempt<'a>, all: bool, classes: &Classes, placed: &PlacedPods, most: usize) -> Option<Vec<Kind<'a>>> {
    let first = usize::try_from(attempt.first).unwrap_or(usize::MAX);
    let mut kinds: BTreeMap<Key<'a>, Kind<'a>> = BTreeMap::new();
    for (at, pod) in attempt.pods.iter().enumerate() {
        let (id, set) = pod.kind()?;
        let is_required = all || at < first;
        let mut selectors = placed.interested(&pod.facts.uid);
        selectors.sort_unstable();
        let key = (!is_required, (id, set), pod.facts.preemptable, selectors);
        let class = classes.get(id)?;
        let kind =
            kinds.entry(key).or_insert_with(|| Kind { id, class: Arc::clone(class), within: pod.within, pods: Vec::new(), is_required });
        kind.pods.push(*pod);
        if kinds.len() > most {
            return None;
        }
    }
    Some(kinds.into_values().collect())
}
