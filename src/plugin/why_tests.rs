//! The report about a waiting PodGroup, as text and as JSON.

use std::sync::Arc;

use super::*;
use crate::accounting::{Bound, Ceiling};
use crate::api::pod::PodCondition;
use crate::api::pod_terms::PodTerms;
use crate::api::podgroup::PodGroupCondition;
use crate::api::quantities::RawQuantity;
use crate::api::volumes::PodClaim;
use crate::api::{GroupKey, QueueFacts, node::Taint};
use crate::cycle::explain::Cause;
use crate::cycle::testing::{amounts, group, limits, node, pod, queue, running};
use crate::plugin::page;
use crate::resources::Amount;
use proptest::prelude::*;

fn used(mut queue: QueueFacts, cpu: &str) -> QueueFacts {
    queue.status.allocated = Some([("cpu".to_owned(), RawQuantity::Text(cpu.to_owned()))].into());
    queue.status.state = Some("Open".to_owned());
    queue
}

fn says(mut group: GroupFacts, phase: &str, message: &str) -> GroupFacts {
    let condition = PodGroupCondition {
        kind: Some("Unschedulable".into()),
        status: Some("True".into()),
        reason: Some("NotEnoughResources".into()),
        message: Some(message.into()),
        last_transition_time: Some("2026-01-01T00:00:00Z".into()),
        ..PodGroupCondition::default()
    };
    group.status.phase = Some(phase.into());
    group.status.conditions = Some(vec![condition]);
    group
}

fn facts(group: GroupFacts, pods: Vec<PodFacts>, nodes: Vec<NodeFacts>, queues: Vec<QueueFacts>) -> Facts {
    Facts {
        group,
        answer: None,
        owner: Some("ReplicaSet train-1".into()),
        others: Vec::new(),
        pods: Some(pods),
        all_pods: true,
        nodes: Some(nodes),
        namespaces: Some(Vec::new()),
        queues: Some(Queues::new(queues, None)),
        events: Vec::new(),
        gaps: Vec::new(),
    }
}

fn now() -> Timestamp {
    "2026-01-01T00:05:00Z".parse().unwrap()
}

/// Returns the scheduler's explanation for a queue with too little cpu: requested, used, unused guarantee and limit.
fn full_queue(queue: &str, [asked, used, kept, limit]: [Amount; 4]) -> Explanation {
    let bound = Bound::Capability;
    Explanation::of(&Refusal::Ceiling(Ceiling {
        queue: queue.into(),
        dimension: "cpu".into(),
        asked,
        used,
        reserved: Amount::ZERO,
        unused_guarantee: kept,
        limit,
        bound,
    }))
}

/// Returns the scheduler's answer about a PodGroup with this request.
fn asks(why: Explanation, amounts: &[(&str, i64)]) -> WaitingAnswer {
    let requested = amounts.iter().map(|(name, units)| ((*name).to_owned(), RawQuantity::Int(*units))).collect();
    WaitingAnswer {
        group: "ns/g".to_owned(),
        why: why.clone(),
        requested: Some(requested),
        unreserved: false,
        shortages: vec![why],
        position: None,
    }
}

/// Returns a PodGroup of two members of 1 cpu each. The parent of its queue has 2 cpu, both used.
fn parent_full() -> Facts {
    let queues = vec![
        used(queue("test-root", None, &[("cpu", 2)]), "2"),
        used(queue("sub-0", Some("test-root"), &[]), "2"),
        used(queue("sub-1", Some("test-root"), &[]), "0"),
    ];
    let pods = ["a", "b"].map(|name| pod("ns", name, "job-2", &[("cpu", 1)])).into();
    let message = "QueueQuotaExceeded: queue \"test-root\" is over its quota: cpu requested 2, used 2, capability 2";
    let [asked, used, kept, limit] = [2, 2, 0, 2].map(Amount::from_units);
    let full = full_queue("test-root", [asked, used, kept, limit]);
    let facts = facts(says(group("ns", "job-2", 2, "sub-1"), "Pending", message), pods, vec![node("n1", &[("cpu", 16)])], queues);
    let answer = WaitingAnswer { position: Some(2), ..asks(full, &[("cpu", 2), ("pods", 2)]) };
    Facts { answer: Some(answer), ..facts }
}

#[test]
fn a_full_parent_is_named_with_its_resource_and_by_how_much_it_is_short() {
    let report = Report::of(parent_full(), now());
    let want = "\
PodGroup ns/job-2 (ReplicaSet train-1) waits: Pending, for 5m
  minMember 2; 2 pods: 2 waiting
  the scheduler says: QueueQuotaExceeded: queue \"test-root\" is over its quota: cpu requested 2, used 2, capability 2

Queue sub-1: it asks for cpu 2, pods 2
  position 2 among the PodGroups that wait in this queue
  QUEUE        STATE  RESOURCE  USED  RESERVED  REQUESTED  CAPABILITY
  root         ?      cpu       ?     ?         2          -
    test-root  Open   cpu       2     ?         2          2           2 too much
      sub-1    Open   cpu       0     ?         2          -

Nodes: there is room for 2 of its members now

What would have to change
  * cpu 2 must become free in queue test-root and below it, or its spec.capability be raised from cpu 2 to 4
";
    assert_eq!(report.page(false).render(false), want);
    let value = report.json();
    assert_eq!(value["queues"][1]["name"], "test-root");
    assert_eq!(value["explanation"]["quota"]["short"], "2");
    assert_eq!((&value["said"]["code"], &value["explanation"]["code"]), (&"QueueQuotaExceeded".into(), &"QueueQuotaExceeded".into()));
    assert_eq!(value["nodes"]["verdict"], "enough");
    assert_eq!((&value["waits"], &value["position"]), (&true.into(), &2.into()));
}

#[test]
fn nodes_that_lack_a_resource_are_counted_and_have_advice() {
    let tainted =
        NodeFacts { taints: vec![Taint { key: "team".into(), value: None, effect: "NoSchedule".into() }], ..node("n4", &[("cpu", 9)]) };
    let cordoned = NodeFacts { unschedulable: true, ..node("n3", &[("cpu", 9)]) };
    let nodes = vec![node("n1", &[("cpu", 9)]), node("n2", &[("cpu", 9)]), cordoned, tainted];
    let mut pods: Vec<_> = ["a", "b", "c"].map(|name| pod("ns", name, "g", &[("cpu", 6)])).into();
    pods.push(running(pod("ns", "x", "other", &[("cpu", 1)]), "n1"));
    let refusal = Refusal::Nodes { needed: 3, placed: 2, member: None, tally: std::sync::Arc::default(), exceeds: None };
    let answer = asks(Explanation::of(&refusal), &[("cpu", 18), ("pods", 3)]);
    let facts = facts(says(group("ns", "g", 3, "default"), "Inqueue", "…"), pods, nodes, Vec::new());
    let report = Report::of(Facts { answer: Some(WaitingAnswer { shortages: Vec::new(), ..answer }), ..facts }, now());
    let text = report.page(false).render(false);
    let want = "\
Nodes: 2 of 3 members that go together find a place; none of 4 nodes takes the next (c)
  2 of 4  Insufficient cpu (requested 6, most free 3)
  1 of 4  node(s) were unschedulable
  1 of 4  node(s) had untolerated taint(s) (team:NoSchedule)

What would have to change
  * a node must have cpu 6 free for the next member, and the most that any has is 3; or uncordon 1 node (n3), if the next member fits there; or let the pods tolerate the taint team:NoSchedule of 1 node, if the next member fits there
";
    assert!(text.ends_with(want), "{text}");
    assert!(text.contains("it is admitted, and cpu 18, pods 3 reserved for it at every level"), "{text}");
    assert_eq!(report.json()["nodes"]["reasons"][0]["mostFree"], "3");
}

#[test]
fn a_podgroup_that_is_admitted_and_has_no_reservation_does_not_say_that_it_has_one() {
    let refusal = Refusal::NotEnoughTasks { wanted: 3, there: 1, gated: 0 };
    let answer = WaitingAnswer { unreserved: true, shortages: Vec::new(), ..asks(Explanation::of(&refusal), &[("cpu", 10)]) };
    let pods = vec![pod("ns", "a", "g", &[("cpu", 6)])];
    let facts = facts(says(group("ns", "g", 3, "default"), "Inqueue", "…"), pods, vec![node("n1", &[("cpu", 9)])], Vec::new());
    let text = Report::of(Facts { answer: Some(answer), ..facts }, now()).page(false).render(false);
    assert!(text.contains("it is admitted for cpu 10, and reserves nothing before its pods exist or there is room"), "{text}");
}

/// Collects every field name in an object and below it, without resource names.
fn names(value: &Value, found: &mut std::collections::BTreeSet<String>) {
    let inner: Vec<&Value> = match value {
        Value::Object(fields) => {
            found.extend(fields.keys().filter(|name| !["cpu", "pods"].contains(&name.as_str())).cloned());
            fields.values().collect()
        }
        Value::Array(entries) => entries.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    inner.into_iter().for_each(|value| names(value, found));
}

#[test]
fn every_field_of_the_json_is_documented() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plugin.md")).unwrap();
    let document = document.split("\n| verb | fields |").nth(1).unwrap();
    let event = Event { at: None, kind: "Warning".into(), reason: "r".into(), message: "m".into(), from: "f".into(), claim: None };
    let few = facts(
        says(group("ns", "g", 1, "default"), "Pending", "m"),
        vec![pod("ns", "a", "g", &[("cpu", 9)])],
        vec![node("n", &[("cpu", 4)])],
        vec![],
    );
    let facts =
        [Facts { events: vec![event], gaps: vec![Gap::new("a", "b")], ..parent_full() }, Facts { nodes: None, ..parent_full() }, few];
    let mut found = std::collections::BTreeSet::new();
    facts.into_iter().for_each(|facts| names(&Report::of(facts, now()).json(), &mut found));
    assert!(found.len() > 40 && found.contains("mostFree"), "{found:?}");
    // The fields of every verb are above the table.
    let untold: Vec<_> = found
        .iter()
        .filter(|name| !["unknown", "what", "why"].contains(&name.as_str()) && !document.contains(&format!("`{name}`")))
        .collect();
    assert!(untold.is_empty(), "{untold:?}");
}

#[test]
fn the_words_of_a_provisioner_are_read_while_the_podgroup_waits_for_volumes() {
    let waits_for = |code: &str| {
        let mut group = says(group("ns", "g", 1, "default"), "Inqueue", "m");
        let condition = |kind: &str| PodGroupCondition {
            kind: Some(kind.into()),
            status: Some("True".into()),
            reason: Some(code.into()),
            ..PodGroupCondition::default()
        };
        group.status.conditions.as_mut().unwrap().push(condition(WAITING));
        group
    };
    let with = |claim: &str, pod: PodFacts| {
        let claims = vec![PodClaim { name: claim.into(), is_ephemeral: false }];
        PodFacts { terms: Arc::new(PodTerms { claims, ..PodTerms::default() }), ..pod }
    };
    let pods = [
        with("data", pod("ns", "a", "g", &[])),
        with("bound", running(pod("ns", "b", "g", &[]), "n1")),
        with("other", pod("ns", "c", "other", &[])),
    ];
    let claims = |code: &str| claims_without_volume(&waits_for(code), pods.iter());
    assert_eq!(claims("WaitingForVolumes"), ["data"].into());
    assert_eq!(claims("VolumeBackoff"), ["data"].into());
    assert_eq!(claims("NoVolume"), ["data"].into());
    assert_eq!(claims("unknown"), [].into());
    let event = Event {
        at: Some(now()),
        kind: "Warning".into(),
        reason: "ProvisioningFailed".into(),
        message: "no path".into(),
        from: "p".into(),
        claim: Some("data".into()),
    };
    let report = Report::of(Facts { events: vec![event], ..facts(waits_for("VolumeBackoff"), pods.to_vec(), vec![], vec![]) }, now());
    let page = report.page(false).render(false);
    assert!(page.contains("0s ago  Warning ProvisioningFailed persistentvolumeclaim data (p): no path"), "{page}");
}

/// Obstacles other than a lack of resources.
#[test]
fn every_obstacle_has_advice() {
    let changes = |facts: Facts| Report::of(facts, now()).changes.join("\n");
    let of = |group: GroupFacts, pods: Vec<PodFacts>, queues| {
        changes(facts(says(group, "Pending", "…"), pods, vec![node("n1", &[("cpu", 4)])], queues))
    };
    let member = |cpu| pod("ns", "a", "g", &[("cpu", cpu)]);
    let closed = QueueFacts { closed_by_hand: true, ..queue("up", None, &[]) };
    let guarantees = |queue: QueueFacts, cpu| QueueFacts { guarantee: limits(&[("cpu", cpu)]), ..queue };
    let table = [
        (of(group("ns", "g", 1, "gone"), vec![member(1)], vec![]), "queue gone must be created"),
        (of(group("ns", "g", 1, "a"), vec![member(1)], vec![queue("a", Some("b"), &[])]), "queue b must be created"),
        (
            of(
                group("ns", "g", 1, "kid"),
                vec![member(1)],
                vec![guarantees(queue("par", None, &[]), 1), guarantees(queue("kid", Some("par"), &[]), 3)],
            ),
            "the guarantee of queue par must be at least cpu 3, or the guarantees of the queues below it be lower",
        ),
        (
            of(group("ns", "g", 1, "up"), vec![member(1)], vec![queue("up", None, &[]), queue("leaf", Some("up"), &[])]),
            "name a queue that has none below it: leaf",
        ),
        (of(group("ns", "g", 1, "q"), vec![member(1)], vec![closed, queue("q", Some("up"), &[])]), "kubectl podgroup queue open up"),
        (
            changes(Facts {
                answer: Some(asks(full_queue("q", [3, 0, 0, 2].map(Amount::from_units)), &[])),
                ..facts(group("ns", "g", 1, "q"), vec![member(3)], vec![], vec![used(queue("q", None, &[("cpu", 2)]), "0")])
            }),
            "queue q may never use more than 2",
        ),
        (
            of(group("ns", "g", 3, "default"), vec![member(1)], vec![]),
            "the gang lacks 2 of its 3 members (or minMember must be 1): its phase is Pending, and an operator may create pods only after the PodGroup is admitted",
        ),
        (
            changes(facts(says(group("ns", "g", 3, "default"), "Inqueue", "…"), vec![], vec![node("n1", &[("cpu", 4)])], vec![])),
            "the gang lacks 3 of its 3 members: the Events of their owner say what keeps them from being made, for example a quota",
        ),
        (of(group("ns", "g", 1, "default"), vec![PodFacts { gated: true, ..member(1) }], vec![]), "members held by scheduling gates: 1"),
        (of(group("ns", "g", 1, "default"), vec![member(5)], vec![]), "no node offers more than 4"),
        (
            of(group("ns", "g", 1, "default"), vec![pod("ns", "a", "g", &[("nvidia.com/gpus", 2)])], vec![]),
            "no node offers nvidia.com/gpus: check the name of the resource and its device plugin",
        ),
        (
            changes(facts(group("ns", "g", 1, "default"), vec![member(1)], vec![], vec![])),
            "a scheduler that serves spec.schedulerName podgroup-scheduler must run",
        ),
    ];
    for (got, part) in table {
        assert!(got.contains(part), "{part} is not in: {got}");
    }
}

#[test]
fn an_admitted_podgroup_reserves_nothing_while_its_pods_have_scheduling_gates() {
    let pods = vec![PodFacts { gated: true, ..pod("ns", "a", "g", &[("cpu", 1)]) }];
    let refusal = Refusal::NotEnoughTasks { wanted: 2, there: 0, gated: 2 };
    let answer = asks(Explanation::of(&refusal), &[("cpu", 2)]);
    let facts = facts(says(group("ns", "g", 1, "default"), "Inqueue", "…"), pods, vec![node("n1", &[("cpu", 4)])], Vec::new());
    let text = Report::of(Facts { answer: Some(answer), ..facts }, now()).page(false).render(false);
    assert!(text.contains("Queue default: it is admitted, and reserves nothing while pods have scheduling gates\n"), "{text}");
}

#[test]
fn the_advice_names_no_missing_owner_and_no_gang_without_members() {
    let changes = |owner: Option<&str>, pods| {
        let facts = facts(says(group("ns", "g", 2, "gone"), "Pending", "…"), pods, vec![node("n1", &[("cpu", 4)])], vec![]);
        Report::of(Facts { owner: owner.map(str::to_owned), ..facts }, now()).changes.join("\n")
    };
    let one = || vec![pod("ns", "a", "g", &[("cpu", 1)])];
    let owned = changes(Some("Job j"), one());
    assert!(owned.contains("queue-name of its owner") && owned.contains("(or minMember must be 1)"), "{owned}");
    let alone = changes(None, Vec::new());
    assert!(alone.contains("queue gone must be created, or the PodGroup must name another (its spec.queue)"), "{alone}");
    assert!(alone.contains("the gang lacks 2 of its 2 members:"), "{alone}");
}

#[test]
fn a_podgroup_without_pods_is_not_tried_in_the_next_cycle() {
    let changes = |pods| {
        let answer = asks(Explanation::plain(&Cause::plain(Code::NotTried)), &[]);
        let facts = facts(group("ns", "g", 1, "default"), pods, vec![node("n1", &[("cpu", 4)])], vec![]);
        Report::of(Facts { answer: Some(answer), ..facts }, now()).changes.join("\n")
    };
    let none = changes(vec![]);
    assert!(none.contains("the gang lacks 1 of its 1 members") && !none.contains("next cycle"), "{none}");
    assert_eq!(changes(vec![pod("ns", "a", "g", &[("cpu", 1)])]), "nothing: the scheduler tries it in its next cycle");
}

#[test]
fn a_pod_beyond_the_minimum_waits_since_it_was_created_and_its_condition_is_shown() {
    let mut group = group("ns", "g", 1, "default");
    group.status.phase = Some("Running".into());
    group.created = "2026-01-01T00:00:00Z".parse().unwrap();
    let condition = |status: &str| PodCondition {
        kind: "PodScheduled".into(),
        status: status.into(),
        reason: Some("Unschedulable".into()),
        message: Some("no room".into()),
    };
    let later = PodFacts {
        created: "2026-01-01T00:04:56Z".parse().unwrap(),
        scheduled_condition: Some(condition("False")),
        ..pod("ns", "b", "g", &[("cpu", 1)])
    };
    let first = PodFacts { scheduled_condition: Some(condition("True")), ..running(pod("ns", "a", "g", &[("cpu", 1)]), "n1") };
    let pods = vec![first, later];
    let report = Report::of(facts(group, pods, vec![node("n1", &[("cpu", 1)])], vec![]), now());
    let page = report.page(false).render(false);
    assert!(page.starts_with("PodGroup ns/g (ReplicaSet train-1) waits: Running, for 4s\n"), "{page}");
    assert!(page.contains("\n  the scheduler says of pod b (Unschedulable): no room\n"), "{page}");
    assert_eq!(report.json()["pod"], serde_json::json!({ "name": "b", "reason": "Unschedulable", "message": "no room" }));
}

#[test]
fn a_gang_that_requests_more_than_all_nodes_offer_needs_more_nodes() {
    let changes = |minimum, members: usize| {
        let pods = (0..members).map(|at| pod("ns", &format!("p{at}"), "g", &[("cpu", 1)])).collect();
        let nodes = vec![node("n1", &[("cpu", 2)]), node("n2", &[("cpu", 1)])];
        Report::of(facts(says(group("ns", "g", minimum, "default"), "Inqueue", "…"), pods, nodes, vec![]), now()).changes.join("\n")
    };
    let few = "a node must have cpu 1 free for the next member, and the most that any has is 0";
    let never = "the gang requests cpu 5 together, and all nodes offer 3: add nodes, or request less";
    assert_eq!(changes(5, 5), format!("{few}\n{never}"));
    assert!(!changes(3, 5).contains("the gang requests"), "two members are not needed");
}

#[test]
fn min_resources_above_the_capability_can_never_fit_also_without_the_scheduler() {
    let changes = |requested| {
        let mut group = says(group("ns", "g", 1, "q"), "Pending", "m");
        group.min_resources = Some(amounts(&[("cpu", requested)]));
        let waiting = PodGroupCondition {
            kind: Some(WAITING.into()),
            status: Some("True".into()),
            reason: Some("QueueQuotaExceeded".into()),
            ..PodGroupCondition::default()
        };
        group.status.conditions.as_mut().unwrap().push(waiting);
        let pods = vec![pod("ns", "a", "g", &[("cpu", requested)])];
        let queues = vec![used(queue("q", None, &[("cpu", 2)]), "0")];
        Report::of(facts(group, pods, vec![node("n1", &[("cpu", 4)])], queues), now()).changes
    };
    let never = "the PodGroup requests cpu 3, and queue q may never use more than 2: raise spec.capability of q to cpu 3, or request less";
    assert_eq!(changes(3), [never]);
    assert_eq!(changes(2), ["what it requests must become free in the queue that the scheduler names, or its spec.capability be raised"]);
}

#[test]
fn a_placed_podgroup_does_not_wait_whatever_its_condition_says() {
    let pods = vec![running(pod("ns", "a", "g", &[("cpu", 1)]), "n1")];
    let report =
        Report::of(facts(says(group("ns", "g", 1, "default"), "Running", "old"), pods, vec![node("n1", &[("cpu", 4)])], vec![]), now());
    assert_eq!(
        report.page(false).render(false),
        "PodGroup ns/g (ReplicaSet train-1) does not wait: Running\n  minMember 1; 1 pod: 1 on nodes\n"
    );
}

#[test]
fn a_running_podgroup_of_a_deleted_queue_has_a_warning() {
    let page = |phase: &str| {
        let pods = vec![running(pod("ns", "a", "g", &[("cpu", 1)]), "n1")];
        let group = says(group("ns", "g", 1, "research"), phase, "old");
        Report::of(facts(group, pods, vec![node("n1", &[("cpu", 4)])], vec![]), now()).page(false).render(false)
    };
    assert_eq!(
        page("Running"),
        "PodGroup ns/g (ReplicaSet train-1) does not wait: Running\n  minMember 1; 1 pod: 1 on nodes\n  warning: queue \"research\" does not exist: new pods of this PodGroup will wait\n"
    );
    assert!(!page("Completed").contains("warning"));
}

#[test]
fn unknown_facts_are_not_guessed() {
    let mut facts = parent_full();
    facts.all_pods = false;
    facts.gaps = vec![Gap::new("pods of all namespaces", "forbidden")];
    let report = Report::of(facts, now());
    assert_eq!(report.places, None, "what is free on the nodes is not known without all pods");
    assert!(report.page(false).render(false).ends_with("Not known\n  pods of all namespaces: forbidden\n"));
    let mut blind = parent_full();
    (blind.pods, blind.nodes, blind.queues) = (None, None, None);
    let report = Report::of(blind, now());
    assert!(report.waits, "the scheduler says so");
    assert_eq!(report.json()["members"], Value::Null);
}

proptest! {
    #![proptest_config(crate::random_tests::config(256))]

    /// Names, messages and amounts of any form; queues in any shape.
    #[test]
    fn any_input_gives_a_report_without_control_characters_from_it(
        texts in prop::collection::vec(any::<String>(), 8),
        parents in prop::collection::vec(0_usize..4, 4),
        minimum in any::<u32>(),
        cpu in any::<i64>(),
        nodes in 0_usize..3,
    ) {
        let names: Vec<&str> = texts.iter().map(String::as_str).collect();
        let queues: Vec<_> = (0..4).map(|at| used(queue(names[at], Some(names[parents[at]]), &[(names[4], cpu)]), names[5])).collect();
        let mut group = says(group(names[6], names[7], minimum, names[0]), names[1], names[2]);
        group.key = GroupKey::new("ns", names[7]);
        let pods = vec![pod("ns", names[3], names[7], &[(names[4], cpu.saturating_abs())]), running(pod("ns", names[5], names[7], &[("cpu", 1)]), names[6])];
        let nodes = (0..nodes).map(|at| node(names[at], &[(names[4], cpu.saturating_abs())])).collect();
        let mut facts = facts(group, pods, nodes, queues);
        facts.owner = Some(texts[6].clone());
        facts.others = texts.clone();
        facts.gaps = vec![Gap::new(names[1], names[2])];
        facts.events = vec![Event { at: Some(now()), kind: texts[0].clone(), reason: texts[1].clone(), message: texts[3].clone(), from: texts[4].clone(), claim: Some(texts[6].clone()) }];
        let report = Report::of(facts, now());
        for text in [report.page(true).render(false), report.page(false).render(false), page::json(&report.json())] {
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
        // A coloured page contains only its own escape sequences.
        let coloured = report.page(true).render(true);
        let without = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"].iter().fold(coloured, |text, code| text.replace(code, ""));
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        prop_assert_eq!(lines(&without), lines(&report.page(true).render(false)));
    }
}
