//! The parked PodGroups: refused PodGroups, each with the change that it waits for.
//!
//! A PodGroup that was refused is parked under what refused it, its [`Blocker`]: until that changes, or the PodGroup itself does, trying it again
//! has the same outcome.
//!
//! Identical PodGroups of one queue that lack nodes share a [`Line`]: their waiting members are of one class, and the same number of
//! members must find nodes together ([`LineKey`]). A refusal of one PodGroup holds for the whole line.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::ROOT_QUEUE;
use crate::api::GroupKey;
use crate::cycle::cache::GroupRank;
use crate::cycle::placement::class::ClassId;
use crate::resources::{Amount, ResourceName};

use super::changes::Sequence;

/// What must change before a PodGroup can succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blocker {
    /// No node takes its members, which are all alike.
    Nodes(LineKey, GroupRank),
    /// No node, or no queue, takes some of its members, which differ or which anti-affinity may tell apart.
    Members(BTreeSet<ClassId>),
    /// A queue has too little left for its members, which are all alike, or for its minimum.
    Quota(Lacking),
    /// The PodGroup itself, its queue's limits, or a time.
    Itself,
}

/// The quota that a queue lacks for a PodGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lacking {
    /// The queue that refuses, the PodGroup's own or one above it; `root` where the answer depends on every queue.
    pub(super) level: Arc<str>,
    /// The queue of the PodGroup.
    pub(super) queue: Arc<str>,
    /// The requested amount; none if the decision depends on more than the use of the queue.
    pub(super) asked: Option<(ResourceName, Amount)>,
    /// Whether it is only what other PodGroups have reserved for their minimum (A7).
    pub(super) for_minimums: bool,
}

/// The common properties of identical PodGroups of one queue. If one of them finds no nodes, none of the others does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineKey {
    /// The class of the waiting members.
    pub(super) class: ClassId,
    /// How many of them must find nodes together.
    pub(super) members: u32,
    /// The queue that is charged.
    pub(super) queue: Arc<str>,
    /// Whether the pods may be preempted. If not, their queue may not borrow for them.
    pub(super) preemptable: bool,
    /// Whether the PodGroup has a reservation.
    pub(super) reserves: bool,
    /// The minResources for admission.
    pub(in crate::cycle) minimum: Vec<(ResourceName, Amount)>,
}

/// Identical PodGroups that lack nodes.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// When one of them was refused last.
    pub(super) refused: Sequence,
    /// In the order of their turns.
    pub(super) ranks: BTreeSet<GroupRank>,
}

/// The PodGroups that were refused, each under its blocker.
#[derive(Debug, Default)]
pub(super) struct Parked {
    of: BTreeMap<GroupKey, Blocker>,
    pub(super) lines: BTreeMap<LineKey, Line>,
    /// With when each was refused.
    pub(super) members: BTreeMap<GroupKey, Sequence>,
    /// By the queue that refuses; those of `members` below `root`, since any queue may have refused one of their members.
    pub(super) quota: BTreeMap<Arc<str>, BTreeSet<GroupKey>>,
}

impl Parked {
    /// Parks a PodGroup that was refused at `now`.
    pub(super) fn park(&mut self, key: &GroupKey, blocker: Blocker, now: Sequence) {
        if self.of.get(key) != Some(&blocker) {
            self.remove(key);
        }
        match &blocker {
            Blocker::Nodes(line, rank) => {
                let line = self.lines.entry(line.clone()).or_default();
                line.refused = now;
                line.ranks.insert(rank.clone());
            }
            Blocker::Members(_) => {
                self.members.insert(key.clone(), now);
                self.quota.entry(Arc::from(ROOT_QUEUE)).or_default().insert(key.clone());
            }
            Blocker::Quota(lacking) => _ = self.quota.entry(Arc::clone(&lacking.level)).or_default().insert(key.clone()),
            Blocker::Itself => {}
        }
        self.of.insert(key.clone(), blocker);
    }

    /// Removes a PodGroup that waits no longer; nothing where it is not parked.
    pub(super) fn remove(&mut self, key: &GroupKey) {
        match self.of.remove(key) {
            Some(Blocker::Nodes(at, rank)) => {
                let Some(line) = self.lines.get_mut(&at) else { return };
                line.ranks.remove(&rank);
                if line.ranks.is_empty() {
                    self.lines.remove(&at);
                }
            }
            Some(Blocker::Members(_)) => {
                self.members.remove(key);
                remove_from(&mut self.quota, ROOT_QUEUE, key);
            }
            Some(Blocker::Quota(lacking)) => remove_from(&mut self.quota, &lacking.level, key),
            Some(Blocker::Itself) | None => {}
        }
    }

    /// Returns what the PodGroup waits for; none where it is not parked.
    pub(super) fn blocker(&self, key: &GroupKey) -> Option<&Blocker> {
        self.of.get(key)
    }
}

fn remove_from(all: &mut BTreeMap<Arc<str>, BTreeSet<GroupKey>>, at: &str, what: &GroupKey) {
    let Some(some) = all.get_mut(at) else { return };
    some.remove(what);
    if some.is_empty() {
        all.remove(at);
    }
}
