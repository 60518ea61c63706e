//! Decides when a partially bound gang is evicted.
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
//! * The resources for the unbound members are reserved.
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
use crate::cycle::cache::gang::{is_satisfied, is_whole};
use crate::cycle::cache::{Cache, Group, State};
use crate::cycle::plan::{Eviction, EvictionCause, Victim};
use crate::cycle::requeue::{PreemptionOutcome, Timer};
use crate::cycle::state::SchedulingState;

/// A PodGroup that is younger by this than a member with a node was recreated. Its status has nothing about its earlier life.
const RECREATED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Returns the eviction of the bound members, where the gang was partially bound for the whole `timeout` (0: for ever) and no pod is
/// preempted for it. It is called when the unbound members found no nodes in this cycle, or when the PodGroup backs off after a refused bind.
pub(in crate::cycle) fn evict_partial_gang(
    state: &mut SchedulingState,
    key: &GroupKey,
    now: Duration,
    timeout: Duration,
) -> Option<Eviction> {
    let group = state.cache.groups().get(key)?;
    let facts = Arc::clone(group.facts.as_ref()?);
    // It waits for victims that are on their way out, or may be soon.
    let has_hope = state.requeue.preemptions.outcome(key).is_some_and(PreemptionOutcome::has_hope);
    if timeout.is_zero() || has_hope || state.nominated(key).is_some() || !is_partial_gang(&state.cache, group, &facts) {
        return None;
    }
    let backs_off = group.retry.at.is_some_and(|at| at > now);
    // Where binds are refused there are nodes, and no preemption is attempted.
    let was_attempted = backs_off || state.requeue.preemptions.is_current(key);
    let was = if backs_off { group.partial.refused } else { group.partial.since };
    let since = was.unwrap_or(now);
    let is_due = since.saturating_add(timeout) <= now && was_attempted;
    // Where an eviction is refused, it is tried again after the same time.
    let begins = if is_due { now } else { since };
    let partial = &mut state.cache.group_mut(key)?.partial;
    partial.tried = false;
    *if backs_off { &mut partial.refused } else { &mut partial.since } = Some(begins);
    if was != Some(begins) {
        let timer = if backs_off { Timer::PartialGangRefused } else { Timer::PartialGang };
        state.requeue.timers.set(key, timer, begins.saturating_add(timeout));
    }
    if !is_due {
        return None;
    }
    let members = state.cache.groups().get(key)?.members.iter().filter(|uid| is_placed(&state.cache, uid));
    let victims: Vec<Victim> = members.filter_map(|uid| state.cache.victim(uid)).collect();
    // All members or none: a smaller part of the gang is of no more use.
    let uids: BTreeSet<_> = victims.iter().map(|victim| victim.uid.clone()).collect();
    if !state.cache.budgets_allow(&uids, state.holds.victims()) {
        return None;
    }
    let nomination = state.holds.next_number();
    state.cache.group_mut(key)?.partial.eviction = Some(nomination);
    let (group_uid, queue) = (facts.uid.clone(), Arc::from(facts.queue.as_str()));
    Some(Eviction { nomination, group: key.clone(), group_uid, queue, cause: EvictionCause::Release, victims })
}

fn is_placed(cache: &Cache, uid: &Uid) -> bool {
    cache.pods().get(uid).is_some_and(|member| member.state() == State::Placed)
}

fn is_partial_gang(cache: &Cache, group: &Group, facts: &GroupFacts) -> bool {
    // Its status is of this life only where this process has not seen it begin.
    let had_placement =
        group.partial.had_placement() || (!group.partial.began && (facts.was_scheduled() || was_recreated(cache, group, facts)));
    let counts = group.counts;
    !had_placement && counts.placed > 0 && counts.binding == 0 && !is_satisfied(group, facts) && is_whole(cache, group, facts)
}

fn was_recreated(cache: &Cache, group: &Group, facts: &GroupFacts) -> bool {
    let mut placed = group.members.iter().filter(|uid| is_placed(cache, uid)).filter_map(|uid| cache.pods().get(uid));
    placed.any(|member| facts.created.duration_since(member.facts.created) > RECREATED_AFTER)
}
