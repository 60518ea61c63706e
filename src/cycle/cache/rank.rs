//! The order of the PodGroups within a queue (P2).

use std::cmp::{Ordering, Reverse};

use k8s_openapi::jiff::Timestamp;

use crate::api::{GroupFacts, GroupKey};

use super::gang::is_satisfied;
use super::{Cache, Group};

/// The rank of a PodGroup within its queue; the smallest comes first (P2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRank {
    /// Its priority.
    pub priority: Reverse<i32>,
    /// Whether it has its minimum, and only further members wait.
    pub has_minimum: bool,
    /// When its oldest waiting member was created.
    pub oldest: Timestamp,
    /// Its name.
    pub key: GroupKey,
}

impl Ord for GroupRank {
    fn cmp(&self, other: &Self) -> Ordering {
        let before_key = |rank: &Self| (rank.priority, rank.has_minimum, rank.oldest);
        before_key(self).cmp(&before_key(other)).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for GroupRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Cache {
    /// The rank of the PodGroup in its queue.
    pub(crate) fn rank(&self, group: &Group, facts: &GroupFacts) -> GroupRank {
        let oldest = group.waiting.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.created).min();
        let (priority, has_minimum) = (Reverse(self.priority(group)), is_satisfied(group, facts));
        GroupRank { priority, has_minimum, oldest: oldest.unwrap_or(facts.created), key: facts.key.clone() }
    }
}
