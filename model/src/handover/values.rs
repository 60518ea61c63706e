//! The values of a state of the handover's model. They are small, so that millions of states fit into memory.
//!
//! resourceVersions and identities are labels from 1 (0 is none); [`super::canon`] assigns them again in every state.

use super::real::Packed;

/// The most pods of a world. A pod that a world does not have stays [`Life::Never`].
pub(crate) const PODS: usize = 3;
/// The processes that can lead.
pub(crate) const PROCS: usize = 2;
/// The kinds that a scheduler watches here: pods, nodes, queues.
pub(crate) const KINDS: usize = 3;
/// The position of the pods among the kinds.
pub(crate) const POD: usize = 0;

/// The life of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Life {
    /// The pod was not created yet.
    #[default]
    Never,
    /// The pod has no node.
    Waits,
    /// The pod is bound to the node.
    Bound,
    /// The pod is bound, and is being deleted. It uses its room.
    Leaving,
    /// The pod was deleted.
    Gone,
}

impl Life {
    /// Returns whether the pod uses room on its node and in its queue.
    pub(crate) const fn uses(self) -> bool {
        matches!(self, Self::Bound | Self::Leaving)
    }

    /// Returns whether the pod exists.
    pub(crate) const fn exists(self) -> bool {
        matches!(self, Self::Waits | Self::Bound | Self::Leaving)
    }
}

/// A pod as the API server has it. Every pod requests 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pod {
    pub(crate) life: Life,
    /// Its UID: how many pods of its name there were before it.
    pub(crate) uid: u8,
    /// Its resourceVersion.
    pub(crate) at: u8,
    /// The identity in its condition `LeaderChanged`.
    pub(crate) fenced_by: u8,
}

/// A request that changes a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Req {
    Bind { uid: u8, at: u8 },
    Evict { uid: u8 },
    Fence { uid: u8, by: u8 },
}

/// A request with a client that does not wait for it any more. It is applied at some time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Late {
    pub(crate) by: u8,
    pub(crate) pod: u8,
    pub(crate) req: Req,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Back {
    /// Done. For a fence: the pod has no node.
    Done,
    /// For a fence: the pod has a node.
    Landed,
    Conflict,
    NotFound,
    /// Refused for ever: a policy, a permission.
    Refused,
    /// Refused for now, and not done: flow control, a webhook that is down.
    Busy,
    /// No answer: done or not.
    Unknown,
}

/// The answer to a read of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    Waits { at: u8 },
    Bound,
    Gone,
}

/// Where a binding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It is to be sent, for the first time or again.
    Ready,
    /// It was sent; the answer once it is there.
    Sent(Option<Back>),
    /// It was answered by a 409: the pod is to be read.
    ToRead,
    /// The pod is read. `last`: when the read began, no request of this binding could be applied any more.
    Reading { last: bool, conflict: bool, back: Option<Place> },
    /// It is bound, and the watch does not show it yet.
    Bound,
}

/// A binding of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) uid: u8,
    /// The resourceVersion that is sent.
    pub(crate) at: u8,
    /// Whether it was sent before, and whether one request has an unknown outcome.
    pub(crate) sent: bool,
    pub(crate) open: bool,
    pub(crate) stage: Stage,
}

/// An eviction or a fence of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    /// It is to be sent, for the first time or again.
    Again(u8),
    /// It was sent, for the pod with this UID; the answer once it is there.
    Sent(u8, Option<Back>),
    /// It was done, and the watch does not show it yet.
    Done(u8),
}

/// The requests of a scheduler for a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Work {
    pub(crate) bind: Option<Attempt>,
    pub(crate) evict: Option<Call>,
    pub(crate) fence: Option<Call>,
}

/// Whether a process leads, by its own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Term {
    #[default]
    Waits,
    Leads,
    /// Its clock has passed the renew deadline, because it stood still or could not renew. It ends once it runs.
    Over,
}

/// A process. The default is a dead one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Proc {
    /// The identity of this start of the process; 0: it is dead.
    pub(crate) id: u8,
    /// Whether it has got SIGTERM.
    pub(crate) stopping: bool,
    pub(crate) term: Term,
    /// The position of its watches.
    pub(crate) at: [u8; KINDS],
    /// For each kind that is to be listed: the position of its history when the process won the lease.
    pub(crate) since: [Option<u8>; KINDS],
    pub(crate) takeover: Packed,
    pub(crate) work: [Work; PODS],
}

/// The Lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lease {
    pub(crate) exists: bool,
    /// Its holder, also the last one of a Lease that was deleted; 0: none.
    pub(crate) holder: u8,
    /// Whether it has the annotation `podgroup.dev/drained`.
    pub(crate) drained: bool,
}

/// How many actions of each kind may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Left {
    /// A leader gets SIGTERM.
    pub(crate) stops: u8,
    /// A process gets SIGKILL.
    pub(crate) kills: u8,
    /// A leader stands still (SIGSTOP, a suspended machine) or cannot renew its lease until its own clock has passed the deadline.
    pub(crate) freezes: u8,
    /// A leader whose clock has passed the deadline learns that its last renewal was carried out, and leads again.
    pub(crate) renewals: u8,
    /// The client gives up on a request before it is applied.
    pub(crate) timeouts: u8,
    /// An answer is lost.
    pub(crate) losses: u8,
    /// A binding is refused for ever.
    pub(crate) refusals: u8,
    /// A binding is refused for now.
    pub(crate) busy: u8,
    /// A fence fails for as long as a request can live.
    pub(crate) unfenced: u8,
    /// Another program changes a waiting pod.
    pub(crate) touches: u8,
    /// A person deletes a pod.
    pub(crate) deletes: u8,
    /// A watch lists again by itself: the list began before the lease was won.
    pub(crate) relists: u8,
    /// A person deletes the Lease, or empties that of a process that is dead or over.
    pub(crate) clears: u8,
}

/// A promise that a request broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Broken {
    /// An eviction hit a pod that no leader has chosen.
    Evicted,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) pods: [Pod; PODS],
    /// The history of the pods that watches can still show. The last entry is the current state.
    pub(crate) seen: Vec<[Pod; PODS]>,
    pub(crate) lease: Lease,
    pub(crate) procs: [Proc; PROCS],
    pub(crate) late: Vec<Late>,
    pub(crate) left: Left,
    /// How many pods may still be created in the place of deleted ones.
    pub(crate) replacements: u8,
    /// The last resourceVersion and the last identity that were assigned.
    pub(crate) last_at: u8,
    pub(crate) last_id: u8,
    pub(crate) broken: Option<Broken>,
}
