//! Tests of the warnings and the objects that they are about.

use super::*;
use crate::api::{Fault, GroupKey, Uid};
use crate::lifecycle::existing::{Applied, Version};
use crate::lifecycle::intent::Intent;

fn object(kind: &str) -> ObjectRef {
    ObjectRef { kind: kind.into(), api_version: "apps/v1".into(), namespace: "ns".into(), name: "x".into(), uid: Uid::from(kind) }
}

fn desired(wants_pods: bool, faults: Vec<Fault>) -> DesiredGroup {
    let intent = Intent { group: GroupKey::new("ns", "podgroup-1"), owner: object("ReplicaSet"), fields: Applied::default() };
    DesiredGroup { intent, wants_pods, event_target: object("Deployment"), part_of: None, faults }
}

fn foreign(why: NotOurs) -> Existing {
    Existing::Foreign(Version { uid: Uid::from("g"), resource_version: "1".into() }, why)
}

fn reasons(desired: &DesiredGroup, existing: Option<&Existing>, refused: Option<&str>) -> Vec<&'static str> {
    warnings(desired, existing, refused, false).into_iter().map(|warning| warning.reason).collect()
}

#[test]
fn each_warning_is_about_the_object_that_people_edit() {
    let foreign = foreign(NotOurs::Unlabelled);
    let desired = desired(true, vec![Fault::new("a", "b", "c")]);
    assert_eq!(reasons(&desired, Some(&foreign), Some("no")), ["PodGroupNotOurs", "PodGroupRefused", "InvalidPodGroupSource"]);
    let messages = warnings(&desired, None, Some("because"), true);
    assert!(messages.iter().all(|warning| warning.about == object("Deployment")));
    assert!(messages.iter().any(|warning| warning.message.contains("podgroup-1") && warning.message.contains("because")));
    let deleted = messages.get(1).map(|warning| (warning.reason, warning.message.contains("delete PodGroup podgroup-1 again and again")));
    assert_eq!(deleted, Some(("PodGroupDeletedRepeatedly", true)));
}

#[test]
fn the_warning_about_a_foreign_podgroup_says_why_it_is_foreign() {
    let desired = desired(true, Vec::new());
    let messages =
        |why| warnings(&desired, Some(&foreign(why)), None, false).into_iter().map(|warning| warning.message).collect::<String>();
    for (why, words) in [
        (NotOurs::Unlabelled, "PodGroup podgroup-1 was not created by podgroup-controller;"),
        (NotOurs::OtherSchedulers, "PodGroup podgroup-1 is for a scheduler that this podgroup-controller does not serve;"),
        (NotOurs::Unreadable, "PodGroup podgroup-1 cannot be decoded;"),
    ] {
        assert!(messages(why).starts_with(words), "{}", messages(why));
    }
}

#[test]
fn a_gang_of_one_job_of_a_jobset_is_reported_with_the_way_to_one_gang() {
    let jobset = ObjectRef { name: "train".into(), ..object("JobSet") };
    let group = GroupKey::new("ns", "jobset-train-0");
    let set = OwnerSet { object: jobset, owners: 2, group, joins: false, index: 0, pods: 2, succeeded: None, born: None };
    let desired = DesiredGroup { part_of: Some(set), ..desired(true, Vec::new()) };
    let found = warnings(&desired, None, None, false);
    assert_eq!(found.iter().map(|warning| warning.reason).collect::<Vec<_>>(), ["GangOfOnePart"]);
    for part in ["JobSet train creates 2 such objects", "podgroup.dev/gang: jobset"] {
        assert!(found.iter().all(|warning| warning.message.contains(part)), "{found:?}");
    }
}

#[test]
fn faults_of_values_hide_no_warning_about_the_podgroup() {
    let jobset = ObjectRef { name: "train".into(), ..object("JobSet") };
    let set = OwnerSet {
        object: jobset,
        owners: 2,
        group: GroupKey::new("ns", "jobset-train-0"),
        joins: false,
        index: 0,
        pods: 2,
        succeeded: None,
        born: None,
    };
    let faults = (0..20).map(|number| Fault::new("a", &number.to_string(), "c")).collect();
    let desired = DesiredGroup { part_of: Some(set), ..desired(true, faults) };
    let found = warnings(&desired, Some(&foreign(NotOurs::Unlabelled)), Some("no"), true);
    let reasons: Vec<&str> = found.iter().map(|warning| warning.reason).collect();
    assert_eq!(reasons[..4], ["PodGroupNotOurs", "PodGroupRefused", "PodGroupDeletedRepeatedly", "GangOfOnePart"]);
    let values: Vec<&str> = found[4..].iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(values, ["a \"0\": c", "a \"1\": c", "a \"2\": c", "a \"3\": c"], "the first faults");
}

#[test]
fn the_same_fault_gives_the_same_warning() {
    let desired = desired(true, vec![Fault::new("a", "b", "c")]);
    assert_eq!(warnings(&desired, None, Some("no"), true), warnings(&desired, None, Some("no"), true));
}

#[test]
fn an_owner_that_wants_no_pods_gets_no_warning() {
    // The old ReplicaSets of a Deployment never change their templates. A fault that was corrected since must not be reported again.
    assert_eq!(reasons(&desired(false, vec![Fault::new("a", "b", "c")]), None, Some("no")), [""; 0]);
}

#[test]
fn a_number_at_the_end_is_no_news_and_another_value_is() {
    let of = |value: &str, wanted: u32| {
        let why = format!("more than the pods that are wanted; the gang is as large as they allow: {wanted}");
        warnings(&desired(true, vec![Fault::new("a", value, why)]), None, None, false)
    };
    assert_eq!(of("100", 4), of("100", 15), "otherwise an autoscaler causes an Event with every change");
    assert_ne!(of("100", 4), of("200", 4));
}
