//! Is the scheduler's view of the cluster good enough to decide on? Pure.
//!
//! * A view of nodes, pods, queues or storage that is older than [`OLDEST`] may be wrong without limit: its watch is silent, or the API
//!   server is cut off from etcd and repeats what it knows. A view is as old as the time up to which everything is known
//!   (`runtime::watch`), and not as the last word of its watch.
//! * After the cluster went back (its etcd was restored from a backup) the kinds are listed again one after the other. Until all are
//!   complete, the view is partly of a state that does not exist any more.
//!
//! No timer runs for this: the view is checked before each decision, and the event that makes it good again also wakes the scheduler.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::kinds::Kind;

/// The greatest age of a view that decisions are made on. A healthy API server shows at least once in 61 s a state of a few seconds before.
/// A watch is dead when it is 75 s old (`runtime::watch`), and its list has 5 s before decisions stop.
pub(super) const OLDEST: Duration = Duration::from_secs(80);

/// Why no decision is made on a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The view of this kind is that old.
    Old(Kind, Duration),
    /// The cluster went back, and not every kind was listed since.
    WentBack,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old(kind, age) => {
                write!(
                    f,
                    "the view of {} is {} s old (limit {} s): their watch is silent, or its API server is cut off from etcd",
                    kind.resource(),
                    age.as_secs(),
                    OLDEST.as_secs()
                )
            }
            Self::WentBack => write!(f, "the cluster went back to an earlier state, and not every kind of object has been listed since"),
        }
    }
}

/// Up to when each kind is known, and which list of it.
#[derive(Debug, Default)]
pub(super) struct View {
    known: BTreeMap<Kind, Duration>,
    /// The generation of the last complete list of each kind.
    listed: BTreeMap<Kind, u64>,
    /// The generation of the lists that show the state since the cluster went back; 0 if it never did.
    back: u64,
    /// The logged trouble, until it is over.
    logged: Option<Trouble>,
}

impl View {
    /// Records that everything is known about this kind that happened before `as_of`.
    pub(super) fn known(&mut self, kind: Kind, as_of: Duration) {
        self.known.insert(kind, as_of);
    }

    /// Records a complete list of this generation.
    pub(super) fn listed(&mut self, kind: Kind, generation: u64) {
        self.listed.insert(kind, generation);
    }

    /// Records that the cluster went back. Lists of this and later generations show the state since. Returns whether that is new.
    pub(super) fn went_back(&mut self, generation: u64) -> bool {
        let new = generation > self.back;
        self.back = self.back.max(generation);
        new
    }

    /// Returns why no decision may be made now; `None` if the view is good.
    pub(super) fn trouble(&self, now: Duration) -> Option<Trouble> {
        if Kind::all().any(|kind| self.listed.get(&kind).is_some_and(|generation| *generation < self.back)) {
            return Some(Trouble::WentBack);
        }
        let limited = Kind::all().filter(|kind| kind.has_limit());
        let ages = limited.filter_map(|kind| Some((kind, self.age(kind, now)?)));
        let (kind, age) = ages.max_by_key(|(_, age)| *age)?;
        (age > OLDEST).then_some(Trouble::Old(kind, age))
    }

    /// Returns how old the view of this kind is; `None` before its first list.
    pub(super) fn age(&self, kind: Kind, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub(*self.known.get(&kind)?))
    }

    /// Returns whether a decision may be made now, and logs when that changes.
    pub(super) fn check(&mut self, now: Duration) -> bool {
        let trouble = self.trouble(now);
        match (&trouble, &self.logged) {
            (Some(trouble), None) => tracing::warn!("no decisions until it is over: {trouble}"),
            (None, Some(_)) => tracing::info!("the view of the cluster is up to date; decisions go on"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.logged = trouble;
        trouble.is_none()
    }

    /// Returns whether the last check found the view good.
    pub(super) const fn was_good(&self) -> bool {
        self.logged.is_none()
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
