//! The order of the PodGroups within a queue (P1).

use std::cmp::{Ordering, Reverse};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::api::{GroupFacts, GroupKey};

use super::gang::is_satisfied;
use super::{Cache, Group};

/// How much older a member beyond the minimum must be than the members of another minimum to come first: a stream of new PodGroups does not
/// hold it back for ever.
pub(super) const MINIMUMS_PASS: SignedDuration = SignedDuration::from_secs(30);

/// The rank of a PodGroup within its queue; the smallest comes first (P1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRank {
    /// Its priority.
    pub priority: Reverse<i32>,
    /// Whether no member waits: it asks for room for members that do not exist.
    pub lacks_members: bool,
    /// Whether it has its minimum, and only further members wait.
    pub has_minimum: bool,
    /// When its oldest waiting member was created.
    pub oldest: Timestamp,
    /// Its name.
    pub key: GroupKey,
}

impl Ord for GroupRank {
    fn cmp(&self, other: &Self) -> Ordering {
        let before_key = |rank: &Self| (rank.priority, rank.lacks_members, rank.age(), rank.has_minimum);
        before_key(self).cmp(&before_key(other)).then_with(|| self.key.cmp(&other.key))
    }
}

impl GroupRank {
    /// Since when it waits, as far as that counts.
    fn age(&self) -> Timestamp {
        let later = if self.has_minimum { MINIMUMS_PASS } else { SignedDuration::ZERO };
        self.oldest.checked_add(later).unwrap_or(Timestamp::MAX)
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
        let oldest = self.oldest_waiting(group);
        let (priority, has_minimum) = (Reverse(self.priority(group)), is_satisfied(group, facts));
        let (lacks_members, oldest) = (oldest.is_none(), oldest.unwrap_or(facts.created));
        GroupRank { priority, lacks_members, has_minimum, oldest, key: facts.key.clone() }
    }

    /// When its oldest waiting member was created; none where none waits.
    pub(in crate::cycle) fn oldest_waiting(&self, group: &Group) -> Option<Timestamp> {
        group.waiting.iter().filter_map(|uid| self.pods.get(uid)).map(|member| member.facts.created).min()
    }
}
