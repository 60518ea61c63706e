//! Which members of a gang are alike, so that one may go wherever another one goes?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cycle::explain::Reason;
use crate::cycle::placement::class::{Class, ClassId, Classes};
use crate::cycle::placement::node_set::NodeSet;
use crate::cycle::placement::parts::Parts;
use crate::cycle::placement::placer::{Attempt, Pod};
use crate::cycle::placement::topology::placed::PlacedPods;
use crate::cycle::placement::topology::selection::SelectorId;

/// Members that are alike: of one part and one class, restricted to the same set of nodes, equally preemptable, and the same to the terms of
/// every pod.
pub(super) struct Kind<'a> {
    pub(super) id: ClassId,
    pub(super) class: Arc<Class>,
    /// The set of nodes to which they are restricted; none where any node will do.
    pub(super) within: Option<&'a NodeSet>,
    pub(super) pods: Vec<Pod<'a>>,
    /// The part of all of them; none where they belong to none.
    pub(super) part: Option<usize>,
    /// How many of them must be placed, whichever others are.
    pub(super) least: usize,
}

impl Kind<'_> {
    /// Returns the topology key of the domains in which the pods keep each other away; none where they do not.
    pub(super) fn apart(&self) -> Option<&Arc<str>> {
        self.class.terms.apart().next()
    }
}

/// What makes two members alike. The selectors are those that match the pod, which another member's terms may use.
type Key<'a> = (Option<usize>, (ClassId, Option<&'a Reason>), bool, Vec<SelectorId>);

/// Returns the kinds of the members; none where there are more than `most`.
pub(super) fn kinds<'a>(attempt: &Attempt<'a>, classes: &Classes, placed: &PlacedPods, most: usize) -> Option<Vec<Kind<'a>>> {
    let mut kinds: BTreeMap<Key<'a>, Kind<'a>> = BTreeMap::new();
    for pod in attempt.pods {
        let (id, set) = pod.kind()?;
        let part = pod.task;
        let mut selectors = placed.interested(&pod.facts.uid);
        selectors.sort_unstable();
        let key = (part, (id, set), pod.facts.preemptable, selectors);
        let class = classes.get(id)?;
        let kind =
            kinds.entry(key).or_insert_with(|| Kind { id, class: Arc::clone(class), within: pod.within, pods: Vec::new(), part, least: 0 });
        kind.pods.push(*pod);
        if kinds.len() > most {
            return None;
        }
    }
    let mut kinds: Vec<Kind<'a>> = kinds.into_values().collect();
    let parts = Parts::new(attempt.needed, attempt.parts);
    let others = |but: usize, is: &dyn Fn(&Kind<'_>) -> bool| -> usize {
        let others = kinds.iter().enumerate().filter(|(at, kind)| *at != but && is(kind));
        others.map(|(_, kind)| kind.pods.len()).sum()
    };
    let least =
        |(at, kind): (usize, &Kind<'_>)| owed(&parts, kind.part, others(at, &|_| true), others(at, &|other| other.part == kind.part));
    let least: Vec<usize> = kinds.iter().enumerate().map(least).collect();
    kinds.iter_mut().zip(least).for_each(|(kind, least)| kind.least = least);
    Some(kinds)
}

/// Returns how many pods of a kind must be placed where so many others may be, in all and of the part of the kind.
pub(super) fn owed(parts: &Parts, part: Option<usize>, others: usize, others_of_part: usize) -> usize {
    let missing = |missing: u32, others: usize| usize::try_from(missing).unwrap_or(usize::MAX).saturating_sub(others);
    missing(parts.missing(), others).max(missing(parts.missing_of(part), others_of_part))
}
