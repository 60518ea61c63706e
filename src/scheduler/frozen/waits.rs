//! How many groups wait in each queue and below it, why, and since when?
//!
//! A group waits in its own queue and in every one above it, as what is used counts for all of them (T3): so what a queue deserves can be held against what is wanted there,
//! wherever in the tree it is stated. `root` has everybody, and everybody once.
//!
//! **Few series.** What refuses is the queue itself, one above it, or one [`BELOW`] it, whichever that is: its own series name it. So a queue with thousands below it has no more
//! series than another, and `root` a few hundred at most. Of all together there are [`WAITING`], the upper queues' first; who is in a series beyond them is counted by the reason alone
//! among [`OTHERS`], once, and still in the queues above.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::QueueTree;
use crate::api::Uid;
use crate::cycle::world::World;

use super::{Frozen, Labels, OTHERS, UNKNOWN, why};

/// So many series say who waits for what; what is beyond is counted by its reason alone.
pub const WAITING: usize = 4000;

/// Some queue below the one that is told of refuses. No queue can be called so.
pub const BELOW: &str = "(below)";

/// The labels of those that wait: the queue, the reason, the queue that refuses, the dimension.
pub type Waits = (String, &'static str, String, String);

/// The same, borrowed.
type Series<'a> = (&'a str, &'static str, &'a str, &'a str);

/// What a group says: its queue, the reason, the queue that refuses, the dimension's label.
type Said<'a> = (&'a str, &'static str, Option<&'a str>, &'a str);

impl Frozen {
    pub(super) fn waits<'a>(&mut self, world: &'a World, labels: &Labels<'a>) {
        let mut counts: BTreeMap<Said<'a>, u64> = BTreeMap::new();
        let mut oldest: BTreeMap<&str, i64> = BTreeMap::new();
        for group in world.backlog().iter().filter_map(|key| world.groups().get(key)) {
            // Names that no queue has are one, however many somebody writes.
            let queue =
                group.facts.as_ref().map(|facts| facts.queue.as_str()).filter(|name| labels.exist.contains(name)).unwrap_or(UNKNOWN);
            let why = why(group);
            let count =
                counts.entry((queue, why.code.as_str(), why.queue, why.resource.map_or("", |name| labels.resource(name)))).or_default();
            *count = count.saturating_add(1);
            // For whom others are leaving waits as well.
            let others_leave = |uid: &&Uid| group.counts.nominated > 0 && world.pods().get(*uid).is_some_and(|pod| pod.nominated.is_some());
            let waiting = group.waiting.iter().chain(group.members.iter().filter(others_leave));
            let created = waiting.filter_map(|uid| world.pods().get(uid)).map(|pod| pod.facts.created.as_second()).min();
            if let Some(created) = created {
                let first = oldest.entry(queue).or_insert(created);
                *first = created.min(*first);
            }
        }
        let tree = world.books().quota().tree();
        let names: BTreeSet<&str> = counts.keys().map(|(queue, ..)| *queue).collect();
        let ways: BTreeMap<&str, Way<'_>> = names.into_iter().map(|name| (name, Way::of(name, tree, labels))).collect();
        for (queue, created) in oldest {
            for (_, label) in ways.get(queue).into_iter().flat_map(|way| &way.levels) {
                let first = self.oldest.entry((*label).to_owned()).or_insert(created);
                *first = created.min(*first);
            }
        }
        let series = |said: &Said<'a>| ways.get(said.0).map(|way| way.series(labels, *said)).unwrap_or_default();
        for ((queue, reason, at, resource), count) in counted(&counts, series) {
            self.waiting.insert((queue.to_owned(), reason, at.to_owned(), resource.to_owned()), count);
        }
    }
}

/// Every series and how many are in it.
fn counted<'a>(counts: &BTreeMap<Said<'a>, u64>, series: impl Fn(&Said<'a>) -> Vec<(usize, Series<'a>)>) -> BTreeMap<Series<'a>, u64> {
    let mut depths: BTreeMap<Series<'a>, usize> = BTreeMap::new();
    for (depth, one) in counts.keys().flat_map(&series) {
        let least = depths.entry(one).or_insert(depth);
        *least = depth.min(*least);
    }
    let upper_first: BTreeSet<(usize, Series<'a>)> = depths.into_iter().map(|(one, depth)| (depth, one)).collect();
    let shown: BTreeSet<Series<'a>> = upper_first.into_iter().take(WAITING).map(|(_, one)| one).collect();
    let mut sums: BTreeMap<Series<'a>, u64> = BTreeMap::new();
    for (said, count) in counts {
        let (mut into, beyond): (Vec<_>, Vec<_>) = series(said).into_iter().map(|(_, one)| one).partition(|one| shown.contains(one));
        if !beyond.is_empty() && into.iter().all(|(queue, ..)| *queue != OTHERS) {
            into.push((OTHERS, said.1, "", ""));
        }
        for one in into {
            let sum = sums.entry(one).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    sums
}

/// The queues in which a group of one queue waits.
struct Way<'a> {
    /// That queue first, `root` last.
    queues: Vec<Arc<str>>,
    /// The place in `queues` of each label, from below; of queues that are summed under one label the lowest.
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

    /// The series that count who says this, with how far from `root` their queues are.
    fn series(&self, labels: &Labels<'a>, (_, reason, at, resource): Said<'a>) -> Vec<(usize, Series<'a>)> {
        // What was said before the queue moved elsewhere is of a queue that is not on the way any more: it stays what the group's own queue says.
        let refuses = at.and_then(|at| self.queues.iter().position(|queue| **queue == *at)).unwrap_or(0);
        let at_of = |place: usize| at.map_or("", |at| if refuses >= place { labels.queue(at) } else { BELOW });
        let one = |(place, label): &(usize, &'a str)| (self.queues.len().saturating_sub(*place), (*label, reason, at_of(*place), resource));
        self.levels.iter().map(one).collect()
    }
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;
