//! The phase of a PodGroup.

use crate::api::GroupFacts;

use super::Group;

/// The phase of a PodGroup, as in Volcano.
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

impl Phase {
    /// The name of the phase in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Inqueue => "Inqueue",
            Self::Running => "Running",
            Self::Unknown => "Unknown",
            Self::Completed => "Completed",
        }
    }
}

/// Returns the phase of the PodGroup.
#[must_use]
pub fn phase(group: &Group, facts: &GroupFacts) -> Phase {
    if is_through(group, facts) || facts.is_over() && live(group) == 0 {
        return Phase::Completed;
    }
    let counts = group.counts;
    let enough = |has: u32| has > 0 && has >= facts.min_member;
    let has = has_places(group);
    // A terminating pod has its node, and mostly runs, until it is gone.
    match enough(has.saturating_add(counts.leaving)) {
        true if counts.placed.saturating_add(counts.leaving) > 0 => Phase::Running,
        _ if counts.running > 0 && group.refusal.is_some() => Phase::Unknown,
        _ if group.is_admitted() || counts.placed > 0 => Phase::Inqueue,
        _ => Phase::Pending,
    }
}

/// The number of members that have not ended. Nominated members have no nodes yet: they wait.
fn live(group: &Group) -> u32 {
    let counts = group.counts;
    let placed = counts.placed.saturating_add(counts.leaving);
    placed.saturating_add(counts.gated).saturating_add(counts.nominated).saturating_add(waiting(group))
}

/// Whether the PodGroup is finished: its minimum has succeeded and no member lives. It remains finished when the succeeded pods are
/// deleted, even before the status was written (a Job with a TTL). A new member ends that.
#[must_use]
pub fn is_through(group: &Group, facts: &GroupFacts) -> bool {
    live(group) == 0 && (group.through || group.counts.succeeded >= facts.min_member.max(1))
}

/// Returns the number of members that count for the gang: they have a node or have succeeded. Members with an unknown bind outcome, and
/// those that are held for volumes, are not counted.
fn has_places(group: &Group) -> u32 {
    let counts = group.counts;
    counts.placed.saturating_sub(counts.open).saturating_sub(counts.held).saturating_add(counts.succeeded)
}

/// Whether its minimum is satisfied only by members that are terminating: it still counts as Running, and its next wait is not reported
/// before they are gone.
#[must_use]
pub fn runs_out(group: &Group, facts: &GroupFacts) -> bool {
    phase(group, facts) == Phase::Running && has_places(group) < facts.min_member.max(1)
}

fn waiting(group: &Group) -> u32 {
    u32::try_from(group.waiting.len().saturating_add(group.blocked.len())).unwrap_or(u32::MAX)
}
