//! The order of the PodGroups within a queue (P2).

use std::cmp::{Ordering, Reverse};

use k8s_openapi::jiff::Timestamp;

use crate::api::{GroupFacts, GroupKey};

use super::{Cache, Group};

/// The rank of a PodGroup within its queue; the smallest comes first (P2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRank {
    /// Its priority.
    pub priority: Reverse<i32>,
    /// When its oldest waiting member was created.
    pub oldest: Timestamp,
    /// Its name.
    pub key: GroupKey,
}

impl Ord for GroupRank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.cmp(&other.priority).then_with(|| self.oldest.cmp(&other.oldest)).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for GroupRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Cache {
    /// The rank of the PodGroup in its queue.
    pub(in crate::cycle) fn rank(&self, group: &Group, facts: &GroupFacts) -> GroupRank {
        let oldest = group.waiting.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.created).min();
        GroupRank { priority: Reverse(self.priority(group)), oldest: oldest.unwrap_or(facts.created), key: facts.key.clone() }
    }
}
