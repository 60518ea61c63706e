//! Tests that a written PodGroup is read back unchanged, and that an amendment contains only the differences.

use proptest::prelude::*;

use super::*;
use crate::api::GroupKey;
use crate::api::workload::ObjectRef;
use crate::controller::merge_patch_tests::merge;

const OWNER: &str = "0a1b2c3d-0000-1111-2222-333344445555";

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn intent(fields: Applied) -> Intent {
    let owner = ObjectRef {
        kind: "ReplicaSet".into(),
        api_version: "apps/v1".into(),
        namespace: "ns".into(),
        name: "rs".into(),
        uid: Uid::from(OWNER),
    };
    Intent { group: GroupKey::generated("ns", OWNER), owner, fields }
}

fn fields() -> Applied {
    Applied {
        min_member: 3,
        asked: Some(5),
        min_resources: map(&[("cpu", "6"), ("memory", "3Gi")]),
        queue: "team".into(),
        scheduler: Some("ours".into()),
        priority_class: Some("high".into()),
        annotations: map(&[("volcano.sh/a", "1")]),
    }
}

fn on() -> Version {
    Version { uid: Uid::from("g"), resource_version: "7".into() }
}

/// Returns the object as the API server stores it.
fn stored(intent: &Intent) -> Value {
    let mut object = serde_json::to_value(object(intent)).unwrap();
    merge(&mut object, &json!({ "metadata": { "uid": "g", "resourceVersion": "7" } }));
    object
}

fn read(object: &Value) -> Existing {
    existing(&serde_json::from_value(object.clone()).unwrap(), &["ours".to_owned()])
}

#[test]
fn the_created_object_contains_every_field_of_the_intent_and_no_other() {
    let expected = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": format!("podgroup-{OWNER}"),
            "namespace": "ns",
            "labels": { "podgroup.dev/managed-by": "podgroup-controller" },
            "annotations": {
                "volcano.sh/a": "1",
                "podgroup.dev/asked-min-member": "5",
                "podgroup.dev/applied": serde_json::to_string(&fields()).unwrap(),
            },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": OWNER, "controller": true }],
        },
        "spec": { "minMember": 3, "minResources": { "cpu": "6", "memory": "3Gi" }, "priorityClassName": "high", "queue": "team" },
    });
    assert_eq!(serde_json::to_value(object(&intent(fields()))).unwrap(), expected);
}

#[test]
fn a_written_podgroup_is_read_back() {
    let ours = Ours { version: on(), retiring: false, terminating: false, owner: Some(Uid::from(OWNER)), applied: Some(fields()) };
    let object = stored(&intent(fields()));
    assert_eq!(read(&object), Existing::Ours(ours.clone()));
    let cases = [
        (json!({ "metadata": { "annotations": { RETIRING: "true" } } }), Ours { retiring: true, ..ours.clone() }),
        (json!({ "metadata": { "annotations": { RETIRING: "" } } }), Ours { retiring: true, ..ours.clone() }),
        (json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), Ours { terminating: true, ..ours.clone() }),
        (json!({ "metadata": { "ownerReferences": null } }), Ours { owner: None, ..ours.clone() }),
        (
            json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x" }] } }),
            Ours { owner: None, ..ours.clone() },
        ),
        (json!({ "spec": { "queue": "an admin's", "minMember": 99 }, "status": { "phase": "Running" } }), ours),
    ];
    for (change, expected) in cases {
        let mut changed = object.clone();
        merge(&mut changed, &change);
        assert_eq!(read(&changed), Existing::Ours(expected), "{change}");
    }
}

#[test]
fn a_podgroup_without_the_label_of_the_controller_is_foreign() {
    for label in [json!(null), json!("another-controller"), json!("")] {
        let mut object = stored(&intent(fields()));
        merge(&mut object, &json!({ "metadata": { "labels": { MANAGED_BY: label } } }));
        assert_eq!(read(&object), Existing::Foreign(on(), NotOurs::Unlabelled), "{label}");
    }
}

#[test]
fn a_podgroup_of_another_scheduler_is_foreign() {
    let of = |scheduler: Option<&str>| read(&stored(&intent(Applied { scheduler: scheduler.map(str::to_owned), ..fields() })));
    assert_eq!(of(Some("another")), Existing::Foreign(on(), NotOurs::OtherSchedulers), "the watches do not show its members");
    assert!(matches!(of(Some("ours")), Existing::Ours(_)));
    assert!(matches!(of(None), Existing::Ours(_)), "older versions did not write the scheduler");
}

/// Returns the fields that count as last written when the annotation `podgroup.dev/applied` has this value.
fn unreadable(object: &Value, garbled: &Value) -> Option<Applied> {
    let mut object = object.clone();
    merge(&mut object, &json!({ "metadata": { "annotations": { APPLIED: garbled } } }));
    if let Existing::Ours(ours) = read(&object) { ours.applied } else { None }
}

#[test]
fn an_unreadable_applied_annotation_makes_the_amendment_write_every_field_and_remove_every_left_over_key() {
    for garbled in [json!(null), json!("{\"minMember\":-1}")] {
        let mut object = stored(&intent(fields()));
        merge(&mut object, &json!({ "spec": { "minMember": 9, "queue": "an admin's", "minResources": { "nvidia.com/gpu": 8 } } }));
        let before = unreadable(&object, &garbled);
        assert_ne!(before, Some(fields()));
        merge(&mut object, &amendment(&on(), before.as_ref(), &intent(fields()), false));
        assert_eq!(object, stored(&intent(fields())), "{garbled}");
    }
}

#[test]
fn an_amendment_contains_only_changed_fields_and_the_version_that_it_is_computed_from() {
    let mut to = fields();
    to.queue = "other".into();
    let applied = serde_json::to_string(&to).unwrap();
    let metadata = json!({ "uid": "g", "resourceVersion": "7", "annotations": { APPLIED: applied } });
    assert_eq!(amendment(&on(), Some(&fields()), &intent(to), false), json!({ "metadata": metadata, "spec": { "queue": "other" } }));
}

#[test]
fn an_amendment_removes_fields_that_are_no_longer_wanted() {
    let to = Applied { min_member: 5, queue: "team".into(), min_resources: map(&[("cpu", "6")]), ..Applied::default() };
    let patch = amendment(&on(), Some(&fields()), &intent(to), false);
    assert_eq!(patch["spec"], json!({ "minMember": 5, "minResources": { "memory": null }, "priorityClassName": null }));
    assert_eq!(patch["metadata"]["annotations"]["volcano.sh/a"], Value::Null);
    assert!(patch["metadata"]["annotations"].as_object().unwrap().contains_key("volcano.sh/a"), "null, not absent");
    assert_eq!(patch["metadata"]["annotations"].as_object().unwrap().get(ASKED_MIN_MEMBER), Some(&Value::Null));
    let nothing = amendment(&on(), Some(&fields()), &intent(Applied { min_resources: BTreeMap::new(), ..fields() }), false);
    assert_eq!(nothing["spec"], json!({ "minResources": null }), "an empty map would mean something else");
}

#[test]
fn a_field_that_an_admin_set_stays_until_its_source_changes() {
    let mut object = stored(&intent(fields()));
    merge(&mut object, &json!({ "spec": { "queue": "admin", "minResources": { "cpu": "100" }, "minTaskMember": { "w": 2 } } }));
    let to = Applied { min_member: 4, ..fields() };
    merge(&mut object, &amendment(&on(), Some(&fields()), &intent(to.clone()), false));
    assert_eq!(
        (&object["spec"]["queue"], &object["spec"]["minResources"]["cpu"], &object["spec"]["minMember"]),
        (&json!("admin"), &json!("100"), &json!(4))
    );
    let next = Applied { queue: "next".into(), ..to.clone() };
    merge(&mut object, &amendment(&on(), Some(&to), &intent(next), false));
    assert_eq!((&object["spec"]["queue"], &object["spec"]["minTaskMember"]), (&json!("next"), &json!({ "w": 2 })));
}

#[test]
fn the_owner_reference_is_written_only_for_an_adoption() {
    let adopted = amendment(&on(), Some(&fields()), &intent(fields()), true);
    assert_eq!(adopted["metadata"]["ownerReferences"], stored(&intent(fields()))["metadata"]["ownerReferences"]);
    assert!(amendment(&on(), None, &intent(fields()), false)["metadata"].get("ownerReferences").is_none());
}

#[test]
fn the_patch_of_the_mark_contains_its_version_and_nothing_else() {
    for (retiring, value) in [(true, json!("true")), (false, Value::Null)] {
        let expected = json!({ "metadata": { "uid": "g", "resourceVersion": "7", "annotations": { "podgroup.dev/retiring": value } } });
        assert_eq!(mark(&on(), retiring), expected);
    }
}

fn any_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("volcano\\.sh/[ab]", "[12]", 0..3)
}

prop_compose! {
    fn any_fields()(
        min_member in 1..4_u32, asked in proptest::option::of(1..4_u32), queue in "[ab]", priority_class in proptest::option::of("[ab]"),
        min_resources in proptest::collection::btree_map("cpu|memory", "[12]", 0..3), annotations in any_map(),
    ) -> Applied {
        Applied { min_member, asked, min_resources, queue, scheduler: None, priority_class, annotations }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(256) })]

    #[test]
    fn an_amended_podgroup_equals_a_newly_created_one(from in any_fields(), to in any_fields(), known in any::<bool>()) {
        let mut object = stored(&intent(from.clone()));
        let before = if known { Some(from) } else { unreadable(&object, &json!("garbled")) };
        merge(&mut object, &amendment(&on(), before.as_ref(), &intent(to.clone()), false));
        prop_assert_eq!(object, stored(&intent(to)));
    }
}
