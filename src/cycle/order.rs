//! Which PodGroup has the next turn?
//!
//! Between sibling queues: the higher priority, then the smaller used part of the share, then the first PodGroup, then the name (P1).
//! Within a queue: the PodGroup of higher priority, then without its minimum, then of the older waiting member (so a recreated PodGroup
//! keeps its place), then the name (P1). The use changes with every placement, so a queue and all above it are ranked again after each
//! turn. The shares stay for the whole cycle.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::{MAX_DEPTH, ROOT_QUEUE};

use super::cache::{Cache, GroupRank};
use super::share::Share;

/// The rank of a queue among its siblings (P1).
#[derive(Clone, Debug, PartialEq, Eq)]
struct QueueRank {
    priority: Reverse<i32>,
    share: Share,
    first: GroupRank,
    name: Arc<str>,
}

impl Ord for QueueRank {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_priority = self.priority.cmp(&other.priority);
        by_priority
            .then_with(|| self.share.cmp(&other.share))
            .then_with(|| self.first.cmp(&other.first))
            .then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for QueueRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The child queues with waiting PodGroups. There may be thousands, and each turn ranks one of them anew.
#[derive(Debug, Default)]
struct Siblings {
    in_order: BTreeSet<QueueRank>,
    /// Their first PodGroups, with the queue; not needed of those below `root`, which itself is not ranked.
    firsts: BTreeSet<(GroupRank, Arc<str>)>,
}

/// The PodGroups that wait for a turn in this cycle, as a tree of queues.
#[derive(Debug)]
pub struct Turns<T> {
    waiting: BTreeMap<Arc<str>, BTreeMap<GroupRank, T>>,
    /// The child queues with waiting PodGroups, by parent.
    children: BTreeMap<Arc<str>, Siblings>,
    ranks: BTreeMap<Arc<str>, QueueRank>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), children: BTreeMap::new(), ranks: BTreeMap::new() }
    }
}

impl<T> Turns<T> {
    /// Adds a PodGroup to this queue; call [`rank`](Self::rank) before the next turn.
    pub fn push(&mut self, queue: Arc<str>, rank: GroupRank, what: T) {
        self.waiting.entry(queue).or_default().insert(rank, what);
    }

    /// Whether several queues contend, so that their order matters.
    #[must_use]
    pub fn contend(&self) -> bool {
        self.waiting.len() > 1
    }

    /// Ranks the queue and all above it anew.
    pub fn rank(&mut self, queue: &Arc<str>, cache: &Cache) {
        let tree = cache.accounting().quota().tree();
        let mut at = Arc::clone(queue);
        for _ in 0..=MAX_DEPTH {
            let Some(parent) = tree.parent(&at).cloned() else { return };
            if let (Some(old), Some(siblings)) = (self.ranks.remove(&at), self.children.get_mut(&parent)) {
                siblings.in_order.remove(&old);
                siblings.firsts.remove(&(old.first, old.name));
            }
            if let Some(first) = self.first(&at) {
                let rank = QueueRank { priority: priority(cache, &at), share: share(cache, &at), first, name: Arc::clone(&at) };
                let siblings = self.children.entry(Arc::clone(&parent)).or_default();
                if *parent != *ROOT_QUEUE {
                    siblings.firsts.insert((rank.first.clone(), Arc::clone(&rank.name)));
                }
                siblings.in_order.insert(rank.clone());
                self.ranks.insert(at, rank);
            }
            at = parent;
        }
    }

    /// Ranks every queue with a waiting PodGroup.
    pub fn rank_all(&mut self, cache: &Cache) {
        let queues: Vec<_> = self.waiting.keys().cloned().collect();
        for queue in queues {
            self.rank(&queue, cache);
        }
    }

    /// Takes out the PodGroup with the next turn, and its queue.
    pub fn pop(&mut self) -> Option<(Arc<str>, GroupRank, T)> {
        let mut at: Arc<str> = Arc::from(ROOT_QUEUE);
        for _ in 0..=MAX_DEPTH {
            if let Some((rank, what)) = self.waiting.get_mut(&at).and_then(BTreeMap::pop_first) {
                return Some((at, rank, what));
            }
            at = Arc::clone(&self.children.get(&at)?.in_order.first()?.name);
        }
        None
    }

    fn first(&self, queue: &Arc<str>) -> Option<GroupRank> {
        let own = self.waiting.get(queue).and_then(|waiting| waiting.first_key_value()).map(|(rank, _)| rank);
        let below = self.children.get(queue).and_then(|siblings| siblings.firsts.first()).map(|(rank, _)| rank);
        own.into_iter().chain(below).min().cloned()
    }
}

fn priority(cache: &Cache, queue: &str) -> Reverse<i32> {
    Reverse(cache.queues().get(queue).map_or(0, |facts| facts.priority))
}

/// Returns the used part of the share; the default where there are no shares because no queues contend.
fn share(cache: &Cache, queue: &str) -> Share {
    let used = cache.accounting().quota().used(queue);
    cache.sharing().shares.as_ref().map(|shares| Share::dominant(used, shares.of(queue))).unwrap_or_default()
}
