//! Why does a PodGroup wait, and what would have to change?
//!
//! ```text
//!  what the scheduler said      the group's condition and Events
//!  members                      are there enough, and may they be placed?
//!  the queue and all above it   is one broken, closed or full, in which resource, by how much?
//!  the nodes                    how many of how many take the next member, and what do the others lack?
//!        └────▶ changes: each thing that is in the way, turned round
//! ```
//!
//! What the scheduler said is shown as it said it, and never read: its code stands in a condition of its own, and its numbers come from its debug endpoint. Limits of queues are not
//! worked out here. Nodes, members and the tree are asked by the scheduler's own functions ([`crate::accounting`], [`crate::cycle`]). Pure: the time is an argument.

mod advice;
mod changes;
mod members;
mod places;
mod text;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::names::WAITING;
use crate::api::podgroup::PodGroupCondition;
use crate::api::quantities::written;
use crate::api::{GroupFacts, NodeFacts, PodFacts};
use crate::cycle::explain::{Code, Explanation, Refusal};
use crate::cycle::status::UNSCHEDULABLE;
use crate::resources::Resources;

use super::answers::{self, WaitingAnswer};
use super::events::Event;
use super::gap::{self, Gap};
use super::queues::{Level, Queues};

use advice::Refused;
pub use members::Members;
pub use places::Places;

/// All that is known about a group that may wait.
#[derive(Debug)]
pub struct Facts {
    /// The group.
    pub group: GroupFacts,
    /// What the scheduler answers about it, where it was asked.
    pub answer: Option<WaitingAnswer>,
    /// Whose it is, as in `ReplicaSet train-7c9`.
    pub owner: Option<String>,
    /// Other groups of what was asked about.
    pub others: Vec<String>,
    /// The pods of the whole cluster, or of the group's namespace only.
    pub pods: Option<Vec<PodFacts>>,
    /// Whether those are all pods of the cluster: without them nobody knows what is free.
    pub all_pods: bool,
    /// The nodes.
    pub nodes: Option<Vec<NodeFacts>>,
    /// The queues.
    pub queues: Option<Queues>,
    /// What was said about the group and its owner, the newest first.
    pub events: Vec<Event>,
    /// What could not be known.
    pub gaps: Vec<Gap>,
}

/// Why a group waits.
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
    since: Timestamp,
    /// What the scheduler said, where it waits.
    said: Option<Said>,
    /// The same with its numbers, where the scheduler answered; and every amount for which the queues refuse it.
    explanation: Option<Explanation>,
    shortages: Vec<Explanation>,
    members: Option<Members>,
    asked: Resources,
    /// What it asks for is reserved already.
    admitted: bool,
    /// Why the queue takes no pods at all.
    refusal: Option<String>,
    /// The queue and all above it.
    levels: Vec<Level>,
    places: Option<Places>,
    events: Vec<Event>,
    changes: Vec<String>,
    unknown: Vec<Gap>,
    now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
struct Said {
    reason: String,
    message: String,
    code: Option<Code>,
}

impl Report {
    /// The report, at this moment.
    #[must_use]
    pub fn of(facts: Facts, now: Timestamp) -> Self {
        let Facts { group, answer, owner, others, pods, all_pods, nodes, queues, events, gaps } = facts;
        let of_group: Option<Vec<&PodFacts>> = pods.as_ref().map(|pods| pods.iter().filter(|pod| pod.group == group.key).collect());
        let members = of_group.as_deref().map(Members::of);
        let admitted = group.status.phase.as_deref() == Some("Inqueue");
        let condition = unschedulable(&group);
        let asked = answers::amounts(answer.as_ref().and_then(|answer| answer.requested.as_ref())).unwrap_or_default();
        let (explanation, shortages) = answer.map(|answer| (answer.why, answer.shortages)).unzip();
        let shortages = shortages.unwrap_or_default();
        let code = explanation.as_ref().map(|all| all.code).or_else(|| waiting_for(&group));
        let waits = !group.is_over() && members.as_ref().map_or(condition.is_some(), |members| waits(&group, members));
        let fault = queues.as_ref().and_then(|queues| queues.refusal(&group.queue));
        let on_top = if admitted || !waits { Resources::new() } else { asked.clone() };
        let levels: Vec<Level> = queues.as_ref().map(|queues| queues.levels(&group.queue, &on_top)).unwrap_or_default();
        let places = match (&pods, &nodes) {
            (Some(pods), Some(nodes)) if all_pods && waits => {
                let barred = queues.as_ref().map(|queues| queues.barred_groups(&group.queue)).unwrap_or_default();
                places::places(&group, pods, nodes, barred)
            }
            _ => None,
        };
        let changes = if waits {
            let known = changes::Known {
                group: &group,
                owned: owner.is_some(),
                members: members.as_ref(),
                queues: queues.as_ref(),
                fault: fault.as_ref(),
                levels: &levels,
                places: places.as_ref(),
                nodes: nodes.as_deref().unwrap_or_default(),
                said: condition.is_some() || code.is_some(),
                refused: code.map(|code| Refused { code, explanation: explanation.as_ref(), own: &group.queue }),
                shortages: &shortages,
                schedulers: of_group.iter().flatten().map(|pod| pod.scheduler.to_string()).collect(),
            };
            changes::changes(&known)
        } else {
            Vec::new()
        };
        let said = condition.filter(|_| waits).map(|condition| Said {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            code,
        });
        let since = condition.and_then(|condition| condition.last_transition_time.as_ref()?.parse().ok()).unwrap_or(group.created);
        Self {
            namespace: group.key.namespace.to_string(),
            name: group.key.name.to_string(),
            owner,
            others,
            queue: group.queue.clone(),
            phase: group.status.phase.clone(),
            minimum: group.min_member,
            waits,
            since,
            events: without_said(events, said.is_some()),
            said,
            explanation,
            shortages,
            members,
            asked,
            admitted,
            refusal: fault.map(|fault| Refusal::Queue(fault).to_string()),
            levels,
            places,
            changes,
            unknown: gaps,
            now,
        }
    }

    /// The answer of `why -o json`.
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
            "explanation": self.explanation,
            "shortages": self.shortages,
            "members": self.members.as_ref().map(Members::json),
            "asked": written(&self.asked),
            "queueRefusal": self.refusal,
            "queues": self.levels.iter().map(Level::json).collect::<Vec<_>>(),
            "nodes": self.places.as_ref().map(Places::json),
            "events": self.events.iter().map(Event::json).collect::<Vec<_>>(),
            "changes": self.changes,
            "unknown": gap::json(&self.unknown),
        })
    }
}

/// What the scheduler says keeps the group, the last word of it.
pub(super) fn unschedulable(group: &GroupFacts) -> Option<&PodGroupCondition> {
    let last = group.status.conditions.iter().flatten().rfind(|condition| condition.kind.as_deref() == Some(UNSCHEDULABLE));
    last.filter(|condition| condition.status.as_deref() == Some("True"))
}

/// The code of what the scheduler says keeps the group; none where it says nothing, is another one, or of another version.
fn waiting_for(group: &GroupFacts) -> Option<Code> {
    let waits = |condition: &&PodGroupCondition| condition.kind.as_deref() == Some(WAITING) && condition.status.as_deref() == Some("True");
    Code::from_name(group.status.conditions.iter().flatten().rfind(waits)?.reason.as_deref()?)
}

/// The Events but for the newest one of the scheduler where its condition is shown, which says the same.
fn without_said(mut events: Vec<Event>, is_said: bool) -> Vec<Event> {
    if let Some(at) = events.iter().position(|event| event.reason == UNSCHEDULABLE).filter(|_| is_said) {
        events.remove(at);
    }
    events
}

/// Whether the group, or a member that it could have places for, waits.
fn waits(group: &GroupFacts, members: &Members) -> bool {
    let without = [members.waiting, members.gated, members.blocked];
    without != [0; 3] || members.needed(group) > 0
}

#[cfg(test)]
mod reasons_tests;
#[cfg(test)]
#[path = "../why_tests.rs"]
mod tests;
