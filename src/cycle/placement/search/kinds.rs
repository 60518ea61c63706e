//! Which members of a gang are alike, so that one may go wherever another one goes?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cycle::placement::class::{Class, ClassId, Classes};
use crate::cycle::placement::placer::{Attempt, Pod};
use crate::cycle::placement::topology::placed::PlacedPods;
use crate::cycle::placement::topology::selection::SelectorId;

/// Members that are alike: of one class, equally preemptable, and the same to the terms of every pod.
pub(super) struct Kind<'a> {
    pub(super) id: ClassId,
    pub(super) class: Arc<Class>,
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
type Key = (bool, ClassId, bool, Vec<SelectorId>);

/// Returns the kinds of the members, the required ones first; none where there are more than `most`.
pub(super) fn kinds<'a>(attempt: &Attempt<'a>, all: bool, classes: &Classes, placed: &PlacedPods, most: usize) -> Option<Vec<Kind<'a>>> {
    let first = usize::try_from(attempt.first).unwrap_or(usize::MAX);
    let mut kinds: BTreeMap<Key, Kind<'a>> = BTreeMap::new();
    for (at, pod) in attempt.pods.iter().enumerate() {
        let id = pod.class?;
        let is_required = all || at < first;
        let mut selectors = placed.interested(&pod.facts.uid);
        selectors.sort_unstable();
        let key = (!is_required, id, pod.facts.preemptable, selectors);
        let class = classes.get(id)?;
        let kind = kinds.entry(key).or_insert_with(|| Kind { id, class: Arc::clone(class), pods: Vec::new(), is_required });
        kind.pods.push(*pod);
        if kinds.len() > most {
            return None;
        }
    }
    Some(kinds.into_values().collect())
}
