//! Does `why` say for every reason that the scheduler has what would have to change? Each is written as the scheduler writes it, so new words or a new
//! reason are red here.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::{Facts, Report};
use crate::accounting::{Bound, Ceiling, QueueFault, Why as Fault};
use crate::api::node::Taint;
use crate::api::pod_facts::Unsupported;
use crate::api::podgroup::PodGroupCondition;
use crate::api::queue::NodeGroupAffinity;
use crate::api::{self, GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::explain::{Lack, Reason, Refusal, Tally};
use crate::cycle::testing::{group, node, pod, queue, running};
use crate::plugin::queues::Queues;
use crate::resources::Amount;
use crate::scheduler::why::{REASONS, Why};

/// A group of one member of 1 cpu in `q`, for which there is a node; nothing is in its way.
struct Case {
    group: GroupFacts,
    pods: Vec<PodFacts>,
    nodes: Vec<NodeFacts>,
    queues: Vec<QueueFacts>,
    said: Option<Refusal>,
}

fn member() -> PodFacts {
    pod("ns", "a", "g", &[("cpu", 1)])
}

impl Case {
    fn said(refusal: Refusal) -> Self {
        let said = Some(refusal);
        Self {
            group: group("ns", "g", 1, "q"),
            pods: vec![member()],
            nodes: vec![node("n1", &[("cpu", 4)])],
            queues: vec![queue("q", None, &[])],
            said,
        }
    }

    fn of_queue(name: &str, why: Fault, queues: Vec<QueueFacts>) -> Self {
        Self { queues, ..Self::said(Refusal::Queue(QueueFault { queue: name.into(), why })) }
    }

    fn full(bound: Bound, unused_guarantee: i64) -> Self {
        let [asked, used, unused_guarantee, limit] = [1, 4, unused_guarantee, 4].map(Amount::from_units);
        Self::said(Refusal::Ceiling(Ceiling { queue: "q".into(), dimension: "cpu".into(), asked, used, unused_guarantee, limit, bound }))
    }

    /// No node takes the member, which is changed, or whose node is, so that it is so.
    fn of_nodes(reason: Option<Reason>, change: impl FnOnce(&mut Self)) -> Self {
        let reasons = reason.into_iter().map(|reason| (reason, crate::cycle::explain::Count { nodes: 1, ..Default::default() })).collect();
        let tally = Tally { nodes: 1, reasons };
        let mut case = Self::said(Refusal::Nodes { needed: 1, placed: 0, tally: Arc::new(tally) });
        change(&mut case);
        case
    }

    fn report(mut self) -> Report {
        if let Some(refusal) = &self.said {
            let condition = PodGroupCondition {
                kind: Some("Unschedulable".into()),
                status: Some("True".into()),
                reason: Some(refusal.reason().into()),
                message: Some(refusal.to_string()),
                ..PodGroupCondition::default()
            };
            self.group.status.conditions = Some(vec![condition]);
        }
        let facts = Facts {
            group: self.group,
            owner: None,
            others: Vec::new(),
            pods: Some(self.pods),
            all_pods: true,
            nodes: Some(self.nodes),
            queues: Some(Queues::new(self.queues, None)),
            events: Vec::new(),
            gaps: Vec::new(),
        };
        Report::of(facts, Timestamp::UNIX_EPOCH)
    }
}

/// By reason: what the scheduler says and finds, and a part of what would have to change.
fn cases() -> BTreeMap<&'static str, (Case, &'static str)> {
    let fault = || api::Fault::new("spec.minResources.cpu", "much", "it counts as 0");
    let taint = || Taint { key: "t".into(), value: None, effect: "NoSchedule".into() };
    let many = || Case::said(Refusal::NotEnoughTasks { wanted: 3, there: 1, gated: 0 });
    [
        (
            "backoff",
            Case::said(Refusal::Backoff { why: "bind of a: conflict".into(), failures: 3, lack: None }),
            "(bind of a: conflict) must succeed",
        ),
        (
            "behind_in_fifo",
            Case::said(Refusal::Behind { first: GroupKey::new("team", "first") }),
            "kubectl podgroup why first -n team), or spec.dequeueStrategy of queue q be traverse",
        ),
        (
            "capability",
            Case::full(Bound::Capability, 0),
            "cpu must become free in queue q and below it, or spec.capability of queue q be raised",
        ),
        (
            "evicting",
            Case::said(Refusal::Nominated {
                victims: 2,
                queues: ["a".into()].into(),
                lack: Some(Lack { queue: Some("q".into()), dimension: "cpu".into() }),
            }),
            "pods are being evicted for it",
        ),
        (
            "kept_for_guarantees",
            Case::full(Bound::Cluster, 2),
            "beside the 2 that are kept for guarantees, or the nodes offer more, or the guarantees of other queues",
        ),
        (
            "network_topology",
            Case { group: GroupFacts { network_topology: true, ..group("ns", "g", 1, "q") }, ..Case::said(Refusal::NetworkTopology) },
            "mode: soft",
        ),
        ("no_nodes", Case::of_nodes(None, |case| case.nodes.clear()), "there must be nodes"),
        ("no_podgroup", Case::said(Refusal::NoGroup { name: "g".into() }), "PodGroup g must be made"),
        (
            "node_affinity",
            Case::of_nodes(Some(Reason::NodeAffinity), |case| case.pods[0].constraints.node_affinity = Some(Vec::new())),
            "required node affinity",
        ),
        (
            "node_anti_affinity",
            Case::of_nodes(Some(Reason::AntiAffinity { topology_key: "zone".into() }), |case| {
                case.nodes[0].labels = [("zone".to_owned(), "z".to_owned())].into();
                let term = serde_json::from_value(serde_json::json!({ "labelSelector": {}, "topologyKey": "zone" })).unwrap();
                case.pods.push(PodFacts { anti_affinity: vec![term], ..running(pod("ns", "x", "other", &[]), "n1") });
            }),
            "(zone)",
        ),
        ("node_cordoned", Case::of_nodes(Some(Reason::Unschedulable), |case| case.nodes[0].unschedulable = true), "uncordon 1 node (n1)"),
        (
            "node_group",
            Case::of_nodes(Some(Reason::NodeGroup { group: "a".into() }), |case| {
                case.nodes[0].labels = [("volcano.sh/nodegroup-name".to_owned(), "a".to_owned())].into();
                let own = NodeGroupAffinity { own: ["a".to_owned()].into(), allowed: ["a".to_owned()].into() };
                case.queues.push(QueueFacts { node_group_affinity: Some(own), ..queue("other", None, &[]) });
            }),
            "name the node group a in the affinity of the queue",
        ),
        (
            "node_resources",
            Case::of_nodes(Some(Reason::Lacks("cpu".into())), |case| case.nodes = vec![node("n1", &[])]),
            "smaller pods, or a larger node",
        ),
        (
            "node_selector",
            Case::of_nodes(Some(Reason::NodeSelector), |case| case.pods[0].constraints.node_selector = [("a".into(), "b".into())].into()),
            "nodeSelector",
        ),
        (
            "node_taint",
            Case::of_nodes(Some(Reason::Taint(taint())), |case| {
                case.nodes[0].taints = vec![taint()];
            }),
            "tolerate the taint t:NoSchedule",
        ),
        ("not_looked_at", Case { said: None, ..many() }, "must run and hold its Lease"),
        (
            "queue_broken",
            Case::of_queue("q", Fault::MissingParent { parent: "p".into() }, vec![queue("q", Some("p"), &[])]),
            "queue p must be made",
        ),
        (
            "queue_closed",
            Case {
                queues: vec![QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) }],
                ..Case::said(Refusal::Closed { queue: "q".into() })
            },
            "kubectl podgroup queue open q",
        ),
        (
            "queue_missing",
            Case { group: group("ns", "g", 1, "sience"), ..Case::of_queue("sience", Fault::NotFound, vec![queue("science", None, &[])]) },
            "queue sience must be made, or the group name another, perhaps science (",
        ),
        (
            "queue_not_leaf",
            Case::of_queue("q", Fault::NotLeaf, vec![queue("q", None, &[]), queue("leaf", Some("q"), &[])]),
            "none below it: leaf",
        ),
        ("right", Case::full(Bound::Entitlement, 0), "or queue q have a right to more than cpu 4"),
        ("too_few_members", Case { group: group("ns", "g", 3, "q"), ..many() }, "lacks 2 of its 3 members"),
        (
            "too_few_members_of_task",
            Case::said(Refusal::NotEnoughPodsOfTask { task: "worker".into(), wanted: 2, there: 1, gated: 0 }),
            "there must be 2 members with the annotation volcano.sh/task-spec: worker",
        ),
        (
            "unreadable",
            Case { group: GroupFacts { faults: vec![fault()], ..group("ns", "g", 1, "q") }, ..Case::said(Refusal::Faulty(fault())) },
            "cannot be read",
        ),
        (
            "unsupported",
            Case {
                pods: vec![PodFacts { unsupported: vec![Unsupported::HostPort], ..member() }],
                ..Case::said(Refusal::Unsupported(vec![Unsupported::HostPort]))
            },
            "cannot be honoured: 1",
        ),
    ]
    .into_iter()
    .map(|(reason, case, part)| (reason, (case, part)))
    .collect()
}

#[test]
fn every_reason_of_the_scheduler_has_its_way_out() {
    assert_eq!(cases().keys().copied().collect::<Vec<_>>(), REASONS, "a reason that is not tried here, or none of the scheduler's");
    for (reason, (case, part)) in cases() {
        assert_eq!(case.said.as_ref().map_or(Why::UNSEEN, Why::of).reason, reason);
        let report = case.report();
        let changes = report.changes.join("\n");
        assert!(changes.contains(part), "{reason}: {part:?} is not in {changes:?}");
    }
}

#[test]
fn members_of_a_task_that_are_gated_are_there_already() {
    let refusal = Refusal::NotEnoughPodsOfTask { task: "worker".into(), wanted: 2, there: 1, gated: 1 };
    let mut case = Case { group: group("ns", "g", 2, "q"), ..Case::said(refusal) };
    case.pods.push(PodFacts { gated: true, ..pod("ns", "b", "g", &[]) });
    let changes = case.report().changes.join("\n");
    assert!(changes.contains("worker must be free of scheduling gates") && changes.contains("gates: 1"), "{changes}");
    assert!(!changes.contains("keeps them from being made"), "{changes}");
}

#[test]
fn while_others_leave_nothing_else_has_to_change() {
    let (mut case, _) = cases().remove("evicting").unwrap();
    case.nodes.iter_mut().for_each(|node| node.allocatable = crate::resources::Resources::new());
    let changes = case.report().changes;
    assert_eq!(changes.len(), 1, "{changes:?}");
}

#[test]
fn what_is_limited_is_not_said_to_be_free() {
    let free = "no level limits what it asks for";
    for (reason, wanted) in [("right", false), ("capability", false), ("kept_for_guarantees", false), ("evicting", true)] {
        let (case, _) = cases().remove(reason).unwrap();
        assert_eq!(case.report().page(false).render(false).contains(free), wanted, "{reason}");
    }
}
