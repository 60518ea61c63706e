//! When is a partially bound gang evicted?
//!
//! ```text
//!           some binds fail and the rest finds no nodes,                     for the whole timeout
//!           or all its binds are refused
//!  assumed ─────────────────────────────────────────────▶ partially bound ─────────────────────▶ bound members evicted
//!     ▲                                                       │
//!     ╰───────────────── the rest is bound ───────────────────╯
//! ```
//!
//! A partially bound gang is finished first:
//!
//! * What is bound keeps running.
//! * What the rest needs is reserved.
//! * Victims are preempted for it where the rules allow that.
//!
//! Where all that has not helped for a long time, the bound members are evicted, because they are of no use alone. Then the gang waits as
//! a whole.
//!
//! These gangs are never evicted:
//!
//! * A gang that had all its nodes once, whatever became of them. A failed member or a raised minMember ends nothing that runs.
//! * A gang that waits for members that do not exist yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;

use crate::api::{GroupFacts, GroupKey, Uid};
use crate::cycle::explain::Refusal;
use crate::cycle::gang::{is_satisfied, is_whole};
use crate::cycle::plan::{Eviction, EvictionCause, Victim};
use crate::cycle::requeue::Timer;
use crate::cycle::status::{is_through, was_scheduled};

use super::{Group, PreemptionOutcome, State, World};

/// A PodGroup that is younger by this than a member with a node was recreated. Its status tells nothing of its earlier life.
const RECREATED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// What is known of a gang that may be partially bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PartialGang {
    /// Its last full placement, with all members bound; none where it had none since the last time without any member on a node.
    last_placement: Option<LastPlacement>,
    /// Whether a cycle saw it without any node, so that this process has seen all its placements.
    began: bool,
    /// Since when the rest finds no nodes.
    since: Option<Duration>,
    /// Since when binds of the rest are refused, and nothing else is in the way.
    refused: Option<Duration>,
    /// Whether the last cycle that tried the gang did not set `since` again.
    tried: bool,
    /// The number of the last eviction of its members.
    eviction: Option<u64>,
}

impl PartialGang {
    /// A cycle found why the PodGroup waits, which may be another reason than a refused bind.
    pub(super) const fn waits_for(&mut self, refusal: &Refusal) {
        if !matches!(refusal, Refusal::Backoff { .. } | Refusal::Unanswered { .. }) {
            self.refused = None;
        }
    }
}

/// A full placement of a gang.
#[derive(Clone, Debug, PartialEq)]
struct LastPlacement {
    /// The facts of the PodGroup at that time.
    facts: Arc<GroupFacts>,
    /// The number of members that had a node or had succeeded.
    places: u32,
}

impl World {
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

    /// Something about the PodGroup or its members changed.
    pub(super) fn notice_placement(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.through = group.facts.as_ref().is_some_and(|facts| is_through(group, facts));
        let whole = group.facts.as_ref().is_some_and(|facts| is_satisfied(group, facts));
        let places = places(group);
        if whole {
            group.partial.since = None;
            if group.counts.binding == 0 && group.counts.placed > 0 {
                group.partial.last_placement = group.facts.clone().map(|facts| LastPlacement { facts, places });
            }
            let number = group.partial.eviction.take();
            number.into_iter().for_each(|number| self.nominations.withdraw(number));
        } else if let Some(had) = &mut group.partial.last_placement {
            // A member that replaces a lost one belongs to the missing part.
            had.places = had.places.min(places);
        }
    }

    /// The eviction of a member was refused.
    pub(super) fn partial_eviction_refused(&mut self, key: &GroupKey, number: u64) {
        if let Some(group) = self.groups.get_mut(key).filter(|group| group.partial.eviction == Some(number)) {
            group.partial.eviction = None;
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
        let keeps_placement = |had: &LastPlacement| is_satisfied(group, &had.facts) && places(group) <= had.places;
        is_whole(self, group, facts) && !group.partial.last_placement.as_ref().is_some_and(keeps_placement)
    }

    /// Returns the eviction of the bound members, where the gang was partially bound for the whole `timeout` (0: for ever) and no pod is
    /// preempted for it. It is called when the rest found no nodes in this cycle, or when the PodGroup backs off after a refused bind.
    pub(in crate::cycle) fn evict_partial_gang(&mut self, key: &GroupKey, now: Duration, timeout: Duration) -> Option<Eviction> {
        let group = self.groups.get(key)?;
        let facts = Arc::clone(group.facts.as_ref()?);
        // It waits for victims that are on their way out, or may be soon.
        let has_hope = self.preemption_outcome(key).is_some_and(PreemptionOutcome::has_hope);
        if timeout.is_zero() || has_hope || self.nominated(key).is_some() || !self.is_partial_gang(group, &facts) {
            return None;
        }
        let backs_off = group.retry.at.is_some_and(|at| at > now);
        // Where binds are refused there are nodes, and no preemption is attempted.
        let was_attempted = backs_off || self.has_current_outcome(key);
        let was = if backs_off { group.partial.refused } else { group.partial.since };
        let since = was.unwrap_or(now);
        let is_due = since.saturating_add(timeout) <= now && was_attempted;
        // Where an eviction is refused, it is tried again after the same time.
        let begins = if is_due { now } else { since };
        let partial = &mut self.groups.get_mut(key)?.partial;
        partial.tried = false;
        *if backs_off { &mut partial.refused } else { &mut partial.since } = Some(begins);
        if was != Some(begins) {
            let timer = if backs_off { Timer::PartialGangRefused } else { Timer::PartialGang };
            self.requeue.timers.set(key, timer, begins.saturating_add(timeout));
        }
        if !is_due {
            return None;
        }
        let members = self.groups.get(key)?.members.iter().filter(|uid| self.is_placed(uid));
        let victims: Vec<Victim> = members.filter_map(|uid| self.victim(uid)).collect();
        // All members or none: a smaller part of the gang is of no more use.
        if !self.budgets_allow(&victims.iter().map(|victim| victim.uid.clone()).collect::<BTreeSet<_>>()) {
            return None;
        }
        let nomination = self.nominations.next_number();
        self.groups.get_mut(key)?.partial.eviction = Some(nomination);
        let (group_uid, queue) = (facts.uid.clone(), Arc::from(facts.queue.as_str()));
        Some(Eviction { nomination, group: key.clone(), group_uid, queue, cause: EvictionCause::Release, victims })
    }

    fn is_placed(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|member| member.state() == State::Placed)
    }

    fn is_partial_gang(&self, group: &Group, facts: &GroupFacts) -> bool {
        // Its status is of this life only where this process has not seen it begin.
        let had_placement =
            group.partial.last_placement.is_some() || (!group.partial.began && (was_scheduled(facts) || self.was_recreated(group, facts)));
        let counts = group.counts;
        !had_placement && counts.placed > 0 && counts.binding == 0 && !is_satisfied(group, facts) && is_whole(self, group, facts)
    }

    fn was_recreated(&self, group: &Group, facts: &GroupFacts) -> bool {
        let mut placed = group.members.iter().filter(|uid| self.is_placed(uid)).filter_map(|uid| self.pods.get(uid));
        placed.any(|member| facts.created.duration_since(member.facts.created) > RECREATED_AFTER)
    }
}

fn places(group: &Group) -> u32 {
    group.counts.placed.saturating_add(group.counts.succeeded)
}
