//! Checks that `why` has advice for every code of the scheduler, with and without the scheduler's amounts. A new code fails here.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::{Facts, Report};
use crate::accounting::{Bound, Ceiling, QueueFault, Why as Fault};
use crate::api::label_selector::LabelSelector;
use crate::api::node::Taint;
use crate::api::pod_terms::{HostPort, PodSelector, PodTerms, SpreadConstraint};
use crate::api::podgroup::PodGroupCondition;
use crate::api::queue::NodeGroupAffinity;
use crate::api::unsupported::Unsupported;
use crate::api::volumes::{UnusableClaim, WhyUnusable};
use crate::api::{self, GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::explain::{Code, Count, Explanation, Lack, Reason, Refusal, Step, Tally};
use crate::cycle::testing::{group, keeps_away, node, pod, queue, running};
use crate::plugin::answers::WaitingAnswer;
use crate::plugin::queues::Queues;
use crate::resources::Amount;
use crate::scheduler::dialect::reason;

/// A PodGroup of one member of 1 cpu in `q`, with a node for it and without an obstacle.
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

    fn of_claim(why: WhyUnusable) -> Self {
        Self::said(Refusal::Claim(Arc::new(UnusableClaim { claim: "data".into(), why })))
    }

    /// The plugin does not read volumes, so the nodes do not show it.
    fn of_volumes(reason: Reason) -> Self {
        let reasons = [(reason, Count { nodes: 1, ..Count::default() })].into();
        Self::said(Refusal::Nodes { needed: 1, placed: 0, member: None, tally: Arc::new(Tally { nodes: 1, reasons }), exceeds: None })
    }

    fn of_queue(name: &str, why: Fault, queues: Vec<QueueFacts>) -> Self {
        Self { queues, ..Self::said(Refusal::Queue(QueueFault { queue: name.into(), why })) }
    }

    fn full(bound: Bound, over: i64, kept: i64) -> Self {
        let [asked, used, kept, limit] = [1, 3 + over, kept, 4].map(Amount::from_units);
        Self::said(Refusal::Ceiling(Ceiling {
            queue: "q".into(),
            dimension: "cpu".into(),
            asked,
            used,
            reserved: Amount::ZERO,
            unused_guarantee: kept,
            limit,
            bound,
        }))
    }

    /// Creates a case in which no node fits the member, after a change of the member or the node.
    fn of_nodes(reason: Option<Reason>, change: impl FnOnce(&mut Self)) -> Self {
        let reasons = reason.into_iter().map(|reason| (reason, crate::cycle::explain::Count { nodes: 1, ..Default::default() })).collect();
        let tally = Tally { nodes: 1, reasons };
        let mut case = Self::said(Refusal::Nodes { needed: 1, placed: 0, member: None, tally: Arc::new(tally), exceeds: None });
        change(&mut case);
        case
    }

    /// Returns the facts with the scheduler's amounts, or from the API's objects alone.
    fn facts(&self, asked_scheduler: bool) -> Facts {
        let mut group = self.group.clone();
        if let Some(refusal) = &self.said {
            let condition = |kind: &str, reason: &str, message: &str| PodGroupCondition {
                kind: Some(kind.into()),
                status: Some("True".into()),
                reason: Some(reason.into()),
                message: Some(message.into()),
                ..PodGroupCondition::default()
            };
            // The message is not parsed.
            let said = condition("Unschedulable", reason(refusal), "whatever it says");
            group.status.conditions = Some(vec![said, condition("podgroup.dev/Waiting", refusal.code().as_str(), "")]);
        }
        Facts {
            group,
            answer: self.said.as_ref().filter(|_| asked_scheduler).map(|refusal| WaitingAnswer {
                unreserved: false,
                group: "ns/g".to_owned(),
                why: Explanation::of(refusal),
                requested: None,
                shortages: Vec::new(),
                position: None,
            }),
            owner: None,
            others: Vec::new(),
            pods: Some(self.pods.clone()),
            all_pods: true,
            nodes: Some(self.nodes.clone()),
            namespaces: Some(Vec::new()),
            queues: Some(Queues::new(self.queues.clone(), None)),
            events: Vec::new(),
            gaps: Vec::new(),
        }
    }

    fn report(&self) -> Report {
        Report::of(self.facts(true), Timestamp::UNIX_EPOCH)
    }
}

fn backoff(step: Step, why: &str) -> Case {
    Case::said(Refusal::Backoff { step, why: why.into(), failures: 1, lack: None })
}

/// Returns for each code a case and a part of its advice.
fn cases() -> BTreeMap<&'static str, (Case, &'static str)> {
    let fault = || api::Fault::new("spec.minResources.cpu", "much", "it counts as 0");
    let taint = || Taint { key: "t".into(), value: None, effect: "NoSchedule".into() };
    let many = || Case::said(Refusal::NotEnoughTasks { wanted: 3, there: 1, gated: 0 });
    [
        ("BindBackoff", backoff(Step::Bind, "conflict"), "must accept the bindings (conflict)"),
        (
            "BehindInFifoQueue",
            Case::said(Refusal::Behind { first: Some(GroupKey::new("team", "first")) }),
            "kubectl podgroup why first -n team), or spec.dequeueStrategy of queue q be traverse",
        ),
        (
            "QueueQuotaExceeded",
            Case::full(Bound::Capability, 1, 0),
            "cpu 1 must become free in queue q and below it, or its spec.capability be raised from cpu 4 to 5",
        ),
        (
            "WaitingForPreemption",
            Case::said(Refusal::Nominated {
                victims: 2,
                queues: ["a".into()].into(),
                lack: Some(Lack { queue: Some("q".into()), dimension: "cpu".into() }),
            }),
            "pods are being preempted for it",
        ),
        (
            "GuaranteeReserved",
            Case::full(Bound::Cluster, 0, 2),
            "cpu 2 must become free in queue q and below it beside the 2 that are kept there for guarantees, or nodes be added, or",
        ),
        ("NoNodes", Case::of_nodes(None, |case| case.nodes.clear()), "there must be nodes"),
        (
            "PodGroupNotFound",
            Case::said(Refusal::NoGroup { name: "g".into() }),
            "PodGroup g must be created, or its pods must not name it (annotation scheduling.k8s.io/group-name); the controller makes that of a JobSet or a group of a LeaderWorkerSet (podgroup.dev/gang)",
        ),
        (
            "NodeAffinity",
            Case::of_nodes(Some(Reason::NodeAffinity), |case| case.pods[0].constraints.node_affinity = Some(Vec::new())),
            "required node affinity",
        ),
        ("ClaimBeingDeleted", Case::of_claim(WhyUnusable::Deleting), "stays so while a pod uses it"),
        ("ClaimInUse", Case::of_volumes(Reason::ClaimInUse), "one pod at a time"),
        ("ClaimLost", Case::of_claim(WhyUnusable::Lost { volume: "v".into() }), "must exist again"),
        ("ClaimNotBound", Case::of_claim(WhyUnusable::NotBound { class: None }), "must be bound to a volume"),
        ("ClaimNotFound", Case::of_claim(WhyUnusable::NotFound), "persistentvolumeclaim \"data\" not found"),
        ("ClaimNotOwned", Case::of_claim(WhyUnusable::NotOwned), "must be deleted"),
        ("StorageClassNotFound", Case::of_claim(WhyUnusable::ClassNotFound { class: "c".into() }), "the StorageClass must be created"),
        ("NoVolume", Case::of_volumes(Reason::NoVolume), "must be free on"),
        ("NotEnoughStorage", Case::of_volumes(Reason::NotEnoughStorage), "enough storage"),
        ("VolumeBackoff", backoff(Step::Volumes, "not in time"), "stays tied to it"),
        ("WaitingForVolumes", Case::said(Refusal::Volumes { claims: 2, first: "data".into() }), "are bound when all their claims are"),
        ("VolumeLimit", Case::of_volumes(Reason::VolumeLimit), "a volume of the same driver"),
        ("VolumeNodeAffinity", Case::of_volumes(Reason::VolumeNodeAffinity), "can mount the volumes"),
        ("VolumeNotFound", Case::of_claim(WhyUnusable::VolumeNotFound { volume: "v".into() }), "the volume of the claim must exist"),
        ("VolumeZone", Case::of_volumes(Reason::VolumeZone), "in the zones of the volumes"),
        (
            "HostPorts",
            Case::of_nodes(Some(Reason::HostPorts), |case| {
                let port = || HostPort { port: 80, protocol: "TCP".into(), address: None };
                let terms = Arc::new(PodTerms { host_ports: [port()].into(), ..PodTerms::default() });
                case.pods[0].terms = Arc::clone(&terms);
                case.pods.push(PodFacts { terms, ..running(pod("ns", "x", "other", &[]), "n1") });
            }),
            "same host port",
        ),
        (
            "NodeFeatures",
            Case::of_nodes(Some(Reason::DeclaredFeature { feature: "F" }), |case| _ = case.pods[0].constraints.node_features.insert("F")),
            "declare the feature",
        ),
        (
            "PodAffinity",
            Case::of_nodes(Some(Reason::PodAffinity { topology_key: "zone".into() }), |case| {
                let anti = keeps_away("ns", ("app", "none"), "zone");
                case.pods[0].terms = Arc::new(PodTerms { affinity: anti.anti_affinity.clone(), ..PodTerms::default() });
            }),
            "affinity requires",
        ),
        (
            "TopologySpread",
            Case::of_nodes(Some(Reason::TopologySpreadLabel { topology_key: "zone".into() }), |case| {
                let spread = SpreadConstraint {
                    pods: PodSelector::default(),
                    topology_key: "zone".into(),
                    max_skew: 1,
                    min_domains: 1,
                    honors_node_affinity: true,
                    honors_taints: false,
                };
                case.pods[0].terms = Arc::new(PodTerms { spread: vec![spread], ..PodTerms::default() });
            }),
            "with zone",
        ),
        (
            "PodAntiAffinity",
            Case::of_nodes(Some(Reason::ExistingAntiAffinity { topology_key: "zone".into() }), |case| {
                case.nodes[0].labels = [("zone".to_owned(), "z".to_owned())].into();
                let mut terms = PodTerms::clone(&keeps_away("ns", ("", ""), "zone"));
                terms.anti_affinity[0].pods.labels = LabelSelector::everything();
                case.pods.push(PodFacts { terms: Arc::new(terms), ..running(pod("ns", "x", "other", &[]), "n1") });
            }),
            "or wait for the pods that keep others away from 1 node (zone)",
        ),
        ("Cordoned", Case::of_nodes(Some(Reason::Unschedulable), |case| case.nodes[0].unschedulable = true), "uncordon 1 node (n1)"),
        (
            "NodeGroup",
            Case::of_nodes(Some(Reason::NodeGroup { group: "a".into() }), |case| {
                case.nodes[0].labels = [("volcano.sh/nodegroup-name".to_owned(), "a".to_owned())].into();
                let own = NodeGroupAffinity { own: ["a".to_owned()].into(), allowed: ["a".to_owned()].into() };
                case.queues.push(QueueFacts { node_group_affinity: Some(own), ..queue("other", None, &[]) });
            }),
            "name the node group a in the affinity of the queue",
        ),
        (
            "InsufficientResources",
            Case::of_nodes(Some(Reason::Lacks("cpu".into())), |case| case.nodes = vec![node("n1", &[])]),
            "smaller pods, or a larger node",
        ),
        (
            "NodeSelector",
            Case::of_nodes(Some(Reason::NodeSelector), |case| case.pods[0].constraints.node_selector = [("a".into(), "b".into())].into()),
            "nodeSelector",
        ),
        (
            "Taints",
            Case::of_nodes(Some(Reason::Taint(taint())), |case| {
                case.nodes[0].taints = vec![taint()];
            }),
            "tolerate the taint t:NoSchedule",
        ),
        ("NotTried", Case { said: None, ..many() }, "must run and hold its Lease"),
        ("ClusterFull", Case::full(Bound::Cluster, 1, 1), "cpu must become free on the nodes, or nodes be added"),
        ("RoomReserved", Case::full(Bound::Minimums, 1, 0), "it is beyond minMember"),
        ("BindUnanswered", Case::said(Refusal::Unanswered { binds: 1, why: "timeout" }), "must answer the bindings"),
        ("PreemptionBackoff", backoff(Step::Preemption, "budget"), "must be evictable (budget)"),
        (
            "SchedulingGated",
            Case {
                pods: vec![PodFacts { gated: true, ..member() }],
                ..Case::said(Refusal::NotEnoughTasks { wanted: 1, there: 0, gated: 1 })
            },
            "members held by scheduling gates: 1",
        ),
        (
            "QueueInvalid",
            Case::of_queue("q", Fault::MissingParent { parent: "p".into() }, vec![queue("q", Some("p"), &[])]),
            "queue p must be created",
        ),
        (
            "QueueClosed",
            Case {
                queues: vec![QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) }],
                ..Case::said(Refusal::Closed { queue: "q".into() })
            },
            "kubectl podgroup queue open q",
        ),
        (
            "QueueNotFound",
            Case { group: group("ns", "g", 1, "sience"), ..Case::of_queue("sience", Fault::NotFound, vec![queue("science", None, &[])]) },
            "queue sience must be created, or the PodGroup must name another, perhaps science (",
        ),
        (
            "QueueNotLeaf",
            Case::of_queue("q", Fault::NotLeaf, vec![queue("q", None, &[]), queue("leaf", Some("q"), &[])]),
            "none below it: leaf",
        ),
        ("NonPreemptableOverEntitlement", Case::full(Bound::Entitlement, 1, 0), "or queue q be entitled to more than cpu 4"),
        ("NotEnoughPods", Case { group: group("ns", "g", 3, "q"), ..many() }, "lacks 2 of its 3 members"),
        (
            "NotEnoughPodsOfTask",
            Case::said(Refusal::NotEnoughPodsOfTask { task: "worker".into(), wanted: 2, there: 1, gated: 0 }),
            "there must be 2 members with the annotation volcano.sh/task-spec: worker",
        ),
        (
            "NotEnoughSubGroups",
            Case::said(Refusal::NotEnoughSubGroups { policy: "prefill".into(), size: 2, wanted: 2, there: 1, gated: 0 }),
            "the labels of subGroupPolicy prefill must exist",
        ),
        (
            "InvalidField",
            Case { group: GroupFacts { faults: vec![fault()], ..group("ns", "g", 1, "q") }, ..Case::said(Refusal::Faulty(fault())) },
            "cannot be read",
        ),
        (
            "UnsupportedField",
            Case {
                pods: vec![PodFacts { unsupported: vec![Unsupported::Volume], ..member() }],
                ..Case::said(Refusal::Unsupported(vec![Unsupported::Volume]))
            },
            "cannot be honoured: 1",
        ),
    ]
    .into_iter()
    .map(|(reason, case, part)| (reason, (case, part)))
    .collect()
}

#[test]
fn every_code_of_the_scheduler_has_advice() {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(cases().keys().copied().collect::<Vec<_>>(), codes, "a code that is not tried here, or none of the scheduler's");
    for (code, (case, part)) in cases() {
        assert_eq!(case.said.as_ref().map_or("NotTried", |refusal| refusal.code().as_str()), code);
        let changes = case.report().changes.join("\n");
        assert!(changes.contains(part), "{code}: {part:?} is not in {changes:?}");
    }
}

#[test]
fn the_code_of_the_condition_is_enough_for_advice_without_scheduler_and_permissions() {
    for (code, (case, _)) in cases().into_iter().filter(|(code, _)| *code != "NotTried") {
        let blind = Facts { pods: None, nodes: None, queues: None, ..case.facts(false) };
        let report = Report::of(blind, Timestamp::UNIX_EPOCH);
        // Only the PodGroup itself is readable.
        assert_eq!((report.changes.len(), report.json()["said"]["code"].as_str()), (1, Some(code)), "{:?}", report.changes);
    }
}

#[test]
fn unknown_fields_of_the_podgroup_are_named() {
    let unknown = Some(api::Fault::new("spec", "minMembers", "no such field"));
    let waits = Case::said(Refusal::NotEnoughTasks { wanted: 3, there: 1, gated: 0 });
    let changes = Case { group: GroupFacts { unknown, ..group("ns", "g", 3, "q") }, ..waits }.report().changes.join("\n");
    assert!(changes.contains("spec \"minMembers\": no such field"), "{changes}");
}

#[test]
fn gated_members_of_a_task_exist_already() {
    let refusal = Refusal::NotEnoughPodsOfTask { task: "worker".into(), wanted: 2, there: 1, gated: 1 };
    let mut case = Case { group: group("ns", "g", 2, "q"), ..Case::said(refusal) };
    case.pods.push(PodFacts { gated: true, ..pod("ns", "b", "g", &[]) });
    let changes = case.report().changes.join("\n");
    assert!(changes.contains("worker must be free of scheduling gates") && changes.contains("gates: 1"), "{changes}");
    assert!(!changes.contains("keeps them from being made"), "{changes}");
}

#[test]
fn the_order_in_which_an_operator_starts_pods_is_named_where_members_of_a_podgroup_of_the_controller_are_missing() {
    let advice = |name: &str, managed: bool| {
        let mut group = GroupFacts { managed, ..group("ns", name, 3, "q") };
        group.status.phase = Some("Pending".to_owned());
        let refusal = Refusal::NotEnoughTasks { wanted: 3, there: 1, gated: 0 };
        let case = Case { group, pods: vec![pod("ns", "a", name, &[("cpu", 1)])], ..Case::said(refusal) };
        Report::of(case.facts(true), Timestamp::UNIX_EPOCH).changes.join("\n")
    };
    let lacks = "lacks 2 of its 3 members (or minMember must be 1): if the ";
    for (name, order) in [
        ("jobset-train-0", "JobSet has startupPolicy: InOrder or dependsOn"),
        ("lws-serve-0-5b9c", "LeaderWorkerSet has startupPolicy: LeaderReady"),
    ] {
        let said = advice(name, true);
        assert!(said.contains(&format!("{lacks}{order}")) && !said.contains("only after the PodGroup is admitted"), "{said}");
    }
    for (name, managed) in [("jobset-train-0", false), ("lws-volcano-0-5b9c", false), ("podgroup-1", true), ("jobset-train", true)] {
        let other = advice(name, managed);
        assert!(!other.contains("startupPolicy") && other.contains("only after the PodGroup is admitted"), "{name}: {other}");
    }
}

#[test]
fn a_scheduler_that_placed_the_minimum_is_not_said_to_be_missing() {
    let (mut case, part) = cases().remove("NotTried").unwrap();
    assert!(case.report().changes.join("\n").contains(part));
    case.group.status.phase = Some("Running".to_owned());
    let changes = case.report().changes.join("\n");
    assert!(!changes.contains(part), "{changes}");
}

#[test]
fn during_a_preemption_no_change_is_advised() {
    let (mut case, _) = cases().remove("WaitingForPreemption").unwrap();
    case.nodes.iter_mut().for_each(|node| node.allocatable = crate::resources::Resources::new());
    let changes = case.report().changes;
    assert_eq!(changes.len(), 1, "{changes:?}");
}

#[test]
fn a_limited_resource_is_not_called_unlimited() {
    let free = "no level limits what it asks for";
    for (reason, wanted) in [
        ("NonPreemptableOverEntitlement", false),
        ("QueueQuotaExceeded", false),
        ("GuaranteeReserved", false),
        ("ClusterFull", false),
        ("WaitingForPreemption", true),
    ] {
        let (case, _) = cases().remove(reason).unwrap();
        assert_eq!(case.report().page(false).render(false).contains(free), wanted, "{reason}");
    }
}

/// Returns the advice for a PodGroup of these pods, of which the nodes take too few.
fn advice_for(pods: Vec<PodFacts>, nodes: Vec<NodeFacts>) -> String {
    let mut case = Case::of_nodes(Some(Reason::Unschedulable), |_| {});
    (case.pods, case.nodes) = (pods, nodes);
    case.report().changes.join("\n")
}

fn labelled(name: &str, key: &str, value: &str) -> NodeFacts {
    let mut node = node(name, &[("cpu", 4)]);
    node.labels = [(key.to_owned(), value.to_owned())].into();
    node
}

/// A member with the label `app` of its PodGroup, with a term to the pods with the value `to` of this label.
fn with_term(name: &str, to: &str, key: &str, affinity: bool) -> PodFacts {
    let mut member = pod("ns", name, "g", &[("cpu", 1)]);
    member.labels.insert("app".into(), "g".into());
    let mut terms = PodTerms::clone(&keeps_away("ns", ("app", to), key));
    if affinity {
        terms.affinity = std::mem::take(&mut terms.anti_affinity);
    }
    member.terms = Arc::new(terms);
    member
}

#[test]
fn replicas_that_keep_each_other_away_need_a_further_node_or_domain_and_no_pod_to_leave() {
    for (key, wanted) in [
        (
            "kubernetes.io/hostname",
            "add a node: the anti-affinity of these pods keeps them apart, so each needs a node of its own; or ask for fewer of them",
        ),
        (
            "zone",
            "add nodes in a further domain (zone): the anti-affinity of these pods keeps them apart, so each needs a domain of its own; or ask for fewer of them",
        ),
    ] {
        let first = running(with_term("a", "g", key, false), "n1");
        let advice = advice_for(vec![first, with_term("b", "g", key, false)], vec![labelled("n1", key, "x")]);
        assert_eq!(advice, wanted);
    }
    // Where the term selects other pods, these may leave.
    let mut other = running(pod("ns", "x", "other", &[]), "n1");
    other.labels.insert("app".into(), "noisy".into());
    let advice = advice_for(vec![other, with_term("b", "noisy", "zone", false)], vec![labelled("n1", "zone", "x")]);
    assert_eq!(
        advice,
        "add nodes in a further domain (zone), or wait for the pods that the pod's anti-affinity selects to leave 1 node (zone)"
    );
}

#[test]
fn the_first_pod_of_an_affinity_to_itself_needs_the_label_of_the_topology_key() {
    let bare = |name| node(name, &[("cpu", 4)]);
    let advice = advice_for(vec![with_term("a", "g", "zone", true)], vec![bare("n1"), bare("n2")]);
    assert_eq!(advice, "label 2 nodes with zone: a node without this label takes no pod whose required affinity is by it");
    // An affinity to other pods needs these, where nodes have the label.
    let advice = advice_for(vec![with_term("a", "leader", "zone", true)], vec![labelled("n1", "zone", "x"), bare("n2")]);
    assert_eq!(advice, "a pod that the affinity requires must run in the domains (zone) of 2 nodes");
    // Its like are in another zone already.
    let first = running(with_term("a", "g", "zone", true), "n1");
    let full = NodeFacts { unschedulable: true, ..labelled("n1", "zone", "x") };
    let advice = advice_for(vec![first, with_term("b", "g", "zone", true)], vec![full, labelled("n2", "zone", "y")]);
    assert!(advice.contains("need one domain (zone) with room for all of them"), "{advice}");
}
