//! What is the next step for one group? The one decision of the controller, a function of values alone.
//!
//! It is asked again after every answer and every event until it says [`Step::Rest`]. Whoever meets a mark and a reason to live takes the mark
//! away, whoever set it; only the version that a look began on is ever deleted (S2).

use super::existing::{Applied, Existing, Ours, Version};
use super::intent::{Intent, Wish};
use super::memory::Memory;

/// What the caches show of a group's members: pods that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Members {
    /// None is there.
    #[default]
    None,
    /// All that are there are being deleted.
    Ending,
    /// At least one is there to stay.
    Living,
}

/// What is known of the one for whom the group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// It is not there, or is being deleted: nothing is made for it, since the garbage collector would take it away again, for ever.
    Gone,
    /// Only its pods can tell of it, and none that is there to stay does: it may live and make more, or be gone.
    Unseen,
    /// It is there, and its pods need no group of ours: another scheduler places them, as far as they are there, or somebody else names their group.
    Unserved,
    /// It is there and says what it wants.
    Wishes(&'a Wish),
}

/// All that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// What is known of the owner.
    pub owner: Owner<'a>,
    /// The members that the cache shows.
    pub members: Members,
    /// The group that the cache shows.
    pub cached: Option<&'a Existing>,
    /// What answers have taught.
    pub memory: &'a Memory,
}

/// The next step. Everything that it needs is in it: the shell carries it out and chooses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is to be done until something happens.
    Rest,
    /// Read the group again: what is known is old.
    Read,
    /// Make the group.
    Create(Intent),
    /// Write what differs from what was written last.
    Amend {
        /// The version that is amended, and no other: what is written is the difference to `from`. A status that was written meanwhile costs a read.
        on: Version,
        /// What was written last, where that is known.
        from: Option<Applied>,
        /// What is to be there.
        to: Intent,
        /// Whether the owner reference is written too, since it is not the owner's.
        adopt: bool,
    },
    /// Retire, first: mark this version.
    Mark(Version),
    /// Retire, second: list the members now that the mark is there.
    Look(Version),
    /// Retire, third: delete this version, which carries the mark and was looked at.
    Delete(Version),
    /// There is a reason to live: take the mark away.
    Unmark(Version),
}

impl Step {
    /// What the step is called in logs and metrics: one of a bounded set.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Read => "read",
            Self::Create(_) => "create",
            Self::Amend { .. } => "amend",
            Self::Mark(_) => "mark",
            Self::Look(_) => "look",
            Self::Delete(_) => "delete",
            Self::Unmark(_) => "unmark",
        }
    }
}

impl Step {
    /// What this step writes into the group; none where it writes no field.
    #[must_use]
    pub const fn intent(&self) -> Option<&Intent> {
        match self {
            Self::Create(intent) | Self::Amend { to: intent, .. } => Some(intent),
            Self::Rest | Self::Read | Self::Mark(_) | Self::Look(_) | Self::Delete(_) | Self::Unmark(_) => None,
        }
    }
}

/// The next step in this situation.
#[must_use]
pub fn decide(situation: &Situation<'_>) -> Step {
    if situation.memory.is_stale() {
        return Step::Read;
    }
    let wanted = match situation.owner {
        Owner::Wishes(wish) if wish.wants_pods || situation.members == Members::Living => Some(wish),
        Owner::Wishes(_) | Owner::Unserved | Owner::Unseen | Owner::Gone => None,
    };
    match (situation.memory.freshest(situation.cached), wanted) {
        (None, Some(wish)) => Step::Create(wish.intent.clone()),
        // Somebody else's group under a generated name is not adopted, and one that is ending must be gone before it can come back.
        (None, None) | (Some(Existing::Foreign(..)), _) => Step::Rest,
        (Some(Existing::Ours(ours)), _) if ours.ending => Step::Rest,
        (Some(Existing::Ours(ours)), wanted) if ours.retiring => retiring(situation, ours, wanted.is_some()),
        (Some(Existing::Ours(ours)), Some(wish)) => keep_true(ours, wish),
        (Some(Existing::Ours(ours)), None) => end(situation, ours),
    }
}

/// The group carries the mark: it ends after a look that found nobody, or the mark is taken away.
fn retiring(situation: &Situation<'_>, ours: &Ours, wanted: bool) -> Step {
    if wanted || situation.members != Members::None {
        return Step::Unmark(ours.version.clone());
    }
    match situation.memory.look() {
        Some(look) if look.at == ours.version && look.members => Step::Unmark(ours.version.clone()),
        Some(look) if look.at == ours.version => Step::Delete(ours.version.clone()),
        // No look, or one that began on another version: between the two the mark may have been away.
        _ => Step::Look(ours.version.clone()),
    }
}

/// The group is needed: its fields follow their sources while the owner wants pods. (A gang is not made smaller because its owner goes to 0.)
fn keep_true(ours: &Ours, wish: &Wish) -> Step {
    let adopt = ours.owner.as_ref() != Some(&wish.intent.owner.uid);
    let fields_are_right = ours.applied.as_ref() == Some(&wish.intent.fields);
    if !wish.wants_pods || (fields_are_right && !adopt) {
        return Step::Rest;
    }
    Step::Amend { on: ours.version.clone(), from: ours.applied.clone(), to: wish.intent.clone(), adopt }
}

/// The group is not needed: it is retired, unless somebody still uses it or the garbage collector will take it with its owner.
fn end(situation: &Situation<'_>, ours: &Ours) -> Step {
    let collected_with_owner = situation.owner == Owner::Gone && ours.owner.is_some();
    if situation.members != Members::None || situation.memory.waits_for_pods() || collected_with_owner {
        return Step::Rest;
    }
    Step::Mark(ours.version.clone())
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
