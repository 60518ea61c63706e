//! Which PodGroup has the next turn (P1)?

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use super::super::cluster::Cluster;
use super::super::shares::share;
use super::super::tree::{children, is_below_root, is_leaf, names, spec, used, walk};
use super::{CycleModel, MemberState};

/// P1: a satisfied PodGroup counts as so much younger, in the unit of `created`.
const YOUNGER: u64 = 30;

/// P1: what stays as it is at the beginning of the cycle: the shares of the queues by dimension, and of each PodGroup the priority, whether
/// no member waits, and the age.
pub(super) struct Start {
    shares: BTreeMap<(String, String), i128>,
    ages: BTreeMap<String, (Reverse<i64>, bool, u64)>,
}

/// P1, within a queue: the smaller one comes first.
pub(super) type Rank = (Reverse<i64>, bool, u64, bool, String);

/// The used part of a share. Of a share of 0 the use counts as the largest. Where nothing is used of it, there is no use.
#[derive(Clone, Copy, Debug)]
struct Part {
    used: i128,
    share: i128,
}

impl Part {
    /// Compares two fractions exactly.
    fn compare(self, other: Self) -> Ordering {
        let is_endless = |part: Self| part.used > 0 && part.share <= 0;
        match (is_endless(self), is_endless(other)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let of = |part: Self| if part.used == 0 { (0, 1) } else { (part.used, part.share) };
                let ((a, b), (c, d)) = (of(self), of(other));
                (a * d).cmp(&(c * b))
            }
        }
    }
}

/// P1: the dominant share: `used` of the share, the largest over the dimensions. What is used follows each turn.
fn dominant(cluster: &Cluster, start: &Start, queue: &str) -> Part {
    let part = |dimension: &String| Part {
        used: used(cluster, queue, dimension),
        share: start.shares.get(&(queue.to_owned(), dimension.clone())).copied().unwrap_or(0),
    };
    cluster.dimensions().iter().map(part).max_by(|a, b| a.compare(*b)).unwrap_or(Part { used: 0, share: 1 })
}

impl CycleModel {
    /// P1: the shares and ages at the beginning of the cycle.
    pub(super) fn start(&self) -> Start {
        let cluster = self.cluster();
        let mut shares = BTreeMap::new();
        for queue in names(&cluster) {
            for dimension in cluster.dimensions() {
                shares.insert((queue.to_owned(), dimension.clone()), share(&cluster, queue, &dimension));
            }
        }
        Start { shares, ages: self.groups.keys().map(|name| (name.clone(), self.age(name))).collect() }
    }

    /// P1: the priority of the class, else the highest of the waiting members; those with a waiting member; the age of the oldest waiting
    /// member, else of the PodGroup.
    fn age(&self, group: &str) -> (Reverse<i64>, bool, u64) {
        let spec = &self.groups[group];
        let waiting: Vec<_> = self.members.values().filter(|member| member.group == group && member.state == MemberState::Waits).collect();
        let priority = spec.class.or_else(|| waiting.iter().map(|member| member.priority).max()).unwrap_or(0);
        (Reverse(priority), waiting.is_empty(), waiting.iter().map(|member| member.created).min().unwrap_or(spec.created))
    }

    /// P1, within a queue: by age, 30 s younger where it is satisfied; those that are not satisfied; the name.
    pub(super) fn rank(&self, start: &Start, group: &str) -> Rank {
        let (priority, no_member, age) = start.ages[group];
        let satisfied = self.is_satisfied(group);
        (priority, no_member, if satisfied { age + YOUNGER } else { age }, satisfied, group.to_owned())
    }

    /// A4: the rank of a PodGroup as it is now; of a reservation, which is as old as its PodGroup, or its oldest waiting member.
    pub(super) fn rank_now(&self, group: &str, created: Option<u64>) -> Rank {
        let (priority, no_member, age) = self.age(group);
        let age = created.map_or(age, |created| created.min(age));
        let satisfied = self.is_satisfied(group);
        (priority, no_member && created.is_none(), if satisfied { age + YOUNGER } else { age }, satisfied, group.to_owned())
    }

    /// P1: returns the first of these PodGroups, from `root` down, as of now. Those that are not in a leaf below `root` come last: they are only
    /// refused.
    pub(super) fn first_of(&self, start: &Start, candidates: &BTreeSet<String>) -> Option<String> {
        let cluster = self.cluster();
        let queue_of = |name: &String| self.groups[name].queue.as_str();
        let is_inside = |name: &&String| is_below_root(&cluster, queue_of(name)) && is_leaf(&cluster, queue_of(name));
        let (mut left, outside): (Vec<&String>, Vec<&String>) = candidates.iter().partition(is_inside);
        if left.is_empty() {
            return outside.into_iter().min_by_key(|name| self.rank(start, name)).cloned();
        }
        let is_below = |name: &String, queue: &str| walk(&cluster, queue_of(name)).contains(&queue);
        let mut at = "root";
        while !is_leaf(&cluster, at) {
            let first = |child: &&str| left.iter().filter(|name| is_below(name, child)).map(|name| self.rank(start, name)).min();
            let below = children(&cluster, at).into_iter().filter_map(|child| Some((child, first(&child)?)));
            at = below.min_by(|a, b| before(&cluster, start, a, b))?.0;
            left.retain(|name| is_below(name, at));
        }
        left.into_iter().min_by_key(|name| self.rank(start, name)).cloned()
    }
}

/// P1, between sibling queues: the priority, the dominant share, the PodGroup in them and below that comes first, the name.
fn before(cluster: &Cluster, start: &Start, a: &(&str, Rank), b: &(&str, Rank)) -> Ordering {
    let priority = |queue: &str| Reverse(spec(cluster, queue).priority);
    let dominant = |queue: &str| dominant(cluster, start, queue);
    priority(a.0).cmp(&priority(b.0)).then_with(|| dominant(a.0).compare(dominant(b.0))).then_with(|| (&a.1, a.0).cmp(&(&b.1, b.0)))
}
