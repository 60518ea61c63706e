//! How is a real [`Memory`] written down in a few bytes, and read again?

use crate::real::{at, existing, label, seen, uid, version};
use crate::values::{At, Seen};
use podgroup::lifecycle::memory::{Latest, Look, Memory};

/// [`Memory`], with labels for UIDs and resourceVersions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Packed {
    pub(crate) latest: PackedLatest,
    pub(crate) stale: bool,
    pub(crate) look: Option<(At, bool)>,
    pub(crate) beyond: bool,
    /// The canonical form keeps only those that an answer on its way could tell of: never more than these.
    pub(crate) deleted: [u8; 3],
    pub(crate) missed: bool,
}

/// The latest that answers have said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PackedLatest {
    #[default]
    Nothing,
    Was(Seen),
    Gone(u8),
}

/// Writes it down. `slot` says whose owner is the right one.
pub(crate) fn pack(memory: &Memory, slot: usize) -> Packed {
    let mut deleted = [0; 3];
    assert!(memory.deleted.len() <= deleted.len(), "the canonical form forgets what no answer can tell of");
    deleted.iter_mut().zip(&memory.deleted).for_each(|(place, uid)| *place = label(uid));
    Packed {
        latest: match &memory.latest {
            Latest::Nothing => PackedLatest::Nothing,
            Latest::Was(existing) => PackedLatest::Was(seen(existing, slot)),
            Latest::Gone(uid) => PackedLatest::Gone(label(uid)),
        },
        stale: memory.stale,
        look: memory.look.as_ref().map(|look| (at(&look.at), look.members)),
        beyond: memory.seen_beyond_cache,
        deleted,
        missed: memory.missed,
    }
}

/// Reads it again.
pub(crate) fn unpack(packed: &Packed, slot: usize) -> Memory {
    Memory {
        latest: match packed.latest {
            PackedLatest::Nothing => Latest::Nothing,
            PackedLatest::Was(seen) => Latest::Was(existing(seen, slot)),
            PackedLatest::Gone(label) => Latest::Gone(uid(label)),
        },
        stale: packed.stale,
        look: packed.look.map(|(at, members)| Look { at: version(at), members }),
        seen_beyond_cache: packed.beyond,
        deleted: packed.deleted.iter().filter(|label| **label != 0).map(|label| uid(*label)).collect(),
        missed: packed.missed,
    }
}
