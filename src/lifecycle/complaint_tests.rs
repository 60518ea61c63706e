//! People are told on the object that they edit, and only while it matters.

use super::*;
use crate::api::{Fault, GroupKey, Uid};
use crate::lifecycle::existing::{Applied, Version};
use crate::lifecycle::intent::Intent;

fn object(kind: &str) -> ObjectRef {
    ObjectRef { kind: kind.into(), api_version: "apps/v1".into(), namespace: "ns".into(), name: "x".into(), uid: Uid::from(kind) }
}

fn wish(wants_pods: bool, faults: Vec<Fault>) -> Wish {
    let intent = Intent { group: GroupKey::new("ns", "podgroup-1"), owner: object("ReplicaSet"), fields: Applied::default() };
    Wish { intent, wants_pods, told: object("Deployment"), faults }
}

fn foreign(why: NotOurs) -> Existing {
    Existing::Foreign(Version { uid: Uid::from("g"), resource_version: "1".into() }, why)
}

fn reasons(wish: &Wish, existing: Option<&Existing>, refused: Option<&str>) -> Vec<&'static str> {
    complaints(wish, existing, refused).into_iter().map(|complaint| complaint.reason).collect()
}

#[test]
fn each_trouble_is_told_on_the_object_that_people_edit() {
    let foreign = foreign(NotOurs::Unlabelled);
    let wish = wish(true, vec![Fault::new("a", "b", "c")]);
    assert_eq!(reasons(&wish, Some(&foreign), Some("no")), ["InvalidPodGroupSource", "PodGroupNotOurs", "PodGroupRefused"]);
    let told = complaints(&wish, None, Some("because"));
    assert!(told.iter().all(|complaint| complaint.about == object("Deployment")));
    assert!(told.iter().any(|complaint| complaint.message.contains("podgroup-1") && complaint.message.contains("because")));
}

#[test]
fn why_a_group_is_not_ours_is_told_as_it_is() {
    let wish = wish(true, Vec::new());
    let told = |why| complaints(&wish, Some(&foreign(why)), None).into_iter().map(|complaint| complaint.message).collect::<String>();
    for (why, words) in [
        (NotOurs::Unlabelled, "PodGroup podgroup-1 was not made by podgroup-controller;"),
        (NotOurs::OtherSchedulers, "PodGroup podgroup-1 is kept for a scheduler that this podgroup-controller does not serve;"),
        (NotOurs::Unreadable, "PodGroup podgroup-1 cannot be decoded,"),
    ] {
        assert!(told(why).starts_with(words), "{}", told(why));
    }
}

#[test]
fn the_same_trouble_is_the_same_complaint() {
    let wish = wish(true, vec![Fault::new("a", "b", "c")]);
    assert_eq!(complaints(&wish, None, Some("no")), complaints(&wish, None, Some("no")));
}

#[test]
fn an_owner_that_wants_no_pods_is_silent() {
    // The old ReplicaSets of a Deployment keep the annotations of their templates for ever; what was mended since is not told again.
    assert_eq!(reasons(&wish(false, vec![Fault::new("a", "b", "c")]), None, Some("no")), [""; 0]);
}
