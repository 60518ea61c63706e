//! Counts the members of a PodGroup by state.

use serde_json::{Value, json};

use crate::api::pod_facts::PodPhase;
use crate::api::{GroupFacts, PodFacts};

/// The number of members in each state. Each member counts in `exist` and in one other field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All members.
    pub exist: u32,
    /// Bound to a node, not being deleted.
    pub placed: u32,
    /// Schedulable, without a node.
    pub waiting: u32,
    /// With a scheduling gate.
    pub gated: u32,
    /// With an unsupported or invalid field.
    pub blocked: u32,
    /// Being deleted.
    pub leaving: u32,
    /// Succeeded.
    pub succeeded: u32,
    /// Failed.
    pub failed: u32,
    /// The unsupported and invalid fields, each once.
    pub blocked_by: Vec<String>,
}

impl Members {
    /// Counts the pods of a PodGroup.
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

    /// Returns the number of further members that must be placed together to reach minMember.
    #[must_use]
    pub fn needed(&self, group: &GroupFacts) -> u32 {
        group.min_member.saturating_sub(self.placed.saturating_add(self.succeeded))
    }

    /// Returns the JSON for `why`.
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
    fn members_are_counted_by_state() {
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
