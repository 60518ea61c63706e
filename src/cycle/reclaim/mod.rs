//! Who must go so that this group is placed? (R1 to R8, R11)
//!
//! ```text
//!  Claim ──▶ Stage: a trial without what is terminating and without its own reservation ──▶ placed? then wait for those
//!              │ no
//!              ▼
//!            candidates ──▶ units ──▶ search ──▶ spare ──▶ Taking
//!            who may go     what      enough of  nobody
//!            (R1 R2 R8)     goes      them, in   who is
//!                           together  R7's order not needed
//!                           (R6)      (R4 R5)    (R7)
//!                                       ╰── Owed: may this one go, too? (R2 R3 R6, budgets)
//! ```
//!
//! Who goes is decided by the rules alone, and whether that is enough by really placing the gang with the same placer as always: nodes' taints,
//! labels, anti-affinity and all. Nothing stays of it: the stage puts everything back when it is dropped.
//!
//! **What one call costs.** Whom the rules name as candidates is read from the list of each queue's pods, so pods of queues that owe nothing are
//! not looked at. Of the candidates the first [`MOST_UNITS`] in R7's order are considered. The gang is placed for a try about 2·log₂ of that many
//! times, and once for each unit that may turn out not to be needed; all tries of one call place no more than [`MOST_PLACINGS`] members and weigh no
//! more than [`MOST_STEPS`] times whether somebody's queue still owes. Where that ends a search it says so ([`NotTaken::NotEnough`]); where it ends
//! the sparing, somebody may go who was not needed, and every other rule holds all the same (R12).

mod answer;
mod by_node;
mod candidates;
#[cfg(test)]
mod duel;
mod others;
mod owed;
mod rules;
mod search;
mod spare;
mod stage;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::Waiting;
use crate::api::{GroupKey, PodFacts, Uid};
use crate::resources::Resources;
use crate::runtime::flags::Placement as Policy;

use super::placement::placer::State;
use super::world::World;

pub use answer::{Kept, Limit, NotTaken, OverShare, Taking};

use candidates::Scope;
use rules::{Rule, holds};
use search::Search;
use stage::Stage;

/// So many units are considered, the cheapest.
const MOST_UNITS: usize = 10_000;
/// So many members are placed in all tries of a call together.
const MOST_PLACINGS: u32 = 20_000;
/// So often it is weighed whether the queue of one pod still owes.
const MOST_STEPS: u32 = 2_000_000;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(in crate::cycle) struct Claim<'a> {
    /// The group.
    pub(in crate::cycle) group: &'a GroupKey,
    /// The name under which it has reserved, if it has (A4).
    pub(in crate::cycle) reservation: &'a str,
    /// Its queue.
    pub(in crate::cycle) queue: &'a str,
    /// The members that must find places, all together, in the order in which they are placed.
    pub(in crate::cycle) members: &'a [Uid],
    /// The group's priority.
    pub(in crate::cycle) priority: i32,
    /// Whether others may take these places again.
    pub(in crate::cycle) preemptable: bool,
    /// Nodes to take only where no other fits.
    pub(in crate::cycle) last: &'a BTreeSet<Arc<str>>,
}

/// How many may still go at once, by budget (R9).
#[derive(Clone, Copy)]
pub(in crate::cycle) struct Budgets<'a> {
    /// What each budget still lets go.
    pub(in crate::cycle) left: &'a [u32],
    /// Which budgets a pod is under, by their place in `left`.
    pub(in crate::cycle) of: &'a dyn Fn(&PodFacts) -> Vec<usize>,
}

/// Who must go so that all these members are placed, and where they are placed then. Nobody, if what is terminating is enough. The world is as
/// before, whatever comes of it.
///
/// # Errors
///
/// Why nobody is taken.
pub(in crate::cycle) fn find(world: &mut World, policy: Policy, claim: &Claim<'_>, budgets: Budgets<'_>) -> Result<Taking, NotTaken> {
    world.share_out();
    let leaving = world.terminating_or_victims();
    let barred = world.barred_groups(claim.queue);
    let World { books, nodes, anti_affinity, classes, finder, pods, groups, priority_classes, demands, shares, eviction_backoff, .. } =
        world;
    let mut stage = Stage::new(State { books, nodes, anti_affinity, classes, finder, barred }, pods, policy, claim.last);
    let reserved = stage.books().quota().reservation_of(claim.reservation).is_some();
    if holds(Rule::Gone) {
        leaving.iter().for_each(|uid| stage.set_aside(uid));
    }
    if holds(Rule::A4) && reserved {
        stage.unreserve(claim.reservation, claim.queue);
    }
    let refusal = match stage.place_all(claim) {
        Ok(places) => return Ok(Taking { victims: Vec::new(), places }),
        Err(refusal) => refusal,
    };
    let mut asked = Resources::new();
    for member in claim.members.iter().filter_map(|uid| pods.get(uid)) {
        asked.add(&member.facts.request);
    }
    if let Some(fault) = stage.unhelpable(claim.queue) {
        return Err(NotTaken::Unplaceable(Box::new(fault)));
    }
    // Shares are those before the taking, of what is left when the rest is gone; what it has reserved it wants, then.
    let settled;
    let shares = match shares {
        Some(shares) if leaving.is_empty() && !reserved => &*shares,
        _ => {
            let mut demands = demands.clone();
            if let Some(group) = groups.get(claim.group).filter(|_| reserved && holds(Rule::A4)) {
                group.demand_without_reservation(&mut demands);
            }
            settled = stage.books().quota().shares(Waiting::Of(&demands));
            &settled
        }
    };
    let scope =
        Scope { books: stage.books(), pods, groups, classes: priority_classes, shares, eviction_backoff, claim, asked: &asked, budgets };
    let found = scope.candidates();
    let binding = found.kept.binding > 0;
    let answer = if found.candidates.is_empty() {
        Err(NotTaken::Nobody(Box::new(found.kept)))
    } else {
        let units = units::units(&found.candidates, &found.gangs);
        Search::new(&mut stage, claim, budgets.left, found, units).run(refusal)
    };
    answer.map_err(|why| if binding { NotTaken::Soon(Box::new(why)) } else { why })
}
