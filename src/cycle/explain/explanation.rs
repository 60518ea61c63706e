//! What does a program read about a refusal?
//!
//! [`Explanation`] is a refusal with its numbers, as JSON: `/debug/queues` has it, and `kubectl podgroup why` reads it back. It is made
//! once, from the refusal.

use serde::{Deserialize, Serialize};

use crate::accounting::{Bound, Ceiling, Why};
use crate::api::fault::shorten;
use crate::cycle::explain::NotPreempted;
use crate::resources::{Amount, ResourceName, quantity};

use super::{Cause, Code, Count, Reason, Refusal, Tally};

/// A refusal with its numbers. Fields that do not apply are absent. Amounts are quantities as Kubernetes writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Why it waits.
    pub code: Code,
    /// The queue that refuses: its own or one above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The resource that is insufficient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The amounts at the queue that refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// How many members there must be, or must be placed together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<u32>,
    /// How many there are, or were placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<u32>,
    /// How many are held back by their scheduling gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gated: Option<u32>,
    /// The task of which there are too few members, or that of `member`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The first member of the gang that was not placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// How many further members like it were not placed either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alike: Option<u32>,
    /// The reasons of the nodes for the first member that was not placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// The PodGroup that is ahead, as `namespace/name`; or the one that does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group: Option<String>,
    /// How many pods are being preempted, or how many bindings are not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// How many tries in a row have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// The fields that are not supported or cannot be read, or the parent of a queue that does not exist; or what failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// Why no pods are preempted for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<NoPreemption>,
}

/// What a queue has of a resource, and what is requested of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// What is requested.
    pub requested: String,
    /// What is used and reserved.
    pub used: String,
    /// The part of `used` that is only reserved.
    #[serde(default)]
    pub reserved: String,
    /// What must stay free for guarantees.
    pub kept: String,
    /// The limit: the capability, what the cluster has, or what the queue is entitled to.
    pub limit: String,
    /// By how much it is too much.
    pub short: String,
    /// The limit that would be enough.
    pub enough: String,
    /// Whether the request alone is above the limit: nothing that becomes free helps.
    pub never: bool,
    /// Whether the limit is what all nodes have together.
    pub of_cluster: bool,
}

/// What the nodes say about a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// How many there are.
    pub total: u32,
    /// Why they refuse, the most frequent reason first.
    pub reasons: Vec<NodeReason>,
}

/// How many nodes refuse a pod for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReason {
    /// Why.
    pub code: Code,
    /// How many nodes.
    pub nodes: u32,
    /// The taint or the topology key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The resource that is insufficient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// What is requested of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// The most that any of these nodes has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_free: Option<String>,
}

/// Why no pods are preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoPreemption {
    /// Its priority class or a member says `preemptionPolicy: Never`.
    Disabled,
    /// Nothing that may be preempted would help.
    WouldNotHelp,
    /// No pod may be preempted.
    NoCandidates,
    /// Too few pods may be preempted.
    TooFewCandidates,
    /// The pods that are terminating make enough room when they are gone.
    Terminating,
}

impl Explanation {
    /// Explains a refusal.
    #[must_use]
    pub fn of(refusal: &Refusal) -> Self {
        let mut all = Self::plain(&Cause::of(refusal));
        all.add(refusal);
        all
    }

    /// Explains a cause of which no more is known.
    #[must_use]
    pub fn plain(cause: &Cause<'_>) -> Self {
        Self {
            code: cause.code,
            queue: cause.queue.map(str::to_owned),
            resource: cause.resource.map(str::to_owned),
            quota: None,
            needed: None,
            found: None,
            gated: None,
            task: None,
            member: None,
            alike: None,
            nodes: None,
            pod_group: None,
            pods: None,
            failures: None,
            details: Vec::new(),
            preemption: None,
        }
    }

    fn add(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::NoGroup { name } => self.pod_group = Some(name.to_string()),
            Refusal::Unsupported(fields) => self.details = fields.iter().map(|field| field.field().to_owned()).collect(),
            Refusal::Faulty(fault) => self.details = vec![fault.to_string()],
            Refusal::Claim(unusable) => self.details = vec![unusable.to_string()],
            Refusal::NetworkTopology => self.details = vec!["spec.networkTopology".to_owned()],
            Refusal::NodeGroups { field, .. } => self.details = vec![(*field).to_owned()],
            Refusal::Queue(fault) => {
                if let Why::MissingParent { parent } = &fault.why {
                    self.details = vec![parent.to_string()];
                }
            }
            Refusal::Closed { .. } => {}
            Refusal::Ceiling(ceiling) => self.quota = Some(Quota::of(ceiling)),
            Refusal::AfterOthers { ceiling, waiting } => {
                self.quota = Some(Quota::of(&Ceiling { used: ceiling.used.plus(*waiting), ..ceiling.clone() }));
            }
            Refusal::NotEnoughTasks { wanted, there, gated } => self.members(*wanted, *there, *gated),
            Refusal::NotEnoughPodsOfTask { task, wanted, there, gated } => {
                self.members(*wanted, *there, *gated);
                self.task = Some(shorten(task));
            }
            Refusal::NotEnoughSubGroups { policy, size: _, wanted, there, gated } => {
                self.members(*wanted, *there, *gated);
                self.details = vec![format!("subGroupPolicy {policy}")];
            }
            Refusal::IncompleteSubGroup { policy, size, there, gated } => {
                self.members(*size, *there, *gated);
                self.details = vec![format!("subGroupPolicy {policy}")];
            }
            Refusal::Nodes { needed, placed, member, tally, exceeds: _ } => {
                (self.needed, self.found) = (Some(*needed), Some(*placed));
                if let Some(member) = member {
                    (self.member, self.alike) = (Some(member.name.to_string()), Some(member.alike));
                    self.task = member.task.as_deref().map(shorten);
                }
                self.nodes = Some(Nodes::of(tally));
            }
            Refusal::Behind { first } => self.pod_group = first.as_ref().map(ToString::to_string),
            Refusal::WithoutPreemption { refusal, why } => {
                self.add(refusal);
                self.preemption = Some(NoPreemption::of(why));
            }
            Refusal::Nominated { victims, .. } => self.pods = Some(*victims),
            Refusal::Backoff { why, failures, .. } => {
                self.details = vec![why.clone()];
                self.failures = Some(*failures);
            }
            Refusal::Volumes { claims: _, first } => self.details = vec![first.to_string()],
            Refusal::Unanswered { binds, why } => {
                self.pods = Some(*binds);
                self.details = vec![(*why).to_owned()];
            }
        }
    }

    fn members(&mut self, needed: u32, found: u32, gated: u32) {
        (self.needed, self.found) = (Some(needed), Some(found));
        self.gated = Some(gated).filter(|gated| *gated > 0);
    }
}

impl Quota {
    fn of(ceiling: &Ceiling) -> Self {
        let shown = |amount: Amount| quantity::shown(amount, ceiling.dimension.style());
        let enough = ceiling.used.plus(ceiling.asked).plus(ceiling.unused_guarantee);
        Self {
            requested: shown(ceiling.asked),
            used: shown(ceiling.used),
            reserved: shown(ceiling.reserved),
            kept: shown(ceiling.unused_guarantee),
            limit: shown(ceiling.limit),
            short: shown(enough.minus(ceiling.limit)),
            enough: shown(enough),
            never: ceiling.asked > ceiling.limit,
            of_cluster: ceiling.bound == Bound::Cluster,
        }
    }
}

impl Nodes {
    /// The counts of a tally.
    #[must_use]
    pub fn of(tally: &Tally) -> Self {
        Self { total: tally.nodes, reasons: tally.listed().into_iter().map(|(reason, count)| NodeReason::of(reason, *count)).collect() }
    }
}

impl NodeReason {
    fn of(reason: &Reason, count: Count) -> Self {
        let resource = if let Reason::Lacks(name) = reason { Some(name) } else { None };
        let amount = |amount: Amount| resource.map(|name: &ResourceName| quantity::shown(amount, name.style()));
        Self {
            code: reason.code(),
            nodes: count.nodes,
            detail: reason.detail().map(|(_, value)| value),
            resource: resource.map(ToString::to_string),
            requested: amount(count.asked),
            most_free: amount(count.most_free),
        }
    }
}

impl NoPreemption {
    fn of(why: &NotPreempted) -> Self {
        match why {
            NotPreempted::Never { .. } => Self::Disabled,
            NotPreempted::Unplaceable(_) => Self::WouldNotHelp,
            NotPreempted::NoCandidates(_) => Self::NoCandidates,
            NotPreempted::NotEnough { .. } => Self::TooFewCandidates,
            NotPreempted::Soon(now) => Self::of(now),
            NotPreempted::Terminating { .. } => Self::Terminating,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cycle::explain::NextMember;

    #[test]
    fn a_program_reads_back_what_was_written_and_absent_fields_take_no_room() {
        let amounts = [4, 10, 0, 12].map(Amount::from_units);
        let [asked, used, kept, limit] = amounts;
        let bound = Bound::Capability;
        let refusal = Refusal::Ceiling(Ceiling {
            queue: "team-a".into(),
            dimension: "cpu".into(),
            asked,
            used,
            reserved: Amount::ZERO,
            unused_guarantee: kept,
            limit,
            bound,
        });
        let refusal = Refusal::WithoutPreemption { refusal: Arc::new(refusal), why: Arc::new(NotPreempted::Never { class: None }) };
        let all = Explanation::of(&refusal);
        let json = serde_json::to_value(&all).unwrap();
        let wanted = serde_json::json!({
            "code": "QueueQuotaExceeded",
            "queue": "team-a",
            "resource": "cpu",
            "quota": {
                "requested": "4", "used": "10", "reserved": "0", "kept": "0", "limit": "12", "short": "2", "enough": "14", "never": false, "ofCluster": false,
            },
            "preemption": "Disabled",
        });
        assert_eq!(json, wanted);
        assert_eq!(serde_json::from_value::<Explanation>(json).unwrap(), all);
    }

    #[test]
    fn what_nodes_say_is_counted_by_code_with_the_most_frequent_first() {
        let lacks = Count { nodes: 3, asked: Amount::from_units(2), most_free: Amount::from_units(1) };
        let reasons = [(Reason::Unschedulable, Count { nodes: 1, ..Count::default() }), (Reason::Lacks("cpu".into()), lacks)].into();
        let member = Some(Arc::new(NextMember { name: "train-2".into(), task: Some("worker".into()), alike: 1 }));
        let all =
            Explanation::of(&Refusal::Nodes { needed: 4, placed: 2, member, tally: Arc::new(Tally { nodes: 4, reasons }), exceeds: None });
        assert_eq!((all.member.as_deref(), all.task.as_deref(), all.alike), (Some("train-2"), Some("worker"), Some(1)));
        let nodes = all.nodes.as_ref().unwrap();
        let said: Vec<_> = nodes.reasons.iter().map(|reason| (reason.code.as_str(), reason.nodes, reason.most_free.as_deref())).collect();
        assert_eq!(said, [("InsufficientResources", 3, Some("1")), ("Cordoned", 1, None)]);
        assert_eq!((all.code, all.needed, all.found, nodes.total), (Code::InsufficientResources, Some(4), Some(2), 4));
    }
}
