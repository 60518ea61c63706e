//! What is a state of the modelled world made of? Small values, so that millions of them fit into memory.
//!
//! UIDs and resourceVersions are labels from 1 (0 is none); [`super::canon`] gives them out anew in every state. What stands here is the truth and
//! what caches show of it; what the code under test makes of it stands in [`super::real`].

use crate::lifecycle::memory::packed::Packed;

/// Owners of one world, each with a group of its own: a place that is not used stays `Never`.
pub(super) const SLOTS: usize = 2;
/// Pods that there can be at one moment.
pub(super) const PODS: usize = 4;
/// A pod of nobody: its owner was deleted and left it behind.
pub(super) const NOBODY: u8 = 2;
/// What cannot be read any more as fields.
pub(in crate::lifecycle) const UNREADABLE: u8 = 255;

/// Whether an owner is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Life {
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
pub(super) struct Owner {
    pub(super) life: Life,
    pub(super) wants: u8,
    pub(super) queue: u8,
}

impl Owner {
    /// What its group should say: the size of the gang in bit 0, the queue in bit 1.
    pub(super) const fn fields(self) -> u8 {
        (if self.wants > 1 { 1 } else { 0 }) | (self.queue << 1)
    }

    /// What a watch shows: one that is being deleted is as good as gone.
    pub(super) fn shown(self) -> Self {
        if self.life == Life::Alive { self } else { Self { life: Life::Gone, wants: 0, queue: 0 } }
    }
}

/// A pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pod {
    /// The owner that controls it, or [`NOBODY`].
    pub(super) of: u8,
    /// Whether it is being deleted.
    pub(super) ending: bool,
    /// Whose group it names: 0 none, else the owner's place and 1.
    pub(super) stamp: u8,
}

/// All pods, in order: two that are alike are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pods(pub(super) [Option<Pod>; PODS]);

impl Pods {
    pub(super) fn iter(&self) -> impl Iterator<Item = Pod> + '_ {
        self.0.iter().flatten().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    /// The places of pods that are not alike.
    pub(super) fn distinct(&self) -> impl Iterator<Item = (usize, Pod)> + '_ {
        (0..PODS).filter(|at| *at == 0 || self.0[*at] != self.0[*at - 1]).filter_map(|at| Some((at, self.0[at]?)))
    }

    pub(super) fn add(&mut self, pod: Pod) {
        let free = self.0.iter_mut().find(|place| place.is_none()).expect("room for a pod");
        *free = Some(pod);
        self.sort();
    }

    pub(super) fn sort(&mut self) {
        self.0.sort();
    }
}

/// The PodGroup, as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) uid: u8,
    pub(super) at: u8,
    pub(super) marked: bool,
    pub(super) owned: bool,
    pub(super) applied: u8,
    pub(super) spec: u8,
}

impl Group {
    pub(super) const fn seen(&self) -> Seen {
        Seen { uid: self.uid, at: self.at, retiring: self.marked, owned: self.owned, applied: self.applied }
    }
}

/// What `dialect::existing` reads in a PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::lifecycle) struct Seen {
    pub(in crate::lifecycle) uid: u8,
    pub(in crate::lifecycle) at: u8,
    pub(in crate::lifecycle) retiring: bool,
    pub(in crate::lifecycle) owned: bool,
    pub(in crate::lifecycle) applied: u8,
}

/// A version: UID and resourceVersion.
pub(in crate::lifecycle) type At = (u8, u8);

/// A step of the protocol, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Req {
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
pub(super) struct Looked {
    /// The group carried its mark when the look began, and has carried it ever since.
    pub(super) under_mark: bool,
    /// There was a member when the list was read.
    pub(super) member: bool,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sent {
    pub(super) slot: u8,
    pub(super) req: Req,
    /// Of a look: that it began, and how. Of a DELETE: the look that it rests on.
    pub(super) looked: Option<Looked>,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Back {
    Object(Seen),
    Members(bool),
    Deleted,
    NotFound,
    Conflict,
    Unknown,
}

/// A request whose sender waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Flight {
    pub(super) sent: Sent,
    /// What was believed when it was sent.
    pub(super) known: Option<At>,
    /// None until it was applied.
    pub(super) back: Option<Back>,
}

/// What a controller has of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kept {
    pub(super) memory: Packed,
    pub(super) flight: Option<Flight>,
    /// The last look, as it was in truth.
    pub(super) looked: Option<Looked>,
    /// For mutants: the object at which a look found nobody.
    pub(super) early: u8,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ctrl {
    /// How far each watch has come: owners, pods, groups.
    pub(super) at: [u8; 3],
    pub(super) kept: [Kept; SLOTS],
    /// Writes of its that nobody waits for any more, and that may land yet.
    pub(super) late: Vec<Sent>,
}

/// What may still happen to one owner and its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Left {
    /// Times the owner is scaled, or moved to another queue.
    pub(super) scales: u8,
    /// Requests that nobody waits for any more before they land.
    pub(super) timeouts: u8,
    /// Replies that are lost.
    pub(super) losses: u8,
    /// Times a person deletes the group.
    pub(super) deletes: u8,
    /// Times a person takes the owner off the group.
    pub(super) strips: u8,
    /// Statuses that are written.
    pub(super) statuses: u8,
    /// Times the owner is deleted.
    pub(super) ends: u8,
    /// Times the owner is deleted and leaves behind what it had.
    pub(super) orphans: u8,
    /// Times an owner is made under a new UID, after the other was orphan-deleted.
    pub(super) recreates: u8,
}

/// A promise that was broken by a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Broken {
    S1,
    S2,
}

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) owners: [Owner; SLOTS],
    pub(super) pods: Pods,
    pub(super) groups: [Option<Group>; SLOTS],
    /// What kube-controller-manager has seen of each owner: how many it wants, none where it is gone.
    pub(super) manager: [Option<u8>; SLOTS],
    /// What each watch can still show: the last is the truth.
    pub(super) owners_seen: Vec<[Owner; SLOTS]>,
    pub(super) pods_seen: Vec<Pods>,
    pub(super) groups_seen: Vec<[Option<Seen>; SLOTS]>,
    pub(super) ctrls: Vec<Ctrl>,
    pub(super) left: [Left; SLOTS],
    pub(super) crashes: u8,
    pub(super) relists: u8,
    /// The last resourceVersion and the last UID that were given out.
    pub(super) last_at: u8,
    pub(super) last_uid: u8,
    pub(super) broken: Option<Broken>,
}
