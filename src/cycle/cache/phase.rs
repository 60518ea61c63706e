//! The phase of a PodGroup.

use crate::api::GroupFacts;

use super::Group;
use super::gang::Count;
use super::subgroups::SubgroupNeeds;

/// The phase of a PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It waits for admission.
    Pending,
    /// Admitted: its pods are placed as soon as there is room.
    Inqueue,
    /// Its minimum has nodes.
    Running,
    /// Some members run, and the other members of its minimum find no nodes.
    Unknown,
    /// Its minimum succeeded and no member lives. A new member ends it.
    Completed,
}

/// Returns the phase of the PodGroup.
#[must_use]
pub fn phase(group: &Group, facts: &GroupFacts) -> Phase {
    if has_ended(group, facts) {
        return Phase::Completed;
    }
    let counts = group.counts;
    // A terminating pod has its node, and mostly runs, until it is gone.
    match is_enough(group, facts, certain_places(group).saturating_add(counts.leaving)) {
        true if counts.placed.saturating_add(counts.leaving) > 0 => Phase::Running,
        _ if counts.running > 0 && group.refusal.is_some() => Phase::Unknown,
        _ if group.is_admitted() || counts.placed > 0 => Phase::Inqueue,
        _ => Phase::Pending,
    }
}

/// The number of members that have not ended. Nominated members have no nodes yet: they wait.
pub(super) fn live(group: &Group) -> u32 {
    let counts = group.counts;
    let placed = counts.placed.saturating_add(counts.leaving);
    placed.saturating_add(counts.gated).saturating_add(counts.nominated).saturating_add(waiting(group))
}

/// Whether the PodGroup has ended: no member lives, and all that are there have ended, or as many succeeded as are to. Where it says how many
/// are to succeed, successes alone are no end before. It remains so when its pods are deleted, even before the status was written (a Job with
/// a TTL). A new member ends that: its owner tries again.
#[must_use]
pub fn has_ended(group: &Group, facts: &GroupFacts) -> bool {
    let counts = group.counts;
    let all =
        u32::try_from(group.members.len()).is_ok_and(|members| members > 0 && members == counts.succeeded.saturating_add(counts.failed));
    let more_to_come = facts.completions.is_some() && counts.failed == 0;
    live(group) == 0 && (all && !more_to_come || succeeded_enough(group, facts) || group.ended || facts.is_over())
}

/// Whether as many members succeeded as are to.
pub(super) fn succeeded_enough(group: &Group, facts: &GroupFacts) -> bool {
    Count::of(group, facts).succeeded >= facts.completions.unwrap_or(facts.min_member).max(1)
}

/// Returns the number of members with a node that counts for the status: binds with an unknown outcome, and members that are held for
/// volumes, are left out.
fn certain_places(group: &Group) -> u32 {
    group.counts.placed.saturating_sub(group.counts.open).saturating_sub(group.counts.held)
}

/// Whether the minimum is met, by anything, with so many members on nodes.
fn is_enough(group: &Group, facts: &GroupFacts, placed: u32) -> bool {
    let count = Count::with_placed(group, facts, placed);
    // Of which subgroup those are that are terminating does not matter: they count until they are gone.
    let has_subgroups = || group.counts.leaving > 0 || SubgroupNeeds::of(group, facts, std::iter::empty()).missing.is_empty();
    count.has_any() && count.missing() == 0 && has_subgroups()
}

/// Whether its minimum is satisfied only by members that are terminating: it still counts as Running, and its next wait is not reported
/// before they are gone.
#[must_use]
pub fn runs_out(group: &Group, facts: &GroupFacts) -> bool {
    phase(group, facts) == Phase::Running && !is_enough(group, facts, certain_places(group))
}

fn waiting(group: &Group) -> u32 {
    u32::try_from(group.waiting.len().saturating_add(group.blocked.len())).unwrap_or(u32::MAX)
}
