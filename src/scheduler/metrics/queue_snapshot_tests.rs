//! The queue snapshot: the same reason in all outputs, exact amounts and a bounded number of series.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prometheus::Registry;

use super::*;
use crate::accounting::{Bound, Ceiling, Excess, QueueFault, Why as Fault};
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::node::Taint;
use crate::api::unsupported::Unsupported;
use crate::api::volumes::{UnusableClaim, WhyUnusable};
use crate::api::{GroupFacts, GroupKey, PodFacts, QueueFacts};
use crate::cycle::explain::NotPreempted;
use crate::cycle::explain::{Count, Explanation, Reason, Refusal, Step, Tally};
use crate::cycle::testing::{POLICY, group, limits, node, pod, queue, running};
use crate::resources::Amount;
use crate::runtime::metrics::text;
use crate::scheduler::command::Command;
use crate::scheduler::event::{Change, Event, Question};
use crate::scheduler::kinds::Queues;
use crate::scheduler::metrics::Metrics;
use crate::scheduler::testing::{at, leading, reset};

/// Returns a leading state with one node of 10 cpu and 100 GiB. `queues` are in addition to `root` and `default`.
pub(super) fn state(registry: &Registry, queues: Vec<QueueFacts>, groups: Vec<GroupFacts>, pods: Vec<PodFacts>) -> State {
    let state = State::new([DEFAULT_SCHEDULER.to_owned()], POLICY, Metrics::new(registry).unwrap());
    leading(state, vec![node("n", &[("cpu", 10), ("memory", 100 << 30)])], pods, groups, queues)
}

fn ceiling(bound: Bound, asked: i64, kept: i64) -> Refusal {
    let [asked, used, kept, limit] = [asked, 4, kept, 10].map(Amount::from_units);
    Refusal::Ceiling(Ceiling {
        queue: "parent".into(),
        dimension: "example.com/gpu".into(),
        asked,
        used,
        reserved: Amount::ZERO,
        unused_guarantee: kept,
        limit,
        bound,
    })
}

fn nodes(reason: Option<Reason>) -> Refusal {
    // Another reason that fewer nodes have and that is first by name.
    let few = (Reason::Unschedulable, Count { nodes: 1, ..Count::default() });
    let count = Count { nodes: 4, ..Count::default() };
    let reasons: BTreeMap<_, _> = reason.into_iter().flat_map(|reason| [(reason, count), few.clone()]).rev().collect();
    Refusal::Nodes {
        needed: 1,
        placed: 0,
        member: None,
        tally: Arc::new(Tally { nodes: if reasons.is_empty() { 0 } else { 5 }, reasons }),
        exceeds: None,
    }
}

/// Returns a refusal: most nodes do not match, and the matching nodes lack devices.
fn other_machines() -> Refusal {
    let count = |nodes| Count { nodes, ..Count::default() };
    let reasons = [(Reason::NodeSelector, count(8)), (Reason::Lacks("example.com/gpu".into()), count(2))].into();
    Refusal::Nodes { needed: 1, placed: 0, member: None, tally: Arc::new(Tally { nodes: 10, reasons }), exceeds: None }
}

/// Returns a refusal: the queue would not take the pod beside those that wait for nodes before it.
fn after_others() -> Refusal {
    let Refusal::Ceiling(ceiling) = ceiling(Bound::Capability, 3, 0) else { unreachable!() };
    Refusal::AfterOthers { ceiling, waiting: Amount::from_units(4) }
}

fn broken(why: Fault) -> Refusal {
    Refusal::Queue(QueueFault { queue: "parent".into(), why })
}

/// Returns the refusal of a PodGroup that waits for its victims, with its earlier refusal.
fn nominated(before: Option<Refusal>) -> Refusal {
    Refusal::Nominated { victims: 1, queues: ["q".into()].into(), lack: before.and_then(|before| before.lack()) }
}

fn claim(why: WhyUnusable) -> Refusal {
    Refusal::Claim(Arc::new(UnusableClaim { claim: "data".into(), why }))
}

/// Returns every kind of refusal with the reason by which it is counted.
fn refusals() -> Vec<(&'static str, Refusal)> {
    let taint = Taint { key: "a".into(), value: None, effect: "NoSchedule".into() };
    let excess = Excess { dimension: "cpu".into(), children: Amount::from_units(5), guarantee: Amount::from_units(4) };
    let fault = || crate::api::Fault { place: "spec.minMember".into(), value: "-1".into(), why: "it is -1".into() };
    let not_taken = || Arc::new(NotPreempted::NoCandidates(Box::default()));
    vec![
        ("PodGroupNotFound", Refusal::NoGroup { name: "g".into() }),
        ("UnsupportedField", Refusal::Unsupported(vec![Unsupported::Volume])),
        ("NotEnoughSubGroups", Refusal::IncompleteSubGroup { policy: "p".into(), size: 2, there: 1, gated: 0 }),
        ("UnsupportedField", Refusal::NodeGroups { queue: "parent".into(), field: "spec.affinity" }),
        ("InvalidField", Refusal::Faulty(fault())),
        ("ClaimNotFound", claim(WhyUnusable::NotFound)),
        ("ClaimNotFound", claim(WhyUnusable::NotMade)),
        ("ClaimNotOwned", claim(WhyUnusable::NotOwned)),
        ("ClaimBeingDeleted", claim(WhyUnusable::Deleting)),
        ("ClaimLost", claim(WhyUnusable::Lost { volume: "v".into() })),
        ("ClaimNotBound", claim(WhyUnusable::NotBound { class: None })),
        ("ClaimNotBound", claim(WhyUnusable::NotBound { class: Some("c".into()) })),
        ("ClaimNotBound", claim(WhyUnusable::NotBoundTo { volume: "v".into() })),
        ("StorageClassNotFound", claim(WhyUnusable::ClassNotFound { class: "c".into() })),
        ("VolumeNotFound", claim(WhyUnusable::VolumeNotFound { volume: "v".into() })),
        ("UnsupportedField", Refusal::NetworkTopology),
        ("QueueNotFound", broken(Fault::NotFound)),
        ("QueueInvalid", broken(Fault::MissingParent { parent: "p".into() })),
        ("QueueInvalid", broken(Fault::Cycle)),
        ("QueueInvalid", broken(Fault::TooDeep)),
        ("QueueInvalid", broken(Fault::Guarantees(excess))),
        ("QueueNotLeaf", broken(Fault::NotLeaf)),
        ("QueueClosed", Refusal::Closed { queue: "parent".into() }),
        ("QueueQuotaExceeded", ceiling(Bound::Capability, 7, 0)),
        ("GuaranteeReserved", ceiling(Bound::Capability, 1, 6)),
        ("GuaranteeReserved", ceiling(Bound::Cluster, 1, 6)),
        ("QueueQuotaExceeded", ceiling(Bound::Capability, 7, 6)),
        ("ClusterFull", ceiling(Bound::Cluster, 7, 6)),
        ("RoomReserved", ceiling(Bound::Minimums, 7, 0)),
        ("NonPreemptableOverEntitlement", ceiling(Bound::Entitlement, 7, 0)),
        ("NotEnoughPods", Refusal::NotEnoughTasks { wanted: 2, there: 1, gated: 0 }),
        ("SchedulingGated", Refusal::NotEnoughTasks { wanted: 2, there: 1, gated: 1 }),
        ("NotEnoughPods", Refusal::NotEnoughTasks { wanted: 3, there: 1, gated: 1 }),
        ("SchedulingGated", Refusal::NotEnoughPodsOfTask { task: "t".into(), wanted: 2, there: 1, gated: 2 }),
        ("NotEnoughPodsOfTask", Refusal::NotEnoughPodsOfTask { task: "t".into(), wanted: 2, there: 1, gated: 0 }),
        ("NoNodes", nodes(None)),
        ("Cordoned", nodes(Some(Reason::Unschedulable))),
        ("Taints", nodes(Some(Reason::Taint(taint)))),
        ("NodeGroup", nodes(Some(Reason::NodeGroup { group: "a".into() }))),
        ("NodeSelector", nodes(Some(Reason::NodeSelector))),
        ("InsufficientResources", other_machines()),
        ("QueueQuotaExceeded", after_others()),
        ("NodeAffinity", nodes(Some(Reason::NodeAffinity))),
        ("HostPorts", nodes(Some(Reason::HostPorts))),
        ("ClaimInUse", nodes(Some(Reason::ClaimInUse))),
        ("VolumeLimit", nodes(Some(Reason::VolumeLimit))),
        ("VolumeNodeAffinity", nodes(Some(Reason::VolumeNodeAffinity))),
        ("NoVolume", nodes(Some(Reason::NoVolume))),
        ("NotEnoughStorage", nodes(Some(Reason::NotEnoughStorage))),
        ("VolumeBackoff", Refusal::Backoff { step: Step::Volumes, why: "not in time".into(), failures: 1, lack: None }),
        ("WaitingForVolumes", Refusal::Volumes { claims: 2, first: "data".into() }),
        ("VolumeZone", nodes(Some(Reason::VolumeZone))),
        ("NodeFeatures", nodes(Some(Reason::DeclaredFeature { feature: "F" }))),
        ("TopologySpread", nodes(Some(Reason::TopologySpread { topology_key: "zone".into() }))),
        ("TopologySpread", nodes(Some(Reason::TopologySpreadLabel { topology_key: "zone".into() }))),
        ("PodAffinity", nodes(Some(Reason::PodAffinity { topology_key: "zone".into() }))),
        ("PodAntiAffinity", nodes(Some(Reason::PodAntiAffinity { topology_key: "zone".into() }))),
        ("PodAntiAffinity", nodes(Some(Reason::ExistingAntiAffinity { topology_key: "zone".into() }))),
        ("InsufficientResources", nodes(Some(Reason::Lacks("example.com/gpu".into())))),
        ("BehindInFifoQueue", Refusal::Behind { first: Some(GroupKey::new("ns", "first")) }),
        ("QueueQuotaExceeded", Refusal::WithoutPreemption { refusal: Arc::new(ceiling(Bound::Capability, 7, 0)), why: not_taken() }),
        ("WaitingForPreemption", nominated(None)),
        ("WaitingForPreemption", nominated(Some(nodes(Some(Reason::Lacks("example.com/gpu".into())))))),
        (
            "WaitingForPreemption",
            nominated(Some(Refusal::WithoutPreemption { refusal: Arc::new(ceiling(Bound::Capability, 7, 0)), why: not_taken() })),
        ),
        ("BindBackoff", Refusal::Backoff { step: Step::Bind, why: "the bind was refused".into(), failures: 1, lack: None }),
        (
            "PreemptionBackoff",
            Refusal::Backoff { step: Step::Preemption, why: "an eviction was refused".into(), failures: 1, lack: other_machines().lack() },
        ),
        ("BindUnanswered", Refusal::Unanswered { binds: 1, why: "timeout" }),
    ]
}

#[test]
fn every_refusal_has_its_code_and_the_text_names_the_same_queue_and_resource() {
    let mut seen: BTreeSet<Code> = [Code::NotTried].into();
    for (code, refusal) in refusals() {
        let (cause, text) = (Cause::of(&refusal), refusal.message());
        assert_eq!(cause.code.as_str(), code, "{text}");
        assert!(text.starts_with(&format!("{code}: ")), "{text}");
        assert!(cause.queue.is_none_or(|queue| text.contains(&format!("queue \"{queue}\""))), "{text}");
        assert_eq!(cause.resource.is_some(), text.contains("example.com/gpu"), "{text}");
        let all = Explanation::of(&refusal);
        assert_eq!((all.code, all.queue.as_deref(), all.resource.as_deref()), (cause.code, cause.queue, cause.resource));
        seen.insert(cause.code);
    }
    assert_eq!(seen, Code::ALL.iter().copied().collect(), "a code that is never given");
}

/// The reason of PodScheduled, for which Cluster Autoscaler and Karpenter add nodes where it is `Unschedulable`.
#[test]
fn only_pods_that_lack_nodes_are_unschedulable() {
    let bought: BTreeSet<&str> =
        refusals().iter().filter(|(_, refusal)| refusal.pod_reason() == "Unschedulable").map(|(code, _)| *code).collect();
    let nodes: BTreeSet<&str> = "ClusterFull Cordoned HostPorts InsufficientResources NoNodes NoVolume NodeAffinity NodeFeatures \
        NodeGroup NodeSelector NotEnoughStorage PodAffinity PodAntiAffinity Taints TopologySpread VolumeLimit VolumeNodeAffinity VolumeZone"
        .split_whitespace()
        .collect();
    assert_eq!(bought, nodes);
    // Other refusals keep their own code.
    for (code, refusal) in refusals().into_iter().filter(|(code, _)| !nodes.contains(code)) {
        assert_eq!(refusal.pod_reason(), code);
    }
    // The cause why no pods are preempted makes no difference.
    let never = || Arc::new(NotPreempted::Never { class: None });
    let of = |refusal| Refusal::WithoutPreemption { refusal: Arc::new(refusal), why: never() }.pod_reason();
    assert_eq!((of(nodes_lack()), of(ceiling(Bound::Capability, 7, 0))), ("Unschedulable", "QueueQuotaExceeded"));
}

fn nodes_lack() -> Refusal {
    nodes(Some(Reason::Lacks("example.com/gpu".into())))
}

/// Returns the labels and the value of each series of waiting PodGroups.
fn waiting(registry: &Registry) -> Vec<(String, String)> {
    let text = text(registry).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("scheduler_queue_waiting_podgroups{")?.split_once("} "));
    lines.map(|(labels, value)| (labels.to_owned(), value.to_owned())).collect()
}

#[test]
fn the_condition_the_debug_page_and_the_metric_show_the_same_reason() {
    let registry = Registry::new();
    let queues = vec![
        queue("parent", None, &[("cpu", 2)]),
        queue("full", Some("parent"), &[]),
        QueueFacts { closed_by_hand: true, ..queue("closed", None, &[]) },
        queue("orphan", Some("nobody"), &[]),
    ];
    let of = |name: &str, minimum, queue: &str, cpu| (group("ns", name, minimum, queue), pod("ns", name, name, &[("cpu", cpu)]));
    let all = [
        of("a", 1, "full", 3),
        of("b", 1, "closed", 1),
        of("c", 1, "orphan", 1),
        of("d", 1, "default", 11),
        of("e", 2, "default", 1),
        of("f", 1, "missing", 1),
        of("g", 1, "parent", 1),
    ];
    let (groups, mut pods): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    // This pod has no PodGroup, so only the pod has a condition.
    pods.push(pod("ns", "h", "h", &[("cpu", 1)]));
    let mut state = state(&registry, queues, groups, pods);
    let (mut conditions, mut codes) = (BTreeMap::new(), BTreeMap::new());
    for millis in [0, 200, 3000, 5000] {
        for command in state.tick(at(millis)) {
            if let Command::Group { key, status, .. } = &command {
                let of = |kind: &str| status.conditions.iter().flatten().find(|each| each.kind.as_deref() == Some(kind));
                let (condition, code) = (of("Unschedulable"), of("podgroup.dev/Waiting").and_then(|each| each.reason.clone()));
                codes.extend(code.map(|code| (key.to_string(), code)));
                conditions.extend(condition.and_then(|each| Some((key.to_string(), each.message.clone()?))));
            }
            if let Command::Pod { name, condition, .. } = &command
                && **name == *"h"
            {
                conditions.extend(condition.message.clone().map(|message| ("ns/h".to_owned(), message)));
                codes.extend(condition.reason.clone().map(|reason| ("ns/h".to_owned(), reason)));
            }
            if let Some(subject) = crate::scheduler::state::subject(&command) {
                let outcome = crate::scheduler::event::WriteOutcome::Written { resource_version: "9".into() };
                state.learn(crate::scheduler::event::Report::Written(subject, outcome), at(millis));
            }
        }
    }
    state.metrics.show(Some(QueueSnapshot::of(&state)));
    let counted = waiting(&registry);
    let page = crate::scheduler::debug::answer(&state, Question::Queues, std::time::Duration::ZERO);
    let in_queues = page["queues"].as_array().unwrap().iter().flat_map(|queue| queue["waiting"].as_array().unwrap());
    let homeless = page["homeless"].as_object().unwrap().values().flat_map(|groups| groups.as_array().unwrap());
    let groupless = page["groupless"].as_array().unwrap();
    let entries: Vec<_> = in_queues.chain(homeless).chain(groupless).collect();
    // Each PodGroup counts in its own queue, `root`, `parent` and the missing parent of `orphan`.
    let own: Vec<_> = counted.iter().filter(|(labels, _)| !labels.contains("queue=\"root\"")).collect();
    assert_eq!((entries.len(), conditions.len(), own.len()), (8, 8, 10), "{entries:?} {conditions:?} {counted:?}");
    assert_eq!((groupless.len(), &groupless[0]["group"], &groupless[0]["phase"]), (1, &"ns/h".into(), &serde_json::Value::Null));
    for entry in entries {
        let group = entry["group"].as_str().unwrap();
        assert_eq!(Some(&conditions[group]), entry["message"].as_str().map(str::to_owned).as_ref(), "{group}");
        assert_eq!(entry["why"]["code"], codes[group].as_str(), "{group}");
        let label = |key: &str| entry["why"][key].as_str().unwrap_or_default().to_owned();
        let facts = state.scheduling.cache().groups()[&GroupKey::new("ns", group.split('/').next_back().unwrap())].facts.clone();
        let queue = facts.map_or_else(|| "missing".to_owned(), |facts| facts.queue.clone());
        // A name without a queue is not a label value.
        let shown = |queue: &str| if queue == "missing" { "(unknown)".to_owned() } else { queue.to_owned() };
        let (at, reason, resource) = (shown(&label("queue")), label("code"), label("resource"));
        let labels = format!("at=\"{at}\",queue=\"{}\",reason=\"{reason}\",resource=\"{resource}\"", shown(&queue));
        assert!(counted.contains(&(labels.clone(), "1".to_owned())), "{labels} is not in {counted:?}");
    }
    for (group, labels) in
        [("a", "at=\"parent\",queue=\"full\",reason=\"QueueQuotaExceeded\",resource=\"cpu\""), ("d", "reason=\"InsufficientResources\"")]
    {
        assert!(counted.iter().any(|(all, _)| all.contains(labels)), "{group}: {counted:?}");
    }
    let text = text(&registry).unwrap();
    assert!(text.contains("scheduler_refusals_total{reason=\"QueueQuotaExceeded\"} 1\n"), "{text}");
}

#[test]
fn amounts_are_in_cores_and_bytes_and_unset_limits_are_absent() {
    let registry = Registry::new();
    let deserving = QueueFacts {
        deserved: limits(&[("cpu", 4), ("example.com/gpu", 2)]),
        guarantee: limits(&[("memory", 3)]),
        ..queue("q", None, &[("cpu", 0)])
    };
    let mut used = pod("ns", "a", "g", &[("memory", (1 << 40) + 1)]);
    used.request.set("cpu", Amount::from_nanos(1_500_000_001));
    let groups = vec![group("ns", "g", 1, "q")];
    let state = state(&registry, vec![deserving, queue("below", Some("q"), &[])], groups, vec![running(used, "n")]);
    state.metrics.show(Some(QueueSnapshot::of(&state)));
    let text = text(&registry).unwrap();
    for line in [
        "scheduler_queue_allocated{queue=\"q\",resource=\"cpu\",unit=\"core\"} 1.500000001",
        "scheduler_queue_allocated{queue=\"root\",resource=\"memory\",unit=\"byte\"} 1099511627777",
        "scheduler_queue_allocated_itself{queue=\"q\",resource=\"pods\",unit=\"integer\"} 1",
        "scheduler_queue_capability{queue=\"q\",resource=\"cpu\",unit=\"core\"} 0",
        "scheduler_queue_deserved{queue=\"q\",resource=\"cpu\",unit=\"core\"} 4",
        "scheduler_queue_deserved{queue=\"q\",resource=\"example.com/gpu\",unit=\"integer\"} 2",
        "scheduler_queue_allocated{queue=\"q\",resource=\"example.com/gpu\",unit=\"integer\"} 0",
        "scheduler_queue_guarantee{queue=\"q\",resource=\"memory\",unit=\"byte\"} 3",
        "scheduler_queue_share{queue=\"q\",resource=\"cpu\",unit=\"core\"} 0",
        "scheduler_queue_allocated{queue=\"below\",resource=\"cpu\",unit=\"core\"} 0",
        "scheduler_queue_state{queue=\"q\",state=\"open\"} 1",
        "scheduler_responsive 1",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
    }
    for absent in
        ["capability{queue=\"below\"", "capability{queue=\"q\",resource=\"memory\"", "deserved{queue=\"root\"", "itself{queue=\"root\""]
    {
        assert!(!text.contains(absent), "{absent} is in\n{text}");
    }
}

#[test]
fn nominated_capacity_is_reserved_and_not_used_and_the_podgroup_still_waits() {
    let born = k8s_openapi::jiff::Timestamp::from_second(77).unwrap();
    let pods = vec![
        running(pod("ns", "v", "v", &[("cpu", 8)]), "n"),
        running(pod("ns", "r", "r", &[("cpu", 1)]), "n"),
        PodFacts { created: born, ..pod("ns", "a", "g", &[("cpu", 3)]) },
    ];
    let groups = vec![group("ns", "g", 1, "team"), group("ns", "v", 1, "default"), group("ns", "r", 1, "team")];
    let mut state = state(&Registry::new(), vec![queue("org", None, &[]), queue("team", Some("org"), &[])], groups, pods);
    let _cycle = state.tick(at(0));
    assert!(state.scheduling.nominated(&GroupKey::new("ns", "g")).is_some(), "the borrowed capacity is reclaimed for it");
    let snapshot = QueueSnapshot::of(&state);
    let cpu = |of, queue: &str| snapshot.amounts.get(&(of, queue.to_owned(), "cpu".to_owned())).copied().unwrap_or(Amount::ZERO);
    for (of, wanted) in [(Of::AllocatedItself, [1, 0, 0]), (Of::Allocated, [1, 1, 9]), (Of::Reserved, [3, 3, 3])] {
        assert_eq!(["team", "org", "root"].map(|queue| cpu(of, queue)), wanted.map(Amount::from_units), "{of:?}");
    }
    let evicting =
        |queue: &str| snapshot.waiting.get(&(queue.to_owned(), "WaitingForPreemption", String::new(), "cpu".to_owned())).copied();
    assert_eq!(["team", "org", "root"].map(evicting), [Some(1); 3], "{:?}", snapshot.waiting);
    assert_eq!(snapshot.oldest.get("org"), Some(&77));
}

#[test]
fn a_deleted_queue_has_no_series_and_a_standby_replica_shows_none() {
    let registry = Registry::new();
    let mut state = state(&registry, vec![queue("q", None, &[("cpu", 1)])], Vec::new(), Vec::new());
    let shown = |state: &State| {
        state.metrics.show(Some(QueueSnapshot::of(state)));
        text(&registry).unwrap()
    };
    assert!(shown(&state).contains("queue=\"q\""));
    state.apply(Event::of::<Queues>(Change::Delete("q".into())), at(1));
    let text = shown(&state);
    assert!(!text.contains("queue=\"q\"") && text.contains("queue=\"root\""), "{text}");
    state.metrics.show(None);
    let text = crate::runtime::metrics::text(&registry).unwrap();
    // Only what has been counted stays, and that is no series of the snapshot.
    let of_queues = text.lines().filter(|line| line.contains("queue=\"") && !line.contains("scheduler_pod_waiting_seconds"));
    assert_eq!(of_queues.collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(text.contains("scheduler_responsive 0"), "{text}");
    let registry = Registry::new();
    let mut stands_by = State::new([DEFAULT_SCHEDULER.to_owned()], POLICY, Metrics::new(&registry).unwrap());
    stands_by.apply(Event::of::<Queues>(reset(vec![queue("q", None, &[("cpu", 1)])])), at(0));
    stands_by.metrics.show(Some(QueueSnapshot::of(&stands_by)));
    let text = crate::runtime::metrics::text(&registry).unwrap();
    assert!(!text.contains("queue=\"q\""), "{text}");
    assert_eq!(QueueSnapshot::of(&stands_by), QueueSnapshot::default());
}

#[test]
fn user_input_adds_a_bounded_number_of_series_and_summed_queues_count_once() {
    let registry = Registry::new();
    // Every second queue is below the one before it. Of the queues beyond the limit, only the upper ones are summed.
    let name = |number: usize| format!("q{number:04}");
    let queues: Vec<_> = (0..700)
        .map(|number| {
            queue(&name(number), (number % 2 == 1).then(|| name(number - 1)).as_deref(), &[("cpu", 1), (odd(number).as_str(), 1)])
        })
        .collect();
    let groups: Vec<_> = (0..700).map(|number| group("ns", &format!("g{number}"), 1, &format!("nobody{number}"))).collect();
    let mut pods: Vec<_> =
        (0..700).map(|number| pod("ns", &format!("p{number}"), &format!("g{number}"), &[(odd(number).as_str(), 1)])).collect();
    let mut charged = running(pod("ns", "r", "r", &[("cpu", 2)]), "n");
    charged.charged_queue = Some(name(699).as_str().into());
    pods.push(charged);
    let mut state = state(&registry, queues, groups, pods);
    let _binds = state.tick(at(0));
    let snapshot = QueueSnapshot::of(&state);
    let queues: BTreeSet<_> = snapshot.amounts.keys().map(|(_, queue, _)| queue.as_str()).collect();
    let resources: BTreeSet<_> = snapshot.amounts.keys().map(|(_, _, resource)| resource.as_str()).collect();
    // `ephemeral-storage` has a label value, but no amounts.
    assert_eq!((queues.len(), resources.len()), (QUEUES + 1, RESOURCES - 1));
    assert!(queues.contains("default") && queues.contains("root") && queues.contains(OTHERS) && !queues.contains("q0699"));
    let of = |of, resource: &str| snapshot.amounts.get(&(of, OTHERS.to_owned(), resource.to_owned())).copied();
    assert_eq!(of(Of::Allocated, "cpu"), Some(Amount::from_units(2)), "once, and not in q0698 too");
    assert_eq!(of(Of::AllocatedItself, "cpu"), Some(Amount::from_units(2)));
    assert_eq!(of(Of::Capability, "cpu"), Some(Amount::from_units(101)), "of the topmost queues");
    assert_eq!(snapshot.states.get(&(OTHERS.to_owned(), "open")), Some(&202));
    let missing = |queue: &str, at: &str| (queue.to_owned(), "QueueNotFound", at.to_owned(), String::new());
    assert_eq!(snapshot.waiting, [(missing(UNKNOWN, UNKNOWN), 700), (missing("root", BELOW), 700)].into());
}

pub(super) fn odd(number: usize) -> String {
    format!("example.com/r{number:04}")
}

#[test]
fn each_queue_that_exists_is_counted_in_its_state_and_no_other() {
    let closed = |name: &str| QueueFacts { closed_by_hand: true, ..queue(name, None, &[]) };
    let queues = vec![closed("closed"), closed("closing"), queue("broken", Some("nobody"), &[])];
    let charged = |name: &str, queue: &str| {
        let facts = running(pod("ns", name, name, &[("cpu", 1)]), "n");
        PodFacts { charged_queue: Some(queue.into()), ..facts }
    };
    let state = state(&Registry::new(), queues, Vec::new(), vec![charged("a", "closing"), charged("b", "gone")]);
    let states = [("broken", "broken"), ("closed", "closed"), ("closing", "closing"), ("default", "open"), ("root", "open")];
    assert_eq!(QueueSnapshot::of(&state).states, states.map(|(queue, state)| ((queue.to_owned(), state), 1)).into());
}
