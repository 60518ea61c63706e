//! The order in which PodGroups are tried (P1, P1).

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use super::super::cluster::Cluster;
use super::super::shares::share;
use super::super::tree::{children, spec, used, walk};
use super::reservations::MINIMUMS_PASS;
use super::{CycleModel, Member};

/// The rank within a queue (P1): priority, whether no member waits, the age of its oldest waiting member (half a minute less where it has its
/// minimum), whether it has its minimum, name.
pub(super) type Rank = (Reverse<i64>, bool, u64, bool, String);

/// A fraction; with a zero divisor it is larger than any other, if something is used.
#[derive(Clone, Copy)]
struct Part(i128, i128);

impl Part {
    fn compare(self, other: Self) -> Ordering {
        match (self.1 == 0, other.1 == 0) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => (self.0 * other.1).cmp(&(other.0 * self.1)),
        }
    }
}

/// The shares at the beginning of the cycle, computed on demand.
#[derive(Default)]
pub(super) struct Shares {
    cluster: Cluster,
    known: BTreeMap<(String, String), i128>,
}

impl Shares {
    pub(super) fn of(cluster: Cluster) -> Self {
        Self { cluster, known: BTreeMap::new() }
    }

    fn share(&mut self, queue: &str, dimension: &str) -> i128 {
        let cluster = &self.cluster;
        *self.known.entry((queue.to_owned(), dimension.to_owned())).or_insert_with(|| share(cluster, queue, dimension))
    }

    /// P1: the used part of the share, the largest over the dimensions.
    fn dominant(&mut self, now: &Cluster, queue: &str) -> Part {
        let mut dominant = Part(0, 1);
        for dimension in now.dimensions() {
            let used = used(now, queue, &dimension);
            let part = if used == 0 { Part(0, 1) } else { Part(used, self.share(queue, &dimension)) };
            if part.compare(dominant) == Ordering::Greater {
                dominant = part;
            }
        }
        dominant
    }
}

/// A queue with a PodGroup in its subtree that wants a turn.
struct Sibling<'a> {
    priority: Reverse<i64>,
    part: Part,
    first: &'a Rank,
    name: String,
}

impl Sibling<'_> {
    /// Compares two siblings by P1.
    fn compare(&self, other: &Self) -> Ordering {
        let by_first = || self.first.cmp(other.first).then_with(|| self.name.cmp(&other.name));
        self.priority.cmp(&other.priority).then_with(|| self.part.compare(other.part)).then_with(by_first)
    }
}

impl CycleModel {
    pub(super) fn rank(&self, group: &str) -> Rank {
        let waiting: Vec<&Member> = self.waiting(group).iter().map(|uid| &self.members[uid]).collect();
        let spec = &self.groups[group];
        let priority = spec.class.or_else(|| waiting.iter().map(|member| member.priority).max()).unwrap_or(0);
        let oldest = waiting.iter().map(|member| member.created).min().unwrap_or(spec.created);
        let has_minimum = self.is_satisfied(group);
        let age = oldest + if has_minimum { MINIMUMS_PASS } else { 0 };
        (Reverse(priority), self.waiting(group).is_empty(), age, has_minimum, group.to_owned())
    }

    /// Returns the PodGroup whose turn it is: P1 from the top down, then P1.
    pub(super) fn next(&self, wanting: &[(String, Rank)], shares: &mut Shares) -> Option<Rank> {
        let cluster = self.cluster();
        let mut at = "root".to_owned();
        loop {
            let here = wanting.iter().filter(|(queue, _)| *queue == at).map(|(_, rank)| rank).min();
            if let Some(first) = here {
                return Some(first.clone());
            }
            let mut siblings = Vec::new();
            for child in children(&cluster, &at) {
                let below = wanting.iter().filter(|(queue, _)| walk(&cluster, queue).contains(&child));
                if let Some(first) = below.map(|(_, rank)| rank).min() {
                    siblings.push((first, child));
                }
            }
            if let [(_, only)] = siblings.as_slice() {
                at = (*only).to_owned();
                continue;
            }
            let siblings = siblings.into_iter().map(|(first, child)| Sibling {
                priority: Reverse(spec(&cluster, child).priority),
                part: shares.dominant(&cluster, child),
                first,
                name: child.to_owned(),
            });
            at = siblings.min_by(Sibling::compare)?.name;
        }
    }
}
