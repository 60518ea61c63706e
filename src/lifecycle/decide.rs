//! Decides the next step for one PodGroup. It is the only decision of the controller, and a pure function.
//!
//! The controller calls it after every answer and every event, until it returns [`Step::Wait`]. The mark is removed from every PodGroup
//! that is needed, even if another controller set it. Only the version that a list of members began on is ever deleted (S2).

use super::existing::{Applied, Existing, Ours, Version};
use super::intent::{DesiredGroup, Intent};
use super::memory::Memory;

/// The members of a PodGroup in the cache. Pods that are Succeeded or Failed are not members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Members {
    /// There is no member.
    #[default]
    None,
    /// Every member is being deleted.
    Terminating,
    /// At least one member is not being deleted.
    Active,
}

/// The owner of a PodGroup, as the cache shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The owner does not exist or is being deleted. No PodGroup is created for it, because the garbage collector would delete it again and again.
    Gone,
    /// Only pods show the owner, and none of them is active. The owner may exist and create more pods, or be gone.
    Unknown,
    /// The owner exists and needs no PodGroup of this controller: its pods have another scheduler, or its template names a PodGroup.
    Unserved,
    /// The owner exists and asks for this PodGroup.
    Served(&'a DesiredGroup),
}

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The owner.
    pub owner: Owner<'a>,
    /// The members in the cache.
    pub members: Members,
    /// The PodGroup in the cache; `None` if there is none.
    pub cached: Option<&'a Existing>,
    /// Whether pods of the owner exist that name another PodGroup than its template does, as a webhook may write it.
    pub pods_elsewhere: bool,
    /// What the controller has learned from answers.
    pub memory: &'a Memory,
}

/// The next step. It contains everything that its request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do nothing until the next event.
    Wait,
    /// Read the PodGroup, because what is known is out of date.
    Read,
    /// Create the PodGroup.
    Create(Intent),
    /// Write the fields that differ from those that were written last.
    Amend {
        /// The version to amend. The patch is a difference to `from`, so it is right only for this version. If a status was written meanwhile, the
        /// amendment fails and costs a read.
        on: Version,
        /// The fields that were written last; `None` if they are not known.
        from: Option<Applied>,
        /// The PodGroup that should exist.
        to: Intent,
        /// Whether the owner reference is written too, because it is missing or names another owner.
        adopt: bool,
    },
    /// Retirement, step 1: mark this version.
    Mark(Version),
    /// Retirement, step 2: list the members of this marked version.
    ListMembers(Version),
    /// Retirement, step 3: delete this version. It has the mark, and the list that began after it found no member.
    Delete(Version),
    /// Remove the mark, because the PodGroup is needed.
    Unmark(Version),
}

impl Step {
    /// Returns the name of the step in logs and metrics, from a bounded set.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Read => "read",
            Self::Create(_) => "create",
            Self::Amend { .. } => "amend",
            Self::Mark(_) => "mark",
            // The metric `podgroup_controller_steps_total` has used this word since its first release.
            Self::ListMembers(_) => "look",
            Self::Delete(_) => "delete",
            Self::Unmark(_) => "unmark",
        }
    }
}

impl Step {
    /// Returns the intent that this step writes into the PodGroup; `None` for a step that writes no field.
    #[must_use]
    pub const fn intent(&self) -> Option<&Intent> {
        match self {
            Self::Create(intent) | Self::Amend { to: intent, .. } => Some(intent),
            Self::Wait | Self::Read | Self::Mark(_) | Self::ListMembers(_) | Self::Delete(_) | Self::Unmark(_) => None,
        }
    }
}

/// Returns the next step in this situation.
#[must_use]
pub fn decide(situation: &Situation<'_>) -> Step {
    if situation.memory.is_stale() {
        return Step::Read;
    }
    // The pods name their PodGroup. A PodGroup without a member would reserve quota for nothing.
    let has_phantom = situation.pods_elsewhere && situation.members == Members::None;
    let wanted = match situation.owner {
        Owner::Served(_) if has_phantom => None,
        Owner::Served(desired) if desired.wants_pods || situation.members == Members::Active => Some(desired),
        Owner::Served(_) | Owner::Unserved | Owner::Unknown | Owner::Gone => None,
    };
    match (situation.memory.freshest(situation.cached), wanted) {
        (None, Some(desired)) => Step::Create(desired.intent.clone()),
        // A foreign PodGroup with a generated name is not adopted.
        (None, None) | (Some(Existing::Foreign(..)), _) => Step::Wait,
        // A PodGroup that is being deleted must be gone before a new one can be created.
        (Some(Existing::Ours(ours)), _) if ours.terminating => Step::Wait,
        (Some(Existing::Ours(ours)), wanted) if ours.retiring => continue_retirement(situation, ours, wanted.is_some()),
        (Some(Existing::Ours(ours)), Some(desired)) => follow_sources(ours, desired),
        (Some(Existing::Ours(ours)), None) => begin_retirement(situation, ours),
    }
}

/// Returns the next step for a marked PodGroup. It is deleted after a list that found no member; otherwise the mark is removed.
fn continue_retirement(situation: &Situation<'_>, ours: &Ours, wanted: bool) -> Step {
    if wanted || situation.members != Members::None {
        return Step::Unmark(ours.version.clone());
    }
    match situation.memory.listing() {
        Some(listing) if listing.at == ours.version && listing.members => Step::Unmark(ours.version.clone()),
        Some(listing) if listing.at == ours.version => Step::Delete(ours.version.clone()),
        // There is no list, or it began on another version. The mark may have been absent between the two versions.
        _ => Step::ListMembers(ours.version.clone()),
    }
}

/// Returns the next step for a PodGroup that is needed. While the owner wants pods, the fields follow their sources. An owner that is
/// scaled to 0 does not change the minMember of its last pods.
fn follow_sources(ours: &Ours, desired: &DesiredGroup) -> Step {
    let adopt = ours.owner.as_ref() != Some(&desired.intent.owner.uid);
    let fields_are_right = ours.applied.as_ref() == Some(&desired.intent.fields);
    if !desired.wants_pods || (fields_are_right && !adopt) {
        return Step::Wait;
    }
    Step::Amend { on: ours.version.clone(), from: ours.applied.clone(), to: desired.intent.clone(), adopt }
}

/// Returns the next step for a PodGroup that is not needed. It is marked, unless it still has a member or the garbage collector will delete
/// it with its owner.
fn begin_retirement(situation: &Situation<'_>, ours: &Ours) -> Step {
    let collected_with_owner = situation.owner == Owner::Gone && ours.owner.is_some();
    if situation.members != Members::None || situation.memory.waits_for_cache() || collected_with_owner {
        return Step::Wait;
    }
    Step::Mark(ours.version.clone())
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
