//! Remembers what the answers of the API server have shown about one PodGroup, beyond what the watches have shown.
//!
//! A watch lags behind an answer, and an answer is true only for its moment. Both are stored, and the later one counts.

use std::time::Duration;

use crate::api::Uid;

use super::existing::{Existing, Version};

/// The answer to a step. Every step has one; a step with an unknown result has [`Answer::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The PodGroup after the step: created, amended, marked, unmarked or read.
    Exists(Existing),
    /// A read found no PodGroup with this name.
    Absent,
    /// The PodGroup with this UID is deleted, by this step or before it.
    Gone(Uid),
    /// The list of members that began on this marked version is complete. S2
    MembersListed {
        /// The version that had the mark before the list began.
        at: Version,
        /// Whether there was any member.
        members: bool,
    },
    /// 409, or 404 for a version that should exist: what is known is out of date.
    Stale,
    /// The reply was lost, late or a failure of the server. The request may have been applied, or may be applied later.
    Unknown,
    /// The API server refused the request and would refuse it again. The text is for people.
    Refused(String),
    /// The API server asks for a retry after this time at the earliest. Nothing happened, and nothing is learned.
    Later(Duration),
}

impl Answer {
    /// Returns the name of the answer in logs and metrics, from a bounded set.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        // The metric `podgroup_controller_steps_total` has used these words since its first release.
        match self {
            Self::Exists(_) => "is",
            Self::Absent => "absent",
            Self::Gone(_) => "gone",
            Self::MembersListed { .. } => "looked",
            Self::Stale => "old",
            Self::Unknown => "unknown",
            Self::Refused(_) => "refused",
            Self::Later(_) => "later",
        }
    }
}

/// The result of a list of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberListing {
    /// The version that had the mark before the list began. Only this version may be deleted because of the list. S2
    pub at: Version,
    /// Whether there was any member.
    pub members: bool,
}

/// A change of the cache that affects one PodGroup. Only [`Memory::observe`] knows what each change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheChange<'a> {
    /// The owner changed, or another object that the desired PodGroup depends on.
    Owner,
    /// A member was added, changed or removed.
    Member,
    /// The PodGroup was added, changed or removed by a new list. The cache has its current state.
    Group,
    /// The object with this UID was deleted.
    Deleted(&'a Uid),
    /// A new list of PodGroups is complete. It may come from an API server that is behind. Every remembered PodGroup gets this change, even
    /// one that the cache has never shown: a PodGroup known from an answer may have been created and deleted between two lists.
    Relisted {
        /// Whether the list contains the PodGroup.
        present: bool,
    },
    /// The cluster went back to an earlier state, because its etcd was restored from a backup. Versions and UIDs of the time after it are
    /// void. Every remembered PodGroup gets this change.
    WentBack,
    /// The wait for the cache to show a listed member is over, and the cache has not shown it.
    WaitOver,
}

/// The latest state of the object under the name, from answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Latest {
    /// The answers have shown nothing that the cache does not have.
    #[default]
    Nothing,
    /// An answer showed this object.
    Exists(Existing),
    /// The object with this UID is deleted. A UID comes back only with [`CacheChange::WentBack`], whatever a cache still shows.
    Gone(Uid),
}

/// What is remembered of one PodGroup between two steps. Dropping it at any moment is safe: it costs reads and breaks no promise.
///
/// Its fields are public so that the model (`model/`) can store and restore it. The program changes it only with [`Memory::learn`] and
/// [`Memory::observe`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The state that answers have shown and no cache may show yet.
    pub latest: Latest,
    /// Whether only a read can show the current state.
    pub stale: bool,
    /// The last list of the members.
    pub listing: Option<MemberListing>,
    /// Whether the last list found a member that the cache has not shown.
    pub unseen_member: bool,
    /// The UIDs that the watch has shown as deleted since the last answer. An answer that is under way may still contain one of them.
    pub deleted: Vec<Uid>,
    /// Whether a list without the PodGroup was completed since the last answer.
    pub unlisted: bool,
}

/// The most deletions that are remembered between two answers. The last ones count. More deletions than this between two answers do not happen.
const DELETED: usize = 8;

impl Memory {
    /// Learns from the answer to a step. `known` is the version that the step was decided on; `None` if no PodGroup was known.
    pub fn learn(&mut self, known: Option<&Version>, answer: &Answer) {
        let deleted = std::mem::take(&mut self.deleted);
        let unlisted = std::mem::take(&mut self.unlisted);
        match answer {
            // The watch was faster than the answer and has already shown the deletion of this object.
            Answer::Exists(existing) if deleted.contains(&existing.version().uid) => {
                self.latest = Latest::Gone(existing.version().uid.clone());
                self.listing = None;
                self.stale = false;
            }
            Answer::Exists(existing) => {
                if self.listing.as_ref().is_some_and(|listing| listing.at != *existing.version()) {
                    self.listing = None;
                }
                self.latest = Latest::Exists(existing.clone());
                self.stale = unlisted;
            }
            Answer::Absent => {
                match known {
                    Some(version) => self.latest = Latest::Gone(version.uid.clone()),
                    None if matches!(self.latest, Latest::Exists(_)) => self.latest = Latest::Nothing,
                    // A UID that is known to be deleted stays deleted.
                    None => {}
                }
                self.listing = None;
                self.stale = false;
            }
            Answer::Gone(uid) => {
                self.latest = Latest::Gone(uid.clone());
                self.listing = None;
                self.stale = false;
            }
            Answer::MembersListed { at, members } => {
                self.listing = Some(MemberListing { at: at.clone(), members: *members });
                self.unseen_member = *members;
            }
            Answer::Stale | Answer::Unknown => {
                self.stale = true;
                self.listing = None;
            }
            // Nothing happened. The caller waits and decides again.
            Answer::Refused(_) | Answer::Later(_) => {}
        }
    }

    /// Learns from a change of the cache. The cache must already contain the change.
    pub fn observe(&mut self, change: CacheChange<'_>) {
        match change {
            CacheChange::Owner | CacheChange::Group | CacheChange::Relisted { present: true } => {}
            // The cache may show the listed member now, or the member is gone. The wait for a member that never appears ends here too.
            CacheChange::Member | CacheChange::WaitOver => self.unseen_member = false,
            CacheChange::Deleted(uid) => self.observe_deletion(uid),
            CacheChange::Relisted { present: false } => self.observe_list_without_group(),
            // An answer that is under way may be of the time before, so a read must follow it.
            CacheChange::WentBack => {
                *self = Self { stale: self.stale || self.latest != Latest::Nothing, unlisted: true, ..Self::default() }
            }
        }
    }

    fn observe_deletion(&mut self, uid: &Uid) {
        if self.deleted.len() >= DELETED {
            self.deleted.remove(0);
        }
        self.deleted.push(uid.clone());
        if matches!(&self.latest, Latest::Exists(existing) if existing.version().uid != *uid) {
            return;
        }
        self.latest = Latest::Gone(uid.clone());
        self.listing = None;
    }

    /// Learns that a complete list does not contain the PodGroup. Only a read can show what happened to it.
    fn observe_list_without_group(&mut self) {
        self.unlisted = true;
        if matches!(self.latest, Latest::Exists(_)) {
            self.latest = Latest::Nothing;
            self.listing = None;
            self.stale = true;
        }
    }

    /// Returns the later of the cached object and the object that answers have shown; `None` if neither exists.
    #[must_use]
    pub fn freshest<'a>(&'a self, cached: Option<&'a Existing>) -> Option<&'a Existing> {
        match (&self.latest, cached) {
            (Latest::Nothing, cached) => cached,
            (Latest::Gone(uid), Some(cached)) => (cached.version().uid != *uid).then_some(cached),
            (Latest::Gone(_), None) => None,
            (Latest::Exists(learned), None) => Some(learned),
            (Latest::Exists(learned), Some(cached)) => Some(later(learned, cached)),
        }
    }

    /// Returns whether only a read can show the current state.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.stale
    }

    /// Returns the last list of the members.
    #[must_use]
    pub const fn listing(&self) -> Option<&MemberListing> {
        self.listing.as_ref()
    }

    /// Returns whether the last list found a member that the cache has not shown. The controller then waits for the cache instead of listing again.
    #[must_use]
    pub const fn waits_for_cache(&self) -> bool {
        self.unseen_member
    }
}

/// Returns the later of two objects. If their versions cannot be compared, the cached one, because a cache does not stay behind for long.
fn later<'a>(learned: &'a Existing, cached: &'a Existing) -> &'a Existing {
    match (learned.version().order(), cached.version().order()) {
        (Some(learned_at), Some(cached_at)) if learned_at > cached_at => learned,
        _ => cached,
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
