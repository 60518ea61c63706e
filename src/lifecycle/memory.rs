//! What do the API server's answers teach about one group, beyond what the watches have shown?
//!
//! A watch lags behind an answer, and an answer is one moment; both are kept, and the later of the two counts.

use std::time::Duration;

use crate::api::Uid;

use super::existing::{Existing, Version};

/// What an answer of the API server says. Every step has one, and a step whose outcome is not known has one too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The group as it now is: created, amended, marked, unmarked, or read.
    Is(Existing),
    /// A read found none under this name.
    Absent,
    /// The group with this UID is gone: deleted, or it was already.
    Gone(Uid),
    /// The look that began on this marked version is complete. S2
    Looked {
        /// The version that carried the mark before the look began.
        at: Version,
        /// Whether there was any member.
        members: bool,
    },
    /// 409, or 404 for a version that was thought to be there: what is known is old.
    Old,
    /// The answer was lost, late or a failure of the server: it may have been done, or be done later.
    Unknown,
    /// The server will not have it, and would not the next time: the text is for people.
    Refused(String),
    /// The server wants it later, after this time at least: nothing was done, and nothing is learned.
    Later(Duration),
}

impl Answer {
    /// What the answer is called in logs and metrics: one of a bounded set.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Is(_) => "is",
            Self::Absent => "absent",
            Self::Gone(_) => "gone",
            Self::Looked { .. } => "looked",
            Self::Old => "old",
            Self::Unknown => "unknown",
            Self::Refused(_) => "refused",
            Self::Later(_) => "later",
        }
    }
}

/// The result of a look at the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The version that carried the mark before the look began: the only one that may be deleted for it. S2
    pub at: Version,
    /// Whether there was any member.
    pub members: bool,
}

/// What was seen of one group without asking: an event of a watch, or that none came. One word for each that could teach something, so that
/// whoever watches chooses nothing: [`Memory::saw`] alone knows what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight<'a> {
    /// Its owner, or something that the owner's wishes are made of.
    Owner,
    /// A member came, changed or went.
    Member,
    /// The group itself, new or changed, or gone from a list: what is there now is in the cache.
    Group,
    /// The object with this UID was deleted.
    Deleted(&'a Uid),
    /// A complete list of groups has been read again, possibly from an older server. To be said of every group that is remembered, also of one
    /// that the cache has never shown: what an answer has shown may have come and gone between two lists.
    Listed {
        /// Whether the group was in it.
        there: bool,
    },
    /// The cache has had its time to show the member that a look saw, and has not.
    Waited,
}

/// The latest that answers have said about the object under the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Latest {
    /// Nothing that the cache could not know.
    #[default]
    Nothing,
    /// It was this when it answered.
    Was(Existing),
    /// The object with this UID is gone, and a UID never comes back, whatever a cache still shows.
    Gone(Uid),
}

/// What is remembered of one group between two steps. Dropping it at any moment is safe: it costs reads, never a promise.
///
/// It is a plain value, open so that the model (`model/`) can write every memory down and read it again; in the program it changes by
/// [`Memory::learn`] and [`Memory::saw`] alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What answers have said that no cache may show yet.
    pub latest: Latest,
    /// Only a read can tell.
    pub stale: bool,
    /// The last look at the members.
    pub look: Option<Look>,
    /// The last look saw a member that the cache has not shown.
    pub seen_beyond_cache: bool,
    /// What the watch has shown as deleted since the last answer: an answer that is under way may still tell of it.
    pub deleted: Vec<Uid>,
    /// A list without the group has been read since the last answer.
    pub missed: bool,
}

/// Deletions that are remembered between two answers: the last ones count, and nobody deletes faster than answers come.
const DELETED: usize = 8;

impl Memory {
    /// What the answer teaches. `known` is what was believed when the step was taken.
    pub fn learn(&mut self, known: Option<&Version>, answer: &Answer) {
        let deleted = std::mem::take(&mut self.deleted);
        let missed = std::mem::take(&mut self.missed);
        match answer {
            // The watch was quicker than the answer, and has shown the end of it already.
            Answer::Is(existing) if deleted.contains(&existing.version().uid) => {
                self.latest = Latest::Gone(existing.version().uid.clone());
                self.look = None;
                self.stale = false;
            }
            Answer::Is(existing) => {
                if self.look.as_ref().is_some_and(|look| look.at != *existing.version()) {
                    self.look = None;
                }
                self.latest = Latest::Was(existing.clone());
                self.stale = missed;
            }
            Answer::Absent => {
                match known {
                    Some(version) => self.latest = Latest::Gone(version.uid.clone()),
                    None if matches!(self.latest, Latest::Was(_)) => self.latest = Latest::Nothing,
                    // What is gone is gone, also where it was known before the read.
                    None => {}
                }
                self.look = None;
                self.stale = false;
            }
            Answer::Gone(uid) => {
                self.latest = Latest::Gone(uid.clone());
                self.look = None;
                self.stale = false;
            }
            Answer::Looked { at, members } => {
                self.look = Some(Look { at: at.clone(), members: *members });
                self.seen_beyond_cache = *members;
            }
            Answer::Old | Answer::Unknown => {
                self.stale = true;
                self.look = None;
            }
            // Nothing was done, and nothing is known that was not: the caller waits and decides again.
            Answer::Refused(_) | Answer::Later(_) => {}
        }
    }

    /// What was seen teaches. Called when the cache shows it already.
    pub fn saw(&mut self, sight: Sight<'_>) {
        match sight {
            Sight::Owner | Sight::Group | Sight::Listed { there: true } => {}
            // A member that only a look had seen may be there now, or gone; and one that never shows is not waited for again and again.
            Sight::Member | Sight::Waited => self.seen_beyond_cache = false,
            Sight::Deleted(uid) => self.saw_deleted(uid),
            Sight::Listed { there: false } => self.missed_by_list(),
        }
    }

    fn saw_deleted(&mut self, uid: &Uid) {
        if self.deleted.len() >= DELETED {
            self.deleted.remove(0);
        }
        self.deleted.push(uid.clone());
        if matches!(&self.latest, Latest::Was(existing) if existing.version().uid != *uid) {
            return;
        }
        self.latest = Latest::Gone(uid.clone());
        self.look = None;
    }

    /// Only a read can tell what became of a group that a list does not have.
    fn missed_by_list(&mut self) {
        self.missed = true;
        if matches!(self.latest, Latest::Was(_)) {
            self.latest = Latest::Nothing;
            self.look = None;
            self.stale = true;
        }
    }

    /// The later of what the cache shows and what answers have said.
    #[must_use]
    pub fn freshest<'a>(&'a self, cached: Option<&'a Existing>) -> Option<&'a Existing> {
        match (&self.latest, cached) {
            (Latest::Nothing, cached) => cached,
            (Latest::Gone(uid), Some(cached)) => (cached.version().uid != *uid).then_some(cached),
            (Latest::Gone(_), None) => None,
            (Latest::Was(learned), None) => Some(learned),
            (Latest::Was(learned), Some(cached)) => Some(later(learned, cached)),
        }
    }

    /// Whether what is known is known to be old.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.stale
    }

    /// The last look at the members.
    #[must_use]
    pub const fn look(&self) -> Option<&Look> {
        self.look.as_ref()
    }

    /// Whether the last look saw a member that the cache has not shown: then the cache is waited for, instead of asking again and again.
    #[must_use]
    pub const fn waits_for_pods(&self) -> bool {
        self.seen_beyond_cache
    }
}

/// The later of two views; the cache's where they cannot be compared, since it is never behind for long.
fn later<'a>(learned: &'a Existing, cached: &'a Existing) -> &'a Existing {
    match (learned.version().order(), cached.version().order()) {
        (Some(learned_at), Some(cached_at)) if learned_at > cached_at => learned,
        _ => cached,
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
