//! Finds the position in its queue of the PodGroup whose pod waits longest.
//!
//! A metric for the position of each PodGroup would have a series for each of them, and users create them. This has one for each queue.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::cycle::cache::GroupRank;
use crate::cycle::state::SchedulingState;

use super::waiting::oldest_waiting;
use super::{Labels, QueueSnapshot};

/// The rank of a PodGroup that waits, and when its oldest waiting member was created; none where it has no such member.
type Waiting = (GroupRank, Option<Timestamp>);

impl QueueSnapshot {
    pub(super) fn find_positions(&mut self, scheduling: &SchedulingState, labels: &Labels<'_>) {
        let cache = scheduling.cache();
        let mut waiting: BTreeMap<&str, Vec<Waiting>> = BTreeMap::new();
        for group in scheduling.backlog().iter().filter_map(|key| cache.groups().get(key)) {
            let Some(facts) = group.facts.as_ref() else { continue };
            if labels.queue(&facts.queue) == facts.queue {
                waiting.entry(&facts.queue).or_default().push((cache.rank(group, facts), oldest_waiting(group, scheduling)));
            }
        }
        let position = |(queue, waiting): (&str, Vec<Waiting>)| Some((queue.to_owned(), position_of_oldest(&waiting)?));
        self.oldest_position = waiting.into_iter().filter_map(position).collect();
    }
}

/// Returns the position, from 1, of the PodGroup with the oldest waiting member; of several, that of the first in order. None if no member waits.
fn position_of_oldest(waiting: &[Waiting]) -> Option<u64> {
    let with_pods = waiting.iter().filter_map(|(rank, created)| Some((created.as_ref()?, rank)));
    let (_, oldest) = with_pods.min()?;
    let before = waiting.iter().filter(|(rank, _)| rank < oldest).count();
    Some(u64::try_from(before).unwrap_or(u64::MAX).saturating_add(1))
}

#[cfg(test)]
#[path = "position_tests.rs"]
mod tests;
