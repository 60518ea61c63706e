//! Where are the members of a group?

use serde_json::{Value, json};

use crate::api::pod_facts::PodPhase;
use crate::api::{GroupFacts, PodFacts};

/// How many members are where. Each stands in one of the fields after the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All that exist.
    pub exist: u32,
    /// With a node, not leaving.
    pub placed: u32,
    /// Without a node, and nothing keeps them from being placed.
    pub waiting: u32,
    /// Held by a scheduling gate.
    pub gated: u32,
    /// Asking for something that this scheduler does not honour, or that cannot be read.
    pub blocked: u32,
    /// Being deleted.
    pub leaving: u32,
    /// Ended well.
    pub succeeded: u32,
    /// Ended badly.
    pub failed: u32,
    /// What keeps the blocked ones, each once.
    pub blocked_by: Vec<String>,
}

impl Members {
    /// Of the pods that are members of the group.
    #[must_use]
    pub fn of(pods: &[&PodFacts]) -> Self {
        let mut members = Self::default();
        for pod in pods {
            let place = match (pod.phase, &pod.node) {
                (PodPhase::Succeeded, _) => &mut members.succeeded,
                (PodPhase::Failed, _) => &mut members.failed,
                (_, _) if pod.deleting => &mut members.leaving,
                (_, Some(_)) => &mut members.placed,
                (_, None) if pod.gated => &mut members.gated,
                (_, None) if !pod.unsupported.is_empty() || !pod.faults.is_empty() => &mut members.blocked,
                (_, None) => &mut members.waiting,
            };
            *place = place.saturating_add(1);
            members.exist = members.exist.saturating_add(1);
            if pod.node.is_none() && !pod.phase.ended() {
                members.blocked_by.extend(pod.unsupported.iter().map(|field| field.field().to_owned()));
                members.blocked_by.extend(pod.faults.iter().map(ToString::to_string));
            }
        }
        members.blocked_by.sort();
        members.blocked_by.dedup();
        members
    }

    /// How many more must find places together before the group has its minimum.
    #[must_use]
    pub fn needed(&self, group: &GroupFacts) -> u32 {
        group.min_member.saturating_sub(self.placed.saturating_add(self.succeeded))
    }

    /// As it stands in the JSON of `why`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "exist": self.exist,
            "placed": self.placed,
            "waiting": self.waiting,
            "gated": self.gated,
            "blocked": self.blocked,
            "leaving": self.leaving,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "blockedBy": self.blocked_by,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::{group, pod, running};

    #[test]
    fn members_are_counted_where_they_are() {
        let gated = PodFacts { gated: true, ..pod("ns", "g", "g", &[("cpu", 2)]) };
        let leaving = PodFacts { deleting: true, ..running(pod("ns", "l", "g", &[("cpu", 2)]), "n") };
        let list = [
            running(pod("ns", "a", "g", &[("cpu", 2)]), "n"),
            pod("ns", "b", "g", &[("cpu", 2)]),
            pod("ns", "c", "g", &[("cpu", 3)]),
            gated,
            leaving,
        ];
        let pods: Vec<_> = list.iter().collect();
        let members = Members::of(&pods);
        assert_eq!((members.exist, members.placed, members.waiting, members.gated, members.leaving), (5, 1, 2, 1, 1));
        assert_eq!(members.needed(&group("ns", "g", 3, "q")), 2);
    }
}
