//! Tests of the sources of each field, and of values that cannot be used.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::api::Uid;
use crate::api::names::{MIN_RESOURCES, QUEUE_NAME};
use crate::api::workload::GroupAnnotations;
use crate::resources::{Amount, Resources};

const RS: &str = "0a1b2c3d-0000-1111-2222-333344445555";

fn object(kind: &str, uid: &str) -> ObjectRef {
    ObjectRef { kind: kind.into(), api_version: "apps/v1".into(), namespace: "ns".into(), name: "x".into(), uid: Uid::from(uid) }
}

fn annotations(pairs: &[(&str, &str)]) -> GroupAnnotations {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn replica_set(own: &[(&str, &str)], template: &[(&str, &str)]) -> OwnerFacts {
    OwnerFacts {
        object: object("ReplicaSet", RS),
        deleting: false,
        wants_pods: true,
        gang: Gang::UpTo { now: 4, in_all: 4, completions: None },
        parent: None,
        set: None,
        scheduler: Arc::from("ours"),
        annotations: annotations(own),
        template_annotations: annotations(template),
        named_group: false,
        priority_class: Some("high".into()),
        request: Resources::new().with("cpu", Amount::from_units(2)).with("pods", Amount::from_units(1)),
        selector: Some("app=x".into()),
        faults: Vec::new(),
    }
}

/// Returns a set of this number of owners.
fn set_of(owners: u32) -> OwnerSet {
    let group = GroupKey::new("ns", "jobset-train-0");
    OwnerSet { object: object("JobSet", "set"), owners, group, joins: false, index: 0, pods: 4, succeeded: None, born: None }
}

fn deployment(own: &[(&str, &str)], wants: u32) -> DeploymentFacts {
    DeploymentFacts { uid: Uid::from("d"), namespace: "ns".into(), wants, annotations: annotations(own) }
}

fn desired_for(replica_set: &OwnerFacts, deployment: Option<&DeploymentFacts>, queue: Option<&str>) -> DesiredGroup {
    let queue = queue.map_or(NamespaceQueue::Unsaid, |name| NamespaceQueue::Named(name.to_owned()));
    intend(replica_set, deployment, &queue, &["other".into(), "ours".into()]).unwrap()
}

/// Returns the desired PodGroup of a ReplicaSet with only this annotation.
fn with(key: &str, value: &str) -> DesiredGroup {
    desired_for(&replica_set(&[(key, value)], &[]), None, None)
}

#[test]
fn a_gang_of_one_owner_of_a_set_is_noted_wherever_it_is_asked_for() {
    let set = set_of(2);
    let part_of = |own: &[(&str, &str)], template: &[(&str, &str)]| {
        desired_for(&OwnerFacts { set: Some(set.clone()), ..replica_set(own, template) }, None, None).part_of
    };
    assert_eq!(part_of(&[(MIN_MEMBER, "2")], &[]), Some(set.clone()));
    assert_eq!(part_of(&[], &[(MIN_MEMBER, "2")]), Some(set.clone()));
    let alone = OwnerFacts { set: Some(set_of(1)), ..replica_set(&[(MIN_MEMBER, "2")], &[]) };
    assert_eq!(desired_for(&alone, None, None).part_of, None, "the only owner of a set");
    assert_eq!(part_of(&[], &[]), None, "pods that need no gang");
    assert_eq!(part_of(&[(MIN_MEMBER, "1")], &[]), None, "a gang of one pod");
    assert_eq!(with(MIN_MEMBER, "2").part_of, None, "an owner of no set");
}

#[test]
fn a_replica_set_without_annotations_gets_min_member_1() {
    let desired = desired_for(&replica_set(&[], &[]), None, None);
    let fields = Applied {
        min_member: 1,
        asked: None,
        min_resources: BTreeMap::from([("cpu".into(), "2".into())]),
        queue: "default".into(),
        scheduler: Some("ours".into()),
        priority_class: Some("high".into()),
        annotations: BTreeMap::new(),
    };
    assert_eq!(desired.intent, Intent { group: GroupKey::generated("ns", RS), owner: object("ReplicaSet", RS), fields });
    assert!(desired.wants_pods && desired.faults.is_empty() && desired.event_target == object("ReplicaSet", RS));
}

#[test]
fn no_podgroup_is_created_for_a_deleted_owner_a_named_group_or_another_scheduler() {
    let ours = ["ours".to_owned()];
    let of = |facts: OwnerFacts| intend(&facts, None, &NamespaceQueue::Unsaid, &ours).is_some();
    assert!(of(replica_set(&[], &[])));
    assert!(!of(OwnerFacts { deleting: true, ..replica_set(&[], &[]) }), "it is being deleted");
    assert!(!of(OwnerFacts { named_group: true, ..replica_set(&[], &[]) }), "its template names a PodGroup");
    assert!(!of(OwnerFacts { scheduler: Arc::from("default-scheduler"), ..replica_set(&[], &[]) }), "another scheduler");
}

#[test]
fn the_annotations_of_the_deployment_count_and_not_their_copies_on_the_replica_set() {
    let copied = [(QUEUE_NAME, "copy"), (MIN_MEMBER, "3"), ("volcano.sh/x", "copy")];
    let template = [(QUEUE_NAME, "template"), ("volcano.sh/y", "template")];
    let queue = |deployment: Option<&DeploymentFacts>, template: &[(&str, &str)], namespace| {
        desired_for(&replica_set(&copied, template), deployment, namespace).intent.fields.queue
    };
    let (named, bare) = (deployment(&[(QUEUE_NAME, "deployment")], 4), deployment(&[], 4));
    assert_eq!(queue(Some(&named), &template, Some("namespace")), "deployment");
    assert_eq!(queue(Some(&bare), &template, Some("namespace")), "template", "the removal of an annotation is followed");
    assert_eq!(queue(Some(&bare), &[], Some("namespace")), "namespace");
    assert_eq!(queue(Some(&bare), &[], None), "default");
    assert_eq!(queue(None, &template, Some("namespace")), "copy", "without a Deployment its own annotation counts");
    let fields = desired_for(&replica_set(&copied, &template), Some(&bare), None).intent.fields;
    assert_eq!((fields.min_member, fields.annotations.len()), (1, 0), "the copies do not count");
    let alone = desired_for(&replica_set(&copied, &template), None, None).intent.fields;
    assert_eq!(alone.annotations, annotations(&[("volcano.sh/x", "copy")]), "only annotations of the owner are copied");
    let of_it = OwnerFacts { parent: Some(object("Deployment", "d")), ..replica_set(&[], &[]) };
    assert_eq!(desired_for(&of_it, Some(&bare), None).event_target, object("Deployment", "d"), "people edit the Deployment");
}

#[test]
fn the_min_member_of_the_owner_counts_before_that_of_the_template() {
    let desired = desired_for(&replica_set(&[(MIN_MEMBER, "2")], &[(MIN_MEMBER, "3")]), None, None);
    assert_eq!(desired.intent.fields.min_member, 2);
    assert_eq!(desired_for(&replica_set(&[], &[(MIN_MEMBER, "3")]), None, None).intent.fields.min_member, 3);
}

#[test]
fn a_min_member_that_is_not_a_positive_32_bit_number_is_1_and_a_fault() {
    for text in ["0", "-1", "x", "", " 2", "2147483648", "4.0", "0x4", "99999999999999999999"] {
        let desired = with(MIN_MEMBER, text);
        assert_eq!((desired.intent.fields.min_member, desired.intent.fields.asked), (1, None), "{text:?}");
        assert_eq!(desired.faults.iter().map(|fault| fault.place.as_str()).collect::<Vec<_>>(), [MIN_MEMBER], "{text:?}");
    }
}

#[test]
fn min_member_is_at_most_what_the_owner_wants_now_and_the_asked_value_is_stored() {
    // asked, replicas of the ReplicaSet, replicas of the Deployment; expected: minMember, stored value, fault.
    let table = [
        ("4", 4, 4, 4, None, false),
        ("4", 1, 4, 1, Some(4), false), // the new ReplicaSet of a rolling update
        ("4", 5, 5, 4, None, false),
        ("4", 0, 4, 1, Some(4), false),
        ("4", 0, 0, 1, Some(4), false),
        ("5", 4, 4, 4, Some(5), true),
        ("2000000000", 4, 4, 4, Some(2_000_000_000), true),
        ("2147483647", 4, 4, 4, Some(2_147_483_647), true),
    ];
    for (asked, wants, in_all, min_member, stored, fault) in table {
        let facts = OwnerFacts {
            wants_pods: wants > 0,
            gang: Gang::UpTo { now: wants, in_all: wants, completions: None },
            ..replica_set(&[], &[])
        };
        let desired = desired_for(&facts, Some(&deployment(&[(MIN_MEMBER, asked)], in_all)), None);
        let fields = &desired.intent.fields;
        assert_eq!((fields.min_member, fields.asked, !desired.faults.is_empty()), (min_member, stored, fault), "{asked} {wants} {in_all}");
        assert_eq!(desired.wants_pods, wants > 0);
        let cpus = format!("{}", 2 * min_member);
        assert_eq!(fields.min_resources.get("cpu"), Some(&cpus), "{asked} {wants} {in_all}: minResources follow minMember");
    }
}

#[test]
fn unreadable_min_resources_are_a_fault_and_the_requests_of_the_pods_are_used() {
    for text in [
        "",
        "x",
        "[]",
        "1",
        "{\"cpu\":true}",
        "{\"cpu\":1.5}",
        "{\"cpu\":\"1x\"}",
        "{\"cpu\":\"-1\"}",
        "{\"cpu\":\"1e99\"}",
        "{\"cpu\":{}}",
    ] {
        let desired = with(MIN_RESOURCES, text);
        assert_eq!(desired.intent.fields.min_resources, BTreeMap::from([("cpu".into(), "2".into())]), "{text:?}");
        assert_eq!(desired.faults.len(), 1, "{text:?}: {:?}", desired.faults);
        assert!(desired.faults[0].why.ends_with("; the pods' own requests are used"), "{}", desired.faults[0]);
    }
    let asked = with(MIN_RESOURCES, r#"{"cpu": 3, "memory": "1Gi", "nvidia.com/gpu": "2"}"#);
    let expected: Vec<(&str, &str)> = vec![("cpu", "3"), ("memory", "1Gi"), ("nvidia.com/gpu", "2")];
    let shown: Vec<_> = asked.intent.fields.min_resources.iter().map(|(name, amount)| (name.as_str(), amount.as_str())).collect();
    assert_eq!((shown, asked.faults.len()), (expected, 0));
    assert!(with(MIN_RESOURCES, "{}").intent.fields.min_resources.is_empty(), "empty minResources are allowed");
}

#[test]
fn an_invalid_queue_name_is_a_fault_and_the_default_queue_is_used() {
    let long = "a".repeat(254);
    for name in ["", "Train", "a_b", "-a", "a-", "a..b", ".a", "a.", "a b", "ü", long.as_str()] {
        let desired = with(QUEUE_NAME, name);
        assert_eq!((desired.intent.fields.queue.as_str(), desired.faults.len()), ("default", 1), "{name:?}");
    }
    for name in ["a", "0", "team-a.train", &"a".repeat(253)] {
        let desired = with(QUEUE_NAME, name);
        assert_eq!((desired.intent.fields.queue.as_str(), desired.faults.len()), (name, 0));
    }
}

#[test]
fn copied_annotations_are_bounded_and_one_fault_reports_it() {
    let big = "x".repeat(40 * 1024);
    let desired = desired_for(
        &replica_set(&[("volcano.sh/a", &big), ("volcano.sh/b", &big), ("volcano.sh/c", "c"), ("volcano.sh/d", &big)], &[]),
        None,
        None,
    );
    assert_eq!(desired.intent.fields.annotations.keys().collect::<Vec<_>>(), ["volcano.sh/a", "volcano.sh/c"]);
    assert_eq!(desired.faults.len(), 1, "one fault, however many do not fit: {:?}", desired.faults);
    assert!(desired.faults.iter().all(|fault| fault.to_string().len() < 500));
}

#[test]
fn the_applied_annotation_fits_into_the_annotations_of_an_object() {
    let control = "\u{1}".repeat(50_000);
    let names: Vec<String> = (0..65).map(|number| format!("\"example.com/{number}\":\"1\"")).collect();
    let many = format!("{{{}}}", names.join(","));
    for (key, value) in [("volcano.sh/x", control.as_str()), (MIN_RESOURCES, many.as_str())] {
        let desired = with(key, value);
        assert_eq!(desired.faults.len(), 1, "{key}");
        let applied = serde_json::to_string(&desired.intent.fields).unwrap();
        assert!(applied.len() < 1000, "{key}: {} bytes", applied.len());
    }
    let few = format!("{{{}}}", names[..64].join(","));
    assert_eq!(with(MIN_RESOURCES, &few).intent.fields.min_resources.len(), 64);
}

#[test]
fn equal_facts_give_an_equal_desired_podgroup() {
    let facts = replica_set(&[(MIN_MEMBER, "x"), (QUEUE_NAME, "q"), ("volcano.sh/a", "1")], &[]);
    assert_eq!(desired_for(&facts, None, None), desired_for(&facts.clone(), None, None));
}

#[test]
fn pods_that_are_created_one_by_one_get_min_member_1_and_a_larger_value_is_a_fault() {
    let of = |asked: &str| desired_for(&OwnerFacts { gang: Gang::One("because"), ..replica_set(&[(MIN_MEMBER, asked)], &[]) }, None, None);
    let desired = of("3");
    assert_eq!((desired.intent.fields.min_member, desired.intent.fields.asked), (1, Some(3)));
    assert_eq!(desired.faults, [Fault::new(MIN_MEMBER, "3", "because")]);
    assert_eq!(desired.intent.fields.min_resources.get("cpu").map(String::as_str), Some("2"));
    assert!(of("1").faults.is_empty() && of("1").intent.fields.asked.is_none());
}

#[test]
fn an_owner_with_an_unknown_number_of_pods_gets_the_min_member_that_it_asks_for() {
    let of = |pairs: &[(&str, &str)]| desired_for(&OwnerFacts { gang: Gang::Unknown, ..replica_set(pairs, &[]) }, None, Some("team"));
    let fields = of(&[(MIN_MEMBER, "9")]).intent.fields;
    assert_eq!((fields.min_member, fields.asked, fields.queue.as_str()), (9, None, "team"));
    assert_eq!(of(&[]).intent.fields.min_member, 1);
}
