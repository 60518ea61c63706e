//! Which rule of the protocol is broken on purpose? In the model's layer round the real code, never in the code.

use crate::packed::PackedLatest;
use crate::real::{self, Decided, Event, View};
use crate::values::{Back, Flight, Kept, Req};

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mutant {
    /// None: the real thing.
    None,
    /// A DELETE without the UID, with the resourceVersion.
    DeleteWithoutUid,
    /// A DELETE with the UID, without the resourceVersion.
    DeleteWithoutVersion,
    /// A DELETE by name alone.
    DeleteByName,
    /// The mark is set on whatever version is there (the UID is kept).
    MarkWithoutVersion,
    /// The mark is taken off whatever version is there (the UID is kept).
    UnmarkWithoutVersion,
    /// The difference to what was written last is sent to whatever version is there (the UID is kept).
    AmendWithoutVersion,
    /// A group is deleted without ever being marked, and without a look.
    NoMark,
    /// A marked group is deleted without a look.
    NoLook,
    /// The look comes before the mark.
    LookBeforeMark,
    /// A look that found nobody counts for later versions of the object too.
    OldLook,
    /// The look asks only for pods that carry the label.
    LookAtLabels,
    /// The look is answered from the cache instead of a quorum.
    LookAtCache,
    /// What the look found is not heeded.
    DeleteDespiteMembers,
    /// A mark is never taken away.
    NeverUnmark,
    /// A list without the group teaches nothing.
    BelieveAnswers,
    /// The watch's deletions teach nothing.
    DeafToDeletions,
    /// Deletions and lists teach nothing while a request is under way.
    DeafWhileBusy,
    /// A request whose outcome is not known teaches nothing.
    UnknownIsNothing,
    /// A 409 teaches nothing.
    ConflictIsNothing,
    /// What a write answered teaches nothing: only reads and watches do.
    WritesTeachNothing,
    /// A look that saw a member is waited for without end.
    NeverDoubt,
    /// A look that saw a member is not waited for.
    NeverWait,
    /// The members that the cache shows are not heeded.
    BlindToMembers,
    /// A group is made for an owner that is gone.
    CreateForTheDead,
    /// The group's owner reference is not written again.
    NeverAdopt,
    /// What is gone is not made again until its owner changes: nothing is created but in the first place.
    NeverCreateAgain,
}

impl Mutant {
    /// The promise that rests on the rule that it leaves out; none where the rule costs or saves requests, or guards against what is not modelled
    /// (`docs/model.md` says which).
    pub(crate) const fn breaks(self) -> Option<&'static str> {
        Some(match self {
            Self::DeleteByName => "S1",
            Self::DeleteWithoutVersion
            | Self::NoMark
            | Self::NoLook
            | Self::LookBeforeMark
            | Self::OldLook
            | Self::LookAtLabels
            | Self::LookAtCache
            | Self::DeleteDespiteMembers => "S2",
            Self::BelieveAnswers | Self::DeafToDeletions | Self::DeafWhileBusy | Self::BlindToMembers | Self::NeverCreateAgain => "S3",
            Self::AmendWithoutVersion | Self::NeverUnmark | Self::NeverDoubt => "L1",
            Self::CreateForTheDead | Self::NeverAdopt => "L2",
            Self::None
            | Self::DeleteWithoutUid
            | Self::MarkWithoutVersion
            | Self::UnmarkWithoutVersion
            | Self::UnknownIsNothing
            | Self::ConflictIsNothing
            | Self::WritesTeachNothing
            | Self::NeverWait => return None,
        })
    }

    /// All of them, the real thing not.
    pub(crate) const ALL: [Self; 26] = [
        Self::DeleteWithoutUid,
        Self::DeleteWithoutVersion,
        Self::DeleteByName,
        Self::MarkWithoutVersion,
        Self::UnmarkWithoutVersion,
        Self::AmendWithoutVersion,
        Self::NoMark,
        Self::NoLook,
        Self::LookBeforeMark,
        Self::OldLook,
        Self::LookAtLabels,
        Self::LookAtCache,
        Self::DeleteDespiteMembers,
        Self::NeverUnmark,
        Self::BelieveAnswers,
        Self::DeafToDeletions,
        Self::DeafWhileBusy,
        Self::UnknownIsNothing,
        Self::ConflictIsNothing,
        Self::WritesTeachNothing,
        Self::NeverDoubt,
        Self::NeverWait,
        Self::BlindToMembers,
        Self::CreateForTheDead,
        Self::NeverAdopt,
        Self::NeverCreateAgain,
    ];
}

/// The next step, as the mutant takes it.
pub(crate) fn mutate(mutant: Mutant, kept: &Kept, decided: Decided, view: View) -> Decided {
    let (step, known) = decided;
    let step = match (mutant, step) {
        (Mutant::NoMark, Some(Req::Mark(on))) | (Mutant::NoLook, Some(Req::Look(on))) => Some(Req::Delete(on)),
        (Mutant::NeverUnmark, Some(Req::Unmark(_))) => None,
        (Mutant::LookBeforeMark, Some(Req::Mark(on))) if kept.early != on.0 => Some(Req::Look(on)),
        (Mutant::LookBeforeMark | Mutant::OldLook, Some(Req::Look(on))) if kept.early == on.0 => {
            let believed = real::learn(&kept.memory, view.slot, known, Req::Look(on), Back::Members(false));
            real::decide(view, &believed).0
        }
        (Mutant::NeverCreateAgain, Some(Req::Create(_))) if matches!(kept.memory.latest, PackedLatest::Gone(_)) => None,
        (_, step) => step,
    };
    (step, known)
}

/// What the answer teaches, as the mutant hears it.
pub(crate) fn learn(mutant: Mutant, kept: &mut Kept, view: View, flight: &Flight, back: Back) {
    let mut back = back;
    if let (Req::Look(on), Back::Members(members)) = (flight.sent.req, back) {
        kept.looked = flight.sent.looked;
        if matches!(mutant, Mutant::LookBeforeMark | Mutant::OldLook) {
            kept.early = if members { 0 } else { on.0 };
        }
        if mutant == Mutant::DeleteDespiteMembers {
            back = Back::Members(false);
        }
        if mutant == Mutant::LookBeforeMark && matches!(real::decide(view, &kept.memory).0, Some(Req::Mark(_))) {
            return;
        }
    }
    let deaf = match mutant {
        Mutant::UnknownIsNothing => back == Back::Unknown,
        Mutant::ConflictIsNothing => back == Back::Conflict,
        Mutant::WritesTeachNothing => flight.sent.req != Req::Read && matches!(back, Back::Object(_) | Back::Deleted),
        _ => false,
    };
    if !deaf {
        kept.memory = real::learn(&kept.memory, view.slot, flight.known, flight.sent.req, back);
    }
    if mutant == Mutant::NeverWait {
        kept.memory.beyond = false;
    }
}

/// Whether the mutant does not hear of it.
pub(crate) const fn is_deaf(mutant: Mutant, kept: &Kept, event: Event) -> bool {
    match (mutant, event) {
        (Mutant::BelieveAnswers, Event::Listed { there: false }) | (Mutant::DeafToDeletions, Event::Deleted(_)) => true,
        (Mutant::DeafWhileBusy, Event::Deleted(_) | Event::Listed { .. }) => kept.flight.is_some(),
        _ => false,
    }
}
