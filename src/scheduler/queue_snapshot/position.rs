//! Finds the position in its queue of the PodGroup that waits longest. If it is not near 1, others pass it: they have a higher priority, or lack their minimum.
//!
//! A metric for the position of each PodGroup would have a series for each of them, and users create them. This has one for each queue.

use std::collections::BTreeMap;

use crate::cycle::cache::GroupRank;
use crate::cycle::state::SchedulingState;

use super::{Labels, QueueSnapshot};

impl QueueSnapshot {
    pub(super) fn find_positions(&mut self, scheduling: &SchedulingState, labels: &Labels<'_>) {
        let cache = scheduling.cache();
        let mut ranks: BTreeMap<&str, Vec<GroupRank>> = BTreeMap::new();
        for group in scheduling.backlog().iter().filter_map(|key| cache.groups().get(key)) {
            let Some(facts) = group.facts.as_ref() else { continue };
            if labels.queue(&facts.queue) == facts.queue {
                ranks.entry(&facts.queue).or_default().push(cache.rank(group, facts));
            }
        }
        self.longest_position = ranks.into_iter().map(|(queue, ranks)| (queue.to_owned(), position_of_longest(&ranks))).collect();
    }
}

/// Returns the position, from 1, of the PodGroup that waits longest; of several, that of the first in order. 1 if there is none.
fn position_of_longest(ranks: &[GroupRank]) -> u64 {
    let longest = ranks.iter().min_by_key(|rank| (rank.oldest, *rank));
    let before = ranks.iter().filter(|rank| longest.is_some_and(|longest| *rank < longest)).count();
    u64::try_from(before).unwrap_or(u64::MAX).saturating_add(1)
}

#[cfg(test)]
#[path = "position_tests.rs"]
mod tests;
