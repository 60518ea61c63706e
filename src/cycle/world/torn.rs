//! When is a gang let go of which only a part could be bound?
//!
//! ```text
//!            some binds fail, and the rest finds no places,         for the whole time
//!            or all its binds are refused
//!  assumed ──────────────────────────────────────────────▶ torn ──────────────────────▶ those that are bound are evicted
//!     ▲                                                     │
//!     ╰────────────── the rest is bound ────────────────────╯
//! ```
//!
//! It is finished first: what is bound stays, what the rest needs is reserved, others leave for it where they owe that. Only where all that has not helped for a long time its
//! members give back what does nobody any good, and the gang waits as a whole. A gang that has had its places once is never torn, whatever became of them: a member that
//! failed, or a minMember that somebody raised, ends nothing that runs. Neither does one that waits for members of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;

use crate::api::{GroupFacts, GroupKey, Uid};
use crate::cycle::explain::Refusal;
use crate::cycle::gang::{is_satisfied, is_whole};
use crate::cycle::plan::{Eviction, Taking, Victim};
use crate::cycle::requeue::Timer;
use crate::cycle::status::{is_through, was_scheduled};
use crate::rules::{Rule, holds};

use super::{Answer, Group, State, World};

/// A PodGroup that is so much younger than a member that has a place was not there when that got it, so it was made again, and its status tells nothing of what was before.
const MADE_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// What is known of a gang that may be torn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tear {
    /// How it had its places last, all of them bound, since none of its members had one; none where it never had.
    had: Option<Had>,
    /// Whether a cycle saw it without any place, so that all that it has now it got under our eyes.
    began: bool,
    /// Since when the rest finds no places.
    since: Option<Duration>,
    /// Since when binds of the rest are refused, and nothing else is in its way.
    refused: Option<Duration>,
    /// Whether a cycle has looked at it that has not found so again.
    looked: bool,
    /// The number under which its members were told to go last.
    told: Option<u64>,
}

impl Tear {
    /// A cycle found what is in the way of the group: something else, perhaps, than a bind that was refused.
    pub(super) const fn waits_for(&mut self, refusal: &Refusal) {
        if !matches!(refusal, Refusal::Backoff { .. } | Refusal::Unanswered { .. }) {
            self.refused = None;
        }
    }
}

/// A gang that had its places.
#[derive(Clone, Debug, PartialEq)]
struct Had {
    /// What it asked for then.
    facts: Arc<GroupFacts>,
    /// How many members had a place or had succeeded.
    places: u32,
}

impl World {
    /// The group is about to be decided on.
    pub(in crate::cycle) fn notice_look(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if group.counts.placed == 0 {
            group.tear = Tear { began: true, ..Tear::default() };
        } else if std::mem::replace(&mut group.tear.looked, true) {
            // It was something else that it waited for when it was looked at last.
            group.tear.since = None;
        }
    }

    /// Something about the group changed.
    pub(super) fn notice_places(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.through = group.facts.as_ref().is_some_and(|facts| is_through(group, facts));
        let whole = group.facts.as_ref().is_some_and(|facts| is_satisfied(group, facts));
        let places = places(group);
        if whole {
            group.tear.since = None;
            if group.counts.binding == 0 && group.counts.placed > 0 {
                group.tear.had = group.facts.clone().map(|facts| Had { facts, places });
            }
            let told = group.tear.told.take();
            told.into_iter().for_each(|number| self.nominations.withdraw(number));
        } else if let Some(had) = &mut group.tear.had {
            // Who comes in the place of one that went is one of the difference.
            had.places = had.places.min(places);
        }
    }

    /// Its members were told to go, and one of them stays.
    pub(super) fn release_refused(&mut self, key: &GroupKey, number: u64) {
        if let Some(group) = self.groups.get_mut(key).filter(|group| group.tear.told == Some(number)) {
            group.tear.told = None;
        }
    }

    /// Whether some of the group have places, and the others that its gang needs are there: what is bound does nobody any good before it is finished. One that has had its
    /// places, has them still, and asks for more since, of which none is placed, is no such gang: it lines up for those like any other. (Who starts anew does not know that,
    /// and finishes it.)
    pub(in crate::cycle) fn is_half_bound(&self, key: &GroupKey) -> bool {
        let Some(group) = self.groups.get(key).filter(|group| group.counts.placed > 0) else { return false };
        let Some(facts) = &group.facts else { return false };
        let has_as_before = |had: &Had| holds(Rule::A5More) && is_satisfied(group, &had.facts) && places(group) <= had.places;
        holds(Rule::A5Half) && is_whole(self, group, facts) && !group.tear.had.as_ref().is_some_and(has_as_before)
    }

    /// The group found no places for the rest of its gang in this cycle, or backs off as a bind was refused. Who goes of its own, where it has found none, or had all binds
    /// refused, for `patience` (0: for ever), and nobody goes for it.
    pub(in crate::cycle) fn let_go(&mut self, key: &GroupKey, now: Duration, patience: Duration) -> Option<Eviction> {
        let group = self.groups.get(key)?;
        let facts = Arc::clone(group.facts.as_ref()?);
        // Where others are leaving or may have to, it waits for those.
        let hopes = self.answer(key).is_some_and(Answer::has_hope);
        if patience.is_zero() || hopes || self.nominated(key).is_some() || !self.is_torn(group, &facts) {
            return None;
        }
        let backs_off = group.retry.at.is_some_and(|at| at > now);
        // Where binds are refused there are places, and nobody is asked for his.
        let was_asked = backs_off || self.was_answered(key);
        let was = if backs_off { group.tear.refused } else { group.tear.since };
        let since = was.unwrap_or(now);
        let goes = since.saturating_add(patience) <= now && was_asked;
        // Where one of them is refused, they are asked for again after the same time.
        let begins = if goes { now } else { since };
        let tear = &mut self.groups.get_mut(key)?.tear;
        tear.looked = false;
        *if backs_off { &mut tear.refused } else { &mut tear.since } = Some(begins);
        if was != Some(begins) {
            let timer = if backs_off { Timer::PartialGangRefused } else { Timer::PartialGang };
            self.requeue.timers.set(key, timer, begins.saturating_add(patience));
        }
        if !goes {
            return None;
        }
        let members = self.groups.get(key)?.members.iter().filter(|uid| self.is_there(uid));
        let victims: Vec<Victim> = members.filter_map(|uid| self.victim(uid)).collect();
        // All of them or nobody: what is left of a gang does no more good than before.
        if !self.budgets_allow(&victims.iter().map(|victim| victim.uid.clone()).collect::<BTreeSet<_>>()) {
            return None;
        }
        let nomination = self.nominations.next_number();
        self.groups.get_mut(key)?.tear.told = Some(nomination);
        let (group_uid, queue) = (facts.uid.clone(), Arc::from(facts.queue.as_str()));
        Some(Eviction { nomination, group: key.clone(), group_uid, queue, taking: Taking::Release, victims })
    }

    fn is_there(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|member| member.state() == State::Placed)
    }

    fn is_torn(&self, group: &Group, facts: &GroupFacts) -> bool {
        // What stands in its status is of this life only where we have not seen it begin.
        let had_places = group.tear.had.is_some() || (!group.tear.began && (was_scheduled(facts) || self.was_made_again(group, facts)));
        let counts = group.counts;
        !had_places && counts.placed > 0 && counts.binding == 0 && !is_satisfied(group, facts) && is_whole(self, group, facts)
    }

    fn was_made_again(&self, group: &Group, facts: &GroupFacts) -> bool {
        let mut placed = group.members.iter().filter(|uid| self.is_there(uid)).filter_map(|uid| self.pods.get(uid));
        placed.any(|member| facts.created.duration_since(member.facts.created) > MADE_AGAIN)
    }
}

fn places(group: &Group) -> u32 {
    group.counts.placed.saturating_add(group.counts.succeeded)
}
