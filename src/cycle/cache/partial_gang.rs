//! Detects partially bound gangs, and remembers the placements of each gang.
//!
//! A gang that had all its nodes once, and asks for more since, is partially bound only from when one of the additional members has a node
//! (A5). A raised minMember ends nothing that runs.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupFacts, GroupKey};
use crate::cycle::explain::Refusal;

use super::gang::{Count, is_satisfied, is_whole};
use super::phase::has_ended;
use super::{Cache, Change, Group};

/// What is remembered of a gang that may be partially bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cycle) struct PartialGang {
    /// Its last full placement, with all members bound; none where it had none since the last time without any member on a node.
    last_placement: Option<LastPlacement>,
    /// Whether a cycle saw it without any node, so that this process has seen all its placements.
    pub(in crate::cycle) began: bool,
    /// Since when the unbound members find no nodes.
    pub(in crate::cycle) since: Option<Duration>,
    /// Since when binds of the unbound members are refused, and no other reason keeps them unbound.
    pub(in crate::cycle) refused: Option<Duration>,
    /// Whether the last cycle that tried the gang did not set `since` again.
    pub(in crate::cycle) tried: bool,
    /// The number of the last eviction of its members.
    pub(in crate::cycle) eviction: Option<u64>,
}

impl PartialGang {
    /// Whether it had all its nodes since the last time without any member on a node.
    pub(in crate::cycle) const fn had_placement(&self) -> bool {
        self.last_placement.is_some()
    }

    /// A cycle found why the PodGroup waits, which may be another reason than a refused bind.
    const fn waits_for(&mut self, refusal: &Refusal) {
        if !matches!(refusal, Refusal::Backoff { .. } | Refusal::Volumes { .. } | Refusal::Unanswered { .. }) {
            self.refused = None;
        }
    }
}

/// A full placement of a gang.
#[derive(Clone, Debug, PartialEq)]
struct LastPlacement {
    /// The facts of the PodGroup at that time.
    facts: Arc<GroupFacts>,
    /// The number of members that had a node or had succeeded, and have been there ever since; 0 from when a further one was there.
    places: u32,
}

impl Cache {
    /// Records why the PodGroup waits, as a cycle found; none where it does not wait.
    pub(in crate::cycle) fn refuse_group(&mut self, key: &GroupKey, refusal: Option<Arc<Refusal>>) {
        let Some(group) = self.groups.get_mut(key) else { return };
        refusal.iter().for_each(|refusal| group.partial.waits_for(refusal));
        group.refusal = refusal;
    }

    /// A cycle is about to try the PodGroup.
    pub(in crate::cycle) fn notice_attempt(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if group.counts.placed == 0 {
            group.partial = PartialGang { began: true, ..PartialGang::default() };
        } else if std::mem::replace(&mut group.partial.tried, true) {
            // The last try found another reason.
            group.partial.since = None;
        }
    }

    /// The PodGroup or its members changed: remembers its placement.
    pub(in crate::cycle) fn notice_placement(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.ended = group.facts.as_ref().is_some_and(|facts| has_ended(group, facts));
        let whole = group.facts.as_ref().is_some_and(|facts| is_satisfied(group, facts));
        let places = group.facts.as_ref().map_or(0, |facts| places(group, facts));
        if whole {
            group.partial.since = None;
            group.had_its_places |= group.counts.binding == 0 && places > 0;
            if group.counts.binding == 0 && group.counts.placed > 0 {
                group.partial.last_placement = group.facts.clone().map(|facts| LastPlacement { facts, places });
            }
            if let Some(eviction) = group.partial.eviction.take() {
                self.changed(Change::Complete(eviction));
            }
        } else if let Some(had) = &mut group.partial.last_placement {
            // A member that replaces a lost one belongs to the missing part. With one of these it is partially bound, and stays so.
            had.places = if places > had.places { 0 } else { places };
        }
    }

    /// Whether a part of the gang is bound and all other members that it needs exist. What is bound is of no use before the gang is
    /// finished.
    ///
    /// A gang that has all nodes of its last full placement and requests more since, of which none is placed, is not partially bound. It
    /// waits in line like any other. (A new process does not know the last placement, and finishes the gang.)
    pub(in crate::cycle) fn is_partially_bound(&self, key: &GroupKey) -> bool {
        let Some(group) = self.groups.get(key).filter(|group| group.counts.placed > 0) else { return false };
        let Some(facts) = &group.facts else { return false };
        let keeps_placement = |had: &LastPlacement| is_satisfied(group, &had.facts) && places(group, facts) <= had.places;
        is_whole(self, group, facts) && !group.partial.last_placement.as_ref().is_some_and(keeps_placement)
    }
}

fn places(group: &Group, facts: &GroupFacts) -> u32 {
    let count = Count::of(group, facts);
    count.placed.saturating_add(count.succeeded)
}
