//! Where each field of a PodGroup comes from, and what becomes of nonsense.

use std::sync::Arc;

use super::*;
use crate::api::Uid;
use crate::resources::Amount;

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
        gang: Gang::UpTo { now: 4, in_all: 4 },
        above: None,
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

fn deployment(own: &[(&str, &str)], wants: u32) -> DeploymentFacts {
    DeploymentFacts { uid: Uid::from("d"), namespace: "ns".into(), wants, annotations: annotations(own) }
}

fn wished(replica_set: &OwnerFacts, deployment: Option<&DeploymentFacts>, queue: Option<&str>) -> Wish {
    intend(replica_set, deployment, queue, &["other".into(), "ours".into()]).unwrap()
}

/// The intent of a ReplicaSet that has nothing but this annotation.
fn with(key: &str, value: &str) -> Wish {
    wished(&replica_set(&[(key, value)], &[]), None, None)
}

#[test]
fn a_replica_set_without_annotations_gets_a_group_of_one() {
    let wish = wished(&replica_set(&[], &[]), None, None);
    let fields = Applied {
        min_member: 1,
        asked: None,
        min_resources: BTreeMap::from([("cpu".into(), "2".into())]),
        queue: "default".into(),
        scheduler: Some("ours".into()),
        priority_class: Some("high".into()),
        annotations: BTreeMap::new(),
    };
    assert_eq!(wish.intent, Intent { group: GroupKey::generated("ns", RS), owner: object("ReplicaSet", RS), fields });
    assert!(wish.wants_pods && wish.faults.is_empty() && wish.told == object("ReplicaSet", RS));
}

#[test]
fn no_group_is_made_where_it_would_be_wrong() {
    let ours = ["ours".to_owned()];
    let of = |facts: OwnerFacts| intend(&facts, None, None, &ours).is_some();
    assert!(of(replica_set(&[], &[])));
    assert!(!of(OwnerFacts { deleting: true, ..replica_set(&[], &[]) }), "it is going");
    assert!(!of(OwnerFacts { named_group: true, ..replica_set(&[], &[]) }), "somebody names the group");
    assert!(!of(OwnerFacts { scheduler: Arc::from("default-scheduler"), ..replica_set(&[], &[]) }), "another scheduler's");
}

#[test]
fn the_deployment_counts_and_never_the_copy_on_its_replica_set() {
    let copied = [(QUEUE_NAME, "copy"), (MIN_MEMBER, "3"), ("volcano.sh/x", "copy")];
    let template = [(QUEUE_NAME, "template"), ("volcano.sh/y", "template")];
    let queue = |deployment: Option<&DeploymentFacts>, template: &[(&str, &str)], namespace| {
        wished(&replica_set(&copied, template), deployment, namespace).intent.fields.queue
    };
    let (named, bare) = (deployment(&[(QUEUE_NAME, "deployment")], 4), deployment(&[], 4));
    assert_eq!(queue(Some(&named), &template, Some("namespace")), "deployment");
    assert_eq!(queue(Some(&bare), &template, Some("namespace")), "template", "taking it away is followed");
    assert_eq!(queue(Some(&bare), &[], Some("namespace")), "namespace");
    assert_eq!(queue(Some(&bare), &[], None), "default");
    assert_eq!(queue(None, &template, Some("namespace")), "copy", "without a Deployment it is its own");
    let fields = wished(&replica_set(&copied, &template), Some(&bare), None).intent.fields;
    assert_eq!((fields.min_member, fields.annotations.len()), (1, 0), "absent is absent");
    let alone = wished(&replica_set(&copied, &template), None, None).intent.fields;
    assert_eq!(alone.annotations, annotations(&[("volcano.sh/x", "copy")]), "only the owner's are copied");
    let of_it = OwnerFacts { above: Some(object("Deployment", "d")), ..replica_set(&[], &[]) };
    assert_eq!(wished(&of_it, Some(&bare), None).told, object("Deployment", "d"), "people edit the Deployment");
}

#[test]
fn the_namespace_and_the_template_say_nothing_about_sizes_that_the_owner_says() {
    let wish = wished(&replica_set(&[(MIN_MEMBER, "2")], &[(MIN_MEMBER, "3")]), None, None);
    assert_eq!(wish.intent.fields.min_member, 2);
    assert_eq!(wished(&replica_set(&[], &[(MIN_MEMBER, "3")]), None, None).intent.fields.min_member, 3);
}

#[test]
fn a_size_that_is_no_positive_32_bit_number_is_one_and_told() {
    for text in ["0", "-1", "x", "", " 2", "2147483648", "4.0", "0x4", "99999999999999999999"] {
        let wish = with(MIN_MEMBER, text);
        assert_eq!((wish.intent.fields.min_member, wish.intent.fields.asked), (1, None), "{text:?}");
        assert_eq!(wish.faults.iter().map(|fault| fault.place.as_str()).collect::<Vec<_>>(), [MIN_MEMBER], "{text:?}");
    }
}

#[test]
fn the_size_in_force_is_what_the_owner_wants_now_at_most_and_what_was_asked_is_kept() {
    // asked, what the ReplicaSet wants, what the Deployment wants; in force, kept, told.
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
    for (asked, wants, in_all, in_force, kept, told) in table {
        let facts = OwnerFacts { wants_pods: wants > 0, gang: Gang::UpTo { now: wants, in_all: wants }, ..replica_set(&[], &[]) };
        let wish = wished(&facts, Some(&deployment(&[(MIN_MEMBER, asked)], in_all)), None);
        let fields = &wish.intent.fields;
        assert_eq!((fields.min_member, fields.asked, !wish.faults.is_empty()), (in_force, kept, told), "{asked} {wants} {in_all}");
        assert_eq!(wish.wants_pods, wants > 0);
        let cpus = format!("{}", 2 * in_force);
        assert_eq!(fields.min_resources.get("cpu"), Some(&cpus), "{asked} {wants} {in_all}: minResources follow the size in force");
    }
}

#[test]
fn a_complaint_about_the_size_does_not_change_with_every_replica() {
    let faults = |wants| wished(&replica_set(&[], &[]), Some(&deployment(&[(MIN_MEMBER, "100")], wants)), None).faults;
    assert_eq!(faults(4), faults(5), "or an autoscaler makes an Event with every change");
}

#[test]
fn min_resources_that_cannot_be_read_are_told_and_the_pods_own_count() {
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
        let wish = with(MIN_RESOURCES, text);
        assert_eq!(wish.intent.fields.min_resources, BTreeMap::from([("cpu".into(), "2".into())]), "{text:?}");
        assert_eq!(wish.faults.len(), 1, "{text:?}: {:?}", wish.faults);
    }
    let asked = with(MIN_RESOURCES, r#"{"cpu": 3, "memory": "1Gi", "nvidia.com/gpu": "2"}"#);
    let expected: Vec<(&str, &str)> = vec![("cpu", "3"), ("memory", "1Gi"), ("nvidia.com/gpu", "2")];
    let shown: Vec<_> = asked.intent.fields.min_resources.iter().map(|(name, amount)| (name.as_str(), amount.as_str())).collect();
    assert_eq!((shown, asked.faults.len()), (expected, 0));
    assert!(with(MIN_RESOURCES, "{}").intent.fields.min_resources.is_empty(), "nothing at all may be asked for");
}

#[test]
fn a_queue_that_could_be_nobodys_name_is_told_and_the_default_is_used() {
    let long = "a".repeat(254);
    for name in ["", "Train", "a_b", "-a", "a-", "a..b", ".a", "a.", "a b", "ü", long.as_str()] {
        let wish = with(QUEUE_NAME, name);
        assert_eq!((wish.intent.fields.queue.as_str(), wish.faults.len()), ("default", 1), "{name:?}");
    }
    for name in ["a", "0", "team-a.train", &"a".repeat(253)] {
        let wish = with(QUEUE_NAME, name);
        assert_eq!((wish.intent.fields.queue.as_str(), wish.faults.len()), (name, 0));
    }
}

#[test]
fn copied_annotations_are_bounded_and_one_fault_says_so() {
    let big = "x".repeat(40 * 1024);
    let wish = wished(
        &replica_set(&[("volcano.sh/a", &big), ("volcano.sh/b", &big), ("volcano.sh/c", "c"), ("volcano.sh/d", &big)], &[]),
        None,
        None,
    );
    assert_eq!(wish.intent.fields.annotations.keys().collect::<Vec<_>>(), ["volcano.sh/a", "volcano.sh/c"]);
    assert_eq!(wish.faults.len(), 1, "one fault, however many do not fit: {:?}", wish.faults);
    assert!(wish.faults.iter().all(|fault| fault.to_string().len() < 500));
}

#[test]
fn what_is_remembered_fits_into_the_annotations_of_an_object() {
    let control = "\u{1}".repeat(50_000);
    let names: Vec<String> = (0..65).map(|number| format!("\"example.com/{number}\":\"1\"")).collect();
    let many = format!("{{{}}}", names.join(","));
    for (key, value) in [("volcano.sh/x", control.as_str()), (MIN_RESOURCES, many.as_str())] {
        let wish = with(key, value);
        assert_eq!(wish.faults.len(), 1, "{key}");
        let remembered = serde_json::to_string(&wish.intent.fields).unwrap();
        assert!(remembered.len() < 1000, "{key}: {} bytes", remembered.len());
    }
    let few = format!("{{{}}}", names[..64].join(","));
    assert_eq!(with(MIN_RESOURCES, &few).intent.fields.min_resources.len(), 64);
}

#[test]
fn the_length_of_a_text_as_json_is_never_underestimated() {
    for text in ["", "plain", "\"\\", "\u{0}\u{1f}\n\t", "ü€", "a\u{7f}b"] {
        assert!(length_as_json(text) >= serde_json::to_string(text).unwrap().len(), "{text:?}");
    }
}

#[test]
fn the_same_facts_are_the_same_wish() {
    let facts = replica_set(&[(MIN_MEMBER, "x"), (QUEUE_NAME, "q"), ("volcano.sh/a", "1")], &[]);
    assert_eq!(wished(&facts, None, None), wished(&facts.clone(), None, None));
}

#[test]
fn pods_that_cannot_wait_for_each_other_are_a_gang_of_one_and_more_is_told() {
    let of = |asked: &str| wished(&OwnerFacts { gang: Gang::One("because"), ..replica_set(&[(MIN_MEMBER, asked)], &[]) }, None, None);
    let wish = of("3");
    assert_eq!((wish.intent.fields.min_member, wish.intent.fields.asked), (1, Some(3)));
    assert_eq!(wish.faults, [Fault::new(MIN_MEMBER, "3", "because")]);
    assert_eq!(wish.intent.fields.min_resources.get("cpu").map(String::as_str), Some("2"));
    assert!(of("1").faults.is_empty() && of("1").intent.fields.asked.is_none());
}

#[test]
fn where_nothing_says_how_many_are_wanted_what_is_asked_for_is_believed() {
    let of = |pairs: &[(&str, &str)]| wished(&OwnerFacts { gang: Gang::Unknown, ..replica_set(pairs, &[]) }, None, Some("team"));
    let fields = of(&[(MIN_MEMBER, "9")]).intent.fields;
    assert_eq!((fields.min_member, fields.asked, fields.queue.as_str()), (9, None, "team"));
    assert_eq!(of(&[]).intent.fields.min_member, 1);
}
