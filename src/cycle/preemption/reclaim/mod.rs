//! Finds the victims to preempt so that a PodGroup is placed (R1 to R5).
//!
//! ```text
//!  Preemptor ──▶ Stage: a trial without terminating pods and without its own reservation ──▶ placed? then wait for the terminating pods
//!                  │ no
//!                  ▼
//!                candidates ──▶ units ────▶ search ───▶ spare ───▶ Preemption
//!                pods that      evicted     an enough   victims
//!                the rules      together    set, in     that are
//!                allow          (R4)        R5's order  not needed
//!                (R1 R2 R2c)                 (R3 R3b)     (R5)
//!                                              ╰── Victims: may this pod be one, too? (R2 R2b R4, budgets)
//! ```
//!
//! The rules alone decide which pods may be victims. Whether they are enough is found by placing the gang with the usual placer: with
//! taints, labels, anti-affinity and all else. The stage undoes all of it when it is dropped.
//!
//! **What one call costs.** Candidates are read from the pod list of each queue, so pods of queues within their shares are not read. Of the
//! candidates the first [`MOST_UNITS`] in R5's order are considered. The gang is placed about 2·log₂ of that many times, and once for each
//! unit that may turn out not to be needed. All tries of one call place at most [`MOST_PLACINGS`] members and check at most [`MOST_STEPS`]
//! times whether a queue is still over its share. Where that ends a search, [`NotPreempted::NotEnough`] reports it. Where it ends the
//! sparing, an unneeded pod may be evicted; every other rule holds all the same (R5b).

mod alternatives;
mod candidates;
mod cheapest_node;
#[cfg(test)]
mod differential;
mod eviction_units;
mod fewest;
mod search;
mod stage;
#[cfg(test)]
mod tests;
mod unneeded;
mod victims;

use std::sync::Arc;

use crate::accounting::Waiting;
use crate::api::{GroupKey, PodFacts, Uid};
use crate::cycle::placement::Strategy as Policy;
use crate::resources::Resources;

use crate::cycle::cache::Beside;
use crate::cycle::explain::NotPreempted;
use crate::cycle::state::SchedulingState;

use candidates::Scope;
use search::Search;
use stage::Stage;

/// The most units that are considered, the cheapest first.
const MOST_UNITS: usize = 10_000;
/// The most members that are placed in all tries of a call together.
const MOST_PLACINGS: u32 = 20_000;
/// The most checks in a call of whether the queue of a pod is still over its share.
const MOST_STEPS: u32 = 2_000_000;

/// The PodGroup that preempts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preemptor<'a> {
    pub(super) group: &'a GroupKey,
    pub(super) queue: &'a str,
    /// The members that must be placed, all together, in the order in which they are placed.
    pub(super) members: &'a [Uid],
    /// What its PodGroup asks for beyond these members (A1): its queues must take it, too.
    pub(super) beyond: &'a Resources,
    /// The priority of the PodGroup.
    pub(super) priority: i32,
    /// Whether these members may be preempted later.
    pub(super) preemptable: bool,
}

/// The evictions that each budget still allows (R6).
#[derive(Clone, Copy)]
pub(super) struct Budgets<'a> {
    /// The allowed evictions of each budget.
    pub(super) left: &'a [u32],
    /// Returns the budgets of a pod, as indices into `left`.
    pub(super) of: &'a dyn Fn(&PodFacts) -> Vec<usize>,
}

/// The victims, and the nodes of the members without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Preemption {
    /// The pods to evict, the cheapest first, a gang together; none if terminating pods are enough.
    pub victims: Vec<Uid>,
    /// Each member of the request, with its node.
    pub places: Vec<(Uid, Arc<str>)>,
}

/// Finds the victims so that all these members are placed, and their nodes. There are none if terminating pods are enough. The state is as
/// before, whatever the result.
///
/// # Errors
///
/// The reason why no pod is preempted.
pub(super) fn find(
    state: &mut SchedulingState,
    policy: Policy,
    preemptor: &Preemptor<'_>,
    budgets: Budgets<'_>,
) -> Result<Preemption, NotPreempted> {
    let SchedulingState { cache, holds, eviction_backoff, .. } = state;
    cache.share_out();
    let leaving = holds.terminating_or_victims(cache);
    let reserved = cache.groups().get(preemptor.group).is_some_and(|group| group.admission.reservation.is_some());
    let (placer, Beside { pods, groups, priority_classes, sharing }) = cache.placer(preemptor.group, preemptor.queue, policy);
    let mut stage = Stage::new(placer, pods);
    leaving.iter().for_each(|uid| stage.set_aside(uid));
    let refusal = match stage.place_all(preemptor) {
        Ok(places) => return Ok(Preemption { victims: Vec::new(), places }),
        Err(refusal) => refusal,
    };
    let of_members = stage.request_of(preemptor);
    let mut asked = of_members.clone();
    asked.add(preemptor.beyond);
    if let Some(fault) = stage.unhelpable(preemptor.queue) {
        return Err(NotPreempted::Unplaceable(Box::new(fault)));
    }
    // The shares are those before the preemption, without the terminating pods. The reservation of the PodGroup counts as demand.
    let settled;
    let shares = match &sharing.shares {
        Some(shares) if leaving.is_empty() && !reserved => shares,
        _ => {
            let mut demands = sharing.demands.clone();
            if let Some(group) = groups.get(preemptor.group).filter(|_| reserved) {
                group.demand_without_reservation(&mut demands);
            }
            settled = stage.accounting().quota().shares(Waiting::Of(&demands));
            &settled
        }
    };
    let scope = Scope {
        accounting: stage.accounting(),
        pods,
        groups,
        classes: priority_classes,
        shares,
        eviction_backoff,
        preemptor,
        asked: &asked,
        of_members: &of_members,
        budgets,
    };
    let found = scope.candidates();
    let binding = found.excluded.binding > 0;
    let answer = if found.candidates.is_empty() {
        Err(NotPreempted::NoCandidates(Box::new(found.excluded)))
    } else {
        let units = eviction_units::units(&found.candidates, &found.gangs);
        Search::new(&mut stage, preemptor, budgets.left, found, units).run(refusal)
    };
    answer.map_err(|why| if binding { NotPreempted::Soon(Box::new(why)) } else { why })
}
