//! What is there to say of a PodGroup?
//!
//! A pure function of the state, in the words of no API; `scheduler::dialect` writes it as a status.

use crate::api::GroupFacts;

use super::cache::gang::{self, Count};
use super::cache::phase::phase;
use super::cache::{Group, Phase};
use super::explain::Refusal;

/// What there is to say of a PodGroup.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Its phase.
    pub phase: Phase,
    /// The members that run.
    pub running: u32,
    /// The members that succeeded, also those whose pods are gone.
    pub succeeded: u32,
    /// The members that are there and failed.
    pub failed: u32,
    /// How it stands.
    pub standing: Standing<'a>,
}

/// How a PodGroup stands.
#[derive(Clone, Debug)]
pub enum Standing<'a> {
    /// It waits, and this is why.
    Waits(&'a Refusal),
    /// Its minimum has nodes, or has succeeded. So many members must have nodes for that, and so many further ones wait where that can be
    /// explained.
    Satisfied {
        /// Its minMember, and 1 at least.
        minimum: u32,
        /// The further members that wait; 0 where nothing is known of why.
        further: usize,
    },
    /// Its pods have ended, and not all of them well.
    Ended,
    /// It has no pods that wait or run. A cycle says nothing of it. What it has said before is over with its last pod; one that has said nothing
    /// waits for its first pod, which may be created only after the admission.
    Idle {
        /// What it waits for, if it says that it waits.
        waits: Refusal,
    },
    /// It has just become placeable. What it said before was true until now.
    BecamePlaceable,
}

/// Returns what there is to say of the PodGroup; `refusal` is why it waits.
#[must_use]
pub fn report<'a>(group: &Group, facts: &GroupFacts, refusal: Option<&'a Refusal>) -> Report<'a> {
    let (phase, count) = (phase(group, facts), Count::of(group, facts));
    let succeeded = phase == Phase::Completed && group.counts.failed == 0 && count.missing() == 0;
    let standing = match refusal {
        _ if phase == Phase::Running || succeeded => {
            let held = usize::try_from(group.counts.held).unwrap_or(usize::MAX);
            let further = refusal.map_or(0, |_| group.waiting.len().saturating_add(held));
            Standing::Satisfied { minimum: gang::minimum(facts).max(1), further }
        }
        Some(refusal) => Standing::Waits(refusal),
        None if phase == Phase::Completed => Standing::Ended,
        None if group.is_idle() => {
            let (wanted, there) = (facts.min_member.max(1), count.succeeded.min(facts.min_member));
            Standing::Idle { waits: Refusal::NotEnoughTasks { wanted, there, gated: 0 } }
        }
        None => Standing::BecamePlaceable,
    };
    Report { phase, running: group.counts.running, succeeded: count.succeeded, failed: group.counts.failed, standing }
}
