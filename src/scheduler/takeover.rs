//! May a new leader decide yet, and may it give the lease to the next one at once? Pure.
//!
//! A binding that an earlier leader has sent must not take effect in room that a later leader has given away. So a new leader reads the
//! cluster again, and after an *unclean* handover it also fences the pods: it changes each pod that has no node, and each earlier binding
//! carries an older resourceVersion and is refused.
//!
//! ```text
//!             the lease      the lists that began       clean
//!             is won         after that are complete ───────────────────────────────────────▶ complete
//!  standby ──────────▶ listing ───────────┤                                                      ▲
//!                                         ╰──────▶ fencing: each pod without a node is changed ──╯
//!                                        unclean   all are answered, and each pod that turned out
//!                                                  to be bound is shown by the watch
//! ```
//!
//! The scheduler's state asks this machine before each decision, and so does the model (`model/src/handover`).

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Uid;
pub use crate::runtime::leader::{Handover, Release};

use super::kinds::Kind;

/// The answer to the write that fences a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FenceAnswer {
    /// The pod has changed and has no node: no earlier binding of it takes effect any more.
    Fenced,
    /// The pod has a node: an earlier binding took effect. The watch will show it.
    Landed,
    /// The pod was deleted or replaced.
    Gone,
    /// The write failed for so long that no API server carries out an earlier binding any more.
    GivenUp,
}

/// The next thing that a takeover waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The lease.
    Standby,
    /// The lists.
    Listing,
    /// A call of [`Takeover::fence`].
    Fence,
    /// The answers to the fences, and the watch of the pods that turned out to be bound.
    Fencing,
    /// Nothing: the leader decides.
    Complete,
}

/// How far the takeover of this process is. A process takes over once: one that loses its lease ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Takeover {
    /// The newest complete list of each kind, by the number of the request that it began after.
    listed: BTreeMap<Kind, u64>,
    /// How the lease came, and the number of the request for lists that was made after that.
    won: Option<(Handover, u64)>,
    /// The fences that are under way; none before they began.
    fences: Option<Fences>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Fences {
    unanswered: BTreeSet<Uid>,
    /// The pods that turned out to be bound, until the watch shows it.
    landed: BTreeSet<Uid>,
}

impl Takeover {
    /// Returns the takeover of a process that waits for the lease, without any list.
    #[must_use]
    pub fn standby() -> Self {
        Self::default()
    }

    /// Records that this process has won the lease. Lists count from now on if they began after the request with the number `generation`,
    /// which was made after the lease was won. A second call changes nothing.
    pub fn won(&mut self, handover: Handover, generation: u64) {
        self.won.get_or_insert((handover, generation));
    }

    /// Records a complete list that began after the request with the number `generation`; 0 is the start of the process.
    pub fn listed(&mut self, kind: Kind, generation: u64) {
        let newest = self.listed.entry(kind).or_default();
        *newest = (*newest).max(generation);
    }

    /// Returns what the takeover waits for.
    #[must_use]
    pub fn stage(&self) -> Stage {
        let Some((handover, generation)) = self.won else { return Stage::Standby };
        // All kinds: whether a pod fits follows from its claims and the drivers of its node as well.
        if !Kind::all().all(|kind| self.listed.get(&kind).is_some_and(|listed| *listed >= generation)) {
            return Stage::Listing;
        }
        match (handover, &self.fences) {
            (Handover::Clean, _) => Stage::Complete,
            (Handover::Unclean, None) => Stage::Fence,
            (Handover::Unclean, Some(fences)) if fences.unanswered.is_empty() && fences.landed.is_empty() => Stage::Complete,
            (Handover::Unclean, Some(_)) => Stage::Fencing,
        }
    }

    /// Begins to fence these pods, which are those without a node in the fresh lists, and returns them. Empty where it is not the time for it
    /// ([`Stage::Fence`]). A pod that comes later was made after the lease was won, so no earlier leader knew it.
    pub fn fence(&mut self, unbound: impl IntoIterator<Item = Uid>) -> Vec<Uid> {
        if self.stage() != Stage::Fence {
            return Vec::new();
        }
        let unanswered: BTreeSet<Uid> = unbound.into_iter().collect();
        let pods = unanswered.iter().cloned().collect();
        self.fences = Some(Fences { unanswered, landed: BTreeSet::new() });
        pods
    }

    /// Records the answer to the fence of this pod.
    pub fn answered(&mut self, uid: &Uid, answer: FenceAnswer) {
        let Some(fences) = &mut self.fences else { return };
        if fences.unanswered.remove(uid) && answer == FenceAnswer::Landed {
            fences.landed.insert(uid.clone());
        }
    }

    /// Records that the watch shows this pod with a node, or that the pod is gone.
    pub fn shown(&mut self, uid: &Uid) {
        if let Some(fences) = &mut self.fences {
            fences.landed.remove(uid);
        }
    }

    /// Records that the cluster went back, and that the pods were listed since: the fences and what they have shown are lost, so they begin
    /// again. A takeover that is complete stays complete.
    pub fn went_back(&mut self) {
        if self.stage() == Stage::Fencing {
            self.fences = None;
        }
    }

    /// Returns whether this process may decide.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.stage() == Stage::Complete
    }

    /// Returns the number of fences without an answer, and of pods that turned out to be bound and that the watch has not shown.
    #[must_use]
    pub fn open(&self) -> (usize, usize) {
        self.fences.as_ref().map_or((0, 0), |fences| (fences.unanswered.len(), fences.landed.len()))
    }
}

/// Decides what a leader that ends does with its lease, from whether its own takeover was complete and how many of its bindings and
/// evictions have no known outcome.
///
/// Before its own takeover is complete, a leader has decided nothing, but may know nothing of what the leader before it has under way. So
/// it gives the lease up without the mark, and the next leader does what this one began.
#[must_use]
pub const fn may_release(takeover_complete: bool, unknown_outcomes: usize) -> Release {
    match (takeover_complete, unknown_outcomes) {
        (true, 0) => Release::Drained,
        (false, 0) => Release::Unmarked,
        (true | false, _) => Release::Keep,
    }
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
