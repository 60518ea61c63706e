//! What is a state of the modelled world made of? Small values, so that millions of them fit into memory.
//!
//! UIDs and resourceVersions are labels from 1 (0 is none); [`crate::canon`] gives them out anew in every state. What stands here is the truth and
//! what caches show of it; what the code under test makes of it stands in [`crate::real`].

use crate::packed::Packed;

/// Owners of one world, each with a group of its own: a place that is not used stays `Never`.
pub(crate) const SLOTS: usize = 2;
/// Pods that there can be at one moment.
pub(crate) const PODS: usize = 4;
/// A pod of nobody: its owner was deleted and left it behind.
pub(crate) const NOBODY: u8 = 2;
/// What cannot be read any more as fields.
pub(crate) const UNREADABLE: u8 = 255;

/// Whether an owner is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Life {
    /// It has not been made yet.
    #[default]
    Never,
    /// It is there.
    Alive,
    /// It is being deleted, and what it had is being left behind.
    Orphaning,
    /// It was deleted.
    Gone,
}

/// An owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) life: Life,
    pub(crate) wants: u8,
    pub(crate) queue: u8,
}

impl Owner {
    /// What its group should say: the size of the gang in bit 0, the queue in bit 1.
    pub(crate) const fn fields(self) -> u8 {
        (if self.wants > 1 { 1 } else { 0 }) | (self.queue << 1)
    }

    /// What a watch shows: one that is being deleted is as good as gone.
    pub(crate) fn shown(self) -> Self {
        if self.life == Life::Alive { self } else { Self { life: Life::Gone, wants: 0, queue: 0 } }
    }
}

/// A pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pod {
    /// The owner that controls it, or [`NOBODY`].
    pub(crate) of: u8,
    /// Whether it is being deleted.
    pub(crate) ending: bool,
    /// Whose group it names: 0 none, else the owner's place and 1.
    pub(crate) stamp: u8,
}

/// All pods, in order: two that are alike are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pods(pub(crate) [Option<Pod>; PODS]);

impl Pods {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Pod> + '_ {
        self.0.iter().flatten().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// The places of pods that are not alike.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = (usize, Pod)> + '_ {
        (0..PODS).filter(|at| *at == 0 || self.0[*at] != self.0[*at - 1]).filter_map(|at| Some((at, self.0[at]?)))
    }

    pub(crate) fn add(&mut self, pod: Pod) {
        let free = self.0.iter_mut().find(|place| place.is_none()).expect("room for a pod");
        *free = Some(pod);
        self.sort();
    }

    pub(crate) fn sort(&mut self) {
        self.0.sort();
    }
}

/// The PodGroup, as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) uid: u8,
    pub(crate) at: u8,
    pub(crate) marked: bool,
    pub(crate) owned: bool,
    pub(crate) applied: u8,
    pub(crate) spec: u8,
}

impl Group {
    pub(crate) const fn seen(&self) -> Seen {
        Seen { uid: self.uid, at: self.at, retiring: self.marked, owned: self.owned, applied: self.applied }
    }
}

/// What `dialect::existing` reads in a PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) uid: u8,
    pub(crate) at: u8,
    pub(crate) retiring: bool,
    pub(crate) owned: bool,
    pub(crate) applied: u8,
}

/// A version: UID and resourceVersion.
pub(crate) type At = (u8, u8);

/// A step of the protocol, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Req {
    Read,
    Create(u8),
    Amend { on: At, from: u8, to: u8, adopt: bool },
    Mark(At),
    Unmark(At),
    Look(At),
    Delete(At),
}

/// What is true of a look, whatever anybody believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Looked {
    /// The group carried its mark when the look began, and has carried it ever since.
    pub(crate) under_mark: bool,
    /// There was a member when the list was read.
    pub(crate) member: bool,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sent {
    pub(crate) slot: u8,
    pub(crate) req: Req,
    /// Of a look: that it began, and how. Of a DELETE: the look that it rests on.
    pub(crate) looked: Option<Looked>,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Back {
    Object(Seen),
    Members(bool),
    Deleted,
    NotFound,
    Conflict,
    Unknown,
}

/// A request whose sender waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Flight {
    pub(crate) sent: Sent,
    /// What was believed when it was sent.
    pub(crate) known: Option<At>,
    /// None until it was applied.
    pub(crate) back: Option<Back>,
}

/// What a controller has of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Kept {
    pub(crate) memory: Packed,
    pub(crate) flight: Option<Flight>,
    /// The last look, as it was in truth.
    pub(crate) looked: Option<Looked>,
    /// For mutants: the object at which a look found nobody.
    pub(crate) early: u8,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ctrl {
    /// How far each watch has come: owners, pods, groups.
    pub(crate) at: [u8; 3],
    pub(crate) kept: [Kept; SLOTS],
    /// Writes of its that nobody waits for any more, and that may land yet.
    pub(crate) late: Vec<Sent>,
}

/// What may still happen to one owner and its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Left {
    /// Times the owner is scaled, or moved to another queue.
    pub(crate) scales: u8,
    /// Requests that nobody waits for any more before they land.
    pub(crate) timeouts: u8,
    /// Replies that are lost.
    pub(crate) losses: u8,
    /// Times a person deletes the group.
    pub(crate) deletes: u8,
    /// Times a person takes the owner off the group.
    pub(crate) strips: u8,
    /// Statuses that are written.
    pub(crate) statuses: u8,
    /// Times the owner is deleted.
    pub(crate) ends: u8,
    /// Times the owner is deleted and leaves behind what it had.
    pub(crate) orphans: u8,
    /// Times an owner is made under a new UID, after the other was orphan-deleted.
    pub(crate) recreates: u8,
}

/// A promise that was broken by a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Broken {
    S1,
    S2,
}

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) owners: [Owner; SLOTS],
    pub(crate) pods: Pods,
    pub(crate) groups: [Option<Group>; SLOTS],
    /// What kube-controller-manager has seen of each owner: how many it wants, none where it is gone.
    pub(crate) manager: [Option<u8>; SLOTS],
    /// What each watch can still show: the last is the truth.
    pub(crate) owners_seen: Vec<[Owner; SLOTS]>,
    pub(crate) pods_seen: Vec<Pods>,
    pub(crate) groups_seen: Vec<[Option<Seen>; SLOTS]>,
    pub(crate) ctrls: Vec<Ctrl>,
    pub(crate) left: [Left; SLOTS],
    pub(crate) crashes: u8,
    pub(crate) relists: u8,
    /// The last resourceVersion and the last UID that were given out.
    pub(crate) last_at: u8,
    pub(crate) last_uid: u8,
    pub(crate) broken: Option<Broken>,
}
