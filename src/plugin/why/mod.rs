//! The report of `why`: the cause of a PodGroup's wait, and what must change.
//!
//! ```text
//!  the scheduler's refusal      the PodGroup's condition and Events
//!  members                      are there enough, and are they schedulable?
//!  the queue and its ancestors  is one invalid, closed or full, in which resource, by how much?
//!  the nodes                    how many nodes fit the next member, and what do the other nodes lack? By topology domain, where one matters
//!        └────▶ changes: one for each obstacle
//! ```
//!
//! The scheduler's message is shown unchanged and never parsed. Its code is in a separate condition, and its amounts come from the debug
//! endpoint. Limits of queues are not computed here. Nodes, members and the tree are checked by the scheduler's own functions
//! ([`crate::accounting`], [`crate::cycle`]). Pure: the time is an argument.

mod advice;
mod changes;
mod domains;
mod members;
mod other_pods;
mod places;
mod text;

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::names::WAITING;
use crate::api::podgroup::PodGroupCondition;
use crate::api::quantities::written;
use crate::api::workload::NamespaceLabels;
use crate::api::{GroupFacts, NodeFacts, PodFacts};
use crate::cycle::explain::{Code, Explanation, Refusal};
use crate::resources::Resources;
use crate::scheduler::dialect::UNSCHEDULABLE;

use super::answers::{self, WaitingAnswer};
use super::events::Event;
use super::gap::{self, Gap};
use super::queues::{Level, Queues};

use advice::Refused;
pub use members::Members;
pub use places::Places;

/// The input of the report.
#[derive(Debug)]
pub struct Facts {
    /// The PodGroup.
    pub group: GroupFacts,
    /// The scheduler's answer about the PodGroup, if it was asked.
    pub answer: Option<WaitingAnswer>,
    /// The owner, as in `ReplicaSet train-7c9`.
    pub owner: Option<String>,
    /// Further PodGroups of the object in the command.
    pub others: Vec<String>,
    /// The pods of the cluster, or only of the PodGroup's namespace.
    pub pods: Option<Vec<PodFacts>>,
    /// Whether `pods` are all pods of the cluster. Otherwise the free resources are unknown.
    pub all_pods: bool,
    /// The nodes.
    pub nodes: Option<Vec<NodeFacts>>,
    /// The labels of the namespaces. Empty where no pod's terms select namespaces.
    pub namespaces: Option<Vec<NamespaceLabels>>,
    /// The queues.
    pub queues: Option<Queues>,
    /// The Events of the PodGroup and its owner, the newest first; before them those of its claims.
    pub events: Vec<Event>,
    /// The facts that could not be read.
    pub gaps: Vec<Gap>,
}

/// The report about a PodGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    namespace: String,
    name: String,
    owner: Option<String>,
    others: Vec<String>,
    queue: String,
    phase: Option<String>,
    minimum: u32,
    waits: bool,
    /// Whether it is completed, so that it needs no queue.
    over: bool,
    since: Timestamp,
    /// The scheduler's condition, if the PodGroup waits.
    said: Option<ShownRefusal>,
    /// The condition of a waiting member, if the PodGroup has none.
    pod: Option<ShownPod>,
    /// The details from the scheduler, if it answered, and every amount for which the queues refuse the PodGroup.
    explanation: Option<Explanation>,
    shortages: Vec<Explanation>,
    members: Option<Members>,
    asked: Resources,
    /// Whether it is admitted for this and reserves none of it.
    unreserved: bool,
    /// Whether the PodGroup is admitted. Then its request is reserved, unless it is `unreserved` or its members have scheduling gates.
    admitted: bool,
    /// Why it waits, from the scheduler or from the condition.
    code: Option<Code>,
    /// The fault of an invalid queue.
    refusal: Option<String>,
    /// Its position among the PodGroups that wait in its queue, from 1; `None` if the scheduler did not say it.
    position: Option<u32>,
    /// The queue and its ancestors.
    levels: Vec<Level>,
    places: Option<Places>,
    events: Vec<Event>,
    changes: Vec<String>,
    unknown: Vec<Gap>,
    now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
struct ShownRefusal {
    reason: String,
    message: String,
    code: Option<Code>,
}

/// What the scheduler wrote onto a pod.
#[derive(Clone, Debug, PartialEq)]
struct ShownPod {
    name: String,
    reason: String,
    message: String,
}

impl Report {
    /// Creates the report for the time `now`.
    #[must_use]
    pub fn of(facts: Facts, now: Timestamp) -> Self {
        let Facts { group, answer, owner, others, pods, all_pods, nodes, namespaces, queues, events, gaps } = facts;
        let of_group: Option<Vec<&PodFacts>> = pods.as_ref().map(|pods| pods.iter().filter(|pod| pod.group == group.key).collect());
        let members = of_group.as_deref().map(Members::of);
        let admitted = group.status.phase.as_deref() == Some("Inqueue");
        let condition = unschedulable(&group);
        let position = answer.as_ref().and_then(|answer| answer.position);
        let asked = answers::amounts(answer.as_ref().and_then(|answer| answer.requested.as_ref())).unwrap_or_default();
        let unreserved = answer.as_ref().is_some_and(|answer| answer.unreserved);
        let (explanation, shortages) = answer.map(|answer| (answer.why, answer.shortages)).unzip();
        let shortages = shortages.unwrap_or_default();
        let code = explanation.as_ref().map(|all| all.code).or_else(|| waiting_for(&group));
        let waits = !group.is_over() && members.as_ref().map_or(condition.is_some(), |members| waits(&group, members));
        let fault = queues.as_ref().and_then(|queues| queues.refusal(&group.queue));
        let on_top = if admitted || !waits { Resources::new() } else { asked.clone() };
        let levels: Vec<Level> = queues.as_ref().map(|queues| queues.levels(&group.queue, &on_top)).unwrap_or_default();
        let places = match (&pods, &nodes, &namespaces) {
            (Some(pods), Some(nodes), Some(namespaces)) if all_pods && waits => {
                let barred = queues.as_ref().map(|queues| queues.barred_groups(&group.queue)).unwrap_or_default();
                places::places(&group, pods, nodes, namespaces, barred)
            }
            _ => None,
        };
        let next = places.as_ref().and_then(Places::next_member);
        let next = next.and_then(|uid| of_group.iter().flatten().copied().find(|pod| pod.uid == *uid));
        let changes = if waits {
            let known = changes::Known {
                group: &group,
                owned: owner.is_some(),
                members: members.as_ref(),
                queues: queues.as_ref(),
                fault: fault.as_ref(),
                levels: &levels,
                places: places.as_ref(),
                next,
                nodes: nodes.as_deref().unwrap_or_default(),
                namespaces: namespaces.as_deref().unwrap_or_default(),
                said: condition.is_some() || code.is_some() || has_run(&group),
                refused: code.map(|code| Refused { code, explanation: explanation.as_ref(), own: &group.queue }),
                shortages: &shortages,
                schedulers: of_group.iter().flatten().map(|pod| pod.scheduler.to_string()).collect(),
            };
            changes::changes(&known)
        } else {
            Vec::new()
        };
        let said = condition.filter(|_| waits).map(|condition| ShownRefusal {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            code,
        });
        let since = condition.and_then(|condition| condition.last_transition_time.as_ref()?.parse().ok());
        let pod = of_group.iter().flatten().find_map(|pod| ShownPod::of(pod)).filter(|_| waits && said.is_none());
        // Pods beyond minMember wait without a condition on the PodGroup.
        let oldest = without_node(of_group.iter().flatten().copied()).map(|pod| pod.created).min();
        let since = since.or(oldest).unwrap_or(group.created);
        Self {
            namespace: group.key.namespace.to_string(),
            name: group.key.name.to_string(),
            owner,
            others,
            queue: group.queue.clone(),
            phase: group.status.phase.clone(),
            minimum: group.min_member,
            waits,
            over: group.is_over(),
            since,
            events: without_shown(events, said.is_some()),
            said,
            pod,
            explanation,
            shortages,
            members,
            asked,
            unreserved,
            admitted,
            code,
            refusal: fault.map(|fault| Refusal::Queue(fault).to_string()),
            position,
            levels,
            places,
            changes,
            unknown: gaps,
            now,
        }
    }

    /// Returns whether members are missing because of their scheduling gates.
    fn is_gated(&self) -> bool {
        let missing = [Code::SchedulingGated, Code::NotEnoughPods, Code::NotEnoughPodsOfTask, Code::NotEnoughSubGroups];
        self.members.as_ref().is_some_and(|members| members.gated > 0) && self.code.is_some_and(|code| missing.contains(&code))
    }

    /// Returns the output of `why -o json`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "podGroup": {
                "namespace": self.namespace,
                "name": self.name,
                "owner": self.owner,
                "queue": self.queue,
                "phase": self.phase,
                "minMember": self.minimum,
                "admitted": self.admitted,
            },
            "otherPodGroups": self.others,
            "waits": self.waits,
            "since": self.since.to_string(),
            "said": self.said.as_ref().map(|said| json!({ "reason": said.reason, "code": said.code, "message": said.message })),
            "pod": self.pod.as_ref().map(|pod| json!({ "name": pod.name, "reason": pod.reason, "message": pod.message })),
            "explanation": self.explanation,
            "shortages": self.shortages,
            "members": self.members.as_ref().map(Members::json),
            "asked": written(&self.asked),
            "queueRefusal": self.refusal,
            "position": self.position,
            "queues": self.levels.iter().map(Level::json).collect::<Vec<_>>(),
            "nodes": self.places.as_ref().map(Places::json),
            "events": self.events.iter().map(Event::json).collect::<Vec<_>>(),
            "changes": self.changes,
            "unknown": gap::json(&self.unknown),
        })
    }
}

impl ShownPod {
    /// Reads the condition PodScheduled of a pod that waits for a node. The API server writes the condition of a pod with scheduling gates.
    fn of(pod: &PodFacts) -> Option<Self> {
        let pod = without_node(std::iter::once(pod)).find(|pod| !pod.gated)?;
        let condition = pod.scheduled_condition.as_ref().filter(|condition| condition.status == "False")?;
        let message = condition.message.clone().filter(|message| !message.is_empty())?;
        Some(Self { name: pod.name.to_string(), reason: condition.reason.clone().unwrap_or_default(), message })
    }
}

/// Returns the last Unschedulable condition of the PodGroup, if it is True.
pub(super) fn unschedulable(group: &GroupFacts) -> Option<&PodGroupCondition> {
    let last = group.status.conditions.iter().flatten().rfind(|condition| condition.kind.as_deref() == Some(UNSCHEDULABLE));
    last.filter(|condition| condition.status.as_deref() == Some("True"))
}

/// Returns whether a scheduler has placed the PodGroup's minimum. It need not say anything about pods beyond that on the PodGroup.
fn has_run(group: &GroupFacts) -> bool {
    group.status.phase.as_deref() == Some("Running")
}

/// Returns the members that wait for a node.
fn without_node<'a>(members: impl Iterator<Item = &'a PodFacts>) -> impl Iterator<Item = &'a PodFacts> {
    members.filter(|pod| pod.node.is_none() && !pod.phase.ended() && !pod.deleting)
}

/// Returns the code in the PodGroup's condition; `None` if there is none, or if another scheduler or version wrote it.
fn waiting_for(group: &GroupFacts) -> Option<Code> {
    let waits = |condition: &&PodGroupCondition| condition.kind.as_deref() == Some(WAITING) && condition.status.as_deref() == Some("True");
    Code::from_name(group.status.conditions.iter().flatten().rfind(waits)?.reason.as_deref()?)
}

/// Returns the claims of the members without a node, where the PodGroup waits: what their provisioners say may be why it waits, or why it
/// waited before.
#[must_use]
pub fn claims_without_volume<'a>(group: &GroupFacts, pods: impl Iterator<Item = &'a PodFacts>) -> BTreeSet<&'a str> {
    if waiting_for(group).is_none() {
        return BTreeSet::new();
    }
    let waiting = pods.filter(|pod| pod.group == group.key && pod.node.is_none());
    waiting.flat_map(|pod| &pod.terms.claims).map(|claim| &*claim.name).collect()
}

/// Removes the newest Event of the scheduler if the condition with the same message is shown.
fn without_shown(mut events: Vec<Event>, is_said: bool) -> Vec<Event> {
    if let Some(at) = events.iter().position(|event| event.reason == UNSCHEDULABLE).filter(|_| is_said) {
        events.remove(at);
    }
    events
}

/// Returns whether the PodGroup or one of its members waits.
fn waits(group: &GroupFacts, members: &Members) -> bool {
    let without = [members.waiting, members.gated, members.blocked];
    without != [0; 3] || members.needed(group) > 0
}

#[cfg(test)]
mod reasons_tests;
#[cfg(test)]
#[path = "../why_tests.rs"]
mod tests;
