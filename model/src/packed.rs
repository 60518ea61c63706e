//! Packs a real [`Memory`] into a few bytes, and unpacks it.

use crate::real::{at, existing, label, seen, uid, version};
use crate::values::{At, Seen};
use podgroup::lifecycle::memory::{Latest, MemberListing, Memory};

/// A [`Memory`] with labels instead of UIDs and resourceVersions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Packed {
    pub(crate) latest: PackedLatest,
    pub(crate) stale: bool,
    pub(crate) listing: Option<(At, bool)>,
    pub(crate) unseen_member: bool,
    /// The deleted UIDs. The canonical form keeps only those that an answer under way can contain, so there are never more than three.
    pub(crate) deleted: [u8; 3],
    pub(crate) unlisted: bool,
}

/// See [`Latest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PackedLatest {
    #[default]
    Nothing,
    Exists(Seen),
    Gone(u8),
}

/// Packs a memory of the PodGroup in `slot`.
pub(crate) fn pack(memory: &Memory, slot: usize) -> Packed {
    let mut deleted = [0; 3];
    assert!(memory.deleted.len() <= deleted.len(), "the canonical form forgets UIDs that no answer can contain");
    deleted.iter_mut().zip(&memory.deleted).for_each(|(place, uid)| *place = label(uid));
    Packed {
        latest: match &memory.latest {
            Latest::Nothing => PackedLatest::Nothing,
            Latest::Exists(existing) => PackedLatest::Exists(seen(existing, slot)),
            Latest::Gone(uid) => PackedLatest::Gone(label(uid)),
        },
        stale: memory.stale,
        listing: memory.listing.as_ref().map(|listing| (at(&listing.at), listing.members)),
        unseen_member: memory.unseen_member,
        deleted,
        unlisted: memory.unlisted,
    }
}

/// Unpacks a memory of the PodGroup in `slot`.
pub(crate) fn unpack(packed: &Packed, slot: usize) -> Memory {
    Memory {
        latest: match packed.latest {
            PackedLatest::Nothing => Latest::Nothing,
            PackedLatest::Exists(seen) => Latest::Exists(existing(seen, slot)),
            PackedLatest::Gone(label) => Latest::Gone(uid(label)),
        },
        stale: packed.stale,
        listing: packed.listing.map(|(at, members)| MemberListing { at: version(at), members }),
        unseen_member: packed.unseen_member,
        deleted: packed.deleted.iter().filter(|label| **label != 0).map(|label| uid(*label)).collect(),
        unlisted: packed.unlisted,
    }
}
