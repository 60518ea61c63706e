//! Counts the waiting PodGroups in each queue and below it, by cause, with the oldest creation time.
//!
//! A PodGroup counts in its own queue and in all ancestors, as its use does (T2). So the demand can be compared with a deserved amount at any
//! level of the tree. `root` counts each PodGroup once.
//!
//! **The number of series is bounded.** The label `at` names the queue itself or an ancestor; every queue below is [`BELOW`].
//! So a queue with thousands of descendants has no more series than another queue. All queues together have at most [`WAITING`] series, and upper
//! queues come first. A PodGroup beyond this limit is counted once under [`OTHERS`], by reason alone, and still in the upper queues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::QueueTree;
use crate::api::Uid;
use crate::cycle::state::SchedulingState;

use super::{Labels, OTHERS, QueueSnapshot, UNKNOWN, cause_of};

/// The limit of series. PodGroups beyond it are counted by reason alone.
pub const WAITING: usize = 4000;

/// The label `at` if a queue below refuses. It is not a valid queue name.
pub const BELOW: &str = "(below)";

/// The labels of a count: the queue, the reason, the queue that refuses and the resource.
pub type WaitingLabels = (String, &'static str, String, String);

/// The borrowed form of [`WaitingLabels`].
type Series<'a> = (&'a str, &'static str, &'a str, &'a str);

/// The cause of a PodGroup's wait: its queue, the reason, the queue that refuses and the label of the resource.
type GroupCause<'a> = (&'a str, &'static str, Option<&'a str>, &'a str);

impl QueueSnapshot {
    pub(super) fn count_waiting<'a>(&mut self, scheduling: &'a SchedulingState, labels: &Labels<'a>) {
        let mut counts: BTreeMap<GroupCause<'a>, u64> = BTreeMap::new();
        let mut oldest: BTreeMap<&str, i64> = BTreeMap::new();
        for group in scheduling.backlog().iter().filter_map(|key| scheduling.cache().groups().get(key)) {
            // All names without a queue share one label.
            let queue =
                group.facts.as_ref().map(|facts| facts.queue.as_str()).filter(|name| labels.exist.contains(name)).unwrap_or(UNKNOWN);
            let cause = cause_of(group);
            let count = counts
                .entry((queue, cause.code.as_str(), cause.queue, cause.resource.map_or("", |name| labels.resource(name))))
                .or_default();
            *count = count.saturating_add(1);
            // A nominated member waits too, until its victims are gone.
            let others_leave =
                |uid: &&Uid| group.counts.nominated > 0 && scheduling.cache().pods().get(*uid).is_some_and(|pod| pod.nominated.is_some());
            let waiting = group.waiting.iter().chain(group.members.iter().filter(others_leave));
            let created = waiting.filter_map(|uid| scheduling.cache().pods().get(uid)).map(|pod| pod.facts.created.as_second()).min();
            if let Some(created) = created {
                let first = oldest.entry(queue).or_insert(created);
                *first = created.min(*first);
            }
        }
        let tree = scheduling.cache().accounting().quota().tree();
        let names: BTreeSet<&str> = counts.keys().map(|(queue, ..)| *queue).collect();
        let ways: BTreeMap<&str, Way<'_>> = names.into_iter().map(|name| (name, Way::of(name, tree, labels))).collect();
        for (queue, created) in oldest {
            for (_, label) in ways.get(queue).into_iter().flat_map(|way| &way.levels) {
                let first = self.oldest.entry((*label).to_owned()).or_insert(created);
                *first = created.min(*first);
            }
        }
        let series = |cause: &GroupCause<'a>| ways.get(cause.0).map(|way| way.series(labels, *cause)).unwrap_or_default();
        for ((queue, reason, at, resource), count) in counted(&counts, series) {
            self.waiting.insert((queue.to_owned(), reason, at.to_owned(), resource.to_owned()), count);
        }
    }
}

/// Returns the count of each series.
fn counted<'a>(
    counts: &BTreeMap<GroupCause<'a>, u64>,
    series: impl Fn(&GroupCause<'a>) -> Vec<(usize, Series<'a>)>,
) -> BTreeMap<Series<'a>, u64> {
    let mut depths: BTreeMap<Series<'a>, usize> = BTreeMap::new();
    for (depth, one) in counts.keys().flat_map(&series) {
        let least = depths.entry(one).or_insert(depth);
        *least = depth.min(*least);
    }
    let upper_first: BTreeSet<(usize, Series<'a>)> = depths.into_iter().map(|(one, depth)| (depth, one)).collect();
    let shown: BTreeSet<Series<'a>> = upper_first.into_iter().take(WAITING).map(|(_, one)| one).collect();
    let mut sums: BTreeMap<Series<'a>, u64> = BTreeMap::new();
    for (cause, count) in counts {
        let (mut into, beyond): (Vec<_>, Vec<_>) = series(cause).into_iter().map(|(_, one)| one).partition(|one| shown.contains(one));
        if !beyond.is_empty() && into.iter().all(|(queue, ..)| *queue != OTHERS) {
            into.push((OTHERS, cause.1, "", ""));
        }
        for one in into {
            let sum = sums.entry(one).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    sums
}

/// The queues in which a PodGroup of one queue counts.
struct Way<'a> {
    /// The queue first, `root` last.
    queues: Vec<Arc<str>>,
    /// The index in `queues` of each label, from below. If queues share a label, the lowest one counts.
    levels: Vec<(usize, &'a str)>,
}

impl<'a> Way<'a> {
    fn of(name: &str, tree: &QueueTree, labels: &Labels<'a>) -> Self {
        let queues = tree.way(name);
        let mut levels: Vec<(usize, &str)> = Vec::new();
        for (place, queue) in queues.iter().enumerate() {
            let label = labels.queue(queue);
            if levels.iter().all(|(_, known)| *known != label) {
                levels.push((place, label));
            }
        }
        Self { queues, levels }
    }

    /// Returns the series for a cause, each with the depth of its queue.
    fn series(&self, labels: &Labels<'a>, (_, reason, at, resource): GroupCause<'a>) -> Vec<(usize, Series<'a>)> {
        // If the queue has moved since the refusal, the refusing queue may no longer be an ancestor. Then the PodGroup's own queue stands for it.
        let refuses = at.and_then(|at| self.queues.iter().position(|queue| **queue == *at)).unwrap_or(0);
        let at_of = |place: usize| at.map_or("", |at| if refuses >= place { labels.queue(at) } else { BELOW });
        let one = |(place, label): &(usize, &'a str)| (self.queues.len().saturating_sub(*place), (*label, reason, at_of(*place), resource));
        self.levels.iter().map(one).collect()
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
