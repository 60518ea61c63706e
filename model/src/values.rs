//! The values of a state of the model. They are small, so that millions of states fit into memory.
//!
//! UIDs and resourceVersions are labels from 1 (0 is none); [`crate::canon`] assigns them again in every state. This file has the real
//! state and the caches. [`crate::real`] calls the code under test with them.

use crate::packed::Packed;

/// The number of owners, each with its own PodGroup. An unused slot stays [`Life::Never`].
pub(crate) const SLOTS: usize = 2;
/// The number of owners that a set creates. Each wants one pod.
pub(crate) const IN_SET: u8 = 2;
/// The most pods at one moment.
pub(crate) const PODS: usize = 4;
/// The owner of an orphaned pod: its owner was deleted without it.
pub(crate) const ORPHAN: u8 = 2;
/// The stamp of a pod that names the PodGroup of another controller, as a webhook writes it.
pub(crate) const ELSEWHERE: u8 = 3;
/// The label of fields that cannot be read.
pub(crate) const UNREADABLE: u8 = 255;

/// Whether an owner exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Life {
    /// The owner was not created yet.
    #[default]
    Never,
    /// The owner exists.
    Alive,
    /// The owner exists, and its template names another scheduler.
    Unserved,
    /// Only in caches: the owner is of a kind that is not watched, and no active pod shows it.
    Unknown,
    /// The owner is being deleted with orphaned dependents.
    Orphaning,
    /// The owner was deleted.
    Gone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) life: Life,
    pub(crate) wants: u8,
    pub(crate) queue: u8,
}

impl Owner {
    /// Returns the fields that its PodGroup should have: the size of the gang in bit 0, the queue in bit 1.
    pub(crate) const fn fields(self) -> u8 {
        (if self.wants > 1 { 1 } else { 0 }) | (self.queue << 1)
    }

    /// Returns what a watch shows. An owner that is being deleted counts as gone. Of a set the watch shows only the owners that it has created.
    pub(crate) fn shown(self, set: bool) -> Self {
        if set {
            return Self { life: if self.wants > 0 { Life::Alive } else { Life::Gone }, ..self };
        }
        if matches!(self.life, Life::Alive | Life::Unserved) { self } else { Self { life: Life::Gone, wants: 0, queue: 0 } }
    }

    /// Returns the number of pods of our scheduler that it wants; `None` for a deleted owner. Each owner of a set wants one, whatever
    /// became of the set.
    pub(crate) fn wanted(self, set: bool) -> Option<u8> {
        match self.life {
            _ if set => Some(self.wants),
            Life::Alive => Some(self.wants),
            Life::Unserved => Some(0),
            Life::Never | Life::Unknown | Life::Orphaning | Life::Gone => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pod {
    /// The slot of its owner, or [`ORPHAN`].
    pub(crate) of: u8,
    /// Whether it is being deleted.
    pub(crate) terminating: bool,
    /// The PodGroup that its annotation names: 0 for none, [`ELSEWHERE`], otherwise the slot plus 1.
    pub(crate) stamp: u8,
    pub(crate) labels: Labels,
}

/// The labels of a pod, by what the lists of members before a DELETE ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Labels {
    /// The selector of its owner matches them.
    #[default]
    Selected,
    /// A user changed them: the selector does not match them, and they name the PodGroup.
    OfGroup,
    /// A user changed them: the selector does not match them, and they name no PodGroup.
    Neither,
}

impl Labels {
    /// What a user can change the labels to.
    pub(crate) const CHANGED: [Self; 2] = [Self::OfGroup, Self::Neither];
}

/// All pods, in order. Two equal pods cannot be distinguished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pods(pub(crate) [Option<Pod>; PODS]);

impl Pods {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Pod> + '_ {
        self.0.iter().flatten().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns one position for each group of equal pods.
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

/// The real PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) uid: u8,
    pub(crate) at: u8,
    pub(crate) marked: bool,
    pub(crate) owned: bool,
    pub(crate) applied: u8,
    pub(crate) spec: u8,
    /// Whether it is being deleted and waits for its finalizers.
    pub(crate) ending: bool,
    /// Whether another client has made it, without our label.
    pub(crate) foreign: bool,
}

impl Group {
    pub(crate) const fn seen(&self) -> Seen {
        Seen {
            uid: self.uid,
            at: self.at,
            retiring: self.marked,
            owned: self.owned,
            applied: self.applied,
            ending: self.ending,
            foreign: self.foreign,
        }
    }
}

/// What `dialect::existing` reads from a PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) uid: u8,
    pub(crate) at: u8,
    pub(crate) retiring: bool,
    pub(crate) owned: bool,
    pub(crate) applied: u8,
    pub(crate) ending: bool,
    pub(crate) foreign: bool,
}

/// A version: UID and resourceVersion.
pub(crate) type At = (u8, u8);

/// A request: a step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Req {
    Read,
    Create(u8),
    Amend { on: At, from: u8, to: u8, adopt: bool },
    Mark(At),
    Unmark(At),
    ListMembers(At),
    Delete(At),
}

/// The truth about a list of members, for the check of S2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Listing {
    /// Whether the PodGroup had its mark when the list began, and ever since.
    pub(crate) under_mark: bool,
    /// Whether there was a member when the list was read.
    pub(crate) member: bool,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sent {
    pub(crate) slot: u8,
    pub(crate) req: Req,
    /// For a list of members: the truth about it. For a DELETE: the list that it depends on.
    pub(crate) listing: Option<Listing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Back {
    Object(Seen),
    Members(bool),
    Deleted,
    NotFound,
    Conflict,
    /// The request was refused for ever (quota, policy), and for now (429).
    Refused,
    Later,
    Unknown,
}

/// A request with a sender that still waits for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Flight {
    pub(crate) sent: Sent,
    /// The version that it was decided on.
    pub(crate) known: Option<At>,
    /// The reply; `None` until the request was applied.
    pub(crate) back: Option<Back>,
}

/// What a controller stores of one PodGroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupState {
    pub(crate) memory: Packed,
    pub(crate) flight: Option<Flight>,
    /// The truth about the last list of members.
    pub(crate) listing: Option<Listing>,
    /// For mutants: the object for which a list found no member.
    pub(crate) early: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ctrl {
    /// The position of each watch: owners, pods, PodGroups.
    pub(crate) at: [u8; 3],
    pub(crate) local: [GroupState; SLOTS],
    /// The writes that the controller gave up on and that may still be applied.
    pub(crate) late: Vec<Sent>,
}

/// How many actions of each kind may still happen to one owner and its PodGroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Left {
    /// The owner is scaled, or moved to another queue.
    pub(crate) scales: u8,
    /// The sender gives up on a request before it is applied.
    pub(crate) timeouts: u8,
    /// A reply is lost.
    pub(crate) losses: u8,
    /// A person deletes the PodGroup.
    pub(crate) deletes: u8,
    /// A person removes the owner reference of the PodGroup.
    pub(crate) strips: u8,
    /// A person makes the fields that were written last unreadable: the annotation `podgroup.dev/applied`.
    pub(crate) garbles: u8,
    /// A status is written.
    pub(crate) statuses: u8,
    /// The owner is deleted.
    pub(crate) ends: u8,
    /// The owner is deleted with orphaned dependents.
    pub(crate) orphans: u8,
    /// An owner is created with a new UID, after the first owner was deleted with orphaned dependents.
    pub(crate) recreates: u8,
    /// The template of the owner names another scheduler, or ours again.
    pub(crate) leaves: u8,
    /// Another client makes a PodGroup with the generated name.
    pub(crate) foreigns: u8,
    /// A request is refused.
    pub(crate) refusals: u8,
    /// A user changes the labels of a pod, so that its owner does not select it any more. It is owned until kube-controller-manager releases it.
    pub(crate) relabels: u8,
}

/// A promise that a DELETE broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Broken {
    S1,
    S2,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) owners: [Owner; SLOTS],
    pub(crate) pods: Pods,
    pub(crate) groups: [Option<Group>; SLOTS],
    /// The number of pods that each owner wants, as kube-controller-manager has seen it; `None` for a deleted owner.
    pub(crate) manager: [Option<u8>; SLOTS],
    /// The history of each kind that watches can still show. The last entry is the current state.
    pub(crate) owners_seen: Vec<[Owner; SLOTS]>,
    pub(crate) pods_seen: Vec<Pods>,
    pub(crate) groups_seen: Vec<[Option<Seen>; SLOTS]>,
    pub(crate) ctrls: Vec<Ctrl>,
    pub(crate) left: [Left; SLOTS],
    pub(crate) crashes: u8,
    pub(crate) relists: u8,
    /// Whether every PodGroup has a finalizer.
    pub(crate) finalizers: bool,
    /// Whether each owner is a set: it is not watched, and `wants` is the number of the watched owners that it has created.
    pub(crate) set: bool,
    /// The last resourceVersion and the last UID that were assigned.
    pub(crate) last_at: u8,
    pub(crate) last_uid: u8,
    pub(crate) broken: Option<Broken>,
}
