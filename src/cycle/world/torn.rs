//! When is a gang let go of which only a part could be bound?
//!
//! ```text
//!            some binds fail, and the rest finds no places          for the whole time
//!  assumed ──────────────────────────────────────────────▶ torn ──────────────────────▶ those that are bound are evicted
//!     ▲                                                     │
//!     ╰────────────── the rest finds places ────────────────╯
//! ```
//!
//! It is finished first: what is bound stays, what the rest needs is reserved, others leave for it where they owe that. Only where all that has not helped for a long time its
//! members give back what does nobody any good, and the gang waits as a whole. A gang that has had its places once is never torn, whatever became of them: a member that
//! failed, or a minMember that somebody raised, ends nothing that runs. Neither does one that waits for members of its own.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupFacts, GroupKey, Uid};
use crate::cycle::gang::{is_satisfied, is_whole};
use crate::cycle::plan::{Eviction, Taking, Victim};
use crate::cycle::status::was_scheduled;

use super::{Group, State, World};

/// What is known of a gang that may be torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tear {
    /// Whether it had its places, all of them bound, since none of its members had one.
    had_places: bool,
    /// Whether a cycle saw it without any place, so that all that it has now it got under our eyes.
    began: bool,
    /// Since when the rest finds no places.
    since: Option<Duration>,
}

impl World {
    /// The group is about to be decided on.
    pub(in crate::cycle) fn notice_beginning(&mut self, key: &GroupKey) {
        if let Some(group) = self.groups.get_mut(key).filter(|group| group.counts.placed == 0) {
            group.tear = Tear { began: true, ..Tear::default() };
        }
    }

    /// Something about the group changed.
    pub(super) fn notice_places(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let whole = group.facts.as_ref().is_some_and(|facts| is_satisfied(group, facts));
        if whole {
            group.tear.since = None;
            group.tear.had_places |= group.counts.binding == 0 && group.counts.placed > 0;
        }
    }

    /// The group found no places for the rest of its gang in this cycle, and nobody goes for it. Who goes of its own, where that has been so for `patience` (0: for ever).
    pub(in crate::cycle) fn let_go(&mut self, key: &GroupKey, now: Duration, patience: Duration) -> Option<Eviction> {
        let group = self.groups.get(key)?;
        let facts = Arc::clone(group.facts.as_ref()?);
        if patience.is_zero() || !is_torn(group, &facts) || self.nominated(key).is_some() {
            return None;
        }
        let since = group.tear.since.unwrap_or(now);
        let over = since.saturating_add(patience);
        let victims: Vec<Victim> = group.members.iter().filter(|uid| self.is_there(uid)).filter_map(|uid| self.victim(uid)).collect();
        // Where one of them is refused, they are asked for again after the same time.
        let begins = if over <= now { now } else { since };
        let known = self.groups.get_mut(key)?;
        if known.tear.since != Some(begins) {
            known.tear.since = Some(begins);
            self.alarms.insert((begins.saturating_add(patience), key.clone()));
        }
        if over > now {
            return None;
        }
        let nomination = self.nominations.next_number();
        let (group_uid, queue) = (facts.uid.clone(), Arc::from(facts.queue.as_str()));
        Some(Eviction { nomination, group: key.clone(), group_uid, queue, taking: Taking::Release, victims })
    }

    fn is_there(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|member| member.state() == State::Placed)
    }
}

fn is_torn(group: &Group, facts: &GroupFacts) -> bool {
    // What stands in its status is of this life only where we have not seen it begin.
    let had_places = group.tear.had_places || (!group.tear.began && was_scheduled(facts));
    let counts = group.counts;
    !had_places && counts.placed > 0 && counts.binding == 0 && !is_satisfied(group, facts) && is_whole(group, facts)
}
