//! Finds the position in its queue of the PodGroup whose pod waits longest.
//!
//! A metric for the position of each PodGroup would have a series for each of them, and users create them. This has one for each queue.

use std::collections::BTreeMap;

use crate::cycle::cache::GroupRank;
use crate::cycle::state::SchedulingState;

use super::{Labels, QueueSnapshot};

/// The rank of a PodGroup that waits, and whether it has a waiting member. A nominated member does not count: it has its place.
type Waiting = (GroupRank, bool);

impl QueueSnapshot {
    pub(super) fn find_positions(&mut self, scheduling: &SchedulingState, labels: &Labels<'_>) {
        let cache = scheduling.cache();
        let mut waiting: BTreeMap<&str, Vec<Waiting>> = BTreeMap::new();
        for group in scheduling.backlog().iter().filter_map(|key| cache.groups().get(key)) {
            let Some(facts) = group.facts.as_ref() else { continue };
            if labels.queue(&facts.queue) == facts.queue {
                waiting.entry(&facts.queue).or_default().push((cache.rank(group, facts), !group.waiting.is_empty()));
            }
        }
        let position = |(queue, waiting): (&str, Vec<Waiting>)| Some((queue.to_owned(), position_of_oldest(&waiting)?));
        self.oldest_position = waiting.into_iter().filter_map(position).collect();
    }
}

/// Returns the position, from 1, of the PodGroup with the oldest waiting member; of several, that of the first in order. None if no member waits.
fn position_of_oldest(waiting: &[Waiting]) -> Option<i64> {
    let with_pods = waiting.iter().filter(|(_, has_pods)| *has_pods).map(|(rank, _)| rank);
    let oldest = with_pods.min_by_key(|rank| (rank.oldest, *rank))?;
    let before = waiting.iter().filter(|(rank, _)| rank < oldest).count();
    Some(i64::try_from(before).unwrap_or(i64::MAX).saturating_add(1))
}

#[cfg(test)]
#[path = "position_tests.rs"]
mod tests;
