//! Checks whether the nodes have room for the waiting members, without queues and without other waiting pods.
//!
//! It runs the scheduler's own cycle on the nodes, the pods on them and this one PodGroup, so the counts are those of the scheduler. The
//! input is the API's objects, so no running scheduler is needed. The flags of the scheduler are not among them: the order of nodes is the
//! default one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::accounting::DEFAULT_QUEUE;
use crate::api::workload::NamespaceLabels;
use crate::api::{GroupFacts, NodeFacts, PodFacts, Uid};
use crate::cycle::explain::{Count, Exceeds, Reason, Refusal, Tally};
use crate::cycle::next_member::next_member;
use crate::cycle::placement::Strategy;
use crate::cycle::policy::Policy;
use crate::cycle::state::SchedulingState;
use crate::resources::{ResourceName, quantity};

use super::domains::{ByDomain, domains};

/// Returns a policy for a single cycle, without preemption and timeouts. Nodes are chosen as by a scheduler without the flag `--placement`.
fn policy() -> Policy {
    Policy {
        placement: Strategy::default(),
        evictions: false,
        admit_within_nodes: false,
        admission_timeout: Duration::ZERO,
        release: Duration::ZERO,
        volume_timeout: Duration::ZERO,
    }
}

/// The verdict of the nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// All members that must be placed together, or all waiting members, fit.
    Enough {
        /// The number of members that fit.
        members: usize,
    },
    /// Too few members fit.
    TooFew {
        /// The number of members that must be placed together.
        needed: u32,
        /// The number of members that fit.
        placed: u32,
        /// The reasons of the nodes for the next member.
        tally: Arc<Tally>,
        /// The next member, if it is known.
        next: Option<Box<Next>>,
        /// Of what the gang requests more than all nodes offer together.
        exceeds: Option<Exceeds>,
    },
    /// The obstacle is not the nodes.
    Other(String),
}

/// The member that finds no node, after those before it have found theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// Its UID.
    pub uid: Uid,
    /// Its name.
    pub name: String,
    /// Why the nodes of each topology domain refuse it. Empty where no topology key matters to it.
    pub domains: Vec<ByDomain>,
}

/// Returns the verdict on the waiting members; `None` if no member waits. `namespaces` are read by the terms of pods that select
/// namespaces; `barred` are the node groups that are reserved for other queues.
#[must_use]
pub(super) fn places(
    group: &GroupFacts,
    pods: &[PodFacts],
    nodes: &[NodeFacts],
    namespaces: &[NamespaceLabels],
    barred: BTreeSet<String>,
) -> Option<Places> {
    let schedulers: BTreeSet<String> = pods.iter().filter(|pod| pod.group == group.key).map(|pod| pod.scheduler.to_string()).collect();
    let mut scheduling = SchedulingState::new(schedulers);
    scheduling.name_node_groups(barred);
    // A user may not read the volumes of the cluster. What they refuse, the scheduler says itself.
    scheduling.ignore_volumes();
    namespaces.iter().cloned().for_each(|namespace| scheduling.apply_namespace(namespace));
    nodes.iter().cloned().for_each(|node| scheduling.apply_node(node));
    // Other waiting pods and other PodGroups are left out, so the cycle tries only this PodGroup.
    pods.iter().filter(|pod| pod.node.is_some() || pod.group == group.key).cloned().for_each(|pod| scheduling.apply_pod(pod));
    scheduling.apply_group(GroupFacts { queue: DEFAULT_QUEUE.to_owned(), min_resources: None, preemptable: true, ..group.clone() });
    let waiting = scheduling.cache().groups().get(&group.key).is_some_and(|group| !group.waiting.is_empty() || !group.blocked.is_empty());
    if !waiting {
        return None;
    }
    let plan = crate::cycle::run(&mut scheduling, &policy(), Duration::ZERO);
    let members = plan.binds.iter().filter(|bind| bind.group == group.key).count();
    let refusal = scheduling.cache().groups().get(&group.key).and_then(|group| group.refusal.clone());
    Some(match refusal.as_deref() {
        None => Places::Enough { members },
        Some(Refusal::Nodes { needed, placed, tally, exceeds, .. }) => {
            let next = next(&mut scheduling, group, pods, nodes).map(Box::new);
            let exceeds = exceeds.clone().filter(|exceeds| *needed > 1 && exceeds.offered.is_positive());
            Places::TooFew { needed: *needed, placed: *placed, tally: Arc::clone(tally), next, exceeds }
        }
        Some(other) => Places::Other(other.to_string()),
    })
}

/// Returns the next member, with the nodes that refuse it by topology domain.
fn next(scheduling: &mut SchedulingState, group: &GroupFacts, pods: &[PodFacts], nodes: &[NodeFacts]) -> Option<Next> {
    let refused = next_member(scheduling, &policy(), &group.key)?;
    let pod = pods.iter().find(|pod| pod.uid == refused.pod)?;
    Some(Next { uid: refused.pod.clone(), name: pod.name.to_string(), domains: domains(pod, &refused, nodes) })
}

/// Returns the reasons of a tally, the most frequent first.
#[must_use]
pub(super) fn most_frequent_first(tally: &Tally) -> Vec<(&Reason, &Count)> {
    let mut listed: Vec<_> = tally.reasons.iter().collect();
    listed.sort_by(|a, b| b.1.nodes.cmp(&a.1.nodes).then(a.0.cmp(b.0)));
    listed
}

/// Returns what the words of a reason leave out, in brackets: the amounts, the taint, the topology key.
#[must_use]
pub(super) fn addition(reason: &Reason, count: &Count) -> String {
    // Both have the same words.
    let words = if *reason == Reason::NodeSelector {
        Some("nodeSelector")
    } else {
        Some("required node affinity").filter(|_| *reason == Reason::NodeAffinity)
    };
    let addition = words.map(str::to_owned).or_else(|| reason.detail().map(|(_, value)| value));
    let amounts = lacking(reason).map(|name| {
        let shown = |amount| quantity::format(amount, name.style());
        format!("requested {}, most free {}", shown(count.asked), shown(count.most_free))
    });
    amounts.or(addition).map(|text| format!(" ({text})")).unwrap_or_default()
}

/// Returns the resource that a node lacks; `None` for any other reason.
#[must_use]
pub(super) fn lacking(reason: &Reason) -> Option<&ResourceName> {
    if let Reason::Lacks(name) = reason { Some(name) } else { None }
}

impl Places {
    /// Returns the UID of the member that finds no node, if it is known.
    #[must_use]
    pub fn next_member(&self) -> Option<&Uid> {
        if let Self::TooFew { next: Some(next), .. } = self { Some(&next.uid) } else { None }
    }

    /// Returns the JSON for `why`.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Enough { members } => json!({ "verdict": "enough", "members": members }),
            Self::Other(text) => json!({ "verdict": "other", "message": text }),
            Self::TooFew { needed, placed, tally, next, exceeds: _ } => {
                let reason = |(reason, count): (&Reason, &Count)| {
                    let shown = |amount| lacking(reason).map(|name| quantity::format(amount, name.style()));
                    json!({
                        "nodes": count.nodes,
                        "reason": reason.to_string(),
                        "detail": reason.detail().map(|(_, value)| value),
                        "resource": lacking(reason).map(ResourceName::as_str),
                        "asked": shown(count.asked),
                        "mostFree": shown(count.most_free),
                    })
                };
                json!({
                    "verdict": "tooFew",
                    "needed": needed,
                    "placed": placed,
                    "nodes": tally.nodes,
                    "reasons": most_frequent_first(tally).into_iter().map(reason).collect::<Vec<_>>(),
                    "next": next.as_ref().map(|next| &next.name),
                    "byTopology": next.iter().flat_map(|next| &next.domains).map(ByDomain::json).collect::<Vec<_>>(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::label_selector::LabelSelector;
    use crate::cycle::testing::{group, keeps_away, node, pod, running};

    #[test]
    fn the_verdict_ignores_queues_and_other_waiting_pods() {
        let nodes = [node("n1", &[("cpu", 4)]), node("n2", &[("cpu", 4)])];
        let mut pods: Vec<_> = ["a", "b", "c"].map(|name| pod("ns", name, "g", &[("cpu", 3)])).into();
        let gang = |minimum| group("ns", "g", minimum, "no-such-queue");
        let Some(Places::TooFew { needed: 3, placed: 2, tally, .. }) = places(&gang(3), &pods, &nodes, &[], BTreeSet::new()) else {
            panic!("not two of three")
        };
        assert_eq!(tally.to_string(), "0/2 nodes are available: 2 Insufficient cpu; cpu: requested 3, most free 1");
        assert_eq!(places(&gang(2), &pods[..2], &nodes, &[], BTreeSet::new()), Some(Places::Enough { members: 2 }));
        // Another PodGroup that waits uses no node; a placed one does.
        pods.truncate(2);
        pods.push(pod("ns", "x", "other", &[("cpu", 4)]));
        assert_eq!(places(&gang(2), &pods, &nodes, &[], BTreeSet::new()), Some(Places::Enough { members: 2 }));
        pods.push(running(pod("ns", "y", "other", &[("cpu", 4)]), "n2"));
        assert!(matches!(places(&gang(2), &pods, &nodes, &[], BTreeSet::new()), Some(Places::TooFew { needed: 2, placed: 1, .. })));
    }

    #[test]
    fn nodes_are_chosen_as_by_a_scheduler_without_flags() {
        const GPU: &str = "example.com/gpu";
        let nodes = ["n1", "n2"].map(|name| node(name, &[("cpu", 8), (GPU, 2)]));
        let pods = [("a", 1), ("b", 1), ("c", 2), ("d", 9)].map(|(name, gpus)| pod("ns", name, "g", &[(GPU, gpus)]));
        // Packed by devices, a and b share a node and c has the other. Spread, a and b would take both, and c would find none.
        let Some(Places::TooFew { placed: 3, next: Some(next), .. }) =
            places(&group("ns", "g", 4, "default"), &pods, &nodes, &[], BTreeSet::new())
        else {
            panic!("not three of four")
        };
        assert_eq!(next.name, "d");
    }

    #[test]
    fn a_pod_may_keep_others_away_by_the_labels_of_their_namespace() {
        let mut nodes = [node("n1", &[("cpu", 4)])];
        nodes[0].labels.insert("zone".into(), "a".into());
        let mut keeper = running(pod("theirs", "keeper", "other", &[]), "n1");
        let mut terms = (*keeps_away("theirs", ("none", "none"), "zone")).clone();
        terms.anti_affinity[0].pods.namespace_selector = LabelSelector::label("team", "a");
        terms.anti_affinity[0].pods.labels = LabelSelector::everything();
        keeper.terms = Arc::new(terms);
        let pods = [pod("ns", "a", "g", &[("cpu", 1)]), keeper];
        let of_team = |team: &str| {
            let labels = NamespaceLabels { name: Arc::from("ns"), labels: [("team".to_owned(), team.to_owned())].into() };
            places(&group("ns", "g", 1, "default"), &pods, &nodes, &[labels], BTreeSet::new())
        };
        assert!(matches!(of_team("a"), Some(Places::TooFew { placed: 0, .. })));
        assert_eq!(of_team("b"), Some(Places::Enough { members: 1 }));
    }

    #[test]
    fn placed_members_and_an_incomplete_gang_have_their_own_verdicts() {
        let nodes = [node("n1", &[("cpu", 4)])];
        let placed = [running(pod("ns", "a", "g", &[("cpu", 3)]), "n1")];
        assert_eq!(places(&group("ns", "g", 1, "default"), &placed, &nodes, &[], BTreeSet::new()), None);
        let few = [pod("ns", "a", "g", &[("cpu", 3)])];
        let Some(Places::Other(text)) = places(&group("ns", "g", 2, "default"), &few, &nodes, &[], BTreeSet::new()) else {
            panic!("not too few members")
        };
        assert_eq!(text, "the gang needs 2 members, 1 exist");
    }
}
