//! The mutants: each breaks one rule of the protocol on purpose. The fault is in the model's layer around the real code, never in the real code.

use crate::packed::PackedLatest;
use crate::real::{self, Decided, Event, View};
use crate::values::{Back, Flight, GroupState, Req};

/// A mutant, named by the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mutant {
    /// No rule is broken.
    None,
    /// A DELETE without the UID, with the resourceVersion.
    DeleteWithoutUid,
    /// A DELETE with the UID, without the resourceVersion.
    DeleteWithoutVersion,
    /// A DELETE by name alone.
    DeleteByName,
    /// The mark is set on any version (the precondition on the UID stays).
    MarkWithoutVersion,
    /// The mark is removed from any version (the precondition on the UID stays).
    UnmarkWithoutVersion,
    /// An amendment is applied to any version (the precondition on the UID stays).
    AmendWithoutVersion,
    /// A PodGroup is deleted without a mark and without a list of members.
    NoMark,
    /// A marked PodGroup is deleted without a list of members.
    NoList,
    /// The members are listed before the mark is set.
    ListBeforeMark,
    /// A list without members is used for later versions of the object too.
    OldList,
    /// The list contains only pods with the label of the PodGroup.
    ListByLabel,
    /// The list contains only pods that the selector of the owner matches.
    ListBySelector,
    /// The list is read from the cache instead of a quorum.
    ListFromCache,
    /// A member that the list found is ignored.
    DeleteDespiteMembers,
    /// A mark is never removed.
    NeverUnmark,
    /// A list of PodGroups without the PodGroup is ignored.
    IgnoreLists,
    /// Deletions that the watch shows are ignored.
    IgnoreDeletions,
    /// Deletions and lists are ignored while a request is under way.
    IgnoreWatchWhileBusy,
    /// A request with an unknown result is ignored.
    IgnoreUnknown,
    /// A 409 is ignored.
    IgnoreConflict,
    /// The answers to writes are ignored. Only reads and watches count.
    IgnoreWriteAnswers,
    /// The controller waits forever for the cache to show a listed member.
    NeverStopWaiting,
    /// The controller does not wait for the cache to show a listed member.
    NeverWait,
    /// The members in the cache are ignored.
    IgnoreMembers,
    /// What the pods of the owner name is ignored.
    IgnorePodsElsewhere,
    /// A PodGroup is created for a deleted owner.
    CreateForDeletedOwner,
    /// A missing owner reference is not written again.
    NeverAdopt,
    /// A deleted PodGroup is not created again.
    NeverCreateAgain,
    /// The gang of a set counts only the parts that are there.
    CountPartsThatAreThere,
}

impl Mutant {
    /// Returns the promise that the mutant breaks. `None` if the rule only saves requests, or protects against a fault that is not modelled
    /// (`docs/design/model.md` says which).
    pub(crate) const fn breaks(self) -> Option<&'static str> {
        Some(match self {
            Self::DeleteByName => "S1",
            Self::DeleteWithoutVersion
            | Self::NoMark
            | Self::NoList
            | Self::ListBeforeMark
            | Self::OldList
            | Self::ListByLabel
            | Self::ListBySelector
            | Self::ListFromCache
            | Self::DeleteDespiteMembers => "S2",
            Self::IgnoreLists | Self::IgnoreDeletions | Self::IgnoreWatchWhileBusy | Self::IgnoreMembers | Self::NeverCreateAgain => "S3",
            Self::AmendWithoutVersion | Self::NeverUnmark | Self::NeverStopWaiting | Self::IgnorePodsElsewhere => "L1",
            Self::CreateForDeletedOwner | Self::NeverAdopt => "L2",
            Self::CountPartsThatAreThere => "W",
            Self::None
            | Self::DeleteWithoutUid
            | Self::MarkWithoutVersion
            | Self::UnmarkWithoutVersion
            | Self::IgnoreUnknown
            | Self::IgnoreConflict
            | Self::IgnoreWriteAnswers
            | Self::NeverWait => return None,
        })
    }

    /// Every mutant except [`Mutant::None`].
    pub(crate) const ALL: [Self; 29] = [
        Self::DeleteWithoutUid,
        Self::DeleteWithoutVersion,
        Self::DeleteByName,
        Self::MarkWithoutVersion,
        Self::UnmarkWithoutVersion,
        Self::AmendWithoutVersion,
        Self::NoMark,
        Self::NoList,
        Self::ListBeforeMark,
        Self::OldList,
        Self::ListByLabel,
        Self::ListBySelector,
        Self::ListFromCache,
        Self::DeleteDespiteMembers,
        Self::NeverUnmark,
        Self::IgnoreLists,
        Self::IgnoreDeletions,
        Self::IgnoreWatchWhileBusy,
        Self::IgnoreUnknown,
        Self::IgnoreConflict,
        Self::IgnoreWriteAnswers,
        Self::NeverStopWaiting,
        Self::NeverWait,
        Self::IgnoreMembers,
        Self::IgnorePodsElsewhere,
        Self::CreateForDeletedOwner,
        Self::NeverAdopt,
        Self::NeverCreateAgain,
        Self::CountPartsThatAreThere,
    ];
}

/// Returns the next step of the mutant.
pub(crate) fn mutate(mutant: Mutant, local: &GroupState, decided: Decided, view: View) -> Decided {
    let (step, known) = decided;
    let step = match (mutant, step) {
        (Mutant::NoMark, Some(Req::Mark(on))) | (Mutant::NoList, Some(Req::ListMembers(on))) => Some(Req::Delete(on)),
        (Mutant::NeverUnmark, Some(Req::Unmark(_))) => None,
        (Mutant::ListBeforeMark, Some(Req::Mark(on))) if local.early != on.0 => Some(Req::ListMembers(on)),
        (Mutant::ListBeforeMark | Mutant::OldList, Some(Req::ListMembers(on))) if local.early == on.0 => {
            let believed = real::learn(&local.memory, view.slot, known, Req::ListMembers(on), Back::Members(false));
            real::decide(view, &believed).0
        }
        (Mutant::NeverCreateAgain, Some(Req::Create(_))) if matches!(local.memory.latest, PackedLatest::Gone(_)) => None,
        (_, step) => step,
    };
    (step, known)
}

/// Updates the memory with an answer, as the mutant does.
pub(crate) fn learn(mutant: Mutant, local: &mut GroupState, view: View, flight: &Flight, back: Back) {
    let mut back = back;
    if let (Req::ListMembers(on), Back::Members(members)) = (flight.sent.req, back) {
        local.listing = flight.sent.listing;
        if matches!(mutant, Mutant::ListBeforeMark | Mutant::OldList) {
            local.early = if members { 0 } else { on.0 };
        }
        if mutant == Mutant::DeleteDespiteMembers {
            back = Back::Members(false);
        }
        if mutant == Mutant::ListBeforeMark && matches!(real::decide(view, &local.memory).0, Some(Req::Mark(_))) {
            return;
        }
    }
    let ignored = match mutant {
        Mutant::IgnoreUnknown => back == Back::Unknown,
        Mutant::IgnoreConflict => back == Back::Conflict,
        Mutant::IgnoreWriteAnswers => flight.sent.req != Req::Read && matches!(back, Back::Object(_) | Back::Deleted),
        _ => false,
    };
    if !ignored {
        local.memory = real::learn(&local.memory, view.slot, flight.known, flight.sent.req, back);
    }
    if mutant == Mutant::NeverWait {
        local.memory.unseen_member = false;
    }
}

/// Returns whether the mutant ignores this event.
pub(crate) const fn ignores(mutant: Mutant, local: &GroupState, event: Event) -> bool {
    match (mutant, event) {
        (Mutant::IgnoreLists, Event::Relisted { present: false }) | (Mutant::IgnoreDeletions, Event::Deleted(_)) => true,
        (Mutant::IgnoreWatchWhileBusy, Event::Deleted(_) | Event::Relisted { .. }) => local.flight.is_some(),
        _ => false,
    }
}
