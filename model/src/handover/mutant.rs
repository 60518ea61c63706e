//! The mutants: each breaks one rule of the handover on purpose. The fault is in the model's layer around the real code, never in the real code.

/// A mutant, named by the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mutant {
    /// No rule is broken.
    None,
    /// A binding does not carry the pod's resourceVersion.
    NoVersion,
    /// The new leader does not fence after an unclean takeover.
    NoFence,
    /// The fences begin before the fresh lists and do not wait for them, with the pods of the old view.
    FenceBeforeList,
    /// The fence writes the same text for every leader, so that a second one changes nothing.
    FenceWithoutIdentity,
    /// The new leader decides before all fences are answered.
    DecideBeforeFences,
    /// The new leader decides on the view that it had as a standby.
    DecideOnOldView,
    /// A list that began before the lease was won counts as fresh.
    OldListCounts,
    /// A fresh list may be older than the lease that was won.
    ListBehind,
    /// A pod that a fence found bound is not waited for.
    LandedNotWaitedFor,
    /// A fence is given up while requests to its pod can still be applied.
    FenceGivenUpEarly,
    /// A fence is given up without a read of the pod.
    FenceGivenUpUnread,
    /// A leader that stops releases at once, with the annotation.
    ReleaseWithoutDrain,
    /// A request without an answer does not keep the lease.
    ReleaseWithUnknown,
    /// A leader releases with the annotation although its own takeover was not complete.
    ReleaseIncomplete,
    /// Every Lease without a holder counts as drained.
    EveryReleaseIsClean,
    /// A Lease that does not exist counts as drained.
    MissingLeaseIsClean,
    /// A Lease that ran out counts as drained.
    EveryTakeoverIsClean,
    /// After a 409 and a read, the binding is sent again without asking for the lease.
    ResendWithoutLease,
    /// A binding is given up while its requests can still be applied.
    AbandonEarly,
    /// A refusal ends a binding of which an earlier request has an unknown outcome.
    RefusalEndsOpen,
    /// A process that does not lead for a moment ends a binding of which a request has an unknown outcome.
    NotLeadingEndsOpen,
    /// A pod that is leaving uses no room any more.
    LeavingIsRoom,
    /// An eviction does not carry the UID.
    EvictByName,
    /// A leader does not ask its clock before it sends.
    NeverOver,
    /// What the watch has shown before the fence was answered is not asked for again.
    ShownBeforeOnly,
    /// A fence without an answer is not sent again.
    FenceOnce,
}

impl Mutant {
    /// Returns the promise that the mutant breaks.
    pub(crate) const fn breaks(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::EvictByName => Some("eviction"),
            Self::ShownBeforeOnly | Self::FenceOnce => Some("decided"),
            _ => Some("oversold"),
        }
    }

    /// Every mutant except [`Mutant::None`].
    pub(crate) const ALL: [Self; 26] = [
        Self::NoVersion,
        Self::NoFence,
        Self::FenceBeforeList,
        Self::FenceWithoutIdentity,
        Self::DecideBeforeFences,
        Self::DecideOnOldView,
        Self::OldListCounts,
        Self::ListBehind,
        Self::LandedNotWaitedFor,
        Self::FenceGivenUpEarly,
        Self::FenceGivenUpUnread,
        Self::ReleaseWithoutDrain,
        Self::ReleaseWithUnknown,
        Self::ReleaseIncomplete,
        Self::EveryReleaseIsClean,
        Self::MissingLeaseIsClean,
        Self::EveryTakeoverIsClean,
        Self::ResendWithoutLease,
        Self::AbandonEarly,
        Self::RefusalEndsOpen,
        Self::NotLeadingEndsOpen,
        Self::LeavingIsRoom,
        Self::EvictByName,
        Self::NeverOver,
        Self::ShownBeforeOnly,
        Self::FenceOnce,
    ];
}
